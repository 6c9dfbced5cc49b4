"""Collectives cut into chunks, and each chunk's phases: one or two in each dimension that it uses.

Source of Themis: S. Rashidi et al., "Themis" (ISCA 2022), as in ASTRA-sim 1.0 (MIT licence, tag
``tutorial-asplos2023``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.workload.astrasim1 import (
    ALGORITHMS,
    HierarchicalNetwork,
    LayerAlgorithm,
    LayerSystem,
    LayerWorkload,
    Levels,
    Part,
)

from . import tables as t
from .phase_times import PhaseTime, PhaseTimes
from .tables import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER

__all__ = ["COLLECTIVES", "PLANNED", "Planner", "retime"]

PLANNED: Final = np.dtype(
    [("algorithm", "i8"), ("window", "i8"), ("nodes", "i8"), ("stride", "i8"), ("tree", "i8")]
)
"""Plan of a phase: the algorithm's index in :data:`.ALGORITHMS`, its NPUs, …"""

_MOST_PHASES: Final = 4_000_000
COLLECTIVES: Final = {
    "ALLREDUCE": (ALL_REDUCE, "all-reduce"),
    "REDUCESCATTER": (REDUCE_SCATTER, "reduce-scatter"),
    "ALLGATHER": (ALL_GATHER, "all-gather"),
    "ALLTOALL": (ALL_TO_ALL, "all-to-all"),
}
"""Number and name of the collectives of a layer table."""

_MIB: Final = 1 << 20


class _Dimension(NamedTuple):
    """A dimension for one kind of collective."""

    algorithm: LayerAlgorithm
    nodes: int
    stride: int


class Planner:
    """Plans collectives in the order in which the program issues them.

    Parameters
    ----------
    inputs : LayerWorkload
    levels : Levels
    """

    def __init__(self, inputs: LayerWorkload, levels: Levels) -> None:
        network, system = self._network, self._system = inputs.network, inputs.system
        self._levels = levels
        self._times = PhaseTimes(network, system, congestion=inputs.congestion)
        self._dimensions = {name: self._dimensions_of(name) for _, name in COLLECTIVES.values()}
        self._next_queue = [0] * len(levels.units)  # of each dimension
        self._rotation = 0
        self._trees: dict[tuple[str, int], int] = {}
        self._themis: _Themis | None = None
        if system.between in ("themis", "themisFlex"):
            bandwidth = [network.total_bandwidth[dim] for dim in levels.physical]
            flexible = system.between == "themisFlex"
            self._themis = _Themis(levels.units, bandwidth, system.gap_denominator, flexible=flexible)
        self._same = self._themis is None and system.between == "ascending" and system.queues == 1
        self._known: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._chunks: list[tuple[int, int]] = []
        self._rows: list[tuple[int, int, int, PhaseTime]] = []
        self._planned: list[tuple[int, int, int, int, int]] = []

    def _dimensions_of(self, name: str) -> list[_Dimension]:
        """Return the dimensions of a system's list of algorithms."""
        algorithms = list(self._system.algorithms.get(name, ()))
        units, physical = self._levels.units, self._levels.physical
        for dim in range(1, len(units)):
            # Both parts of a split dimension have its algorithm.
            if physical[dim] == physical[dim - 1] and len(algorithms) > 0:
                algorithms.insert(min(dim, len(algorithms)), algorithms[min(dim, len(algorithms)) - 1])
        found: list[_Dimension] = []
        stride = 1
        for algorithm in algorithms:
            if algorithm.whole:
                return [*found, _Dimension(algorithm, self._network.npus, 1)]
            if len(found) == len(units):
                break
            found.append(_Dimension(algorithm, units[len(found)], stride))
            stride *= found[-1].nodes
        if algorithms and len(algorithms) != len(units):
            what = f"{name}-implementation names {len(algorithms)} algorithms for {len(units)} dimensions"
            hint = "give one for each dimension of the network"
            raise InputError(what, where=self._system.where, hint=hint)
        return found

    def advance_time(self) -> None:
        """Reset the loads of Themis: time has passed since the last collective."""
        if self._themis is not None:
            self._themis.reset()

    def plan(self, part: Part, involved: int) -> tuple[int, int]:
        """Plan a collective; returns its first chunk and the number of chunks (0: it uses no dimension).

        Parameters
        ----------
        part : Part
        involved : int
            Bit mask of the dimensions that it uses.

        Raises
        ------
        InputError
            The system names no algorithm, or one that does not support the collective.
        """
        kind, name = COLLECTIVES[part.collective]
        dimensions = self._dimensions[name]
        if not dimensions:
            what = f"{name}-implementation is missing"
            raise InputError(what, where=self._system.where, hint="name an algorithm for each dimension")
        active = [dim for dim, each in enumerate(dimensions) if each.nodes > 1 and involved >> dim & 1]
        if not active:
            return 0, 0
        trees = any(dimensions[dim].algorithm.name == "doubleBinaryTree" for dim in active)
        if kind != ALL_REDUCE and trees:
            what = f"{name}-implementation cannot be doubleBinaryTree"
            raise InputError(what, where=self._system.where, hint="use ring, direct or halvingDoubling")
        key = (part.collective, part.size, involved)
        if self._same and not trees and key in self._known:
            return self._known[key]
        first = len(self._chunks)
        splits = self._system.splits
        usual = max(part.size // splits if self._network.compat else -(-part.size // splits), 1)
        left = part.size
        if len(self._rows) > _MOST_PHASES:
            hint = "use fewer passes or preferred-dataset-splits"
            raise InputError(f"more than {_MOST_PHASES} phases", where=self._system.where, hint=hint)
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
            algorithm, nodes, stride = self._dimensions[name][dim]
            tree = 0
            if algorithm.name == "doubleBinaryTree":
                does = ALL_REDUCE  # noqa: PLW2901 - a tree supports nothing else
                tree = self._trees.get((name, dim), 0)
                self._trees[name, dim] = 1 - tree
            time = self._times.time(algorithm, does, nodes, stride, size, tree)
            queue = dim * self._system.queues + self._next_queue[dim]
            self._next_queue[dim] = (self._next_queue[dim] + 1) % self._system.queues
            self._rows.append((queue, does, size, time))
            how = (ALGORITHMS.index(algorithm.name), algorithm.window)
            self._planned.append((*how, nodes, stride, tree))
            size = time.final_bytes
        self._chunks.append((first, len(phases)))

    def tables(self) -> tuple[Records, Records, np.ndarray, np.ndarray]:
        """Return chunks, phases, bytes that NPU 0 sends per phase and dimension, and how phases are done."""
        chunks = allocate(max(len(self._chunks), 1), t.CHUNK)
        for row, (first, count) in enumerate(self._chunks):
            chunks[row].first_phase, chunks[row].phases = first, count
        phases = allocate(max(len(self._rows), 1), t.PHASE)
        sent = np.zeros((len(phases), len(self._network.units)), np.int64)
        if self._rows:
            columns = np.array(
                [(queue, does, size, *time[:3]) for queue, does, size, time in self._rows], np.int64
            )
            for column, name in enumerate(
                ("queue", "collective", "bytes", "duration_ps", "last_ps", "message_ps")
            ):
                phases[name] = columns[:, column]
            sent[:] = [time.sent for *_, time in self._rows]
        planned = np.zeros(len(phases), PLANNED)
        planned[: len(self._planned)] = self._planned
        return chunks, phases, sent, planned


def retime(
    phases: Records,
    planned: np.ndarray,
    network: HierarchicalNetwork,
    system: LayerSystem,
    *,
    congestion: bool,
) -> None:
    """Recompute the durations of phases that have not begun, on a changed network.

    Parameters
    ----------
    phases : Records
        Modified in place.
    planned : ndarray of PLANNED
    network : HierarchicalNetwork
        With changed bandwidths or latencies.
    system : LayerSystem
    congestion : bool
        Messages wait for busy links.
    """
    times = PhaseTimes(network, system, congestion=congestion)
    for row, (name, window, nodes, stride, tree) in enumerate(planned.tolist()):
        if nodes == 0:
            continue  # the row of an empty table
        does, size = int(phases.collective[row]), int(phases.bytes[row])
        found = times.time(LayerAlgorithm(ALGORITHMS[name], window), does, nodes, stride, size, tree)
        for field, value in zip(("duration_ps", "last_ps", "message_ps"), found[:3], strict=True):
            phases[field][row] = value


class _Themis:
    """Themis: each chunk uses the dimension with the lowest load first.

    Parameters
    ----------
    units : sequence of int
        Number of NPUs of each dimension.
    bandwidth : sequence of float
        Of an NPU into each dimension.
    gap_denominator : int
        The ascending order is kept if loads differ by less than a chunk divided by this.
    flexible : bool
        Choose sizes of chunks that balance the loads.

    Examples
    --------
    >>> themis = _Themis((4, 4), (50.0, 25.0), 16, flexible=False)
    >>> [themis.schedule(1 << 20, 1 << 20, 3, gather=False)[0] for _ in range(3)]
    [[0, 1], [1, 0], [0, 1]]
    """

    def __init__(
        self, units: Sequence[int], bandwidth: Sequence[float], gap_denominator: int, *, flexible: bool
    ) -> None:
        self._units, self._gap, self._flexible = tuple(units), gap_denominator, flexible
        self._share = tuple(one / bandwidth[0] for one in bandwidth)
        # Load and number of the dimensions, in the order of the last sort.
        self._loads: list[tuple[float, int]] = []
        self.reset()

    def reset(self) -> None:
        """Reset the loads: collectives issued at one time share them."""
        self._loads = [(0.0, dim) for dim in range(len(self._units))]

    def _part(self, dim: int, *, gather: bool) -> float:
        """Return the part of a chunk that an NPU sends into a dimension."""
        others = float(self._units[dim] - 1)
        return others if gather else others / self._units[dim]

    def _load(self, dim: int, size: int, *, gather: bool) -> float:
        """Return the load that a chunk adds to a dimension: MiB sent, relative to the first bandwidth."""
        return size / _MIB * self._part(dim, gather=gather) / self._share[dim]

    def _even(self, gap: float, dim: int, *, gather: bool) -> int:
        """Return the chunk size that would fill a gap between loads."""
        return int(gap * self._share[dim] / self._part(dim, gather=gather) * _MIB)

    def schedule(self, left: int, usual: int, involved: int, *, gather: bool) -> tuple[list[int], int]:
        """Return the order of dimensions of the next chunk, and its size.

        Parameters
        ----------
        left : int
            Bytes that are not in a chunk yet.
        usual : int
            Bytes of a chunk.
        involved : int
            Bit mask of the dimensions that it uses.
        gather : bool
            An all-gather, whose data grows, instead of a reduce-scatter.
        """
        loads = sorted(self._loads, key=lambda each: each[0])
        if gather:
            loads.reverse()
        taking = [at for at, (_, dim) in enumerate(loads) if involved >> dim & 1 and self._units[dim] > 1]
        if not taking:
            self._loads = loads
            return list(range(len(loads))), min(left, usual)
        size = usual
        first = taking[0]
        if gather:
            far = taking[-1]
            even = self._even(abs(loads[far][0] - loads[first][0]), loads[far][1], gather=True)
            for at in reversed(taking[:-1]):
                even //= self._units[loads[at][1]]
        else:
            even = self._even(abs(loads[-1][0] - loads[first][0]), loads[first][1], gather=False)
        if self._flexible:
            in_order = even < usual
            size = min(left, usual) if in_order else even
        else:
            in_order = even < usual // self._gap
        result = min(left, size)
        if in_order:
            loads = sorted(loads, key=lambda each: each[1], reverse=gather)
        order = [dim for _, dim in loads]
        for at, (load, dim) in enumerate(loads):
            if involved >> dim & 1 and self._units[dim] > 1:
                loads[at] = (load + self._load(dim, size, gather=gather), dim)
                size = size * self._units[dim] if gather else size // self._units[dim]
        self._loads = loads
        return (list(range(len(loads))) if in_order else order), result
