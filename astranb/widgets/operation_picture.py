"""Still pictures of a workload, as plain marks: what ranks did when, and a rank's graph of operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from astranb.core.colours import OKABE_ITO, Colours
from astranb.core.svg import Picture, Shape, SvgBox, SvgLine, Text
from astranb.core.units import format_time

from .feed import OperationFeed
from .views.graph import graph
from .views.ranks import index_of

__all__ = ["graph_picture", "rank_picture"]

_WIDTH = 900.0
_GUTTER = 62.0  # names of ranks
_EDGE = 12.0
_HEAD, _FOOT = 26.0, 50.0  # ruler, legend and caption
_LANE, _APART = 13.0, 7.0
_MOST_RANKS = 32
_PARTED = 5.0  # wider ones have an edge
_NARROW = 0.7  # spans that stand closer are drawn as one
_MOST_LABELS = 400
_LANE_COLOURS = dict(zip(("compute", "communication", "memory", "waiting"), OKABE_ITO[:4], strict=True))
_WHITE = (OKABE_ITO[0], OKABE_ITO[2])  # dark enough for white letters
_KIND_COLOURS = {"compute": OKABE_ITO[0], "memory": OKABE_ITO[2]}  # the others communicate
_NODE, _DOWN, _ACROSS = (150.0, 40.0), 14.0, 34.0
_MOST_NODES = 60
_SIGNS = {"done": "done", "running": "under way", "ready": "ready", "waiting": "waiting"}


def rank_picture(feed: OperationFeed, now: int, colours: Colours) -> Picture:
    """Draw what the first 32 ranks did up to a moment."""
    sim = feed.sim
    count = min(sim.ranks, _MOST_RANKS)
    names = feed.lanes
    tall = len(names) * _LANE + _APART
    height = _HEAD + count * tall + _FOOT
    whole = max(1, sim.now_ps)
    scale = (_WIDTH - _GUTTER - _EDGE) / whole
    ground: list[Shape] = []
    for rank in range(count):
        top = _HEAD + rank * tall
        ground.append(
            Text(6, top + (tall - _APART) / 2 + 4, f"rank {rank}", 12, colours.ink, room=_GUTTER - 10)
        )
        for lane in range(len(names)):
            y = top + lane * _LANE
            ground.append(
                SvgBox(_GUTTER, y, _WIDTH - _GUTTER - _EDGE, _LANE - 1, 0, colours.panel, colours.panel)
            )
    at = _GUTTER + now * scale
    cursor = SvgLine(at, _HEAD - 4, at, height - _FOOT, colours.brand, 1.5)
    return Picture(
        _WIDTH, height, colours, _title(feed, now),
        (*ground, *_ruler(whole, scale, colours)),
        (*_spans(feed, now, count, scale, colours.panel), cursor),
        (),
        tuple(_caption(feed, now, count, height, colours)),
    )  # fmt: skip


def _spans(feed: OperationFeed, now: int, count: int, scale: float, ground: str) -> Iterator[Shape]:
    """Boxes of what ranks did up to a moment, with their names where there is room."""
    index = index_of(feed, "operations")
    about = feed.sim.engine.about
    tall = index.lanes * _LANE + _APART
    labels = 0
    for place in range(count * index.lanes):
        rank, lane = divmod(place, index.lanes)
        one, other = int(index.first[place]), int(index.first[place + 1])
        start, end = index.start_ps[one:other], np.minimum(index.end_ps[one:other], now)
        seen = np.flatnonzero(start < end)
        high = (_LANE - 1) / int(index.slots[place])
        colour = _LANE_COLOURS[feed.lanes[lane]]
        close: list[float] = [0.0, 0.0, -1.0]  # what is not drawn yet: from, to, slot
        for k in seen[np.lexsort((start[seen], index.slot[one:other][seen]))].tolist():
            slot = int(index.slot[one + k])
            x0, x1 = _GUTTER + start[k] * scale, _GUTTER + end[k] * scale
            y = _HEAD + rank * tall + lane * _LANE + slot * high
            text = about.label(int(index.row[one + k]))
            fits = x1 - x0 > 7 * len(text) + 6 and high > 9 and labels < _MOST_LABELS
            if x1 - x0 >= 2:
                edge = colour if x1 - x0 < _PARTED else ground  # so that neighbours can be distinguished
                yield SvgBox(x0, y, x1 - x0, high, 0, colour, edge, text)
                if fits:
                    labels += 1
                    yield Text(x0 + 3, y + high - 3, text, 9, "#ffffff" if colour in _WHITE else "#000000")
                continue
            if close[2] == slot and x0 - close[1] < _NARROW:
                close[1] = x1
                continue
            if close[2] >= 0:
                yield _thin(close, rank, lane, tall, high, colour)
            close = [x0, x1, float(slot)]
        if close[2] >= 0:
            yield _thin(close, rank, lane, tall, high, colour)


def _thin(close: list[float], rank: int, lane: int, tall: float, high: float, colour: str) -> SvgBox:
    """A box for spans that are too short to be distinguished."""
    y = _HEAD + rank * tall + lane * _LANE + close[2] * high
    return SvgBox(close[0], y, max(0.5, close[1] - close[0]), high, 0, colour, colour)


def _ruler(whole: int, scale: float, colours: Colours) -> Iterator[Shape]:
    for part in range(5):
        at = whole * part // 4
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        yield Text(_GUTTER + at * scale, 16, format_time(at), 11, colours.dim, anchor)


def _title(feed: OperationFeed, now: int) -> str:
    sim = feed.sim
    state = "finished" if sim.finished and now >= sim.now_ps else "under way"
    return f"{feed.title}, {state}: {format_time(now)}"


def _caption(feed: OperationFeed, now: int, count: int, height: float, colours: Colours) -> Iterator[Shape]:
    x, y = 12.0, height - 30
    for name in feed.lanes:
        yield SvgBox(x, y - 9, 14, 9, 0, _LANE_COLOURS[name], _LANE_COLOURS[name])
        yield Text(x + 19, y, name, 12, colours.dim)
        x += 34 + 7 * len(name)
    left = f"; the first {count} of {feed.sim.ranks:,} ranks" if count < feed.sim.ranks else ""
    yield Text(12, height - 10, _title(feed, now) + left, 13, colours.ink, room=_WIDTH - 24)


def graph_picture(feed: OperationFeed, now: int, colours: Colours, rank: int) -> Picture:
    """Draw operations of a rank at a moment, those nearest to it, and what they wait for."""
    at = None if now >= feed.sim.now_ps else now
    found, _ = graph(feed, {"rank": rank, "at_ps": at, "most": _MOST_NODES})
    nodes: list[dict[str, Any]] = found["nodes"]
    (wide, high), most = _NODE, [max((node[axis] for node in nodes), default=0) for axis in "xy"]
    width = max(420.0, 2 * _EDGE + (most[0] + 1) * (wide + _ACROSS) - _ACROSS)
    height = 2 * _EDGE + (most[1] + 1) * (high + _DOWN) + 24

    def corner(node: dict[str, Any]) -> tuple[float, float]:
        return _EDGE + node["x"] * (wide + _ACROSS), _EDGE + node["y"] * (high + _DOWN)

    edges: list[Shape] = []
    for one, other in found["edges"]:
        (x0, y0), (x1, y1) = corner(nodes[one]), corner(nodes[other])
        edges.append(SvgLine(x0 + wide, y0 + high / 2, x1, y1 + high / 2, colours.dim, 1.2))
    boxes: list[Shape] = []
    for node in nodes:
        x, y = corner(node)
        colour = _KIND_COLOURS.get(node["kind"], OKABE_ITO[1])
        busy = node["state"] == "running"
        edge = colour if node["state"] in ("running", "ready") else colours.line
        fill = colours.panel if node["state"] == "done" else colours.node if busy else colours.back
        boxes += [
            SvgBox(x, y, wide, high, 4, fill, edge, f"{node['what']}\n{node['state']} {node['when']}"),
            SvgBox(x, y, 5, high, 2, colour, colour),
            Text(x + 12, y + 17, node["label"], 12, colours.ink, room=wide - 18),
            Text(x + 12, y + 32, node["when"] or _SIGNS[node["state"]], 10, colours.dim, room=wide - 18),
        ]
    counts = ", ".join(f"{n:,} {state}" for state, n in found["counts"].items() if n)
    hidden = f"; {len(nodes)} nearest to now" if found["hidden"] else ""
    title = f"rank {rank} of {_title(feed, now)}; {counts}{hidden}"
    caption = Text(_EDGE, height - 10, title, 12, colours.ink, room=width - 2 * _EDGE)
    return Picture(width, height, colours, title, (), (*edges, *boxes), (), (caption,))
