"""Faults of traces are counted, and repaired where that is clear."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest  # noqa: TC002
from hypothesis import example, given, settings
from hypothesis import strategies as st

from astranb.chakra import (
    Node,
    NodeType,
    Trace,
    TraceBuilder,
    check,
    faults,
    rank_faults,
    read,
    read_part,
    repaired,
    summary,
    write,
    write_ranks,
)
from astranb.cli import main
from astranb.core.errors import InputError

COMP = NodeType.COMP


def _said(trace: Trace) -> list[str]:
    return [one.counted for one in faults(trace)]


def test_every_fault_is_counted_with_examples():
    nodes = [
        Node(1, "a", COMP, data_deps=(9, 2), duration_us=1),
        Node(2, "b", COMP, ctrl_deps=(1,), duration_us=1),
        Node(3, "c", COMP, duration_us=1),
        Node(3, "d", COMP, duration_us=1),
        Node(4, "e", NodeType.COMM_COLL),
        Node(5, "f", NodeType.COMM_SEND, attributes={}),
        Node(6, "g", 99, duration_us=1),
        Node(7, "h", COMP),
    ]
    trace = Trace.of(nodes)
    assert _said(trace) == [
        "1 node with the id of another",
        "1 dependency on nodes that do not exist",
        "2 nodes that wait for each other in cycles",
        "1 node of unknown type",
        "1 collective without comm_type",
        "2 communication without comm_size",
        "1 COMM_SEND without comm_dst",
        "1 computation without a duration or operations",
    ]
    assert summary(trace)["depth"] is None
    better, done = repaired(trace)
    assert done == [
        "dropped 1 dependency on nodes that do not exist",
        "dropped 1 control dependency in cycles",
        "renumbered 1 node",
    ]
    assert better.id.tolist() == [1, 2, 3, 8, 4, 5, 6, 7]
    assert [one for one in _said(better) if "node" in one] == ["1 node of unknown type"]


def test_cycles_of_many_nodes_are_found():
    """Neither by recursion, nor in quadratic time."""
    count = 20_000
    nodes = [Node(n, "x", COMP, ctrl_deps=((n + 1) % count,), duration_us=1) for n in range(count)]
    found = faults(Trace.of(nodes))
    assert [(one.count, one.what) for one in found] == [(count, "nodes that wait for each other in cycles")]


def test_data_dependencies_on_what_began_later_open_cycles():
    nodes = [
        Node(1, "a", COMP, data_deps=(1, 3), ctrl_deps=(3,), start_us=5, duration_us=1),
        Node(2, "b", COMP, data_deps=(1,), start_us=6, duration_us=1),
        Node(3, "c", COMP, data_deps=(2,), ctrl_deps=(4,), start_us=8, duration_us=1),
        Node(4, "d", COMP, data_deps=(3,), duration_us=1),
    ]
    better, done = repaired(Trace.of(nodes))
    assert done == [
        "dropped 2 data dependencies in cycles on nodes that began later: 1 on 1, 1 on 3",
        "dropped 1 control dependency in cycles",
    ]
    assert [better.data_deps.of(row).tolist() for row in range(4)] == [[], [1], [2], [3]]
    assert not better.ctrl_deps.flat.size
    check(better)
    # Without recorded starts it is not known which dependency is wrong: nothing is dropped.
    unknown = Trace.of([replace(node, start_us=0, ctrl_deps=()) for node in nodes])
    same, done = repaired(unknown)
    assert (same, done) == (unknown, [])
    assert "else it is not safe" in faults(same)[0].hint


def test_copies_are_dropped_and_what_is_ambiguous_stays():
    twice = Node(1, "a", COMP, duration_us=1)
    trace, done = repaired(Trace.of([twice, twice, Node(2, "b", COMP, data_deps=(1,), duration_us=1)]))
    assert done == ["dropped 1 copy of a node"]
    check(trace)
    two = [twice, Node(1, "other", COMP, duration_us=1), Node(2, "b", COMP, data_deps=(1,), duration_us=1)]
    trace, done = repaired(Trace.of(two))
    assert (done, _said(trace)) == ([], ["1 node with the id of another"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 12), max_size=3)), max_size=10))
@example([(0, [0]), (0, [])])  # nobody waits for 0 once the first does not wait for itself
def test_a_repaired_trace_has_no_fewer_nodes_and_repairs_no_more(drawn):
    nodes = [
        Node(n, f"{row}", COMP, data_deps=tuple(deps), duration_us=1) for row, (n, deps) in enumerate(drawn)
    ]
    trace = Trace.of(nodes)
    before = set(_said(trace))
    better, done = repaired(trace)
    assert len(better) == len(trace)
    assert not len(better.dangling[0])
    assert repaired(better) == (better, [])
    assert bool(done) == (better.data != trace.data)
    if not before:
        assert better is trace


_SOME = st.lists(st.integers(0, 5), max_size=2)
_NODES = st.tuples(st.integers(0, 3), st.sampled_from("ab"), _SOME, _SOME, st.integers(0, 2))


@settings(max_examples=60, deadline=None)
@given(st.lists(_NODES, max_size=6))
@example([(0, "a", [0], [], 0), (0, "a", [], [], 0)])  # copies once the first does not wait for itself
@example([(0, "a", [], [], 0), (0, "a", [], [5], 0)])  # copies once the second does not wait for nothing
def test_what_has_been_repaired_needs_no_other_repair(drawn):
    nodes = [
        Node(n, name, COMP, data_deps=tuple(data), ctrl_deps=tuple(control), start_us=start, duration_us=1)
        for n, name, data, control, start in drawn
    ]
    trace = Trace.of(nodes)
    better, done = repaired(trace)
    assert repaired(better) == (better, [])
    assert {node.name for node in better.nodes()} == {node.name for node in nodes}
    assert bool(done) == (better.data != trace.data)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_of_a_truncated_trace_the_whole_nodes_are_read(tmp_path_factory, data):
    step = TraceBuilder(note="n")
    last = step.compute("forward", duration_us=3)
    for number in range(5):
        last = step.collective("all_reduce", 1 << number, after=last)
    trace = step.build()
    whole = list(trace.nodes())
    first = len(trace.head) + 1 + len(trace.message(0))
    cut = data.draw(st.integers(1, len(trace.data) - 1))
    file = tmp_path_factory.mktemp("cut") / "t.et"
    file.write_bytes(trace.data[:cut])
    if cut < first:  # no whole node, or only the metadata
        with suppress(InputError):
            assert not len(read_part(file)[0])
        return
    found, said = read_part(file)
    nodes = list(found.nodes())
    assert nodes == whole[: len(nodes)]
    assert bool(said) == (found.data != trace.data[:cut])
    check(repaired(found)[0])


def test_a_truncated_packed_trace_keeps_its_beginning(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    step = TraceBuilder()
    for number in range(400):
        step.compute(f"layer {number * number}", duration_us=number + 1)
    write(step.build(), tmp_path / "t.et.gz")
    data = (tmp_path / "t.et.gz").read_bytes()
    (tmp_path / "t.et.gz").write_bytes(data[: len(data) // 2])
    assert main(["chakra", "check", str(tmp_path / "t.et.gz")]) == 1
    assert "truncated: the gzip file ends at byte" in capsys.readouterr().out
    assert main(["chakra", "check", str(tmp_path / "t.et.gz"), "--repaired", str(tmp_path / "r.et")]) == 0
    assert "were kept" in capsys.readouterr().err
    kept = read(tmp_path / "r.et")
    assert 100 < len(kept) < 400
    assert list(kept.nodes()) == list(step.build().nodes())[: len(kept)]


def test_faults_between_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def rank(number: int) -> Trace:
        step = TraceBuilder()
        step.collective("all_gather" if number == 1 else "all_reduce", 64, group="1")
        if number:
            step.collective("all_reduce", 64, group="2")
        step.send(8, (number + 1) % 3, rank=number)
        if number != 2:
            step.recv(8, (number + 2) % 3, rank=number)
        return step.build()

    traces = {number: rank(number) for number in range(3)}
    said = [(one.count, one.what, one.examples) for one in rank_faults(traces)]
    assert said == [
        (1, "sends without a receive", ("rank 1 to 2, tag 0: 1 sends, 0 receives",)),
        (
            1,
            "groups that ranks disagree on",
            ("group '1': its collective 0 is all_reduce on rank 0, all_gather on rank 1",),
        ),
    ]
    for number, trace in traces.items():
        write(trace, tmp_path / f"job.{number}.et")
    assert main(["chakra", "check", str(tmp_path / "job"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [(one["rank"], one["count"]) for one in document["faults"]] == [(None, 1), (None, 1)]
    (tmp_path / "job.1.et").unlink()
    assert main(["chakra", "info", str(tmp_path / "job")]) == 0
    assert "no trace of rank 1" in capsys.readouterr().err


def test_faulty_traces_are_shown_with_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    nodes = [
        Node(1, "a", COMP, ctrl_deps=(7,), duration_us=3),
        Node(2, "b", COMP, data_deps=(1,), duration_us=4),
    ]
    write(Trace.of(nodes), tmp_path / "t.et")
    for command, name in (("draw", "t.svg"), ("timeline", "t.json")):
        assert main(["chakra", command, str(tmp_path / "t.et"), "-o", str(tmp_path / name)]) == 0
        assert "dropped 1 dependency on nodes that do not exist to show it" in capsys.readouterr().err
    assert main(["chakra", "check", str(tmp_path / "t.et"), "--repaired", str(tmp_path / "r.et")]) == 0
    assert "1 trace, 2 nodes: nothing wrong" in capsys.readouterr().out
    check(read(tmp_path / "r.et"))


def test_a_run_says_how_many_computations_have_no_duration(tmp_path, capsys):
    step = TraceBuilder()
    for number in range(3):
        step.compute(f"part {number}", duration_us=number % 2)
    write_ranks(lambda _: step.build().data, tmp_path / "t", ranks=2)
    (tmp_path / "system.json").write_text('{"all-reduce-implementation": ["ring"]}')
    (tmp_path / "network.yml").write_text(
        "topology: [Ring]\nnpus_count: [2]\nbandwidth: [50]\nlatency: [500]\n"
    )
    files = ["--system", str(tmp_path / "system.json"), "--network", str(tmp_path / "network.yml")]
    assert main(["run", "trace", str(tmp_path / "t"), *files]) == 0
    said = "4 of 6 computations have no duration and take 1 ns each, as part 0 of rank 0"
    assert said in capsys.readouterr().err
