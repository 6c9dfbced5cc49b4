"""Layouts of every kind and size: nothing overlaps, nothing is lost, file order plays no part."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import Collective
from astranb.drawing.layout.bundles import bundle_of, describe
from astranb.drawing.layout.layout import Layout, lay_out
from astranb.infragraph import Infra, blueprint
from astranb.widgets.feed.lines import used_links

SYSTEMS = (
    "dgx-h100", "dgx-1", "dgx-2", "dgx-a100", "mi300x", "ring:gpus=12", "ring:gpus=100", "switch:gpus=24",
    "switch:gpus=64", "torus2d:rows=4,columns=4", "torus2d:rows=3,columns=7", "torus2d:rows=12,columns=12",
    "fully-connected:gpus=8", "clos:servers=2", "clos:servers=8,per_leaf=2", "clos:servers=16,per_leaf=4",
    "single-tier:servers=20", "fat-tree:ports=16,levels=2",
)  # fmt: skip


@cache
def simulation(infra: str) -> anb.Simulation:
    return anb.Simulation(infra, Collective.of("send_recv", "1 KiB", "put", channels=1), record=False)


def laid(infra: str, **options: Any) -> tuple[anb.Simulation, Layout]:
    sim = simulation(infra)
    return sim, lay_out(sim.engine.fabric, used_links(sim.engine), **options)


def check(layout: Layout, used: np.ndarray) -> None:
    """Check the laws of every layout."""
    for a in layout.boxes:
        assert a.width / 2 <= a.x <= layout.width - a.width / 2, a
        assert a.height / 2 <= a.y <= layout.height - a.height / 2, a
    left = np.array([b.x - b.width / 2 for b in layout.boxes])
    top = np.array([b.y - b.height / 2 for b in layout.boxes])
    right = left + [b.width for b in layout.boxes]
    bottom = top + [b.height for b in layout.boxes]
    across = (left[:, None] < right) & (left < right[:, None])
    down = (top[:, None] < bottom) & (top < bottom[:, None])
    overlaps = np.argwhere(np.triu(across & down, 1))
    assert not len(overlaps), [(layout.boxes[a].name, layout.boxes[b].name) for a, b in overlaps[:3]]
    for frame in layout.frames:
        inside = [b for b in layout.boxes if b.name.startswith(f"{frame.name}.")]
        assert len(inside) > 1
        for b in inside:
            assert frame.x <= b.x - b.width / 2
            assert b.x + b.width / 2 <= frame.x + frame.width
            assert frame.y <= b.y - b.height / 2
            assert b.y + b.height / 2 <= frame.y + frame.height
    assert len({b.name for b in layout.boxes}) == len(layout.boxes)
    # Every used link is in one bundle, or inside one box; nothing else is.
    drawn = [lane for *_, lanes in layout.bundles for lane in lanes]
    drawn += [lane for lanes in layout.inside for lane in lanes]
    assert sorted(drawn) == sorted(used.tolist())
    assert len(layout.bent) == len(layout.bundles)


@pytest.mark.parametrize("infra", SYSTEMS)
def test_nothing_overlaps_and_every_used_link_has_both_ends(infra: str) -> None:
    sim, layout = laid(infra)
    check(layout, used_links(sim.engine))
    assert layout == laid(infra)[1]
    gpus = sum(b.count for b in layout.boxes if b.rank >= 0)
    assert gpus == len(sim.engine.fabric.gpus)


@pytest.mark.parametrize("infra,shape", [
    ("ring:gpus=12", "ring of 12"), ("mi300x", "full mesh of 8"), ("torus2d:rows=3,columns=7", "3 x 7 torus"),
    ("torus2d:rows=2,columns=5", "2 x 5 cylinder"), ("torus2d:rows=12,columns=12", "line of 5"),
])  # fmt: skip
def test_shapes_are_recognised_where_every_link_is_used(infra: str, shape: str) -> None:
    sim = simulation(infra)
    everything = np.arange(len(sim.engine.fabric.links))
    if infra == "mi300x":  # without its PCIe switches and CPUs
        kind = sim.engine.fabric.graph.nodes.kind
        everything = everything[
            (kind[sim.engine.fabric.links["src"]] == 1) & (kind[sim.engine.fabric.links["dst"]] == 1)
        ]
    layout = lay_out(sim.engine.fabric, everything)
    if layout.detail.collapsed:
        assert len(layout.boxes) == 5  # of 144 GPUs, 32 a box
        return
    assert layout.shapes == (shape,)
    assert ("x" in layout.bent) == ("torus" in shape or "cylinder" in shape)


def test_neighbours_in_a_torus_stand_side_by_side_and_wraps_are_bent() -> None:
    sim = simulation("torus2d:rows=4,columns=6")
    layout = lay_out(sim.engine.fabric, np.arange(len(sim.engine.fabric.links)))
    at = {b.rank: (b.x, b.y) for b in layout.boxes}
    columns = sorted({x for x, _ in at.values()})
    rows = sorted({y for _, y in at.values()})
    assert (len(rows), len(columns)) == (4, 6)
    for (a, b, _), bent in zip(layout.bundles, layout.bent, strict=True):
        (ax, ay), (bx, by) = at[layout.boxes[a].rank], at[layout.boxes[b].rank]
        apart = abs(columns.index(ax) - columns.index(bx)), abs(rows.index(ay) - rows.index(by))
        assert {"": {(1, 0), (0, 1)}, "x": {(5, 0)}, "y": {(0, 3)}}[bent] >= {apart}


def test_how_much_is_drawn_follows_from_the_number_of_gpus() -> None:
    levels = {infra: laid(infra)[1].detail.level for infra in SYSTEMS}
    assert levels["dgx-h100"] == levels["clos:servers=2"] == "everything"
    assert levels["clos:servers=8,per_leaf=2"] == levels["ring:gpus=100"] == "hot"
    assert levels["clos:servers=16,per_leaf=4"] == "collapsed"
    _sim, layout = laid("clos:servers=16,per_leaf=4")
    hosts = [b for b in layout.boxes if b.rank >= 0]
    assert [(b.name, b.count, b.rank) for b in hosts] == [(f"host.{k}", 8, 8 * k) for k in range(16)]
    assert "each instance is one box" in describe(layout)
    assert f"{layout.detail.hot} hottest of {len(layout.bundles)}" in describe(layout)
    assert describe(laid("dgx-h100")[1]) == ""


def test_an_instance_is_opened_in_its_place_or_looked_into() -> None:
    sim, closed = laid("clos:servers=16,per_leaf=4")
    _, opened = laid("clos:servers=16,per_leaf=4", opened=["host.3"])
    check(opened, used_links(sim.engine))
    assert [frame.name for frame in opened.frames] == ["host.3"]
    names = {b.name for b in opened.boxes}
    assert {f"host.3.xpu.{k}" for k in range(8)} <= names
    assert "host.3" not in names
    assert "host.4" in names
    _, focus = laid("clos:servers=16,per_leaf=4", focus="host.3")
    ranks = [b.rank for b in focus.boxes if b.rank >= 0]
    assert ranks == list(range(24, 32))
    assert focus.detail.level == "everything"
    instance = sim.engine.fabric.graph.nodes.instance
    links = used_links(sim.engine)
    ends = np.stack([instance[sim.engine.fabric.links[end][links]] for end in ("src", "dst")])
    check(focus, links[(ends == 3).any(axis=0)])
    assert len(focus.boxes) < len(opened.boxes)
    assert laid("clos:servers=16,per_leaf=4", focus="nothing.0")[1] == closed


def test_a_thousand_gpus_are_a_band_a_tier() -> None:
    infra = blueprint("clos:servers=128,per_leaf=4")
    fabric = anb.net.compile_fabric(infra.expand())
    used = np.arange(len(fabric.links))  # more than any program
    layout = lay_out(fabric, used)
    assert layout.detail.level == "aggregates"
    assert [b.count for b in layout.boxes if b.name.endswith("host")] == [128]
    assert len(layout.boxes) == len(layout.tiles) <= 5
    assert sorted(layout.tiles[-1], key=lambda n: int(n.split(".")[1])) == list(layout.tiles[-1])
    drawn = bundle_of(layout, len(fabric.links))
    assert (drawn != -1).all()
    assert "a band is a tier" in describe(layout)
    assert [b.rank for b in lay_out(fabric, used, focus="host.77").boxes if b.rank >= 0] == list(
        range(616, 624)
    )


@pytest.mark.parametrize(
    "infra", ["clos:servers=4,per_leaf=2", "dgx-h100", "torus2d:rows=4,columns=5", "dgx-2"]
)
def test_the_order_of_the_file_plays_no_part(infra: str) -> None:
    """Instances, links and edges in another order: every box stands where it stood."""

    def places(one: Infra) -> dict[str, tuple[float, float]]:
        sim = anb.Simulation(one, Collective.of("send_recv", "1 KiB", "put", channels=1), record=False)
        layout = lay_out(sim.engine.fabric, used_links(sim.engine))
        return {b.name: (b.x, b.y) for b in layout.boxes} | {f.name: (f.x, f.y) for f in layout.frames}

    first = blueprint(infra)
    expected = places(first)
    for seed in range(3):
        document = copy.deepcopy(first.to_dict())
        mix = random.Random(seed).shuffle
        for key in ("devices", "instances", "links", "edges"):
            mix(document.get(key, []))
        for device in document["devices"]:
            for key in ("edges", "links"):
                mix(device.get(key, []))
        assert places(Infra(document)) == expected
