"""The operations of all blocks of a program as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from astranb.collectives.language import BUFFERS, OPERATION_COLUMNS, Program, unpack_flags, unpack_place
from astranb.core.errors import InputError

__all__ = ["ChunkKeys", "ProgramColumns", "columns_of", "distinct"]


@dataclass(frozen=True)
class ProgramColumns:
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
    behind : ndarray
        Of a signal that only follows the stores of the block's last moves: of how many; else 0.
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
    behind: np.ndarray
    first_chunk: np.ndarray
    op: np.ndarray
    rank: np.ndarray
    buffer: np.ndarray
    index: np.ndarray
    channel: np.ndarray


class ChunkKeys:
    """Chunks as integers, in ascending order of rank, buffer, index and channel.

    Parameters
    ----------
    ranks : int
    index, channel : ndarray of int64
        All indices and channels that occur.

    Raises
    ------
    InputError
        An index of scratch is too large.
    """

    def __init__(self, ranks: int, index: np.ndarray, channel: np.ndarray) -> None:
        self.channels, self.span = int(channel.max(initial=0)) + 1, int(index.max(initial=0)) + 1
        if self.span > 2**31 or ranks * len(BUFFERS) * self.span * self.channels >= 2**62:
            raise InputError(f"a chunk of scratch has the index {self.span - 1}", hint="use smaller indices")

    def keys(self, rank: Any, buffer: Any, index: np.ndarray, channel: Any) -> np.ndarray:
        """Return the integers of chunks."""
        found: np.ndarray = ((rank * len(BUFFERS) + buffer) * self.span + index) * self.channels + channel
        return found

    def chunks(self, keys: np.ndarray) -> np.ndarray:
        """Return rank, buffer, index and channel of chunks, one row each."""
        rest, channel = np.divmod(keys, self.channels)
        rest, index = np.divmod(rest, self.span)
        rank, buffer = np.divmod(rest, len(BUFFERS))
        return np.stack([rank, buffer, index, channel])


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys in ascending order, and for each key which of them it is."""
    most = int(keys.max(initial=0)) + 1
    if most > 4 * len(keys):
        found, number = np.unique(keys, return_inverse=True)
        return found, number.reshape(-1)
    used = np.zeros(most, bool)  # no need to sort
    used[keys] = True
    return np.flatnonzero(used), (np.cumsum(used) - 1)[keys]


def columns_of(program: Program, order: list[int]) -> ProgramColumns:
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
    relaxed, in_switch, behind = unpack_flags(flags)
    return ProgramColumns(
        order=order,
        first_op=np.concatenate([[0], np.cumsum(counts)]),
        block=np.repeat(np.arange(len(order)), counts),
        kind=kind,
        phase=phase,
        sources=sources,
        targets=targets,
        semaphore=semaphore,
        value=value,
        in_switch=in_switch,
        line=line,
        relaxed=relaxed,
        behind=behind,
        first_chunk=np.cumsum(moved) - moved,
        op=np.repeat(np.arange(len(kind)), moved),
        rank=rank,
        buffer=buffer,
        index=chunks[1::2],
        channel=channel,
    )


_NONE = np.zeros(0, np.int64)
