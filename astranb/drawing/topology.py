"""Nodes, links and lines in flight of a layout as shapes."""

from __future__ import annotations

import math
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
        port = layout.ports[number] if layout.ports else None
        if port is None:
            px, qx = p.x, q.x
        else:  # vertical, from the box to the rail
            px = qx = q.x + port * q.width if p.rail else p.x + port * p.width
        dx, dy = qx - px, q.y - p.y
        apart = max(1.0, (dx * dx + dy * dy) ** 0.5)
        ux, uy = dx / apart, dy / apart
        # On the right of the middle, where it leaves one box and enters the other.
        x0, y0, x1, y1 = px - uy * aside, p.y + ux * aside, qx - uy * aside, q.y + ux * aside
        self.second: tuple[float, float] | None = None  # where it comes in, if it wraps round a torus
        if layout.bent and layout.bent[number]:
            x0, y0, x1, y1 = px + uy * aside, p.y - ux * aside, qx + uy * aside, q.y - ux * aside
            ux, uy = -ux, -uy
            into = _reach(q, x1, y1, ux, uy)
            self.second = x1 - ux * (into + _STUB), y1 - uy * (into + _STUB)
        start = _reach(p, x0, y0, ux, uy)
        self.x, self.y, self.ux, self.uy = x0 + ux * start, y0 + uy * start, ux, uy
        self.length = _STUB
        if self.second is None:
            self.length = max(1.0, apart - start - _reach(q, x1, y1, -ux, -uy))

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
        """Yield the beginning and end of its line; twice where it wraps round."""
        for x, y in filter(None, ((self.x, self.y), self.second)):
            yield (x, y), (x + self.ux * self.length, y + self.uy * self.length)


def _reach(box: Any, x: float, y: float, ux: float, uy: float) -> float:
    """Return the distance from a point in a box to the box's border, in a direction."""
    across = (box.x - x + math.copysign(box.width / 2, ux)) / ux if ux else math.inf
    down = (box.y - y + math.copysign(box.height / 2, uy)) / uy if uy else math.inf
    return float(max(0.0, min(across, down)))


def frames_of(layout: Layout, colours: Colours) -> Iterator[Shape]:
    """Yield the frames of the instances, with their names."""
    for frame in layout.frames:
        yield SvgBox(frame.x, frame.y, frame.width, frame.height, 6, colours.back, colours.line, frame.name)
        yield Text(frame.x + 8, frame.y + 20, frame.name, 13, colours.dim, room=frame.width - 16)


def boxes_of(layout: Layout, colours: Colours, *, rails: bool = False) -> Iterator[Shape]:
    """Yield the boxes of the nodes, with their labels; or the ``rails``, which are below the links."""
    for box in layout.boxes:
        if box.rail != rails:
            continue
        is_gpu = box.rank >= 0
        label = f"{box.label} \u00d7{box.count}" if box.kind == "instance" and box.count > 1 else box.label
        yield SvgBox(
            box.x - box.width / 2,
            box.y - box.height / 2,
            box.width,
            box.height,
            4 if is_gpu else min(8, box.height / 2),
            colours.gpu if is_gpu else colours.node,
            colours.line,
            box.name,
        )
        size = min(15.0, box.height * (0.5 if rails else 0.36))
        if rails:
            yield Text(box.x - box.width / 2 + 6, box.y + size * 0.35, label, size, colours.ink)
        else:
            yield Text(box.x, box.y + size * 0.35, label, size, colours.ink, "middle", box.width - 6)
