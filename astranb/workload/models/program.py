"""The program of a stage: operations as columns, with groups and peers named by their roles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from astranb.chakra import CollectiveType, NodeType
from astranb.chakra.scaling import GROUPS, Parallelism
from astranb.workload.kernels import Kernel, Stream

__all__ = ["Cost", "StageProgram", "Unit", "optimizer_pass"]

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
    kernels : tuple of Kernel
        What it launches, which takes the time; operations and bytes are the roofline's.
    frozen : int
        Operations with parameters that are not trained: their backward pass takes as many, not twice.
    """

    flops: int
    touched: int
    vector: bool = False
    useful: int | None = None
    kernels: tuple[Kernel, ...] = ()
    frozen: int = 0

    def times(self, count: int) -> Cost:
        """Multiply the cost."""
        useful = None if self.useful is None else self.useful * count
        frozen = self.frozen * count
        return Cost(
            self.flops * count, self.touched * count, self.vector, useful, self.kernels * count, frozen
        )

    def backward(self) -> Cost:
        """Return the cost of the backward pass: twice the operations and bytes, and kernels of its own."""
        back = tuple(kernel for one in reversed(self.kernels) for kernel in one.backward())
        useful = None if self.useful is None else 2 * self.useful - self.frozen
        return Cost(2 * self.flops - self.frozen, 2 * self.touched, self.vector, useful, back)

    def halves(self) -> tuple[Cost, Cost]:
        """Divide the backward pass of a product: the gradient of its input, and that of its parameters."""
        back = self.backward()
        first = tuple(one.backward()[0] for one in reversed(self.kernels) if one.backward())
        rest = tuple(kernel for one in reversed(self.kernels) for kernel in one.backward()[1:])
        return self._replace(kernels=first), self._replace(
            kernels=rest, flops=back.flops - self.flops, touched=back.touched - self.touched
        )

    def plus(self, other: Cost) -> Cost:
        """One after the other, as one computation; the other's operations count if this one's do."""
        useful = None
        if self.useful is not None or other.useful is not None or self.vector != other.vector:
            useful = self.counted + other.counted
        return Cost(
            self.flops + other.flops,
            self.touched + other.touched,
            self.vector and other.vector,
            useful,
            self.kernels + other.kernels,
            self.frozen + other.frozen,
        )

    @property
    def counted(self) -> int:
        """Operations that count as the model's."""
        return 0 if self.vector else self.flops if self.useful is None else self.useful


class Unit(NamedTuple):
    """Nodes of a pass for a layer, the embedding or the head.

    Attributes
    ----------
    key : int
        Which one (:func:`.weights.units`).
    chunk : int
    is_forward : bool
    first, last : int
        Its first and its last computation.
    """

    key: int
    chunk: int
    is_forward: bool
    first: int
    last: int


def optimizer_pass(touched: int) -> Stream:
    """Return the kernel of the optimizer's step, which has no backward pass."""
    return Stream(touched, back=0.0, sort="optimizer")


class StageProgram:
    """The operations of each rank of one stage, in an order in which they can be done one after another.

    Each computation waits for the previous one, and each send or collective for the previous send or
    collective of its stream: sums of gradients and gathered parameters have one of their own. If ranks
    that do one operation after another have no deadlock in this order, there is none whatever the
    durations are (docs/workloads.md).

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
    counted : list of int
        The same with recomputation.
    kernels : list of tuple of Kernel
        What computations launch.
    background : list of bool
        Whether a collective is one that the others do not wait for: sums of gradients, parameters; or it is
        a load or store, which collectives do not wait for.
    deps : list of tuple of int
        The dependencies of each.
    computed : int
        The last computation, -1 if there is none.
    units : list of Unit
        What passes consist of, in the order of the program.
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
        self.counted: list[int] = []
        self.kernels: list[tuple[Kernel, ...]] = []
        self.background: list[bool] = []
        self.deps: list[tuple[int, ...]] = []
        self.computed = -1
        self.units: list[Unit] = []
        self._moved = -1  # the last load from or store to the memory outside
        self._sent = [-1, -1]  # the last message or collective, and the last one in the background
        self._received: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of operations."""
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
        number = self.add(NodeType.COMP, name, cost.touched, (*after, self.computed), flops=cost.flops)
        self.counted[number] = cost.counted
        if not again:
            self.useful[number] = cost.counted
        self.kernels[number] = cost.kernels
        self.computed = number
        return number

    def collect(
        self,
        collective: str,
        group: str,
        size: int,
        name: str,
        after: Iterable[int] = (),
        *,
        background: bool = False,
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
        background : bool
            Whether it waits only for collectives in the background, and only these wait for it.

        Returns
        -------
        tuple of int
            The operations to wait for: the collective, or its dependencies if there is none.
        """
        wanted = tuple(one for one in after if one >= 0)
        if self.parallelism.size(group) == 1 or not size:
            return wanted
        number = self.add(NodeType.COMM_COLL, name, size, (*wanted, self._sent[background]))
        self.collective[number] = int(CollectiveType[collective.upper()])
        self.group[number] = GROUPS.index(group)
        self.background[number] = background
        self._sent[background] = number
        return (number,)

    def send(self, peer: int, size: int, tag: int, name: str, after: Iterable[int]) -> int:
        """Add a message to one of :data:`PEERS`."""
        number = self.add(NodeType.COMM_SEND, name, size, (*after, self._sent[0]))
        self.peer[number], self.tag[number] = peer, tag
        self._sent[0] = number
        return number

    def move(self, kind: NodeType, size: int, name: str, after: Iterable[int]) -> tuple[int, ...]:
        """Add a load from the memory outside the GPU, or a store to it, unless it has no bytes.

        It waits for the previous one: copies of a rank are done one after another, in this order.

        Parameters
        ----------
        kind : NodeType
            ``MEM_LOAD`` or ``MEM_STORE``.
        size : int
            Bytes.
        name : str
        after : iterable of int

        Returns
        -------
        tuple of int
            The operations to wait for: this one, or its dependencies if there is none.
        """
        wanted = tuple(one for one in after if one >= 0)
        if not size:
            return wanted
        number = self._moved = self.add(kind, name, size, (*wanted, self._moved))
        self.background[number] = True
        return (number,)

    def receive(self, peer: int, size: int, tag: int, name: str) -> int:
        """Add a receive; it waits only for the previous one from the same peer."""
        number = self.add(NodeType.COMM_RECV, name, size, (self._received.get(peer, -1),))
        self.peer[number], self.tag[number] = peer, tag
        self._received[peer] = number
        return number

    def add(self, kind: NodeType, name: str, size: int, after: Iterable[int], flops: int = 0) -> int:
        """Add an operation that waits for some, and for nothing else; its other columns are still empty."""
        number = len(self.kind)
        self.kind.append(int(kind))
        self.names.append(name)
        self.flops.append(flops)
        self.size.append(size)
        self.useful.append(0)
        self.counted.append(0)
        self.kernels.append(())
        self.background.append(False)
        for column in (self.collective, self.group, self.peer):
            column.append(-1)
        self.tag.append(0)
        self.deps.append(tuple(sorted({one for one in after if one >= 0})))
        return number
