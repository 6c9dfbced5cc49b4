"""Ranks that represent others, and the tables of all ranks expanded from theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from astranb.core.jit import Records
from astranb.core.state import Parts, allocate
from astranb.net import FULLY_CONNECTED
from astranb.workload.astrasim2 import RankOperations

from . import tables as t
from .operation_tables import Chosen, first_chunk, places_of

__all__ = ["Fold"]

_ROWS_OF_NPUS: Final = {
    "npus": (),
    "places": ("first",),
    "queues": (),
    "tails": (),
    "allocators": (),
    "trees": (),
    "memories": (),
    "bus": (),
    "bus_lists": (),
    "ports": (),
}
"""Tables that have as many rows for each NPU, with the fields that depend on which NPU it is."""

_COUNTS: Final = ("messages", "bytes", "ended", "delivered", "phases")


@dataclass(frozen=True)
class Fold:
    """Ranks that are simulated, and for each rank the one that represents it.

    Attributes
    ----------
    operations : RankOperations
    chosen : Chosen
        The ranks that are simulated, ascending, with the rows of their groups in ``groups``.
    groups : list of (int, sequence of int)
        The groups of these, with a number that alike groups share.
    npu : ndarray of int, shape (ranks,)
        For each rank the row of the one that represents it.
    group_rows : ndarray of int, shape (ranks, positions)
        The row of each rank's group in the workload's groups; -1: all ranks.
    """

    operations: RankOperations
    chosen: Chosen
    groups: Sequence[tuple[int, Sequence[int]]]
    npu: np.ndarray
    group_rows: np.ndarray

    @property
    def ranks(self) -> np.ndarray:
        """The ranks that are simulated."""
        return self.chosen.ranks

    def table(self) -> Records:
        """Make the table of which NPU represents which rank."""
        table = allocate(len(self.npu), t.FOLDED)
        table["rank"][: len(self.ranks)] = self.ranks
        table.npu = self.npu
        table.entered_block = table.operation = -1
        return table

    def spread_places(self, places: Records, operations: int) -> Records:
        """Make the places of all ranks of those of the ranks that are simulated."""
        spread = allocate(len(self.npu) * t.PLACES, t.PLACE)
        counts = np.diff(places["first"], append=operations).reshape(-1, t.PLACES)[self.npu].reshape(-1)
        spread["first"] = np.cumsum(counts) - counts
        return spread

    def end(self, folded: t.MessageMachine, frame: t.MessageMachine) -> t.MessageMachine:
        """Write the end of the run into the tables of all ranks, except those of operations.

        Parameters
        ----------
        folded : MessageMachine
            Of the ranks that are simulated, at its end.
        frame : MessageMachine
            Of all ranks, at its start; is changed.
        """
        ranks, simulated = len(self.npu), len(self.ranks)
        for name, own in _ROWS_OF_NPUS.items():
            rows, folded_rows = getattr(frame, name), getattr(folded, name)
            if len(rows) % ranks == 0 and len(rows) // ranks * simulated == len(folded_rows):
                for field in set(rows.dtype.names) - set(own):
                    each = folded_rows[field].reshape(simulated, -1)[self.npu]
                    rows[field] = each.reshape(-1)
        self._end_group_streams(folded, frame)
        self._end_links(folded, frame)
        # Ranks with operations represent as many each; the others only start.
        busy = np.array([len(one.rows) > 0 for one in self.operations.patterns])[self.operations.pattern]
        idle, represents = ranks - int(busy.sum()), self.represents
        steps = folded.clock[0].steps - int((~busy[self.ranks]).sum())
        frame.clock.steps = steps * represents + idle
        frame.clock.fired = frame.clock.finished = ranks
        for field in _COUNTS:
            frame.clock[field] = folded.clock[field] * represents
        frame.queue.now, frame.queue.turns = folded.queue.now, folded.queue.turns
        for field in ("first", "last"):
            frame.grants[field] = folded.grants[field]
        return frame

    @property
    def represents(self) -> int:
        """Number of ranks that each rank with operations represents."""
        busy = np.array([len(one.rows) > 0 for one in self.operations.patterns])[self.operations.pattern]
        return int(busy.sum()) // max(1, int(busy[self.ranks].sum()))

    def _end_links(self, folded: t.MessageMachine, frame: t.MessageMachine) -> None:
        """Set the end of the links of each rank: with congestion all collectives are in one dimension."""
        o = folded.operations
        used = o.collective[o.kind == t.COLLECTIVE]
        if not (frame.config[0].congestion and len(used)):
            return
        ranks, free_ns = len(self.npu), folded.links.free_ns
        if frame.dims[0].kind == FULLY_CONNECTED:  # rank 0's link to each other one is that of a distance
            here, there = np.indices((ranks, ranks))
            halving = (frame.implementations.algorithm[used] == t.HALVING).any()  # in all, or in none
            spread = free_ns[here ^ there if halving else (there - here) % ranks]
        else:  # one of its links each way is used
            spread = np.repeat(free_ns.reshape(2, ranks).max(axis=1), ranks)
        frame.links.free_ns = spread.reshape(-1)

    def _end_group_streams(self, folded: t.MessageMachine, frame: t.MessageMachine) -> None:
        """Count the chunks that each rank has numbered in its groups."""
        lanes = int(frame.config[0].lanes)
        streams = folded.group_streams.value.reshape(-1, lanes)
        full = frame.group_streams.value.reshape(-1, lanes)
        places, own_places = places_of(frame.groups, frame.members), places_of(folded.groups, folded.members)
        numbers = np.array([number for number, _ in self.groups], np.int64)
        for at in range(self.group_rows.shape[1]):
            ranks = np.flatnonzero(self.group_rows[:, at] >= 0)
            npus = self.npu[ranks]
            rows = self.chosen.groups[npus, at]
            those, own = places(self.group_rows[ranks, at], ranks), own_places(rows, self.ranks[npus])
            for lane in range(lanes):
                full[those, lane] += streams[own, lane] - first_chunk(numbers[rows], lane)

    def parts(self, folded: t.MessageMachine) -> dict[str, Parts]:
        """Return the tables of operations of all ranks, a part for each rank.

        Parameters
        ----------
        folded : MessageMachine
            Of the ranks that are simulated, at the end.
        """
        o = folded.operations
        first = np.searchsorted(o.npu, np.arange(len(self.ranks) + 1))
        sizes = np.diff(first)[self.npu]
        children = np.array([len(one.deps) for one in self.operations.patterns])[self.operations.pattern]

        # As whole numbers: NumPy would copy records field by field.
        words = np.asarray(o).view(np.int64).reshape(len(o), -1)
        at = {name: number for number, name in enumerate(t.OPERATION_ROW.names or ())}

        def operations() -> Iterator[np.ndarray]:
            listed = 0
            for rank, npu in enumerate(self.npu.tolist()):
                rows = words[first[npu] : first[npu + 1]].copy()
                plain = self.operations.patterns[self.operations.pattern[rank]].rows
                rows[:, at["npu"]] = rank
                rows[:, at["tag"]] = plain["tag"]
                rows[:, at["peer"]] = self.operations.peer_of(plain, rank)
                rows[:, at["group"]] = np.append(self.group_rows[rank], -1)[plain["group"]]
                rows[:, at["first_child"]] += listed - rows[:1, at["first_child"]]
                listed += int(children[rank])
                yield rows.reshape(-1).view(t.OPERATION_ROW)

        def listed() -> Iterator[np.ndarray]:
            known: dict[int, np.ndarray] = {}
            at = 0
            for rank, size in enumerate(sizes.tolist()):
                pattern = int(self.operations.pattern[rank])
                if pattern not in known:
                    known[pattern] = self.operations.patterns[pattern].children()[1].astype(np.int64)
                yield known[pattern] + at
                at += size

        counted = int(children.sum())
        return {
            "operations": Parts(int(sizes.sum()), operations),
            "children": Parts(counted, listed) if counted else Parts(1, lambda: [np.zeros(1, np.int64)]),
        }

    def whole(self, folded: t.MessageMachine, frame: t.MessageMachine) -> t.MessageMachine:
        """Return the tables of all ranks at the end of the run, after :meth:`end`."""
        made = {}
        for name, parts in self.parts(folded).items():
            made[name], at = allocate(parts.rows, t.DTYPES[name]), 0
            for part in parts.made():
                made[name][at : at + len(part)] = np.asarray(part).view(t.DTYPES[name])
                at += len(part)
        ready = allocate(max(len(made["operations"]), 1), t.COUNTER)
        return frame._replace(ready=ready, **made)
