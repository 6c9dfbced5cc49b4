"""The language in which collective algorithms are written.

An algorithm is a Python function over a :class:`Program`: it takes thread blocks, chunks and
semaphores of every rank and lists what each thread block does. It runs when the program is
built, never while time passes. It is called once for each *channel*: a channel is one set of
thread blocks, as in NCCL, and every chunk is cut into as many slices as there are channels.

What MSCCL++ calls a channel, the link from one rank to one peer with its semaphore, is a
:class:`Connection` here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError
from astranb.core.progress import share
from astranb.core.state import require_bytes
from astranb.net.shape import Shape

from .buffer import Buffer
from .connection import Connection, Connections
from .fifo import FIRST_SENT, Cut
from .layout import ChunkLayout
from .operation import (
    BUFFER_NUMBERS,
    BUFFERS,
    KIND_NUMBERS,
    KINDS,
    OPERATION_COLUMNS,
    SWITCH_READS,
    SWITCH_WRITES,
    Chunk,
    Chunks,
    Operation,
    OperationColumns,
    Origin,
    Semaphore,
    TileShape,
    pack_place,
    to_columns,
    to_objects,
)
from .orders import node_chains, ring_order
from .protocol import PROTOCOLS, check_protocol
from .source import SourceLine, line_of_caller
from .work_queue import WorkQueue

__all__ = [
    "BUFFERS",
    "BYTES_PER_OPERATION",
    "KINDS",
    "PROTOCOLS",
    "SWITCH_READS",
    "SWITCH_WRITES",
    "Block",
    "Buffer",
    "Chunk",
    "Connection",
    "Connections",
    "Operation",
    "Origin",
    "Program",
    "Rank",
    "Semaphore",
    "TileShape",
    "check_protocol",
]


class Block:
    """One thread block of one rank: a list of operations, executed in order.

    A move starts when the one before it has issued all its stores. Where it reads or
    writes what an earlier move of this block stored, and before every signal, the block
    first waits until those stores are acknowledged (a fence); the lowering adds these fences.

    Operations are kept as integers, because a program of a thousand ranks has millions of them.
    Whoever asks for :attr:`operations` gets a list of objects, which the block uses from then on.

    Attributes
    ----------
    unit : str
        ``"sm"``, ``"engine"`` for the list of descriptors of a copy engine, or ``"nic"`` for the work
        requests of a NIC.
    kernel : int
        Number of the kernel it belongs to; kernels are launched in this order.
    warps : int
        How many it has; 0: as many as the GPU's preset says.
    lines_ahead, per_sm : int
        Lines that its warps keep under way, and how many such blocks an SM takes; 0: as the preset says.
    origin : Origin, optional
        Where the operations that are added next stand in a file.
    added : bool
        Whether it is not in the file: it copies what stays where it is in a plan in place.
    """

    __slots__ = (
        "_chunks", "_near", "_nic", "_operations", "_rows", "added", "channel", "current", "kernel",
        "lines_ahead", "origin", "per_sm", "program", "rank", "unit", "waited", "warps",
    )  # fmt: skip

    def __init__(
        self, program: Program, rank: int, channel: int, unit: str = "sm", kernel: int = 0, warps: int = 0
    ) -> None:
        self.program, self.rank, self.channel, self.unit, self.kernel = program, rank, channel, unit, kernel
        self.warps = warps
        self.waited: dict[Semaphore, int] = {}
        self.current = self.lines_ahead = self.per_sm = 0
        self.origin: Origin | None = None
        self.added = False
        self._rows, self._chunks = array("q"), array("q")
        self._operations: list[Operation] | None = None
        self._nic: WorkQueue | None = None
        self._near: range | None = None  # ranks that it reaches without a NIC, if there are others
        if unit == "sm" and program.nics_move:
            first = rank - rank % program.per_node
            self._near = range(first, first + program.per_node)

    @property
    def operations(self) -> list[Operation]:
        """The operations as objects; a change of the list changes the block."""
        if self._operations is None:
            columns = OperationColumns(self._rows, self._chunks)
            self._operations = to_objects(columns, list(self.program.lines), self.program.semaphores)
            self._rows, self._chunks = array("q"), array("q")
        return self._operations

    @operations.setter
    def operations(self, operations: list[Operation]) -> None:
        self._operations = operations
        self._rows, self._chunks = array("q"), array("q")

    @property
    def columns(self) -> OperationColumns:
        """The operations as integers."""
        if self._operations is None:
            return OperationColumns(self._rows, self._chunks)
        return to_columns(self._operations, self.program.number_of)

    def phase(self, name: str) -> None:
        """Begin a phase of the collective: the following operations belong to it."""
        self.current = self.program.phase_number(name)

    def copy(self, source: Chunk | Chunks, *targets: Chunk | Chunks) -> None:
        """Load a chunk line by line and store it to one or several chunks, local or remote.

        Here and in all other moves, slices of buffers stand for one operation for each of their chunks.
        """
        self.move((source,), targets)

    def put(self, source: Chunk | Chunks, target: Chunk | Chunks) -> None:
        """Copy a chunk of this rank to another rank."""
        self._local(source, "put from")
        self.move((source,), (target,))

    def get(self, source: Chunk | Chunks, target: Chunk | Chunks) -> None:
        """Copy a chunk of another rank to this rank."""
        self._local(target, "get to")
        self.move((source,), (target,))

    def post(self, source: Chunk | Chunks, target: Chunk | Chunks) -> None:
        """Let the NIC read a chunk of this rank and write it to another node; else as :meth:`put`.

        A put stores to a send buffer, from which the NIC reads; this saves that copy. The chunk must
        not change until the other rank has signalled that the data has come.
        """
        self._local(source, "post")
        if self._near is None or target.rank in self._near:
            return self.move((source,), (target,))
        return self._work_queue().add(source, target)

    def post_by(self, requests: Block) -> None:
        """Let a NIC of this node, by its list, write all that this block will have for other nodes."""
        self._nic = WorkQueue(self, requests, self.program)

    def reduce(self, sources: Iterable[Chunk | Chunks], *targets: Chunk | Chunks) -> None:
        """Load the same line of several chunks, add the lines, and store the sum."""
        self.move(tuple(sources), targets)

    def switch_reduce(self, sources: Iterable[Chunk], *targets: Chunk) -> None:
        """Let a switch read the same line of every rank and return the sum (``multimem.ld_reduce``)."""
        self.move(tuple(sources), targets, SWITCH_READS)

    def switch_store(self, source: Chunk, *targets: Chunk) -> None:
        """Store once; a switch forwards the line to every target (``multimem.st``)."""
        self.move((source,), targets, SWITCH_WRITES)

    def switch_reduce_store(self, sources: Iterable[Chunk], *targets: Chunk) -> None:
        """Let a switch add the sources and forward the sum to every target."""
        self.move(tuple(sources), targets, SWITCH_READS | SWITCH_WRITES)

    def move(
        self, sources: Sequence[Chunk | Chunks], targets: Sequence[Chunk | Chunks], in_switch: int = 0
    ) -> None:
        """Load the lines of one or several chunks, add them, and store the sum.

        ``in_switch`` says whether a switch adds (``SWITCH_READS``) or forwards (``SWITCH_WRITES``) them.
        """
        if not sources or not targets:
            raise InputError("a move needs at least one source and one target", where=self._where)
        if len(targets) > 1 and len(set(targets)) < len(targets):
            raise InputError("a move cannot store twice to the same chunk", where=self._where)
        if self._near is not None and not in_switch:
            far = [target for target in targets if target.rank not in self._near]
            if far:
                return self._work_queue().move(sources, targets, far)
        chunks: list[Any] = [*sources, *targets]
        for chunk in chunks:
            if not isinstance(chunk, Chunk):
                return self._add_many(chunks, len(sources), in_switch << 1)
        self._add("move", len(sources), len(targets), chunks, flags=in_switch << 1)
        return None

    def signal(self, semaphore: Semaphore, value: int = 1, *, relaxed: bool = False) -> None:
        """Add to a semaphore once everything that this block has stored is acknowledged.

        Parameters
        ----------
        semaphore : Semaphore
        value : int
        relaxed : bool
            Do not wait for the earlier stores: correct only where they need no order.
        """
        self._own(semaphore)
        if value < 1:
            raise InputError(f"a signal must add at least 1, got {value}", where=self._where)
        if self._near is not None and semaphore.rank not in self._near:
            return self._work_queue().signal(semaphore, value)
        self._add("signal", semaphore=semaphore, value=value, flags=int(relaxed))
        return None

    def wait(self, semaphore: Semaphore, value: int = 1) -> None:
        """Wait until a semaphore of this rank has risen by ``value`` since this block's last wait."""
        self._own(semaphore)
        if semaphore.rank != self.rank:
            raise InputError(
                f"rank {self.rank} cannot wait for a semaphore of rank {semaphore.rank}",
                where=f"program {self.program.name!r}",
                hint="use a semaphore of the rank that waits",
            )
        if value < 1:
            raise InputError(f"a wait must be for a rise of at least 1, got {value}", where=self._where)
        reached = self.waited.get(semaphore, 0) + value
        self.waited[semaphore] = reached
        self._add("wait", semaphore=semaphore, value=reached)

    def fence(self) -> None:
        """Wait until everything that this block has stored is acknowledged (``__threadfence_system``)."""
        self._add("fence")

    def waitcnt(self, most: int) -> None:
        """Wait until only the last ``most`` moves of this block have stores that are not acknowledged.

        ``signal(relaxed=True)`` may then announce what those before them stored, while later stores are
        under way (AMD's ``s_waitcnt vmcnt(n)``, CUDA's ``cp.async.wait_group n``). A NIC's are not counted.
        """
        if most < 0:
            raise InputError(f"waitcnt() needs a number of moves from 0, got {most}", where=self._where)
        self._add("waitcnt", value=most)

    def product(self, rows: int, columns: int, k: int, of: tuple[Chunk, Chunk], to: Chunk) -> None:
        """Compute a tile of a product of matrices with the SM's matrix units, and store it.

        Numbers have two bytes. An input chunk that it stores is not there before.

        Parameters
        ----------
        rows, columns, k : int
            A tile that the GPU's library has; ``k`` is a multiple of 64.
        of : tuple of (Chunk, Chunk)
            Rows of the first matrix and columns of the second one: :attr:`Rank.panels`, or what has come.
        to : Chunk
            An input chunk of this rank (its contribution), or one of its panels or of scratch.

        Examples
        --------
        >>> program = Program("reduce_scatter", ranks=2, channels=1, input_chunks=2, output_chunks=1)
        >>> me, you = program.everyone
        >>> block = me.block()
        >>> block.product(128, 256, 1024, (me.panels[0], me.panels[1]), me.input[1])
        >>> block.put(me.input[1], you.scratch[0])
        >>> [op.kind for op in block.operations]
        ['tile', 'move', 'move']
        """
        tile = TileShape(rows, columns, k)
        if min(tile) < 1 or k % _STEP:
            hint = f"take positive numbers, and a multiple of {_STEP} for k"
            raise InputError(f"no product of {tile}", where=self._where, hint=hint)
        for chunk in (*of, to):
            self._local(chunk, "compute with")
        if to.buffer == "output":
            hint = "store an input chunk, and copy it"
            raise InputError(f"a product cannot store {to}", where=self._where, hint=hint)
        for chunk, size in zip((*of, to), (*tile.operand_bytes, tile.result_bytes), strict=True):
            self.program.fix(chunk, size)
        shapes = self.program.tiles
        self._add("tile", 2, 0, of, value=shapes.setdefault(tile, len(shapes)))
        self._add("move", 0, 1, (to,))

    def compute(self, instructions: int = 1) -> None:
        """Let every warp issue instructions that access no memory (1: a ``__syncthreads``)."""
        if instructions < 1:
            raise InputError(
                f"compute() needs at least one instruction, got {instructions}", where=self._where
            )
        self._add("compute", value=instructions)

    def spend(self, time_ps: int) -> None:
        """Let the block do nothing for a time of up to 2 ms: what is not simulated."""
        self._add("spend", value=time_ps)

    def finish(self) -> None:
        """Post what no signal has announced: nothing else is added to this block."""
        if self._nic is not None:
            for rank in list(self._nic.pending):
                self._nic.post(rank)

    @property
    def count(self) -> int:
        """Number of its operations."""
        listed = self._operations
        return len(self._rows) // OPERATION_COLUMNS if listed is None else len(listed)

    def _work_queue(self) -> WorkQueue:
        if self._nic is None:
            self._nic = WorkQueue(self, self.program.nic(self.rank, self.channel), self.program)
        return self._nic

    @property
    def _where(self) -> str:
        return f"program {self.program.name!r}, rank {self.rank}"

    def _own(self, semaphore: Semaphore) -> None:
        number, known = semaphore.number, self.program.semaphores
        if not (0 <= number < len(known) and known[number] == semaphore):
            raise InputError("the semaphore is of another program", where=f"program {self.program.name!r}")

    def _local(self, chunk: Chunk | Chunks, what: str) -> None:
        if chunk.rank != self.rank:
            raise InputError(
                f"rank {self.rank} cannot {what} {chunk}",
                where=f"program {self.program.name!r}",
                hint="use copy(), or put() from this rank, or get() to it",
            )

    def _add(
        self,
        kind: str,
        sources: int = 0,
        targets: int = 0,
        chunks: Sequence[Chunk] = (),
        semaphore: Semaphore | None = None,
        value: int = 0,
        flags: int = 0,
    ) -> None:
        self.program.count()
        line = line_of_caller()
        if self._operations is None and self.origin is None:
            number = semaphore.number if semaphore is not None else -1
            at = self.program.number_of(line)
            self._rows.extend((KIND_NUMBERS[kind], self.current, sources, targets, number, value, flags, at))
            extend = self._chunks.extend
            for rank, buffer, index, channel in chunks:
                # As pack_place does, without a call: a large program has millions of chunks.
                extend(((rank << 30 | channel) << 3 | BUFFER_NUMBERS[buffer], index))
            return
        self.operations.append(
            Operation(
                kind,
                self.current,
                tuple(chunks[:sources]),
                tuple(chunks[sources:]),
                semaphore,
                value,
                bool(flags & 1),
                flags >> 1,
                line,
                self.origin,
            )
        )

    def _add_many(self, slices: Sequence[Any], sources: int, flags: int) -> None:
        """Add a move for each chunk of slices."""
        for one in slices:
            if not isinstance(one, Chunk | Chunks):
                raise InputError(f"not a chunk: {one!r}", where=self._where, hint="index a buffer")
        if len({len(one.indices) if isinstance(one, Chunks) else 1 for one in slices}) > 1:
            raise InputError(
                f"a move between slices of different lengths: {', '.join(map(str, slices))}",
                where=self._where,
                hint="use slices of equal length",
            )
        targets = [(one.rank, one.buffer, one.channel) for one in slices[sources:]]
        each = (one.each() if isinstance(one, Chunks) else [one] for one in slices)
        if self._operations is not None or self.origin is not None or len(set(targets)) < len(targets):
            for chunks in zip(*each, strict=True):
                self.move(chunks[:sources], chunks[sources:], flags >> 1)
            return
        count = len(slices[0].indices) if isinstance(slices[0], Chunks) else 1
        self.program.count(count)
        at = self.program.number_of(line_of_caller())
        row = (KIND_NUMBERS["move"], self.current, sources, len(targets), -1, 0, flags, at)
        self._rows.frombytes(np.tile(np.array(row, np.int64), count).tobytes())
        chunks_of = np.empty((count, len(slices), 2), np.int64)
        for k, one in enumerate(slices):
            chunks_of[:, k, 0] = pack_place(one.rank, one.channel, BUFFER_NUMBERS[one.buffer])
            chunks_of[:, k, 1] = one.indices if isinstance(one, Chunks) else one.index
        self._chunks.frombytes(chunks_of.tobytes())


_STEP: Final = 64  # numbers of two bytes in a line, that a step of a product takes of each row
_FITTING: Final = 2**18  # a program of so few operations is not checked for memory
BYTES_PER_OPERATION: Final = 800  # what lowering takes at its peak (measured: 900 B with 2.5 chunks)


class Program:
    """What every thread block of every rank does; an algorithm fills it.

    Parameters
    ----------
    name : str
        For errors and views: ``all_reduce/ring``.
    ranks : int
        Number of ranks.
    channels : int
        Number of channels, the sets of thread blocks that share the work.
    input_chunks, output_chunks : int
        Chunks of each rank's input and output buffer.
    root : int
        The root of a rooted collective.
    protocol : str
        One of :data:`PROTOCOLS`.
    shape : Shape, optional
        How the ranks are joined; by default all share a node with switches.
    size : int, optional
        Bytes of the larger buffer of a rank; if it is given, the program is proved for this size.
    cut : Cut
        How a channel's part of each chunk is cut, and the slots of the buffer between two ranks.

    Attributes
    ----------
    lines : dict of SourceLine to int
        The source lines that have written operations, numbered.
    same_memory : dict of Chunk to Chunk
        For a plan in place: the chunk of the buffer whose memory another chunk shares.
    credits : dict of Semaphore to int
        How often a semaphore is waited for that needs no signal, because it does not start at 0.
    frees : set of Semaphore
        The semaphores by which receivers free slots: packets do not replace them.
    layout : ChunkLayout, optional
        The chunks of inputs and outputs, where they do not follow from the collective.
    sms, lines_per_sm : int
        SMs of each GPU that take its thread blocks, and lines that one keeps under way at least; 0: all,
        and as the preset says.
    tiles : dict of TileShape to int
        The shapes of tiles that blocks compute, numbered.
    fixed : dict of Chunk to int
        The bytes of each chunk that a product reads or stores.

    Examples
    --------
    Each rank puts its only chunk to its neighbour:

    >>> program = Program("shift", ranks=4, channels=1, input_chunks=1, output_chunks=1)
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
        channels: int,
        input_chunks: int,
        output_chunks: int,
        root: int = 0,
        protocol: str = "Simple",
        shape: Shape | None = None,
        size: int | None = None,
        cut: Cut = Cut(),  # noqa: B008 - immutable
    ) -> None:
        check_protocol(protocol)
        self.name, self.ranks, self.channels, self.root = name, ranks, channels, root
        self.protocol = protocol
        self.shape = shape or Shape(ranks)
        self.input_chunks, self.output_chunks = input_chunks, output_chunks
        self.size = size
        self.same_memory: dict[Chunk, Chunk] = {}
        self.credits: dict[Semaphore, int] = {}
        self.frees: set[Semaphore] = set()
        self.cut = cut
        self._part = 0
        self.channel = self.sms = self.lines_per_sm = 0
        self.layout: ChunkLayout | None = None
        self.tiles: dict[TileShape, int] = {}
        self.fixed: dict[Chunk, int] = {}
        self.lines: dict[SourceLine | None, int] = {}
        self.blocks: list[Block] = []
        self.semaphores: list[Semaphore] = []
        self.phases: list[str] = []
        self.kernels: list[str] = ["collective"]
        self._kernel = 0
        self._sent: dict[tuple[int, int], int] = {}
        self.most_operations: int | None = None
        self._operations = 0
        self._fitting = _FITTING

    @property
    def everyone(self) -> list[Rank]:
        """All ranks in order."""
        return [Rank(self, number) for number in range(self.ranks)]

    def rank(self, number: int) -> Rank:
        """One rank."""
        return Rank(self, self._rank(number))

    @property
    def per_node(self) -> int:
        """Consecutive ranks that share a node."""
        return self.shape.per_node

    @property
    def width(self) -> int:
        """Slices of each chunk, of all channels."""
        return self.channels * self.cut.of_channel

    @property
    def slice_number(self) -> int:
        """The slice of each chunk that is worked on."""
        return self.channel * self.cut.of_channel + self._part

    def rounds(self) -> Iterator[range]:
        """Go through the rounds of the current channel: of each, the slices (see :meth:`slices`)."""
        for first in range(0, self.cut.of_channel, self.cut.slices):
            yield range(first, first + self.cut.slices)

    def slices(self, of_round: range | None = None) -> Iterator[int]:
        """Go through a channel's slices: chunks of buffers are these while the caller's loop is at them."""
        parts = range(self.cut.of_channel) if of_round is None else of_round
        for self._part in parts:
            yield self._part
        self._part = 0

    def ring(self, first: int | None = None) -> tuple[int, ...]:
        """Return the ranks in the order of the current channel's ring, from one of them on.

        Channels differ where this spreads them over the links of a mesh, or over NICs between nodes.
        """
        order = ring_order(self.ranks, self.shape, self.channel)
        start = 0 if first is None else order.index(first)
        return order[start:] + order[:start]

    def chains(self) -> tuple[tuple[int, ...], ...]:
        """Return the ranks of each node in the current channel's order; all if nodes differ in size."""
        return node_chains(self.ranks, self.shape, self.channel)

    def connections(self, messages: int = 0) -> Connections:
        """Return the connections between the ranks, for the current channel.

        ``messages``: how many each carries, where slots of a buffer hold them (see :class:`Connection`).
        """
        return Connections(self, messages)

    def kernel(self, name: str) -> None:
        """Begin another kernel: the blocks that follow belong to it.

        A GPU launches its kernels in this order. They share its SMs: the blocks of an earlier
        kernel are placed first.
        """
        if name not in self.kernels:
            self.kernels.append(name)
        self._kernel = self.kernels.index(name)

    def others(self, rank: int) -> list[int]:
        """All other ranks, in an order in which no two ranks or channels begin with the same one.

        Each rank begins with a neighbour, each channel with another one: where links join pairs
        of GPUs, all links carry data from the beginning.
        """
        first = self.channel % max(1, self.ranks - 1)
        return [(rank + 1 + (first + k) % (self.ranks - 1)) % self.ranks for k in range(self.ranks - 1)]

    def block(self, rank: int, warps: int = 0) -> Block:
        """Add a thread block to a rank, in the current channel.

        Parameters
        ----------
        rank : int
        warps : int
            How many warps it has; as many as the GPU's preset says where not given.
        """
        share(self.channel * self.ranks + rank, self.channels * self.ranks)
        block = Block(self, self._rank(rank), self.channel, kernel=self._kernel, warps=warps)
        self.blocks.append(block)
        return block

    def engine(self, rank: int) -> Block:
        """Add a list of descriptors for a copy engine (DMA) of a rank: it moves data in large requests.

        It begins a move after a wait for a semaphore that a thread block raises.
        """
        block = Block(self, self._rank(rank), self.channel, "engine", self._kernel)
        self.blocks.append(block)
        return block

    @property
    def nics_move(self) -> bool:
        """Whether NICs move what thread blocks send to other nodes; packets are stored by the blocks."""
        return self.shape.rdma and self.protocol == "Simple" and self.per_node < self.ranks

    def nic(self, rank: int, channel: int) -> Block:
        """Add a list of work requests for the NIC of a rank, which executes them in order."""
        block = Block(self, self._rank(rank), channel, "nic", self._kernel)
        self.blocks.append(block)
        return block

    def send_buffer(self, rank: int, like: Chunk | Chunks) -> Chunk | Chunks:
        """Scratch of a rank, as large as some chunks, from which its NIC reads."""
        count = len(like.indices) if isinstance(like, Chunks) else 1
        first = self._sent.get((rank, like.channel), FIRST_SENT)
        self._sent[rank, like.channel] = first + count
        if isinstance(like, Chunks):
            return Chunks(rank, "scratch", range(first, first + count), like.channel)
        return Chunk(rank, "scratch", first, like.channel)

    def semaphore(self, rank: int) -> Semaphore:
        """Add a semaphore to a rank's memory; it starts at 0."""
        semaphore = Semaphore(self._rank(rank), len(self.semaphores))
        self.semaphores.append(semaphore)
        return semaphore

    def input(self, rank: int) -> Buffer:
        """The buffer that holds the rank's contribution."""
        return Buffer(self, self._rank(rank), "input", self.input_chunks)

    def output(self, rank: int) -> Buffer:
        """The buffer that must hold the result at the end."""
        return Buffer(self, self._rank(rank), "output", self.output_chunks)

    def scratch(self, rank: int) -> Buffer:
        """Working memory with any index; a chunk is as large as what is stored there."""
        return Buffer(self, self._rank(rank), "scratch", None)

    def packets(self, rank: int) -> Buffer:
        """Working memory in which every line carries its own flags; each chunk is written once."""
        return Buffer(self, self._rank(rank), "packets", None)

    def panels(self, rank: int) -> Buffer:
        """Matrices of a rank that are no part of the collective: operands and results of products, any index.

        They are the same in all channels, and as large as the products that use them say.
        """
        return Buffer(self, self._rank(rank), "panels", None, channel=0)

    def cut_into(self, count: int) -> Iterator[int]:
        """Cut every chunk into slices of a program of one channel; what follows is about one of them."""
        if self.channels > 1 or self.cut.of_channel not in (1, count):
            what = f"{count} slices of chunks that {self.channels * self.cut.of_channel} parts share"
            raise InputError(what, where=f"program {self.name!r}", hint="run it with one channel")
        self.cut = Cut(rounds=count)
        yield from self.slices()

    def fix(self, chunk: Chunk, size: int) -> None:
        """Remember the bytes that a product reads or stores of a chunk."""
        if self.fixed.setdefault(chunk, size) != size:
            raise InputError(
                f"{chunk} has {self.fixed[chunk]:,} B in one product and {size:,} B in another",
                where=f"program {self.name!r}",
            )

    def barrier(self, blocks: Sequence[Block], phase: str = "") -> None:
        """Let no block continue before all have reached this point; it can be a phase of its own.

        Every block signals one semaphore on each rank and waits until that of its own rank has
        counted all blocks, as the multi-GPU barriers of real kernels do.
        """
        for block in blocks if phase else ():
            block.phase(phase)
        ranks = sorted({block.rank for block in blocks})
        arrived = {rank: self.semaphore(rank) for rank in ranks}
        for block in blocks:
            for step in range(len(ranks)):
                # Each rank starts at its own neighbour, so that not all signal one rank at once.
                block.signal(arrived[ranks[(ranks.index(block.rank) + 1 + step) % len(ranks)]])
            block.wait(arrived[block.rank], len(blocks))

    def number_of(self, line: SourceLine | None) -> int:
        """Return the number of a source line; a new one gets the next number."""
        return self.lines.setdefault(line, len(self.lines))

    def count(self, operations: int = 1) -> None:
        """Count operations; raise an error where they exceed the limit, or memory."""
        self._operations += operations
        if self._operations >= self._fitting:
            self._fitting = 2 * self._operations
            require_bytes(
                self._operations * BYTES_PER_OPERATION,
                where=f"program {self.name!r}",
                hint="use fewer ranks or channels, or an algorithm with fewer messages",
            )
        if self.most_operations is not None and self._operations > self.most_operations:
            raise InputError(
                f"more than {self.most_operations:,} operations",
                where=f"program {self.name!r}",
                hint="check that loops end, or use fewer ranks or channels",
            )

    def phase_number(self, name: str) -> int:
        """Return the number of a phase; an unknown name adds a phase."""
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


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of a program, with its buffers.

    Examples
    --------
    A two-shot all-reduce:

    >>> def two_shot(p):
    ...     wires = p.connections()
    ...     for me in p.everyone:
    ...         block = me.block()
    ...         for you in me.others:
    ...             wires[me, you].send(block, me.input[you.number])
    ...         parts = [wires[you, me].receive(block) for you in me.others]
    ...         block.reduce([me.input[me.number], *parts], me.output[me.number])
    ...         for you in me.others:
    ...             wires[me, you].send(block, me.output[me.number])
    ...         for you in me.others:
    ...             block.copy(wires[you, me].receive(block), me.output[you.number])
    """

    program: Program
    number: int

    @property
    def input(self) -> Buffer:
        """Its contribution."""
        return self.program.input(self.number)

    @property
    def output(self) -> Buffer:
        """Where its result must be at the end."""
        return self.program.output(self.number)

    @property
    def scratch(self) -> Buffer:
        """Its working memory."""
        return self.program.scratch(self.number)

    @property
    def panels(self) -> Buffer:
        """Its matrices that are no part of the collective."""
        return self.program.panels(self.number)

    @property
    def right(self) -> Rank:
        """The next rank; the first one follows the last."""
        return Rank(self.program, (self.number + 1) % self.program.ranks)

    @property
    def left(self) -> Rank:
        """The previous rank; the last one precedes the first."""
        return Rank(self.program, (self.number - 1) % self.program.ranks)

    @property
    def others(self) -> list[Rank]:
        """All other ranks, in the order of :meth:`Program.others`."""
        return [Rank(self.program, number) for number in self.program.others(self.number)]

    def block(self, warps: int = 0) -> Block:
        """Add a thread block; see :meth:`Program.block`."""
        return self.program.block(self.number, warps)

    def semaphore(self) -> Semaphore:
        """Add a semaphore."""
        return self.program.semaphore(self.number)
