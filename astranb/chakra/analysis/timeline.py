"""Start and end of the nodes of traces, and the thread or stream of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from astranb.chakra.traces import Ints, NodeType, Trace, ordered
from astranb.core.errors import InputError

__all__ = [
    "TRACKS",
    "Times",
    "durations_ns",
    "job_times",
    "lanes",
    "nothing_takes_time",
    "recorded_times",
    "tracks",
]

TRACKS: Final = ("host", "compute", "communication", "receive", "memory")
"""Of nodes whose thread or stream is not recorded."""

_MOST_US: Final = 2**61 // 10**6  # its picoseconds are written
_DAY_US: Final = 24 * 3600 * 10**6


class Times(NamedTuple):
    """Start and end of the nodes of a trace.

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
    number = np.select([on_stream, thread >= 0], [stream, thread], kind)
    known, place = np.unique(number, return_inverse=True)  # a number may have 64 bits
    found, track = np.unique(group * len(known) + place, return_inverse=True)
    prefixes = ("", "thread ", "stream ")
    keys = [(one // len(known), int(known[one % len(known)])) for one in found.tolist()]
    return track.astype(np.int64), [f"{prefixes[g]}{n}" if g else TRACKS[n] for g, n in keys]


def lanes(track: Ints, when: Times) -> tuple[Ints, list[tuple[int, int]]]:
    """Assign each node a row of its track, so that spans of a row follow or contain each other.

    Returns
    -------
    array of int64, list of pair of int
        The lane of each node, -1 for those that are not shown; of each lane its track, and its number there.
    """
    rows = np.flatnonzero(when.start_ns >= 0)
    rows = rows[in_order(track[rows], when.start_ns[rows], when.end_ns[rows])]
    own = np.zeros(len(rows), np.int64)
    of_track, starts, ends = track[rows], when.start_ns[rows], when.end_ns[rows]
    count = np.zeros(int(track.max(initial=-1)) + 1, np.int64)
    for low, high in _overlapping(of_track, starts, ends):
        open_: list[list[int]] = []  # of each lane the ends of the spans that contain each other
        for at, start, end in zip(range(low, high), starts[low:high], ends[low:high], strict=True):
            for some in open_:
                while some and some[-1] <= start:
                    some.pop()
            fitting = (k for k, some in enumerate(open_) if not some or some[-1] >= end)
            own[at] = next(fitting, len(open_))
            if own[at] == len(open_):
                open_.append([])
            open_[own[at]].append(end)
    np.maximum.at(count, of_track, own + 1)
    lane = np.full(len(track), -1, np.int64)
    lane[rows] = (np.cumsum(count) - count)[of_track] + own
    return lane, [(one, number) for one, most in enumerate(count.tolist()) for number in range(most)]


def in_order(track: Ints, start: Ints, end: Ints) -> Ints:
    """Order spans by track and start; of those that begin together the longest is first."""
    if not len(track):
        return np.zeros(0, np.int64)
    key = track * (int(start.max()) + 1) + start
    order = np.argsort(key, kind="stable")  # faster than by three keys
    ordered_keys = key[order]
    if (ordered_keys[1:] == ordered_keys[:-1]).any():
        return np.lexsort((-end, key))
    return order


def _overlapping(track: Ints, starts: Ints, ends: Ints) -> list[tuple[int, int]]:
    """The stretches of spans, sorted by track and start, of which each overlaps one before it."""
    if not len(track):
        return []
    whole = int(ends.max()) + 1
    reach = np.maximum.accumulate(ends + track * whole)
    alone = np.ones(len(track), bool)
    alone[1:] = (reach[:-1] <= starts[1:] + track[1:] * whole) | (track[1:] != track[:-1])
    first = np.flatnonzero(alone)
    last = np.append(first[1:], len(track))
    several = last - first > 1
    return list(zip(first[several].tolist(), last[several].tolist(), strict=True))


def durations_ns(trace: Trace) -> Ints:
    """Return how long nodes took as recorded, in ns: exactly (``duration_ns``) where nodes have that.

    Examples
    --------
    >>> from astranb.chakra import Node
    >>> durations_ns(Trace.of([Node(0, "add", 4, duration_us=5)]))
    array([5000])
    """
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
        known, exact_ns = trace.has("start_ns"), trace.integers("start_ns")
        starts = (trace.start_us > 0) | known
        begun = _starts_us(trace) - (first_us(trace) if since_us is None else since_us)
        took = durations_ns(trace)
        for row in np.flatnonzero(starts & ((begun > _MOST_US) | (took // 1000 > _MOST_US - begun)))[:1]:
            raise _too_late(trace, int(row))
        start = np.where(starts, np.maximum(begun * 1000 + np.where(known, exact_ns % 1000, 0), 0), -1)
        ready = start + np.clip(trace.integers("wait_ns"), 0, _MOST_US * 1000)
        end = np.where(starts, ready + took, -1)
        return Times(start, end, "recorded starts and durations", np.where(starts, ready, -1))
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
    """Return whether any node has a recorded start."""
    return bool(trace.start_us.any() or trace.has("start_ns").any())


def first_us(trace: Trace) -> int:
    """The first recorded start; 0 means none, except in traces that were linked."""
    starts = _starts_us(trace)[(trace.start_us > 0) | trace.has("start_ns")]
    return int(starts.min(initial=np.iinfo(np.int64).max))


def _starts_us(trace: Trace) -> Ints:
    """The recorded starts: exact ones (``start_ns``) where nodes have them."""
    return np.where(trace.has("start_ns"), trace.integers("start_ns") // 1000, trace.start_us)


def _too_late(trace: Trace, row: int) -> InputError:
    what = f"it ends more than {_MOST_US // _DAY_US} days after the start"
    return InputError(what, where=trace.place(row), hint="correct start_time_micros or duration_micros")


def nothing_takes_time(where: str) -> InputError:
    """The error of a picture of times where all of them are 0: of operations without durations."""
    hint = "simulate it: --system FILE --network FILE; or write durations: chakra generate --gpu h100-sxm"
    return InputError("no operation has a duration", where=where, hint=hint)
