"""Compute kernels by cache lines: the tables of a grid's thread blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from astranb.collectives import BUFFERS, Lowered, new_operations, tile_work
from astranb.core.state import allocate, require_bytes
from astranb.gpu import tables as t
from astranb.workload.kernels import Grid

if TYPE_CHECKING:
    from astranb.core.jit import Records

__all__ = ["lower_grid"]

_GROUP = 8
"""Rows of tiles that are begun together, so that their operands are still in the L2 for the next column
(CUTLASS, include/cutlass/gemm/threadblock/threadblock_swizzle.h)."""

_BLOCK_BYTES = t.BLOCK.itemsize + t.TILE_WORK.itemsize + 4 * (t.OP.itemsize + t.OPERAND.itemsize)
"""Of a thread block with its operations."""
_PART = 2
"""Parts of sums are in float32, results in two bytes."""


def lower_grid(grid: Grid, *, line_bytes: int, burst_lines: int = 1) -> Lowered:
    """Lay out the operands of a kernel in a GPU's memory, and write down its thread blocks.

    Parameters
    ----------
    grid : Grid
    line_bytes : int
        Bytes of a cache line.
    burst_lines : int
        Lines that travel as one request: more are coarser and faster. Issue slots, services of lines and the
        time of the matrix units stay the same.

    Returns
    -------
    Lowered
        A program of one rank.

    Raises
    ------
    InputError
        Its thread blocks would not fit in memory.

    Examples
    --------
    >>> program = lower_grid(Grid("pass", rows=4, row_lines=8, stored_lines=8), line_bytes=128)
    >>> len(program.blocks), int(program.lines[0])
    (4, 64)
    """
    require_bytes(_BLOCK_BYTES * grid.blocks, where=f"kernel {grid.name!r}", hint="use smaller operands")
    return _Layout(grid, line_bytes, burst_lines).lowered()


@dataclass
class _BlockPart:
    """One operation of every block of a grid, with its operands and what a tile does."""

    ops: Records
    operands: list[Records]
    tiles: Records | None = None


class _Layout:
    """The tables of a grid under construction: arrays with a row for each block."""

    def __init__(self, grid: Grid, line_bytes: int, burst_lines: int) -> None:
        self.grid, self.line_bytes, self.burst = grid, line_bytes, burst_lines
        self.row, self.column, self.split = self._order()
        self.slices: list[Records] = []
        self.lines = 0

    def _order(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, column and split of each block, in the order in which blocks are launched."""
        grid = self.grid
        shape = (grid.rows, grid.columns, grid.splits)
        row, column, split = (part.ravel() for part in np.indices(shape))
        groups = (split, row, column, row // _GROUP)
        order = np.lexsort((split, column, -row) if grid.growth else groups)  # the longest begin
        if grid.rest:
            shared = order[-grid.rest :][np.arange(grid.parts) * grid.rest // grid.parts]
            order = np.concatenate([order[: -grid.rest], shared])
        return row[order], column[order], split[order]

    def lowered(self) -> Lowered:
        """Return the tables."""
        parts = self._parts()
        count = len(self.row)
        ops = np.stack([part.ops for part in parts], axis=1).reshape(-1).view(np.recarray)
        each = sum(len(part.operands) for part in parts)
        begins = np.cumsum([0, *(len(part.operands) for part in parts)])[:-1]
        ops["first_source"] = (each * np.arange(count)[:, None] + begins).ravel()
        ops["first_target"] = ops["first_source"] + ops["sources"]
        ops["block"] = np.repeat(np.arange(count), len(parts))
        ops["number"] = np.tile(np.arange(len(parts)), count)
        columns = [operand for part in parts for operand in part.operands]
        operands = allocate(count * each, t.OPERAND)
        if columns:
            operands[:] = np.stack(columns, axis=1).reshape(-1)
        tiled = [part for part in parts if part.tiles is not None]
        tiles = allocate(count * len(tiled), t.TILE_WORK)
        for number, part in enumerate(tiled):
            tiles[number * count : (number + 1) * count] = part.tiles
            part_of = next(n for n, other in enumerate(parts) if other is part)
            ops["value"][part_of :: len(parts)] = number * count + np.arange(count)
        blocks = allocate(count, t.BLOCK)
        blocks["first_op"] = np.arange(count) * len(parts)
        blocks["last_op"] = blocks["first_op"] + len(parts)
        blocks["warps"] = self.grid.stages
        blocks["held"] = self.grid.held
        phases = allocate(1, t.PHASE)
        phases["left"] = len(ops)
        phases["started_ps"] = phases["ended_ps"] = -1
        slices = allocate(sum(map(len, self.slices)), t.SLICE)
        if self.slices:
            slices[:] = np.concatenate(self.slices)
        return Lowered(
            name=self.grid.name, ranks=1, channels=1, line_bytes=self.line_bytes,
            phase_names=(self.grid.name,), blocks=blocks, ops=ops, operands=operands, slices=slices,
            semaphores=allocate(0, t.SEMAPHORE), phases=phases, block_channel=np.zeros(count, np.int64),
            lines=np.array([self.lines]), tiles=tiles,
        )  # fmt: skip

    def _parts(self) -> list[_BlockPart]:
        grid = self.grid
        if not grid.row_lines + grid.column_lines:
            ops = new_operations(t.SPEND, len(self.row))
            ops["left"] = grid.step_ps
            return [_BlockPart(ops, [])]
        rows = self._panels(grid.rows * grid.splits, self._whole(grid.row_lines) * grid.steps)
        of_row = self.row * grid.splits + self.split
        if grid.stages == 0:
            return [self._copy(rows, of_row)]
        parts = []
        longest = grid.steps + grid.growth * (grid.rows - 1)
        if grid.own_lines:
            own = self._panels(grid.rows * grid.columns, self._whole(grid.own_lines))
            used = [self._operand(own, self.row * grid.columns + self.column)]
            parts.append(self._tile(used, np.ones_like(self.row), grid.own_lines, 0, 0))
        shared = -(-grid.columns // grid.shared)
        copy = self.row // (grid.rows // grid.copies)
        columns = self._panels(grid.copies * shared * grid.splits, self._whole(grid.column_lines) * longest)
        of_column = (copy * shared + self.column // grid.shared) * grid.splits + self.split
        used = [self._operand(rows, of_row)] if grid.row_lines else []
        used += [self._operand(columns, of_column)] if grid.column_lines else []
        steps = grid.steps + grid.growth * self.row
        if grid.rest:
            steps[-grid.parts :] = -(-grid.rest * grid.steps // grid.parts)
        parts.append(self._tile(used, steps, grid.row_lines, grid.column_lines, grid.step_ps))
        if grid.rest:
            parts += self._handed_on()
        elif grid.stored_lines:
            stored = self._panels(grid.blocks, grid.stored_lines, t.UNWRITTEN)
            ops = self._moves(grid.stored_lines)
            ops["targets"] = 1
            parts.append(_BlockPart(ops, [self._operand(stored, np.arange(len(self.row)))]))
        return parts

    def _handed_on(self) -> list[_BlockPart]:
        """Return the stores of blocks that share tiles: a part each, and what they take over.

        A block reads its own part in the place of another's, which ends at the same time.
        """
        grid, blocks = self.grid, np.arange(len(self.row))
        sharing = blocks >= len(blocks) - grid.parts
        number = np.where(sharing, blocks - (len(blocks) - grid.parts), 0)
        stored = self._panels(grid.blocks, grid.stored_lines, t.UNWRITTEN)
        parts = self._panels(grid.parts, _PART * grid.stored_lines, t.UNWRITTEN)
        result, own = self._operand(stored, blocks), self._operand(parts, number)
        taken = -(-grid.stored_lines * grid.rest // grid.parts)
        moves = []
        for lines, some, operands in (
            (grid.stored_lines, ~sharing, [result]),
            (_PART * grid.stored_lines, sharing, [own]),
            (taken, sharing, [own, result]),
        ):
            ops = self._moves(lines)
            ops["lines"] = ops["left"] = np.where(some, ops["lines"], 0)
            ops["sources"], ops["targets"] = len(operands) - 1, 1
            moves.append(_BlockPart(ops, operands))
        return moves

    def _whole(self, lines: int) -> int:
        """Lines of as many whole requests."""
        return -(-lines // self.burst) * self.burst

    def _panels(self, count: int, lines: int, writer: int = t.INITIAL) -> Records:
        """Lay out slices of so many lines each, one after another."""
        rows = allocate(count if lines else 0, t.SLICE)
        before = sum(map(len, self.slices))
        rows["buffer"], rows["chunk"] = BUFFERS.index("scratch"), before + np.arange(len(rows))
        rows["line"] = self.lines + lines * np.arange(len(rows))
        rows["lines"], rows["bytes"] = lines, lines * self.line_bytes
        rows["writer"], rows["writing"], rows["flag"] = writer, -1, -1
        self.slices.append(rows)
        self.lines += len(rows) * lines
        return rows

    def _operand(self, panels: Records, which: np.ndarray) -> Records:
        """Assign one of the slices to each block."""
        operands = allocate(len(which), t.OPERAND)
        operands["slice"], operands["line"] = panels["chunk"][which], panels["line"][which]
        operands["flag"], operands["seen"] = -1, t.NEVER_SEEN
        operands["stride"] = self.burst * self.line_bytes
        return operands

    def _moves(self, lines: int) -> Records:
        """Build a move of so many lines for each block; the last request may be of fewer."""
        ops = new_operations(t.MOVE, len(self.row))
        ops["payload"] = self.burst * self.line_bytes
        ops["lines"] = ops["left"] = requests = -(-lines // self.burst)
        ops["last_bytes"] = (lines - (requests - 1) * self.burst) * self.line_bytes
        return ops

    def _copy(self, rows: Records, of_row: np.ndarray) -> _BlockPart:
        """A block of a pass over memory: it loads its part and stores as much."""
        ops = self._moves(self.grid.row_lines)
        ops["sources"] = ops["targets"] = 1
        stored = self._panels(len(rows), self.grid.row_lines, t.UNWRITTEN)
        return _BlockPart(ops, [self._operand(rows, of_row), self._operand(stored, of_row)])

    def _tile(
        self, operands: list[Records], steps: np.ndarray, own: int, other: int, step_ps: int
    ) -> _BlockPart:
        """A block's steps: so many lines of its first operand in each, and of its second one."""
        tiles = tile_work(steps, own, other, step_ps, self.grid.stages, self.burst, len(self.row))
        ops = new_operations(t.TILE, len(self.row))
        ops["payload"] = ops["last_bytes"] = self.burst * self.line_bytes
        ops["sources"] = len(operands)
        ops["lines"] = ops["left"] = steps * tiles["step_lines"].astype(np.int64)
        return _BlockPart(ops, operands, tiles)
