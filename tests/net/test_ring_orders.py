"""The orders of ranks on rings: links and NICs are used equally often."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from astranb.collectives import Collective, verify
from astranb.infragraph import blueprint
from astranb.net import compile_fabric
from astranb.net.ring_orders import node_paths, node_rings, ring_order
from astranb.net.shape import Shape


@pytest.mark.parametrize("gpus", range(3, 14))
def test_rings_over_a_mesh_share_their_links_equally(gpus):
    rings = node_rings(gpus)
    assert all(sorted(ring) == list(range(gpus)) for ring in rings)
    used = Counter(link for ring in rings for link in pairwise((*ring, ring[0])))
    assert len(set(used.values())) == 1
    left = gpus * (gpus - 1) - len(used)
    assert left == (0 if gpus % 2 or gpus == 8 else gpus)  # an even number leaves pairs


def test_rings_of_eight_are_rccls_in_its_order():
    """Model 79: ``0 1 2 3 4 5 6 7|0 1 2 3 4 5 7 6|...``, seven, then the same backwards."""
    rings = node_rings(8)
    assert rings[1] == (0, 1, 2, 3, 4, 5, 7, 6)
    assert rings[7:] == tuple(ring[::-1] for ring in rings[:7])


@pytest.mark.parametrize("meshed", [False, True])
@pytest.mark.parametrize("gpus", [2, 3, 4, 6, 8])
def test_paths_begin_and_end_at_each_gpu_once(gpus, meshed):
    paths = node_paths(gpus, meshed=meshed)
    assert all(sorted(path) == list(range(gpus)) for path in paths)
    assert {path[0] for path in paths} == {path[-1] for path in paths} == set(range(gpus))
    used = Counter(link for path in paths for link in pairwise(path))
    if meshed and gpus % 2 == 0:
        assert set(used.values()) == {1}
        assert len(used) == gpus * (gpus - 1)


def test_a_ring_enters_a_node_by_the_nic_by_which_it_left_the_one_before():
    shape = Shape(8, rdma=True)
    for channel in range(8):
        ring = ring_order(32, shape, channel)
        assert sorted(ring) == list(range(32))
        crossings = [(a % 8, b % 8) for a, b in pairwise((*ring, ring[0])) if a // 8 != b // 8]
        assert len(crossings) == 4
        assert all(a == b for a, b in crossings)
    entered = [ring_order(32, shape, channel)[0] for channel in range(8)]
    assert entered == list(range(8))


def test_other_shapes_keep_the_order_of_ranks():
    for shape in (Shape(8), Shape(4), Shape(1, rdma=True), Shape(3, rdma=True)):
        assert ring_order(8, shape, 5) == tuple(range(8))


@pytest.mark.parametrize(
    "name, shape",
    [
        ("dgx-h100", Shape(8)),
        ("mi300x", Shape(8, meshed=True)),
        ("single-tier:servers=2,server=dgx-h100", Shape(8, rdma=True)),
        ("single-tier:servers=2,server=mi300x", Shape(8, meshed=True, rdma=True)),
        ("ring:gpus=8", Shape(8)),
    ],
)
def test_the_shape_of_a_fabric(name, shape):
    assert compile_fabric(blueprint(name).expand()).shape == shape


def test_the_shape_of_some_ranks():
    shape = Shape(8, meshed=True, rdma=True)
    assert shape.among(range(8, 12)) == Shape(4, meshed=True, rdma=True)
    assert shape.among([0, 8, 16]).per_node == 1
    assert shape.among([0, 1, 8]) == Shape(3)
    assert shape.among([0, 8, 1, 9]) == Shape(4)


def test_two_trees_of_nodes_with_chains_in_them():
    program = Collective.of("all_reduce", "64 KiB", "tree", channels=4).program(32, Shape(8, rdma=True))
    posts = [block for block in program.blocks if block.unit == "nic"]
    # Of each node one GPU a channel has a NIC at work, the first of its chain, on the way up or down.
    assert {(block.channel, block.rank % 8) for block in posts} == {(c, c) for c in range(4)}
    assert len(posts) == 4 * (3 + 2)  # three nodes have a parent, two have children
    assert verify(program, "all_reduce") == []


@pytest.mark.parametrize("protocol", ["Simple", "LL"])
@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
@pytest.mark.parametrize(
    "ranks, shape",
    [(8, Shape(8, meshed=True)), (8, Shape(4, rdma=True)), (12, Shape(4, meshed=True, rdma=True))],
)
def test_rings_are_right_in_any_order(name, protocol, ranks, shape):
    wanted = Collective.of(name, "64 KiB", "ring", channels=3, protocol=protocol)
    assert verify(wanted.program(ranks, shape), name) == []


def test_a_reduction_ends_at_its_root_in_any_order():
    wanted = Collective.of("reduce", "64 KiB", "ring", channels=3, root=5)
    assert verify(wanted.program(8, Shape(8, meshed=True)), "reduce", root=5) == []
