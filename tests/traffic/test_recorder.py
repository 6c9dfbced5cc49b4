"""A recorded pattern replays as the workload that it came from, folded or not, by messages and by lines."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import Collective, Program
from astranb.core.errors import InputError
from astranb.engine.messages import simulate
from astranb.traffic import MessageGraph, Pattern, record, template_of_program
from astranb.traffic.order import node_order
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
from astranb.workload.models import Parallelism, workload

_RING = DimensionNetwork(["Ring"], [4], [50], [500])
_TWO = DimensionNetwork(["Switch", "Switch"], [4, 2], [100, 25], [300, 800])
_CUBE = DimensionNetwork(["Ring", "FullyConnected", "Switch"], [2, 3, 2], [100, 50, 25], [100, 300, 800])
_COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


def _system(name: str, algorithm: str, dims: int, splits: int = 1, **more: Any) -> System:
    return System.from_document(
        {
            f"{name}-implementation": [algorithm] * dims, "preferred-dataset-splits": splits,
            "local-mem-bw": 1600, "collective-optimization": "localBWAware", **more,
        }
    )  # fmt: skip


def _twice(collective: int, network: DimensionNetwork, system: System) -> Workload:
    """Two collectives between computations, one of which runs beside the first."""
    rows = [
        {"kind": COMPUTE, "duration_ns": 1000},
        {"kind": COLLECTIVE, "collective": collective, "bytes": 1 << 20},
        {"kind": COMPUTE, "duration_ns": 700},
        {"kind": COLLECTIVE, "collective": collective, "bytes": 1 << 18},
    ]
    return Workload([Operations.of(rows, [[], [0], [0], [2]])] * network.npus, network, system)


def _replayed(work: Workload, fidelity: str) -> tuple[Any, Any, MessageGraph]:
    graph = record(work, fidelity=fidelity).unfold()
    congestion = fidelity == "congestion"
    return (
        simulate(work, congestion=congestion),
        simulate(graph.on(work.network), congestion=congestion),
        graph,
    )


@pytest.mark.parametrize(
    "number, algorithm, network, splits",
    [
        (number, algorithm, network, splits)
        for (number, algorithm), network, splits in product(
            [(k, a) for k in range(4) for a in ("ring", "direct")], (_RING, _TWO, _CUBE), (1, 4)
        )
    ],
)
@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
def test_a_collective_replays_to_the_nanosecond(
    number: int, algorithm: str, network: DimensionNetwork, splits: int, fidelity: str
) -> None:
    system = _system(_COLLECTIVES[number], algorithm, len(network.npus_count), splits)
    ran, again, graph = _replayed(_twice(number, network, system), fidelity)
    assert again.end_ns.tolist() == ran.end_ns.tolist()
    assert (again.messages, again.message_bytes) == (ran.messages, ran.message_bytes)
    assert (graph.messages, graph.bytes) == (ran.messages, ran.message_bytes)


@pytest.mark.parametrize("algorithm", ["halvingDoubling", "doubleBinaryTree"])
@pytest.mark.parametrize("network", [_RING, _TWO], ids=["ring", "two"])
def test_trees_and_halving_too_where_one_chunk_follows_another(
    algorithm: str, network: DimensionNetwork
) -> None:
    system = _system("all-reduce", algorithm, len(network.npus_count))
    for fidelity in ("analytical", "congestion"):
        ran, again, _ = _replayed(_twice(0, network, system), fidelity)
        # A leaf of a tree is done early; which of its chunks has the link first may differ.
        assert again.end_ns.max() == ran.end_ns.max()
        assert again.messages == ran.messages


_PLANS: dict[str, tuple[str, Parallelism, dict[str, Any], float]] = {
    "pipeline": ("gpt3-125m", Parallelism(tensor=2, pipeline=2, data=4), {"batch": 16, "microbatches": 2}, 0),
    "data": ("gpt3-125m", Parallelism(data=16), {"batch": 16}, 0),
    "sharded": ("gpt3-125m", Parallelism(data=16, zero=3), {"batch": 16}, 0),
    "experts": ("mixtral-8x7b", Parallelism(data=16, expert=8), {"batch": 16}, 0),
    # A ring of several ranks of each node becomes as many rings: between nodes they take other turns.
    "context": ("llama2-7b", Parallelism(context=4, tensor=2, data=2), {"batch": 2}, 0.011),
    "tables": ("dlrm", Parallelism(data=16), {}, 0),
}


@pytest.mark.parametrize("plan", _PLANS)
@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
def test_a_training_step_replays(plan: str, fidelity: str) -> None:
    name, degrees, options, within = _PLANS[plan]
    ran, again, graph = _replayed(workload(name, degrees, **options).on(), fidelity)
    assert abs(int(again.end_ns.max()) / int(ran.end_ns.max()) - 1) <= within
    assert graph.bytes == ran.message_bytes
    if not within:
        assert again.end_ns.tolist() == ran.end_ns.tolist()


def _step(**more: Any) -> Any:
    model = Parallelism(tensor=2, pipeline=2, data=2)
    return workload("gpt3-125m", model, batch=4, microbatches=2, sequence=64, **more)


def test_folded_and_unfolded_replay_bit_for_bit() -> None:
    pattern = record(_step().on())
    assert len(pattern.operations.patterns) == 2  # stages of the pipeline
    runs = []
    for what in (pattern, pattern.unfold()):
        sim = anb.Simulation("dgx-h100", what, fidelity="congestion")
        sim.run()
        runs.append((sim.now_ps, sim.events, sim.state_hash()))
    assert runs[0] == runs[1]


def test_a_pattern_counts_what_it_does_not_make() -> None:
    pattern = record(_step().on())
    graph = pattern.unfold()
    assert (pattern.messages, pattern.bytes, pattern.nodes) == (
        graph.messages, graph.bytes, len(graph.nodes),
    )  # fmt: skip


def test_starts_are_those_of_the_run() -> None:
    work = workload("gpt3-125m", Parallelism(data=16), batch=16, sequence=64).on()
    for congestion in (False, True):
        fidelity = "congestion" if congestion else "analytical"
        graph = record(work, fidelity=fidelity).unfold()
        again = graph.timed(work.network, congestion=congestion)
        assert graph.nodes["start_ps"].tolist() == again.nodes["start_ps"].tolist()


def test_where_ranks_come_to_a_collective_one_by_one_a_replay_gives_its_starts() -> None:
    work = _step().on()
    graph = record(work).unfold()
    again = graph.timed(work.network)
    late = np.flatnonzero(graph.nodes["start_ps"] != again.nodes["start_ps"])
    labels = {graph.labels[label].name for label in graph.nodes["label"][late].tolist()}
    assert "ends grads" in labels  # of the first and the last stage of the pipeline
    assert len(late) < 0.02 * len(graph.nodes)
    assert again.timed(work.network).nodes["start_ps"].tolist() == again.nodes["start_ps"].tolist()


@pytest.mark.slow
def test_by_cache_lines_a_pattern_takes_as_long_as_its_workload() -> None:
    """Collectives are the loads and stores of their algorithm's thread blocks again."""
    rows = [
        {"kind": COMPUTE, "duration_ns": 2000},
        {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 17},
        {"kind": COMPUTE, "duration_ns": 3000},
        {"kind": COLLECTIVE, "collective": 2, "bytes": 1 << 14},
    ]
    system = System.from_document(
        {"all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"]}
    )
    one = Operations.of(rows, [[], [0], [0], [1, 2]])
    work = Workload([one] * 8, DimensionNetwork(["Switch"], [8], [450], [300]), system)
    times = []
    for what in (work, record(work)):
        sim = anb.Simulation("dgx-h100", what, fidelity="cacheline", record=False)
        sim.run()
        times.append(sim.now_ps)
    assert abs(times[1] / times[0] - 1) < 0.01


def test_a_simulation_is_recorded_and_not_moved() -> None:
    sim = anb.Simulation("dgx-h100", _step(), fidelity="congestion")
    pattern = record(sim, fidelity="congestion")
    assert sim.events == 0
    sim.run()
    assert pattern.time_ns * 1000 == sim.now_ps
    assert pattern.time_ms == sim.now_ms


def test_lines_have_no_workload_to_record() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    with pytest.raises(InputError, match="not recorded at fidelity 'cacheline'"):
        record(sim)
    with pytest.raises(InputError, match="not recorded at fidelity 'cacheline'"):
        record(_step().on(), fidelity="cacheline")


def test_a_switch_that_reduces_has_no_peer() -> None:
    work = _twice(0, DimensionNetwork(["Switch"], [4], [50], [500]), _system("all-reduce", "inNetwork", 1))
    with pytest.raises(InputError, match="a switch reduces"):
        record(work)


def test_custom_collectives_are_recorded_as_they_are() -> None:
    swap = [
        {"kind": SEND, "bytes": 4096, "peer": 0, "tag": 7},
        {"kind": RECV, "bytes": 4096, "peer": 0, "tag": 7},
        {"kind": COMPUTE, "duration_ns": 50},
    ]
    ranks = []
    for rank in range(4):
        messages = [{**row, "peer": rank ^ 1} if "peer" in row else row for row in swap]
        custom = Operations.of(messages, [[], [], [1]])
        ranks.append(
            Operations.of([{"kind": COLLECTIVE, "bytes": 4096}] * 2, [[], [0]], {0: custom, 1: custom})
        )
    work = Workload(ranks, _RING, _system("all-reduce", "ring", 1))
    for fidelity in ("analytical", "congestion"):
        ran, again, graph = _replayed(work, fidelity)
        assert again.end_ns.tolist() == ran.end_ns.tolist()
        assert graph.messages == 8


@pytest.mark.parametrize(
    "name, algorithm, factor",
    [
        ("all_reduce", "allpairs", 14), ("all_reduce", "halving_doubling", 14), ("all_reduce", "tree", 14),
        ("all_gather", "allpairs", 7), ("reduce_scatter", "allpairs", 7), ("all_to_all", "pairwise", 7),
        ("broadcast", "ring", 7),
    ],
)  # fmt: skip
def test_programs_send_the_bytes_of_their_algorithm(name: str, algorithm: str, factor: int) -> None:
    graph = template_of_program(Collective.of(name, 1 << 20, algorithm), 8)
    assert graph.bytes == factor << 20
    assert len(node_order(graph)) == len(graph.nodes)


def test_an_algorithm_of_ones_own_is_recorded() -> None:
    def neighbours(p: Program) -> None:
        came = [p.semaphore(rank) for rank in range(p.ranks)]
        for rank in range(p.ranks):
            block = p.block(rank)
            block.put(p.input(rank)[0], p.output((rank + 1) % p.ranks)[rank])
            block.signal(came[(rank + 1) % p.ranks])
            block.wait(came[rank])

    work = _twice(2, _RING, _system("all-gather", "ring", 1))
    graph = record(work, algorithms={"all_gather": neighbours}).unfold()
    # The input of each rank, in channels, to its neighbour alone.
    assert graph.bytes == 4 * ((1 << 20) + (1 << 18))
    sends = graph.nodes[graph.sends]
    assert ((sends["rank"] + 1) % 4 == sends["peer"]).all()
    assert {label.algorithm for label in graph.labels if label.collective} == {"neighbours"}
    assert simulate(graph.on(_RING)).end_ns.max() > 0


def test_a_topology_aware_algorithm_knows_the_nodes() -> None:
    work = _twice(0, _TWO, _system("all-reduce", "ring", 2))
    graph = record(work, algorithms={"all_reduce": "hierarchical"}).unfold()
    sends = graph.nodes[graph.sends]
    between = sends["rank"] // 4 != sends["peer"] // 4
    # Between two nodes each rank exchanges its share of the sum: a quarter, there and back.
    assert int(sends["bytes"][between].sum()) == 2 * 8 * ((1 << 20) + (1 << 18)) // 4 // 2


def test_unknown_collectives_are_named() -> None:
    with pytest.raises(InputError, match="no collective 'all_redcue'"):
        record(_step().on(), algorithms={"all_redcue": "ring"})


@given(
    st.lists(st.tuples(st.sampled_from(range(4)), st.integers(1, 1 << 22), st.integers(0, 5000)), min_size=1,
             max_size=4),
    st.sampled_from([_RING, _TWO]),
    st.sampled_from(["ring", "direct"]),
    st.integers(1, 3),
)  # fmt: skip
def test_any_chain_of_collectives_replays(
    steps: list[tuple[int, int, int]], network: DimensionNetwork, algorithm: str, splits: int
) -> None:
    rows: list[dict[str, int]] = []
    for collective, size, pause_ns in steps:
        rows += [
            {"kind": COMPUTE, "duration_ns": pause_ns + 1},
            {"kind": COLLECTIVE, "collective": collective, "bytes": size},
        ]
    names = {f"{name}-implementation": [algorithm] * len(network.npus_count) for name in _COLLECTIVES}
    system = System.from_document({**names, "preferred-dataset-splits": splits})
    one = Operations.of(rows, [[], *([number] for number in range(len(rows) - 1))])
    ran, again, graph = _replayed(Workload([one] * network.npus, network, system), "analytical")
    assert again.end_ns.tolist() == ran.end_ns.tolist()
    assert graph.bytes == ran.message_bytes
    order = np.empty(len(graph.nodes), np.int64)
    order[node_order(graph)] = np.arange(len(order))
    assert (order[graph.deps] < np.repeat(order, np.diff(graph.dep_start))).all()


def test_patterns_of_equal_ranks_share_their_operations() -> None:
    many = record(workload("gpt3-125m", Parallelism(data=64), batch=64).on())
    assert isinstance(many, Pattern)
    assert (len(many.operations.patterns), many.ranks) == (1, 64)


@given(st.permutations([1000, 2000, 2000, 3000]))
def test_messages_in_another_order_of_sizes_are_matched_as_in_the_run(expected: list[int]) -> None:
    """A run matches them by size, and so does what was recorded of it."""
    sent = [1000, 2000, 2000, 3000]
    ranks = [
        Operations.of([{"kind": kind, "peer": peer, "bytes": size} for size in sizes])
        for kind, peer, sizes in ((SEND, 1, sent), (RECV, 0, expected))
    ]
    network = DimensionNetwork(["Switch"], [2], [50], [500])
    nodes = record(Workload(ranks, network, _system("all-reduce", "ring", 1))).unfold().nodes
    sends = np.flatnonzero(nodes["kind"] == SEND)
    assert nodes["bytes"][sends].tolist() == sent
    assert nodes["bytes"][nodes["match"][sends]].tolist() == sent
