"""Activity of threads and streams of a job's ranks over time, for views that ask for a window of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from astranb.chakra.traces import Ints, Trace
from astranb.core.density import Stretch, flatten

from .activity import ACTIVITIES, COMMUNICATION, WAITING, activities
from .meetings import meetings, times_with_waits
from .timeline import Times, in_order, job_times, lanes, nothing_takes_time, tracks

__all__ = ["RecordedTracks"]


class RecordedTracks:
    """Spans of all nodes, track by track, and how much of any time each track spends with what.

    Parameters
    ----------
    traces : sequence of Trace
        Of all ranks.
    times : sequence of Times, optional
        The recorded ones (:func:`job_times`).

    Attributes
    ----------
    traces : list of Trace
    names : list of str
        Of the tracks: threads and streams.
    rank : array of int64
        Of the tracks.
    end_ns : int
        The last end.
    how : str
        Where the times are from.
    track, start_ns, end_of_ns, state, row : array of int64
        Of the spans, by track and start: a node that waits for other ranks has two. ``state`` is an index
        into :data:`ACTIVITIES`.

    Raises
    ------
    InputError
        Nothing takes time.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.compute("backward", duration_us=3, after=step.compute("forward", duration_us=2))
    >>> found = RecordedTracks([step.build()])
    >>> found.names, found.start_ns.tolist(), found.spent(np.array([0]), np.array([0, 5000]))[0, 0].tolist()
    (['compute'], [0, 2000], [5000, 0, 0, 0, 0])
    """

    def __init__(self, traces: Sequence[Trace], times: Sequence[Times] | None = None) -> None:
        self.traces = list(traces)
        given = job_times(traces) if times is None else list(times)
        self.times = times_with_waits(given, meetings(traces, given))
        self.how = given[0].how if given else ""
        self.names: list[str] = []
        ranks: list[int] = []
        parts: list[tuple[Ints, ...]] = []
        for rank, (trace, when) in enumerate(zip(self.traces, self.times, strict=True)):
            track, names = tracks(trace)
            lane, of_lane = lanes(track, when)
            activity = activities(trace)
            works = np.flatnonzero((when.start_ns >= 0) & (activity >= 0))
            waits = np.flatnonzero((activity == COMMUNICATION) & (when.own_ns > when.start_ns))
            rows = np.concatenate([works, waits])
            start = np.concatenate([when.own_ns[works], when.start_ns[waits]])
            end = np.concatenate([when.end_ns[works], when.own_ns[waits]])
            state = np.concatenate([activity[works], np.full(len(waits), WAITING)])
            parts.append((lane[rows] + len(self.names), start, end, state, rows))
            self.names += [names[one] + (f" ({again + 1})" if again else "") for one, again in of_lane]
            ranks += [rank] * len(of_lane)
        self.rank = np.array(ranks, np.int64)
        columns = [np.concatenate([part[at] for part in parts] or [np.zeros(0, np.int64)]) for at in range(5)]
        self.end_ns = int(columns[2].max(initial=0))
        if not self.end_ns:
            raise nothing_takes_time(traces[0].source if traces else "timeline")
        order = in_order(*columns[:3])
        self.track, self.start_ns, self.end_of_ns, self.state, self.row = (one[order] for one in columns)
        base = self.track * (self.end_ns + 1)
        self._begins, self._reach = base + self.start_ns, np.maximum.accumulate(base + self.end_of_ns)
        self._first = np.searchsorted(self.track, np.arange(len(self.names) + 1))

    @cached_property
    def _by_track(self) -> Stretch:
        return self._stretch(self.track, len(self.names))

    @cached_property
    def _by_rank(self) -> Stretch:
        return self._stretch(self.rank[self.track], len(self.traces))

    def _stretch(self, track: Ints, count: int) -> Stretch:
        spans = (track, self.state, self.start_ns, self.end_of_ns)
        return flatten(0, self.end_ns, max(count, 1), len(ACTIVITIES), *spans)

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self.track)

    def _range(self, track: int, from_ns: int, to_ns: int) -> tuple[int, int]:
        """The spans of a track that a window may show: from the first that ends in it or later."""
        base, (first, last) = track * (self.end_ns + 1), self._first[track : track + 2]
        low, high = (min(max(when, 0), self.end_ns) + base for when in (from_ns, to_ns))
        begun = first + int(np.searchsorted(self._reach[first:last], low, "right"))
        return begun, max(begun, first + int(np.searchsorted(self._begins[first:last], high)))

    def count(self, some: Ints, from_ns: int, to_ns: int) -> int:
        """Count the spans of some tracks that a window shows."""
        ranges = [self._range(int(track), from_ns, to_ns) for track in some]
        return sum(last - first for first, last in ranges)

    def spans(self, some: Ints, from_ns: int, to_ns: int) -> tuple[Ints, Ints]:
        """The spans of some tracks in a window: of which of these each is, and its place."""
        ranges = [self._range(int(track), from_ns, to_ns) for track in some]
        owner = np.repeat(np.arange(len(ranges)), [last - first for first, last in ranges])
        every = [np.arange(*one) for one in ranges]
        return owner, np.concatenate([*every, np.zeros(0, np.int64)]).astype(np.int64)

    def at(self, track: int, when_ns: int) -> int:
        """The place of the innermost span of a track at a time; -1: nothing is there."""
        first, last = self._range(track, when_ns, when_ns + 1)
        inside = np.flatnonzero(self.end_of_ns[first:last] > when_ns)
        return first + int(inside[-1]) if len(inside) else -1

    def bands(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Spans that count of all that ranks do at once: rank, activity, start and end, by rank and time."""
        parts = [self._by_rank.spans(rank, 0, self.end_ns) for rank in range(len(self.traces))]
        owner = np.repeat(np.arange(len(parts)), [len(state) for state, _, _ in parts])
        state, start, end = (np.concatenate([part[at] for part in parts]).astype(np.int64) for at in range(3))
        return owner, state, start, end

    def spent(self, some: Ints, edges_ns: Ints, *, ranks: bool = False) -> Ints:
        """The time of each of :data:`ACTIVITIES` between two edges, of tracks or of whole ranks."""
        stretch = self._by_rank if ranks else self._by_track
        times = np.tile(edges_ns, len(some))
        sums = stretch.spent(np.repeat(np.asarray(some, np.int64), len(edges_ns)), times)
        return np.diff(sums.reshape(len(some), len(edges_ns), len(ACTIVITIES)), axis=1)
