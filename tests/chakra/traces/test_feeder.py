"""The feeder gives nodes in the order in which a run issues them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import Feeder, Node, NodeType, Trace, TraceBuilder, issue_order
from astranb.core.errors import InputError
from astranb.engine.messages import Run
from astranb.workload.astrasim2 import DimensionNetwork, System, Workload
from astranb.workload.astrasim2.traces import operations_of

SYSTEM = {
    "all-reduce-implementation": ["ring"], "preferred-dataset-splits": 2, "local-mem-bw": 1600,
}  # fmt: skip


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Nodes of every type that a rank does alone or with its equals, in any order of ids."""
    count = draw(st.integers(1, 24))
    ids = draw(st.permutations(range(3, 3 + count)))
    nodes = []
    for at, number in enumerate(ids):
        kind = draw(st.sampled_from([NodeType.COMP, NodeType.COMP, NodeType.COMM_COLL, NodeType.METADATA]))
        attributes: dict[str, object] = {"is_cpu_op": kind == NodeType.COMP and draw(st.booleans())}
        if kind == NodeType.COMM_COLL:
            attributes |= {"comm_type": 0, "comm_size": draw(st.integers(1, 4)) << 10}
            attributes["comm_stream"] = draw(st.integers(0, 1))
        after = draw(st.lists(st.sampled_from(ids[:at]), max_size=3)) if at else []
        cut = draw(st.integers(0, len(after)))
        nodes.append(
            Node(
                number, f"n{number}", kind, tuple(after[:cut]), tuple(after[cut:]),
                duration_us=draw(st.integers(0, 3)), attributes=attributes,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return Trace.of(draw(st.permutations(nodes)))


@settings(max_examples=40, deadline=None)
@given(traces(), st.booleans())
def test_a_run_issues_in_the_order_of_the_feeder(trace, replay):
    """Driven by the ends of a run, the feeder issues what the run issues, each node at its time."""
    system = System.from_document(SYSTEM | {"replay-only": 1} if replay else SYSTEM)
    operations = operations_of(trace, replay=replay)
    network = DimensionNetwork(["Ring"], [2], [50], [500])
    run = Run(Workload([operations] * 2, network, system), record=True)
    rows, _ = issue_order(trace)
    ids = trace.id[rows].tolist()
    feeders = [Feeder(trace), Feeder(trace)]
    issued = [list[int](feeder) for feeder in feeders]
    table = run.machine.operations
    over = np.zeros(len(table), bool)
    while any(feeders):
        run.go(ended=int(run.machine.clock[0].ended) + 1, closely=True)
        table = run.machine.operations
        ended = (np.asarray(table.end_ns) >= 0) & ~over
        assert ended.any()
        over |= ended
        for npu, feeder in enumerate(feeders):
            own = slice(npu * len(ids), (npu + 1) * len(ids))
            some = {ids[at] for at in np.flatnonzero(ended[own])}
            for node in [node for node in issued[npu] if node in some]:
                feeder.done(node)
                issued[npu] += feeder
            begun = np.flatnonzero(np.asarray(table.start_ns)[own] >= 0)
            assert {ids[at] for at in begun} == set(issued[npu])
            assert (
                sorted(issued[npu], key=lambda node: int(table.start_ns[own][ids.index(node)])) == issued[npu]
            )


@settings(max_examples=40, deadline=None)
@given(traces(), st.integers(0, 1 << 30))
def test_every_node_once_and_after_what_it_waits_for(trace, seed):
    random = Random(seed)
    rows, parents = issue_order(trace)
    ids = trace.id[rows].tolist()
    waits = {node: {ids[at] for at in parents.of(place)} for place, node in enumerate(ids)}
    for one_at_a_time in (False, True):
        feeder, seen, under_way = Feeder(trace, one_at_a_time=one_at_a_time), list[int](), list[int]()
        while feeder:
            under_way += feeder
            assert feeder.next() is None
            if random.random() < 0.2:
                back = under_way.pop(random.randrange(len(under_way)))
                feeder.push_back(back)
                again = feeder.next()
                assert again is not None
                assert again <= back
                under_way.append(again)
                continue
            node = under_way.pop(random.randrange(len(under_way)))
            assert waits[node] <= set(seen)
            feeder.done(node)
            seen.append(node)
        assert sorted(seen) == sorted(ids)
    assert len(feeder) == 0


def test_one_at_a_time_in_each_place():
    step = TraceBuilder()
    gpu, later = step.compute("a"), step.compute("b")
    cpu = step.compute("host", cpu=True)
    wire, waits = step.collective("all_reduce", 8), step.send(8, 1)
    background = step.collective("all_reduce", 8, stream=1)
    receives = [step.recv(8, 1), step.recv(8, 1, tag=2)]
    feeder = Feeder(step.build())
    assert list(feeder) == [gpu, cpu, wire, background, *receives]
    feeder.done(gpu)
    assert list(feeder) == [later]
    feeder.done(wire)
    assert list(feeder) == [waits]
    feeder.push_back(waits)
    assert [feeder.next(), feeder.next()] == [waits, None]
    assert list(Feeder(step.build(), one_at_a_time=False)) == list(range(8))


def test_what_a_feeder_refuses():
    step = TraceBuilder()
    node = step.compute("a")
    feeder = Feeder(step.build("made"))
    with pytest.raises(InputError, match="made: node 0 was not issued; end each issued node once"):
        feeder.done(node)
    with pytest.raises(InputError, match="made: unknown node 7"):
        feeder.lookup(7)
    assert list(feeder) == [node]
    feeder.done(node)
    with pytest.raises(InputError, match="node 0 has ended"):
        feeder.push_back(node)
    with pytest.raises(InputError, match="depends on node 9"):
        Feeder(Trace.of([Node(1, "a", 4, data_deps=(9,))]))
