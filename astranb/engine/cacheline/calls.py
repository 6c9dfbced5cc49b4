"""A workload's collectives and messages, matched over all ranks: who takes part in which call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from astranb.chakra import IssueQueue, Lists
from astranb.collectives import Collective, JoinedOperation, Program
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_bytes
from astranb.net import Shape
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    DELAY,
    RECV,
    SEND,
    Operations,
    System,
)
from astranb.workload.astrasim2.kinds import BROADCAST, DIRECT, HALVING, RING_STEPS, TREE

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ALGORITHMS", "Call", "Calls", "Kernels"]

_NAMES: Final = {number: name for name, number in COLLECTIVE_NAMES.items()}
ALGORITHMS: Final = {RING_STEPS: "ring", DIRECT: "allpairs", HALVING: "halving_doubling", TREE: "tree"}
"""Algorithms that a workload's collectives may have."""
_WORDS: Final = {COMPUTE: "compute", DELAY: "delay"}
_CHANNELS_OF_A_MESSAGE: Final = 16

_Place = tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """A collective of some ranks, or a message from the first of two to the second."""

    name: str
    size: int
    ranks: tuple[int, ...]
    title: str
    root: int = 0

    def program(self, system: System, shape: Shape) -> Program:
        """Write it down for as many ranks, joined like this."""
        if self.name == "send_recv":
            channels = max(1, min(_CHANNELS_OF_A_MESSAGE, self.size >> 11))
            return Collective.of("send_recv", self.size, _message, channels=channels).program(2, shape)
        chosen = system.algorithms.get(COLLECTIVE_NAMES[self.name], ())
        name = ALGORITHMS.get(chosen[0].number, "ring") if chosen else "ring"
        if self.name in ("all_to_all", "gather", "scatter"):
            name = "allpairs"
        elif name != "allpairs" and self.name != "all_reduce":
            name = "ring"
        ranks = len(self.ranks)
        if self.name == "all_reduce" and name == "ring" and 1 < shape.per_node < ranks:
            name = "two_level"
        return Collective.of(self.name, self.size, name, root=self.root).program(ranks, shape)


def _message(program: Program) -> None:
    """The first rank puts its buffer into the second one's."""
    source, target = program.block(0), program.block(1)
    came = program.semaphore(1)
    source.put(program.input(0)[0], program.output(1)[0])
    source.signal(came)
    target.wait(came)


class Kernels(Protocol):
    """Kernels that computations launch."""

    def of(self, rank: int, row: int, took_ps: int) -> Sequence[tuple[int, int]]:
        """Return, kernel by kernel, what its launch takes in ps and the number of its program."""


class Calls:
    """The operations of all ranks, matched: who takes part in which call, and what waits for what.

    Parameters
    ----------
    operations : sequence of Operations
        One for each rank.
    groups : mapping of int to sequence of int
    took_ns : callable
        Gives what each row of some operations takes on a rank; 0 for what the machine decides on.
    title : str
        Whose they are, for messages.
    jobs : mapping of int to str
        What the names of a rank's calls and operations begin with, where several jobs run.

    Raises
    ------
    InputError
        Ranks do not match: one sends what no rank receives, or collectives differ.
    """

    def __init__(
        self,
        operations: Sequence[Operations],
        groups: Mapping[int, Sequence[int]],
        took_ns: Callable[[Operations, int], np.ndarray],
        title: str,
        jobs: Mapping[int, str] | None = None,
    ) -> None:
        self._operations, self._groups, self._jobs = operations, groups, jobs or {}
        self._took_ns, self._title = took_ns, title
        self.parts: list[Call] = []
        # The call of a rank's row, or of a row of the graph that a collective (its row) has.
        self._of: dict[tuple[int, ...], int] = {}
        known: dict[int, list[int]] = {}
        for one in operations:
            for each in (one, *one.custom.values()):
                if id(each) not in known:
                    known[id(each)] = _order(each)
        self._order_of = known
        orders = [known[id(one)] for one in operations]
        self._collectives(orders)
        self._match([(rank, (rank,), one) for rank, one in enumerate(operations)], "")

    def nodes(self, launch_ps: Sequence[int], kernels: Kernels) -> list[JoinedOperation]:
        """Return what each rank does at each point of the graph.

        Parameters
        ----------
        launch_ps : sequence of int
            What each rank takes to launch a kernel that communicates.
        kernels : Kernels
            What computations launch.
        """
        nodes: list[JoinedOperation] = []
        for rank in range(len(self._operations)):
            self._add(nodes, rank, launch_ps[rank], kernels)
        return nodes

    def _of_job(self, rank: int) -> str:
        return f"{self._jobs[rank]}: " if rank in self._jobs else ""

    def _collectives(self, orders: list[list[int]]) -> None:
        """Match the collectives of each group in their order."""
        everyone = tuple(range(len(orders)))
        calls: dict[tuple[int, ...], dict[int, list[int]]] = defaultdict(dict)
        for rank, order in enumerate(orders):
            rows = self._operations[rank].rows
            for row in order:
                if rows["kind"][row] == COLLECTIVE:
                    group = int(rows["group"][row])
                    ranks = everyone if group < 0 else tuple(self._groups[group])
                    calls[ranks].setdefault(rank, []).append(row)
        for ranks, listed in calls.items():
            most = max(map(len, listed.values()))
            for number in range(most):
                self._collective(ranks, listed, number)

    def _collective(self, ranks: tuple[int, ...], listed: dict[int, list[int]], number: int) -> None:
        given = {}
        for rank in ranks:
            if number >= len(listed.get(rank, ())):
                first = min(rank for rank in ranks if len(listed.get(rank, ())) > number)
                row = self._operations[first].rows[listed[first][number]]
                what = (
                    f"rank {first} waits in {_NAMES[int(row['collective'])]} {number + 1} of its group "
                    f"({format_bytes(int(row['bytes']))}), which rank {rank} never calls"
                )
                raise InputError(what, where=self._title, hint="give each rank of a group the same")
            row = self._operations[rank].rows[listed[rank][number]]
            name, peer = _NAMES[int(row["collective"])], int(row["peer"])
            rooted = int(row["collective"]) >= BROADCAST
            root = ranks.index(peer) if rooted and peer in ranks else 0
            given[rank] = (name, int(row["bytes"]), root)
        first = ranks[0]
        for rank in ranks:
            if given[rank] != given[first]:
                (a, size, own), (b, other, its) = given[first], given[rank]
                here, peer_part = f"rank {first}", f"{format_bytes(other)} on rank {rank}"
                what = f"{a} of {format_bytes(size)} on {here} meets {b} of {peer_part}"
                if (a, size) == (b, other):
                    what = f"{a} with root {ranks[own]} on {here} meets root {ranks[its]} on rank {rank}"
                raise InputError(what, where=self._title, hint="give both the same")
        graphs = {rank: self._operations[rank].custom.get(listed[rank][number]) for rank in ranks}
        name = f"{given[first][0]} {listed[first][number]}"
        if any(one is not None for one in graphs.values()):
            without = [rank for rank in ranks if graphs[rank] is None]
            if without:
                what = f"{name} has a graph of its own on rank {first}, and none on rank {without[0]}"
                raise InputError(what, where=self._title, hint="give it to each rank of a group")
            parts = [(rank, (rank, listed[rank][number]), one) for rank, one in graphs.items() if one]
            self._match(parts, f"{name}: ")
            return
        if len(ranks) < 2:
            return
        name, size, root = given[first]
        # The size of a collective is that of the larger of a rank's buffers.
        whole = size * len(ranks) if name in ("all_gather", "gather") else size
        for rank in ranks:
            self._of[rank, listed[rank][number]] = len(self.parts)
        title = f"{self._of_job(first)}{name} {listed[first][number]}"
        self.parts.append(Call(name, whole, ranks, title, root))

    def _match(self, parts: Iterable[tuple[int, tuple[int, ...], Operations]], prefix: str) -> None:
        """Match each receive with the send of the same ranks, tag and size, in order."""
        halves: dict[tuple[int, int, int, int], tuple[list[_Place], list[_Place]]] = {}
        for rank, where, one in parts:
            rows = one.rows
            for row in self._order_of[id(one)]:
                kind, peer = int(rows["kind"][row]), int(rows["peer"][row])
                key = (int(rows["tag"][row]), int(rows["bytes"][row]))
                if kind == SEND:
                    halves.setdefault((rank, peer, *key), ([], []))[0].append((*where, row))
                elif kind == RECV:
                    halves.setdefault((peer, rank, *key), ([], []))[1].append((*where, row))
        for (source, target, tag, size), (sent, received) in halves.items():
            if len(sent) != len(received):
                what = (
                    f"{prefix}rank {source} sends {plural(len(sent), 'message')} of {format_bytes(size)} "
                    f"with tag {tag} to rank {target}, which receives {len(received)}"
                )
                raise InputError(what, where=self._title, hint="match each send with a receive")
            for send, receive in zip(sent, received, strict=True):
                self._of[send] = self._of[receive] = len(self.parts)
                title = f"{self._of_job(source)}{prefix}message {send[-1]}"
                self.parts.append(Call("send_recv", max(size, 1), (source, target), title))

    def _add(self, nodes: list[JoinedOperation], rank: int, launch_ps: int, kernels: Kernels) -> None:
        """Add a rank's nodes: they wait for what they name, and for the one before them in their place."""
        one = self._operations[rank]
        took_ns = self._took_ns(one, rank)
        node_of: dict[int, int] = {}
        last: dict[int, int] = {}
        for row in self._order_of[id(one)]:
            after = {node_of[int(dep)] for dep in one.deps[one.dep_start[row] : one.dep_start[row + 1]]}
            place = _place(one, row)
            kind, urgent = int(one.rows["kind"][row]), bool(one.rows["priority"][row] > 0)
            if place in last and kind != DELAY:
                after.add(last[place])
            call = self._of.get((rank, row), -1)
            name = f"{self._of_job(rank)}{_WORDS.get(kind, 'operation')} {row}"
            if call >= 0:
                name = self.parts[call].title
            if launch_ps and (call >= 0 or row in one.custom):
                before, after = after, {len(nodes)}
                nodes.append(JoinedOperation(rank, tuple(sorted(before)), launch_ps, -1, "launch", row))
            if row in one.custom:
                name = f"{self._of_job(rank)}{_NAMES[int(one.rows['collective'][row])]} {row}"
                after = self._add_graph(nodes, (rank, row), after, name)
            spends_ps = 1000 * int(took_ns[row]) if kind not in (COLLECTIVE, SEND, RECV) else 0
            on_sms = kind == COMPUTE and not one.rows["on_cpu"][row]
            launched = kernels.of(rank, row, spends_ps) if on_sms else ()
            for number, (before_ps, part) in enumerate(launched):
                if number:  # the last kernel is the operation's own node
                    nodes.append(JoinedOperation(rank, tuple(sorted(after)), 0, call, name, row, urgent))
                    after = {len(nodes) - 1}
                if before_ps:
                    node = JoinedOperation(rank, tuple(sorted(after)), before_ps, -1, "kernel launch", row)
                    nodes.append(node)
                    after = {len(nodes) - 1}
                call, spends_ps = part, 0
            node_of[row] = len(nodes)
            if kind not in (RECV, DELAY):
                last[place] = len(nodes)
            nodes.append(
                JoinedOperation(rank, tuple(sorted(after)), spends_ps, call, name, row, urgent, on_sms)
            )
        if len(one.rows) == 0:
            nodes.append(JoinedOperation(rank, name="nothing"))

    def _add_graph(
        self, nodes: list[JoinedOperation], where: tuple[int, int], after: set[int], title: str
    ) -> set[int]:
        """Add what a rank does in an algorithm's place, as soon as its dependencies allow; gives its ends."""
        rank, row = where
        one = self._operations[rank].custom[row]
        took_ns = self._took_ns(one, rank)
        node_of: dict[int, int] = {}
        for inner in self._order_of[id(one)]:
            deps = {node_of[int(dep)] for dep in one.deps[one.dep_start[inner] : one.dep_start[inner + 1]]}
            call = self._of.get((rank, row, inner), -1)
            name = self.parts[call].title if call >= 0 else f"{title}: operation {inner}"
            node_of[inner] = len(nodes)
            spends_ps = 1000 * int(took_ns[inner]) if call < 0 else 0
            nodes.append(JoinedOperation(rank, tuple(sorted(deps or after)), spends_ps, call, name, row))
        ends = set(node_of) - set(one.deps.tolist())
        return {node_of[inner] for inner in ends} or after


def _place(one: Operations, row: int) -> int:
    """Return the resource of an operation: the CPU, the GPU's computations, or a communication stream."""
    if one.rows["on_cpu"][row]:
        return 0
    return 1 if one.rows["kind"][row] == COMPUTE else 2 + int(one.rows["stream"][row])


def _order(one: Operations) -> list[int]:
    """The order in which a rank comes to its operations: the lowest of those that may begin."""
    queue = IssueQueue(Lists(one.dep_start, one.deps))
    order = []
    while (row := queue.pop()) >= 0:
        order.append(row)
        queue.done(row)
    if len(order) < len(one.rows):
        raise InputError("operations wait for one another in a circle", hint="see astranb chakra info")
    return order
