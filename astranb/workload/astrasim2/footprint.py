"""The memory footprint of ranks: bytes by what they are for, which change when operations begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Footprint"]


@dataclass(frozen=True)
class Footprint:
    """Memory that ranks hold while they do their operations.

    Ranks whose memory changes alike share a table: those of a stage of a pipeline.

    Parameters
    ----------
    parts : sequence of str
        What memory is for.
    table : ndarray of int64, shape (ranks,)
        The number of each rank's table.
    held : ndarray of int64, shape (tables, parts)
        Bytes before the first operation.
    first : ndarray of int64, shape (tables + 1,)
        The first of a table's changes, and behind them all the number of changes.
    operation : ndarray of int64, shape (changes,)
        The number within its rank of the operation with which a change happens; a table's changes are in
        the order in which they happen.
    at_end : ndarray of bool, shape (changes,)
        Whether it happens at the operation's end, not its beginning.
    change : ndarray of int64, shape (changes, parts)
        Bytes more, or fewer.
    limit_bytes : int
        The memory of a rank's GPU; 0 where it is not known.

    Examples
    --------
    >>> one = Footprint(
    ...     ["weights", "activations"], np.array([0]), np.array([[10, 0]]), np.array([0, 2]),
    ...     np.array([0, 1]), np.array([False, True]), np.array([[0, 5], [0, -5]]),
    ... )
    >>> times, held = one.over_time(0, np.array([0, 100]), np.array([100, 300]))
    >>> times.tolist(), held.tolist()
    ([0, 300], [[10, 5], [10, 0]])
    """

    parts: Sequence[str]
    table: np.ndarray
    held: np.ndarray
    first: np.ndarray
    operation: np.ndarray
    at_end: np.ndarray
    change: np.ndarray
    limit_bytes: int = 0

    @property
    def used(self) -> np.ndarray:
        """The numbers of the parts that any rank ever holds."""
        return np.flatnonzero(self.held.any(axis=0) | self.change.any(axis=0))

    def ranks_of_tables(self) -> list[int]:
        """Return the first rank of each table."""
        return [int(rank) for rank in np.unique(self.table, return_index=True)[1]]

    def peaks(self) -> np.ndarray:
        """Return what each table's ranks hold at the fullest moment, shape (tables, parts)."""
        found = self.held.copy()
        for number in range(len(self.held)):
            rows = slice(self.first[number], self.first[number + 1])
            held = np.cumsum(np.vstack([self.held[number : number + 1], self.change[rows]]), axis=0)
            found[number] = held[np.argmax(held.sum(axis=1))]
        return found

    def over_time(self, rank: int, start_ps: np.ndarray, end_ps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what a rank holds at which time.

        Parameters
        ----------
        rank : int
        start_ps, end_ps : ndarray of int64
            When each of its operations began and ended; -1: not yet.

        Returns
        -------
        time_ps : ndarray of int64, shape (n,)
            Ascending; the first is 0. Changes at one time are one.
        held : ndarray of int64, shape (n, parts)
            Bytes from that time on.
        """
        number = int(self.table[rank])
        rows = slice(int(self.first[number]), int(self.first[number + 1]))
        which, change = self.operation[rows], self.change[rows]
        times = np.where(self.at_end[rows], end_ps[which], start_ps[which])
        done = times >= 0
        order = np.flatnonzero(done)[np.argsort(times[done], kind="stable")]
        times = np.append(0, times[order])
        held = np.cumsum(np.vstack([self.held[number : number + 1], change[order]]), axis=0)
        last = np.append(np.flatnonzero(np.diff(times)), len(times) - 1)
        times, held = times[last], held[last]
        changed = np.append(True, (np.diff(held, axis=0) != 0).any(axis=1))
        return times[changed], held[changed]
