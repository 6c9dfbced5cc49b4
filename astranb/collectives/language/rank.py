"""One rank of a program: its buffers, its place on the machine, and its thread blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from astranb.net import Shape

from .block import Block
from .buffer import Buffer
from .operation import Semaphore
from .source import ProgramError, line_of_caller

__all__ = ["Rank"]


class _RankedProgram(Protocol):
    """Members of a program that a rank needs."""

    name: str
    ranks: int
    shape: Shape

    @property
    def per_node(self) -> int: ...

    @property
    def dimensions(self) -> tuple[int, ...]: ...

    def input(self, rank: int) -> Buffer: ...

    def output(self, rank: int) -> Buffer: ...

    def scratch(self, rank: int) -> Buffer: ...

    def panels(self, rank: int) -> Buffer: ...

    def others(self, rank: int) -> list[int]: ...

    def block(self, rank: int, warps: int = 0) -> Block: ...

    def semaphore(self, rank: int) -> Semaphore: ...


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

    program: _RankedProgram
    number: int

    @property
    def input(self) -> Buffer:
        """Its contribution."""
        return self.program.input(self.number)

    @property
    def output(self) -> Buffer:
        """Output buffer of the rank, where its result must be at the end."""
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

    @property
    def place(self) -> int:
        """Its position in its box, from 0."""
        return self.number % self.program.per_node

    @property
    def box(self) -> list[Rank]:
        """The ranks of its box (its server or node), itself included."""
        first = self.number - self.place
        last = min(self.program.ranks, first + self.program.per_node)
        return [Rank(self.program, number) for number in range(first, last)]

    @property
    def rail(self) -> list[Rank]:
        """The ranks with its place in every box, itself included."""
        places = range(self.place, self.program.ranks, self.program.per_node)
        return [Rank(self.program, number) for number in places]

    @property
    def neighbours(self) -> list[Rank]:
        """The ranks that a link of their own joins with it, in ascending order.

        On a torus they are the next ones in each dimension. Where switches join all GPUs, they are those
        that the fewest links join with it: the others of its box.
        """
        found = self.program.shape.neighbours(self.number, self.program.ranks)
        return [Rank(self.program, number) for number in found]

    @property
    def coordinates(self) -> tuple[int, ...]:
        """Its position in each of the :attr:`Program.dimensions`."""
        found, rest = [], self.number
        for size in reversed(self.program.dimensions):
            rest, place = divmod(rest, size)
            found.append(place)
        return tuple(reversed(found))

    def along(self, dimension: int, by: int = 1) -> Rank:
        """Return the rank that is so many further in one dimension; the first one follows the last.

        Examples
        --------
        >>> from astranb.collectives import Program
        >>> from astranb.net.shape import Shape
        >>> p = Program("x", ranks=8, channels=1, input_chunks=1, output_chunks=1, shape=Shape(4))
        >>> me = p.rank(3)
        >>> me.coordinates, me.along(1).number, me.along(0).number, me.along(0, -1).coordinates
        ((0, 3), 0, 7, (1, 3))
        """
        sizes, places = self.program.dimensions, list(self.coordinates)
        if not 0 <= dimension < len(sizes):
            what = f"unknown dimension {dimension}"
            hint = f"dimensions are 0 to {len(sizes) - 1}"
            raise ProgramError(what, line_of_caller(), where=f"program {self.program.name!r}", hint=hint)
        places[dimension] = (places[dimension] + by) % sizes[dimension]
        number = 0
        for size, place in zip(sizes, places, strict=True):
            number = number * size + place
        return Rank(self.program, number)

    def block(self, warps: int = 0) -> Block:
        """Add a thread block; see :meth:`Program.block`."""
        return self.program.block(self.number, warps)

    def semaphore(self) -> Semaphore:
        """Add a semaphore."""
        return self.program.semaphore(self.number)
