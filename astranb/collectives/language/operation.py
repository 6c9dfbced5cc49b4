"""Operations of thread blocks and what they name: chunks and semaphores, as objects and as integers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from .fifo import index_name
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
    "TileShape",
    "as_chunks",
    "pack_flags",
    "pack_place",
    "to_columns",
    "to_objects",
    "unpack_flags",
    "unpack_place",
]

BUFFERS = ("input", "output", "scratch", "packets", "panels")
"""Names of the buffers; tables hold their position in this list."""

SWITCH_READS, SWITCH_WRITES = 1, 2

KINDS: Final = ("move", "signal", "wait", "fence", "compute", "waitcnt", "tile", "spend")
"""Kinds of operations; columns hold their position in this list."""


class Chunk(NamedTuple):
    """One slice of one chunk of a rank's buffer: the slice that a channel moves."""

    rank: int
    buffer: str
    index: int  # type: ignore[assignment]  # hides the method of tuples
    channel: int

    def __str__(self) -> str:
        """Name it as errors and views do: ``rank 3 input[5]``."""
        return f"rank {self.rank} {self.buffer}[{index_name(self.index)}]"


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks of one buffer: what a slice of it is. A loop goes through them."""

    rank: int
    buffer: str
    indices: range
    channel: int

    def __str__(self) -> str:
        """Name them as errors do: ``rank 3 input[4:8]``."""
        step = f":{self.indices.step}" if self.indices.step != 1 else ""
        return f"rank {self.rank} {self.buffer}[{self.indices.start}:{self.indices.stop}{step}]"

    def __iter__(self) -> Iterator[Chunk]:
        """Go through the chunks."""
        return (Chunk(self.rank, self.buffer, index, self.channel) for index in self.indices)

    def __len__(self) -> int:
        """Return their number."""
        return len(self.indices)


class Semaphore(NamedTuple):
    """A counter in one rank's memory: blocks of any rank add to it, blocks of its rank wait for it."""

    rank: int
    number: int


class TileShape(NamedTuple):
    """A part of a product of matrices in two bytes a number: rows by k, times k by columns.

    Examples
    --------
    >>> tile = TileShape(128, 256, 1024)
    >>> tile.operand_bytes, tile.result_bytes
    ((262144, 524288), 65536)
    """

    rows: int
    columns: int
    k: int

    @property
    def operand_bytes(self) -> tuple[int, int]:
        """Bytes of its rows and of its columns."""
        return _NUMBER_BYTES * self.rows * self.k, _NUMBER_BYTES * self.columns * self.k

    @property
    def result_bytes(self) -> int:
        """Bytes of the result."""
        return _NUMBER_BYTES * self.rows * self.columns

    def __str__(self) -> str:
        """Return rows, columns and k: ``128 x 256 x 1024``."""
        return f"{self.rows} x {self.columns} x {self.k}"


class Origin(NamedTuple):
    """An operation of a file: the number of its thread block, its own number, and its name."""

    block: int
    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a thread block, as written."""

    kind: str  # one of KINDS
    phase: int
    sources: tuple[Chunk, ...] = ()
    targets: tuple[Chunk, ...] = ()
    semaphore: Semaphore | None = None
    value: int = (
        0  # to add, to reach, instructions to compute, moves left by a waitcnt, number of a tile's shape
    )
    relaxed: bool = False  # a signal that does not wait for the stores before it
    in_switch: int = 0  # SWITCH_READS | SWITCH_WRITES
    behind: int = 0  # a signal that only follows the stores of so many last moves, while the block goes on
    line: SourceLine | None = field(default=None, compare=False, repr=False)  # where it was written
    origin: Origin | None = field(default=None, compare=False, repr=False)  # of a plan from a file


class OperationColumns(NamedTuple):
    """The operations of a block as integers, one column each.

    Parameters
    ----------
    rows : array of int
        For each operation: position of its kind in :data:`KINDS`, phase, number of sources and of
        targets, number of its semaphore or -1, value, flags, and number of its source line.
        Of the flags (see :func:`pack_flags`) one says that a signal is relaxed.
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
_BUFFER_BITS: Final = 3
_NUMBER_BYTES: Final = 2


def as_chunks(given: Chunk | Chunks | Iterable[Chunk | Chunks]) -> tuple[Chunk | Chunks, ...]:
    """Return one chunk, or several, as a tuple.

    Examples
    --------
    >>> chunk = Chunk(0, "input", 3, 0)
    >>> as_chunks(chunk) == as_chunks([chunk]) == (chunk,)
    True
    """
    return (given,) if isinstance(given, Chunk | Chunks) or not isinstance(given, Iterable) else tuple(given)


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


def pack_flags(relaxed: Any, in_switch: Any, behind: Any) -> Any:
    """Pack three fields of operations into one integer each.

    Examples
    --------
    >>> unpack_flags(pack_flags(True, 0, 3))
    (True, 0, 3)
    """
    return relaxed | in_switch << 1 | behind << 3


def unpack_flags(flags: Any) -> tuple[Any, Any, Any]:
    """Return what :func:`pack_flags` has packed: whether a signal is relaxed, ``in_switch``, ``behind``."""
    return flags & 1 == 1, flags >> 1 & 3, flags >> 3


def to_columns(
    operations: Iterable[Operation], number_of: Callable[[SourceLine | None], int]
) -> OperationColumns:
    """Return operations as integers; ``number_of`` numbers their source lines."""
    found = OperationColumns(array("q"), array("q"))
    for op in operations:
        number = op.semaphore.number if op.semaphore is not None else -1
        flags = pack_flags(op.relaxed, op.in_switch, op.behind)
        line = number_of(op.line)
        found.rows.extend(
            (KIND_NUMBERS[op.kind], op.phase, len(op.sources), len(op.targets), number, op.value, flags, line)
        )
        for rank, buffer, index, channel in (*op.sources, *op.targets):
            found.chunks.extend((pack_place(rank, channel, BUFFER_NUMBERS[buffer]), index))
    return found


def to_objects(
    columns: OperationColumns, lines: Sequence[SourceLine | None], semaphores: Sequence[Semaphore]
) -> list[Operation]:
    """Return operations as objects, from the integers that stand for them."""
    found: list[Operation] = []
    rows, width = columns.rows.tolist(), OPERATION_COLUMNS
    chunks = []
    for place, index in zip(columns.chunks[::2], columns.chunks[1::2], strict=True):
        rank, channel, buffer = unpack_place(place)
        chunks.append(Chunk(rank, BUFFERS[buffer], index, channel))
    first = 0
    for at in range(0, len(rows), width):
        kind, phase, reads, writes, number, value, flags, line = rows[at : at + width]
        middle, last = first + reads, first + reads + writes
        found.append(
            Operation(
                KINDS[kind],
                phase,
                tuple(chunks[first:middle]),
                tuple(chunks[middle:last]),
                semaphores[number] if number >= 0 else None,
                value,
                *unpack_flags(flags),
                lines[line],
            )
        )
        first = last
    return found
