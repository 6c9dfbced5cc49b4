"""Something wrong with a program: what, where, and who waits for whom."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ._program import Block, Program
from ._source import Line

__all__ = ["Fault", "Namer"]


@dataclass(frozen=True)
class Fault:
    """Something wrong with a program.

    Attributes
    ----------
    kind : str
        ``deadlock``, ``semaphore``, ``packets``, ``race``, ``fence``, ``bounds`` or ``result``.
    message : str
        One line.
    places : tuple of (int, int, int)
        Rank, thread block of the rank, operation of the block.
    severity : str
        ``"error"`` or ``"warning"``.
    waits : tuple of str
        Of a deadlock: who waits for whom, in a circle.
    lines : tuple of Line
        The lines of the text that asked for these operations, each once; none where they are not
        known.
    """

    kind: str
    message: str
    places: tuple[tuple[int, int, int], ...] = ()
    severity: str = "error"
    waits: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()


class Namer:
    """Names blocks and operations as people count them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        counted: dict[int, int] = defaultdict(int)
        self._number: dict[int, int] = {}
        self._block: dict[tuple[int, int], Block] = {}
        for block in program.blocks:
            self._number[id(block)] = counted[block.rank]
            self._block[block.rank, counted[block.rank]] = block
            counted[block.rank] += 1

    def place(self, block: Block, i: int) -> tuple[int, int, int]:
        """Rank, block of the rank, operation."""
        return block.rank, self._number[id(block)], i

    def text(self, block: Block, i: int) -> str:
        """The same in words, with what the operation does."""
        op = block.operations[i]
        what = op.kind
        if op.semaphore is not None:
            what = f"{op.kind} semaphore {op.semaphore.number} ({op.value})"
        phase = self.program.phases[op.phase] if op.phase < len(self.program.phases) else ""
        where = f"rank {block.rank} block {self._number[id(block)]} operation {i}"
        return f"{where} [{what}{', ' + phase if phase else ''}]"

    def lines(self, places: tuple[tuple[int, int, int], ...]) -> tuple[Line, ...]:
        """The lines that asked for operations, each once."""
        found = (self._block[rank, number].operations[i].line for rank, number, i in places)
        return tuple(dict.fromkeys(line for line in found if line is not None))
