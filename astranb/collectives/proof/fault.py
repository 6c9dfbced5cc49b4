"""Faults of a program: the message, the operations, and the cycle of waits of a deadlock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from astranb.collectives.language import Block, Program, SourceLine, block_numbers
from astranb.core.colours import OKABE_ITO
from astranb.core.display import Displayed
from astranb.core.plural import plural
from astranb.core.svg import Path, Shape, SvgBox, Text, document

__all__ = ["KINDS", "Faults", "Flaw", "Namer", "draw_waits"]

_FILL, _EDGE = f"{OKABE_ITO[1]}33", "#b06a00"


@dataclass(frozen=True)
class Flaw(Displayed):
    """A fault of a program.

    Attributes
    ----------
    kind : str
        One of :data:`KINDS`, or ``more``: faults that are not listed.
    message : str
        One line.
    places : tuple of (int, int, int)
        For each operation its rank, its thread block in the rank, its number in the block: those of
        the file that the program was read from.
    severity : str
        ``"error"`` or ``"warning"``.
    waits : tuple of str
        For a deadlock: the operations of the cycle, each waiting for the next.
    lines : tuple of SourceLine
        The source lines of these operations, each once; empty if they are not known.
    count : int
        How many faults it stands for.
    """

    kind: str
    message: str
    places: tuple[tuple[int, int, int], ...] = ()
    severity: str = "error"
    waits: tuple[str, ...] = ()
    lines: tuple[SourceLine, ...] = ()
    count: int = 1

    def __str__(self) -> str:
        """Return the message, and below it each source line with its place."""
        return "\n    ".join([self.message, *map(str, self.lines)])


KINDS = (
    "deadlock", "semaphore", "packets", "race", "fence", "completion", "bounds", "size", "result",
)  # fmt: skip
"""The kinds of faults, in the order in which they are listed."""


class Namer:
    """Names blocks and operations: as a file numbers them, else by rank and by block of the rank."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._number = {id(block): number for block, number in block_numbers(program)}

    def place(self, block: Block, i: int) -> tuple[int, int, int]:
        """Return rank, block of the rank, and operation."""
        origin = block.operations[i].origin
        if origin is not None:
            return block.rank, origin.block, origin.number
        return block.rank, self._number[id(block)], i

    def block(self, block: Block) -> str:
        """Name a block."""
        return f"rank {block.rank} block {self._number[id(block)]}"

    def text(self, block: Block, i: int) -> str:
        """Describe an operation with its place and phase."""
        op = block.operations[i]
        rank, number, place = self.place(block, i)
        what = op.kind
        if op.origin is not None:
            what = op.origin.name
        elif op.semaphore is not None:
            what = f"{op.kind} semaphore {op.semaphore.number} ({op.value})"
        phase = self.program.phases[op.phase] if op.phase < len(self.program.phases) else ""
        if phase and op.origin is None:
            what += f", {phase}"
        return f"rank {rank} block {number} operation {place} [{what}]"

    def flaw(
        self,
        kind: str,
        message: str,
        *operations: tuple[Block, int],
        severity: str = "error",
        waits: tuple[str, ...] = (),
        count: int = 1,
    ) -> Flaw:
        """Return a fault of some operations, with their places and source lines."""
        places = tuple(dict.fromkeys(self.place(block, i) for block, i in operations))
        found = (block.operations[i].line for block, i in operations)
        lines = tuple(dict.fromkeys(line for line in found if line is not None))
        return Flaw(kind, f"{self.program.name}: {message}", places, severity, waits, lines, count)


class Faults:
    """Counts faults and describes the first ones of each kind.

    Parameters
    ----------
    namer : Namer
    most : int
        How many faults are listed.
    """

    def __init__(self, namer: Namer, most: int) -> None:
        self.namer, self._most = namer, most
        self._found: dict[str, list[Flaw]] = {kind: [] for kind in KINDS}
        self._count: Counter[str] = Counter()
        self._warnings: list[Flaw] = []

    def add(self, kind: str, describe: Callable[[], Flaw]) -> None:
        """Add a fault; it is described only if it is listed."""
        self._count[kind] += 1
        if len(self._found[kind]) < self._most:
            self._found[kind].append(describe())

    def warn(self, flaw: Flaw) -> None:
        """Add a warning."""
        self._warnings.append(flaw)

    def __bool__(self) -> bool:
        """Return whether there is an error."""
        return bool(self._count)

    def listed(self) -> list[Flaw]:
        """Return faults of every kind, errors before warnings; the last one stands for all others."""
        left = self._most
        shares = dict.fromkeys(KINDS, 0)
        while left and any(shares[kind] < len(self._found[kind]) for kind in KINDS):
            for kind in KINDS:
                if left and shares[kind] < len(self._found[kind]):
                    shares[kind] += 1
                    left -= 1
        flaws = [flaw for kind in KINDS for flaw in self._found[kind][: shares[kind]]]
        rest = {kind: count - shares[kind] for kind, count in self._count.items() if count > shares[kind]}
        if rest:
            which = ", ".join(f"{kind} {rest[kind]:,}" for kind in KINDS if kind in rest)
            count = sum(rest.values())
            flaws.append(self.namer.flaw("more", f"and {plural(count, 'more fault')}: {which}", count=count))
        return flaws + self._warnings[: self._most]


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
