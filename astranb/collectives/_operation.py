"""What a program is made of: chunks, semaphores, and the operations on them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ._source import Line

__all__ = ["SWITCH_READS", "SWITCH_WRITES", "Chunk", "Operation", "Semaphore"]

SWITCH_READS, SWITCH_WRITES = 1, 2


@dataclass(frozen=True, slots=True)
class Chunk:
    """The piece of one chunk of one rank's buffer that the present lane moves."""

    rank: int
    buffer: str
    index: int
    lane: int

    def __str__(self) -> str:
        """Name it as errors and views do: ``rank 3 input[5]``."""
        return f"rank {self.rank} {self.buffer}[{self.index}]"


@dataclass(frozen=True, slots=True)
class Semaphore:
    """A counter in one rank's memory that blocks of any rank add to and one rank's blocks wait for."""

    rank: int
    number: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a thread block, as written."""

    kind: str  # "move", "signal", "wait", "fence", "compute"
    phase: int
    sources: tuple[Chunk, ...] = ()
    targets: tuple[Chunk, ...] = ()
    semaphore: Semaphore | None = None
    value: int = 0  # to add, to reach, or instructions to compute
    relaxed: bool = False  # a signal that does not wait for the stores before it
    in_switch: int = 0  # SWITCH_READS | SWITCH_WRITES
    line: Line | None = field(default=None, compare=False, repr=False)  # of the text that asked for it
