"""The time that the tracks of a timeline spend in each state, for any window and number of columns.

A stretch of time holds the changes of state of many tracks on one axis, sorted by track and time:
a track begins at its number times the stretch's length. The time spent in each state up to a point
of this axis is stored at every sixteenth change and computed from there for other points. So a
window of a track takes two look-ups, whether it holds ten spans or ten million. Sums are of
integers and exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["NOTHING", "Stretch", "flatten", "join"]

NOTHING = 15
"""The state of a track that is in no state."""

_EVERY = 16  # changes between two stored sums
_NEVER = np.iinfo(np.int64).max
_AT_ONCE = 2048  # points looked up together: their data fits in the processor's cache


@dataclass(frozen=True)
class Stretch:
    """The changes of state of some tracks in a stretch of time.

    Parameters
    ----------
    start_ps, end_ps : int
        All tracks are in no state before and after.
    tracks : int
    states : int
        How many states there are, at most 15.
    key : ndarray of int64, shape (changes,)
        Times on the axis of all tracks: ``track * (length + 1) + time - start_ps``, ascending.
    old, new : ndarray of uint8, shape (changes,)
        States before and after the change, or ``NOTHING``.

    Examples
    --------
    >>> track, state = np.array([0, 1]), np.array([2, 0])
    >>> one = flatten(0, 100, 2, 3, track, state, np.array([10, 50]), np.array([30, 90]))
    >>> one.spent(np.array([0, 0, 1]), np.array([0, 15, 0])).tolist()
    [[0, 0, 0], [0, 0, 5], [0, 0, 20]]
    >>> (one.spent(np.array([1]), np.array([80])) - one.spent(np.array([1]), np.array([0]))).tolist()
    [[30, 0, 0]]
    """

    start_ps: int
    end_ps: int
    tracks: int
    states: int
    key: np.ndarray
    old: np.ndarray
    new: np.ndarray

    def __len__(self) -> int:
        """Return the number of changes of state."""
        return len(self.key)

    @property
    def pitch(self) -> int:
        """Distance from one track to the next on the axis."""
        return self.end_ps - self.start_ps + 1

    @property
    def _sums(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Point of every 16th change, the time in each state up to it, and the tracks in each."""
        n, width = len(self.key), NOTHING + 1
        blocks = max(1, -(-n // _EVERY))
        first = self.key[::_EVERY] if n else np.zeros(1, np.int64)
        until = np.append(first[1:], self.key[-1:] if n else 0)
        spent = np.zeros((blocks, width), np.int64)
        count = np.zeros((blocks, width), np.int64)
        for at in range(0, blocks, 2**16):  # in parts that stay in the processor's cache
            block = np.arange(at * _EVERY, min(n, (at + 2**16) * _EVERY)) // _EVERY
            part = slice(at * _EVERY, at * _EVERY + len(block))
            rest = (until[block] - self.key[part]).astype(np.float64)
            size = (int(block[-1]) + 1 - at) * width if len(block) else 0
            for sign, state in ((1, self.new[part]), (-1, self.old[part])):
                place = (block - at) * width + state
                here = slice(at, at + size // width)
                count[here] += sign * np.bincount(place, minlength=size).reshape(-1, width)
                time = np.bincount(place, rest, minlength=size).reshape(-1, width)
                spent[here] += sign * time.astype(np.int64)
        count = np.cumsum(count, axis=0)
        before = np.vstack([np.zeros((1, width), np.int64), count[:-1]])
        spent = np.cumsum(spent + before * (until - first)[:, None], axis=0)
        spent = np.vstack([np.zeros((1, width), np.int64), spent[:-1]])
        return first, spent[:, : self.states].copy(), before[:, : self.states].astype(np.int32)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows for every sixteen changes: their sums, points and states, adjacent in memory.

        A look-up reads one row; most of its time is one access to memory.
        """
        first, spent, count = self._sums
        fill = -len(self.key) % _EVERY
        wide = self.states + self.states % 2
        table = np.zeros((len(first), self.states + wide // 2 + _EVERY + _EVERY // 8), np.int64)
        table[:, : self.states] = spent
        at = self.states + wide // 2
        table[:, self.states : at].view(np.int32)[:, : self.states] = count
        table[:, at : at + _EVERY] = np.append(self.key, np.full(fill, _NEVER)).reshape(-1, _EVERY)
        states = np.append((self.new << 4) | self.old, np.full(fill, 255, np.uint8))
        table[:, at + _EVERY :] = states.astype(np.uint8).view(np.int64).reshape(len(first), -1)
        return first, table

    def spent(self, track: np.ndarray, time_ps: np.ndarray) -> np.ndarray:
        """Return the time spent in each state from a fixed time up to given times of given tracks.

        Parameters
        ----------
        track, time_ps : ndarray of int64, shape (n,)
            Times outside the stretch count as its ends. Fastest in ascending order.

        Returns
        -------
        ndarray of int64, shape (n, states)
            Picoseconds. Only differences within one track mean anything.
        """
        at = np.clip(time_ps, self.start_ps, self.end_ps) - self.start_ps + track * self.pitch
        answer = np.zeros((len(at), self.states), np.int64)
        if len(self.key):
            for part in range(0, len(at), _AT_ONCE):
                answer[part : part + _AT_ONCE] = self._spent(at[part : part + _AT_ONCE])
        return answer

    def _spent(self, at: np.ndarray) -> np.ndarray:
        first, table = self._table
        block = np.maximum(np.searchsorted(first, at, "right") - 1, 0)
        rows, n = table[block], self.states
        keys = n + (n + 1) // 2
        rest = at[:, None] - rows[:, keys : keys + _EVERY]
        reached = np.flatnonzero(rest > 0)  # changes between the stored sum and the point
        state = np.ascontiguousarray(rows[:, keys + _EVERY :]).view(np.uint8).ravel()[reached]
        time = rest.ravel()[reached].astype(np.float64)
        query, size = reached // _EVERY * 16, len(at) * 16
        inner = np.bincount(query + (state >> 4), time, size) - np.bincount(query + (state & 15), time, size)
        answer: np.ndarray = inner.reshape(-1, 16)[:, :n].astype(np.int64)
        count = np.ascontiguousarray(rows[:, n:keys]).view(np.int32)[:, :n]
        answer += rows[:, :n] + count * np.maximum(at - first[block], 0)[:, None]
        return answer

    def range_of(self, track: int, start_ps: int, end_ps: int) -> tuple[int, int]:
        """Return the range of changes that bounds the spans of a track in a window."""
        base = track * self.pitch - self.start_ps
        low, high = (min(max(t, self.start_ps), self.end_ps) + base for t in (start_ps, end_ps))
        first = int(np.searchsorted(self.key, low, "right")) - 1
        last = int(np.searchsorted(self.key, high, "left"))
        return max(first, int(np.searchsorted(self.key, track * self.pitch, "left"))), last

    def spans(self, track: int, start_ps: int, end_ps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return states, starts and ends in ps of the spans of a track that overlap a window."""
        first, last = self.range_of(track, start_ps, end_ps)
        state = self.new[first:last]
        start = self.key[first:last] - track * self.pitch + self.start_ps
        after = self.key[first + 1 : last + 1] - track * self.pitch + self.start_ps
        end = np.append(after, self.end_ps)[: len(start)]
        real = state != NOTHING
        return state[real], start[real], end[real]

    def until(self, end_ps: int) -> Stretch:
        """Return the part before a time."""
        track, time = np.divmod(self.key, self.pitch)
        kept = time < end_ps - self.start_ps
        pitch = end_ps - self.start_ps + 1
        ends = np.arange(self.tracks) * pitch + pitch - 1  # every state ends there
        key = np.concatenate([track[kept] * pitch + time[kept], ends])
        new = np.concatenate([self.new[kept], np.full(self.tracks, NOTHING, np.uint8)])
        order = np.argsort(key, kind="stable")
        return _changes(self.start_ps, end_ps, self.tracks, self.states, key[order], new[order])

    def folded(self, group: np.ndarray, groups: int) -> Stretch:
        """The same with each group of tracks as one, in which several may be in one state.

        Parameters
        ----------
        group : ndarray of int64, shape (tracks,)
        groups : int
        """
        track, time = self.key // self.pitch, self.key % self.pitch
        key = group[track] * self.pitch + time
        order = np.argsort(key, kind="stable")
        return Stretch(
            self.start_ps, self.end_ps, groups, self.states, key[order], self.old[order], self.new[order]
        )


def flatten(
    start_ps: int,
    end_ps: int,
    tracks: int,
    states: int,
    track: np.ndarray,
    state: np.ndarray,
    from_ps: np.ndarray,
    to_ps: np.ndarray,
) -> Stretch:
    """Make a stretch of spans that may overlap: of several states of a track the lowest counts.

    Parameters
    ----------
    start_ps, end_ps : int
        Spans are cut off there.
    tracks, states : int
    track, state, from_ps, to_ps : ndarray of int64, shape (spans,)
        In any order.

    Returns
    -------
    Stretch
    """
    begin, end = np.clip(from_ps, start_ps, end_ps), np.clip(to_ps, start_ps, end_ps)
    kept = end > begin
    track, state, begin, end = (column[kept].astype(np.int64) for column in (track, state, begin, end))
    pitch = end_ps - start_ps + 1
    first, last = track * pitch + begin - start_ps, track * pitch + end - start_ps
    order = np.argsort(first, kind="stable")
    if (last[order][:-1] <= first[order][1:]).all():  # one after the other
        key = np.stack([first[order], last[order]], axis=1).ravel()
        current = np.full(len(key), NOTHING, np.uint8)
        current[::2] = state[order]
    else:
        key = np.concatenate([first, last])
        order = np.argsort(key, kind="stable")
        key = key[order]
        what = np.concatenate([state, state])[order].astype(np.uint8)
        step = np.where(order < len(state), 1, -1).astype(np.int8)
        current = np.full(len(key), NOTHING, np.uint8)
        for one in range(states - 1, -1, -1):
            mine = what == one
            if mine.any():
                current[np.cumsum(np.where(mine, step, 0), dtype=np.int32) > 0] = one
    final = np.append(key[1:] != key[:-1], True) if len(key) else np.zeros(0, bool)
    return _changes(start_ps, end_ps, tracks, states, key[final], current[final])


def join(one: Stretch, other: Stretch) -> Stretch:
    """Two stretches of the same tracks, the second of which begins where the first ends."""
    pitch = other.end_ps - one.start_ps + 1
    parts = [s.key + (s.key // s.pitch) * (pitch - s.pitch) + s.start_ps - one.start_ps for s in (one, other)]
    key = np.concatenate(parts)
    order = np.argsort(key, kind="stable")  # at one time, what ends comes before what begins
    key, new = key[order], np.concatenate([one.new, other.new])[order]
    last = np.append(key[1:] != key[:-1], True) if len(key) else np.zeros(0, bool)
    return _changes(one.start_ps, other.end_ps, one.tracks, one.states, key[last], new[last])


def _changes(
    start_ps: int, end_ps: int, tracks: int, states: int, key: np.ndarray, new: np.ndarray
) -> Stretch:
    """A stretch of the places at which a state begins, without those that change nothing."""
    old = np.append(np.uint8(NOTHING), new[:-1]).astype(np.uint8)
    real = old != new
    return Stretch(start_ps, end_ps, tracks, states, key[real], old[real], new[real])
