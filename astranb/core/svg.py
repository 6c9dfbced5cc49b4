"""Pictures of plain shapes, and the only module that writes SVG.

A caller lists shapes; names from files are escaped here. Colours are those of :mod:`astranb.core.colours`.
The same shapes can be drawn as pixels (``export/raster.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Protocol

from .colours import Colours

__all__ = [
    "Circle",
    "Path",
    "Picture",
    "Polygon",
    "Rectangles",
    "Shape",
    "SvgBox",
    "SvgLine",
    "Text",
    "document",
    "frames_to_svg",
    "to_svg",
]

_MOST_WIDE: Final = 900.0
_NOT_XML: Final = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"


@dataclass(frozen=True, slots=True)
class SvgLine:
    """A straight line; ``title`` is shown where one points at it."""

    x0: float
    y0: float
    x1: float
    y1: float
    colour: str
    width: float
    title: str = ""


@dataclass(frozen=True, slots=True)
class SvgBox:
    """A rectangle with round corners, given by its top left corner."""

    x: float
    y: float
    width: float
    height: float
    radius: float
    fill: str
    stroke: str
    title: str = ""
    edge: float = 1.0


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text; ``anchor`` is ``start``, ``middle`` or ``end``; ``room`` is what it must fit in."""

    x: float
    y: float
    text: str
    size: float
    colour: str
    anchor: str = "start"
    room: float = 0.0
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Path:
    """Lines and curves in the language of SVG's ``d``; drawn, filled or both."""

    d: str
    stroke: str = "none"
    width: float = 1.0
    fill: str = "none"


@dataclass(frozen=True, slots=True)
class Circle:
    """A filled circle."""

    x: float
    y: float
    radius: float
    fill: str


@dataclass(frozen=True, slots=True)
class Polygon:
    """A filled polygon, given by its corners; ``title`` is shown where one points at it."""

    corners: tuple[tuple[float, float], ...]
    fill: str
    title: str = ""


class Rectangles(Protocol):
    """Rectangles of one colour."""

    @property
    def boxes(self) -> tuple[tuple[float, float, float, float], ...]:
        """Left, top, width and height of each."""
        ...

    @property
    def fill(self) -> str:
        """Their colour."""
        ...


Shape = SvgLine | SvgBox | Text | Path | Circle | Polygon | Rectangles


@dataclass(frozen=True)
class Picture:
    """Shapes on a ground: boxes are the same at every moment, the others belong to this one."""

    width: float
    height: float
    colours: Colours
    title: str
    links: tuple[Shape, ...]
    moving: tuple[Shape, ...]
    boxes: tuple[Shape, ...]
    caption: tuple[Shape, ...]

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """All, the lowest first."""
        return (*self.links, *self.moving, *self.boxes, *self.caption)


def document(
    width: float,
    height: float,
    shapes: Iterable[Shape],
    *,
    title: str,
    ground: str = "",
    scroll: bool = False,
) -> str:
    """Return shapes as one ``<svg>`` element.

    Parameters
    ----------
    width, height : float
    shapes : iterable of Shape
        The lowest first.
    title : str
        Read out in place of the picture.
    ground : str
        Colour behind all shapes; empty for none.
    scroll : bool
        Show it in its own size, however large; else no wider than 900 pixels.
    """
    return _frame(width, height, _markup(shapes), title, ground, scroll=scroll)


def to_svg(picture: Picture) -> str:
    """Return a picture as one ``<svg>`` element."""
    return document(
        picture.width, picture.height, picture.shapes, title=picture.title, ground=picture.colours.back
    )


def frames_to_svg(frames: Sequence[Picture], seconds: float) -> str:
    """Return pictures that are shown in turn, over and over, without a script.

    Parameters
    ----------
    frames : sequence of Picture
        Of one size and the same boxes.
    seconds : float
        How long it takes to show all of them.
    """
    count, parts = len(frames), []
    for k, one in enumerate(frames):
        # Discrete: hidden, shown from k/count on, hidden from (k + 1)/count on.
        times = [0.0, k / count, (k + 1) / count] if k else [0.0, 1 / count]
        values = ["none", "inline", "none"] if k else ["inline", "none"]
        if k == count - 1:
            times, values = times[:-1], values[:-1]
        parts.append(
            f'<g display="{"inline" if k == 0 else "none"}"><animate attributeName="display" '
            f'calcMode="discrete" dur="{seconds:g}s" repeatCount="indefinite" values="{";".join(values)}" '
            f'keyTimes="{";".join(f"{t:.5f}" for t in times)}"/>'
            f"{_markup((*one.links, *one.moving, *one.caption))}</g>"
        )
    first = frames[0]
    inside = "".join(parts) + _markup(first.boxes)
    return _frame(first.width, first.height, inside, first.title, first.colours.back, scroll=False)


def _frame(width: float, height: float, inside: str, title: str, ground: str, *, scroll: bool) -> str:
    shown = width if scroll else min(_MOST_WIDE, width)
    size = f'width="{shown:.0f}"' + (f' height="{height:.0f}"' if scroll else "")
    back = f'<rect width="100%" height="100%" fill="{ground}"/>' if ground else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'{size} font-family="sans-serif" role="img">{_title(title)}{back}{inside}</svg>'
    )


def _markup(shapes: Iterable[Shape]) -> str:
    return "".join(map(_element, shapes))


def _element(shape: Shape) -> str:
    if isinstance(shape, SvgLine):
        return (
            f'<line x1="{shape.x0:.1f}" y1="{shape.y0:.1f}" x2="{shape.x1:.1f}" y2="{shape.y1:.1f}" '
            f'stroke="{shape.colour}" stroke-width="{shape.width:.1f}">{_title(shape.title)}</line>'
        )
    if isinstance(shape, SvgBox):
        edge = f' stroke-width="{shape.edge:g}"' if shape.edge != 1 else ""
        return (
            f'<rect x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" '
            f'height="{shape.height:.1f}" rx="{shape.radius:.1f}" fill="{shape.fill}" '
            f'stroke="{shape.stroke}"{edge}>{_title(shape.title)}</rect>'
        )
    if isinstance(shape, Text):
        more = ' font-weight="bold"' if shape.bold else ""
        if shape.room and 0.55 * shape.size * len(shape.text) > shape.room:  # about as wide as it comes out
            more += f' textLength="{shape.room:.0f}" lengthAdjust="spacingAndGlyphs"'
        return (
            f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}" '
            f'font-size="{shape.size:g}" fill="{shape.colour}"{more}>{_escaped(shape.text)}</text>'
        )
    if isinstance(shape, Path):
        stroke = f' stroke="{shape.stroke}" stroke-width="{shape.width:g}"' if shape.stroke != "none" else ""
        return f'<path d="{escape(shape.d)}" fill="{shape.fill}"{stroke}/>'
    if isinstance(shape, Circle):
        return f'<circle cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:g}" fill="{shape.fill}"/>'
    if isinstance(shape, Polygon):
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.corners)
        return f'<polygon points="{corners}" fill="{shape.fill}">{_title(shape.title)}</polygon>'
    d = "".join(f"M{x:.1f} {y:.1f}h{w:g}v{h:g}h-{w:g}z" for x, y, w, h in shape.boxes)
    return f'<path d="{d}" fill="{shape.fill}"/>'


def _title(text: str) -> str:
    return f"<title>{_escaped(text)}</title>" if text else ""


def _escaped(text: str) -> str:
    """Text as XML, without characters that XML cannot hold."""
    return escape(re.sub(_NOT_XML, "?", text))
