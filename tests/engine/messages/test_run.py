"""The laws of the system layer: steps, default mode, what is refused."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages import Run, simulate
from astranb.engine.stops import STEPS
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    Operations,
    System,
    Workload,
)

RING = {"all-reduce-implementation": ["ring"], "preferred-dataset-splits": 4, "local-mem-bw": 1600}
ALL: dict[str, Any] = {f"all-{name}-implementation": ["direct"] for name in ("reduce", "gather", "to-all")}
ALL |= {"reduce-scatter-implementation": ["direct"], "preferred-dataset-splits": 3, "local-mem-bw": 1600}


def _all_reduce(size):
    return Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": size}])


def _ring(npus, size, system=RING, *, congestion=False, compat=False):
    network = DimensionNetwork(["Ring"], [npus], [50], [500])
    ranks = [_all_reduce(size)] * npus
    return Run(Workload(ranks, network, System.from_document(system), compat=compat), congestion=congestion)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.booleans())
def test_how_a_run_is_cut_into_steps_changes_nothing(cuts, congestion):
    whole = _ring(6, 10_000, congestion=congestion)
    whole.finish()
    parts = _ring(6, 10_000, congestion=congestion)
    for cut in cuts:
        before = parts.events
        if parts.go(steps=before + cut) == STEPS:
            assert parts.events == before + cut
    parts.finish()
    assert parts.digest() == whole.digest()
    assert parts.result().end_ns.tolist() == whole.result().end_ns.tolist()


@settings(max_examples=30, deadline=None)
@given(
    npus=st.integers(2, 9),
    size=st.integers(1, 1 << 22),
    collective=st.integers(0, 3),
    shape=st.sampled_from(["Ring", "FullyConnected", "Switch"]),
    compat=st.booleans(),
)
def test_congestion_never_makes_anything_faster(npus, size, collective, shape, compat):
    network = DimensionNetwork([shape], [npus], [25], [700])
    one = Operations.of([{"kind": COLLECTIVE, "collective": collective, "bytes": size}])
    free, full = (
        simulate(
            Workload([one] * npus, network, System.from_document(ALL), compat=compat), congestion=congestion
        )
        for congestion in (False, True)
    )
    # With congestion each link rounds down to a nanosecond, without it each message: a chain of
    # messages is at most a nanosecond shorter for each link that it crosses.
    links = {"Ring": npus // 2, "FullyConnected": 1, "Switch": 2}[shape]
    assert (full.end_ns + links * full.messages // npus >= free.end_ns).all()
    assert full.messages == free.messages
    assert full.message_bytes == free.message_bytes


def test_the_default_moves_no_extra_chunk_and_takes_bandwidth_for_what_it_says():
    npus, size = 4, 1_000_003
    default = _ring(npus, size)
    default.finish()
    compat = _ring(npus, size, compat=True)
    compat.finish()
    # 4 chunks of 2 (n - 1) messages of every rank; ASTRA-sim 2.0 makes a fifth one of what is left.
    assert default.result().messages == 4 * 2 * 3 * npus
    assert compat.result().messages == 5 * 2 * 3 * npus
    one = Operations.of([{"kind": SEND, "peer": 1, "bytes": 10**9}])
    other = Operations.of([{"kind": RECV, "peer": 0, "bytes": 10**9}])
    network = DimensionNetwork(["FullyConnected"], [2], [50], [500])
    result = simulate(Workload([one, other], network, System.from_document({})))
    assert result.end_ns.tolist() == [20_000_500, 20_000_500]


def test_a_message_pays_for_every_dimension_that_it_crosses():
    network = DimensionNetwork(["Ring", "Switch"], [4, 2], [100, 25], [200, 1000])
    nothing = Operations.of([{"kind": COMPUTE, "duration_ns": 1_000}])
    ranks = [nothing] * 8
    ranks[0] = Operations.of([{"kind": SEND, "peer": 5, "bytes": 25_000}])
    ranks[5] = Operations.of([{"kind": RECV, "peer": 0, "bytes": 25_000}])
    default = simulate(Workload(ranks, network, System.from_document({})))
    assert default.end_ns[5] == 200 + 2 * 1000 + 1000
    compat = simulate(Workload(ranks, network, System.from_document({}), compat=True))
    assert compat.end_ns[5] == 200 + int(25_000 / (100 * 2**30 / 1e9))


def test_full_tables_are_enlarged_and_nothing_changes():
    # All at once: far more messages under way than rows to begin with.
    network = DimensionNetwork(["FullyConnected"], [64], [50], [500])
    system = System.from_document({**ALL, "active-chunks-per-dimension": 8, "preferred-dataset-splits": 8})
    run = Run(Workload([_all_reduce(1 << 20)] * 64, network, system), congestion=True)
    rows = len(run.machine.messages)
    run.go()  # one event after another: nothing is folded
    assert len(run.machine.messages) > rows
    assert len(set(run.result().end_ns.tolist())) == 1
    assert run.machine.clock[0].messages_left == len(run.machine.messages)
    assert run.machine.clock[0].timers_left == len(run.machine.timers)
    assert run.machine.queue[0].events_left == len(run.machine.pending)


def test_ranks_that_do_not_match_are_a_deadlock_with_a_name():
    one = Operations.of([{"kind": SEND, "peer": 1, "bytes": 8, "tag": 3}])
    other = Operations.of([{"kind": RECV, "peer": 0, "bytes": 8, "tag": 4}])
    with pytest.raises(
        Deadlock, match="1 of 2 ranks never end; rank 1 waits in a receive from rank 0, tag 4"
    ):
        simulate(
            Workload([one, other], DimensionNetwork(["Ring"], [2], [50], [500]), System.from_document({}))
        )


@pytest.mark.parametrize(
    "document, message",
    [
        ({"all-reduce-implementation": ["rign"]}, "unknown algorithm 'rign'; did you mean 'ring'"),
        ({"scheduling-policy": "LILO"}, "unknown scheduling-policy 'LILO'; did you mean 'LIFO'"),
        ({"preferred-dataset-splits": 0}, "below 1"),
        ({}, "all-reduce-implementation is missing"),
        ({"all-reduce-implementation": ["ring", "ring"]}, "2 algorithms for a network of 1 dimensions"),
    ],
)
def test_a_system_that_cannot_be_used_is_refused_with_a_line(document, message):
    with pytest.raises(InputError, match=message):
        _ring(4, 1024, document)


def test_plain_python_gives_the_same_state():
    code = (
        "from astranb.engine.messages import Run\n"
        "from astranb.workload.astrasim2 import COLLECTIVE, DimensionNetwork, Operations, System, Workload\n"
        "one = Operations.of([{'kind': COLLECTIVE, 'collective': 0, 'bytes': 4096}])\n"
        f"system = System.from_document({RING!r})\n"
        "inputs = Workload([one] * 4, DimensionNetwork(['Ring'], [4], [50], [500]), system)\n"
        "run = Run(inputs, congestion=True)\n"
        "run.finish(); print(run.digest())"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "ASTRANB_JIT": jit},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for jit in "01"
    }
    assert len(hashes) == 1


def test_operations_wait_for_what_they_name_only():
    rows = [{"kind": COMPUTE, "duration_ns": 1000 * us} for us in (3, 5)]
    rows.append({"kind": COLLECTIVE, "collective": 0, "bytes": 4096})
    chain = Operations.of(rows, [[], [0], [0]])
    network = DimensionNetwork(["Ring"], [4], [50], [500])
    result = simulate(Workload([chain] * 4, network, System.from_document(RING)))
    alone = simulate(Workload([_all_reduce(4096)] * 4, network, System.from_document(RING)))
    assert result.end_ns.tolist() == np.maximum(8000, 3000 + alone.end_ns).tolist()
    assert result.compute_ns.tolist() == [8000] * 4
