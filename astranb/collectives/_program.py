"""The language in which collective algorithms are written.

An algorithm is a Python function over a :class:`Program`: it takes blocks, chunks and
semaphores of every rank and writes down what each thread block does. It runs when the
program is built, never while time passes. It is called once for each *lane*: a lane is
one set of thread blocks, and every chunk is cut into as many pieces as there are lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from astranb.core.errors import InputError, near

from ._operation import SWITCH_READS, SWITCH_WRITES, Chunk, Operation, Semaphore
from ._rank import Channels, Rank
from ._source import line_of_caller

__all__ = [
    "PROTOCOLS",
    "SWITCH_READS",
    "SWITCH_WRITES",
    "Block",
    "Buffer",
    "Chunk",
    "Operation",
    "Program",
    "Semaphore",
]

PROTOCOLS = ("Simple", "LL", "LL128")
"""How a receiver learns that data has come (NCCL's names): ``Simple`` by a semaphore that the
sender raises behind a fence; ``LL`` and ``LL128`` by a flag in every 8 or every 128 bytes."""


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
                hint=f"the buffer has {self._chunks} chunks" if self._chunks else "chunks count from 0",
            )
        return Chunk(self._rank, self._name, index, self._program.lane)


@dataclass(slots=True)
class Block:
    """One thread block of one rank: a list of operations, carried out in order.

    A move starts when the one before it has issued all its stores. Where it reads or
    writes what an earlier move of this block stored, and before every signal, the block
    first waits until those stores are acknowledged (a fence); the builder sees to that.

    Attributes
    ----------
    unit : str
        ``"sm"``, or ``"engine"`` for the list of descriptors of a copy engine.
    kernel : int
        Number of the kernel it belongs to; kernels are launched in this order.
    """

    program: Program
    rank: int
    lane: int
    unit: str = "sm"
    kernel: int = 0
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

    def switch_reduce(self, sources: Iterable[Chunk], *targets: Chunk) -> None:
        """Have a switch read the same line of every rank and add them up (``multimem.ld_reduce``)."""
        self._move(tuple(sources), targets, SWITCH_READS)

    def switch_store(self, source: Chunk, *targets: Chunk) -> None:
        """Store once; a switch passes the line on to every target (``multimem.st``)."""
        self._move((source,), targets, SWITCH_WRITES)

    def switch_reduce_store(self, sources: Iterable[Chunk], *targets: Chunk) -> None:
        """Have a switch add the sources up, and pass the sum on to every target."""
        self._move(tuple(sources), targets, SWITCH_READS | SWITCH_WRITES)

    def signal(self, semaphore: Semaphore, value: int = 1, *, relaxed: bool = False) -> None:
        """Add to a semaphore, once everything this block has stored is acknowledged.

        Parameters
        ----------
        semaphore : Semaphore
        value : int
        relaxed : bool
            Do not wait for the stores before it: right only where they need no order.
        """
        self._own(semaphore)
        if value < 1:
            raise InputError(f"a signal adds at least 1, got {value}", where=self._where)
        self._add("signal", semaphore=semaphore, value=value, relaxed=relaxed)

    def wait(self, semaphore: Semaphore, value: int = 1) -> None:
        """Wait until a semaphore of this rank has risen by ``value`` since this block's last wait."""
        self._own(semaphore)
        if semaphore.rank != self.rank:
            raise InputError(
                f"rank {self.rank} waits for a semaphore that lies on rank {semaphore.rank}",
                where=f"program {self.program.name!r}",
                hint="take the semaphore on the rank that waits",
            )
        if value < 1:
            raise InputError(f"a wait is for a rise of at least 1, got {value}", where=self._where)
        reached = self.waited.get(semaphore, 0) + value
        self.waited[semaphore] = reached
        self._add("wait", semaphore=semaphore, value=reached)

    def fence(self) -> None:
        """Wait until everything this block has stored is acknowledged (``__threadfence_system``)."""
        self._add("fence")

    def compute(self, instructions: int = 1) -> None:
        """Have every warp issue instructions that touch no memory (1: a ``__syncthreads``)."""
        if instructions < 1:
            raise InputError(f"at least one instruction, got {instructions}", where=self._where)
        self._add("compute", value=instructions)

    @property
    def _where(self) -> str:
        return f"program {self.program.name!r}, rank {self.rank}"

    def _own(self, semaphore: Semaphore) -> None:
        if not 0 <= semaphore.number < len(self.program.semaphores):
            raise InputError("a semaphore of another program", where=f"program {self.program.name!r}")

    def _local(self, chunk: Chunk, what: str) -> None:
        if chunk.rank != self.rank:
            raise InputError(
                f"rank {self.rank} cannot {what} {chunk}",
                where=f"program {self.program.name!r}",
                hint="use copy(), put() from the own rank or get() to it",
            )

    def _move(self, sources: Sequence[Chunk], targets: Sequence[Chunk], in_switch: int = 0) -> None:
        if not sources or not targets:
            raise InputError("a move needs at least one source and one target", where=self._where)
        if len(set(targets)) < len(targets):
            raise InputError("a move stores twice to the same chunk", where=self._where)
        for chunk in (*sources, *targets):
            if not isinstance(chunk, Chunk):
                raise InputError(f"not a chunk: {chunk!r}", where=self._where, hint="index a buffer")
        self._add("move", sources=tuple(sources), targets=tuple(targets), in_switch=in_switch)

    def _add(self, kind: str, **what: Any) -> None:
        self.program.count()
        self.operations.append(Operation(kind, self.current, line=line_of_caller(), **what))


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
    protocol : str
        One of :data:`PROTOCOLS`.
    per_node : int, optional
        Consecutive ranks that share a node; all of them where not given.

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
        self,
        name: str,
        *,
        ranks: int,
        lanes: int,
        input_chunks: int,
        output_chunks: int,
        root: int = 0,
        protocol: str = "Simple",
        per_node: int | None = None,
    ) -> None:
        if protocol not in PROTOCOLS:
            raise InputError(
                f"unknown protocol {protocol!r}", where="protocol", hint=near(protocol, PROTOCOLS)
            )
        self.name, self.ranks, self.lanes, self.root = name, ranks, lanes, root
        self.protocol = protocol
        self.per_node = per_node or ranks
        self.input_chunks, self.output_chunks = input_chunks, output_chunks
        self.lane = 0
        self.blocks: list[Block] = []
        self.semaphores: list[Semaphore] = []
        self.phases: list[str] = []
        self.kernels: list[str] = ["collective"]
        self._kernel = 0
        self.most_operations: int | None = None
        self._operations = 0

    @property
    def by_semaphore(self) -> bool:
        """Whether a receiver waits for a semaphore (``Simple``), not for flags in the data."""
        return self.protocol == "Simple"

    @property
    def everyone(self) -> list[Rank]:
        """All ranks in their order."""
        return [Rank(self, number) for number in range(self.ranks)]

    def rank(self, number: int) -> Rank:
        """One rank."""
        return Rank(self, self._rank(number))

    def channels(self) -> Channels:
        """Channels between the ranks, for the present lane."""
        return Channels(self)

    def kernel(self, name: str) -> None:
        """Begin another kernel: the blocks that follow belong to it.

        Kernels of a GPU are launched in this order and share its SMs: blocks take free
        places as they come, so that an earlier kernel's blocks go first.
        """
        if name not in self.kernels:
            self.kernels.append(name)
        self._kernel = self.kernels.index(name)

    def others(self, rank: int) -> list[int]:
        """All other ranks, so that neither ranks nor lanes turn to the same one at once.

        Each rank begins with a neighbour, each lane with another one: where GPUs are joined
        in pairs, all links carry something from the beginning.
        """
        first = self.lane % max(1, self.ranks - 1)
        return [(rank + 1 + (first + k) % (self.ranks - 1)) % self.ranks for k in range(self.ranks - 1)]

    def block(self, rank: int) -> Block:
        """Add a thread block to a rank, in the present lane."""
        block = Block(self, self._rank(rank), self.lane, kernel=self._kernel)
        self.blocks.append(block)
        return block

    def engine(self, rank: int) -> Block:
        """Add a list of descriptors for a copy engine (DMA) of a rank.

        An engine carries out moves in large requests without a thread block's help; it
        begins one behind a wait for a semaphore that a thread block raises.
        """
        block = Block(self, self._rank(rank), self.lane, "engine", self._kernel)
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

    def packets(self, rank: int) -> Buffer:
        """Working memory in which every line carries its own flags; written once."""
        return Buffer(self, self._rank(rank), "packets", None)

    def inbox(self, rank: int) -> Buffer:
        """Where messages arrive: scratch under ``Simple``, packets under ``LL`` and ``LL128``."""
        return self.scratch(rank) if self.by_semaphore else self.packets(rank)

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

    def count(self) -> None:
        """Count an operation, and refuse one too many where there is a limit."""
        self._operations += 1
        if self.most_operations is not None and self._operations > self.most_operations:
            raise InputError(
                f"more than {self.most_operations:,} operations",
                where=f"program {self.name!r}",
                hint="does a loop end? else take fewer ranks or lanes",
            )

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
                hint=f"ranks are 0 to {self.ranks - 1}",
            )
        return rank
