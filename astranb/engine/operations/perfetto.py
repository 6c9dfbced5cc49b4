"""A workload's run as a trace for Perfetto and Chrome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from astranb.core.perfetto import Event, flow, process, rows_of, slice_, thread

from .about import ALGORITHMS
from .footprint import memory_counters
from .run import OperationRun
from .spans import late_ps

__all__ = ["slots", "trace_events"]

_MOST_SLOTS = 64
_TRACKS = 1000
"""Numbers of tracks from which on those of a kind begin: Perfetto wants one a span at a time."""
_START = 900


def slots(key: Any, start: Any, end: Any) -> Any:
    """Assign to each span the first of its key's rows that is free at its start.

    Parameters
    ----------
    key, start, end : ndarray of int64
        In the order of ``start`` within each key.
    """
    free: dict[int, list[int]] = {}
    result = np.zeros(len(key), np.int64)
    for number, (one, begins, ends) in enumerate(
        zip(key.tolist(), start.tolist(), end.tolist(), strict=True)
    ):
        rows = free.setdefault(one, [])
        place = next((k for k, until in enumerate(rows) if until <= begins), len(rows))
        if place == len(rows):
            rows.append(ends)
        else:
            rows[place] = ends
        result[number] = place
    return result


def trace_events(engine: OperationRun, written: dict[str, Any]) -> Iterator[Event]:
    """Events of a trace that ui.perfetto.dev and chrome://tracing open.

    A process is a rank (``pid`` is its number + 1). Its threads are what an operation occupies
    (CPU, GPU, network), its receives, for each dimension the chunks under way there, on as many
    tracks as there are at once, and of a rank that starts late the time up to its start. Counters
    show what one rank of each stage holds in memory, where that is known. Each event's
    ``args`` hold exact picoseconds.

    Parameters
    ----------
    engine : OperationRun
    written : dict
        Filled with ``late`` (ranks that started late), ``operations``, ``phases`` and ``messages`` (arrows
        from a send to its receive).
    """
    for rank in range(engine.ranks):
        yield from process(rank + 1, f"rank {rank}")
    yield from _late(engine, written)
    track = yield from _operations(engine, written)
    yield from _phases(engine, written)
    yield from _arrows(engine, written, track)
    yield from memory_counters(engine)


def _late(engine: OperationRun, written: dict[str, Any]) -> Iterator[Event]:
    """A span of each rank that started late, up to its start."""
    late = late_ps(engine)
    ranks = np.flatnonzero(late)
    written["late"] = len(ranks)
    for rank in ranks.tolist():
        yield from thread(rank + 1, _START, "start")
        yield slice_("started late", rank + 1, _START, 0, int(late[rank]), category="start")


def _tracks(pid: Any, tid: Any, names: dict[int, str]) -> Iterator[Event]:
    for one in np.unique(np.stack([pid, tid]), axis=1).T.tolist():
        yield from thread(one[0], one[1], names[one[1]])


def _operations(engine: OperationRun, written: dict[str, Any]) -> Any:
    """Spans of operations; returns the track of each."""
    (spans, place, places), about = engine.trace_tracks(), engine.about
    written["operations"] = len(spans.row)
    key = spans.npu * len(places) + place
    order = np.lexsort((spans.start_ps, key))
    slot = np.zeros(len(order), np.int64)
    slot[order] = slots(key[order], spans.start_ps[order], spans.end_ps[order])
    track = 1 + place * _MOST_SLOTS + np.minimum(slot, _MOST_SLOTS - 1)
    names = {
        1 + p * _MOST_SLOTS + k: f"{name} {k + 1}" if k else name
        for p, name in enumerate(places)
        for k in range(_MOST_SLOTS)
    }
    yield from _tracks(spans.npu + 1, track, names)
    for row, npu, tid, start, end in rows_of([spans.row, spans.npu, track, spans.start_ps, spans.end_ps]):
        what = about.what(row)
        more = {"operation": about.number(row), "what": what, "bytes": int(about.size[row])}
        yield slice_(about.label(row), npu + 1, tid, start, end, category=what, **more)
    return dict(zip(spans.row.tolist(), track.tolist(), strict=True))


def _phases(engine: OperationRun, written: dict[str, Any]) -> Iterator[Event]:
    """Spans of chunks in each dimension, from when they are let run."""
    rows = engine.passed()
    written["phases"] = len(rows["npu"])
    if not len(rows["npu"]):
        return
    key = rows["npu"] * len(engine.about.topology) + rows["dim"]
    order = np.lexsort((rows["begun_ps"], key))
    rows, key = {name: column[order] for name, column in rows.items()}, key[order]
    slot = np.minimum(slots(key, rows["begun_ps"], rows["end_ps"]), _MOST_SLOTS - 1)
    track = _TRACKS + rows["dim"] * _MOST_SLOTS + slot
    names = {
        _TRACKS + dim * _MOST_SLOTS + k: f"chunks in dim {dim} ({shape})"
        for dim, shape in enumerate(engine.about.topology)
        for k in range(_MOST_SLOTS)
    }
    yield from _tracks(rows["npu"] + 1, track, names)
    columns = [
        rows[n]
        for n in ("npu", "operation", "chunk", "phase", "algorithm", "queued_ps", "begun_ps", "end_ps")
    ]
    for npu, op, chunk, phase, how, queued, begun, end, tid in rows_of([*columns, track]):
        more = {"operation": engine.about.label(op), "algorithm": ALGORITHMS[how], "queued_ps": queued}
        yield slice_(f"chunk {chunk} phase {phase}", npu + 1, tid, begun, end, category="phase", **more)


def _arrows(engine: OperationRun, written: dict[str, Any], track: dict[int, int]) -> Iterator[Event]:
    """Arrows from sends to their receives."""
    sends, receives = engine.arrows()
    written["messages"] = len(sends)
    starts, ends = engine.times_ps()

    def at(row: int, ps: int) -> tuple[int, int, int]:
        return int(engine.about.npu[row]) + 1, track[row], ps

    for number, (one, other) in enumerate(zip(sends.tolist(), receives.tolist(), strict=True)):
        start_ps, end_ps = int(starts[one]), int(ends[other])
        if start_ps >= 0:
            end = at(other, end_ps) if end_ps >= 0 else None
            yield from flow("message", number, at(one, start_ps), end, category="message")
