"""Nodes, links and lines in flight of a layout as shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from astranb.core.colours import KIND_COLOURS, Colours, busy_colour
from astranb.core.svg import Shape, SvgBox, SvgLine, Text

from .layout import Layout

__all__ = ["Dot", "Edge", "boxes_of", "frames_of"]

_GAP = 4.0  # between the two directions of a link
_STUB = 26.0  # of a link that wraps round a torus


@dataclass(frozen=True, slots=True)
class Dot:
    """A cache line in flight; its shape distinguishes the kinds, too."""

    x: float
    y: float
    kind: int

    @property
    def fill(self) -> str:
        """The colour of its kind."""
        return KIND_COLOURS[self.kind]

    @property
    def boxes(self) -> tuple[tuple[float, float, float, float], ...]:
        """Rectangles that it consists of, as in the live view (``static/topology.js``)."""
        if self.kind in (1, 2):
            return ((self.x - 2, self.y - 2, 4, 4),)
        if self.kind in (0, 3):
            return ((self.x - 1.25, self.y - 1.25, 2.5, 2.5),)
        return ((self.x - 1, self.y - 4, 2, 8), (self.x - 4, self.y - 1, 8, 2))


class Edge:
    """One direction between two boxes: straight, on the right of the middle, from edge to edge."""

    def __init__(self, layout: Layout, number: int, aside: float = _GAP) -> None:
        a, b, self.lanes = layout.bundles[number]
        p, q = layout.boxes[a], layout.boxes[b]
        dx, dy = q.x - p.x, q.y - p.y
        length = max(1.0, (dx * dx + dy * dy) ** 0.5)
        ux, uy = dx / length, dy / length
        start, end = _reach(p, ux, uy), _reach(q, ux, uy)
        self.length = max(1.0, length - start - end)
        self.ux, self.uy = ux, uy
        self.x, self.y = p.x + ux * start - uy * aside, p.y + uy * start + ux * aside
        self.second: tuple[float, float] | None = None  # where it comes in, if it wraps round a torus
        bent = layout.bent[number] if layout.bent else ""
        if bent:
            ux, uy = -ux, -uy
            self.ux, self.uy, self.length = ux, uy, _STUB
            out, into = _reach(p, ux, uy), _reach(q, ux, uy) + _STUB
            self.x, self.y = p.x + ux * out - uy * aside, p.y + uy * out + ux * aside
            self.second = q.x - ux * into - uy * aside, q.y - uy * into + ux * aside

    def at(self, gone: float, lane: int = 0) -> tuple[float, float]:
        """A point on it; lanes are side by side."""
        beside = lane * min(2.2, 8 / len(self.lanes))
        x, y = self.x, self.y
        if self.second:
            gone *= 2
            if gone > 1:
                (x, y), gone = self.second, gone - 1
        along = self.length * gone
        return x + self.ux * along - self.uy * beside, y + self.uy * along + self.ux * beside

    def lines(self, busy: float, colours: Colours, name: str) -> Iterator[SvgLine]:
        """Its line: width and colour by load; two stubs where it wraps round."""
        colour = busy_colour(busy, colours) if busy else colours.line
        for start, end in self.segments():
            yield SvgLine(*start, *end, colour, 1 + 5 * busy, f"{name}: {busy:.0%} busy")

    def segments(self) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
        """Where its line begins and ends; twice where it wraps round."""
        for x, y in filter(None, ((self.x, self.y), self.second)):
            yield (x, y), (x + self.ux * self.length, y + self.uy * self.length)


def _reach(box: Any, ux: float, uy: float) -> float:
    """How far a box reaches from its centre in a direction."""
    across = box.width / 2 / abs(ux) if ux else float("inf")
    down = box.height / 2 / abs(uy) if uy else float("inf")
    return float(min(across, down)) + 1


def frames_of(layout: Layout, colours: Colours) -> Iterator[Shape]:
    """Give the frames of the instances, with their names."""
    for frame in layout.frames:
        yield SvgBox(frame.x, frame.y, frame.width, frame.height, 6, colours.back, colours.line, frame.name)
        yield Text(frame.x + 8, frame.y + 20, frame.name, 13, colours.dim, room=frame.width - 16)


def boxes_of(layout: Layout, colours: Colours) -> Iterator[Shape]:
    """Give the boxes of the nodes, with their labels."""
    for box in layout.boxes:
        is_gpu = box.rank >= 0
        label = f"{box.label} \u00d7{box.count}" if box.kind == "instance" and box.count > 1 else box.label
        yield SvgBox(
            box.x - box.width / 2,
            box.y - box.height / 2,
            box.width,
            box.height,
            4 if is_gpu else box.height / 2,
            colours.gpu if is_gpu else colours.node,
            colours.line,
            box.name,
        )
        size = min(15.0, box.height * 0.36)
        yield Text(box.x, box.y + size * 0.35, label, size, colours.ink, "middle", box.width - 6)
