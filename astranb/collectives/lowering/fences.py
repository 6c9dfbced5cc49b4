"""Where a thread block waits for its own stores, and which of its moves are one loop."""

from __future__ import annotations

from typing import NamedTuple

from astranb.collectives.language.program import Block, Chunk
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


def paces(block: Block) -> list[Pace]:
    """Return when each operation of a block begins.

    A block waits for its earlier stores at a fence, before it announces them with a signal, and
    before a move that accesses what they wrote.
    """
    found: list[Pace] = []
    dirty: set[Chunk] = set()
    being_read: set[Chunk] | None = None  # by moves that warps may still execute
    for op in block.operations:
        move = op.kind == "move"
        fence = 0
        if op.kind == "fence" or (op.kind == "signal" and not op.relaxed and dirty):
            fence = t.ACKNOWLEDGED | t.SYSTEM_WIDE
        elif move and dirty and not (dirty.isdisjoint(op.sources) and dirty.isdisjoint(op.targets)):
            fence = t.ACKNOWLEDGED
        if fence:
            dirty.clear()
        ahead = move and not fence and being_read is not None and being_read.isdisjoint(op.targets)
        if not move:
            being_read = None
        elif ahead and being_read is not None:
            being_read.update(op.sources)
        else:
            being_read = set(op.sources)
        dirty.update(op.targets)
        found.append(Pace(fence, ahead))
    return found
