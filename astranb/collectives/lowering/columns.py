"""The operations of all blocks of a program as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astranb.collectives.language.program import OPERATION_COLUMNS, Program, unpack_place

__all__ = ["Columns", "columns_of"]


@dataclass(frozen=True)
class Columns:
    """Operations, and the chunks that they move: columns of int64 unless stated otherwise.

    Attributes
    ----------
    order : list of int
        The blocks of the program in the order of the columns.
    first_op : ndarray, shape (blocks + 1,)
        The first operation of each block.
    block, kind, phase, sources, targets, semaphore, value, in_switch, line, first_chunk : ndarray
        Of each operation. ``kind`` is a position in ``KINDS``, ``semaphore`` a number or -1,
        ``line`` a number of ``Program.lines``, ``sources`` and ``targets`` are counts.
    relaxed : ndarray of bool
        Whether a signal does not wait for the stores before it.
    op, rank, buffer, index, channel : ndarray
        Of each source and target, operation by operation, sources first.
    """

    order: list[int]
    first_op: np.ndarray
    block: np.ndarray
    kind: np.ndarray
    phase: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    semaphore: np.ndarray
    value: np.ndarray
    in_switch: np.ndarray
    line: np.ndarray
    relaxed: np.ndarray
    first_chunk: np.ndarray
    op: np.ndarray
    rank: np.ndarray
    buffer: np.ndarray
    index: np.ndarray
    channel: np.ndarray

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct chunks, and for each source and target which of them it is.

        Returns
        -------
        chunks : ndarray of int64, shape (4, distinct)
            Rank, buffer, index and channel of each, in ascending order.
        number : ndarray of int64
        """
        columns = np.stack([self.rank, self.buffer, self.index, self.channel])
        if not columns.shape[1]:
            return columns, self.op
        spans = columns.max(axis=1) + 1
        if columns.min() >= 0 and float(np.prod(spans.astype(float))) < 2**62:
            key = columns[0]
            for column, span in zip(columns[1:], spans[1:], strict=True):
                key = key * span + column
            _, first, number = np.unique(key, return_index=True, return_inverse=True)
        else:
            _, first, number = np.unique(columns, axis=1, return_index=True, return_inverse=True)
        return columns[:, first], number.reshape(-1)


def columns_of(program: Program, order: list[int]) -> Columns:
    """Return the operations of a program's blocks, in this order of blocks."""
    parts = [program.blocks[b].columns for b in order]
    width = OPERATION_COLUMNS
    counts = np.array([len(rows) // width for rows, _ in parts], np.int64)
    rows = np.concatenate([np.frombuffer(rows, np.int64) for rows, _ in parts if rows] or [_NONE])
    chunks = np.concatenate([np.frombuffer(chunks, np.int64) for _, chunks in parts if chunks] or [_NONE])
    kind, phase, sources, targets, semaphore, value, flags, line = np.ascontiguousarray(
        rows.reshape(-1, width).T
    )
    rank, channel, buffer = unpack_place(chunks[::2])
    moved = sources + targets
    return Columns(
        order=order,
        first_op=np.concatenate([[0], np.cumsum(counts)]),
        block=np.repeat(np.arange(len(order)), counts),
        kind=kind,
        phase=phase,
        sources=sources,
        targets=targets,
        semaphore=semaphore,
        value=value,
        in_switch=flags >> 1,
        line=line,
        relaxed=(flags & 1).astype(bool),
        first_chunk=np.cumsum(moved) - moved,
        op=np.repeat(np.arange(len(kind)), moved),
        rank=rank,
        buffer=buffer,
        index=chunks[1::2],
        channel=channel,
    )


_NONE = np.zeros(0, np.int64)
