"""Constants of a run of operations: ranks, names, kinds, dependencies and dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from astranb.core.arrays import distinct, reversed_lists
from astranb.core.units import format_bytes
from astranb.engine.critical_path import Segment
from astranb.workload.astrasim2 import COLLECTIVE, COLLECTIVE_NAMES, Footprint, Label, PlacedJob

from .recorded_rows import PartRows

__all__ = ["ALGORITHMS", "KINDS", "STATES", "About", "segment"]

KINDS = ("compute", "collective", "send", "receive", "memory", "broadcast", "delay")
"""Kinds of operations, by their number."""

STATES = ("waiting", "ready", "running", "done")
"""States of an operation: it waits for others; it waits only for its place; it runs; it has ended."""

ALGORITHMS = (
    "ring",
    "direct",
    "halvingDoubling",
    "doubleBinaryTree",
    "custom",
    "inNetwork",
    "rooted",
    "directOneShot",
)
_COLLECTIVES = {number: name for name, number in COLLECTIVE_NAMES.items()}


@dataclass
class About:
    """Constants of a run that are no part of its tables.

    Attributes
    ----------
    npu, kind, collective, size : ndarray of int64
        Of each operation: its rank, kind (as in the trace, even if it is replayed), collective and bytes.
    name : ndarray of int64
        Its name's number in ``names``; -1: none.
    names : list of str
    topology : list of str
        The shape of each dimension.
    first, parents : ndarray of int64
        What each operation waits for: ``parents[first[row]:first[row + 1]]``.
    own : int
        How many operations are the ranks'; those of custom collectives come behind them.
    ranks : int
        How many ranks there are, also those without operations.
    name_links : callable
        Gives the names of the links of an infrastructure, which take a while to find.
    infra : str
        Name of the infrastructure; empty for a network of dimensions.
    footprint : Footprint, optional
        What ranks hold in memory.
    jobs : tuple of PlacedJob
        The jobs that run, where there are several.
    parts : PartRows, optional
        The recorded operations that custom collectives replay: these are shown, and each is called by its
        first row.
    """

    npu: np.ndarray
    kind: np.ndarray
    collective: np.ndarray
    size: np.ndarray
    name: np.ndarray
    names: list[str]
    topology: list[str]
    first: np.ndarray
    parents: np.ndarray
    own: int
    ranks: int
    name_links: Callable[[], Sequence[str]] = tuple
    infra: str = ""
    footprint: Footprint | None = field(default=None, init=False)
    jobs: tuple[PlacedJob, ...] = field(default=(), init=False)
    parts: PartRows | None = field(default=None, init=False)

    @property
    def network(self) -> str:
        """Name of the network: that of the infrastructure, or the shape of each dimension."""
        return self.infra or " x ".join(self.topology)

    @cached_property
    def links(self) -> Sequence[str]:
        """Names of the links of an infrastructure, as ``A->B``; empty where links have dimensions."""
        return self.name_links()

    @cached_property
    def start(self) -> np.ndarray:
        """The first operation of each rank, and behind them all the number of them."""
        own = self.npu[: self.own]
        return np.searchsorted(own, np.arange(self.ranks + 1))

    @cached_property
    def _part_start(self) -> np.ndarray:
        """The first part of each rank, and behind them all the number of them."""
        ranks = np.arange(len(self.start))
        if self.parts is None:
            return np.zeros_like(ranks)
        return np.searchsorted(self.npu[self.parts.first], ranks)

    def rows_of(self, rank: int) -> np.ndarray:
        """The operations of a rank: its own, and the parts of those that are replays."""
        rows = np.arange(self.start[rank], self.start[rank + 1])
        if self.parts is None:
            return rows
        mine = slice(int(self._part_start[rank]), int(self._part_start[rank + 1]))
        return np.concatenate([rows[~self.parts.hidden[rows]], self.parts.first[mine]])

    def leaves_of(self, rank: int) -> np.ndarray:
        """Return the leaves of a rank: its operations, but of a replay each message and computation."""
        rows = np.arange(self.start[rank], self.start[rank + 1])
        if self.parts is None:
            return rows
        mine = slice(int(self._part_start[rank]), int(self._part_start[rank + 1]))
        first, until = self.parts.first[mine], self.parts.until[mine]
        inner = np.arange(first[0], until[-1]) if len(first) else rows[:0]
        return np.concatenate([rows[~self.parts.hidden[rows]], inner])

    def shown(self, rows: np.ndarray) -> np.ndarray:
        """The operations that are shown for rows: of a replay the parts."""
        return rows if self.parts is None else np.asarray(self.parts.shown(rows))

    def label_of(self, row: int) -> Label:
        """Return the label of a recorded operation; one that is not replayed has none."""
        return Label() if self.parts is None else self.parts.of(row)

    def waited_for(self, row: int) -> np.ndarray:
        """The rows that a row waits for, whatever is shown for them."""
        return self.parents[self.first[row] : self.first[row + 1]]

    def parents_of(self, row: int) -> np.ndarray:
        """Return the operations that one waits for."""
        return self._around(row, self.first, self.parents)

    @cached_property
    def _children(self) -> tuple[np.ndarray, np.ndarray]:
        """The reverse of ``first`` and ``parents``: the operations that wait for each one."""
        return reversed_lists(np.diff(self.first), self.parents)

    def children_of(self, row: int) -> np.ndarray:
        """Return the operations that wait for one."""
        return self._around(row, *self._children)

    def _around(self, row: int, first: np.ndarray, lists: np.ndarray) -> np.ndarray:
        at = -1 if self.parts is None else self.parts.at(row)
        if self.parts is None or at < 0:
            return lists[first[row] : first[row + 1]]
        found: np.ndarray = distinct(self.parts.shown(lists[first[row] : first[int(self.parts.until[at])]]))
        kept: np.ndarray = found[found != row]
        return kept

    @cached_property
    def _shown_before(self) -> np.ndarray:
        """Number of the ranks' own operations that are shown before each; the last entry counts all."""
        hidden = np.zeros(self.own, bool) if self.parts is None else self.parts.hidden[: self.own]
        return np.concatenate([[0], np.cumsum(~hidden)])

    def number(self, row: int) -> int:
        """An operation's number within its rank."""
        return int(self.numbers(np.array([row]))[0])

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """The number of each of some operations within its rank: its place in :meth:`rows_of`."""
        npu = self.npu[rows]
        if self.parts is None:
            return np.asarray(np.where(rows < self.own, rows - self.start[npu], rows))
        before = self._shown_before
        mine, first = np.minimum(rows, self.own), before[self.start]
        place = np.searchsorted(self.parts.first, self.parts.shown(rows), side="right") - 1
        behind = first[npu + 1] - first[npu] + place - self._part_start[npu]
        return np.asarray(np.where(rows < self.own, before[mine] - first[npu], behind))

    def label(self, row: int) -> str:
        """An operation's name, or what it is where it has none."""
        at = int(self.name[row])
        return self.names[at] if at >= 0 and self.names[at] else self.what(row)

    def what(self, row: int) -> str:
        """Return a collective's name, or the kind of another operation."""
        if collective := self.label_of(row).collective:
            return collective
        kind = int(self.kind[row])
        return _COLLECTIVES[int(self.collective[row])] if kind == COLLECTIVE else KINDS[kind]

    def text(self, row: int) -> str:
        """An operation in words."""
        if self.parts is not None and row < self.own and self.parts.hidden[row]:
            return self.label(row)  # a replay: what it does are its parts
        what, label = self.what(row), self.label(row)
        size = f", {format_bytes(int(self.size[row]))}" if self.size[row] and self.kind[row] else ""
        return f"{label} ({what}{size})" if label != what else f"{what}{size}"

    def path(self, row: int) -> str:
        """An operation's path."""
        return f"rank[{int(self.npu[row])}].op[{self.number(row)}]"


def segment(about: About, row: int, start_ps: int, end_ps: int, cause: str, because: str) -> Segment:
    """A segment of the critical path that is time of an operation."""
    rank = int(about.npu[row])
    number, name = about.number(row), about.text(row)
    return Segment(start_ps, end_ps, rank, about.path(row), number, name, cause, f"rank[{rank}]", because)
