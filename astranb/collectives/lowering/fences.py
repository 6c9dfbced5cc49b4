"""Where a thread block waits for its own stores, and which of its moves are one loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from astranb.collectives.language.program import Block
from astranb.gpu import tables as t

__all__ = ["Pace", "paces"]


class Pace(NamedTuple):
    """When an operation begins.

    Attributes
    ----------
    fence : int
        What it waits for: ``ACKNOWLEDGED``, ``SYSTEM_WIDE``, or nothing.
    ahead : bool
        Whether warps begin it while others still execute the move before it: the two are one loop.
    """

    fence: int
    ahead: bool


def paces(block: Block, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Pace]:
    """Return when each operation of a block begins.

    A block waits for its earlier stores at a fence, before it announces them with a signal, and
    before a move that accesses what they wrote.

    Parameters
    ----------
    block : Block
    sources, targets : sequence of sequence of int
        Numbers of the chunks that each operation reads and writes.
    """
    found: list[Pace] = []
    dirty: set[int] = set()
    being_read: set[int] | None = None  # by moves that warps may still execute
    for op, reads, writes in zip(block.operations, sources, targets, strict=True):
        move = op.kind == "move"
        fence = 0
        if op.kind == "fence" or (op.kind == "signal" and not op.relaxed and dirty):
            fence = t.ACKNOWLEDGED | t.SYSTEM_WIDE
        elif move and dirty and not (dirty.isdisjoint(reads) and dirty.isdisjoint(writes)):
            fence = t.ACKNOWLEDGED
        if fence:
            dirty.clear()
        ahead = move and not fence and being_read is not None and being_read.isdisjoint(writes)
        if not move:
            being_read = None
        elif ahead and being_read is not None:
            being_read.update(reads)
        else:
            being_read = set(reads)
        dirty.update(writes)
        found.append(Pace(fence, ahead))
    return found
