"""No division of a model over ranks lets them wait for each other for ever."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import NodeType, check
from astranb.engine.messages import simulate
from astranb.workload.astrasim2 import DimensionNetwork, System, Workload
from astranb.workload.models import Parallelism, workload
from astranb.workload.models.schedules import one_forward_one_backward
from tests.workload.models.support import depends_in_order, divided, tiny, traces, waiting_ranks

SYSTEM = {
    **{
        f"{name}-implementation": ["ring"]
        for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    },
    "roofline-enabled": 1,
    "peak-perf": 1,
    "local-mem-bw": 100,
    "endpoint-delay": 0,
}


@settings(max_examples=60, deadline=None)
@given(divided())
def test_all_ranks_come_to_their_end_in_the_order_of_their_files(case):
    model, degrees, more = case
    step = workload(model, degrees, **more)
    assert not waiting_ranks(step)
    for trace in traces(step):
        check(trace)
        assert depends_in_order(trace)


@settings(max_examples=15, deadline=None)
@given(divided(), st.booleans(), st.sampled_from([0.01, 10.0]))
def test_simulated_all_ranks_come_to_their_end(case, rendezvous, bandwidth):
    model, degrees, more = case
    step = workload(model, degrees, **more)
    system = System.from_document(SYSTEM, rendezvous=rendezvous)
    network = DimensionNetwork(["Ring"], [step.ranks], [bandwidth], [100])
    result = simulate(Workload(step.operations(), network, system, groups=step.groups))
    assert result.end_ns.min() > 0
    assert result.compute_ns.min() > 0


@settings(max_examples=15, deadline=None)
@given(divided())
def test_what_is_simulated_at_once_is_what_the_traces_say(case):
    from astranb.workload.astrasim2.traces import operations_of

    model, degrees, more = case
    step = workload(model, degrees, **more)
    for rank, made in enumerate(step.operations()):
        from_trace = operations_of(step.trace(rank), step.groups, roofline=True)
        assert made.rows["kind"].tolist() == from_trace.rows["kind"].tolist()
        for name in ("flops", "bytes", "group", "collective", "duration_ns", "tag", "stream"):
            assert made.rows[name].tolist() == from_trace.rows[name].tolist(), name
        sent = made.rows["peer"] >= 0
        assert made.rows["peer"][sent].tolist() == from_trace.rows["peer"][sent].tolist()
        assert made.dep_start.tolist() == from_trace.dep_start.tolist()
        assert made.deps.tolist() == from_trace.deps.tolist()


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 4))
def test_a_schedule_does_each_pass_once_and_forward_first(stages, turns, interleave):
    micro = stages * turns
    for stage in range(stages):
        order = one_forward_one_backward(stage, stages, micro, interleave)
        assert len(set(order)) == len(order) == 2 * micro * interleave
        done = set()
        for one in order:
            assert one.is_forward or (one.chunk, one.micro) in done
            done.add((one.chunk, one.micro))


@pytest.mark.parametrize("interleave", [1, 2])
def test_an_order_turned_round_is_found_by_the_judge(interleave):
    step = workload(tiny(vocab=0), Parallelism(pipeline=2, interleave=interleave), microbatches=4)
    first = step.stages[0]
    sends = [n for n in range(len(first)) if first.kind[n] == 5]
    one, last = sends[0], len(first) - 2
    columns: list[list[Any]] = [first.kind, first.names, first.size, first.peer, first.tag, first.deps]
    for column in columns:
        column[one], column[last] = column[last], column[one]  # the first activations go out at the end
    assert waiting_ranks(step)


@settings(max_examples=40, deadline=None)
@given(divided())
def test_what_comes_is_waited_for(case):
    """Received messages and gathered parameters are what something but the next message waits for."""
    model, degrees, more = case
    step = workload(model, degrees, **more)
    for stage in step.stages:
        used: dict[int, set[int]] = {}
        for number, deps in enumerate(stage.deps):
            for one in deps:
                used.setdefault(one, set()).add(stage.kind[number])
        for number, kind in enumerate(stage.kind):
            after = used.get(number, set())
            if kind == NodeType.COMM_RECV:
                assert after - {NodeType.COMM_RECV}, stage.names[number]
            elif kind == NodeType.COMM_COLL and "optimizer" in stage.names and model.vocab:
                assert after or number > stage.names.index("optimizer"), stage.names[number]
            if stage.names[number].endswith(" params") and degrees.expert == 1:
                assert NodeType.COMP in after, stage.names[number]
