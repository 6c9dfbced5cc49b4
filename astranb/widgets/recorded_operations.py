"""The recording of a run of operations, for a page without a kernel (``static/replayed.js`` reads it)."""

from __future__ import annotations

import numpy as np

from astranb.engine.operations.about import KINDS, STATES, About

from .feed import OperationFeed, pack
from .recording import Columns, PlayedRecording
from .views.graph import laid_out
from .views.ranks import KINDS as KINDS_OF_LANES
from .views.ranks import index_of

__all__ = ["record_operations"]

_NEVER = 9e15  # ps: a number that the page compares with
_MOST_LOOKED_INTO = 300  # operations


def record_operations(feed: OperationFeed, columns: Columns, most_operations: int) -> PlayedRecording:
    """Take the operations of as many ranks as there is room for.

    Parameters
    ----------
    feed : OperationFeed
    columns : Columns
        Gets the columns.
    most_operations : int
    """
    sim = feed.sim
    scene, buffers = feed.scene()
    state, nothing = feed.state()
    about = sim.engine.about
    sizes = np.diff(about.start)
    ranks = max(1, int(np.searchsorted(np.cumsum(sizes), most_operations, side="right")))
    rows = np.arange(int(about.start[ranks]))
    begun, ended = sim.engine.times_ps()
    start, end = _ever(begun[: len(rows)]), _ever(ended[: len(rows)])
    labels: dict[str, int] = {}
    texts: dict[str, int] = {}
    label = [labels.setdefault(about.label(row), len(labels)) for row in rows.tolist()]
    text = [texts.setdefault(about.text(row), len(texts)) for row in rows.tolist()]
    x, y = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for rank in range(ranks):
        mine = slice(int(about.start[rank]), int(about.start[rank + 1]))
        x[mine], y[mine] = laid_out(sim.engine, rows[mine])
    npu = about.npu[rows]
    first = about.first[: len(rows) + 1]
    parents = about.parents[: int(first[-1])]
    ready = np.zeros(len(rows))
    if len(parents):
        some = np.flatnonzero(np.diff(first))
        ready[some] = np.maximum.reduceat(end[parents], first[some])
    operations = pack(
        "recorded_operations",
        rank=npu,
        number=rows - about.start[npu],
        label=label,
        text=text,
        kind=about.kind[rows],
        start=start,
        end=end,
        ready=ready,
        x=x,
        y=y,
    )
    spans = {kind: columns.add(*_spans(feed, kind, labels, ranks)) for kind in KINDS_OF_LANES}
    workload = {
        "operations": columns.add(*operations),
        "edges": columns.add(*pack("recorded_parents", first=first, parent=parents)),
        "spans": spans,
        "labels": list(labels), "texts": list(texts), "kinds": list(KINDS), "states": list(STATES),
        "ranks": ranks, "lanes": len(feed.lanes), "dims": len(about.topology),
    }  # fmt: skip
    moments, count = _moments(columns, start, end)
    shown = {"ranks": ranks, "names": [n for n in scene["names"] if _inside(n, ranks)]}
    still = {"playing": False, "failed": False, "fast": False, "progress": {}, "events": count}
    fields = {
        "scene": columns.message(({**scene, **shown}, buffers)),
        "state": columns.message(({**state, **still}, nothing)),
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


def _inside(name: str, ranks: int) -> bool:
    return not name.startswith("rank[") or int(name[5:-1]) < ranks


def _objects(about: About, ranks: int) -> list[str]:
    """What is looked into: dimensions, ranks, and operations as there is room."""
    dims = [f"dim[{dim}]" for dim in range(len(about.topology))]
    sizes = np.diff(about.start)[:ranks]
    first = range(int(min(sizes.max(initial=0), _MOST_LOOKED_INTO)))
    rows = [
        int(about.start[rank]) + number for number in first for rank in range(ranks) if number < sizes[rank]
    ]
    operations = [about.path(row) for row in rows[:_MOST_LOOKED_INTO]]
    return [*dims, *(f"rank[{rank}]" for rank in range(ranks)), *operations]


def _ever(ps: np.ndarray) -> np.ndarray:
    """Times; of what has not happened, one that never comes."""
    return np.where(ps >= 0, ps.astype(np.float64), _NEVER)


def _spans(feed: OperationFeed, kind: str, labels: dict[str, int], ranks: int) -> list[bytes]:
    """Spans of the timeline: rank, number and label of the operation, lane, slot, slots, begin, end."""
    index, about = index_of(feed, kind), feed.sim.engine.about
    places = np.repeat(np.arange(len(index.first) - 1), np.diff(index.first))
    inside = places // index.lanes < ranks
    row, place = index.row[inside], places[inside]
    own = [about.number(one) for one in row.tolist()]
    names = [labels.setdefault(about.label(one), len(labels)) for one in row.tolist()]
    return pack(
        "recorded_spans",
        rank=place // index.lanes,
        number=own,
        label=names,
        lane=place % index.lanes,
        slot=index.slot[inside],
        slots=index.slots[place],
        start=index.start_ps[inside],
        end=index.end_ps[inside],
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
