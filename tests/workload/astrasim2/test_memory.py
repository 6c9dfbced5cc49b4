"""Pools of memory behind a network of their own, and what a network costs."""

import json
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.engine.messages import simulate
from astranb.infragraph import blueprint
from astranb.workload.astrasim2 import (
    MEMORY,
    DimensionNetwork,
    InfraNetwork,
    Memory,
    Operations,
    System,
    Workload,
)
from astranb.workload.astrasim2.documents import read_memory, read_network
from astranb.workload.astrasim2.memory import POOL_TOPOLOGIES, Pool

DOCUMENT = {
    "memory-type": "HIERARCHICAL_POOL",
    "pool-topology": "MULTI_LEVEL_SWITCH",
    "remote-mem-latency": 1000,
    "remote-mem-bw": 100,
    "num-nodes": 4,
    "num-npus-per-node": 8,
    "num-memory-groups": 16,
    "num-out-node-switches": 4,
    "pool-link-bw": 200,
    "npu-link-bw": 100,
    "chunk-size": 1 << 20,
}


def _pools(**more):
    return st.builds(
        Pool,
        st.sampled_from(POOL_TOPOLOGIES),
        st.integers(1, 12),
        st.integers(1, 8),
        st.integers(1, 16),
        st.sampled_from([50.0, 100.0, 200.0]),
        st.integers(1, 8),
        st.sampled_from([25.0, 100.0]),
        st.sampled_from([50.0, 400.0]),
        st.sampled_from([1 << 16, 1 << 20]),
        st.integers(0, 2000),
        **more,
    )


@settings(max_examples=60)
@given(_pools(), st.integers(1, 1 << 30))
def test_a_pool_is_bound_by_its_slowest_stage_and_its_latency(pool, size):
    taken = int(pool.durations_ns(np.array([size]))[0])
    moved = size * pool.npus
    slowest = max(stage / (pool.groups * pool.chunk_bytes) for stage in pool.stages_ns())
    assert taken + 1 >= pool.latency_ns + moved * slowest
    steps = ceil(moved / (pool.groups * pool.chunk_bytes))
    assert taken <= pool.latency_ns + steps * sum(pool.stages_ns())
    assert int(pool.durations_ns(np.array([2 * size]))[0]) >= taken


@settings(max_examples=60)
@given(_pools(), st.integers(1 << 20, 1 << 30))
def test_a_pool_that_does_the_collective_reads_one_tensor(pool, size):
    together = Pool(**{**vars(pool), "collectives": True})
    alone, shared = (int(one.durations_ns(np.array([size]))[0]) for one in (pool, together))
    # Out of the memory comes one tensor instead of N.
    least = size / (pool.groups * pool.group_Bpns)
    assert shared + 1 >= pool.latency_ns + least
    assert alone + 1 >= pool.latency_ns + least * pool.npus
    # Each NPU gets as much in either case.
    assert shared + 1 >= pool.latency_ns + size / pool.npu_Bpns


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 8])
def test_the_busiest_link_of_a_ring_is_that_of_every_pair_counted(nodes):
    load = np.zeros((2, nodes))
    for src in range(nodes):
        for dst in range(nodes):
            ahead = (dst - src) % nodes
            for direction, steps in ((0, ahead), (1, nodes - ahead)):
                # Both directions where they are equally long.
                part = 1.0 if steps < nodes / 2 else 0.5 if 2 * steps == nodes else 0.0
                for step in range(steps if ahead else 0):
                    load[direction, (src + step) % nodes if direction == 0 else (src - step) % nodes] += part
    pool = Pool("RING", nodes, 1, nodes, 1.0, 1, 1.0, 1.0, 1, 0)
    assert float(pool.share()) == pytest.approx(load.max() / nodes**2)


@pytest.mark.parametrize("rows, columns", [(1, 5), (2, 3), (3, 3), (2, 4), (3, 4)])
def test_the_busiest_link_of_a_mesh_is_that_of_every_pair_counted(rows, columns):
    load: dict[tuple[int, int, int, int], int] = {}
    places = [(x, y) for x in range(columns) for y in range(rows)]
    for x, y in places:
        for there_x, there_y in places:
            at = (x, y)
            while at != (there_x, there_y):
                move = (np.sign(there_x - at[0]), 0) if at[0] != there_x else (0, np.sign(there_y - at[1]))
                link = (*at, int(move[0]), int(move[1]))
                load[link] = load.get(link, 0) + 1
                at = (at[0] + int(move[0]), at[1] + int(move[1]))
    pool = Pool("MESH", rows * columns, 1, 1, 1.0, 1, 1.0, 1.0, 1, 0)
    assert float(pool.share()) == pytest.approx(max(load.values()) / len(places) ** 2)


def test_a_pool_is_read_and_used(tmp_path):
    path = tmp_path / "memory.json"
    path.write_text(json.dumps(DOCUMENT))
    memory = read_memory(path)
    size = 64 << 20
    ranks = [Operations.of([{"kind": MEMORY, "bytes": size}])] * 32
    network = DimensionNetwork(["Ring"], [32], [50], [500])
    result = simulate(Workload(ranks, network, System.from_document({}), memory=memory))
    # 2 GiB in 128 steps of 16 chunks; the memory is the slowest.
    t1, t2, t3 = (1 << 20) / 100, 16 * (1 << 20) / 16 / 200, 16 * (1 << 20) / 32 / 100
    assert result.end_ns.tolist() == [int(1000 + t1 + t2 + t3 + 127 * t1)] * 32
    path.write_text(json.dumps({**DOCUMENT, "in-pool-collectives": 1}))
    together = simulate(Workload(ranks, network, System.from_document({}), memory=read_memory(path)))
    assert together.end_ns.max() < result.end_ns.max()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"pool-topology": "RINGS"}, "unknown pool-topology 'RINGS'; did you mean 'RING'"),
        ({"chunk-size": 0}, "chunk-size: 0 is out of range"),
        ({"memory-type": "HIERARCHICAL_POL"}, "did you mean 'HIERARCHICAL_POOL'"),
        ({"pool-link-bw": None}, "pool-link-bw is missing"),
    ],
)
def test_a_pool_that_is_not_described_is_refused(tmp_path, change, message):
    path = tmp_path / "memory.json"
    document = {key: value for key, value in {**DOCUMENT, **change}.items() if value is not None}
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        read_memory(path)


@pytest.mark.parametrize(
    "topology, counts, rates, dollars",
    [
        # Recorded with ASTRA-sim 1.0: exercises 2 and 3 of the tutorial at ASPLOS 2022.
        (["Ring"], [8], [50], 1600),
        (["Switch"], [8], [50], 6800),
        (["Ring", "Ring"], [16, 16], [62, 62], 126_976),
        # 6 links of 25 GB/s each, and one of 6.25.
        (["Switch", "Switch"], [16, 16], [150, 6.25], 680_000),
    ],
)
def test_a_network_costs_what_astra_sim_1_says(topology, counts, rates, dollars):
    network = DimensionNetwork(topology, counts, rates, [500] * len(counts))
    assert network.cost_dollars() == dollars


def test_pods_cost_more_and_have_nics(tmp_path):
    path = tmp_path / "network.yml"
    text = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 100, 25 ]\nlatency: [ 1, 1 ]\n"
    path.write_text(text + "dimension_type: [ Node, Pod ]\n")
    assert read_network(path).cost_dollars() == 8 * 100 * 4 + 8 * 25 * (7.4 + 23.7 + 47.8)
    path.write_text(text + "dimension_type: [ Node, Tile ]\n")
    with pytest.raises(InputError, match="a Tile has no switches"):
        read_network(path).cost_dollars()
    path.write_text(text + "dimension_type: [ Node ]\n")
    with pytest.raises(InputError, match=r"lists differ in length: .*2 in latency, 1 in dimension_type"):
        read_network(path)
    assert DimensionNetwork(["Torus2D", "Mesh"], [9, 3], [10, 20], [1, 1]).cost_dollars() == 4 * (
        54 * 10 + 18 * 20
    )


def test_an_infrastructure_costs_its_links_switches_and_nics():
    assert InfraNetwork(blueprint("ring:gpus=8")).cost_dollars() == 8 * 50 * 4
    assert InfraNetwork(blueprint("switch:gpus=8")).cost_dollars() == 8 * 50 * (4 + 13)
    one, two = (InfraNetwork(blueprint(f"clos:servers={n}")).cost_dollars() for n in (2, 4))
    assert 1.9 < two / one < 2.3


def test_a_memory_of_another_kind_is_as_it_was():
    memory = Memory.from_document(
        {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 1000, "remote-mem-bw": 100}
    )
    ranks = [Operations.of([{"kind": MEMORY, "bytes": 64 << 20}])] * 4
    result = simulate(
        Workload(ranks, DimensionNetwork(["Ring"], [4], [50], [500]), System.from_document({}), memory=memory)
    )
    assert result.end_ns.tolist() == [672_088] * 4
