"""Messages from one rank to another: data, and the signal that it has arrived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .fifo import FIRST_SLOT, Cut
from .operation import Chunk, Chunks, Semaphore

__all__ = ["Connection", "Connections"]


class _MessageProgram(Protocol):
    """What connections need of their program."""

    ranks: int
    channel: int
    protocol: str
    cut: Cut
    frees: set[Semaphore]

    @property
    def per_node(self) -> int: ...

    @property
    def nics_move(self) -> bool: ...

    def semaphore(self, rank: int) -> Semaphore: ...

    @property
    def slice_number(self) -> int: ...


class _MessageBlock(Protocol):
    """What they need of a thread block."""

    def compute(self, instructions: int = 1) -> None: ...

    def reduce(self, sources: tuple[Chunk | Chunks, ...], *targets: Chunk | Chunks) -> None: ...

    def spend(self, time_ps: int) -> None: ...

    def signal(self, semaphore: Semaphore, value: int = 1, *, relaxed: bool = False) -> None: ...

    def wait(self, semaphore: Semaphore, value: int = 1) -> None: ...


class _NumberedRank(Protocol):
    """A rank."""

    @property
    def number(self) -> int: ...


class Connection:
    """Messages from one rank to another on one channel: data, and a signal that it has arrived.

    Messages are received in the order in which they are sent. A message is stored to scratch of
    the receiver and a semaphore is raised after it; the protocols ``LL`` and ``LL128`` turn it
    into packets.

    Where the program's ``cut`` has slots, a message is in one of them: before the sender uses a slot
    again, it waits until the receiver has freed it. NICs write to messages of their own. A slice of
    a buffer is one message; all messages have as many chunks, but for the last.
    """

    def __init__(self, program: _MessageProgram, source: int, target: int, messages: int = 0) -> None:
        self._program, self._source, self._target = program, source, target
        near = not program.nics_move or source // program.per_node == target // program.per_node
        self._slots = program.cut.slots // program.cut.together if near else 0
        self._messages = messages
        self._semaphore: Semaphore | None = None
        self._freed: Semaphore | None = None
        self._sent = self._received = self._released = 0

    def send(
        self,
        block: _MessageBlock,
        *sources: Chunk | Chunks,
        also: tuple[Chunk | Chunks, ...] = (),
        others: Sequence[Connection] = (),
    ) -> None:
        """Send a chunk, or the sum of several.

        Store it to the chunks in ``also`` as well, and send it on the connections in ``others``.
        """
        wires = (self, *others)
        slots = [wire.claim(block, sources[0]) for wire in wires]
        if self._slots and self._program.protocol != "Simple":
            block.compute()  # threads look for their flags together: a barrier after each wait for a slot
        block.reduce(sources, *also, *slots)
        for wire in wires:
            wire.announce(block)
        if self._program.cut.step_ps:
            block.spend(self._program.cut.step_ps)

    def claim(self, block: _MessageBlock, like: Chunk | Chunks) -> Chunk | Chunks:
        """Wait until the next message has a slot; return it, of as many chunks as ``like``."""
        if self._slots and self._sent >= self._slots:
            block.wait(self._free())
        return self._slot(self._sent, like)

    def announce(self, block: _MessageBlock) -> None:
        """Tell the receiver that the message is stored."""
        self._sent += 1
        block.signal(self._arrived())

    def receive(self, block: _MessageBlock, like: Chunk | Chunks | None = None) -> Any:
        """Wait for the next message; return the chunk that holds it, or as many chunks as ``like``."""
        slot = self._slot(self._received, like)
        self._received += 1
        block.wait(self._arrived())
        return slot

    def free(self, block: _MessageBlock) -> None:
        """Let the sender use the slot of the first message that is not freed yet: it has been read.

        The last messages' slots are not used again, and nobody waits for them.
        """
        if self._slots and self._released + self._slots < self._messages:
            block.signal(self._free(), relaxed=True)
        self._released += 1

    def _free(self) -> Semaphore:
        if self._freed is None:
            self._freed = self._program.semaphore(self._source)
            self._program.frees.add(self._freed)
        return self._freed

    def _arrived(self) -> Semaphore:
        if self._semaphore is None:
            self._semaphore = self._program.semaphore(self._target)
        return self._semaphore

    def _slot(self, number: int, like: Chunk | Chunks | None) -> Chunk | Chunks:
        program = self._program
        index = number * program.cut.together * program.ranks + self._source
        if self._slots:  # all slices of a channel go through its buffer
            buffer, channel = FIRST_SLOT, program.channel * program.cut.of_channel
        else:
            buffer, channel = 0, program.slice_number
        if not isinstance(like, Chunks):
            return Chunk(self._target, "scratch", buffer + index, channel)
        first, step = buffer + index, program.ranks
        return Chunks(self._target, "scratch", range(first, first + len(like.indices) * step, step), channel)


class Connections:
    """The connections of a program, created on first use: ``wires[source, target]``."""

    def __init__(self, program: _MessageProgram, messages: int = 0) -> None:
        self._program, self._messages = program, messages
        self._made: dict[tuple[int, int], Connection] = {}

    def __getitem__(self, ends: tuple[_NumberedRank | int, _NumberedRank | int]) -> Connection:
        """Return the connection from one rank to another."""
        source, target = (end if isinstance(end, int) else end.number for end in ends)
        if (source, target) not in self._made:
            self._made[source, target] = Connection(self._program, source, target, self._messages)
        return self._made[source, target]
