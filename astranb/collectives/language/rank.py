"""One rank of a program: its buffers, its place on the machine, and its thread blocks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from operator import index
from typing import NoReturn, Protocol, Self, SupportsIndex

from astranb.net import Shape

from .block import Block
from .buffer import Buffer
from .operation import Semaphore
from .source import ProgramError, line_of_caller

__all__ = ["Rank", "Ranks"]


class _RankedProgram(Protocol):
    """Members of a program that a rank needs."""

    name: str
    ranks: int
    shape: Shape

    def check_links(self, asked: str) -> None: ...

    def rank(self, number: int) -> Rank: ...

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


@dataclass(frozen=True, slots=True, eq=False)
class Rank:
    """One rank of a program, with its buffers. Where a number of a rank is expected, it can be given, too.

    A program has one object for each rank, so that ``you is me`` is as good as ``you == me``; ``me == 0`` and
    ``me < 4`` compare its number.

    Examples
    --------
    A two-shot all-reduce:

    >>> def two_shot(p):
    ...     wires = p.connections()
    ...     for me in p.everyone:
    ...         block = me.block()
    ...         for you in me.others:
    ...             wires[me, you].send(block, me.input[you])
    ...         parts = [wires[you, me].receive(block) for you in me.others]
    ...         total = block.reduce([me.input[me], *parts], me.output[me])
    ...         for you in me.others:
    ...             wires[me, you].send(block, total)
    ...         for you in me.others:
    ...             block.copy(wires[you, me].receive(block), me.output[you])
    """

    program: _RankedProgram
    number: int

    def __index__(self) -> int:
        """Return its number: ``me.input[you]`` and ``arrived[you]`` are those of ``you.number``."""
        return self.number

    def __str__(self) -> str:
        """Return ``rank 3``."""
        return f"rank {self.number}"

    def __eq__(self, other: object) -> bool:
        """Compare with a rank of the same program, or with a number: ``me == 0``."""
        if isinstance(other, Rank):
            return self.program is other.program and self.number == other.number
        return isinstance(other, Integral) and self.number == int(other)

    def __hash__(self) -> int:
        """As its number, which it equals."""
        return hash(self.number)

    def __lt__(self, other: SupportsIndex) -> bool:
        """Compare the numbers."""
        return self.number < index(other)

    def __le__(self, other: SupportsIndex) -> bool:
        """Compare the numbers."""
        return self.number <= index(other)

    def __gt__(self, other: SupportsIndex) -> bool:
        """Compare the numbers."""
        return self.number > index(other)

    def __ge__(self, other: SupportsIndex) -> bool:
        """Compare the numbers."""
        return self.number >= index(other)

    def _is_no_number(self, other: object) -> NoReturn:
        del other
        where = f"program {self.program.name!r}"
        hint = "write me.number for the number of a rank, me.right or me.left for a neighbour"
        raise ProgramError(
            "a rank cannot be added, subtracted or divided", line_of_caller(), where=where, hint=hint
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __floordiv__ = _is_no_number

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
        return self.program.rank((self.number + 1) % self.program.ranks)

    @property
    def left(self) -> Rank:
        """The previous rank; the last one precedes the first."""
        return self.program.rank((self.number - 1) % self.program.ranks)

    @property
    def others(self) -> list[Rank]:
        """All other ranks, in the order of :meth:`Program.others`."""
        return [self.program.rank(number) for number in self.program.others(self.number)]

    @property
    def place(self) -> int:
        """Its position in its box, from 0."""
        return self.number % self.program.per_node

    @property
    def box(self) -> Ranks:
        """The ranks of its box (its server or node), itself included; ``me.box.others`` without it."""
        first = self.number - self.place
        last = min(self.program.ranks, first + self.program.per_node)
        return Ranks((self.program.rank(number) for number in range(first, last)), me=self)

    @property
    def rail(self) -> Ranks:
        """The ranks with its place in every box, itself included; ``me.rail.others`` without it."""
        places = range(self.place, self.program.ranks, self.program.per_node)
        return Ranks((self.program.rank(number) for number in places), me=self)

    @property
    def neighbours(self) -> list[Rank]:
        """The ranks that a link of their own joins with it, in ascending order.

        On a torus they are the next ones in each dimension. Where switches join all GPUs, they are those
        that the fewest links join with it: the others of its box.
        """
        self.program.check_links("neighbours")
        found = self.program.shape.neighbours(self.number, self.program.ranks)
        return [self.program.rank(number) for number in found]

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
        return self.program.rank(number)

    def block(self, warps: int = 0) -> Block:
        """Add a thread block; see :meth:`Program.block`."""
        return self.program.block(self.number, warps)

    def semaphore(self) -> Semaphore:
        """Add a semaphore."""
        return self.program.semaphore(self.number)


class Ranks(tuple[Rank, ...]):  # noqa: SLOT001 - a tuple has no slots of its own
    """Some ranks in an order, as one of them sees them: a box, a rail, a ring.

    Parameters
    ----------
    ranks : iterable of Rank
    me : Rank, optional
        The one that sees them; by default the first.

    Examples
    --------
    >>> from astranb.collectives import Program
    >>> from astranb.net.shape import Shape
    >>> p = Program("x", ranks=8, channels=1, input_chunks=1, output_chunks=1, shape=Shape(4))
    >>> [you.number for you in p.rank(2).box], [you.number for you in p.rank(2).box.others]
    ([0, 1, 2, 3], [3, 0, 1])
    >>> [you.number for you in p.rank(2).rail.others], [you.number for you in p.ring(6).others]
    ([6], [7, 0, 1, 2, 3, 4, 5])
    """

    me: Rank | None

    def __new__(cls, ranks: Iterable[Rank], me: Rank | None = None) -> Self:
        """Make them of ranks."""
        made = super().__new__(cls, ranks)
        made.me = me or next(iter(made), None)
        return made

    @property
    def others(self) -> tuple[Rank, ...]:
        """Those but the one that sees them, from the next one on: each begins with another one."""
        at = self.index(self.me)
        return self[at + 1 :] + self[:at]
