"""Ranks that start late: at every fidelity, in every explanation, and exactly again."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.gpu import preset
from astranb.workload.jobs import starts_ps
from astranb.workload.models import Parallelism, workload

FIDELITIES = ("cacheline", "congestion", "analytical")
LATE = {3: "20 us"}


def made(fidelity, start=None, algorithm="ring", **rest):
    what = anb.collectives.all_reduce("64 KiB", algorithm)
    return anb.Simulation("dgx-h100", what, fidelity=fidelity, start=start, **rest)


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_a_late_rank_is_the_cause_in_every_explanation(fidelity):
    together, late = made(fidelity), made(fidelity, LATE)
    together.run()
    late.run(until="10 us")
    for path in ("", "gpu[3]" if fidelity == "cacheline" else "rank[3]"):
        why = late.why(path)
        assert why.links[-1].text.endswith("has not begun: its rank starts late, at 20 µs") or (
            why.links[-1].text == "rank 3 has not begun: it starts late, at 20 µs"
        )
    late.run()
    took = late.result.time_ps
    most_ps = together.result.time_ps + 20_000_000
    if fidelity == "cacheline":  # a poll looks at other moments: one more for each hop at most
        gpu = preset("h100-sxm")
        most_ps += 14 * (2 * gpu.noc_ps + gpu.l2_ps + gpu.poll_ps)
    assert 20_000_000 < took <= most_ps
    path = late.critical_path()
    assert path.by_cause()["started late"] == 20_000_000
    assert sum(path.by_cause().values()) == took
    assert path.segments[0].rank == 3
    lost = late.lost_time()
    blocks = lost["blocks"][3] if "blocks" in lost else 1
    assert lost["started_late_ps"].tolist() == [0, 0, 0, 20_000_000 * blocks, 0, 0, 0, 0]
    causes = lost[[name for name in lost if name.endswith("_ps") and name != "time_ps"]]
    assert (causes.sum(axis=1) == lost["time_ps"]).all()
    assert (causes >= 0).all(axis=None)
    parts = late.result.breakdown()
    assert sum(parts.values()) == pytest.approx(1)
    ends = late.result.to_dataframe("ranks")["end_ps"].sum()
    assert parts["started late"] == pytest.approx(
        20e6 / (8 * took if fidelity == "cacheline" else ends), rel=1e-3
    )
    assert "started late" in late.result.explain()
    assert "started late" not in together.result.breakdown()


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("until", ["10 us", None])
def test_a_trace_for_perfetto_shows_the_late_rank(fidelity, until, tmp_path):
    sim = made(fidelity, LATE)
    sim.run(until=until)
    sim.result.to_perfetto(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    late = [event for event in events if event["ph"] == "X" and event["name"] == "started late"]
    lanes = np.count_nonzero(sim.engine.machine.blocks["gpu"] == 3) if fidelity == "cacheline" else 1
    assert len(late) == lanes
    until_ps = 20_000_000 if until is None else sim.now_ps
    for event in late:
        assert event["pid"] == 4
        assert (event["args"]["start_ps"], event["args"]["end_ps"]) == (0, until_ps)
    tracks = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in late} <= tracks
    others = [event for event in events if event["ph"] == "X" and event["pid"] == 4 and event not in late]
    assert all(event["args"]["start_ps"] >= until_ps for event in others)


def test_time_by_line_knows_the_late_rank():
    sim = made("cacheline", LATE)
    sim.run()
    blocks = sim.engine.machine.blocks
    frame = sim.result.by_line()
    assert frame["block_ps"].sum() == len(blocks) * sim.result.time_ps
    assert frame["started_late_ps"].tolist() == [
        *[0] * (len(frame) - 1),
        20_000_000 * np.count_nonzero(blocks["gpu"] == 3),
    ]


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_a_late_start_is_saved_forked_and_replayed(fidelity, tmp_path):
    sim = made(fidelity, [0, "1 us", 0, "20 us", 0, 0, "300 ns", 0])
    sim.run()
    end = sim.state_hash()
    sim.save(tmp_path / "late")
    loaded = anb.Simulation.load(tmp_path / "late")
    assert loaded.state_hash() == end
    assert loaded.critical_path().by_cause() == sim.critical_path().by_cause()
    loaded.reset()
    loaded.run()
    sim.goto("10 us")
    fork = sim.fork()
    for one in (sim, fork):
        one.run()
    assert sim.state_hash() == fork.state_hash() == loaded.state_hash() == end
    assert made(fidelity).run().now_ps != sim.now_ps


def test_a_rebuilt_run_keeps_or_changes_the_start():
    sim = made("cacheline", LATE, record=False)
    sim.run()
    again, prompt = sim.rebuilt(), sim.rebuilt(start={})
    for one in (again, prompt):
        one.run()
    assert again.state_hash() == sim.state_hash()
    assert prompt.now_ps == made("cacheline").run().now_ps
    assert anb.compare(sim, prompt).table("causes")


@settings(max_examples=15, deadline=None)
@given(
    starts=st.lists(st.integers(0, 30_000_000), min_size=4, max_size=4),
    fidelity=st.sampled_from(FIDELITIES),
    algorithm=st.sampled_from(["ring", "allpairs"]),
)
def test_no_start_makes_a_run_faster_and_none_costs_more_than_the_latest(starts, fidelity, algorithm):
    def run(start):
        what = anb.collectives.all_reduce("4 KiB", algorithm)
        sim = anb.Simulation("switch:gpus=4", what, fidelity=fidelity, start=start, record=False)
        sim.run()
        return sim

    late, least = run(starts), run(None).result.time_ps
    took = late.result.time_ps
    assert took >= max(starts) - 1000  # messages count whole nanoseconds
    # Others that are ahead may have left less in the way, or more: within what the run itself takes.
    assert took <= max(starts) + 2 * least
    path = late.critical_path()
    assert sum(path.by_cause().values()) == took
    assert path.by_cause().get("started late", 0) <= max(starts) + 1000
    if fidelity == "cacheline":
        frame = late.result.by_line()
        assert frame["path_ps"].sum() == took
        assert frame["block_ps"].sum() == took * len(late.engine.machine.blocks)


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_a_workload_starts_late_too(fidelity):
    step = workload("gpt3-125m", Parallelism(data=2), batch=2)
    if fidelity == "cacheline":
        what = anb.Job(anb.collectives.all_reduce("64 KiB", "ring"), ranks=[0, 1, 2, 3], name="a")
        sim = anb.Simulation("dgx-h100", jobs=[what], fidelity=fidelity, start={2: "20 us"})
    else:
        sim = anb.Simulation("switch:gpus=2", step, fidelity=fidelity, start={1: "20 us"})
    sim.run()
    assert sim.critical_path().by_cause()["started late"] == 20_000_000
    assert np.count_nonzero(sim.lost_time()["started_late_ps"]) == 1


@pytest.mark.parametrize(
    "start, words",
    [
        ({8: "1 us"}, "unknown rank 8.*0 to 7"),
        ({-1: "1 us"}, "unknown rank -1"),
        ({"3": "1 us"}, "unknown rank '3'"),
        ({True: "1 us"}, "unknown rank True"),
        ({3: "-1 us"}, "start of rank 3.*negative"),
        ({3: "1 parsec"}, "start of rank 3"),
        ({3: "40 d"}, "start of rank 3"),
        ({3: "4000000 s"}, "26 days"),
        (["1 us"] * 7, "8 ranks need as many starts, got 7"),
        ("20 us", "write start="),
        (20, "write start="),
    ],
)
@pytest.mark.parametrize("fidelity", ["cacheline", "congestion"])
def test_a_start_that_cannot_be_is_refused(start, words, fidelity):
    with pytest.raises(InputError, match=words):
        made(fidelity, start)


def test_all_at_once_is_no_start():
    assert starts_ps([0] * 4, 4) == starts_ps({}, 4) == []
    assert made("cacheline", {1: 0}).engine.digest() == made("cacheline").engine.digest()


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_the_command_line_has_late_ranks(fidelity, capsys):
    run = [
        "run",
        "collective",
        "all_reduce",
        "--infra",
        "dgx-h100",
        "--size",
        "64KiB",
        "--algorithm",
        "ring",
    ]
    late = ["--start", "3@20us", "--start", "1@2us"]
    assert main([*run, "--fidelity", fidelity, *late, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    sim = made(fidelity, {3: "20 us", 1: "2 us"})
    sim.run()
    assert document["time_ps"] == sim.result.time_ps


@pytest.mark.parametrize(
    "option, words",
    [("3", "write it as 3@20us"), ("9@1us", "unknown rank 9"), ("x@1us", "RANK@TIME"), ("3@1", "no unit")],
)
def test_the_command_line_refuses_in_one_line(option, words, capsys):
    run = ["run", "collective", "all_reduce", "--infra", "dgx-h100", "--size", "64KiB"]
    assert main([*run, "--start", option]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
