"""Ways of whole messages: the same as found one pair after the other."""

import random
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.infragraph import load, resolve
from astranb.net import compile_fabric
from astranb.net.message_routing import message_routes
from tests.net import every_route


def same(fabric, pairs):
    """Ways as tables and the long way are the same."""
    npus = len(fabric.gpus)
    found = message_routes(fabric, pairs, npus)
    said: dict[tuple[int, int], list[tuple[float, float, list[list[int]]]]] = {}
    for way in found.routes:
        lanes = [found.lanes[k] for k in found.hops[way.first_hop : way.first_hop + way.hops]]
        said.setdefault(divmod(int(way.key), npus), []).append((way.latency_ns, way.rate_Bpns, lanes))
        for own, wire in zip(lanes, found.hops[way.first_hop : way.first_hop + way.hops], strict=True):
            assert found.wires[wire].rate_Bpns == fabric.links["bandwidth_Bps"][own].sum() / 1e9
            gaps_ps = fabric.links["gap_ps"][own].tolist()
            packets = 0 if 0 in gaps_ps else sum(1000 / gap for gap in gaps_ps)
            assert found.wires[wire].gap_ns == pytest.approx(1 / packets if packets else 0)
        assert way.gap_ns == found.wires.gap_ns[found.hops[way.first_hop : way.first_hop + way.hops]].max()
    assert said == every_route.message_routes(fabric, pairs)
    assert found.routes.key.tolist() == sorted(found.routes.key.tolist())


@pytest.mark.parametrize(
    "name",
    [
        "dgx-h100",
        "dgx-1",
        "ring:gpus=6",
        "torus2d:rows=3,columns=4",
        "clos:servers=3,server=dgx-a100",
        "clos:servers=4,per_leaf=2,spines=3",
        "single-tier:servers=3",
        "fat-tree:ports=16,factor=1",
        "dragonfly",
        "rails:servers=2",
        "rails:servers=2,server=mi300x",
        "rails:servers=2,server=dgx-gb200",
        "clos:servers=2,server=a3-high",
        "single-tier:servers=2,server=dgx-1",
    ],
)
def test_ways_are_those_of_a_search_for_each_pair(name):
    fabric = compile_fabric(resolve(name).expand())
    every = list(permutations(range(len(fabric.gpus)), 2))
    same(fabric, set(random.Random(name).sample(every, min(len(every), 60))))


@st.composite
def graphs(draw):
    """GPUs of servers and switches, joined at random by links of three kinds."""
    servers, switches = draw(st.integers(2, 5)), draw(st.integers(1, 5))
    ends = [f"server[{k}]" for k in range(servers)] + [f"switch[{k}]" for k in range(switches)]
    pick = st.tuples(st.sampled_from(ends), st.sampled_from(ends), st.sampled_from(["slow", "fast", "wide"]))
    edges = draw(st.lists(pick, min_size=servers, max_size=16))
    rates = {"slow": 100, "fast": 400, "wide": 400}
    return {
        "name": "drawn",
        "devices": [
            {
                "name": "server",
                "components": [
                    {"name": "gpu", "count": 2, "choice": "xpu"},
                    {"name": "port", "count": 1, "choice": "port"},
                ],
                "links": [{"name": "bus", "physical": {"bandwidth": {"gigabits_per_second": 200}}}],
                "edges": [
                    {
                        "ep1": {"component": "gpu"},
                        "ep2": {"component": "port"},
                        "scheme": "many2many",
                        "link": "bus",
                    }
                ],
            },
            {"name": "switch", "components": [{"name": "asic", "count": 1, "choice": "switch"}]},
        ],
        "links": [
            {"name": name, "physical": {"bandwidth": {"gigabits_per_second": rate}}}
            for name, rate in rates.items()
        ],
        "instances": [
            {"name": "server", "device": "server", "count": servers},
            {"name": "switch", "device": "switch", "count": switches},
        ],
        "edges": [
            {
                "ep1": {"instance": a, "component": "port" if a.startswith("server") else "asic"},
                "ep2": {"instance": b, "component": "port" if b.startswith("server") else "asic"},
                "scheme": "one2one",
                "link": kind,
            }
            for a, b, kind in edges
            if a != b
        ],
    }


@st.composite
def boxes(draw):
    """Boxes of GPUs with hosts and NICs that are joined at random, and switches between them."""
    servers, switches = draw(st.integers(2, 3)), draw(st.integers(1, 4))
    parts = {"gpu": "xpu", "nic": "nic", "cpu": "cpu", "pcie": "switch"}
    counts = {"gpu": draw(st.integers(1, 3)), "nic": draw(st.integers(1, 3)), "cpu": 2, "pcie": 2}
    ends = [f"{part}[{k}]" for part, count in counts.items() for k in range(count)]
    pick = st.tuples(st.sampled_from(ends), st.sampled_from(ends), st.sampled_from(["bus", "wide"]))
    inside = draw(st.lists(pick, max_size=5))
    inside += [
        (f"{part}[{k}]", f"pcie[{draw(st.integers(0, 1))}]", "bus")
        for part in ("gpu", "nic")
        for k in range(counts[part])
    ]
    inside += [("cpu[0]", "cpu[1]", "bus"), ("pcie[0]", "cpu[0]", "bus"), ("pcie[1]", "cpu[1]", "bus")]
    nics = st.tuples(st.integers(0, servers - 1), st.integers(0, counts["nic"] - 1))
    hosts = [(f"server[{s}]", f"nic[{k}]") for s, k in draw(st.lists(nics, min_size=4, max_size=12))]
    gpus = st.tuples(st.integers(0, servers - 1), st.integers(0, counts["gpu"] - 1))
    hosts += [
        (f"server[{s}]", f"gpu[{k}]")
        for s, k in draw(st.sampled_from([[], [], [], draw(st.lists(gpus, max_size=1))]))
    ]
    switch = st.sampled_from([(f"switch[{k}]", "asic") for k in range(switches)])
    cables = [(host, draw(switch)) for host in hosts]
    cables += draw(st.lists(st.tuples(switch, switch), max_size=6))
    rates = {"bus": 200, "wide": 400, "cable": 100, "thick": 200}
    links = [
        {"name": name, "physical": {"bandwidth": {"gigabits_per_second": rate}}}
        for name, rate in rates.items()
    ]
    kinds = st.sampled_from(["cable"] * 4 + ["thick"])
    return {
        "name": "drawn",
        "devices": [
            {
                "name": "server",
                "components": [
                    {"name": part, "count": counts[part], "choice": choice} for part, choice in parts.items()
                ],
                "links": links[:2],
                "edges": [
                    {"ep1": {"component": a}, "ep2": {"component": b}, "scheme": "one2one", "link": kind}
                    for a, b, kind in inside
                    if a != b
                ],
            },
            {"name": "switch", "components": [{"name": "asic", "count": 1, "choice": "switch"}]},
        ],
        "links": links[2:],
        "instances": [
            {"name": "server", "device": "server", "count": servers},
            {"name": "switch", "device": "switch", "count": switches},
        ],
        "edges": [
            {
                "ep1": {"instance": a[0], "component": a[1]},
                "ep2": {"instance": b[0], "component": b[1]},
                "scheme": "one2one",
                "link": draw(kinds),
            }
            for a, b in cables
            if a != b
        ],
    }


@settings(max_examples=40, deadline=None)
@given(st.one_of(graphs(), boxes()), st.data())
def test_ways_over_drawn_infrastructures(document, data):
    fabric = compile_fabric(load(document).expand())
    every = list(permutations(range(len(fabric.gpus)), 2))
    pairs = set(data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=12)))
    try:
        expected = every_route.message_routes(fabric, pairs)
    except LookupError:  # no way
        with pytest.raises(InputError, match="no route"):
            message_routes(fabric, pairs, len(fabric.gpus))
        return
    assert expected
    same(fabric, pairs)


@settings(max_examples=30, deadline=None)
@given(boxes(), st.data())
def test_lines_take_the_same_ways(document, data):
    fabric = compile_fabric(load(document).expand())
    every = list(permutations(range(len(fabric.gpus)), 2))
    pair = data.draw(st.sampled_from(every))
    plain = every_route.Plain(fabric)
    start, end = (plain.gpus[rank] for rank in pair)
    steps = plain.steps(start, end, plain.usable(start, end))
    if not steps.get(start):
        steps = plain.steps(start, end, list(plain.price))
    found, _ = fabric.routes([pair], partial=True)
    src, dst = fabric.ends
    ways = {tuple((int(src[link]), int(dst[link])) for link in way) for way in found.get(pair, [])}
    assert ways == (
        {tuple(way) for way in every_route.walk(steps, start, end)} if steps.get(start) else set()
    )


def test_switches_in_a_line_are_crossed_once():
    """The shared part of all routes out of a GPU ends where that to the other one begins, or beyond."""
    server = {
        "name": "server",
        "components": [{"name": kind, "count": 1, "choice": kind} for kind in ("xpu", "nic")],
        "links": [{"name": "pcie", "physical": {"bandwidth": {"gigabytes_per_second": 50}}}],
        "edges": [
            {"ep1": {"component": "xpu"}, "ep2": {"component": "nic"}, "scheme": "one2one", "link": "pcie"}
        ],
    }
    asic = {"name": "asic", "count": 1, "choice": "switch"}
    ends = [("server[0]", "switch[0]"), ("switch[0]", "switch[1]"), ("switch[1]", "server[1]")]
    part = {"server": "nic", "switch": "asic"}
    document = {
        "name": "line",
        "devices": [server, {"name": "switch", "components": [asic]}],
        "links": [{"name": "cable", "physical": {"bandwidth": {"gigabytes_per_second": 50}}}],
        "instances": [{"name": name, "device": name, "count": 2} for name in part],
        "edges": [
            {
                "ep1": {"instance": a, "component": part[a[:6]]},
                "ep2": {"instance": b, "component": part[b[:6]]},
                "scheme": "one2one", "link": "cable",
            }
            for a, b in ends
        ],
    }  # fmt: skip
    fabric = compile_fabric(load(document).expand())
    same(fabric, [(0, 1), (1, 0)])
    assert message_routes(fabric, [(0, 1)], 2).routes.hops.tolist() == [5]
