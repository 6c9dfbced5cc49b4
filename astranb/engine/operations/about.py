"""What does not change in a run of operations: their ranks, names, kinds and dependencies, the dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from astranb.core.arrays import reversed_lists
from astranb.core.units import format_bytes
from astranb.engine.critical_path import Segment
from astranb.workload.astrasim2 import COLLECTIVE, COLLECTIVE_NAMES, Footprint, PlacedJob

__all__ = ["ABOUT", "ALGORITHMS", "KINDS", "STATES", "About", "segment"]

ABOUT = ("npu", "kind", "collective", "size", "name", "first", "parents")
"""The columns of :class:`About`."""

KINDS = ("compute", "collective", "send", "receive", "memory", "broadcast", "delay")
"""Kinds of operations, by their number."""

STATES = ("waiting", "ready", "running", "done")
"""States of an operation: it waits for others; it waits only for its place; it runs; it has ended."""

ALGORITHMS = ("ring", "direct", "halvingDoubling", "doubleBinaryTree", "custom")
_COLLECTIVES = {number: name for name, number in COLLECTIVE_NAMES.items()}


@dataclass
class About:
    """What does not change in a run, and is no part of its tables.

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
    name_links : callable
        Gives the names of the links of an infrastructure, which take a while to find.
    infra : str
        Name of the infrastructure; empty for a network of dimensions.
    footprint : Footprint, optional
        What ranks hold in memory.
    jobs : tuple of PlacedJob
        The jobs that run, where there are several.
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
    name_links: Callable[[], list[str]] = list
    infra: str = ""
    footprint: Footprint | None = field(default=None, init=False)
    jobs: tuple[PlacedJob, ...] = field(default=(), init=False)

    @property
    def network(self) -> str:
        """What the network is called: the infrastructure's name, or the shape of each dimension."""
        return self.infra or " x ".join(self.topology)

    @cached_property
    def links(self) -> list[str]:
        """What each link of an infrastructure is called, as ``A->B``; empty where links have dimensions."""
        return self.name_links()

    @cached_property
    def start(self) -> np.ndarray:
        """The first operation of each rank, and behind them all the number of them."""
        own = self.npu[: self.own]
        return np.searchsorted(own, np.arange(int(self.npu.max(initial=-1)) + 2))

    def parents_of(self, row: int) -> np.ndarray:
        """What an operation waits for."""
        return self.parents[self.first[row] : self.first[row + 1]]

    @cached_property
    def _children(self) -> tuple[np.ndarray, np.ndarray]:
        """The reverse of ``first`` and ``parents``: the operations that wait for each one."""
        return reversed_lists(np.diff(self.first), self.parents)

    def children_of(self, row: int) -> np.ndarray:
        """What waits for an operation."""
        first, children = self._children
        return children[first[row] : first[row + 1]]

    def number(self, row: int) -> int:
        """An operation's number within its rank."""
        return int(row - self.start[self.npu[row]]) if row < self.own else row

    def label(self, row: int) -> str:
        """An operation's name, or what it is where it has none."""
        at = int(self.name[row])
        return self.names[at] if at >= 0 and self.names[at] else self.what(row)

    def what(self, row: int) -> str:
        """What an operation is: a collective's name, or its kind."""
        kind = int(self.kind[row])
        return _COLLECTIVES[int(self.collective[row])] if kind == COLLECTIVE else KINDS[kind]

    def text(self, row: int) -> str:
        """An operation in words."""
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
