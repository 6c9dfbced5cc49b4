"""Checkpoints: copies of the state that share every page that did not change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from astranb.engine import Movable

__all__ = ["Checkpoint", "History", "counts_of"]

_PAGE = 4096
_BLOCK = 256  # pages that are compared together
_EMPTY = bytes(_PAGE)
_LARGE = 2**28
"""A state of so many bytes is not kept as a copy besides its pages."""
_MOST = 512  # checkpoints: beyond, thinning costs more than it saves


def counts_of(machine: Movable) -> dict[str, int]:
    """Every count that moments are named by, now."""
    return {name: machine.count(name) for name in (*machine.traits.units.values(), "now_ps")}


@dataclass(frozen=True)
class Checkpoint:
    """One moment of a run.

    Attributes
    ----------
    counts : mapping of str to int
        The clock at that moment.
    edits : int
        How many edits had been made.
    pages : dict of str to list of bytes
        For each table its pages; equal pages of different checkpoints are one object. None of a start
        that is made again.
    new_bytes : int
        Bytes of the pages that no earlier checkpoint had.
    """

    counts: Mapping[str, int]
    edits: int
    pages: dict[str, list[bytes]]
    new_bytes: int

    @property
    def events(self) -> int:
        """Events handled before it."""
        return self.counts["events"]


class History:
    """The checkpoints of one run, thinned towards the past within a memory budget.

    Parameters
    ----------
    budget_bytes : int
        Most memory for pages.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.checkpoints: list[Checkpoint] = []
        # The tables of the last checkpoint, each as one array: comparing it takes a fifth of
        # the time of comparing pages, and Pause waits for that.
        self._latest: tuple[Checkpoint, dict[str, np.ndarray]] | None = None

    def take(self, machine: Movable, edits: int) -> None:
        """Add a checkpoint of the machine as it is now, unless the last one is of this moment."""
        counts = counts_of(machine)
        last = self.checkpoints[-1] if self.checkpoints else None
        if last is not None and last.events == counts["events"] and last.edits == edits:
            return
        new_bytes = 0
        pages: dict[str, list[bytes]] = {}
        tables = machine.kept()
        for name, data in tables.items():
            kept = list(last.pages.get(name, ())) if last else []
            if kept and (len(kept) - 1) * _PAGE + len(kept[-1]) == len(data):
                for number in self._changed(name, data, kept):
                    kept[number] = bytes(data[number * _PAGE : (number + 1) * _PAGE])
                    new_bytes += len(kept[number])
            else:  # the first checkpoint, or a table that has grown
                kept = _pages(data)
                new_bytes += sum(len(page) for page in kept if page is not _EMPTY)
            pages[name] = kept
        self.checkpoints.append(Checkpoint(counts, edits, pages, new_bytes))
        self._remember(tables)
        self._thin()

    def _changed(self, name: str, data: memoryview, kept: list[bytes]) -> list[int]:
        """Pages that differ from the last checkpoint, in order."""
        if self._latest is not None and self._latest[0] is self.checkpoints[-1]:
            return _differing(np.frombuffer(data, np.uint8), self._latest[1][name])
        return [n for first, now, then in _blocks(kept, data) for n in _differing(now, then, first)]

    def _remember(self, tables: dict[str, memoryview]) -> None:
        """Copy the tables, into the memory of the copy before where they fit."""
        if sum(map(len, tables.values())) >= _LARGE:
            return
        before, copies = self._latest[1] if self._latest else {}, dict[str, np.ndarray]()
        for name, data in tables.items():
            now, copy = np.frombuffer(data, np.uint8), before.get(name)
            if copy is None or len(copy) != len(now):
                copy = np.empty_like(now)
            np.copyto(copy, now)
            copies[name] = copy
        self._latest = (self.checkpoints[-1], copies)

    def before(self, field: str, value: int) -> Checkpoint:
        """The last checkpoint at which a counter of the clock was at most ``value``."""
        found = (c for c in reversed(self.checkpoints) if c.counts[field] <= value or c.events == 0)
        return next(found, self.checkpoints[0])

    def before_edit(self, events: int, edits: int) -> Checkpoint:
        """The last checkpoint up to an event, with at most so many edits."""
        return next(c for c in reversed(self.checkpoints) if c.events <= events and c.edits <= edits)

    def forget_edits(self, edits: int) -> None:
        """Drop the checkpoints that have had more than so many edits."""
        while self.checkpoints and self.checkpoints[-1].edits > edits:
            self.checkpoints.pop()

    def restore(self, machine: Movable, checkpoint: Checkpoint) -> None:
        """Put a machine back to a checkpoint and forget what came after."""
        sizes = {name: sum(map(len, pages)) for name, pages in checkpoint.pages.items()}
        latest = self._latest is not None and self._latest[0] is checkpoint
        copies = self._latest[1] if self._latest is not None and latest else {}  # whole, unlike pages
        tables = machine.kept(sizes)
        for name, data in tables.items():
            if name in checkpoint.pages:
                _put_back(copies[name] if latest else checkpoint.pages[name], data)
        self.forget_after(checkpoint.events)
        if not latest and self.checkpoints and self.checkpoints[-1] is checkpoint:
            self._remember(tables)

    def forget_after(self, events: int) -> None:
        """Drop the checkpoints after an event."""
        while self.checkpoints and self.checkpoints[-1].events > events:
            self.checkpoints.pop()

    def copy(self) -> History:
        """A history of its own over the same pages."""
        other = History(self.budget_bytes)
        other.checkpoints = list(self.checkpoints)
        return other

    def _thin(self) -> None:
        """Drop the checkpoints closest to their neighbours for their age, never the first or last."""
        points = self.checkpoints
        while len(points) > 2 and (
            len(points) > _MOST or sum(p.new_bytes for p in points) > self.budget_bytes
        ):
            latest = points[-1].events
            events = np.array([p.events for p in points], np.int64)
            crowding = (events[2:] - events[:-2]) / (latest - events[1:-1] + 1)
            points.pop(int(np.argmin(crowding)) + 1)


def _pages(data: memoryview) -> list[bytes]:
    """Copy a table as pages; those of zeros are one object."""
    whole = len(data) // _PAGE
    words = np.frombuffer(data[: whole * _PAGE], np.uint64).reshape(whole, _PAGE // 8)
    filled: list[bool] = np.any(words, axis=1).tolist()
    found = [bytes(data[n * _PAGE : (n + 1) * _PAGE]) if filled[n] else _EMPTY for n in range(whole)]
    return [*found, bytes(data[whole * _PAGE :])] if len(data) > whole * _PAGE else found


def _put_back(kept: list[bytes] | np.ndarray, data: memoryview) -> None:
    """Write what differs: memory that was never written to is not touched."""
    for _, now, then in _blocks(kept, data):
        words = len(now) // 8 * 8  # compared eight bytes at a time
        same = np.array_equal(now[:words].view(np.uint64), then[:words].view(np.uint64))
        if not same or not np.array_equal(now[words:], then[words:]):
            now[:] = then


def _blocks(kept: list[bytes] | np.ndarray, data: memoryview) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield parts of a table, each with its first page, as they are now and in pages or a copy."""
    table = np.frombuffer(data, np.uint8)
    for first in range(0, -(-len(table) // _PAGE), _BLOCK):
        begin, end = first * _PAGE, (first + _BLOCK) * _PAGE
        pages = kept[begin:end] if isinstance(kept, np.ndarray) else kept[first : first + _BLOCK]
        then = pages if isinstance(pages, np.ndarray) else np.frombuffer(b"".join(pages), np.uint8)
        yield first, table[begin:][: len(then)], then


def _differing(now: np.ndarray, then: np.ndarray, first: int = 0) -> list[int]:
    """Return the pages, counted from ``first``, in which two tables differ."""
    whole = len(now) // _PAGE
    one, other = (table[: whole * _PAGE].view(np.uint64).reshape(whole, _PAGE // 8) for table in (now, then))
    changed: list[int] = (first + np.flatnonzero((one != other).any(axis=1))).tolist()
    if not np.array_equal(now[whole * _PAGE :], then[whole * _PAGE :]):
        changed.append(first + whole)
    return changed
