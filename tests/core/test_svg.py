"""The writer of SVG: escaping, every shape, frames shown in turn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass

from astranb.core.colours import DARK, LIGHT
from astranb.core.svg import (
    Circle,
    Path,
    Picture,
    Shape,
    SvgBox,
    SvgLine,
    Text,
    document,
    frames_to_svg,
    to_svg,
)

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert("&")</script>\x00\x1b\ufffe'


@dataclass(frozen=True)
class Cross:
    boxes = ((0.0, 1.0, 4.0, 2.0), (1.0, 0.0, 2.0, 4.0))
    fill = "#009e73"


def picture(x: float = 0, *, dark: bool = False) -> Picture:
    colours = DARK if dark else LIGHT
    line = SvgLine(x, 0, x, 9, colours.line, 1.5, "a link")
    return Picture(
        1200, 80, colours, "all", (line,), (Cross(),), (SvgBox(0, 0, 9, 9, 2, "#fff", "#000"),), ()
    )


def test_every_shape_and_nothing_acts() -> None:
    shapes: list[Shape] = [
        SvgLine(0, 0, 1, 1, "#111111", 2, HOSTILE),
        SvgBox(0, 0, 9, 9, 2, "#ffffff", "#000000", HOSTILE, edge=2),
        Text(1, 2, HOSTILE, 12, "#000000", "middle", room=20, bold=True),
        Path("M0 0L1 1", "#000000", 2),
        Circle(3, 4, 5, "#e69f00"),
        Cross(),
    ]
    root = ET.fromstring(document(30, 20, shapes, title=HOSTILE))
    assert [child.tag.removeprefix(SVG) for child in root] == [
        "title", "line", "rect", "text", "path", "circle", "path",
    ]  # fmt: skip
    assert not root.findall(f".//{SVG}script")
    assert {one.text for one in root.iter(f"{SVG}title")} == {'<script>alert("&")</script>???'}
    text = root.find(f"{SVG}text")
    assert text is not None
    assert text.attrib["textLength"] == "20"
    assert text.attrib["font-weight"] == "bold"


def test_sizes_and_ground() -> None:
    fits = ET.fromstring(to_svg(picture(dark=True)))
    assert (fits.attrib["viewBox"], fits.attrib["width"]) == ("0 0 1200 80", "900")
    assert "height" not in fits.attrib
    ground = fits.find(f"{SVG}rect")
    assert ground is not None
    assert ground.attrib["fill"] == DARK.back
    scrolls = ET.fromstring(document(1200, 80, [], title="t", scroll=True))
    assert (scrolls.attrib["width"], scrolls.attrib["height"]) == ("1200", "80")
    assert scrolls.find(f"{SVG}rect") is None


def test_frames_are_shown_in_turn_over_the_same_boxes() -> None:
    root = ET.fromstring(frames_to_svg([picture(x) for x in range(3)], 6))
    frames = root.findall(f"{SVG}g")
    assert [frame.attrib["display"] for frame in frames] == ["inline", "none", "none"]
    timing = [frame[0].attrib["keyTimes"] for frame in frames]
    assert timing == ["0.00000;0.33333", "0.00000;0.33333;0.66667", "0.00000;0.66667"]
    assert len(root.findall(f"{SVG}rect")) == 2  # the ground and one box
