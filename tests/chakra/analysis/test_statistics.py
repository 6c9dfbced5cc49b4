"""Breakdown of the time of a job's ranks, and why one job is slower than another."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import (
    ACTIVITIES,
    CollectiveType,
    LinkedJob,
    Node,
    NodeType,
    RecordedTracks,
    Trace,
    TraceBuilder,
    job_times,
    link_job,
    meetings,
    read_ranks,
    recorded_files,
    recorded_times,
    statistics,
    why_slower,
    write,
    write_job,
    write_timeline,
)
from astranb.cli import main
from astranb.core.errors import InputError

DATA = Path(__file__).resolve().parents[2] / "data"
SUM: dict[str, Any] = {"comm_type": int(CollectiveType.ALL_REDUCE), "comm_size": 4096}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, LinkedJob]]:
    """Two recorded jobs, linked, with the prefix of their traces."""
    found = {}
    for name in ("two", "four"):
        job = link_job(recorded_files(DATA / "recorded" / name))
        prefix = str(tmp_path_factory.mktemp(name) / name)
        write_job(job, prefix)
        found[name] = (prefix, job)
    return found


def _rank(*nodes: tuple[str, int, int, int]) -> Trace:
    """A rank of nodes: name, kind, start and duration in µs; on a device."""
    made = []
    for number, (name, kind, start, took) in enumerate(nodes):
        more: dict[str, Any] = {"stream": kind, **(SUM if kind == NodeType.COMM_COLL else {})}
        made.append(Node(number, name, kind, tuple(range(number))[-1:], (), start, took, more))
    return Trace.of(made)


def test_the_wait_for_the_last_rank_is_no_transfer():
    ranks = [_rank(("mm", 4, 1, late), ("sum", 7, 1 + late, 30 - late)) for late in (2, 10, 4)]
    met = meetings(ranks, job_times(ranks))
    assert met.wait_ns.tolist() == [8000, 0, 6000]
    assert met.transfer_ns.tolist() == [20_000] * 3
    found = statistics(ranks)
    assert [row["late_ns"] for row in found.skew] == [0, 8000, 2000]
    assert [row["last"] for row in found.skew] == [0, 1, 0]
    (row,) = found.communication
    assert (row["dimension"], row["count"], row["transfer_ns"], row["skew_ns"]) == ("all 3", 1, 20_000, 8000)
    # The path goes through the rank that came last: its computation, then the transfer.
    assert found.path.shares() | {"compute": 10_000, "communication": 20_000} == found.path.shares()
    assert found.path.length_ns == found.makespan_ns == 30_000
    assert found.makespan_ms == 0.03
    assert found.to_dataframe("skew", time="us")["late_us"].tolist() == [0, 8, 2]
    with pytest.raises(InputError, match="no table 'skews' of a job's statistics"):
        found.to_dataframe("skews")


def test_communication_behind_a_computation_is_not_exposed():
    rank = _rank(("sum", 7, 1, 10), ("mm", 4, 3, 4), ("Memcpy HtoD", 4, 9, 6))
    (row,) = statistics([rank]).by_rank
    times = [row[f"{name}_ns"] for name in ("compute", "communication", "memory", "idle", "overlapped")]
    assert times == [4000, 6000, 4000, 0, 4000]


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_all_time_of_every_rank_is_given_away_once(data):
    kinds = st.sampled_from([NodeType.COMP, NodeType.COMM_COLL, NodeType.MEM_LOAD])
    node = st.tuples(st.sampled_from("abc"), kinds, st.integers(1, 50), st.integers(0, 30))
    ranks = [_rank(*data.draw(st.lists(node, min_size=1, max_size=12))) for _ in range(3)]
    found = statistics(ranks)
    for row, when in zip(found.by_rank, found.times, strict=True):
        parts = [row[f"{name}_ns"] for name in (*ACTIVITIES, "idle")]
        assert sum(parts) == found.makespan_ns
        assert min(parts) >= 0
        # What is not idle is what any node covers, at any microsecond.
        covered = np.zeros(found.makespan_ns // 1000, bool)
        for start, end in zip(when.start_ns // 1000, when.end_ns // 1000, strict=True):
            covered[start:end] = True
        assert row["idle_ns"] == 1000 * int((~covered).sum())
        assert row["transfers_ns"] == row["communication_ns"] + row["overlapped_ns"]
    assert found.path.length_ns == found.makespan_ns
    assert (found.path.to_ns[1:] == found.path.from_ns[:-1]).all()
    assert sum(row["time_ns"] for row in found.operators) >= sum(row["shown_ns"] for row in found.operators)


def test_operators_of_all_layers_are_one():
    names = ("L0 fwd 1 mlp", "L12 fwd 0 mlp", "head 3", "gemm_128x64", "f<int, 4>(2, 3)")
    found = statistics(
        [Trace.of([Node(k, name, NodeType.COMP, duration_us=1) for k, name in enumerate(names)])]
    )
    assert [(row["name"], row["count"]) for row in found.operators] == [
        ("L# fwd # mlp", 2), ("f<int, 4>(2, 3)", 1), ("gemm_128x64", 1), ("head #", 1),
    ]  # fmt: skip


def test_the_breakdown_is_that_of_holistic_trace_analysis():
    document = json.loads((DATA / "hta_dlrm.json").read_text())
    for rank in document["ranks"]:
        kinds = (NodeType.COMP, NodeType.COMM_COLL, NodeType.COMP)
        nodes = [
            Node(
                number, "Memcpy" if kind == 2 else f"kernel {kind}", kinds[kind], (), (), start + 1, took,
                dict[str, Any](SUM if kind == 1 else {}, stream=stream),
            )
            for number, (start, took, stream, kind) in enumerate(rank["events"])
        ]  # fmt: skip
        found = statistics([Trace.of(nodes)])
        (row,), hta = found.by_rank, rank["hta"]
        us = {name: row[f"{name}_ns"] / 1000 for name in (*ACTIVITIES, "idle", "transfers", "overlapped")}
        assert us["compute"] == hta["compute_time(us)"]
        assert us["communication"] + us["memory"] + us["waiting"] == hta["non_compute_time(us)"]
        assert us["idle"] == hta["idle_time(us)"]
        assert found.makespan_ns / 1000 == hta["kernel_time(us)"]
        share = 100 * us["overlapped"] / us["transfers"]
        assert share == pytest.approx(hta["comp_comm_overlap_pctg"], abs=0.005)


def test_a_recorded_job_is_divided(jobs):
    _, job = jobs["four"]
    found = statistics(job.traces, groups=job.groups)
    for row in found.by_rank:
        assert sum(row[f"{name}_ns"] for name in (*ACTIVITIES, "idle")) == found.makespan_ns
    assert found.path.length_ns == found.makespan_ns
    assert found.path.shares()["waiting"] == 0
    # The waits are those that linking has found.
    for rank, trace in enumerate(job.traces):
        mine = found.meetings.rank == rank
        waits = trace.integers("wait_ns")[found.meetings.row[mine]]
        assert np.abs(found.meetings.wait_ns[mine] - waits).max() <= 2
    rows = [(row["dimension"], row["collective"], row["groups"], row["count"]) for row in found.dimensions]
    assert [row for row in rows if row[0] != "all 4"] == [
        ("2 x stride 1", "all_gather", 2, 2),
        ("2 x stride 1", "all_reduce", 2, 2),
        ("messages", "message", 1, 4),
    ]
    assert set(found.as_document()["critical_path"]) >= {"compute", "late start"}


def test_the_difference_of_two_jobs_adds_up(jobs):
    (_, two), (_, four) = jobs["two"], jobs["four"]
    counted = statistics(two.traces, groups=two.groups), statistics(four.traces, groups=four.groups)
    found = why_slower(two.traces, four.traces, counted)
    apart = counted[1].makespan_ns - counted[0].makespan_ns
    assert found["difference_ns"] == apart
    for rows in (found["activities"], found["modules"]):  # two and four ranks: floats are exact
        assert sum(Fraction(row["difference_ns"]) for row in rows) == apart
    modules = {row["module"]: row for row in found["modules"]}
    assert all(
        sum(map(Fraction, row["activities"].values())) == Fraction(row["difference_ns"])
        for row in found["modules"]
    )
    broadcast = modules["c10d::broadcast_"]  # of both steps, whatever their numbers
    assert (broadcast["nodes"], broadcast["only"]) == ([10, 20], [0, 10])
    assert not any("#2" in module for module in modules)
    assert modules["(idle)"]["nodes"] == [0, 0]


def test_a_slower_layer_is_named(tmp_path, capsys):
    for name, took in (("a", 10), ("b", 35)):
        step = TraceBuilder()
        last: list[int] = []
        for layer in range(4):
            last = [step.compute(f"L{layer} fwd 0 attn", duration_us=took if layer == 2 else 10, after=last)]
        write(step.build(), tmp_path / f"{name}.et")
    files = [str(tmp_path / "a.et"), str(tmp_path / "b.et")]
    assert main(["chakra", "compare", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["slower"]
    first = found["modules"][0]
    assert (first["module"], first["difference_ns"], first["activities"]) == (
        "L2 fwd", 25_000, {"compute": 25_000},
    )  # fmt: skip
    assert main(["chakra", "compare", *files]) == 0
    assert "0.040 ms and 0.065 ms: +0.025 ms (+62.5%)" in capsys.readouterr().out
    assert main(["chakra", "compare", *files, "--depth", "0"]) == 2
    assert "--depth" in capsys.readouterr().err


def test_one_trace_on_two_networks(tmp_path, capsys):
    for rank in range(2):
        step = TraceBuilder()
        forward = step.compute("forward", duration_us=7)
        step.collective("all_reduce", "1 MiB", after=forward)
        step.compute("backward", duration_us=9, after=forward)
        write(step.build(), tmp_path / f"t.{rank}.et")
    (tmp_path / "s.json").write_text('{"all-reduce-implementation": ["ring"]}')
    for name, speed in (("n.yml", 50), ("half.yml", 25)):
        text = f"topology: [Ring]\nnpus_count: [2]\nbandwidth: [{speed}]\nlatency: [500]\n"
        (tmp_path / name).write_text(text)
    more = ["--system", str(tmp_path / "s.json"), "--network", str(tmp_path / "n.yml")]
    files = [str(tmp_path / "t")] * 2
    slow = ["--second-network", str(tmp_path / "half.yml")]
    assert main(["chakra", "compare", *files, *more, *slow, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["same"]
    by_activity = {row["activity"]: row["difference_ns"] for row in found["slower"]["activities"]}
    assert by_activity["communication"] == found["slower"]["difference_ns"] > 0
    # What is exposed is what the simulator counts.
    assert main(["run", "trace", files[0], *more, "--json"]) == 0
    simulated = json.loads(capsys.readouterr().out)["per_rank"]
    assert main(["chakra", "statistics", files[0], *more, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["by_rank"]
    for row, one in zip(rows, simulated, strict=True):
        assert 1000 * row["compute_ns"] == one["compute_ps"]
        assert 1000 * (row["communication_ns"] + row["waiting_ns"]) == one["exposed_comm_ps"]
        assert 1000 * row["overlapped_ns"] == one["overlapped_comm_ps"] > 0
    assert main(["chakra", "statistics", files[0], "--system", more[1]]) == 2
    assert "--network is missing" in capsys.readouterr().err


def test_statistics_in_a_terminal_as_json_and_as_a_page(jobs, tmp_path, capsys):
    prefix, job = jobs["four"]
    page = tmp_path / "four.html"
    assert main(["chakra", "statistics", prefix, "--rows", "3", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "rank  compute  communication" in out
    assert "and 1 more (--rows, --json)" in out
    assert "2 x stride 1" in out or "more (--rows" in out
    text = page.read_text()
    assert "Content-Security-Policy" in text
    assert "rank 3: compute" in text
    assert main(["chakra", "statistics", prefix, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["by_rank"]) == len(job.traces) == 4
    assert main(["chakra", "statistics", prefix, "--rows", "0"]) == 2
    assert "--rows" in capsys.readouterr().err


def test_a_step_without_times_of_communication_says_so(tmp_path, capsys):
    step = TraceBuilder()
    step.collective("all_reduce", 1024, after=step.compute("forward", duration_us=3))
    write(step.build(), tmp_path / "t.et")
    assert main(["chakra", "statistics", str(tmp_path / "t.et")]) == 0
    assert "no communication has a duration" in capsys.readouterr().err


@pytest.mark.parametrize(
    "asked",
    [["timeline", "-o", "t.json.gz"], ["timeline", "-o", "t.html"], ["statistics", "--html", "t.html"]],
)
def test_nothing_is_pictured_where_nothing_takes_time(asked, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, gpu in (("untimed", []), ("timed", ["--gpu", "h100-sxm"])):
        assert main(["chakra", "generate", "--model", "gpt3-125m", "--tp", "2", "-o", name, *gpu]) == 0
    capsys.readouterr()
    verb, *output = asked
    assert main(["chakra", verb, "untimed", *output]) == 2
    said = capsys.readouterr().err
    assert "no operation has a duration" in said
    assert "--system FILE --network FILE" in said
    assert "--gpu" in said
    assert not Path(output[-1]).exists()
    assert main(["chakra", verb, "timed", *output]) == 0
    assert "no communication has a duration" in capsys.readouterr().err
    assert Path(output[-1]).exists()
    with pytest.raises(InputError, match="no operation has a duration"):
        RecordedTracks(read_ranks("untimed"))


def test_a_comparison_of_steps_without_times_says_so(tmp_path, capsys):
    for name, size in (("a", 1024), ("b", 2048)):
        step = TraceBuilder()
        step.collective("all_reduce", size, after=step.compute("forward", num_ops=9))
        write(step.build(), tmp_path / f"{name}.et")
    assert main(["chakra", "compare", *(str(tmp_path / f"{name}.et") for name in "ab")]) == 0
    assert capsys.readouterr().err.count("no operation has a duration") == 2


def test_a_timeline_has_tracks_arrows_and_what_is_exposed(jobs, tmp_path):
    _, job = jobs["four"]
    said = write_timeline(job.traces, job_times(job.traces), tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names >= {"thread 1", "thread 2"}
    starts = [event for event in events if event["ph"] == "s"]
    assert len(starts) == sum(event["ph"] == "f" for event in events) == said["arrows"] > 100
    assert {event["cat"] for event in starts} == {"dependency", "waited for"}
    found = statistics(job.traces)
    for row in found.by_rank:
        counted = [event["args"] for event in events if event["ph"] == "C" and event["pid"] == row["rank"]]
        assert counted[-1]["communication"] == pytest.approx(row["communication_ns"] / 1000)
        assert counted[-1]["waiting for ranks"] == pytest.approx(row["waiting_ns"] / 1000)
    by_track: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in events:
        if event["ph"] == "X":
            span = event["args"]["start_ps"], event["args"]["end_ps"]
            by_track.setdefault((event["pid"], event["tid"]), []).append(span)
    for spans in by_track.values():  # they nest or follow one another
        open_: list[int] = []
        for start, end in sorted(spans, key=lambda one: (one[0], -one[1])):
            while open_ and open_[-1] <= start:
                open_.pop()
            assert not open_ or end <= open_[-1]
            open_.append(end)


def test_a_timeline_of_nodes_that_wait_for_each_other_goes_on():
    nodes = [Node(0, "a", 4, (), duration_us=2)]
    nodes += [Node(1, "b", 4, (0, 2), duration_us=3), Node(2, "c", 4, (1,), duration_us=4)]
    when = recorded_times(Trace.of(nodes))
    assert when.how.endswith("2 nodes wait for a cycle: these in the file's order")
    assert when.start_ns.tolist() == [0, 2000, 5000]
    assert when.end_ns.tolist() == [2000, 5000, 9000]
