"""Connections: messages from rank to rank, data and a signal that it has arrived."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .buffer import Buffer
from .operation import Chunk, Chunks, Semaphore

__all__ = ["Connection", "Connections"]


class _Connected(Protocol):
    """What connections need of their program."""

    @property
    def ranks(self) -> int: ...

    def semaphore(self, rank: int) -> Semaphore: ...

    def scratch(self, rank: int) -> Buffer: ...


class _Sender(Protocol):
    """What they need of a thread block."""

    def reduce(self, sources: Iterable[Chunk | Chunks], *targets: Chunk | Chunks) -> None: ...

    def signal(self, semaphore: Semaphore) -> None: ...

    def wait(self, semaphore: Semaphore) -> None: ...


class _End(Protocol):
    """What they need of a rank."""

    @property
    def number(self) -> int: ...


class Connection:
    """Messages from one rank to another on one channel: data, and a signal that it has arrived.

    Messages are received in the order in which they are sent. A message is stored to scratch of
    the receiver and a semaphore is raised after it; the protocols ``LL`` and ``LL128`` turn it
    into packets.
    """

    def __init__(self, program: _Connected, source: int, target: int) -> None:
        self._program, self._target = program, target
        self._number = program.ranks * source + target
        self._semaphore: Semaphore | None = None
        self._sent = self._received = 0

    def send(self, block: _Sender, *sources: Chunk, also: tuple[Chunk, ...] = ()) -> None:
        """Send a chunk, or the sum of several; store it to the chunks in ``also`` as well."""
        block.reduce(sources, *also, self._slot(self._sent))
        self._sent += 1
        block.signal(self._arrived())

    def receive(self, block: _Sender) -> Chunk:
        """Wait for the next message; return the chunk that holds it."""
        slot = self._slot(self._received)
        self._received += 1
        block.wait(self._arrived())
        return slot

    def _arrived(self) -> Semaphore:
        if self._semaphore is None:
            self._semaphore = self._program.semaphore(self._target)
        return self._semaphore

    def _slot(self, number: int) -> Chunk:
        return self._program.scratch(self._target)[number * self._program.ranks**2 + self._number]


class Connections:
    """The connections of a program, created on first use: ``wires[source, target]``."""

    def __init__(self, program: _Connected) -> None:
        self._program = program
        self._made: dict[tuple[int, int], Connection] = {}

    def __getitem__(self, ends: tuple[_End | int, _End | int]) -> Connection:
        """Return the connection from one rank to another."""
        source, target = (end if isinstance(end, int) else end.number for end in ends)
        if (source, target) not in self._made:
            self._made[source, target] = Connection(self._program, source, target)
        return self._made[source, target]
