"""Where nodes stand, and the still picture."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

import astranb as anb
from astranb.core.svg import to_svg
from astranb.export.layout.layout import Layout, lay_out
from astranb.widgets.feed.lines import used_links
from astranb.widgets.pictures import topology_picture

SVG = "{http://www.w3.org/2000/svg}"


def picture(infra: str) -> tuple[anb.Simulation, Layout]:
    sim = anb.Simulation(infra, anb.collectives.all_gather("64 KiB"), record=False)
    return sim, lay_out(sim.engine.fabric, used_links(sim))


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


def test_every_used_lane_is_in_one_bundle_of_its_ends() -> None:
    sim, layout = picture("dgx-h100")
    lanes = [lane for *_, bundle in layout.bundles for lane in bundle]
    assert sorted(lanes) == used_links(sim).tolist()
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
    used = used_links(sim)
    assert len(used) < len(sim.engine.fabric.links)
    assert lay_out(sim.engine.fabric, used).shapes == ("3 x 4 torus",)
