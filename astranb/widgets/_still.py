"""A still picture of the topology at a moment, as plain shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from astranb.core.colours import KIND_COLOURS, Colours, busy_colour
from astranb.core.svg import Box, Line, Picture, Shape, Text
from astranb.core.units import format_time
from astranb.engine.cacheline import FLIGHT_KINDS
from astranb.sim import Simulation

from ._layout import Layout
from ._picture import bundle_name, describe

__all__ = ["Dot", "Way", "boxes_of", "frames_of", "still"]

_APART = 4.0  # between the two directions of a link
_DOT_PIXELS = 6.0  # where dots would stand closer, every n-th is drawn
_STUB = 26.0  # of a link that wraps round a torus
_FOOT = 52.0  # legend and caption below the topology


@dataclass(frozen=True, slots=True)
class Dot:
    """A line of memory on its way; shape tells the kinds apart, too."""

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


def still(sim: Simulation, layout: Layout, at_ps: int | None = None, *, dark: bool = False) -> Picture:
    """Draw the topology as it is, or as it was at a moment that was recorded.

    Parameters
    ----------
    sim : Simulation
    layout : Layout
    at_ps : int, optional
        The moment, in ps; where not given, now. A link's width and colour then show how much
        of the time so far it was busy, else how busy it was at that moment (the mean of a bin
        of the recording).
    dark : bool
        For dark ground.
    """
    colours = Colours.of(dark)
    now = sim.now_ps if at_ps is None else at_ps
    busy = _busy(sim, layout, at_ps)
    hot = layout.detail.hot or len(busy)
    lined = set(sorted(range(len(busy)), key=lambda number: (-busy[number], number))[:hot])
    ways = [Way(layout, number) for number in range(len(layout.bundles))]
    moving, said = _flying(sim, ways, now)
    what = f"{sim.engine.work.title} on {sim.engine.infra.name}"
    state = "finished" if sim.finished and now >= sim.now_ps else "under way"
    so_far = "so far" if at_ps is None else "at this moment"
    first = f"{what}, {state}: {format_time(now)}" + (f", {sim.events:,} events" if at_ps is None else "")
    words = (first, said, f"links by load {so_far}", describe(layout))
    caption = (
        *_legend(layout, colours),
        Text(12, layout.height + 42, "; ".join(filter(None, words)), 13, colours.ink, room=layout.width - 24),
    )  # fmt: skip
    return Picture(
        layout.width,
        layout.height + _FOOT,
        colours,
        first,
        (
            *frames_of(layout, colours),
            *(
                line
                for number, way in enumerate(ways)
                if number in lined
                for line in way.lines(busy[number], colours, bundle_name(sim, layout, number))
            ),
        ),
        tuple(moving),
        tuple(boxes_of(layout, colours)),
        caption,
    )


class Way:
    """One direction between two boxes: straight, on the right of the middle, from edge to edge."""

    def __init__(self, layout: Layout, number: int, apart: float = _APART) -> None:
        a, b, self.lanes = layout.bundles[number]
        p, q = layout.boxes[a], layout.boxes[b]
        dx, dy = q.x - p.x, q.y - p.y
        length = max(1.0, (dx * dx + dy * dy) ** 0.5)
        ux, uy = dx / length, dy / length
        start, end = _reach(p, ux, uy), _reach(q, ux, uy)
        self.length = max(1.0, length - start - end)
        self.ux, self.uy = ux, uy
        self.x, self.y = p.x + ux * start - uy * apart, p.y + uy * start + ux * apart
        self.second: tuple[float, float] | None = None  # where it comes in, if it wraps round a torus
        bent = layout.bent[number] if layout.bent else ""
        if bent:
            ux, uy = -ux, -uy
            self.ux, self.uy, self.length = ux, uy, _STUB
            out, into = _reach(p, ux, uy), _reach(q, ux, uy) + _STUB
            self.x, self.y = p.x + ux * out - uy * apart, p.y + uy * out + ux * apart
            self.second = q.x - ux * into - uy * apart, q.y - uy * into + ux * apart

    def at(self, gone: float, lane: int = 0) -> tuple[float, float]:
        """A point on it; lanes stand side by side."""
        aside = lane * min(2.2, 8 / len(self.lanes))
        x, y = self.x, self.y
        if self.second:
            gone *= 2
            if gone > 1:
                (x, y), gone = self.second, gone - 1
        along = self.length * gone
        return x + self.ux * along - self.uy * aside, y + self.uy * along + self.ux * aside

    def lines(self, busy: float, colours: Colours, name: str) -> Iterator[Line]:
        """Its line: width and colour by load; two stubs where it wraps round."""
        colour = busy_colour(busy, colours) if busy else colours.line
        for start, end in self.pieces():
            yield Line(*start, *end, colour, 1 + 5 * busy, f"{name}: {busy:.0%} busy")

    def pieces(self) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
        """Where its line begins and ends; twice where it wraps round."""
        for x, y in filter(None, ((self.x, self.y), self.second)):
            yield (x, y), (x + self.ux * self.length, y + self.uy * self.length)


def _reach(box: Any, ux: float, uy: float) -> float:
    """How far a box reaches from its centre in a direction."""
    across = box.width / 2 / abs(ux) if ux else float("inf")
    down = box.height / 2 / abs(uy) if uy else float("inf")
    return float(min(across, down)) + 1


def _busy(sim: Simulation, layout: Layout, at_ps: int | None) -> list[float]:
    """Busy fraction of each bundle: of all time so far, or of the bin at a moment."""
    lanes = [list(bundle[2]) for bundle in layout.bundles]
    if at_ps is None:
        total = max(1, sim.now_ps)
        return [min(1.0, float(sim.engine.machine.links["busy_ps"][of].mean()) / total) for of in lanes]
    busy = sim.engine.recorder.busy(lanes)
    if not busy.size:
        return [0.0] * len(lanes)
    place = min(busy.shape[1] - 1, at_ps // int(sim.engine.machine.recorder[0].bin_ps))
    return [float(part) for part in busy[:, place]]


def _flying(sim: Simulation, ways: list[Way], at_ps: int) -> tuple[list[Shape], str]:
    """Lines on their way at a moment, where their recorded start and end put them, and how many."""
    if not sim.engine.recorder.on:
        return [], "lines are not recorded"
    near, one_in = sim.engine.recorder.flights(at_ps, at_ps)
    found = near[near["start_ps"] <= at_ps]
    bundle_of = {}
    if len(found):  # a large system has many links
        bundle_of = {link: (number, k) for number, way in enumerate(ways) for k, link in enumerate(way.lanes)}
    dots: list[list[Dot]] = [[] for _ in ways]
    rows = zip(*(np.asarray(found[n]).tolist() for n in ("link", "start_ps", "end_ps", "kind")), strict=True)
    for link, start, end, kind in rows:
        if link not in bundle_of:
            continue
        number, lane = bundle_of[link]
        gone = (at_ps - start) / (end - start) if end > start else 1.0
        dots[number].append(Dot(*ways[number].at(gone, lane), kind))
    shown: list[Shape] = []
    for way, mine in zip(ways, dots, strict=True):
        shown += mine[:: max(1, int(-(-len(mine) * _DOT_PIXELS // (4 * way.length))))]
    total = sum(map(len, dots)) * one_in
    drawn = f", {len(shown):,} drawn" if len(shown) < total else ""
    return shown, f"{total:,} lines in flight{drawn}"


def frames_of(layout: Layout, colours: Colours) -> Iterator[Shape]:
    """Give the frames of the instances, with their names."""
    for frame in layout.frames:
        yield Box(frame.x, frame.y, frame.width, frame.height, 6, colours.back, colours.line, frame.name)
        yield Text(frame.x + 8, frame.y + 20, frame.name, 13, colours.dim, room=frame.width - 16)


def boxes_of(layout: Layout, colours: Colours) -> Iterator[Shape]:
    """Give the boxes of the nodes, with their labels."""
    for box in layout.boxes:
        is_gpu = box.rank >= 0
        label = f"{box.label} \u00d7{box.count}" if box.kind == "instance" and box.count > 1 else box.label
        yield Box(
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


def _legend(layout: Layout, colours: Colours) -> Iterator[Shape]:
    """The kinds of lines, as far as there is room."""
    x, y = 12.0, layout.height + 18
    for kind, name in enumerate(FLIGHT_KINDS):
        if x + 14 + 6 * len(name) > layout.width:
            return
        yield Dot(x + 4, y - 4, kind)
        yield Text(x + 13, y, name, 12, colours.dim)
        x += 25 + 6 * len(name)
