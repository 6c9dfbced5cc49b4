"""Messages from one rank to another: data, and the signal that it has arrived."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, SupportsIndex

from astranb.core.errors import InputError
from astranb.core.plural import plural

from .fifo import FIRST_SLOT, Cut
from .operation import Chunk, Chunks, Semaphore, as_chunks
from .source import ProgramError, SourceLine, line_of_caller

__all__ = ["ChunkMessage", "Connection", "Connections"]


class _MessageProgram(Protocol):
    """Members of a program that connections need."""

    name: str
    ranks: int
    channel: int
    protocol: str
    cut: Cut
    frees: set[Semaphore]
    lines: dict[SourceLine | None, int]
    at: int

    @property
    def per_node(self) -> int: ...

    @property
    def nics_move(self) -> bool: ...

    def semaphore(self, rank: int) -> Semaphore: ...

    def number_of(self, line: SourceLine | None) -> int: ...

    def add_buffer(self, slots: int) -> int: ...

    @property
    def slice_number(self) -> int: ...


class _MessageBlock(Protocol):
    """Members of a thread block that connections need."""

    current: int

    @property
    def count(self) -> int: ...

    def note_line(self) -> bool: ...

    def forget_line(self) -> None: ...

    def compute(self, instructions: int = 1) -> None: ...

    def move(self, sources: Sequence[Chunk | Chunks], targets: Sequence[Chunk | Chunks]) -> None: ...

    def reduce(self, sources: tuple[Chunk | Chunks, ...], *targets: Chunk | Chunks) -> Chunk | Chunks: ...

    def spend(self, time_ps: int) -> None: ...

    def signal(
        self, semaphore: Semaphore, value: int = 1, *, relaxed: bool = False, behind: int = 0
    ) -> None: ...

    def wait(self, semaphore: Semaphore, value: int = 1) -> None: ...

    def moves_since(self, count: int) -> int: ...

    def add_frees(self, frees: Sequence[tuple[int, int, SourceLine | None, Semaphore]]) -> None: ...


class _Free(NamedTuple):
    """Point at which a receiver frees a slot: before this operation of a block, in a phase."""

    block: _MessageBlock
    before: int
    phase: int
    line: SourceLine | None


class Connection:
    """Messages from one rank to another on one channel: data, and a signal that it has arrived.

    Messages are received in the order in which they are sent. A message is stored to scratch of
    the receiver and a semaphore is raised after it; the protocols ``LL`` and ``LL128`` turn it
    into packets.

    One thread block sends, and one receives: several would have no order among their messages.

    Where the connections have a ``depth``, a message is in one of so many slots: before the sender uses a
    slot again, it waits until the receiver has freed it. NICs write to messages of their own.
    A slice of a buffer is one message.
    """

    def __init__(self, wires: Connections, source: int, target: int) -> None:
        self._wires, self._program = wires, wires.program
        self._source, self._target = source, target
        program = wires.program
        near = not program.nics_move or source // program.per_node == target // program.per_node
        self._slots = wires.depth if near else 0
        self._semaphore: Semaphore | None = None
        self._freed: Semaphore | None = None
        self._sent = self._received = 0  # messages
        self._stored = self._read = 0  # their chunks
        self._frees: list[_Free] = []
        self._lacking: SourceLine | None = None  # where a slot is used again for the first time
        self._open: ChunkMessage | None = None
        self._ends: dict[str, tuple[_MessageBlock, int]] = {}  # who sends and receives, and the first line

    def send(
        self,
        block: _MessageBlock,
        sources: Chunk | Chunks | Iterable[Chunk | Chunks],
        *,
        also: Chunk | Chunks | Iterable[Chunk | Chunks] = (),
        others: Sequence[Connection] = (),
    ) -> None:
        """Send a chunk, or the sum of a list of chunks, as :meth:`Block.reduce` stores it.

        Parameters
        ----------
        block : Block
        sources : chunk, slice of a buffer, or several
            Several are added up.
        also : chunk, slice of a buffer, or several
            Where it is stored as well.
        others : sequence of Connection
            Connections on which it is sent as well.

        Examples
        --------
        >>> from astranb.collectives import Program
        >>> p = Program("pair", ranks=2, channels=1, input_chunks=2, output_chunks=2)
        >>> wires, (me, you), block = p.connections(), p.everyone, p.block(0)
        >>> wires[me, you].send(block, me.input[0])
        >>> wires[me, you].send(block, [me.input[0], me.input[1]], also=me.output[0])
        >>> [(op.kind, len(op.sources), len(op.targets)) for op in block.operations if op.kind == "move"]
        [('move', 1, 1), ('move', 2, 2)]
        """
        noted = block.note_line()  # of all that it adds
        try:
            self._send(block, as_chunks(sources), as_chunks(also), (self, *others))
        finally:
            if noted:
                block.forget_line()

    def _send(
        self,
        block: _MessageBlock,
        sources: tuple[Chunk | Chunks, ...],
        also: tuple[Chunk | Chunks, ...],
        wires: tuple[Connection, ...],
    ) -> None:
        slots = [wire.claim(block, sources[0]) for wire in wires]
        if self._slots and self._program.protocol != "Simple":
            block.compute()  # threads look for their flags together: a barrier after each wait for a slot
        posted = any(wire.posted for wire in wires)
        before = block.count if posted else 0
        block.move(sources, (*also, *slots))
        moves = block.moves_since(before) if posted else 0
        for wire in wires:
            wire.announce(block, behind=moves if wire.posted else 0)
        if self._program.cut.step_ps:
            block.spend(self._program.cut.step_ps)

    def message(self, block: _MessageBlock) -> ChunkMessage:
        """Send several chunks as one message: one signal for all, and one fence.

        Examples
        --------
        >>> from astranb.collectives import Program
        >>> p = Program("pair", ranks=2, channels=1, input_chunks=2, output_chunks=2)
        >>> wires, (me, you) = p.connections(), p.everyone
        >>> sender, receiver = me.block(), you.block()
        >>> with wires[me, you].message(sender) as m:
        ...     m.put(me.input[0])
        ...     m.put(me.input[1])
        >>> for k, part in enumerate(wires[me, you].receive_all(receiver, 2)):
        ...     _ = receiver.copy(part, you.output[k])
        >>> [op.kind for op in sender.operations], [op.kind for op in receiver.operations]
        (['move', 'move', 'signal'], ['wait', 'move', 'move'])
        """
        self._is_closed()
        self._is_of("sends", block)
        self._wait_for_slot(block)
        if self._slots and self._program.protocol != "Simple":
            block.compute()
        self._open = ChunkMessage(self, block, line_of_caller(), self._program.slice_number)
        return self._open

    def claim(self, block: _MessageBlock, like: Chunk | Chunks) -> Chunk | Chunks:
        """Wait until the next message has a slot; return it, of as many chunks as ``like``."""
        if self._open is not None:
            self._is_closed()
        self._is_of("sends", block)
        if self._slots:
            self._wait_for_slot(block)
        slot = self._slot(self._sent, self._stored, like)
        self._stored += len(like.indices) if isinstance(like, Chunks) else 1
        return slot

    def _wait_for_slot(self, block: _MessageBlock) -> None:
        if self._slots and self._sent >= self._slots:
            block.wait(self._free_slots())
            if self._lacking is None:
                self._lacking = line_of_caller()

    def announce(self, block: _MessageBlock, *, behind: int = 0) -> None:
        """Signal the receiver that the message is stored, by so many last moves if not by all."""
        self._sent += 1
        block.signal(self._arrived(), behind=behind)

    def receive(self, block: _MessageBlock, like: Chunk | Chunks | None = None) -> Any:
        """Wait for the next message; return the chunk that holds it, or as many chunks as ``like``."""
        self._is_of("receives", block)
        slot = self._slot(self._received, self._read, like)
        self._read += len(like.indices) if isinstance(like, Chunks) else 1
        self._received += 1
        block.wait(self._arrived())
        return slot

    def receive_all(self, block: _MessageBlock, chunks: int) -> list[Chunk]:
        """Wait for the next message, of several chunks; return those that hold it."""
        if chunks < 1:
            raise InputError(
                f"a message must have at least one chunk, got {chunks}",
                where=self._where,
                hint="receive at least one",
            )
        self._is_of("receives", block)
        found = [self._part(self._received, self._read, k) for k in range(chunks)]
        self._read += chunks
        self._received += 1
        block.wait(self._arrived())
        return found

    def free(self, block: _MessageBlock) -> None:
        """Free the slot of the first message that is not freed yet, which has been read, for the sender.

        The last messages' slots are not used again: nobody waits for them, and nothing is signalled.
        """
        if self._slots:
            self._free_slots()
            self._frees.append(_Free(block, block.count, block.current, line_of_caller()))

    @property
    def needless(self) -> list[Semaphore]:
        """The semaphore that frees slots, where nobody waits for one."""
        return [self._freed] if self._freed is not None and self._sent <= self._slots else []

    def _free_slots(self) -> Semaphore:
        if self._freed is None:
            self._freed = self._program.semaphore(self._source)
            self._program.frees.add(self._freed)
        return self._freed

    def settle(self) -> list[tuple[_MessageBlock, tuple[int, int, SourceLine | None, Semaphore]]]:
        """Return the signals that free slots, now that all messages are known.

        Raises
        ------
        InputError
            A message was begun and not closed, or a sender waits for a slot that nobody frees.
        """
        self._is_closed()
        needed = max(0, self._sent - self._slots) if self._slots else 0
        if needed > len(self._frees):
            raise ProgramError(
                f"rank {self._source} sends rank {self._target} {self._sent} messages through {self._slots} "
                f"slots, of which {len(self._frees)} are freed",
                self._lacking,
                where=self._where,
                hint="call free(block) of the connection when a message has been read",
            )
        if self._freed is None or not needed:
            return []
        return [
            (free.block, (free.before, free.phase, free.line, self._freed)) for free in self._frees[:needed]
        ]

    @property
    def posted(self) -> bool:
        """Whether the signal of a message goes behind its stores, while the sender goes on."""
        return self._wires.posted and self._program.protocol == "Simple"

    @property
    def _where(self) -> str:
        return f"program {self._program.name!r}"

    def _is_closed(self) -> None:
        if self._open is not None and not self._open.closed:
            raise ProgramError(
                f"a message from rank {self._source} to rank {self._target} is not closed",
                self._open.line,
                where=self._where,
                hint="write `with wire.message(block) as m:`, and what it sends below it",
            )

    def _is_of(self, does: str, block: _MessageBlock) -> None:
        """Check that no other thread block is at the same end: nothing would order their messages."""
        if does not in self._ends:
            program = self._program
            at = program.at if program.at >= 0 else program.number_of(line_of_caller())
            self._ends[does] = block, at
        first, at = self._ends[does]
        if first is not block:
            line = list(self._program.lines)[at]
            raise ProgramError(
                f"a second thread block {does} on the connection from rank {self._source} to rank "
                f"{self._target}" + (f", the first one at {line}" if line else ""),
                line_of_caller(),
                where=self._where,
                hint="call p.connections() once for each block of a rank",
            )

    def _arrived(self) -> Semaphore:
        if self._semaphore is None:
            self._semaphore = self._program.semaphore(self._target)
        return self._semaphore

    def add_part(self) -> Chunk:
        """Return where the next chunk of the open message is stored."""
        assert self._open is not None  # noqa: S101 - it calls this
        part = self._open.chunks
        place = self._part(self._sent, self._stored - part, part, self._open.slice_number)
        self._stored += 1
        return place

    def _part(self, message: int, chunks: int, part: int, of: int | None = None) -> Chunk:
        """Return the place of a chunk of a message; messages before it had so many chunks."""
        program, wires = self._program, self._wires
        if not self._slots:
            number = (chunks if wires.apart else message * wires.chunks) + part
            index = wires.first + number * program.ranks + self._source
            return Chunk(self._target, "scratch", index, program.slice_number if of is None else of)
        if part >= wires.chunks:
            raise InputError(
                f"the message has more than {plural(wires.chunks, 'chunk')}",
                where=self._where,
                hint=f"use p.connections(depth={self._slots}, chunks={part + 1})",
            )
        number = (message * wires.chunks + part) * program.ranks + self._source
        if number >= FIRST_SLOT:
            raise InputError(
                f"rank {self._source} sends too many messages to rank {self._target}",
                where=self._where,
                hint="use fewer slices or ranks",
            )
        # All slices of a channel go through its buffer.
        return Chunk(self._target, "scratch", wires.buffer + number, program.channel * program.cut.of_channel)

    def _slot(self, message: int, chunks: int, like: Chunk | Chunks | None) -> Chunk | Chunks:
        first = self._part(message, chunks, 0)
        if not isinstance(like, Chunks):
            return first
        last = self._part(message, chunks, len(like.indices) - 1)
        step = self._program.ranks
        return Chunks(first.rank, "scratch", range(first.index, last.index + 1, step), first.channel)


class ChunkMessage:
    """One message of several chunks, while it is written: see :meth:`Connection.message`.

    Attributes
    ----------
    chunks : int
        How many it has so far.
    closed : bool
        Whether it has been announced.
    line : SourceLine, optional
        Where it was begun.
    slice_number : int
        The slice of each chunk that was worked on then.
    """

    def __init__(
        self, wire: Connection, block: _MessageBlock, line: SourceLine | None, slice_number: int
    ) -> None:
        self._wire, self._block, self._first = wire, block, block.count
        self.chunks, self.closed, self.line, self.slice_number = 0, False, line, slice_number

    def __enter__(self) -> Self:
        """Begin it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Announce it; after an error it stays open, and the program is refused."""
        if kind is None:
            self.close()

    def put(self, source: Chunk | Chunks) -> None:
        """Add a chunk, or each chunk of a slice of a buffer."""
        self.reduce((source,))

    def reduce(
        self, sources: Iterable[Chunk | Chunks], *, also: Chunk | Chunks | Iterable[Chunk | Chunks] = ()
    ) -> None:
        """Add the sum of several chunks, and store it to the chunks in ``also`` as well."""
        if self.closed:
            raise InputError("the message is closed", where="message", hint="put before it is closed")
        sources = as_chunks(sources)
        for each in zip(*(_each(one) for one in (*sources, *as_chunks(also))), strict=True):
            slot = self._wire.add_part()
            self.chunks += 1
            self._block.reduce(each[: len(sources)], *each[len(sources) :], slot)

    def close(self) -> None:
        """Signal the receiver that the message is stored; ``with`` does it at its end."""
        if self.closed:
            return
        if not self.chunks:
            raise ProgramError(
                "the message has no chunk", self.line, where="message", hint="put at least one chunk"
            )
        self.closed = True
        posted = self._wire.posted
        self._wire.announce(self._block, behind=self._block.moves_since(self._first) if posted else 0)


def _each(chunk: Chunk | Chunks) -> list[Chunk]:
    return list(chunk) if isinstance(chunk, Chunks) else [chunk]


class Connections:
    """The connections of a program, created on first use: ``wires[source, target]``.

    Parameters
    ----------
    program : Program
    depth : int
        Slots of each: so many messages are under way, or not freed yet. 0: each message has a place of its
        own, or one of the slots of NCCL's buffer where the algorithm is cut for it.
    chunks : int
        Chunks that a message has at most, where there are slots.
    posted : bool
        Whether signals of messages go behind their stores, while the sender goes on.
    first : bool
        Whether they are the first connections of their channel.
    """

    def __init__(
        self,
        program: _MessageProgram,
        depth: int = 0,
        chunks: int = 1,
        *,
        posted: bool = False,
        first: bool = True,
    ) -> None:
        if depth < 0 or chunks < 1:
            raise InputError(
                f"connections cannot have {depth} slots of {chunks} chunks",
                where=f"program {program.name!r}",
                hint="give a depth from 0, and at least one chunk",
            )
        self.program, self.posted = program, posted
        self.apart = not depth and program.cut.together == 1  # messages may differ in their number of chunks
        self.depth = depth or program.cut.slots // program.cut.together
        self.chunks = chunks if depth else program.cut.together
        self._buffer: int | None = None
        self.channel = program.channel
        self._first = 0 if first else -1  # at the beginning of scratch
        self._made: dict[tuple[int, int], Connection] = {}

    @property
    def buffer(self) -> int:
        """First index, in scratch, of the messages of all these connections."""
        if self._buffer is None:
            self._buffer = self.program.add_buffer(self.depth * self.chunks)
        return self._buffer

    @property
    def first(self) -> int:
        """First index, in scratch, of the messages that have places of their own."""
        if self._first < 0:
            self._first = self.program.add_buffer(FIRST_SLOT)
        return self._first

    def __getitem__(self, ends: tuple[SupportsIndex, SupportsIndex]) -> Connection:
        """Return the connection from one rank to another."""
        source, target = map(index, ends)
        if (source, target) not in self._made:
            self._made[source, target] = Connection(self, source, target)
        return self._made[source, target]

    def settle(self) -> None:
        """Add the signals that free slots: all messages are known."""
        of: dict[int, tuple[_MessageBlock, list[tuple[int, int, SourceLine | None, Semaphore]]]] = {}
        for wire in self._made.values():
            for block, free in wire.settle():
                of.setdefault(id(block), (block, []))[1].append(free)
        for block, frees in of.values():
            block.add_frees(frees)

    @property
    def needless(self) -> list[Semaphore]:
        """The semaphores that free slots for which nobody waits."""
        return [semaphore for wire in self._made.values() for semaphore in wire.needless]
