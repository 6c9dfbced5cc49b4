"""Timelines of ranks as trace-event JSON, for Perfetto and chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.perfetto import Event, process, slice_, thread, write_trace

from ._check import topological_order
from ._schema import CollectiveType, NodeType
from ._trace import Trace
from ._wire import Ints

__all__ = ["Times", "recorded_times", "write_timeline"]

TRACKS: Final = ("host", "compute", "communication", "receive", "memory")

_MOST_US: Final = 2**61 // 10**6  # its picoseconds are written
_DAY_US: Final = 24 * 3600 * 10**6


class Times(NamedTuple):
    """When the nodes of a trace begin and end.

    Attributes
    ----------
    start_ns, end_ns : array of int64
        One for each node, in the file's order; -1 for those that are not shown.
    how : str
        Their origin in a few words.
    """

    start_ns: Ints
    end_ns: Ints
    how: str


def tracks(trace: Trace) -> Ints:
    """The track of each node, as an index into :data:`TRACKS`."""
    communicates = (trace.type == NodeType.COMM_COLL) | (trace.type == NodeType.COMM_SEND)
    memory = (trace.type == NodeType.MEM_LOAD) | (trace.type == NodeType.MEM_STORE)
    kinds = [communicates, trace.type == NodeType.COMM_RECV, memory, trace.is_cpu_op]
    return np.select(kinds, [2, 3, 4, 0], 1).astype(np.int64)


def recorded_times(trace: Trace) -> Times:
    """Return the times in a trace itself.

    If any node has a recorded start, these are the recorded times. Otherwise nodes with their recorded
    durations begin as early as dependencies allow, on each track (host, computation, communication, memory)
    one at a time.

    Raises
    ------
    InputError
        A node begins or ends too late to be shown.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.compute("backward", duration_us=3, after=step.compute("forward", duration_us=2))
    >>> recorded_times(step.build()).start_ns
    array([   0, 2000])
    """
    if trace.start_us.any():
        begun = trace.start_us - trace.start_us[trace.start_us > 0].min(initial=np.iinfo(np.int64).max)
        for row in np.flatnonzero(
            (trace.start_us > 0) & ((begun > _MOST_US) | (trace.duration_us > _MOST_US - begun))
        )[:1]:
            raise _too_late(trace, int(row))
        start = np.where(trace.start_us > 0, begun, -1) * 1000
        start[trace.start_us <= 0] = -1
        end = np.where(start < 0, -1, start + trace.duration_us * 1000)
        return Times(start, end, "recorded starts and durations")
    parents = trace.parents
    offset, flat = parents.offset.tolist(), parents.flat.tolist()
    track, took = tracks(trace).tolist(), trace.duration_us.tolist()
    begins, ends, free = [0] * len(trace), [0] * len(trace), [0] * len(TRACKS)
    for row in topological_order(trace).tolist():
        when = max((ends[one] for one in flat[offset[row] : offset[row + 1]]), default=0)
        if track[row] != TRACKS.index("receive"):
            when = max(when, free[track[row]])
            free[track[row]] = when + took[row]
        begins[row], ends[row] = when, when + took[row]
        if ends[row] > _MOST_US:
            raise _too_late(trace, row)
    how = "recorded durations, as early as dependencies allow"
    return Times(np.array(begins, np.int64) * 1000, np.array(ends, np.int64) * 1000, how)


def _too_late(trace: Trace, row: int) -> InputError:
    what = f"it ends more than {_MOST_US // _DAY_US} days after the start"
    return InputError(what, where=trace.place(row), hint="correct start_time_micros or duration_micros")


def write_timeline(
    path: str | Path, traces: Sequence[Trace], times: Sequence[Times], *, most: int = 2_000_000
) -> dict[str, Any]:
    """Write the timelines of all ranks for Perfetto.

    Parameters
    ----------
    path : str or Path
        ``.json`` or, compressed, ``.json.gz``.
    traces : sequence of Trace
        One for each rank.
    times : sequence of Times
        One for each rank.
    most : int
        The most spans to write: those of as many ranks as fit, from rank 0.

    Returns
    -------
    dict
        ``spans``, ``ranks``, ``ranks_left_out``, ``times``.

    Raises
    ------
    InputError
        It cannot be written.
    """
    file = Path(path)
    if not file.name.lower().endswith((".json", ".json.gz")):
        what = f"unknown file extension {file.suffix!r}"
        raise InputError(what, where=str(path), hint="use FILE.json or FILE.json.gz")
    ranks = spans = 0
    for one in times:
        count = int((one.start_ns >= 0).sum())
        if ranks and spans + count > most:
            break
        ranks, spans = ranks + 1, spans + count
    info = {
        "spans": spans,
        "ranks": ranks,
        "ranks_left_out": len(traces) - ranks,
        "times": times[0].how if times else "",
    }
    write_trace(file, _events(traces[:ranks], times[:ranks]), info)
    return info


def _events(traces: Sequence[Trace], times: Sequence[Times]) -> Iterator[Event]:
    for rank, (trace, when) in enumerate(zip(traces, times, strict=True)):
        yield from process(rank, f"rank {rank}")
        track = tracks(trace)
        for at in np.unique(track).tolist():
            yield from thread(rank, at, TRACKS[at])
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
            name = (trace.names[row] or "").encode("utf-8", "replace").decode()
            at = int(track[row])
            yield slice_(name, rank, at, start * 1000, end * 1000, category=TRACKS[at], **more)
