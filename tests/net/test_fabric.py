from itertools import pairwise

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.net import compile_fabric


def fabric(name):
    return compile_fabric(anb.infragraph.resolve(name).expand())


def test_a_dgx_h100_has_eighteen_lanes_a_gpu_each_way():
    f = fabric("dgx-h100")
    nvlink = f.links[f.links["bandwidth_Bps"] == 25 * 10**9]
    for gpu in f.gpus:
        assert (nvlink["src"] == gpu).sum() == 18
        assert (nvlink["dst"] == gpu).sum() == 18


def test_ways_are_the_shortest_and_share_out_all_lanes():
    f = fabric("dgx-h100")
    ways, notes = f.routes([(0, 7), (7, 0)])
    assert notes == []
    for pair in ((0, 7), (7, 0)):
        assert len(ways[pair]) == 18
        first = {way[0] for way in ways[pair]}
        assert len(first) == 18
        for way in ways[pair]:
            assert len(way) == 2
            assert f.links[way[0]].src == f.gpus[pair[0]]
            assert f.links[way[1]].dst == f.gpus[pair[1]]
            assert f.links[way[0]].dst == f.links[way[1]].src


@pytest.mark.parametrize(
    "name", ["ring:gpus=6", "torus2d:rows=3,columns=3", "dgx-1", "dgx-2", "clos:servers=2,spines=2"]
)
def test_every_route_is_connected_and_never_turns_back(name):
    f = fabric(name)
    n = len(f.gpus)
    ways, _ = f.routes([(a, b) for a in range(n) for b in range(n) if a != b])
    for (a, b), options in ways.items():
        assert options
        for way in options:
            nodes = [int(f.links[way[0]].src), *(int(f.links[k].dst) for k in way)]
            assert (nodes[0], nodes[-1]) == (f.gpus[a], f.gpus[b])
            assert len(set(nodes)) == len(nodes)
            assert all(int(f.links[x].dst) == int(f.links[y].src) for x, y in pairwise(way))


def test_passing_through_gpus_is_the_last_resort_and_said():
    ways, notes = fabric("ring:gpus=4").routes([(0, 2)])
    assert {len(w) for w in ways[0, 2]} == {2}
    assert len(ways[0, 2]) == 2
    assert "through other GPUs" in notes[0]


def test_names_of_links():
    f = fabric("dgx-h100")
    for number in range(0, len(f.links), 7):
        assert f.find(f.name(number)) == [number]
    bundle = f.name(int((f.links["src"] == f.gpus[0]).argmax())).partition("#")[0]
    assert len(f.find(bundle)) >= 4
    for bad in ("nowhere->here", bundle + "#99", bundle + "#x", "->", "a"):
        with pytest.raises(InputError, match="unknown link"):
            f.find(bad)


def test_no_gpu_is_an_error():
    infra = anb.infragraph.load(
        {
            "name": "empty",
            "devices": [{"name": "d", "components": [{"name": "c", "count": 1, "choice": "cpu"}]}],
            "instances": [{"name": "i", "device": "d", "count": 1}],
        }
    )
    with pytest.raises(InputError, match="no GPU"):
        compile_fabric(infra.expand())


def test_a_node_that_no_open_link_leaves_is_avoided():
    fabric = compile_fabric(anb.infragraph.blueprint("clos:servers=2").expand())
    nodes = [int(node) for node in np.unique(fabric.links["src"]) if node not in set(fabric.gpus.tolist())]
    for node in nodes[:: len(nodes) // 12]:
        leaving = np.flatnonzero(fabric.links["src"] == node).tolist()
        found, _ = fabric.without(leaving).routes([(0, 9), (9, 0)], partial=True)
        assert not np.isin(found.links, leaving).any()


def test_any_directions_may_be_down():
    fabric = compile_fabric(anb.infragraph.blueprint("clos:servers=2").expand())
    rng = np.random.default_rng(1)
    for _ in range(20):
        closed = rng.choice(len(fabric.links), len(fabric.links) // 4, replace=False)
        found, _ = fabric.without(closed.tolist()).routes([(0, 9), (9, 0), (3, 4)], partial=True)
        assert not np.isin(found.links, closed).any()
