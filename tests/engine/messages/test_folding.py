"""One NPU represents all where they are alike: the end is that of all NPUs, to the bit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import Deadlock
from astranb.engine.messages import Run
from astranb.engine.messages.folding import foldable
from astranb.engine.stops import ENDED
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    MEMORY,
    SEND,
    DimensionNetwork,
    Memory,
    Operations,
    System,
    Workload,
)

SHAPES = ("Ring", "FullyConnected", "Switch")
KEYS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


@st.composite
def symmetric(draw):
    """A step in which all ranks do the same, on a network of up to three dimensions."""
    count = draw(st.integers(1, 3))
    algorithms = draw(
        st.lists(st.sampled_from(["ring", "direct", "direct2"]), min_size=count, max_size=count)
    )
    sizes = draw(st.lists(st.integers(2, 5), min_size=count, max_size=count))
    if draw(st.booleans()):
        algorithms, sizes = ["halvingDoubling"] * count, [1 << (size % 3 + 1) for size in sizes]
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=count, max_size=count))
    network = DimensionNetwork(
        shapes, sizes, [50.0 + 7 * d for d in range(count)], [500.0 + d for d in range(count)]
    )
    document = {
        "scheduling-policy": draw(st.sampled_from(["LIFO", "FIFO"])),
        "endpoint-delay": draw(st.integers(1, 20)),
        "active-chunks-per-dimension": draw(st.integers(1, 5)),
        "preferred-dataset-splits": draw(st.integers(1, 6)),
        "local-mem-bw": 100,
        "collective-optimization": draw(st.sampled_from(["localBWAware", "baseline"])),
        **draw(st.sampled_from([{}, {}, {"model-shared-bus": 1, "L": 7, "o": 3, "g": 5, "G": 0.02}])),
    }
    for key in KEYS:
        plain = [a if a != "halvingDoubling" or key != "all-to-all" else "ring" for a in algorithms]
        document[f"{key}-implementation"] = plain
    system = System.from_document(
        document, queues=draw(st.sampled_from([1, 1, 2, 3])), rendezvous=draw(st.booleans())
    )
    rows, deps = [], []
    for number in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from([COLLECTIVE, COLLECTIVE, COMPUTE, MEMORY]))
        row = {
            "kind": kind,
            "bytes": draw(st.integers(1, 1 << 20)),
            "duration_ns": 1000 * draw(st.integers(0, 90)),
        }
        if kind == COLLECTIVE:
            row |= {"collective": draw(st.integers(0, 3)), "priority": draw(st.integers(0, 2))}
        rows.append(row)
        deps.append(sorted(draw(st.sets(st.integers(0, number - 1)))) if number else [])
    return Operations.of(rows, deps), network, system


@settings(max_examples=150)
@given(symmetric(), st.booleans(), st.booleans())
def test_the_end_is_that_of_all_npus(step, congestion, compat):
    one, network, system = step
    congestion = congestion and len(network.shapes) == 1
    memory = Memory.from_document(
        {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 50}
    )
    inputs = ([one] * network.npus, network, system)
    folded = Run(Workload(*inputs, memory=memory, compat=compat), congestion=congestion)
    each = Run(Workload(*inputs, memory=memory, compat=compat), congestion=congestion)
    folded.finish()
    each.go()
    assert folded.digest() == each.digest()
    assert folded.result().end_ns.tolist() == each.result().end_ns.tolist()
    assert folded.result().events == each.result().events
    assert folded.result().message_bytes == each.result().message_bytes
    assert folded.go() == ENDED  # nothing is left to happen


RING = System.from_document(
    {
        "all-reduce-implementation": ["ring"],
        "all-to-all-implementation": ["direct"],
        "preferred-dataset-splits": 2,
        "local-mem-bw": 100,
    }
)
FOUR = DimensionNetwork(["Ring"], [4], [50.0], [500.0])
ONE = Operations.of([{"kind": COLLECTIVE, "bytes": 4096}])


def test_what_is_alike_is_folded():
    assert foldable(Workload([ONE] * 4, FOUR, RING), congestion=False)
    assert foldable(Workload([ONE] * 4, FOUR, RING), congestion=True)


@pytest.mark.parametrize(
    "rows",
    [[{"kind": SEND, "bytes": 8, "peer": 1}], [{"kind": COLLECTIVE, "bytes": 8, "group": 1}]],
    ids=["message", "group"],
)
def test_what_names_ranks_is_not_folded(rows):
    assert not foldable(Workload([Operations.of(rows)] * 4, FOUR, RING), congestion=False)


def test_what_differs_or_shares_is_not_folded():
    other = Operations.of([{"kind": COLLECTIVE, "bytes": 4096}])
    assert not foldable(Workload([ONE, ONE, ONE, other], FOUR, RING), congestion=False)
    pool = Memory.from_document({"memory-type": "MEMORY_POOL", "remote-mem-latency": 1, "remote-mem-bw": 1})
    load = Operations.of([{"kind": MEMORY, "bytes": 4096}])
    assert not foldable(Workload([load] * 4, FOUR, RING, pool), congestion=False)
    scattered = Operations.of([{"kind": COLLECTIVE, "collective": 3, "bytes": 4096}])
    assert not foldable(Workload([scattered] * 4, FOUR, RING), congestion=True)  # several senders on a link
    tree = System.from_document(
        {"all-reduce-implementation": ["doubleBinaryTree"], "preferred-dataset-splits": 1}
    )
    assert not foldable(Workload([ONE] * 4, FOUR, tree), congestion=False)


def test_a_deadlock_is_reported_by_all_npus():
    halving = System.from_document(
        {"all-reduce-implementation": ["halvingDoubling"], "preferred-dataset-splits": 1}
    )
    run = Run(Workload([ONE] * 3, DimensionNetwork(["Ring"], [3], [50.0], [500.0]), halving, compat=True))
    run.finish()
    with pytest.raises(Deadlock, match="3 of 3 ranks"):
        run.result()


def test_sixteen_thousand_npus_end_in_no_time():
    network = DimensionNetwork(["Ring"], [16384], [50.0], [500.0])
    run = Run(Workload([ONE] * 16384, network, RING))
    run.finish()
    assert run.events > 1e9
    assert len(set(run.result().end_ns.tolist())) == 1
