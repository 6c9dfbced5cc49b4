"""Fences: where a thread block waits for its own stores, and which of its moves are one loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from astranb.collectives.language import KINDS, Block
from astranb.gpu import tables as t

from .columns import ProgramColumns

__all__ = ["Pace", "moves_behind", "paces", "paces_of"]


class Pace(NamedTuple):
    """Times at which an operation begins.

    Attributes
    ----------
    fence : int
        What it waits for: ``ACKNOWLEDGED``, ``SYSTEM_WIDE``, or nothing.
    ahead : bool
        Whether warps begin it while others still execute the move before it: the two are one loop.
    clean : int
        Stores of the operations before this one of the block are acknowledged when it begins.
    """

    fence: int
    ahead: bool
    clean: int


def paces(block: Block, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Pace]:
    """Return when each operation of a block begins.

    A block waits for its earlier stores at a fence, before it announces them with a signal, and
    before a move that accesses what they wrote, or a product that reads it; at a ``waitcnt`` for some.
    It does not wait where a signal is behind some of them: this one waits, and the block goes on.

    Parameters
    ----------
    block : Block
    sources, targets : sequence of sequence of int
        Numbers of the chunks that each operation reads and writes.
    """
    found: list[Pace] = []
    stored: dict[int, int] = {}  # the last move that has written each chunk
    moves: list[int] = []  # since the last fence
    clean = 0
    being_read: set[int] | None = None  # by moves that warps may still execute
    for i, (op, reads, writes) in enumerate(zip(block.operations, sources, targets, strict=True)):
        move = op.kind == "move"
        fence = 0
        if op.kind == "fence" or (op.kind == "signal" and not (op.relaxed or op.behind) and moves):
            fence = t.ACKNOWLEDGED | t.SYSTEM_WIDE
        elif any(stored.get(n, -1) >= clean for n in (*reads, *writes)):
            fence = t.ACKNOWLEDGED
        elif op.kind == "waitcnt" and len(moves) > op.value:
            moves = moves[len(moves) - op.value :]
            fence, clean = t.COUNTED, moves[0] if moves else i
        if fence and fence != t.COUNTED:
            moves, clean = [], i
        if block.unit == "nic":  # what it writes arrives in order
            fence = 0
        ahead = move and not fence and being_read is not None and being_read.isdisjoint(writes)
        if not move:
            being_read = None
        elif ahead and being_read is not None:
            being_read.update(reads)
        else:
            being_read = set(reads)
        if move:
            stored.update(dict.fromkeys(writes, i))
            moves.append(i)
        found.append(Pace(fence, ahead, clean))
    return found


def paces_of(
    c: ProgramColumns, chunk_of: np.ndarray, is_source: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return when each operation of all blocks begins, as :func:`paces` does for one block.

    Parameters
    ----------
    c : ProgramColumns
    chunk_of : ndarray of int64
        The number of each source and target.
    is_source : ndarray of bool
        Whether it is a source.

    Returns
    -------
    fence : ndarray of int64
    ahead : ndarray of bool
    counted : ndarray of int64, shape (3, waits)
        Each ``waitcnt`` that waits for something, and the first and the last move for which it waits.
    """
    count = len(c.kind)
    written, read = _before(c, chunk_of, is_source)
    last_store = np.maximum.accumulate(np.where(c.targets > 0, np.arange(count), -1))
    stored = np.concatenate([[-1], last_store[:-1]]) if count else last_store
    fences, aheads = [0] * count, [False] * count
    move, signal, flush, tile, wait = (
        KINDS.index(kind) for kind in ("move", "signal", "fence", "tile", "waitcnt")
    )
    firsts = c.first_op.tolist()
    value = c.value.tolist()
    free = (c.relaxed | (c.behind > 0)).tolist()
    columns = zip(c.kind.tolist(), free, written, read, stored.tolist(), strict=True)
    counted: list[tuple[int, int, int]] = []
    moves: list[int] = []  # of the block since the last fence
    block = 0
    clean = 0  # stores since this operation are not acknowledged
    loop = -1  # where the moves began that warps may still execute, -1: there are none
    for op, (kind, goes_on, writer, reader, store) in enumerate(columns):
        while op == firsts[block]:
            clean, loop, block = op, -1, block + 1
            moves = []
        if kind == move:
            fence = t.ACKNOWLEDGED if writer >= clean else 0
            if loop >= 0 and not fence and reader < loop:
                aheads[op] = True
            else:
                loop = op
        elif kind == tile:
            loop = -1
            fence = t.ACKNOWLEDGED if writer >= clean else 0
        elif kind == wait:
            loop, fence = -1, 0
            if len(moves) > value[op]:
                done = len(moves) - value[op]
                fences[op] = t.COUNTED
                counted.append((op, moves[0], moves[done - 1]))
                moves = moves[done:]
                clean = moves[0] if moves else op
        else:
            loop = -1
            dirty = kind == signal and not goes_on and store >= clean
            fence = t.ACKNOWLEDGED | t.SYSTEM_WIDE if kind == flush or dirty else 0
        if fence:
            fences[op] = fence
            clean, moves = op, []
        if kind == move:
            moves.append(op)
    return np.array(fences, np.int64), np.array(aheads, bool), np.array(counted, np.int64).reshape(-1, 3).T


def moves_behind(c: ProgramColumns) -> np.ndarray:
    """Return for each signal behind stores how many operations back the first of its moves is; else 0."""
    back = np.zeros(len(c.kind), np.int64)
    signals = np.flatnonzero(c.behind > 0)
    if len(signals):
        moves = np.flatnonzero(c.kind == KINDS.index("move"))
        of_block = np.searchsorted(moves, c.first_op[c.block[signals]])
        last = np.searchsorted(moves, signals)
        first = np.maximum(of_block, last - c.behind[signals])
        has_moves = first < last
        back[signals[has_moves]] = signals[has_moves] - moves[first[has_moves]]
        back[signals[~has_moves]] = 0
    return back


def _before(c: ProgramColumns, chunk_of: np.ndarray, is_source: np.ndarray) -> tuple[list[int], list[int]]:
    """Find for each operation the last ones of its block that accessed its chunks before it.

    Returns
    -------
    written : list of int
        The last operation that stored to one of its chunks; -1 for none.
    read : list of int
        The last operation that read one of its targets; -1 for none.
    """
    count, total = len(c.kind), len(chunk_of)
    found = np.full((2, count), -1, np.int64)
    if not total:
        return found[0].tolist(), found[1].tolist()
    # Accesses of one chunk follow one another, block by block and in the order of operations.
    place = np.sort(chunk_of * total + np.arange(total)) % total
    op, chunk = c.op[place], chunk_of[place]
    source = is_source[place]
    new = np.ones(total, bool)
    new[1:] = (chunk[1:] != chunk[:-1]) | (c.block[op[1:]] != c.block[op[:-1]])
    group = np.maximum.accumulate(np.where(new, np.arange(total), 0))
    own = new.copy()  # where the accesses of the same operation begin
    own[1:] |= op[1:] != op[:-1]
    begin = np.maximum.accumulate(np.where(own, np.arange(total), 0))
    for row, accesses, asks in ((0, ~source, None), (1, source, ~source)):
        last = np.maximum.accumulate(np.where(accesses, np.arange(total), -1))
        before = np.where(begin > 0, last[begin - 1], -1)
        inside = before >= group
        if asks is not None:
            inside &= asks
        np.maximum.at(found[row], op[inside], op[before[inside]])
    return found[0].tolist(), found[1].tolist()
