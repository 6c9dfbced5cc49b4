"""What the ranks of a stage do: operations as columns, in which groups and peers have no numbers yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from astranb.chakra import CollectiveType, NodeType

from ._parallel import GROUPS, Parallelism

__all__ = ["Cost", "Program"]

TAGS: Final = 499_000_000
"""Tags of messages lie below; ASTRA-sim's own begin above."""


class Cost(NamedTuple):
    """What a computation takes on one rank.

    Attributes
    ----------
    flops : int
        Operations of matrices: a multiplication and an addition are two.
    touched : int
        Bytes that it reads and writes.
    vector : bool
        Whether its operations are not those of matrices, and count for no model.
    useful : int, optional
        Operations that count for the model, where those are not all.
    """

    flops: int
    touched: int
    vector: bool = False
    useful: int | None = None

    def times(self, count: int) -> Cost:
        """So many of it."""
        useful = None if self.useful is None else self.useful * count
        return Cost(self.flops * count, self.touched * count, self.vector, useful)


class Program:
    """The operations of each rank of one stage, in an order in which they can be done one after another.

    Computations wait for the one before, and so do messages sent and collectives. As the order
    is one in which nothing waits for ever if each rank does one operation after the other, nothing does
    whatever the times are (docs/workloads.md).

    Parameters
    ----------
    parallelism : Parallelism

    Attributes
    ----------
    kind, names, flops, size, collective, group, peer, tag : list
        A value an operation: :class:`NodeType`, name, operations, bytes (touched, or communicated),
        :class:`CollectiveType`, position in :data:`GROUPS` or -1, in :data:`PEERS` or -1, tag.
    useful : list of int
        The operations of the model; 0 where they are done again, or are none of matrices.
    deps : list of tuple of int
        What each waits for.
    computed : int
        The last computation; -1 where there is none.
    """

    def __init__(self, parallelism: Parallelism) -> None:
        self.parallelism = parallelism
        self.kind: list[int] = []
        self.names: list[str] = []
        self.flops: list[int] = []
        self.size: list[int] = []
        self.collective: list[int] = []
        self.group: list[int] = []
        self.peer: list[int] = []
        self.tag: list[int] = []
        self.useful: list[int] = []
        self.deps: list[tuple[int, ...]] = []
        self.computed = -1
        self._sent = -1
        self._received: dict[int, int] = {}

    def __len__(self) -> int:
        """How many operations there are."""
        return len(self.kind)

    def compute(self, name: str, cost: Cost, after: Iterable[int] = (), *, again: bool = False) -> int:
        """Add a computation.

        Parameters
        ----------
        name : str
        cost : Cost
        after : iterable of int
            What it waits for, besides the computation before; negative ones count for nothing.
        again : bool
            Whether it has been done before (recomputation).

        Returns
        -------
        int
            Its number.
        """
        number = self._add(NodeType.COMP, name, cost.touched, (*after, self.computed), flops=cost.flops)
        if not again and not cost.vector:
            self.useful[number] = cost.flops if cost.useful is None else cost.useful
        self.computed = number
        return number

    def collect(
        self, collective: str, group: str, size: int, name: str, after: Iterable[int] = ()
    ) -> tuple[int, ...]:
        """Add a collective; none where the group is of one rank.

        Parameters
        ----------
        collective : str
            As ``all_reduce``.
        group : str
            One of :data:`GROUPS`.
        size : int
            Bytes that each rank puts in.
        name : str
        after : iterable of int

        Returns
        -------
        tuple of int
            What to wait for: its number, or where there is none what it would have waited for.
        """
        wanted = tuple(one for one in after if one >= 0)
        if self.parallelism.size(group) == 1 or not size:
            return wanted
        number = self._add(NodeType.COMM_COLL, name, size, (*wanted, self._sent))
        self.collective[number] = int(CollectiveType[collective.upper()])
        self.group[number] = GROUPS.index(group)
        self._sent = number
        return (number,)

    def send(self, peer: int, size: int, tag: int, name: str, after: Iterable[int]) -> int:
        """Add a message to one of :data:`PEERS`."""
        number = self._add(NodeType.COMM_SEND, name, size, (*after, self._sent))
        self.peer[number], self.tag[number] = peer, tag
        self._sent = number
        return number

    def receive(self, peer: int, size: int, tag: int, name: str) -> int:
        """Add the receipt of one; it waits for the one before from the same peer only."""
        number = self._add(NodeType.COMM_RECV, name, size, (self._received.get(peer, -1),))
        self.peer[number], self.tag[number] = peer, tag
        self._received[peer] = number
        return number

    def _add(self, kind: NodeType, name: str, size: int, after: Iterable[int], flops: int = 0) -> int:
        number = len(self.kind)
        self.kind.append(int(kind))
        self.names.append(name)
        self.flops.append(flops)
        self.size.append(size)
        self.useful.append(0)
        for column in (self.collective, self.group, self.peer):
            column.append(-1)
        self.tag.append(0)
        self.deps.append(tuple(sorted({one for one in after if one >= 0})))
        return number
