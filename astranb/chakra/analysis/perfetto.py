"""Timelines of ranks as trace-event JSON, for Perfetto and chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from astranb.chakra.traces import CollectiveType, Ints, NodeType, Trace
from astranb.core.errors import InputError
from astranb.core.perfetto import Event, counter, flow, process, slice_, thread, write_trace

from .activity import ACTIVITIES, COMMUNICATION, WAITING, activities, rank_time
from .meetings import Meetings, meetings, times_with_waits
from .timeline import Times, lanes, nothing_takes_time, tracks

__all__ = ["write_timeline"]

_EXPOSED: Final = {"communication": COMMUNICATION, "waiting for ranks": WAITING}
_Place = tuple[int, int, int]
"""Process, thread and time in ps."""


def write_timeline(
    traces: Sequence[Trace], times: Sequence[Times], path: str | Path, *, most: int = 2_000_000
) -> dict[str, Any]:
    """Write the timelines of all ranks for Perfetto.

    A rank is a process, its threads and streams are tracks, and a counter sums up the communication that no
    computation hides. Arrows show what waits for another track, and what other ranks waited for.

    Parameters
    ----------
    traces : sequence of Trace
        One for each rank.
    times : sequence of Times
        One for each rank.
    path : str or Path
        ``.json`` or, compressed, ``.json.gz``.
    most : int
        The most spans to write: those of as many ranks as fit, from rank 0.

    Returns
    -------
    dict
        ``spans``, ``arrows``, ``ranks``, ``ranks_left_out``, ``times``.

    Raises
    ------
    InputError
        It cannot be written, or nothing takes time.
    """
    file = Path(path)
    if not file.name.lower().endswith((".json", ".json.gz")):
        what = f"unknown file extension {file.suffix!r}"
        raise InputError(what, where=str(path), hint="use FILE.json or FILE.json.gz")
    if not any(one.end_ns.max(initial=0) > 0 for one in times):
        raise nothing_takes_time(traces[0].source if traces else str(path))
    ranks = spans = 0
    for one in times:
        count = int((one.start_ns >= 0).sum())
        if ranks and spans + count > most:
            break
        ranks, spans = ranks + 1, spans + count
    info = {
        "spans": spans,
        "arrows": 0,
        "ranks": ranks,
        "ranks_left_out": len(traces) - ranks,
        "times": times[0].how if times else "",
    }
    write_trace(_events(traces[:ranks], times[:ranks], info), info, file)
    return info


def _events(traces: Sequence[Trace], times: Sequence[Times], info: dict[str, Any]) -> Iterator[Event]:
    found = meetings(traces, times)
    better = times_with_waits(times, found)
    placed = []
    for rank, (trace, when) in enumerate(zip(traces, better, strict=True)):
        track, names = tracks(trace)
        lane, of_track = lanes(track, when)
        placed.append(lane)
        yield from process(rank, f"rank {rank}")
        for at, (one, again) in enumerate(of_track):
            yield from thread(rank, at, names[one] + (f" ({again + 1})" if again else ""))
        yield from _spans(rank, trace, when, lane)
        yield from _exposed(rank, trace, when)
    for arrows in (_between_tracks(traces, better, placed), _between_ranks(found, better, placed)):
        for number, (name, start, end) in enumerate(arrows):
            info["arrows"] += 1
            yield from flow(name, number, start, end, category=name)


def _spans(rank: int, trace: Trace, when: Times, lane: Ints) -> Iterator[Event]:
    activity = activities(trace)
    for row in np.flatnonzero(when.start_ns >= 0).tolist():
        start, end = int(when.start_ns[row]), int(when.end_ns[row])
        more: dict[str, Any] = {"id": int(trace.id[row])}
        if trace.comm_size[row] >= 0:
            more["bytes"] = int(trace.comm_size[row])
        which = int(trace.comm_type[row])
        if trace.type[row] == NodeType.COMM_COLL and 0 <= which < len(CollectiveType):
            more["collective"] = CollectiveType(which).name.lower()
            more["group"] = (trace.pg_name[row] or "all").encode("utf-8", "replace").decode()
        if trace.num_ops[row] >= 0:
            more["operations"] = int(trace.num_ops[row])
        waited = int(when.own_ns[row]) - start
        if waited:
            more["waited_ns"] = waited
        name = (trace.names[row] or "").encode("utf-8", "replace").decode()
        kind = ACTIVITIES[activity[row]] if activity[row] >= 0 else "other"
        yield slice_(name, rank, int(lane[row]), start * 1000, end * 1000, category=kind, **more)


def _exposed(rank: int, trace: Trace, when: Times) -> Iterator[Event]:
    """Count up the time in which a rank does nothing but communicate or wait for others, in µs."""
    spent = rank_time(trace, when)
    state = spent.shown
    so_far = dict.fromkeys(_EXPOSED, 0.0)
    changes = np.flatnonzero(np.isin(state, list(_EXPOSED.values())))
    if len(changes):
        yield counter("exposed (us)", rank, 0, **so_far)
    for one in changes.tolist():
        yield counter("exposed (us)", rank, int(spent.from_ns[one]) * 1000, **so_far)
        name = next(word for word, number in _EXPOSED.items() if number == state[one])
        so_far[name] += int(spent.to_ns[one] - spent.from_ns[one]) / 1000
        yield counter("exposed (us)", rank, int(spent.to_ns[one]) * 1000, **so_far)


def _between_tracks(
    traces: Sequence[Trace], times: Sequence[Times], placed: Sequence[Ints]
) -> Iterator[tuple[str, _Place, _Place]]:
    """Arrows to what waits for another thread or stream of its rank."""
    for rank, (trace, when, lane) in enumerate(zip(traces, times, placed, strict=True)):
        owner, parent = trace.present_parents.owner, trace.present_parents.flat
        kept = (lane[owner] >= 0) & (lane[parent] >= 0) & (lane[owner] != lane[parent])
        for later, before in zip(owner[kept].tolist(), parent[kept].tolist(), strict=True):
            yield "dependency", _end(rank, before, when, lane), _start(rank, later, when, lane)


def _between_ranks(
    found: Meetings, times: Sequence[Times], placed: Sequence[Ints]
) -> Iterator[tuple[str, _Place, _Place]]:
    """Arrows from the last rank that came to a collective or message to those that waited for it."""
    last = found.last()
    for place in np.flatnonzero(found.wait_ns > 0).tolist():
        late = int(last[found.number[place]])
        one, other = int(found.rank[late]), int(found.rank[place])
        if one != other:
            begins = one, int(placed[one][found.row[late]]), int(found.arrival_ns[late]) * 1000
            row = int(found.row[place])
            until = max(int(times[other].end_ns[row]) * 1000 - 1000, int(times[other].start_ns[row]) * 1000)
            yield "waited for", begins, (other, int(placed[other][row]), until)


def _end(rank: int, row: int, when: Times, lane: Ints) -> _Place:
    """Just before a span ends: at its end, the next one begins."""
    return rank, int(lane[row]), max(int(when.end_ns[row]) * 1000 - 1000, int(when.start_ns[row]) * 1000)


def _start(rank: int, row: int, when: Times, lane: Ints) -> _Place:
    return rank, int(lane[row]), int(when.start_ns[row]) * 1000
