"""A few NPUs represent all that are alike: times, bytes and tables are those of all NPUs."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages import Run, ties
from astranb.engine.messages.symmetry import find_fold
from astranb.engine.stops import ENDED
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    MEMORY,
    RECV,
    SEND,
    DimensionNetwork,
    Memory,
    Operations,
    System,
    Workload,
)
from astranb.workload.astrasim2.kinds import INTER, INTRA
from astranb.workload.models import MODELS, Parallelism, Transformer, machine, workload

SHAPES = ("Ring", "FullyConnected", "Switch")
KEYS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


def assert_same(work, *, congestion=False):
    """Run it folded and not; returns whether it was folded."""
    few, each = (Run(work, congestion=congestion) for _ in range(2))
    folded = few.finish_folded()
    few.finish()
    each.go()
    assert few.digest() == each.digest()  # of tables that are made part by part
    assert few.events == each.events
    if each.outline.clock[0].finished < len(each.outline.npus):  # a deadlock of the system that was drawn
        assert not folded
        return False
    ours, theirs = few.result(), each.result()
    assert ours.end_ns.tolist() == theirs.end_ns.tolist()
    assert ours.compute_ns.tolist() == theirs.compute_ns.tolist()
    assert (ours.messages, ours.message_bytes) == (theirs.messages, theirs.message_bytes)
    assert Run.of_machine(few.machine).digest() == each.digest()  # of whole tables
    assert few.go() == ENDED  # nothing is left to happen
    return folded


@st.composite
def systems(draw, algorithms):
    """A system with the same algorithms for all collectives."""
    document = {
        "scheduling-policy": draw(st.sampled_from(["LIFO", "FIFO"])),
        "endpoint-delay": draw(st.integers(1, 20)),
        "active-chunks-per-dimension": draw(st.integers(1, 5)),
        "preferred-dataset-splits": draw(st.integers(1, 6)),
        "local-mem-bw": 100,
        "collective-optimization": draw(st.sampled_from(["localBWAware", "baseline"])),
        "inter-dimension-scheduling": draw(st.sampled_from(["baseline", *INTER])),
        "intra-dimension-scheduling": draw(st.sampled_from(["FIFO", *INTRA])),
    }
    for key in KEYS:
        plain = [a if a != "halvingDoubling" or key != "all-to-all" else "ring" for a in algorithms]
        document[f"{key}-implementation"] = plain
    return System.from_document(
        document, queues=draw(st.sampled_from([1, 1, 2, 3])), rendezvous=draw(st.booleans())
    )


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
    system = draw(systems(algorithms))
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
            row["stream"] = draw(st.integers(0, 1))  # those of two streams overlap
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
    work = Workload([one] * network.npus, network, system, memory=memory, compat=compat)
    assert_same(work, congestion=congestion)


@settings(max_examples=100)
@given(symmetric(), st.sampled_from([0.0, 1.0, 10.0]), st.booleans())
def test_receives_that_are_posted_late_tie_with_nothing(step, latency, compat):
    """Small messages over fast links come at the times at which receives are posted."""
    one, network, system = step
    count = len(network.shapes)
    fast = DimensionNetwork(network.topology, network.npus_count, [1e9] * count, [latency] * count)
    memory = Memory.from_document(
        {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 50}
    )
    assert_same(Workload([one] * network.npus, fast, system, memory=memory, compat=compat))


@settings(max_examples=25)
@given(symmetric(), st.sampled_from([1, 8, 64]))
def test_results_are_those_of_all_ranks(step, factor):
    """Times, bytes, tables and explanations; in units of a nanosecond, so that events meet."""
    one, network, system = step
    count = len(network.shapes)
    even = DimensionNetwork(network.topology, network.npus_count, [1.0 * factor] * count, [8.0] * count)
    rows = one.rows.copy()
    rows["bytes"] = 8 << rows["bytes"] % 9
    memory = Memory.from_document(
        {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 50}
    )
    work = Workload([dataclasses.replace(one, rows=rows)] * even.npus, even, system, memory)
    sims = [anb.Simulation(work, record=False) for _ in range(2)]
    sims[1].step(1)  # all ranks from here
    answers: list[list[Any]] = []
    for sim in sims:
        try:
            sim.run()
        except Deadlock:
            answers.append(["deadlock"])
            continue
        result = sim.result
        tables = [result.to_dataframe(name).to_dict("list") for name in result.tables]
        engine = sim.engine
        answers.append([
            sim.now_ps, sim.events, result.per_rank(), result.breakdown(), result.explain(),
            engine.ends_ps().tolist(), [times.tolist() for times in engine.times_ps()], tables,
        ])  # fmt: skip
    assert repr(answers[0]) == repr(answers[1])


@st.composite
def grouped(draw):
    """Stages of ranks with groups along two axes: collectives of groups, messages between stages."""
    halving = draw(st.booleans())
    wide, deep, stages = (draw(st.sampled_from([2, 4] if halving else [2, 3, 4])) for _ in range(3))
    per_stage = wide * deep
    ranks = per_stage * stages
    algorithm = "halvingDoubling" if halving else draw(st.sampled_from(["ring", "direct", "direct2"]))
    nodes = draw(st.sampled_from([n for n in range(2, ranks + 1) if ranks % n == 0]))
    sides = [nodes, ranks // nodes] if nodes < ranks else [ranks]
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=len(sides), max_size=len(sides)))
    network = DimensionNetwork(shapes, sides, [50.0, 7.0][: len(sides)], [500.0, 900.0][: len(sides)])
    system = draw(systems([algorithm] * draw(st.integers(1, len(sides)))))
    groups: dict[int, list[int]] = {}
    rows_of = np.zeros((ranks, 2), int)
    for stage in range(stages):
        for at in range(deep):
            groups[len(groups) + 1] = [stage * per_stage + at * wide + i for i in range(wide)]
        for at in range(wide):
            groups[len(groups) + 1] = [stage * per_stage + at + i * wide for i in range(deep)]
    for number, members in groups.items():
        axis = int(members[1] - members[0] != 1)
        rows_of[members, axis] = number
    durations = st.integers(0, 3).map(lambda n: 10 * n)  # often the same: ties
    plan = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from([COLLECTIVE, COLLECTIVE, COMPUTE]))
        row = {"kind": kind, "bytes": draw(st.sampled_from([1, 1000, 4096, 65536]))}
        if kind == COLLECTIVE:
            row |= {
                "collective": draw(st.integers(0, 3)),
                "axis": draw(st.integers(0, 1)),
                "stream": draw(st.integers(0, 1)),
            }
        plan.append((row, [draw(durations) for _ in range(stages)]))
    links = [draw(st.sets(st.integers(0, at - 1), max_size=2)) if at else set() for at in range(len(plan))]
    sizes = draw(st.sampled_from([8, 4096]))
    operations = []
    for rank in range(ranks):
        stage = rank // per_stage
        rows: list[dict[str, int]] = []
        deps: list[list[int]] = []
        if stage:
            rows.append({"kind": RECV, "peer": rank - per_stage, "tag": 7, "bytes": sizes})
            deps.append([])
        first = len(rows)
        for (row, took), linked in zip(plan, links, strict=True):
            made = {k: v for k, v in row.items() if k != "axis"}
            if row["kind"] == COLLECTIVE:
                made["group"] = int(rows_of[rank, row["axis"]])
            else:
                made["duration_ns"] = took[stage]
            rows.append(made)
            deps.append([*range(first), *(first + at for at in sorted(linked))])
        if stage + 1 < stages:
            rows.append({"kind": SEND, "peer": rank + per_stage, "tag": 7, "bytes": sizes})
            deps.append([len(rows) - 2])
        operations.append(Operations.of(rows, deps))
    return Workload(operations, network, system, groups=groups)


@settings(max_examples=150)
@given(grouped(), st.booleans())
def test_the_end_of_groups_and_stages_is_that_of_all_ranks(work, compat):
    assert_same(dataclasses.replace(work, compat=compat))


@st.composite
def steps(draw):
    """A step of a model on a few nodes of the assumed cluster."""
    tensor, context = (draw(st.sampled_from([1, 2])) for _ in range(2))
    data, pipeline = draw(st.sampled_from([1, 2, 4, 8])), draw(st.sampled_from([1, 2, 4]))
    experts = draw(st.booleans())
    more = {"sequence": tensor > 1 and draw(st.booleans()), "zero": draw(st.integers(0, 3))}
    if experts:
        more |= {"expert": draw(st.sampled_from([n for n in (1, 2, 4, 8) if n <= data])), "zero": 0}
    elif pipeline > 1:
        more |= {"interleave": draw(st.sampled_from([1, 3]))}
    degrees = Parallelism(data=data, tensor=tensor, context=context, pipeline=pipeline, **more)
    model = "mixtral-8x7b" if experts else "gpt3-125m"
    return workload(model, degrees, microbatches=pipeline, batch=data * pipeline, gpu="h100-sxm")


def of_step(step):
    cluster = machine(step)
    return Workload(step.operations(), cluster.network, cluster.system, groups=step.groups)


@settings(max_examples=40)
@given(steps())
def test_the_end_of_a_step_is_that_of_all_ranks(step):
    work = of_step(step)
    assert_same(work)


@pytest.mark.parametrize(
    "model, degrees, count",
    [
        ("gpt3-125m", {"data": 8}, 1),
        ("gpt3-6.7b", {"data": 4, "tensor": 8, "pipeline": 4, "zero": 1}, 4),
        ("gpt3-125m", {"data": 8, "tensor": 2, "pipeline": 2}, 8),  # four places of a replica in a node
        (
            "gpt3-125m",
            {"data": 8, "tensor": 4, "context": 2},
            2,
        ),  # keys and values go round: no two are alike
        ("mixtral-8x7b", {"data": 32, "expert": 8, "pipeline": 2}, 16),
    ],
)
def test_how_many_ranks_represent_a_step(model, degrees, count):
    work = of_step(workload(model, Parallelism(**degrees), gpu="h100-sxm"))
    fold = find_fold(work, congestion=False)
    assert fold is not None
    assert len(fold.ranks) == count
    assert assert_same(work)


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
    for congestion in (False, True):
        fold = find_fold(Workload([ONE] * 4, FOUR, RING), congestion=congestion)
        assert fold is not None
        assert fold.ranks.tolist() == [0]


def test_ranks_beside_a_group_are_one_more_class():
    one = Operations.of([{"kind": COLLECTIVE, "bytes": 4096, "group": 3}])
    network = DimensionNetwork(["Switch"], [8], [50.0], [500.0])
    operations = [one if rank % 2 else Operations.of([]) for rank in range(8)]
    work = Workload(operations, network, RING, groups={3: [1, 3, 5, 7]})
    fold = find_fold(work, congestion=False)
    assert fold is not None
    assert fold.npu.tolist() == [0, 1] * 4
    assert assert_same(work)


def test_what_differs_or_shares_is_not_folded():
    other = Operations.of([{"kind": COLLECTIVE, "bytes": 4097}])
    assert not find_fold(Workload([ONE, ONE, ONE, other], FOUR, RING), congestion=False)
    pool = Memory.from_document({"memory-type": "MEMORY_POOL", "remote-mem-latency": 1, "remote-mem-bw": 1})
    load = Operations.of([{"kind": MEMORY, "bytes": 4096}])
    assert not find_fold(Workload([load] * 4, FOUR, RING, pool), congestion=False)
    scattered = Operations.of([{"kind": COLLECTIVE, "collective": 3, "bytes": 4096}])
    senders = Workload([scattered] * 4, FOUR, RING)  # several on a link
    assert not find_fold(senders, congestion=True)
    tree = System.from_document(
        {"all-reduce-implementation": ["doubleBinaryTree"], "preferred-dataset-splits": 1}
    )
    assert not find_fold(Workload([ONE] * 4, FOUR, tree), congestion=False)
    bus = dataclasses.replace(RING, bus=(7.0, 3.0, 5.0, 0.02))
    assert not find_fold(Workload([ONE] * 4, FOUR, bus), congestion=False)


@settings(max_examples=20)
@given(
    st.sampled_from([*INTER]), st.sampled_from([*INTRA]), st.integers(1, 8), st.integers(1, 4), st.booleans()
)
def test_groups_along_dimensions_end_as_collectives_that_name_them(inter, intra, chunks, active, background):
    """Tensor groups in two dimensions, data groups in the third, as in hybrid parallelism."""
    names = ["ring", "direct", "halvingDoubling"]
    document = {
        **{f"{key}-implementation": names for key in KEYS[:3]},
        "preferred-dataset-splits": chunks,
        "active-chunks-per-dimension": active,
        "inter-dimension-scheduling": inter,
        "intra-dimension-scheduling": intra,
        "collective-optimization": "localBWAware",
        "group-implementation": "dimensions",
    }
    network = DimensionNetwork(["Ring", "FullyConnected", "Switch"], [4, 3, 2], [50, 20, 9], [500] * 3)
    groups = {1 + at: range(12 * at, 12 * at + 12) for at in range(2)}
    groups |= {3 + at: range(at, 24, 12) for at in range(12)}
    sizes = [(1 << 20, 0), (3 << 18, 1), (1 << 19, 2)]
    rows = [{"kind": COLLECTIVE, "bytes": size, "collective": number % 3} for size, number in sizes]
    rows += [{**row, "stream": int(background)} for row in rows]
    deps = [[], [0], [1], [0], [1], [2]]
    named = Operations.of([{**row, "involved": 3 if at < 3 else 4} for at, row in enumerate(rows)], deps)
    operations = [
        Operations.of(
            [{**row, "group": 1 + r // 12 if at < 3 else 3 + r % 12} for at, row in enumerate(rows)], deps
        )
        for r in range(24)
    ]
    work = Workload(operations, network, System.from_document(document), groups=groups)
    assert_same(work)
    document["group-implementation"] = "ring"
    plain = Workload([named] * 24, network, System.from_document(document), groups=groups)
    one, other = Run(work), Run(plain)
    one.finish()
    other.finish()
    assert one.digest() == other.digest()


@settings(max_examples=25)
@given(
    st.sampled_from(["baseline", *INTER]),
    st.sampled_from(["FIFO", *INTRA]),
    st.integers(1, 8),
    st.integers(1, 4),
    st.sampled_from([8, 30_000, 1 << 20]),
    st.sampled_from([1, 4, 12]),
    st.sampled_from([300, 5000, 40_000]),
)
def test_ranks_that_differ_along_dimensions_end_as_all(inter, intra, chunks, active, size, period, late_ns):
    """As where heads do not divide: some ranks compute for longer, and all sum along dimensions."""
    work = along_three(inter, intra, chunks, active, size, period, late_ns)
    fold = find_fold(work, congestion=False)
    assert fold is not None
    assert 1 < len(fold.ranks) <= 12
    assert_same(work)


@pytest.mark.parametrize("period", [1, 4])
def test_chunks_that_a_late_rank_receives_all_at_once_are_folded(period):
    """Their messages have arrived before: it posts all receives at one time, in one order."""
    assert assert_same(along_three("baseline", "FIFO", 4, 4, 30_000, period, 40_000))


def along_three(inter, intra, chunks, active, size, period, late_ns):
    """Sums over two and over three dimensions of 24 ranks, of which every other ``period`` comes late."""
    names = ["ring", "direct", "halvingDoubling"]
    document = {
        **{f"{key}-implementation": names for key in KEYS[:3]},
        "preferred-dataset-splits": chunks,
        "active-chunks-per-dimension": active,
        "inter-dimension-scheduling": inter,
        "intra-dimension-scheduling": intra,
    }
    network = DimensionNetwork(["Ring", "FullyConnected", "Switch"], [4, 3, 2], [50, 20, 9], [500] * 3)
    operations = []
    for rank in range(24):
        more_ns = late_ns if rank // period % 2 else 0
        rows = [{"kind": COMPUTE, "duration_ns": 1000 + more_ns}]
        for collective, involved in ((0, 3), (1, 7)):
            rows.append({"kind": COLLECTIVE, "bytes": size, "collective": collective, "involved": involved})
        operations.append(Operations.of(rows, [[], [0], [1]]))
    return Workload(operations, network, System.from_document(document))


def test_uneven_heads_are_folded():
    """Ten heads over eight ranks: of 16 ranks a few represent all."""
    whole = MODELS["gpt3-125m"]
    assert isinstance(whole, Transformer)
    ten = dataclasses.replace(whole, layers=1, heads=10, kv_heads=10, head_size=64)
    step = workload(ten, Parallelism(tensor=8, data=2), gpu="a100-sxm", uneven=True)
    document = {
        **{f"{key}-implementation": ["ring", "ring", "halvingDoubling"] for key in KEYS[:3]},
        "preferred-dataset-splits": 4,
        "group-implementation": "dimensions",
    }
    network = DimensionNetwork(["Ring", "Ring", "Switch"], [4, 2, 2], [200, 100, 50], [500] * 3)
    work = Workload(step.operations(), network, System.from_document(document), groups=step.groups)
    assert assert_same(work)


def test_halving_in_a_switch_is_folded_beside_rings():
    """Four layers' sums over whole dimensions, one rank for 64."""
    document = {"all-reduce-implementation": ["ring", "halvingDoubling"], "preferred-dataset-splits": 4}
    network = DimensionNetwork(["Ring", "Switch"], [16, 4], [200, 50], [500, 500])
    rows = [{"kind": COLLECTIVE, "bytes": 1 << 20, "involved": 1 + at % 2} for at in range(8)]
    one = Operations.of(rows, [[at - 1] if at else [] for at in range(8)])
    work = Workload([one] * 64, network, System.from_document(document))
    fold = find_fold(work, congestion=False)
    assert fold is not None
    assert fold.ranks.tolist() == [0]
    assert assert_same(work)
    halving = System.from_document({**document, "all-reduce-implementation": ["halvingDoubling"] * 2})
    assert find_fold(dataclasses.replace(work, system=halving), congestion=False) is None


def test_chunks_of_themis_that_wait_by_size_are_folded():
    """Chunks of different sizes come to a full queue at one nanosecond: the smaller one is ahead anyway."""
    each = ["ring", "direct", "ring", "halvingDoubling"]
    document = {
        **{f"{key}-implementation": each for key in KEYS[:3]},
        "preferred-dataset-splits": 32,
        "active-chunks-per-dimension": 4,
        "collective-optimization": "localBWAware",
        "inter-dimension-scheduling": "themis",
        "intra-dimension-scheduling": "SCF",
    }
    shapes = ["Ring", "FullyConnected", "Ring", "Switch"]
    network = DimensionNetwork(shapes, [2, 4, 4, 2], [250.0, 200 / 7, 100.0, 50.0], [500.0] * 4)
    one = Operations.of([{"kind": COLLECTIVE, "bytes": 1 << 17}])
    assert assert_same(Workload([one] * 64, network, System.from_document(document)))


ALL = DimensionNetwork(["FullyConnected"], [8], [50.0], [500.0])
HALVING = System.from_document(
    {
        **{f"{key}-implementation": ["halvingDoubling"] for key in KEYS[:3]},
        "all-to-all-implementation": ["ring"],
        "preferred-dataset-splits": 1,
    }
)


@pytest.mark.parametrize("collective", range(3))
@pytest.mark.parametrize("size", [1, 4096])
def test_links_of_halving_and_doubling_end_as_those_of_all_ranks(collective, size):
    """Rank 3 sends to ranks 2, 1 and 7, not to those as far ahead as ranks 1, 2 and 4 are from rank 0."""
    one = Operations.of([{"kind": COLLECTIVE, "collective": collective, "bytes": size}])
    assert assert_same(Workload([one] * 8, ALL, HALVING), congestion=True)


def test_halving_beside_a_ring_is_not_folded_with_congestion():
    """They share the link from an even rank to the next one, and none of an odd rank."""
    rows = [{"kind": COLLECTIVE, "collective": c, "bytes": 4096, "stream": c} for c in (0, 3)]
    work = Workload([Operations.of(rows, [[], []])] * 8, ALL, HALVING, compat=True)
    assert find_fold(work, congestion=False)
    assert not find_fold(work, congestion=True)
    run = Run(work, congestion=True)
    run.finish()
    assert len(set(run.result().end_ns.tolist())) > 1


def test_ranks_that_send_nothing_are_folded_with_congestion():
    network = DimensionNetwork(["FullyConnected", "Ring"], [2, 3], [50.0, 50.0], [500.0, 500.0])
    one = Operations.of([{"kind": COMPUTE, "duration_ns": 1000}])
    assert assert_same(Workload([one] * 6, network, RING), congestion=True)


def test_groups_are_not_folded_with_congestion():
    two = Operations.of([{"kind": COLLECTIVE, "bytes": 4096, "group": 1}])
    four = Operations.of([{"kind": COLLECTIVE, "bytes": 4096, "group": 2}])
    work = Workload([two, two, four, four], FOUR, RING, groups={1: [0, 1], 2: [2, 3]})
    assert find_fold(work, congestion=False)
    assert not find_fold(work, congestion=True)


def test_what_cannot_be_told_apart_is_not_folded():
    """Two groups of the same ranks whose numbers differ by 500 have the same tags."""
    rows = [
        {"kind": COLLECTIVE, "bytes": 4096, "group": 1},
        {"kind": COLLECTIVE, "bytes": 4096, "group": 501},
    ]
    network = DimensionNetwork(["Switch"], [8], [50.0], [500.0])
    operations = [Operations.of(rows) if rank < 4 else Operations.of([]) for rank in range(8)]
    four = list(range(4))
    assert not find_fold(Workload(operations, network, RING, groups={1: four, 501: four}), congestion=False)
    rows[1]["group"] = 2
    operations = [Operations.of(rows) if rank < 4 else Operations.of([]) for rank in range(8)]
    work = Workload(operations, network, RING, groups={1: four, 2: four})
    assert find_fold(work, congestion=False)
    assert assert_same(work)


def test_a_tie_that_changes_times_gives_the_folded_run_up():
    """Chunks of three all-gathers come in by one port at one nanosecond: who is first differs among ranks."""
    document = {
        **{f"{key}-implementation": ["direct2", "halvingDoubling"] for key in KEYS[:3]},
        "all-to-all-implementation": ["direct2", "ring"],
        "scheduling-policy": "FIFO",
        "endpoint-delay": 8,
        "local-mem-bw": 1,
        "preferred-dataset-splits": 6,
        "intra-dimension-scheduling": "RG",
        "collective-optimization": "localBWAware",
    }
    network = DimensionNetwork(["Ring", "Switch"], [4, 2], [1000.0, 1000.0], [1.0, 0.0])
    rows = [
        {"collective": 2, "bytes": 4096, "involved": 3, "priority": 2, "stream": 1},
        {"collective": 2, "bytes": 4096, "involved": 3, "stream": 1},
        {"collective": 3, "bytes": 16384, "involved": 1, "stream": 1},
        {"collective": 2, "bytes": 256, "involved": 2, "priority": 2},
    ]
    one = Operations.of([{"kind": COLLECTIVE, **row} for row in rows], [[], [0], [0, 1], [0]])
    work = Workload([one] * 8, network, System.from_document(document, queues=3))
    fold, few, each = find_fold(work, congestion=False), Run(work), Run(work)
    assert fold is not None
    assert fold.ranks.tolist() == [0]
    few.finish()
    each.go()
    assert len(np.unique(np.reshape(each.machine.operations.end_ns, (8, -1)), axis=0)) > 1
    assert few.digest() == each.digest()


def test_strands_of_different_kinds_do_not_meet():
    """NPUs, chunks and steps are small numbers: which kind they are of counts as much."""
    kinds = (ties._OF_NPU, ties._OF_STEP, ties._OF_CHUNK, ties._OF_BEGIN)
    numbers = [*range(300), 1 << 20, (1 << 20) + 1, 1 << 33, (1 << 33) + 1]
    strands = {int(ties._strand(kind, number)) for kind in kinds for number in numbers}
    assert len(strands) == len(kinds) * len(numbers)
    ways = (ties._TIMER, ties._LATE, ties._WAITED, ties._SENT)
    strands |= {int(ties._strand(strand, way)) for strand in strands for way in ways}
    assert len(strands) == (1 + len(ways)) * len(kinds) * len(numbers)


def test_a_tie_gives_the_folded_run_up():
    """A message that takes no time arrives when its receive is posted: which is first differs."""
    quick = DimensionNetwork(["Switch"], [8], [1e9], [0.0])
    operations = [
        Operations.of([{"kind": COLLECTIVE, "bytes": 8, "group": 1 + rank // 4}]) for rank in range(8)
    ]
    groups = {1: [0, 1, 2, 3], 2: [4, 5, 6, 7]}
    work = Workload(operations, quick, RING, groups=groups)
    assert find_fold(work, congestion=False)
    assert_same(work)


def test_a_deadlock_is_reported_by_all_npus():
    halving = System.from_document(
        {"all-reduce-implementation": ["halvingDoubling"], "preferred-dataset-splits": 1}
    )
    run = Run(Workload([ONE] * 3, DimensionNetwork(["Ring"], [3], [50.0], [500.0]), halving, compat=True))
    run.finish()
    with pytest.raises(Deadlock, match="3 of 3 ranks"):
        run.result()


def test_a_message_without_its_end_is_reported_by_all_ranks():
    rows = [Operations.of([{"kind": RECV, "bytes": 8, "peer": rank ^ 1}]) for rank in range(4)]
    run = Run(Workload(rows, FOUR, RING))
    run.finish()
    with pytest.raises(Deadlock, match="4 of 4 ranks"):
        run.result()


def test_a_group_that_is_missing_is_reported():
    with pytest.raises(InputError, match="rank 0 names group 1"):
        Run(Workload([Operations.of([{"kind": COLLECTIVE, "bytes": 8, "group": 1}])] * 4, FOUR, RING))


def test_sixteen_thousand_npus_end_in_no_time():
    network = DimensionNetwork(["Ring"], [16384], [50.0], [500.0])
    run = Run(Workload([ONE] * 16384, network, RING))
    run.finish()
    assert run.events > 1e9
    assert len(set(run.result().end_ns.tolist())) == 1


def test_tables_grow_with_ranks_and_not_with_ranks_times_groups():
    """Bytes of all tables for each rank: 32 times as many ranks are in 14 times as many groups."""
    model = Transformer("tiny", 2, 64, 8, 256, 1000, 64)
    each = []
    for data in (8, 256):
        run = Run(workload(model, Parallelism(data=data, tensor=8), gpu="h100-sxm").on(), congestion=False)
        assert run.finish_folded()
        tables = run.outline
        assert run.workload is not None
        members = sum(len(ranks) for ranks in run.workload.groups.values())
        assert members == 2 * data * 8  # every rank has a tensor group and one of replicas
        assert len(tables.group_streams) == int(tables.config[0].lanes) * members
        each.append(sum(np.asarray(table).nbytes for table in tables) / (data * 8))
    assert each[1] < 1.05 * each[0]


def test_tables_of_all_ranks_are_made_when_somebody_looks():
    step = workload("gpt3-125m", Parallelism(data=4, tensor=2, pipeline=2), gpu="h100-sxm")
    sim, other = (anb.Simulation(step, record=False) for _ in range(2))
    sim.run()
    rows, hashed = sim.result.per_rank(), sim.state_hash()
    found = anb.explore.account(sim, step), sim.result.breakdown()
    assert not sim.engine.run.made
    other.step(1)  # all ranks from here
    other.run()
    assert other.engine.run.made
    assert (other.result.per_rank(), other.state_hash()) == (rows, hashed)
    assert (anb.explore.account(other, step), other.result.breakdown()) == found
    assert sim.inspect("rank[3]")["state"] == other.inspect("rank[3]")["state"]
    assert sim.engine.run.made
    assert sim.state_hash() == hashed


def test_a_folded_run_goes_back_forks_and_is_saved(tmp_path):
    step = workload("gpt3-125m", Parallelism(data=4, tensor=2, pipeline=2), gpu="h100-sxm")
    sim, other = (anb.Simulation(step, record=False) for _ in range(2))
    sim.run()
    end = sim.state_hash()
    fork = sim.fork()
    assert fork.state_hash() == end
    sim.back(10)
    other.step(sim.events)
    assert sim.state_hash() == other.state_hash()
    fork.reset()
    assert fork.events == 0
    assert not fork.engine.run.made
    fork.run()
    assert fork.state_hash() == end
    fork.save(tmp_path / "end.npz")
    loaded = anb.Simulation.load(tmp_path / "end.npz")
    assert loaded.state_hash() == end
    loaded.back(10)
    assert loaded.state_hash() == sim.state_hash()
    fork.reset()
    fork.set("rank[1].speed", 0.5)
    fork.run()
    assert fork.result.time_ps > sim.result.time_ps
