"""The recording of a run, for a page without a kernel: what the kernel would send, and columns.

``static/offline.js`` plays it and answers nothing by itself: whatever a view shows is here, as Python
gave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.units import format_time
from astranb.engine.cacheline import FLIGHT_KINDS
from astranb.engine.operations import About
from astranb.widgets.views import (
    KINDS,
    MOST_NODES,
    changes_of,
    doing,
    every_change,
    every_track,
    graph_around_now,
)

from .feed import QUICK_EVENTS, AnyFeed, Columns, LineFeed, Message, OperationFeed, Options, pack

__all__ = ["FREE", "PlayedRecording", "record"]

FREE: dict[str, list[str]] = {
    "doing": ["at_ps"],
    "footprint": ["from", "to", "at_ps"],
    "graph": ["path"],
    "tracks": ["from", "to", "ranks"],
}
"""By question the options that an answer here is not about: it holds for all of them."""

_NEVER = 9e15  # ps: of what has not happened
_MOST_LOOKED_INTO = 300  # operations
_MOST_MEMORY_BYTES = 4_000_000  # of what ranks hold
_MOST_GRAPH_NODES = 12_000  # in all of them: about 1 s, and 120 kB packed


class PlayedRecording(NamedTuple):
    """Recording of a page: fields for ``static/offline.js``, answers, and paths of objects to inspect."""

    fields: dict[str, Any]
    answers: list[dict[str, Any]]
    objects: list[str]
    title: str
    caption: str


def record(feed: AnyFeed, columns: Columns, most: int) -> PlayedRecording:
    """Record a run up to now, with at most so many flights of lines, or operations.

    Raises
    ------
    InputError
        Nothing was recorded.
    """
    if isinstance(feed, OperationFeed):
        return _record_operations(feed, columns, most)
    return _record_lines(feed, columns, most)


def _record_lines(feed: LineFeed, columns: Columns, most_flights: int) -> PlayedRecording:
    """Flights of lines from the oldest that is known up to now; of more than most, every n-th."""
    engine = feed.sim.engine
    if not engine.recorder.on:
        hint = "make it with Simulation(..., record=True)"
        raise InputError("nothing was recorded to play", where="to_html", hint=hint)
    scene = columns.message(feed.scene())
    state, buffers = feed.state(fine=True, most=most_flights)
    one_in = int(state["one_in"])
    _, all_flights = engine.recorder.since(0)
    flights = all_flights[::one_in]
    used = np.unique(flights["link"])
    moments = pack(
        "recorded_flights",
        time=np.maximum.accumulate(flights["queued_ps"]),
        event=flights["event"],
        kind=flights["kind"],
        link=np.searchsorted(used, flights["link"]),
    )
    phases = engine.machine.phases
    fields = {
        "scene": scene,
        "state": columns.message(({**state, "playing": False, "failed": False}, buffers)),
        "timeline": columns.message(feed.timeline()),
        "moments": columns.add(*moments),
        "words": FLIGHT_KINDS,
        "gpus": [engine.fabric.graph.name(int(node)) for node in engine.fabric.gpus],
        "links": [engine.fabric.name(int(link)) for link in used],
        "phases": sorted(phases["ended_ps"][(phases["left"] == 0) & (phases["ended_ps"] >= 0)].tolist()),
        "oldest": engine.recorder.oldest_ps,
    }
    kept = "all of them" if one_in == 1 else f"1 in {one_in} of them"
    caption = (
        f"Recorded: {len(all_flights):,} flights of lines over links, of which this page holds {kept}; "
        f"Event and Cycle step through these."
    )
    if engine.recorder.oldest_ps:
        caption += f" Flights before {format_time(engine.recorder.oldest_ps)} were dropped."
    links = [engine.fabric.name(lanes[0]).partition("#")[0] for *_, lanes in feed.layout.bundles]
    objects = [*(box.name for box in feed.layout.boxes), *links]
    return PlayedRecording(fields, [], objects, f"{engine.work.title} on {engine.infra.name}", caption)


def _record_operations(feed: OperationFeed, columns: Columns, most_operations: int) -> PlayedRecording:
    """The operations of as many ranks as there is room for."""
    sim = feed.sim
    scene, buffers = feed.scene()
    state, flights = feed.state(fine=True, most=most_operations)
    about = sim.engine.about
    listed = [about.rows_of(rank) for rank in range(sim.ranks)]
    sizes = np.array([len(rows) for rows in listed])
    ranks = max(1, int(np.searchsorted(np.cumsum(sizes), most_operations, side="right")))
    rows = np.concatenate(listed[:ranks])
    start, end = (_ever(times[rows]) for times in sim.engine.times_ps())
    texts: dict[str, int] = {}
    text = [texts.setdefault(about.text(row), len(texts)) for row in rows.tolist()]
    workload = {
        "operations": columns.add(*pack("recorded_operations", rank=about.npu[rows], text=text)),
        "texts": list(texts),
    }
    moments, count = _moments(columns, start, end)
    shown = {"ranks": ranks, "names": [n for n in scene["names"] if _inside(n, ranks)]}
    still = {"playing": False, "failed": False, "fast": False, "progress": {}, "events": count}
    fields = {
        "scene": columns.message(({**scene, **shown}, buffers)),
        "state": columns.message(({**state, **still}, flights)),
        "timeline": columns.message(feed.timeline()),
        "moments": moments,
        "workload": workload,
        "words": [], "gpus": [], "links": [],
        "phases": np.unique(sim.engine.passed()["end_ps"]).tolist(),
        "oldest": 0,
    }  # fmt: skip
    kept = "all ranks" if ranks == sim.ranks else f"the first {ranks:,} of {sim.ranks:,} ranks"
    caption = f"This page holds the operations of {kept}; Event and Cycle step through their begins and ends."
    answers = [_answer(columns, *one) for one in _at_any_time(feed, ranks, columns)]
    answers += _graphs(feed, ranks)
    return PlayedRecording(fields, answers, _objects(about, ranks), feed.title, caption)


def _answer(columns: Columns, question: str, options: Options, message: Message) -> dict[str, Any]:
    """An answer that holds at any time."""
    return {"question": question, "options": options, "always": True, **columns.message(message)}


def _at_any_time(feed: OperationFeed, ranks: int, columns: Columns) -> Iterator[tuple[str, Options, Message]]:
    """Yield activities and memory of ranks up to now, of which the page draws up to its own time."""
    yield "doing", {}, doing(feed, {})
    for kind in KINDS:
        yield "tracks", {"kind": kind}, every_track(feed, kind, list(range(ranks)))
    before = columns.size
    for rank in (None, *range(ranks)):
        if columns.size - before > _MOST_MEMORY_BYTES:
            return
        yield "footprint", {"rank": rank}, every_change(feed, rank)


def _graphs(feed: OperationFeed, ranks: int) -> list[dict[str, Any]]:
    """The graphs of the first ranks: at all moments at which each changes, or at some, and at the end.

    One holds from ``from_ps`` on, up to the next change at ``until_ps``.
    """
    sizes = [min(MOST_NODES, len(feed.sim.engine.about.rows_of(rank))) for rank in range(ranks)]
    shown = int(np.searchsorted(np.cumsum(sizes), _MOST_GRAPH_NODES, side="right"))
    each = _MOST_GRAPH_NODES // max(1, sum(sizes[:shown])) if feed.sim.events <= QUICK_EVENTS else 1
    asked: list[tuple[int, int, float]] = []
    for rank in range(shown):
        times = changes_of(feed, rank)
        some = np.unique(np.linspace(len(times) - 1, 0, min(each, len(times))).astype(np.int64))
        until = [*times[1:].tolist(), _NEVER]
        asked += [(int(times[k]), rank, until[k]) for k in some.tolist()]
    found = []
    for at_ps, rank, until_ps in sorted(asked):  # a private copy of the run goes on from each to the next
        when = {"from_ps": at_ps, "until_ps": until_ps}
        message, _ = graph_around_now(feed, {"rank": rank, "at_ps": None if until_ps == _NEVER else at_ps})
        found.append(
            {"question": "graph", "options": {"rank": rank}, **when, "message": message, "buffers": []}
        )
    return found


def _inside(name: str, ranks: int) -> bool:
    return not name.startswith("rank[") or int(name[5:-1]) < ranks


def _objects(about: About, ranks: int) -> list[str]:
    """Paths to inspect: dimensions, ranks, and operations as there is room."""
    dims = [f"dim[{dim}]" for dim in range(len(about.topology))]
    listed = [about.rows_of(rank) for rank in range(ranks)]
    first = range(min(max(map(len, listed), default=0), _MOST_LOOKED_INTO))
    rows = [int(one[number]) for number in first for one in listed if number < len(one)]
    operations = [about.path(row) for row in rows[:_MOST_LOOKED_INTO]]
    return [*dims, *(f"rank[{rank}]" for rank in range(ranks)), *operations]


def _ever(ps: np.ndarray) -> np.ndarray:
    """Times; of what has not happened, one that never comes."""
    return np.where(ps >= 0, ps.astype(np.float64), _NEVER)


def _moments(columns: Columns, start: np.ndarray, end: np.ndarray) -> tuple[list[int], int]:
    """Begins and ends in the order of time; at one time ends come first, as they let others begin."""
    times = np.concatenate([end, start])
    what = np.repeat([1, 0], len(start))
    row = np.tile(np.arange(len(start)), 2)
    known = times < _NEVER
    times, what, row = times[known], what[known], row[known]
    short = (what == 1) & (start[row] == end[row])  # begins and ends at once
    order = np.lexsort((row, np.where(short, 2, 1 - what), times))
    count = len(order)
    numbers = np.arange(1, count + 1)
    moments = pack("recorded_steps", time=times[order], event=numbers, ends=what[order], operation=row[order])
    return columns.add(*moments), count
