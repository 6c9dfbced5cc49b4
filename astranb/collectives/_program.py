"""The language in which collective algorithms are written.

An algorithm is a Python function over a :class:`Program`: it takes blocks, chunks and
semaphores of every rank and writes down what each thread block does. It runs when the
program is built, never while time passes. It is called once for each *lane*: a lane is
one set of thread blocks, and every chunk is cut into as many pieces as there are lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from astranb.core.errors import InputError

__all__ = ["Block", "Buffer", "Chunk", "Operation", "Program", "Semaphore"]


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

    kind: str  # "move", "signal", "wait"
    phase: int
    sources: tuple[Chunk, ...] = ()
    targets: tuple[Chunk, ...] = ()
    semaphore: Semaphore | None = None
    value: int = 0


class Buffer:
    """One rank's input, output or scratch memory; index it for a chunk."""

    def __init__(self, program: Program, rank: int, name: str, chunks: int | None) -> None:
        self._program, self._rank, self._name, self._chunks = program, rank, name, chunks

    def __getitem__(self, index: int) -> Chunk:
        """Return a chunk; a negative index or one beyond the buffer is an error."""
        if index < 0 or (self._chunks is not None and index >= self._chunks):
            raise InputError(
                f"{self._name}[{index}] of rank {self._rank} does not exist",
                where=f"program {self._program.name!r}",
                mend=f"the buffer has {self._chunks} chunks" if self._chunks else "chunks count from 0",
            )
        return Chunk(self._rank, self._name, index, self._program.lane)


@dataclass(slots=True)
class Block:
    """One thread block of one rank: a list of operations, carried out in order.

    A move starts when the one before it has issued all its stores. Where it reads or
    writes what an earlier move of this block stored, and before every signal, the block
    first waits until those stores are acknowledged (a fence); the builder sees to that.
    """

    program: Program
    rank: int
    lane: int
    operations: list[Operation] = field(default_factory=list)
    waited: dict[Semaphore, int] = field(default_factory=dict)
    current: int = 0

    def phase(self, name: str) -> None:
        """Say which phase of the collective the following operations belong to."""
        self.current = self.program.phase_number(name)

    def copy(self, source: Chunk, *targets: Chunk) -> None:
        """Load a chunk line by line and store it to one or several places, here or remote."""
        self._move((source,), targets)

    def put(self, source: Chunk, target: Chunk) -> None:
        """Copy a chunk of this rank to another rank."""
        self._local(source, "put from")
        self._move((source,), (target,))

    def get(self, source: Chunk, target: Chunk) -> None:
        """Copy a chunk of another rank to this rank."""
        self._local(target, "get to")
        self._move((source,), (target,))

    def reduce(self, sources: Iterable[Chunk], *targets: Chunk) -> None:
        """Load the same line of several chunks, add them up, and store the sum."""
        self._move(tuple(sources), targets)

    def signal(self, semaphore: Semaphore, value: int = 1) -> None:
        """Add to a semaphore, once everything this block has stored is acknowledged."""
        self._own(semaphore)
        self.operations.append(Operation("signal", self.current, semaphore=semaphore, value=value))

    def wait(self, semaphore: Semaphore, value: int = 1) -> None:
        """Wait until a semaphore of this rank has risen by ``value`` since this block's last wait."""
        self._own(semaphore)
        if semaphore.rank != self.rank:
            raise InputError(
                f"rank {self.rank} waits for a semaphore that lies on rank {semaphore.rank}",
                where=f"program {self.program.name!r}",
                mend="take the semaphore on the rank that waits",
            )
        reached = self.waited.get(semaphore, 0) + value
        self.waited[semaphore] = reached
        self.operations.append(Operation("wait", self.current, semaphore=semaphore, value=reached))

    def _own(self, semaphore: Semaphore) -> None:
        if not 0 <= semaphore.number < len(self.program.semaphores):
            raise InputError("a semaphore of another program", where=f"program {self.program.name!r}")

    def _local(self, chunk: Chunk, what: str) -> None:
        if chunk.rank != self.rank:
            raise InputError(
                f"rank {self.rank} cannot {what} {chunk}",
                where=f"program {self.program.name!r}",
                mend="use copy(), put() from the own rank or get() to it",
            )

    def _move(self, sources: Sequence[Chunk], targets: Sequence[Chunk]) -> None:
        if not sources or not targets:
            raise InputError(
                "a move needs at least one source and one target",
                where=f"program {self.program.name!r}, rank {self.rank}",
            )
        if len(set(targets)) < len(targets):
            raise InputError(
                "a move stores twice to the same chunk",
                where=f"program {self.program.name!r}, rank {self.rank}",
            )
        self.operations.append(Operation("move", self.current, tuple(sources), tuple(targets)))


class Program:
    """What every thread block of every rank does: the thing an algorithm writes.

    Parameters
    ----------
    name : str
        For errors and views, as ``all_reduce/ring``.
    ranks : int
        How many ranks take part.
    lanes : int
        How many sets of thread blocks share the work.
    input_chunks, output_chunks : int
        Chunks of each rank's input and output buffer.
    root : int
        The root of a rooted collective.

    Examples
    --------
    Each rank hands its only chunk to its neighbour:

    >>> program = Program("shift", ranks=4, lanes=1, input_chunks=1, output_chunks=1)
    >>> for rank in range(program.ranks):
    ...     block = program.block(rank)
    ...     block.put(program.input(rank)[0], program.output((rank + 1) % 4)[0])
    >>> len(program.blocks)
    4
    """

    def __init__(
        self, name: str, *, ranks: int, lanes: int, input_chunks: int, output_chunks: int, root: int = 0
    ) -> None:
        self.name, self.ranks, self.lanes, self.root = name, ranks, lanes, root
        self.input_chunks, self.output_chunks = input_chunks, output_chunks
        self.lane = 0
        self.blocks: list[Block] = []
        self.semaphores: list[Semaphore] = []
        self.phases: list[str] = []

    def block(self, rank: int) -> Block:
        """Add a thread block to a rank, in the present lane."""
        block = Block(self, self._rank(rank), self.lane)
        self.blocks.append(block)
        return block

    def semaphore(self, rank: int) -> Semaphore:
        """Add a semaphore, 0 at the start, to a rank's memory."""
        semaphore = Semaphore(self._rank(rank), len(self.semaphores))
        self.semaphores.append(semaphore)
        return semaphore

    def input(self, rank: int) -> Buffer:
        """The buffer that holds what the rank brings."""
        return Buffer(self, self._rank(rank), "input", self.input_chunks)

    def output(self, rank: int) -> Buffer:
        """The buffer in which the result must stand."""
        return Buffer(self, self._rank(rank), "output", self.output_chunks)

    def scratch(self, rank: int) -> Buffer:
        """Working memory: any index; a chunk is as large as what is put there."""
        return Buffer(self, self._rank(rank), "scratch", None)

    def barrier(self, blocks: Sequence[Block]) -> None:
        """Let no block of the list go on before all have come here.

        Every block signals one semaphore on each rank and waits for its own rank's to
        count them all, as the multi-GPU barriers of real kernels do.
        """
        ranks = sorted({block.rank for block in blocks})
        gates = {rank: self.semaphore(rank) for rank in ranks}
        for block in blocks:
            for turn in range(len(ranks)):
                # Each rank starts at its own neighbour, so that no rank is hit by all at once.
                block.signal(gates[ranks[(ranks.index(block.rank) + 1 + turn) % len(ranks)]])
            block.wait(gates[block.rank], len(blocks))

    def phase_number(self, name: str) -> int:
        """Number of a phase by its name; a new name is a new phase."""
        if name not in self.phases:
            self.phases.append(name)
        return self.phases.index(name)

    def _rank(self, rank: int) -> int:
        if not 0 <= rank < self.ranks:
            raise InputError(
                f"rank {rank} does not exist",
                where=f"program {self.name!r}",
                mend=f"ranks are 0 to {self.ranks - 1}",
            )
        return rank
