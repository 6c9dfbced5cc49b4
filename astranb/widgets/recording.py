"""The recording of a run, for a page without a kernel: what the kernel would send, and columns.

``static/offline.js`` reads it; of a run of operations also ``static/replayed.js``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from astranb.core.arrays import reduce_at
from astranb.core.errors import InputError
from astranb.core.units import format_time
from astranb.engine.cacheline import FLIGHT_KINDS
from astranb.engine.operations.about import KINDS, STATES, About
from astranb.engine.operations.footprint import fullest_rank

from .feed import AnyFeed, Columns, LineFeed, OperationFeed, pack
from .views import answers_of
from .views.footprint import axes
from .views.ranks import KINDS as KINDS_OF_TRACKS
from .views.ranks import index_of

__all__ = ["PlayedRecording", "record"]

_NEVER = 9e15  # ps: a number that the page compares with
_MOST_LOOKED_INTO = 300  # operations


class PlayedRecording(NamedTuple):
    """What a page plays: fields for ``static/offline.js``, and paths of objects to inspect."""

    fields: dict[str, Any]
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
    return PlayedRecording(fields, objects, f"{engine.work.title} on {engine.infra.name}", caption)


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
    labels: dict[str, int] = {}
    texts: dict[str, int] = {}
    label = [labels.setdefault(about.label(row), len(labels)) for row in rows.tolist()]
    text = [texts.setdefault(about.text(row), len(texts)) for row in rows.tolist()]
    npu = about.npu[rows]
    place = np.full(len(about.npu), -1)
    place[rows] = np.arange(len(rows))
    lists = [about.parents_of(row) for row in rows.tolist()]
    first = np.cumsum([0, *map(len, lists)])
    parents = place[np.concatenate([rows[:0], *lists])]
    ready = np.zeros(len(rows))
    if len(parents):
        some = np.flatnonzero(np.diff(first))
        ready[some] = reduce_at(np.maximum, end[parents], first[some])
    operations = pack(
        "recorded_operations",
        rank=npu,
        number=about.numbers(rows),
        label=label,
        text=text,
        kind=about.kind[rows],
        start=start,
        end=end,
        ready=ready,
    )
    spans = {kind: columns.add(*_spans(feed, kind, labels, ranks)) for kind in KINDS_OF_TRACKS}
    workload = {
        "operations": columns.add(*operations),
        "edges": columns.add(*pack("recorded_parents", first=first, parent=parents)),
        "spans": spans,
        "footprint": _footprint(feed, ranks, columns),
        "labels": list(labels), "texts": list(texts), "kinds": list(KINDS), "states": list(STATES),
        "doing": columns.message(answers_of(feed)["doing"](feed, {})),
        "ranks": ranks, "tracks": len(feed.tracks), "dims": len(about.topology),
    }  # fmt: skip
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
    return PlayedRecording(fields, _objects(about, ranks), feed.title, caption)


def _footprint(feed: OperationFeed, ranks: int, columns: Columns) -> dict[str, Any]:
    """What changes the memory of the ranks that a page holds, with which of their operations."""
    engine, found = feed.sim.engine, feed.sim.engine.about.footprint
    if found is None:
        return {"absent": engine.absent["memory"], "axes": [], "fullest": 0, "buffers": []}
    changes = pack(
        "recorded_footprint",
        table=found.table[:ranks],
        held=found.held[:, found.used],
        first=found.first,
        operation=found.operation,
        at_end=found.at_end,
        change=found.change[:, found.used],
    )
    fullest = fullest_rank(engine, ranks)
    return {"absent": "", "axes": axes(found), "fullest": fullest, "buffers": columns.add(*changes)}


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


def _spans(feed: OperationFeed, kind: str, labels: dict[str, int], ranks: int) -> list[bytes]:
    """Spans of the timeline: rank, number and label of the operation, track, slot, slots, begin, end."""
    index, about = index_of(feed, kind, range(ranks)), feed.sim.engine.about
    place, row = np.repeat(np.arange(len(index.first) - 1), np.diff(index.first)), index.row
    own = [about.number(one) for one in row.tolist()]
    names = [labels.setdefault(about.label(one), len(labels)) for one in row.tolist()]
    return pack(
        "recorded_spans",
        rank=place // index.tracks,
        number=own,
        label=names,
        track=place % index.tracks,
        slot=index.slot,
        slots=index.slots[place],
        start=index.start_ps,
        end=index.end_ps,
        ready=index.ready_ps,
        waits=index.waits,
    )


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
