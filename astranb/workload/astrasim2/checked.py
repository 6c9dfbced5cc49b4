"""Check operations that come from a file of tables: machine code follows their numbers without looking."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from astranb.core.encoded import require
from astranb.gpu.tables import ROOM
from astranb.workload.kernels import Grid, Launch, ShapedKernel

from .footprint import Footprint
from .kinds import COLLECTIVE, COLLECTIVES, COMPUTE, DELAY, RECV, SEND
from .operations import COLUMN, Operations, RankOperations
from .placed_job import PlacedJob
from .recorded_parts import RecordedParts
from .system import System

__all__ = ["check_operations", "check_shown", "check_system"]

_MOST: Final = 1 << 62
_MOST_CHUNKS: Final = 1 << 40
_MOST_OF_GRID: Final = 1 << 28
"""More blocks, steps or lines than a GPU's memory has room for."""
_MAY_BE_ZERO: Final = ("kept_size", "version", "registers", "shared_bytes")


def check_operations(operations: Sequence[Operations], groups: Mapping[int, Sequence[int]]) -> None:
    """Check the tables of all ranks' operations, and the groups and peers that they name.

    Raises
    ------
    InputError
        It names the column.
    """
    count = len(operations)
    for number, members in groups.items():
        require(0 <= number < _MOST and 0 < len(members) <= count, f"group {number}")
        require(len(set(members)) == len(members), f"group {number}")
        require(all(0 <= rank < count for rank in members), f"group {number}")
    known = np.array([*groups, -1], np.int64)
    if isinstance(operations, RankOperations):
        named, peers = operations.groups, operations.peers
        for table in (operations.pattern, named, peers):
            require(table.dtype.kind == "i", "operations")
        require(operations.pattern.shape == (count,) and named.ndim == peers.ndim == 2, "operations")
        require(len(named) == len(peers) == count, "operations")
        require((operations.pattern >= 0) & (operations.pattern < len(operations.patterns)), "pattern")
        require(np.isin(named, known), "groups")
        require((peers >= -1) & (peers < count), "peers")
        for number, one in enumerate(operations.patterns):
            _check(one, np.arange(-1, named.shape[1]), peers.shape[1])
            used = np.unique(one.rows["peer"][_is_message(one.rows)])
            require(peers[operations.pattern == number][:, used] >= 0, "peers")
    else:
        for one in {id(one): one for one in operations}.values():
            _check(one, known, count)


def _check(one: Operations, groups: np.ndarray, peers: int) -> None:
    """Check the operations of a rank, whose groups are some numbers and whose peers are so many."""
    rows = one.rows
    require(rows.dtype == COLUMN and rows.ndim == 1, "rows")
    for name in ("dep_start", "deps"):
        column = getattr(one, name)
        require(column.dtype.kind == "i" and column.ndim == 1, name)
    require(one.dep_start[0] == 0 and bool((np.diff(one.dep_start) >= 0).all()), "dep_start")
    require((rows["kind"] >= COMPUTE) & (rows["kind"] <= DELAY), "rows.kind")
    require((rows["on_cpu"] >= 0) & (rows["on_cpu"] <= 1), "rows.on_cpu")
    require((rows["stream"] >= 0) & (rows["stream"] <= 1), "rows.stream")
    require((rows["duration_ns"] > -_MOST) & (rows["duration_ns"] < _MOST), "rows.duration_ns")
    collective = rows["kind"] == COLLECTIVE
    require(~collective | (rows["collective"] >= 0) & (rows["collective"] < COLLECTIVES), "rows.collective")
    require(~collective | np.isin(rows["group"], groups), "rows.group")
    message = _is_message(rows)
    require(~message | (rows["peer"] >= 0) & (rows["peer"] < peers), "rows.peer")
    require((rows["bytes"] >= 0) | ~(collective | message), "rows.bytes")
    if one.names is not None:
        index = one.names.index
        require(index.dtype.kind == "i" and index.shape == (len(rows),), "names")
        require((index >= -1) & (index < len(one.names.values)), "names")
        require(all(isinstance(name, str) for name in one.names.values), "names")
    for grid in (grid for launched in one.grids for grid in launched):
        _check_grid(grid)
    for at, kernel in one.kernels.items():
        require(0 <= at < len(rows), "kernels")
        _check_kernel(kernel)
    for at, own in one.custom.items():
        require(0 <= at < len(rows) and bool(collective[at]), "custom")
        _check(own, groups, peers)
        if own.parts is not None:
            _check_parts(own.parts, len(own.rows))


def _is_message(rows: np.ndarray) -> np.ndarray:
    return np.asarray((rows["kind"] == SEND) | (rows["kind"] == RECV))


def _check_grid(grid: Grid) -> None:
    """Check a kernel of an operation: its counts are positive and fit in an SM and in memory."""
    for field in dataclasses.fields(Grid):
        if field.name != "name":
            most = 1 << 61 if field.name in ("launch_ps", "step_ps") else _MOST_OF_GRID
            require(0 <= getattr(grid, field.name) < most, f"grids.{field.name}")
    counts = min(grid.rows, grid.columns, grid.splits, grid.steps, grid.shared, grid.copies)
    require(counts > 0 and grid.blocks < _MOST_OF_GRID and grid.held <= ROOM, "grids")
    require(grid.rows % max(grid.copies, 1) == 0, "grids.copies")
    require(grid.rest < grid.rows * grid.columns * grid.splits, "grids.rest")
    require((grid.rest > 0) == (grid.parts > 0), "grids.parts")
    plain = grid.splits == 1 and grid.growth == 0 and grid.stages > 0
    require(grid.rest == 0 or plain, "grids.rest")
    moves = grid.row_lines + grid.column_lines + grid.stages + grid.own_lines + grid.stored_lines
    require(grid.row_lines + grid.column_lines > 0 or moves == 0, "grids.row_lines")


def _check_kernel(kernel: ShapedKernel | Launch) -> None:
    """Check the sizes of a recorded kernel."""
    one = kernel if isinstance(kernel, Launch) else kernel.kernel
    if isinstance(kernel, ShapedKernel):
        require(1 <= kernel.number_bytes <= 8, "kernels.number_bytes")
    for field in dataclasses.fields(one):
        value = getattr(one, field.name)
        if not isinstance(value, bool):
            require(int(field.name not in _MAY_BE_ZERO) <= value <= _MOST_CHUNKS, f"kernels.{field.name}")


def _check_parts(parts: RecordedParts, rows: int) -> None:
    """Check recorded operations: where each begins, its label, and what is known of each row."""
    first = parts.first
    for name in ("first", "label", "kind", "bytes"):
        require(getattr(parts, name).dtype.kind == "i", f"parts.{name}")
        require(getattr(parts, name).shape == (len(first),), f"parts.{name}")
    for name in ("phase", "chunk"):
        require(getattr(parts, name).dtype.kind == "i", f"parts.{name}")
        require(getattr(parts, name).shape == (rows,), f"parts.{name}")
    require(len(first) > 0 and first[0] == 0 and first[-1] < rows, "parts.first")
    require(np.diff(first) > 0, "parts.first")
    require((parts.label >= 0) & (parts.label < len(parts.labels)), "parts.label")
    require((parts.kind >= COMPUTE) & (parts.kind <= DELAY), "parts.kind")
    require((parts.bytes >= 0) & (parts.bytes < _MOST), "parts.bytes")


def check_system(system: System) -> None:
    """Check numbers of the system layer that a file of ASTRA-sim's has by name.

    Raises
    ------
    InputError
        It names the number.
    """
    for name in ("splits", "active_chunks", "queues"):
        require(1 <= getattr(system, name) <= _MOST_CHUNKS, f"system.{name}")
    for name in ("endpoint_ns", "bus_reduce_ns", "switch_ns"):
        require(0 <= getattr(system, name) <= _MOST_CHUNKS, f"system.{name}")
    require(-1 <= system.policy <= 1, "system.policy")
    require(all(speed > 0 for speed in system.speeds.values()), "system.speeds")
    require(all(0 <= collective < COLLECTIVES for collective in system.algorithms), "system.algorithms")


def check_shown(ranks: Sequence[Operations], jobs: Sequence[PlacedJob], footprint: Footprint | None) -> None:
    """Check what is only shown of a workload: its jobs, and what ranks hold in memory.

    Raises
    ------
    InputError
        It names what is wrong.
    """
    every = [rank for one in jobs for rank in one.ranks]
    require(all(0 <= rank < len(ranks) for rank in every) and len(set(every)) == len(every), "jobs.ranks")
    require(all(0 <= one.start_ps < _MOST for one in jobs), "jobs.start_ps")
    if footprint is None:
        return
    found, parts = footprint, len(footprint.parts)
    tables, changes = len(found.held), len(found.operation)
    require(found.held.shape[1:] == found.change.shape[1:] == (parts,), "footprint.parts")
    require(found.at_end.shape == found.operation.shape == (len(found.change),), "footprint.change")
    require(found.table.shape == (len(ranks),) and found.first.shape == (tables + 1,), "footprint.table")
    require((found.table >= 0) & (found.table < tables), "footprint.table")
    require(found.first[0] == 0 and found.first[-1] == changes, "footprint.first")
    require(np.diff(found.first) >= 0, "footprint.first")
    most = np.zeros(tables, np.int64)
    np.maximum.at(most, np.repeat(np.arange(tables), np.diff(found.first)), found.operation + 1)
    require(found.operation >= 0, "footprint.operation")
    require(most[found.table] <= np.fromiter(_counts(ranks), np.int64, len(ranks)), "footprint.operation")


def _counts(ranks: Sequence[Operations]) -> Iterator[int]:
    """Yield how many operations each rank has."""
    if isinstance(ranks, RankOperations):
        lengths = [len(one.rows) for one in ranks.patterns]
        return (lengths[number] for number in ranks.pattern.tolist())
    return (len(one.rows) for one in ranks)
