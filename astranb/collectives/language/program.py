"""The language in which collective algorithms are written.

An algorithm is a Python function over a :class:`Program`: it takes thread blocks, chunks and
semaphores of every rank and lists what each thread block does. It runs when the program is
built, never while time passes. It is called once for each *channel*: a channel is one set of
thread blocks, as in NCCL, and every chunk is cut into as many slices as there are channels.

What MSCCL++ calls a channel, the link from one rank to one peer with its semaphore, is a
:class:`Connection` here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index
from typing import Any, Final, NoReturn, SupportsIndex

import numpy as np

from astranb.core.display import Displayed
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.progress import share
from astranb.core.state import require_bytes
from astranb.net import Shape, node_chains, ring_order

from .block import Block
from .buffer import Buffer
from .collective import COLLECTIVES
from .compose import AlgorithmCall, AlgorithmCalls, Ends, Library, Shares
from .connection import Connection, Connections
from .fifo import FIRST_SENT, FIRST_SLOT, Cut
from .layout import ChunkLayout
from .operation import (
    BUFFERS,
    KINDS,
    SWITCH_READS,
    SWITCH_WRITES,
    Chunk,
    Chunks,
    Operation,
    Origin,
    Semaphore,
    TileShape,
)
from .protocol import PROTOCOLS, check_protocol
from .rank import Rank, Ranks
from .source import ProgramError, SourceLine, line_of_caller

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
    "Chunks",
    "Connection",
    "Connections",
    "Operation",
    "Origin",
    "Program",
    "Rank",
    "Ranks",
    "Semaphore",
    "TileShape",
    "check_protocol",
]


_FITTING: Final = 2**18  # a program of so few operations is not checked for memory
BYTES_PER_OPERATION: Final = 800  # what lowering takes at its peak (measured: 900 B with 2.5 chunks)


class Program(Displayed):
    """Operations of every thread block of every rank; an algorithm fills it.

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
    slots : list of int
        How many each buffer of messages has, of those that its connections use again.
    shared : dict of Semaphore to Block
        The thread block in whose shared memory a semaphore is.
    layout : ChunkLayout, optional
        The chunks of inputs and outputs, where they do not follow from the collective.
    poisoned : bool
        Whether packets are whole lines of data, which show by their value that they have come: their memory
        held one before that no data has.
    sms, lines_per_sm : int
        SMs of each GPU that take its thread blocks, and lines that one keeps under way at least; 0: all,
        and as the preset says.
    tiles : dict of TileShape to int
        The shapes of tiles that blocks compute, numbered.
    fixed : dict of Chunk to int
        The bytes of each chunk that a product reads or stores.
    at : int
        Number of the source line of the operations that are added next; -1: each looks for its own.

    Examples
    --------
    Each rank puts its only chunk to its neighbour:

    >>> program = Program("shift", ranks=4, channels=1, input_chunks=1, output_chunks=1)
    >>> for rank in range(program.ranks):
    ...     block = program.block(rank)
    ...     _ = block.put(program.input(rank)[0], program.output((rank + 1) % 4)[0])
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
        self.shape, self._links_known = shape or Shape(ranks), shape is not None
        self.input_chunks, self.output_chunks = input_chunks, output_chunks
        self.size = size
        self.same_memory: dict[Chunk, Chunk] = {}
        self.credits: dict[Semaphore, int] = {}
        self.frees: set[Semaphore] = set()
        self.cut = cut
        self.slots: list[int] = []
        self._buffers: dict[int, set[int]] = {}
        self._wires: list[Connections] = []
        self.shared: dict[Semaphore, Block] = {}
        self._part = 0
        self._asked_chunks: int | None = None
        self._has_buffers = False
        self.in_slices = self.poisoned = False
        self.weights: tuple[float, ...] = ()
        self.library: Library = _no_library
        self._calls = AlgorithmCalls(self)
        self.channel = self.sms = self.lines_per_sm = 0
        self.layout: ChunkLayout | None = None
        self.tiles: dict[TileShape, int] = {}
        self.fixed: dict[Chunk, int] = {}
        self.lines: dict[SourceLine | None, int] = {}
        self.at = -1
        self._everyone = tuple(Rank(self, number) for number in range(ranks))
        self.blocks: list[Block] = []
        self.semaphores: list[Semaphore] = []
        self.phases: list[str] = []
        self._phase_numbers: dict[str, int] = {}
        self.kernels: list[str] = ["collective"]
        self._kernel = 0
        self._sent: dict[tuple[int, int], int] = {}
        self.most_operations: int | None = None
        self._operations = 0
        self._fitting = _FITTING

    def __str__(self) -> str:
        """Return its name, the nodes that it is written for, and its thread blocks, copy engines and NICs."""
        width = self.per_node
        nodes = f"{-(-self.ranks // width)} nodes of {width}" if width < self.ranks else "one node"
        count = Counter(block.unit for block in {id(b.thread_block or b): b for b in self.blocks}.values())
        units = {"sm": "thread block", "engine": "copy engine", "nic": "NIC"}
        listed = [plural(count[unit], name) for unit, name in units.items() if count[unit]]
        return f"{self.name}: {self.ranks} ranks in {nodes}; {', '.join(listed)}"

    @property
    def everyone(self) -> list[Rank]:
        """All ranks in order."""
        return list(self._everyone)

    def rank(self, number: SupportsIndex) -> Rank:
        """One rank."""
        return self._everyone[self._rank(number)]

    @property
    def per_node(self) -> int:
        """Consecutive ranks that share a node."""
        return self.shape.per_node

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Ranks in each dimension: of a torus or mesh, else nodes and the ranks of each; else all ranks.

        Consecutive ranks are neighbours in the last dimension. See :attr:`Rank.coordinates`.
        """
        return self.shape.dimensions(self.ranks)

    def distance(self, a: SupportsIndex, b: SupportsIndex) -> int:
        """Return how many links a message between two ranks crosses at least.

        Of a given number of ranks for each node: none to itself, 1 within a node, 2 between nodes.

        Raises
        ------
        InputError
            The program is for a number of ranks only, whose links are not known.
        """
        self.check_links("distance")
        return self.shape.distance(self._rank(a), self._rank(b))

    def check_links(self, asked: str) -> None:
        """Check that links between ranks are known: a number of ranks has none, and no way around one."""
        if self._links_known:
            return
        raise ProgramError(
            f"{asked} depends on the links, and the program is made for {self.ranks} ranks only",
            line_of_caller(),
            where=f"program {self.name!r}",
            hint="give the infrastructure: collective.program(infra), verify(collective, infra) or --infra",
        )

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
        self.in_slices = True
        for self._part in parts:
            yield self._part
        self._part, self.in_slices = 0, False

    def ring(self, first: SupportsIndex | None = None) -> Ranks:
        """Return the ranks in the order of the current channel's ring, from one of them on.

        Channels differ where this spreads them over the links of a mesh, or over NICs between nodes.
        """
        order = ring_order(self.ranks, self.shape, self.channel)
        start = 0 if first is None else order.index(self._rank(first))
        return Ranks(map(self.rank, order[start:] + order[:start]))

    def chains(self) -> tuple[Ranks, ...]:
        """Return the ranks of each node in the current channel's order; all if nodes differ in size."""
        return tuple(Ranks(map(self.rank, one)) for one in node_chains(self.ranks, self.shape, self.channel))

    def connections(self, depth: int = 0, chunks: int = 1, *, posted: bool = False) -> Connections:
        """Return the connections between the ranks, for the current channel.

        Parameters
        ----------
        depth : int
            Slots of the buffer of each connection: a sender that finds all of them in use waits until the
            receiver frees one. 0: each message has a place of its own.
        chunks : int
            Chunks of a message at most, where there are slots.
        posted : bool
            Whether the signal of a message goes behind its stores, while the sender goes on.
        """
        first = all(wires.channel != self.channel for wires in self._wires)
        self._wires.append(Connections(self, depth, chunks, posted=posted, first=first))
        return self._wires[-1]

    def add_buffer(self, slots: int) -> int:
        """Create a buffer of some slots for messages, in the current channel; return its first index."""
        used = self._buffers.setdefault(self.channel, set())
        for number, size in enumerate(self.slots):
            if size == slots and number not in used:
                break
        else:
            number = len(self.slots)
            self.slots.append(slots)
        used.add(number)
        return (number + 1) * FIRST_SLOT

    def finish(self) -> None:
        """Add what follows from the whole program: what frees slots, and what no signal has announced."""
        for wires in self._wires:
            wires.settle()
        for block in list(self.blocks):
            block.finish()
        self._leave_out({semaphore for wires in self._wires for semaphore in wires.needless})

    def _leave_out(self, needless: set[Semaphore]) -> None:
        """Leave out semaphores that no operation names; those after them take their numbers."""
        if not needless:
            return
        kept = [semaphore for semaphore in self.semaphores if semaphore not in needless]
        new = {old: Semaphore(old.rank, number) for number, old in enumerate(kept)}
        numbers = np.full(len(self.semaphores), -1, np.int64)
        numbers[[old.number for old in new]] = [one.number for one in new.values()]
        for block in self.blocks:
            block.rename_semaphores(new, numbers)
        self.semaphores = list(new.values())
        self.frees = {new[old] for old in self.frees if old in new}
        self.credits = {new[old]: count for old, count in self.credits.items()}
        self.shared = {new[old]: block for old, block in self.shared.items()}

    def call(
        self,
        collective: str,
        algorithm: str | Callable[..., None],
        *,
        ranks: Sequence[Any],
        source: Ends,
        target: Ends,
        stage: str = "",
        after: AlgorithmCall | Block | Iterable[AlgorithmCall | Block] = (),
        root: int | None = None,
        **params: Any,
    ) -> AlgorithmCall:
        """Execute an algorithm of a collective on some ranks, as a part of this program.

        Calls follow one another on every rank, in the order in which they are written. One of another stage
        runs beside them, in thread blocks of its own, and waits only for what ``after`` names. A call is
        about the slice of the caller's loop (:meth:`slices`); outside of such a loop, about all slices.

        Parameters
        ----------
        collective : str
            ``"reduce_scatter"``, …
        algorithm : str or callable
            A name of the library, or a function over a program.
        ranks : sequence of int, or of sequences of int
            The ranks that take part, in the order of the algorithm's ranks; or groups of ranks, such as
            boxes, each of which executes the collective for itself.
        source, target : callable, dict or list
            The chunks that are the algorithm's input and output: of each rank by a function of its number, or
            by rank. Twice as many chunks as the algorithm has are two for each of its chunks, and so on. None
            for ranks of which it has no input or no output, as in a broadcast.
        stage : str
            Calls of the same stage are executed by the same thread blocks.
        after : AlgorithmCall, Block, or several
            What has to end on a rank before the rank begins.
        root : int, optional
            The root of a broadcast, reduction, gather or scatter: one of ``ranks``, the first by default.
        **params
            Parameters of the algorithm.

        Returns
        -------
        AlgorithmCall
            Its thread blocks of each rank (``blocks``), and ``wait(block)`` for others.

        Raises
        ------
        InputError
            There is no such algorithm, rank or parameter, a rank takes part twice, or the number of chunks is
            no multiple of what the algorithm needs; with the line of the call.

        Examples
        --------
        An all-reduce over the whole machine made of two within its halves and one between them:

        >>> from astranb.collectives import Collective, verify
        >>> def by_halves(p):
        ...     halves = [[0, 1], [2, 3]]
        ...     p.call("reduce_scatter", "ring", ranks=halves,
        ...            source=p.input, target=lambda r: p.scratch(r)[0:2])
        ...     p.call("all_reduce", "ring", ranks=[[0, 2], [1, 3]],
        ...            source=lambda r: p.scratch(r)[0:2], target=lambda r: p.scratch(r)[2:4])
        ...     p.call("all_gather", "ring", ranks=halves,
        ...            source=lambda r: p.scratch(r)[2:4], target=p.output)
        >>> verify(Collective.of("all_reduce", "64 KiB", by_halves).program(4), "all_reduce")
        []
        """
        return self._calls.call(collective, algorithm, ranks, source, target, stage, after, root, params)

    def split(self, shares: Shares, collective: str = "") -> None:
        """Move the data by several algorithms at once: each has its share of the bytes, to the next line.

        Parameters
        ----------
        shares : dict of str or callable to float
            Algorithms, and their shares; these need not add up to 1.
        collective : str
            By default the program's own.

        Raises
        ------
        InputError
            A share is not above zero, chunks are cut already, or as for :meth:`call`.

        Examples
        --------
        >>> from astranb.collectives import Collective, verify
        >>> def both(p):
        ...     p.split({"switch": 0.7, "ring": 0.3})
        >>> verify(Collective.of("all_reduce", "1 MiB", both).program(4), "all_reduce")
        []
        """
        base = self.layout.base if self.layout is not None else ""
        self._calls.split(shares, collective or base or self.name.partition("/")[0])

    def callee(self, name: str, ranks: Sequence[int], chunks: tuple[int, int], root: int) -> Program:
        """Return a program of some of the ranks, for an algorithm that is called for the current channel."""
        made = Program(
            name,
            ranks=len(ranks),
            channels=self.channels,
            input_chunks=chunks[0],
            output_chunks=chunks[1],
            root=root,
            protocol=self.protocol,
            shape=self.shape.among(ranks) if self._links_known else None,
        )
        made.channel, made.library, made.most_operations = self.channel, self.library, self.most_operations
        return made

    def sent_before(self, rank: int, slice_number: int, count: int) -> int:
        """Reserve chunks of scratch from which a rank's NIC reads; return how many there are before."""
        first = self._sent.get((rank, slice_number), FIRST_SENT)
        self._sent[rank, slice_number] = first + count
        return first - FIRST_SENT

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

    def block(self, rank: SupportsIndex, warps: int = 0) -> Block:
        """Add a thread block to a rank, in the current channel.

        Parameters
        ----------
        rank : Rank or int
        warps : int
            How many warps it has; as many as the GPU's preset says where not given. They may have roles
            (:meth:`Block.warps`).
        """
        number = self._rank(rank)
        share(self.channel * self.ranks + number, self.channels * self.ranks)
        block = Block(self, number, self.channel, kernel=self._kernel, warps=warps)
        self.blocks.append(block)
        return block

    def engine(self, rank: SupportsIndex) -> Block:
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

    def nic(self, rank: SupportsIndex, channel: int) -> Block:
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

    def semaphore(self, rank: SupportsIndex) -> Semaphore:
        """Add a semaphore to a rank's memory; it starts at 0."""
        semaphore = Semaphore(self._rank(rank), len(self.semaphores))
        self.semaphores.append(semaphore)
        return semaphore

    def chunks(self, count: int) -> None:
        """Set the number of chunks of the larger of a rank's two buffers; an algorithm asks this first.

        The smaller buffer has as many fewer as it is smaller: with 64 chunks on 8 ranks, an all-gather's
        output has 64 chunks and its input 8, and ``output[k]`` is chunk ``k % 8`` of rank ``k // 8``.

        Raises
        ------
        InputError
            The chunks do not divide among the ranks, a buffer has been used, or another channel or the
            collective's ``chunks`` has another number.

        Examples
        --------
        >>> from astranb.collectives import broadcast
        >>> def pipeline(p):
        ...     p.chunks(4 * p.ranks)
        ...     for chunk, there in zip(p.rank(0).input, p.rank(1).output):
        ...         p.block(0).put(chunk, there)
        >>> len(broadcast("1 MiB", pipeline, channels=1).program(2).blocks)
        8
        """
        if self._asked_chunks == count:
            return
        where, line = f"program {self.name!r}", line_of_caller()
        if self._asked_chunks is not None:
            what = f"it has {self._asked_chunks} chunks, {count} are asked for"
            raise ProgramError(what, line, where=where, hint="ask for one number, in all channels")
        if self._has_buffers:
            what = "chunks are asked for after a buffer has been used"
            raise ProgramError(what, line, where=where, hint="call p.chunks() first")
        if self.layout is not None:
            hint = "give the sizes of its chunks in the contract"
            raise ProgramError("a contract has its own chunks", line, where=where, hint=hint)
        kind = COLLECTIVES.get(self.name.partition("/")[0], COLLECTIVES["custom"])
        try:
            self.input_chunks, self.output_chunks = kind.chunk_counts(self.ranks, count)
        except InputError as error:
            raise ProgramError(error.what, line, where=where, hint=error.hint) from None
        self._asked_chunks = count

    def input(self, rank: SupportsIndex) -> Buffer:
        """The buffer that holds the rank's contribution."""
        return self._buffer(rank, "input", self.input_chunks)

    def output(self, rank: SupportsIndex) -> Buffer:
        """The buffer that must hold the result at the end."""
        return self._buffer(rank, "output", self.output_chunks)

    def _buffer(self, given: SupportsIndex, name: str, chunks: int) -> Buffer:
        self._has_buffers, layout, rank = True, self.layout, self._rank(given)
        if layout is None or layout.whole:
            return Buffer(self, rank, name, chunks)
        spans = {of: spans[rank].tolist() for (side, of), spans in layout.buffers.items() if side == name}
        return Buffer(self, rank, name, layout.count(name, rank), parts=spans)

    def share_memory(self, layout: ChunkLayout) -> None:
        """Place outputs in the memory of those inputs that a layout names."""
        for output in np.flatnonzero(layout.places >= 0).tolist():
            rank, index = layout.outputs[:2, output].tolist()
            own = int(layout.inputs[1, layout.places[output]])
            for channel in range(self.width):
                shared = Chunk(rank, "input", own, channel)
                self.same_memory[Chunk(rank, "output", index, channel)] = shared

    def scratch(self, rank: SupportsIndex) -> Buffer:
        """Working memory with any index; a chunk is as large as what is stored there."""
        return Buffer(self, self._rank(rank), "scratch", None)

    def packets(self, rank: SupportsIndex) -> Buffer:
        """Working memory in which every line carries its own flags; each chunk is written once."""
        return Buffer(self, self._rank(rank), "packets", None)

    def panels(self, rank: SupportsIndex) -> Buffer:
        """Matrices of a rank that are no part of the collective: operands and results of products, any index.

        They are the same in all channels, and as large as the products that use them say.
        """
        return Buffer(self, self._rank(rank), "panels", None, channel=0)

    def cut_into(self, count: int) -> Iterator[int]:
        """Cut every chunk into slices, and go through them: what is written in the loop is about one of them.

        Each channel's part of a chunk is cut into as many. A loop writes the operations of every slice: a
        slice costs a row of the machine's tables for each of them.

        Raises
        ------
        InputError
            Chunks are cut into another number of slices already, by the algorithm or in another channel.

        Examples
        --------
        >>> from astranb.collectives import Collective, verify
        >>> def pipeline(p, *, slices=4):
        ...     blocks, came = [me.block() for me in p.everyone], [me.semaphore() for me in p.everyone]
        ...     for _ in p.cut_into(slices):
        ...         for me, block in zip(p.everyone, blocks):
        ...             if me.number:
        ...                 block.wait(came[me.number])
        ...             source = me.output if me.number else me.input
        ...             target = [me.right.output[:]] if me.right.number else []
        ...             own = [] if me.number else [me.output[:]]
        ...             if own or target:
        ...                 block.copy(source[:], *own, *target)
        ...             if target:
        ...                 block.signal(came[me.right.number])
        >>> verify(Collective.of("broadcast", "1 MiB", pipeline, chunks=1, channels=2), "switch:gpus=4")
        []
        """
        if not isinstance(count, int) or count < 1 or self.cut.of_channel not in (1, count):
            cut = self.cut.of_channel
            raise ProgramError(
                f"chunks are cut into {cut} slices already, not {count}"
                if cut > 1
                else f"chunks cannot be cut into {count!r} slices",
                line_of_caller(),
                where=f"program {self.name!r}",
                hint=f"use {cut if cut > 1 else 'a whole number of at least 1'}, in all channels",
            )
        self.cut = Cut(rounds=count)
        yield from self.slices()

    def fix(self, chunk: Chunk, size: int) -> None:
        """Remember the bytes that a product reads or stores of a chunk."""
        if self.fixed.setdefault(chunk, size) != size:
            raise InputError(
                f"{chunk} has {self.fixed[chunk]:,} B in one product and {size:,} B in another",
                where=f"program {self.name!r}",
            )

    def barrier(self, blocks: Sequence[Block], phase: str = "", flags: int = 1) -> None:
        """Wait in each block until all have reached this point; it can be a phase of its own.

        Every block signals one semaphore on each rank and waits until that of its own rank has
        counted all blocks, as the multi-GPU barriers of real kernels do. With more ``flags`` it raises
        others on each rank for which nobody waits, one after another, each behind a fence.
        """
        for block in blocks if phase else ():
            block.phase(phase)
        ranks = sorted({block.rank for block in blocks})
        arrived = {rank: self.semaphore(rank) for rank in ranks}
        others = {rank: self.semaphore(rank) for rank in ranks} if flags > 1 else {}
        for block in blocks:
            # Each rank starts at its own neighbour, so that not all signal one rank at once.
            at = ranks.index(block.rank) + 1
            order = ranks[at:] + ranks[:at]
            for rank in order:
                block.signal(arrived[rank])
            for _ in range(flags - 1):
                block.fence()
                for rank in order:
                    block.signal(others[rank], relaxed=True)
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
        number = self._phase_numbers.get(name, len(self.phases))
        if self.phases[number : number + 1] != [name]:  # a new one, or somebody has changed the list
            if name not in self.phases:
                self.phases.append(name)
            number = self._phase_numbers[name] = self.phases.index(name)
        return number

    def _rank(self, given: SupportsIndex) -> int:
        rank = given if type(given) is int else index(given)
        if not 0 <= rank < self.ranks:
            raise InputError(
                f"rank {rank} does not exist",
                where=f"program {self.name!r}",
                hint=f"ranks are 0 to {self.ranks - 1}",
            )
        return rank


def _no_library(collective: str, name: str) -> NoReturn:
    """Reject names of algorithms in a program that no :class:`Collective` has made."""
    raise InputError(f"no library knows {collective}/{name}", hint="give a function")
