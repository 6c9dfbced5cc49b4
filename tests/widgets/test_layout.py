"""Positions of nodes, and the still picture."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

import astranb as anb
from astranb.core.svg import to_svg
from astranb.drawing.layout import Box
from astranb.drawing.layout.layout import Layout, lay_out
from astranb.drawing.topology import Edge
from astranb.widgets.feed import LineFeed
from astranb.widgets.feed.lines import used_links
from astranb.widgets.pictures import topology_picture
from astranb.widgets.session import session_of

SVG = "{http://www.w3.org/2000/svg}"


def picture(infra: str) -> tuple[anb.Simulation, Layout]:
    sim = anb.Simulation(infra, anb.collectives.all_gather("64 KiB"), record=False)
    return sim, lay_out(sim.engine.fabric, used_links(sim.engine))


@pytest.mark.parametrize(
    "infra",
    ["dgx-h100", "dgx-a100", "mi300x", "ring:gpus=6", "switch:gpus=8", "clos:servers=4", "fully-connected"],
)
def test_boxes_are_inside_and_apart(infra: str) -> None:
    sim, layout = picture(infra)
    assert sum(b.label.startswith("GPU") for b in layout.boxes) == len(sim.engine.fabric.gpus)
    for number, a in enumerate(layout.boxes):
        assert a.width / 2 <= a.x <= layout.width - a.width / 2
        assert a.height / 2 <= a.y <= layout.height - a.height / 2
        for b in layout.boxes[number + 1 :]:
            assert abs(a.x - b.x) >= a.width or abs(a.y - b.y) >= a.height, (a.name, b.name)


def on_border(box: Box, x: float, y: float) -> bool:
    """Return whether a point is on the border of a box."""
    across, down = abs(x - box.x) - box.width / 2, abs(y - box.y) - box.height / 2
    return max(across, down) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("infra", ["dgx-h100", "mi300x", "clos:servers=4", "switch:gpus=24", "dgx-2"])
def test_links_end_at_the_borders_of_their_boxes(infra: str) -> None:
    _, layout = picture(infra)
    for number, (a, b, _) in enumerate(layout.bundles):
        for (x0, y0), (x1, y1) in Edge(layout, number).segments():
            assert on_border(layout.boxes[a], x0, y0), (number, x0, y0)
            assert on_border(layout.boxes[b], x1, y1), (number, x1, y1)


def test_switches_that_join_all_gpus_are_rails_with_vertical_links() -> None:
    _, layout = picture("dgx-h100")
    rails = [box for box in layout.boxes if box.rail]
    gpus = [box for box in layout.boxes if box.rank >= 0]
    assert [rail.label for rail in rails] == ["nvsw.0", "nvsw.1", "nvsw.2", "nvsw.3"]
    assert len({gpu.y for gpu in gpus}) == 1
    assert [rail.y < gpus[0].y for rail in rails] == [True, True, False, False]
    seen = set()
    for number, (a, b, _) in enumerate(layout.bundles):
        edge = Edge(layout, number)
        assert edge.ux == pytest.approx(0)
        assert layout.boxes[a].rail != layout.boxes[b].rail
        seen.add((round(edge.x, 3), edge.y < gpus[0].y))
    assert len(seen) == len(layout.bundles)  # no two are drawn on each other


def test_links_of_outer_rows_pass_between_the_boxes_of_inner_ones() -> None:
    _, layout = picture("switch:gpus=24")
    for number, (a, b, _) in enumerate(layout.bundles):
        edge = Edge(layout, number, aside=0)
        low, high = sorted((layout.boxes[a].y, layout.boxes[b].y))
        for other in layout.boxes:
            if low < other.y < high and not other.rail:
                assert abs(other.x - edge.x) > other.width / 2, other.label


def test_the_family_of_every_link_is_known() -> None:
    families = {}
    for infra in ("dgx-h100", "mi300x", "clos:servers=4", "ring:gpus=4"):
        sim, _ = picture(infra)
        feed = LineFeed(session_of(sim))
        families[infra] = {bundle["family"] for bundle in feed.drawn()[0]["bundles"]}
    assert families == {
        "dgx-h100": {"NVLink"},
        "mi300x": {"xGMI"},
        "clos:servers=4": {"NVLink", "PCIe", "Ethernet"},
        "ring:gpus=4": {"unspecified"},
    }


def test_every_used_lane_is_in_one_bundle_of_its_ends() -> None:
    sim, layout = picture("dgx-h100")
    lanes = [lane for *_, bundle in layout.bundles for lane in bundle]
    assert sorted(lanes) == used_links(sim.engine).tolist()
    for a, b, bundle in layout.bundles:
        for lane in bundle:
            assert layout.boxes[a].node == sim.engine.fabric.links[lane].src
            assert layout.boxes[b].node == sim.engine.fabric.links[lane].dst


def test_the_layout_is_the_same_every_time() -> None:
    assert picture("clos:servers=4")[1] == picture("clos:servers=4")[1]


def test_the_still_picture_is_well_formed_and_shows_use() -> None:
    sim, layout = picture("dgx-h100")
    idle = ET.fromstring(to_svg(topology_picture(sim, layout)))
    assert {line.get("stroke-width") for line in idle.iter(f"{SVG}line")} == {"1.0"}
    sim.run()
    busy = ET.fromstring(to_svg(topology_picture(sim, layout)))
    assert max(float(line.get("stroke-width", 0)) for line in busy.iter(f"{SVG}line")) > 1.05
    texts = [text.text for text in busy.iter(f"{SVG}text")]
    assert "GPU7" in texts
    assert f"{sim.events:,} events" in (texts[-1] or "")


def test_names_are_text_in_the_still_picture() -> None:
    sim, layout = picture("dgx-h100")
    object.__setattr__(layout.boxes[0], "label", "<script>alert(1)</script>")
    assert "<script" not in to_svg(topology_picture(sim, layout))
    ET.fromstring(to_svg(topology_picture(sim, layout)))


def test_a_shape_is_of_all_links_whichever_are_used():
    sim = anb.Simulation(
        "torus2d:rows=3,columns=4", anb.collectives.all_gather("48 KiB", "ring"), record=False
    )
    used = used_links(sim.engine)
    assert len(used) < len(sim.engine.fabric.links)
    assert lay_out(sim.engine.fabric, used).shapes == ("3 x 4 torus",)
