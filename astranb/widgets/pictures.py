"""Still pictures of a run: the topology, what each rank did when, or the operations of a rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from astranb.core.colours import OKABE_ITO, Colours
from astranb.core.errors import InputError, near
from astranb.core.plural import plural
from astranb.core.svg import Picture, Shape, SvgBox, SvgLine, Text
from astranb.core.units import format_time, time_ps
from astranb.drawing import Dot, Edge, boxes_of, frames_of, memory_picture
from astranb.drawing.layout import Layout, bundle_name, describe
from astranb.engine.cacheline import FLIGHT_KINDS
from astranb.sim import Simulation
from astranb.widgets.views import graph_around_now, index_of

from .feed import AnyFeed, OperationFeed

__all__ = ["picture_of", "topology_picture"]

_DOT_PIXELS = 6.0  # where dots would be closer, every n-th is drawn
_FOOT = 52.0  # legend and caption below the topology

_WIDTH = 900.0
_GUTTER = 62.0  # names of ranks
_EDGE = 12.0
_HEAD, _RANKS_FOOT = 26.0, 50.0  # ruler, legend and caption
_TRACK, _GAP = 13.0, 7.0
_MOST_RANKS = 32
_EDGED = 5.0  # wider ones have an edge
_NARROW = 0.7  # closer spans are drawn as one
_MOST_LABELS = 400
_TRACK_COLOURS = dict(zip(("compute", "communication", "memory", "waiting"), OKABE_ITO[:4], strict=True))
_WHITE = (OKABE_ITO[0], OKABE_ITO[2])  # dark enough for white letters
_KIND_COLOURS = {"compute": OKABE_ITO[0], "memory": OKABE_ITO[2]}  # the others communicate
_NODE, _DOWN, _ACROSS = (150.0, 40.0), 14.0, 34.0
_MOST_NODES = 60
_SIGNS = {"done": "done", "running": "running", "ready": "ready", "waiting": "waiting"}


def picture_of(
    feed: AnyFeed, at: int | str | None = None, *, dark: bool = False, what: str = "", rank: int = 0
) -> Picture:
    """Draw a run as it is, or as it was at a moment; options as for :meth:`.Files.to_svg`.

    Raises
    ------
    InputError
        The moment has not been simulated, or there is no such picture or rank.
    """
    sim = feed.sim
    at_ps = None if at is None else time_ps(at, where="at")
    if at_ps is not None and not 0 <= at_ps <= sim.now_ps:
        raise InputError(f"{at_ps} ps has not been simulated", where="at", hint=f"0 to {sim.now_ps} ps")
    known = ("topology",)
    if isinstance(feed, OperationFeed):
        known = ("ranks", "graph", *(("memory",) if sim.engine.about.footprint else ()))
    if (what or known[0]) not in known:
        raise InputError(f"unknown picture {what!r}", where="to_svg", hint=near(str(what), known))
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < sim.ranks:
        raise InputError(f"unknown rank {rank!r}", where="to_svg", hint=f"0 to {sim.ranks - 1}")
    if not isinstance(feed, OperationFeed):
        return topology_picture(sim, feed.layout, at_ps, dark=dark)
    now_ps, colours = sim.now_ps if at_ps is None else at_ps, Colours.of(dark)
    if what == "memory":
        return memory_picture(sim, rank, at_ps=at_ps, dark=dark)
    if what == "graph":
        return graph_picture(feed, now_ps, colours, rank)
    return rank_picture(feed, now_ps, colours)


def topology_picture(
    sim: Simulation, layout: Layout, at_ps: int | None = None, *, dark: bool = False
) -> Picture:
    """Draw the topology as it is, or as it was at a moment that was recorded, in ps.

    A link's width and colour show how much of the time so far it was busy; at a moment, how busy it
    was then (the mean of a bin of the recording).
    """
    colours = Colours.of(dark)
    now = sim.now_ps if at_ps is None else at_ps
    busy = _busy(sim, layout, at_ps)
    edges = [Edge(layout, number) for number in range(len(layout.bundles))]
    moving, counts = _flying(sim, edges, now)
    what = f"{sim.engine.work.title} on {sim.engine.infra.name}"
    state = "finished" if sim.finished and now >= sim.now_ps else "under way"
    so_far = "so far" if at_ps is None else "at this moment"
    first = f"{what}, {state}: {format_time(now)}" + (
        f", {plural(sim.events, 'event')}" if at_ps is None else ""
    )
    notes = (first, counts, f"links by load {so_far}", describe(layout))
    caption = (
        *_legend(layout, colours),
        Text(12, layout.height + 42, "; ".join(filter(None, notes)), 13, colours.ink, room=layout.width - 24),
    )  # fmt: skip
    return Picture(
        layout.width,
        layout.height + _FOOT,
        colours,
        first,
        (
            *frames_of(layout, colours),
            *boxes_of(layout, colours, rails=True),
            *(
                line
                for number, edge in enumerate(edges)
                for line in edge.lines(busy[number], colours, bundle_name(sim.engine.fabric, layout, number))
            ),
        ),
        tuple(moving),
        tuple(boxes_of(layout, colours)),
        caption,
    )


def _busy(sim: Simulation, layout: Layout, at_ps: int | None) -> list[float]:
    """Busy fraction of each bundle: of all time so far, or of the bin at a moment."""
    lanes = [list(bundle[2]) for bundle in layout.bundles]
    if at_ps is None:
        total = max(1, sim.now_ps)
        return [min(1.0, float(sim.engine.machine.links["busy_ps"][of].mean()) / total) for of in lanes]
    busy = sim.engine.recorder.busy(lanes)
    if not busy.size:
        return [0.0] * len(lanes)
    place = min(busy.shape[1] - 1, at_ps // int(sim.engine.machine.recording.recorder[0].bin_ps))
    return [float(part) for part in busy[:, place]]


def _flying(sim: Simulation, edges: list[Edge], at_ps: int) -> tuple[list[Shape], str]:
    """Lines on their edge at a moment, where their recorded start and end put them, and how many."""
    if not sim.engine.recorder.on:
        return [], "lines are not recorded"
    near, one_in = sim.engine.recorder.flights(at_ps, at_ps)
    found = near[near["start_ps"] <= at_ps]
    bundle_of = {}
    if len(found):  # a large system has many links
        bundle_of = {
            link: (number, k) for number, edge in enumerate(edges) for k, link in enumerate(edge.lanes)
        }
    dots: list[list[Dot]] = [[] for _ in edges]
    rows = zip(*(np.asarray(found[n]).tolist() for n in ("link", "start_ps", "end_ps", "kind")), strict=True)
    for link, start, end, kind in rows:
        if link not in bundle_of:
            continue
        number, lane = bundle_of[link]
        gone = (at_ps - start) / (end - start) if end > start else 1.0
        dots[number].append(Dot(*edges[number].at(gone, lane), kind))
    shown: list[Shape] = []
    for edge, mine in zip(edges, dots, strict=True):
        shown += mine[:: max(1, int(-(-len(mine) * _DOT_PIXELS // (4 * edge.length))))]
    total = sum(map(len, dots)) * one_in
    drawn = f", {len(shown):,} drawn" if len(shown) < total else ""
    return shown, f"{plural(total, 'line')} in flight{drawn}"


def _legend(layout: Layout, colours: Colours) -> Iterator[Shape]:
    """The kinds of lines, as far as there is room."""
    x, y = 12.0, layout.height + 18
    for kind, name in enumerate(FLIGHT_KINDS):
        if x + 14 + 6 * len(name) > layout.width:
            return
        yield Dot(x + 4, y - 4, kind)
        yield Text(x + 13, y, name, 12, colours.dim)
        x += 25 + 6 * len(name)


def rank_picture(feed: OperationFeed, now: int, colours: Colours) -> Picture:
    """Draw what the first 32 ranks did up to a moment."""
    sim = feed.sim
    count = min(sim.ranks, _MOST_RANKS)
    names = feed.tracks
    tall = len(names) * _TRACK + _GAP
    height = _HEAD + count * tall + _RANKS_FOOT
    whole = max(1, sim.now_ps)
    scale = (_WIDTH - _GUTTER - _EDGE) / whole
    ground: list[Shape] = []
    for rank in range(count):
        top = _HEAD + rank * tall
        ground.append(
            Text(6, top + (tall - _GAP) / 2 + 4, f"rank {rank}", 12, colours.ink, room=_GUTTER - 10)
        )
        for track in range(len(names)):
            y = top + track * _TRACK
            ground.append(
                SvgBox(_GUTTER, y, _WIDTH - _GUTTER - _EDGE, _TRACK - 1, 0, colours.panel, colours.panel)
            )
    at = _GUTTER + now * scale
    cursor = SvgLine(at, _HEAD - 4, at, height - _RANKS_FOOT, colours.brand, 1.5)
    return Picture(
        _WIDTH, height, colours, _title(feed, now),
        (*ground, *_ruler(whole, scale, colours)),
        (*_spans(feed, now, count, scale, colours.panel), cursor),
        (),
        tuple(_caption(feed, now, count, height, colours)),
    )  # fmt: skip


def _spans(feed: OperationFeed, now: int, count: int, scale: float, ground: str) -> Iterator[Shape]:
    """Boxes of what ranks did up to a moment, with their names where there is room."""
    index = index_of(feed, "operations", range(count))
    about = feed.sim.engine.about
    tall = index.tracks * _TRACK + _GAP
    labels = 0
    for place in range(count * index.tracks):
        rank, track = divmod(place, index.tracks)
        one, other = int(index.first[place]), int(index.first[place + 1])
        start, end = index.start_ps[one:other], np.minimum(index.end_ps[one:other], now)
        seen = np.flatnonzero(start < end)
        high = (_TRACK - 1) / int(index.slots[place])
        colour = _TRACK_COLOURS[feed.tracks[track]]
        close: list[float] = [0.0, 0.0, -1.0]  # what is not drawn yet: from, to, slot
        for k in seen[np.lexsort((start[seen], index.slot[one:other][seen]))].tolist():
            slot = int(index.slot[one + k])
            x0, x1 = _GUTTER + start[k] * scale, _GUTTER + end[k] * scale
            y = _HEAD + rank * tall + track * _TRACK + slot * high
            text = about.label(int(index.row[one + k]))
            fits = x1 - x0 > 7 * len(text) + 6 and high > 9 and labels < _MOST_LABELS
            if x1 - x0 >= 2:
                edge = colour if x1 - x0 < _EDGED else ground  # so that neighbours can be distinguished
                yield SvgBox(x0, y, x1 - x0, high, 0, colour, edge, text)
                if fits:
                    labels += 1
                    yield Text(x0 + 3, y + high - 3, text, 9, "#ffffff" if colour in _WHITE else "#000000")
                continue
            if close[2] == slot and x0 - close[1] < _NARROW:
                close[1] = x1
                continue
            if close[2] >= 0:
                yield _thin(close, rank, track, tall, high, colour)
            close = [x0, x1, float(slot)]
        if close[2] >= 0:
            yield _thin(close, rank, track, tall, high, colour)


def _thin(close: list[float], rank: int, track: int, tall: float, high: float, colour: str) -> SvgBox:
    """A box for spans that are too short to be distinguished."""
    y = _HEAD + rank * tall + track * _TRACK + close[2] * high
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
    for name in feed.tracks:
        yield SvgBox(x, y - 9, 14, 9, 0, _TRACK_COLOURS[name], _TRACK_COLOURS[name])
        yield Text(x + 19, y, name, 12, colours.dim)
        x += 34 + 7 * len(name)
    left = f"; the first {count} of {feed.sim.ranks:,} ranks" if count < feed.sim.ranks else ""
    yield Text(12, height - 10, _title(feed, now) + left, 13, colours.ink, room=_WIDTH - 24)


def graph_picture(feed: OperationFeed, now: int, colours: Colours, rank: int) -> Picture:
    """Draw operations of a rank at a moment, those nearest to it, and what they wait for."""
    at = None if now >= feed.sim.now_ps else now
    found, _ = graph_around_now(feed, {"rank": rank, "at_ps": at, "most": _MOST_NODES})
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
    counted = ", ".join(f"{n:,} {state}" for state, n in found["counts"].items() if n)
    hidden = f"; {len(nodes)} nearest to now" if found["hidden"] else ""
    title = f"rank {rank} of {_title(feed, now)}; {counted}{hidden}"
    caption = Text(_EDGE, height - 10, title, 12, colours.ink, room=width - 2 * _EDGE)
    return Picture(width, height, colours, title, (), (*edges, *boxes), (), (caption,))
