"""When the nodes of traces begin and end, and on which thread or stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError

from ._check import ordered
from ._schema import NodeType
from ._trace import Trace
from ._wire import Ints

__all__ = ["TRACKS", "Times", "durations_ns", "job_times", "recorded_times", "tracks"]

TRACKS: Final = ("host", "compute", "communication", "receive", "memory")
"""Of nodes whose thread or stream is not recorded."""

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
    ready_ns : array of int64, optional
        Up to when a node waited, where that is known: a collective for its last rank, a thread for others.
    """

    start_ns: Ints
    end_ns: Ints
    how: str
    ready_ns: Ints | None = None

    @property
    def own_ns(self) -> Ints:
        """From when a node was not waiting any more."""
        return self.start_ns if self.ready_ns is None else self.ready_ns


def kinds(trace: Trace) -> Ints:
    """The kind of each node, as an index into :data:`TRACKS`."""
    communicates = (trace.type == NodeType.COMM_COLL) | (trace.type == NodeType.COMM_SEND)
    memory = (trace.type == NodeType.MEM_LOAD) | (trace.type == NodeType.MEM_STORE)
    found = [communicates, trace.type == NodeType.COMM_RECV, memory, trace.is_cpu_op]
    return np.select(found, [2, 3, 4, 0], 1).astype(np.int64)


def tracks(trace: Trace) -> tuple[Ints, list[str]]:
    """Find the track of each node, and the tracks' names: its thread or stream where that is recorded."""
    kind = kinds(trace)
    thread, stream = (trace.integers(name, -1) for name in ("tid", "stream"))
    on_stream = trace.has("stream") & ((kind != TRACKS.index("host")) | (thread < 0))
    group = np.select([on_stream, thread >= 0], [2, 1], 0)
    keys = np.stack([group, np.select([on_stream, thread >= 0], [stream, thread], kind)], axis=1)
    found, track = np.unique(keys, axis=0, return_inverse=True)
    words = ("", "thread ", "stream ")
    names = [f"{words[g]}{n}" if g else TRACKS[n] for g, n in found.tolist()]
    return track.reshape(-1).astype(np.int64), names


def durations_ns(trace: Trace) -> Ints:
    """The recorded durations: exact ones (``duration_ns``) where nodes have them."""
    exact = trace.integers("duration_ns")
    return np.where(exact > 0, exact, np.minimum(trace.duration_us, _MOST_US + 1) * 1000)


def recorded_times(trace: Trace, *, since_us: int | None = None) -> Times:
    """Return the times in a trace itself.

    If any node has a recorded start, these are the recorded times. Otherwise nodes with their recorded
    durations begin as early as dependencies allow, on each track (host, computation, communication, memory)
    one at a time.

    Parameters
    ----------
    trace : Trace
    since_us : int, optional
        The recorded start that counts as 0: the trace's first one.

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
    if has_starts(trace):
        known = trace.has("start_ns")
        starts = (trace.start_us > 0) | known
        begun = trace.start_us - (first_us(trace) if since_us is None else since_us)
        took = durations_ns(trace)
        for row in np.flatnonzero(starts & ((begun > _MOST_US) | (took // 1000 > _MOST_US - begun)))[:1]:
            raise _too_late(trace, int(row))
        # Whole microseconds say when, the nanoseconds of linked traces where in this one.
        within = np.where(known, trace.integers("start_ns") - trace.start_us * 1000, 0)
        start = np.where(starts, np.maximum(begun * 1000 + np.clip(within, -1000, 1000), 0), -1)
        ready = start + np.clip(trace.integers("wait_ns"), 0, _MOST_US * 1000)
        how = "recorded starts and durations"
        return Times(start, np.where(starts, ready + took, -1), how, np.where(starts, ready, -1))
    parents = trace.present_parents
    offset, flat = parents.offset.tolist(), parents.flat.tolist()
    track, took = kinds(trace).tolist(), durations_ns(trace).tolist()
    begins, ends, free = [0] * len(trace), [0] * len(trace), [0] * len(TRACKS)
    order, cycle = ordered(parents)
    done = np.zeros(len(trace), bool)
    done[order] = True
    circular = np.flatnonzero(~done).tolist()
    for row in [*order, *circular]:
        when = max((ends[one] for one in flat[offset[row] : offset[row + 1]]), default=0)
        if track[row] != TRACKS.index("receive"):
            when = max(when, free[track[row]])
            free[track[row]] = when + took[row]
        begins[row], ends[row] = when, when + took[row]
        if ends[row] > _MOST_US * 1000:
            raise _too_late(trace, row)
    how = "recorded durations, as early as dependencies allow"
    if cycle:
        how += f"; {len(circular):,} nodes wait for a cycle: these in the file's order"
    return Times(np.array(begins, np.int64), np.array(ends, np.int64), how)


def job_times(traces: Sequence[Trace]) -> list[Times]:
    """Return the recorded times of all ranks of a job, on one clock: 0 is the first start of any rank.

    Examples
    --------
    >>> from astranb.chakra import Node, Trace
    >>> ranks = [Trace.of([Node(0, "step", 4, start_us=start, duration_us=2)]) for start in (5, 8)]
    >>> [one.start_ns.tolist() for one in job_times(ranks)]
    [[0], [3000]]
    """
    since = min((first_us(one) for one in traces if has_starts(one)), default=0)
    return [recorded_times(one, since_us=since) for one in traces]


def has_starts(trace: Trace) -> bool:
    """Whether any node has a recorded start."""
    return bool(trace.start_us.any() or trace.has("start_ns").any())


def first_us(trace: Trace) -> int:
    """The first recorded start; 0 means none, except in traces that were linked."""
    starts = trace.start_us[(trace.start_us > 0) | trace.has("start_ns")]
    return int(starts.min(initial=np.iinfo(np.int64).max))


def _too_late(trace: Trace, row: int) -> InputError:
    what = f"it ends more than {_MOST_US // _DAY_US} days after the start"
    return InputError(what, where=trace.place(row), hint="correct start_time_micros or duration_micros")
