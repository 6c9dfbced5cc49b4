"""The program of a stage: operations as columns, with groups and peers named by their roles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from astranb.chakra import CollectiveType, NodeType

from .parallelism import GROUPS, Parallelism

__all__ = ["Cost", "StageProgram"]

TAGS: Final = 499_000_000
"""Tags of messages are lower; those of ASTRA-sim's collectives are higher."""


class Cost(NamedTuple):
    """The cost of a computation on one rank.

    Attributes
    ----------
    flops : int
        Floating-point operations: a multiplication and an addition are two.
    touched : int
        Bytes read and written.
    vector : bool
        Whether it is not an operation on matrices, and so not one of the model's.
    useful : int, optional
        Operations that count as the model's; by default all of them.
    """

    flops: int
    touched: int
    vector: bool = False
    useful: int | None = None

    def times(self, count: int) -> Cost:
        """Multiply the cost."""
        useful = None if self.useful is None else self.useful * count
        return Cost(self.flops * count, self.touched * count, self.vector, useful)


class StageProgram:
    """The operations of each rank of one stage, in an order in which they can be done one after another.

    Each computation waits for the previous one, and each send or collective for the previous send or
    collective. If ranks that do one operation after another have no deadlock in this order, there is
    none whatever the durations are (docs/workloads.md).

    Parameters
    ----------
    parallelism : Parallelism

    Attributes
    ----------
    kind, names, flops, size, collective, group, peer, tag : list
        One value per operation: :class:`NodeType`, name, operations, bytes (touched, or communicated),
        :class:`CollectiveType`, position in :data:`GROUPS` or -1, in :data:`PEERS` or -1, tag.
    useful : list of int
        The model's operations; 0 for recomputation and element-wise operations.
    deps : list of tuple of int
        The dependencies of each.
    computed : int
        The last computation, -1 if there is none.
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
        """Give the number of operations."""
        return len(self.kind)

    def compute(self, name: str, cost: Cost, after: Iterable[int] = (), *, again: bool = False) -> int:
        """Add a computation.

        Parameters
        ----------
        name : str
        cost : Cost
        after : iterable of int
            Its dependencies besides the previous computation; negative numbers are ignored.
        again : bool
            Whether it is a recomputation.

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
        """Add a collective, unless the group has one rank.

        Parameters
        ----------
        collective : str
            Its name, such as ``all_reduce``.
        group : str
            One of :data:`GROUPS`.
        size : int
            Bytes of each rank's input.
        name : str
        after : iterable of int

        Returns
        -------
        tuple of int
            The operations to wait for: the collective, or its dependencies if there is none.
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
        """Add a receive; it waits only for the previous one from the same peer."""
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
