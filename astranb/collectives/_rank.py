"""Ranks and the channels between them: what most algorithms are written over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._program import Block, Buffer, Chunk, Program, Semaphore

__all__ = ["Channel", "Channels", "Rank"]


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of a program, with its buffers: what most algorithms are written over.

    Examples
    --------
    A two-shot all-reduce, at any protocol:

    >>> def two_shot(p):
    ...     wires = p.channels()
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
        """What the rank brings."""
        return self.program.input(self.number)

    @property
    def output(self) -> Buffer:
        """Where its result must stand."""
        return self.program.output(self.number)

    @property
    def scratch(self) -> Buffer:
        """Its working memory."""
        return self.program.scratch(self.number)

    @property
    def right(self) -> Rank:
        """The next rank, round the end."""
        return Rank(self.program, (self.number + 1) % self.program.ranks)

    @property
    def left(self) -> Rank:
        """The rank before, round the end."""
        return Rank(self.program, (self.number - 1) % self.program.ranks)

    @property
    def others(self) -> list[Rank]:
        """All other ranks, in the order of :meth:`Program.others`."""
        return [Rank(self.program, number) for number in self.program.others(self.number)]

    def block(self) -> Block:
        """Add a thread block."""
        return self.program.block(self.number)

    def semaphore(self) -> Semaphore:
        """Add a semaphore."""
        return self.program.semaphore(self.number)


class Channel:
    """One way from one rank to another: data, and the word that it has come.

    What is sent is received in the same order. Under ``Simple`` a message is stored to
    scratch, and a semaphore raised behind a fence; under ``LL`` and ``LL128`` it is stored as
    packets, whose flags the reader waits for line by line.
    """

    def __init__(self, program: Program, source: int, target: int) -> None:
        self._program, self._target = program, target
        self._number = program.ranks * source + target
        self._semaphore: Semaphore | None = None
        self._sent = self._received = 0

    def send(self, block: Block, *sources: Chunk, also: tuple[Chunk, ...] = ()) -> None:
        """Send a chunk, or the sum of several; store it here and there as well."""
        block.reduce(sources, *also, self._slot(self._sent))
        self._sent += 1
        if self._program.by_semaphore:
            block.signal(self._bell())

    def receive(self, block: Block) -> Chunk:
        """Wait for the next message; returns where it stands."""
        slot = self._slot(self._received)
        self._received += 1
        if self._program.by_semaphore:
            block.wait(self._bell())
        return slot

    def _bell(self) -> Semaphore:
        if self._semaphore is None:
            self._semaphore = self._program.semaphore(self._target)
        return self._semaphore

    def _slot(self, number: int) -> Chunk:
        return self._program.inbox(self._target)[number * self._program.ranks**2 + self._number]


class Channels:
    """The channels of a program, made when they are first used: ``wires[source, target]``."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._made: dict[tuple[int, int], Channel] = {}

    def __getitem__(self, ends: tuple[Rank | int, Rank | int]) -> Channel:
        """Return the channel from one rank to another."""
        source, target = (end.number if isinstance(end, Rank) else end for end in ends)
        if (source, target) not in self._made:
            self._made[source, target] = Channel(self._program, source, target)
        return self._made[source, target]
