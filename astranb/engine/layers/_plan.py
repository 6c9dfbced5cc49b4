"""Collectives cut into chunks, and each chunk's phases: one in each dimension that takes part, or two."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.workload.astrasim1._layers import Part
from astranb.workload.astrasim1._network import HierarchicalNetwork
from astranb.workload.astrasim1._policies import Levels
from astranb.workload.astrasim1._system import ALGORITHMS, Algorithm, System

from . import _tables as t
from ._phases import Phases, Timing
from ._tables import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER
from ._themis import Themis

__all__ = ["PLANNED", "Planner", "retime"]

PLANNED: Final = np.dtype(
    [("algorithm", "i8"), ("window", "i8"), ("nodes", "i8"), ("stride", "i8"), ("tree", "i8")]
)
"""How a phase is done: the algorithm's number in :data:`._system.ALGORITHMS`, NPUs, and so on."""

_MOST_PHASES: Final = 4_000_000
_KINDS: Final = {
    "ALLREDUCE": (ALL_REDUCE, "all-reduce"),
    "REDUCESCATTER": (REDUCE_SCATTER, "reduce-scatter"),
    "ALLGATHER": (ALL_GATHER, "all-gather"),
    "ALLTOALL": (ALL_TO_ALL, "all-to-all"),
}


class _Dimension(NamedTuple):
    """A dimension as the chunks of one kind of collective see it."""

    algorithm: Algorithm
    nodes: int
    stride: int


class Planner:
    """Plans collectives in the order in which the program issues them.

    Parameters
    ----------
    network : HierarchicalNetwork
    system : System
    levels : Levels
    congested : bool
        Whether messages wait for one another on links.
    """

    def __init__(
        self, network: HierarchicalNetwork, system: System, levels: Levels, *, congested: bool = False
    ) -> None:
        self._network, self._system, self._levels = network, system, levels
        self._phases = Phases(network, system, congested=congested)
        self._dimensions = {name: self._seen(name) for _, name in _KINDS.values()}
        self._turns = [0] * len(levels.units)  # whose queue of a dimension is next
        self._rotation = 0
        self._trees: dict[tuple[str, int], int] = {}
        self._themis = None
        if system.between in ("themis", "themisFlex"):
            bandwidth = [network.total_bandwidth[dim] for dim in levels.physical]
            flexible = system.between == "themisFlex"
            self._themis = Themis(levels.units, bandwidth, system.gap_denominator, flexible=flexible)
        self._same = self._themis is None and system.between == "ascending" and system.queues == 1
        self._known: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._chunks: list[tuple[int, int]] = []
        self._rows: list[tuple[int, int, int, Timing]] = []
        self._planned: list[tuple[int, int, int, int, int]] = []

    def _seen(self, name: str) -> list[_Dimension]:
        """Give the dimensions that a system's list of algorithms is for."""
        algorithms = list(self._system.algorithms.get(name, ()))
        units, physical = self._levels.units, self._levels.physical
        for dim in range(1, len(units)):
            # A dimension that is cut in two has its algorithm twice.
            if physical[dim] == physical[dim - 1] and len(algorithms) > 0:
                algorithms.insert(min(dim, len(algorithms)), algorithms[min(dim, len(algorithms)) - 1])
        seen = []
        stride = 1
        for dim, algorithm in enumerate(algorithms):
            if algorithm.whole:
                seen.append(_Dimension(algorithm, self._network.npus, 1))
                return seen
            if dim >= len(units):
                raise InputError(
                    f"{name}-implementation names {len(algorithms)} algorithms for {len(units)} dimensions",
                    where=self._system.where,
                    hint="give one for each dimension of the network",
                )
            seen.append(_Dimension(algorithm, units[dim], stride))
            stride *= units[dim]
        if seen and len(seen) < len(units):
            raise InputError(
                f"{name}-implementation names {len(seen)} algorithms for {len(units)} dimensions",
                where=self._system.where,
                hint="give one for each dimension of the network",
            )
        return seen

    def new_instant(self) -> None:
        """Time has passed since the last collective: Themis forgets its loads."""
        if self._themis is not None:
            self._themis.forget()

    def plan(self, part: Part, involved: int) -> tuple[int, int]:
        """Plan a collective; returns its first chunk and how many there are (0: no dimension takes part).

        Parameters
        ----------
        part : Part
        involved : int
            A bit for each dimension.

        Raises
        ------
        InputError
            The system names no algorithm, or one that cannot do it.
        """
        kind, name = _KINDS[part.collective]
        dimensions = self._dimensions[name]
        if not dimensions:
            what = f"{name}-implementation is missing"
            raise InputError(what, where=self._system.where, hint="name an algorithm for each dimension")
        active = [dim for dim, each in enumerate(dimensions) if each.nodes > 1 and involved >> dim & 1]
        if not active:
            return 0, 0
        if kind != ALL_REDUCE and any(dimensions[dim].algorithm.name == "doubleBinaryTree" for dim in active):
            what = f"{name}-implementation cannot be doubleBinaryTree"
            raise InputError(what, where=self._system.where, hint="take ring, direct or halvingDoubling")
        key = (part.collective, part.size, involved)
        trees = any(dimensions[dim].algorithm.name == "doubleBinaryTree" for dim in active)
        if self._same and not trees and key in self._known:
            return self._known[key]
        first = len(self._chunks)
        splits = self._system.splits
        usual = max(part.size // splits if self._network.compat else -(-part.size // splits), 1)
        left = part.size
        if len(self._rows) > _MOST_PHASES:
            what = f"more than {_MOST_PHASES} phases"
            raise InputError(
                what, where=self._system.where, hint="take fewer passes or preferred-dataset-splits"
            )
        while left > 0:
            order = list(range(len(dimensions)))
            if kind == ALL_GATHER:
                order.reverse()
            size = min(usual, left)
            if self._system.between == "roundRobin":
                order = order[self._rotation :] + order[: self._rotation]
                self._rotation = (self._rotation + 1) % len(order)
            elif self._themis is not None and kind != ALL_TO_ALL:
                order, size = self._themis.schedule(left, usual, involved, gather=kind == ALL_GATHER)
                order = [dim for dim in order if dim < len(dimensions)]
            left -= size
            self._chunk(kind, name, [dim for dim in order if dim in active], size)
        self._known[key] = (first, len(self._chunks) - first)
        return self._known[key]

    def _chunk(self, kind: int, name: str, order: list[int], size: int) -> None:
        """Plan a chunk."""
        first = len(self._rows)
        if kind != ALL_REDUCE or self._system.baseline:
            phases = [(kind, dim) for dim in order]
        elif self._themis is not None:
            phases = [(REDUCE_SCATTER, dim) for dim in order]
            phases += [(ALL_GATHER, dim) for dim in reversed(order)]
        else:
            phases = [(REDUCE_SCATTER, dim) for dim in order[:-1]] + [(ALL_REDUCE, order[-1])]
            phases += [(ALL_GATHER, dim) for dim in reversed(order[:-1])]
        for does, dim in phases:
            _, nodes, stride = self._dimensions[name][dim]
            algorithm = self._dimensions[name][dim].algorithm
            tree = 0
            if algorithm.name == "doubleBinaryTree":
                does = ALL_REDUCE  # noqa: PLW2901 - a tree does nothing else
                tree = self._trees.get((name, dim), 0)
                self._trees[name, dim] = 1 - tree
            timing = self._phases.timing(algorithm, does, nodes, stride, size, tree)
            queue = dim * self._system.queues + self._turns[dim]
            self._turns[dim] = (self._turns[dim] + 1) % self._system.queues
            self._rows.append((queue, does, size, timing))
            how = (ALGORITHMS.index(algorithm.name), algorithm.window)
            self._planned.append((*how, nodes, stride, tree))
            size = timing.final_bytes
        self._chunks.append((first, len(phases)))

    def tables(self) -> tuple[Records, Records, np.ndarray, np.ndarray]:
        """Give the chunks, the phases, what NPU 0 sends in each phase into each dimension, and how."""
        chunks = allocate(max(len(self._chunks), 1), t.CHUNK)
        for row, (first, count) in enumerate(self._chunks):
            chunks[row].first_phase, chunks[row].phases = first, count
        phases = allocate(max(len(self._rows), 1), t.PHASE)
        sent = np.zeros((len(phases), len(self._network.units)), np.int64)
        if self._rows:
            columns = np.array(
                [(queue, does, size, *timing[:3]) for queue, does, size, timing in self._rows], np.int64
            )
            for column, name in enumerate(
                ("queue", "collective", "bytes", "duration_ps", "last_ps", "message_ps")
            ):
                phases[name] = columns[:, column]
            sent[:] = [timing.sent for *_, timing in self._rows]
        planned = np.zeros(len(phases), PLANNED)
        planned[: len(self._planned)] = self._planned
        return chunks, phases, sent, planned


def retime(
    phases: Records, planned: np.ndarray, network: HierarchicalNetwork, system: System, *, congested: bool
) -> None:
    """Give phases that have not begun the times that they have on another network.

    Parameters
    ----------
    phases : Records
        What they do and how much of it stays.
    planned : ndarray of PLANNED
    network : HierarchicalNetwork
        With other bandwidths or latencies.
    system : System
    congested : bool
        Whether messages wait for one another on links.
    """
    times = Phases(network, system, congested=congested)
    for row, (name, window, nodes, stride, tree) in enumerate(planned.tolist()):
        if nodes == 0:
            continue  # no phase at all: tables have a row at least
        does, size = int(phases.collective[row]), int(phases.bytes[row])
        found = times.timing(Algorithm(ALGORITHMS[name], window), does, nodes, stride, size, tree)
        for field, value in zip(("duration_ps", "last_ps", "message_ps"), found[:3], strict=True):
            phases[field][row] = value
