"""Faults of a program: the message, the operations, and the cycle of waits of a deadlock."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from astranb.collectives.language.program import Block, Program
from astranb.collectives.language.source import SourceLine
from astranb.core.colours import OKABE_ITO
from astranb.core.svg import Path, Shape, SvgBox, Text, document

__all__ = ["Flaw", "Namer", "draw_waits"]

_FILL, _EDGE = f"{OKABE_ITO[1]}33", "#b06a00"


@dataclass(frozen=True)
class Flaw:
    """A fault of a program.

    Attributes
    ----------
    kind : str
        ``deadlock``, ``semaphore``, ``packets``, ``race``, ``fence``, ``bounds`` or ``result``.
    message : str
        One line.
    places : tuple of (int, int, int)
        For each operation its rank, its thread block in the rank, its number in the block.
    severity : str
        ``"error"`` or ``"warning"``.
    waits : tuple of str
        For a deadlock: the operations of the cycle, each waiting for the next.
    lines : tuple of SourceLine
        The source lines of these operations, each once; empty if they are not known.
    """

    kind: str
    message: str
    places: tuple[tuple[int, int, int], ...] = ()
    severity: str = "error"
    waits: tuple[str, ...] = ()
    lines: tuple[SourceLine, ...] = ()


class Namer:
    """Names blocks and operations by rank and by block of the rank."""

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
        """Return rank, block of the rank, and operation."""
        return block.rank, self._number[id(block)], i

    def text(self, block: Block, i: int) -> str:
        """Describe an operation with its place and phase."""
        op = block.operations[i]
        what = op.kind
        if op.semaphore is not None:
            what = f"{op.kind} semaphore {op.semaphore.number} ({op.value})"
        phase = self.program.phases[op.phase] if op.phase < len(self.program.phases) else ""
        where = f"rank {block.rank} block {self._number[id(block)]} operation {i}"
        return f"{where} [{what}{', ' + phase if phase else ''}]"

    def flaw(
        self,
        kind: str,
        message: str,
        *operations: tuple[Block, int],
        places: tuple[tuple[int, int, int], ...] = (),
        severity: str = "error",
        waits: tuple[str, ...] = (),
    ) -> Flaw:
        """Return a fault of some operations, with their places and source lines."""
        places = places or tuple(self.place(block, i) for block, i in operations)
        found = (self._block[rank, number].operations[i].line for rank, number, i in places)
        lines = tuple(dict.fromkeys(line for line in found if line is not None))
        return Flaw(kind, f"{self.program.name}: {message}", places, severity, waits, lines)


def draw_waits(fault: Flaw) -> str:
    """Draw the cycle of waits of a deadlock as an SVG picture; empty if there is none.

    Examples
    --------
    >>> from astranb.collectives import Flaw
    >>> draw_waits(Flaw("deadlock", "...", waits=("a", "b")))[:4]
    '<svg'
    """
    if not fault.waits:
        return ""
    wide, high, gap = 640, 44, 34
    count = len(fault.waits)
    bottom = 5 + (count - 1) * (high + gap) + high / 2
    shapes: list[Shape] = []
    for k, text in enumerate(fault.waits):
        y = 5 + k * (high + gap)
        shapes.append(SvgBox(5, y, wide, high, 6, _FILL, _EDGE))
        shapes.append(Text(16, y + 27, text, 13, "currentColor"))
        if k + 1 < count:
            shapes.append(Path(f"M60 {y + high}v{gap - 6}m-5 -7l5 7l5 -7", _EDGE))
            shapes.append(Text(76, y + high + 22, "waits for", 13, "currentColor"))
    shapes.append(Path(f"M{wide + 5} {bottom:g}h30V27h-24m7 -5l-7 5l7 5", _EDGE))
    title = "Each waits for the one below it, the last one for the first"
    return document(wide + 60, count * (high + gap) + 10, shapes, title=title, scroll=True)
