"""Faults of a program: the message, the operations, and the cycle of waits of a deadlock."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from html import escape

from astranb.collectives.language.program import Block, Program
from astranb.collectives.language.source import Line

__all__ = ["Fault", "Namer", "draw_waits"]


@dataclass(frozen=True)
class Fault:
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
    lines : tuple of Line
        The source lines of these operations, each once; empty if they are not known.
    """

    kind: str
    message: str
    places: tuple[tuple[int, int, int], ...] = ()
    severity: str = "error"
    waits: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()


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

    def lines(self, places: tuple[tuple[int, int, int], ...]) -> tuple[Line, ...]:
        """Return the source lines of operations, each once."""
        found = (self._block[rank, number].operations[i].line for rank, number, i in places)
        return tuple(dict.fromkeys(line for line in found if line is not None))


def draw_waits(fault: Fault) -> str:
    """Draw the cycle of waits of a deadlock as an SVG picture; empty if there is none.

    Examples
    --------
    >>> from astranb.collectives import Fault
    >>> draw_waits(Fault("deadlock", "...", waits=("a", "b")))[:4]
    '<svg'
    """
    if not fault.waits:
        return ""
    wide, high, gap = 640, 44, 34
    tall = len(fault.waits) * (high + gap) + 10
    size = f'viewBox="0 0 {wide + 60} {tall}" width="{wide + 60}" height="{tall}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13" role="img">',
        "<title>Each waits for the one below it, the last one for the first</title>",
    ]
    for k, text in enumerate(fault.waits):
        y = 5 + k * (high + gap)
        parts.append(
            f'<rect x="5" y="{y}" width="{wide}" height="{high}" rx="6" fill="#e69f0033" stroke="#b06a00"/>'
            f'<text x="16" y="{y + 27}" fill="currentColor">{escape(text)}</text>'
        )
        if k + 1 < len(fault.waits):
            parts.append(
                f'<path d="M60 {y + high} v{gap - 6} m-5 -7 l5 7 l5 -7" fill="none" stroke="#b06a00"/>'
                f'<text x="76" y="{y + high + 22}" fill="currentColor">waits for</text>'
            )
    bottom = 5 + (len(fault.waits) - 1) * (high + gap) + high / 2
    parts.append(
        f'<path d="M{wide + 5} {bottom} h30 V27 h-24 m7 -5 l-7 5 l7 5" fill="none" stroke="#b06a00"/></svg>'
    )
    return "".join(parts)
