"""Operations of thread blocks and what they name: chunks and semaphores, as objects and as integers."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from .source import SourceLine

__all__ = [
    "BUFFERS",
    "BUFFER_NUMBERS",
    "KINDS",
    "KIND_NUMBERS",
    "OPERATION_COLUMNS",
    "SWITCH_READS",
    "SWITCH_WRITES",
    "Chunk",
    "Chunks",
    "Operation",
    "OperationColumns",
    "Origin",
    "Semaphore",
    "pack_place",
    "unpack_place",
]

BUFFERS = ("input", "output", "scratch", "packets")
"""Names of the buffers; tables hold their position in this list."""

SWITCH_READS, SWITCH_WRITES = 1, 2

KINDS: Final = ("move", "signal", "wait", "fence", "compute")
"""Kinds of operations; columns hold their position in this list."""


class Chunk(NamedTuple):
    """One slice of one chunk of a rank's buffer: the slice that a channel moves."""

    rank: int
    buffer: str
    index: int  # type: ignore[assignment]  # hides the method of tuples
    channel: int

    def __str__(self) -> str:
        """Name it as errors and views do: ``rank 3 input[5]``."""
        return f"rank {self.rank} {self.buffer}[{self.index}]"


class Chunks(NamedTuple):
    """Chunks of one buffer: what a slice of it is."""

    rank: int
    buffer: str
    indices: range
    channel: int

    def __str__(self) -> str:
        """Name them as errors do: ``rank 3 input[4:8]``."""
        step = f":{self.indices.step}" if self.indices.step != 1 else ""
        return f"rank {self.rank} {self.buffer}[{self.indices.start}:{self.indices.stop}{step}]"

    def each(self) -> list[Chunk]:
        """Return the chunks one by one."""
        return [Chunk(self.rank, self.buffer, index, self.channel) for index in self.indices]


class Semaphore(NamedTuple):
    """A counter in one rank's memory: blocks of any rank add to it, blocks of its rank wait for it."""

    rank: int
    number: int


class Origin(NamedTuple):
    """An operation of a file: the number of its thread block, its own number, and its name."""

    block: int
    number: int
    name: str


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
    line: SourceLine | None = field(default=None, compare=False, repr=False)  # where it was written
    origin: Origin | None = field(default=None, compare=False, repr=False)  # of a plan from a file


class OperationColumns(NamedTuple):
    """The operations of a block as integers, one column each.

    Parameters
    ----------
    rows : array of int
        For each operation: position of its kind in :data:`KINDS`, phase, number of sources and of
        targets, number of its semaphore or -1, value, flags, and number of its source line.
        Bit 0 of the flags says that a signal is relaxed, the others are ``in_switch``.
    chunks : array of int
        For each source and then each target, two numbers: rank, channel and buffer, packed as
        :func:`pack_place` does, and the index.
    """

    rows: array[int]
    chunks: array[int]


OPERATION_COLUMNS: Final = 8
BUFFER_NUMBERS: Final = {name: number for number, name in enumerate(BUFFERS)}
KIND_NUMBERS: Final = {name: number for number, name in enumerate(KINDS)}
_CHANNEL_BITS: Final = 30
_BUFFER_BITS: Final = 2


def pack_place(rank: Any, channel: Any, buffer: Any) -> Any:
    """Pack the rank, channel and buffer number of chunks into one integer each.

    Examples
    --------
    >>> unpack_place(pack_place(3, 1, 2))
    (3, 1, 2)
    """
    return (rank << _CHANNEL_BITS | channel) << _BUFFER_BITS | buffer


def unpack_place(place: Any) -> tuple[Any, Any, Any]:
    """Return the rank, channel and buffer number that :func:`pack_place` has packed."""
    channel = place >> _BUFFER_BITS & (1 << _CHANNEL_BITS) - 1
    return place >> _CHANNEL_BITS + _BUFFER_BITS, channel, place & (1 << _BUFFER_BITS) - 1
