"""A workload's run as a trace for Perfetto and Chrome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from astranb.core.perfetto import Event, name_event, rows_of

from .about import ALGORITHMS
from .run import OperationRun

__all__ = ["slots", "trace_events"]

_MOST_SLOTS = 64
_TRACKS = 1000
"""Numbers of tracks from which on those of a kind begin: Perfetto wants one a span at a time."""


def slots(key: Any, start: Any, end: Any) -> Any:
    """Give each span the first of its key's rows that is free at its start.

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
    (CPU, GPU, network), its receives, and for each dimension the chunks under way there, on as
    many tracks as there are at once. Exact picoseconds stand in each event's ``args``.

    Parameters
    ----------
    engine : OperationRun
    written : dict
        Filled with ``operations``, ``phases`` and ``messages`` (arrows from a send to its receive).
    """
    for rank in range(engine.ranks):
        yield name_event("process_name", rank + 1, 0, name=f"rank {rank}")
        yield name_event("process_sort_index", rank + 1, 0, sort_index=rank)
    track = yield from _operations(engine, written)
    yield from _phases(engine, written)
    yield from _arrows(engine, written, track)


def _span(name: str, kind: str, pid: int, tid: int, start_ps: int, end_ps: int, **args: Any) -> Event:
    said = {"start_ps": start_ps, "end_ps": end_ps, **args}
    span = {"ph": "X", "name": name, "cat": kind, "pid": pid, "tid": tid, "ts": start_ps / 1e6}
    return {**span, "dur": (end_ps - start_ps) / 1e6, "args": said}


def _tracks(pid: Any, tid: Any, names: dict[int, str]) -> Iterator[Event]:
    for one in np.unique(np.stack([pid, tid]), axis=1).T.tolist():
        yield name_event("thread_name", one[0], one[1], name=names[one[1]])
        yield name_event("thread_sort_index", one[0], one[1], sort_index=one[1])


def _operations(engine: OperationRun, written: dict[str, Any]) -> Any:
    """Spans of operations; returns the track of each."""
    (spans, place, places), about = engine.tracks(), engine.about
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
        said = {"operation": about.number(row), "what": what, "bytes": int(about.size[row])}
        yield _span(about.label(row), what, npu + 1, tid, start, end, **said)
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
        said = {"operation": engine.about.label(op), "algorithm": ALGORITHMS[how], "queued_ps": queued}
        yield _span(f"chunk {chunk} phase {phase}", "phase", npu + 1, tid, begun, end, **said)


def _arrows(engine: OperationRun, written: dict[str, Any], track: dict[int, int]) -> Iterator[Event]:
    """Arrows from sends to their receives."""
    sends, receives = engine.arrows()
    written["messages"] = len(sends)
    starts, ends = engine.times_ps()
    for number, (one, other) in enumerate(zip(sends.tolist(), receives.tolist(), strict=True)):
        for kind, row, ps in (("s", one, starts[one]), ("f", other, ends[other])):
            if int(ps) < 0:
                break
            event = {"ph": kind, "id": number, "name": "message", "cat": "message", "ts": int(ps) / 1e6}
            more = {"bp": "e"} if kind == "f" else {}
            yield {**event, "pid": int(engine.about.npu[row]) + 1, "tid": track[row], **more}
