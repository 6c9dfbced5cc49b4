"""A workload by cache lines: every collective and message as loads and stores, all on one machine.

The operations are those of :mod:`astranb.workload.astrasim2`. A computation takes its time and
no SM; collectives that are under way at once share SMs, L2, HBM and links. Of the operations
of a rank, one computation, one operation of the CPU and one collective or message is under way
at a time, in the order of their ids as their dependencies allow.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from astranb.collectives import Collective, Joined, Lowered, Node, Program, Section, join, lower
from astranb.core.errors import InputError
from astranb.core.units import format_bytes

from .astrasim2 import COLLECTIVE, COLLECTIVE_NAMES, COMPUTE, RECV, SEND, Memory, Operations, System
from .astrasim2._durations import durations_ns
from .astrasim2._run import Inputs
from .astrasim2._tables import DIRECT, HALVING, TREE

__all__ = ["Graph"]

_NAMES: Final = {number: name for name, number in COLLECTIVE_NAMES.items()}
_ALGORITHMS: Final = {DIRECT: "allpairs", HALVING: "halving_doubling", TREE: "tree"}
_LANES_OF_A_MESSAGE: Final = 16


@dataclass(frozen=True)
class Graph:
    """What all ranks do, to be simulated by cache lines: give it to a ``Simulation``.

    Parameters
    ----------
    operations : sequence of Operations
        One for each rank.
    system : System
        Algorithms (the first dimension's), whether durations are replayed, the roofline.
    groups : mapping of int to sequence of int
        Ranks of each numbered group.
    memory : Memory
        Remote memory: its latency and bandwidth; nobody waits for another.
    title : str
        What it is called.

    Raises
    ------
    InputError
        Ranks do not match: one sends what nobody receives, or collectives differ.

    Examples
    --------
    >>> from astranb.workload.astrasim2 import System
    >>> step = Operations.of(
    ...     [{"kind": COMPUTE, "duration_us": 5}, {"kind": COLLECTIVE, "bytes": 1 << 16}], [[], [0]]
    ... )
    >>> ring = System.from_document(
    ...     {"all-reduce-implementation": ["ring"], "preferred-dataset-splits": 1}
    ... )
    >>> Graph([step] * 4, ring).size
    65536
    """

    operations: Sequence[Operations]
    system: System
    groups: Mapping[int, Sequence[int]] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    title: str = "workload"
    name = "workload"
    algorithm_name = ""
    root = 0
    lanes = None
    protocol = "Simple"

    @classmethod
    def of(cls, inputs: Inputs, title: str = "workload") -> Graph:
        """Take what a run on another network was made of; the network is left to the infrastructure.

        Parameters
        ----------
        inputs : Inputs
            As :attr:`Run.inputs`.
        title : str
        """
        return cls(inputs.operations, inputs.system, inputs.groups, inputs.memory, title)

    def compute_ps(self) -> np.ndarray:
        """Give what each rank's computations on its GPU take, summed."""
        known: dict[int, int] = {}
        for one in self.operations:
            if id(one) not in known:
                took_ns = durations_ns(one.rows, self.system, self.memory)
                known[id(one)] = 1000 * int(took_ns[_computes(one)].sum())
        return np.array([known[id(one)] for one in self.operations], np.int64)

    def __post_init__(self) -> None:
        """Refuse what does not match before a machine is built."""
        _ = self._calls

    @cached_property
    def size(self) -> int:
        """Bytes that the collectives and messages of a rank move, of the one with most."""
        moved = [
            int(one.rows["bytes"][np.isin(one.rows["kind"], (COLLECTIVE, SEND))].sum())
            for one in self.operations
        ]
        return max(moved, default=0)

    @cached_property
    def _calls(self) -> _Calls:
        return _Calls(self)

    def lowered(self, per_node: int, *, line_bytes: int, bulk_lines: int, engine_lines: int) -> Joined:
        """Give the tables that the machine runs.

        Parameters
        ----------
        per_node : int
            Consecutive ranks that share a node.
        line_bytes, bulk_lines, engine_lines : int
            As of :func:`astranb.collectives.lower`.

        Returns
        -------
        Joined
        """
        known: dict[tuple[object, ...], Lowered] = {}
        parts = []
        for call in self._calls.parts:
            whole = len(call.ranks) == len(self.operations)
            key = (call.name, call.size, len(call.ranks), whole, call.root)
            if key not in known:
                known[key] = lower(
                    call.program(self.system, per_node if whole else None),
                    kind=call.name,
                    size=call.size,
                    line_bytes=line_bytes,
                    bulk_lines=bulk_lines,
                    engine_lines=engine_lines,
                )
            kind = "" if call.name == "send_recv" else call.name
            parts.append(Section(known[key], call.ranks, call.title, kind, call.root))
        return join(self.title, len(self.operations), self._calls.nodes, parts, line_bytes)


@dataclass(frozen=True)
class _Call:
    """A collective of some ranks, or a message from the first of two to the second."""

    name: str
    size: int
    ranks: tuple[int, ...]
    title: str
    root: int = 0

    def program(self, system: System, per_node: int | None) -> Program:
        """Write it down for as many ranks."""
        if self.name == "send_recv":
            lanes = max(1, min(_LANES_OF_A_MESSAGE, self.size >> 11))
            return Collective.of("send_recv", self.size, _message, lanes=lanes).program(2)
        chosen = system.algorithms.get(COLLECTIVE_NAMES[self.name], ())
        name = _ALGORITHMS.get(chosen[0].number, "ring") if chosen else "ring"
        if self.name == "all_to_all" or (name != "allpairs" and self.name != "all_reduce"):
            name = "allpairs" if self.name == "all_to_all" else "ring"
        ranks = len(self.ranks)
        if self.name == "all_reduce" and name == "ring" and per_node is not None and 1 < per_node < ranks:
            name = "hierarchical"
        return Collective.of(self.name, self.size, name, root=self.root).program(ranks, per_node)


def _message(program: Program) -> None:
    """The first rank puts its buffer into the second one's."""
    source, target = program.block(0), program.block(1)
    came = program.semaphore(1)
    source.put(program.input(0)[0], program.output(1)[0])
    source.signal(came)
    target.wait(came)


class _Calls:
    """The operations of all ranks, matched: who takes part in which call, and what waits for what."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.parts: list[_Call] = []
        self.nodes: list[Node] = []
        self._of: dict[tuple[int, int], int] = {}  # the call of a rank's row
        known: dict[int, list[int]] = {}
        orders = []
        for one in graph.operations:
            if one.custom:
                raise InputError("custom collectives are not simulated by cache lines", mend="leave them out")
            if id(one) not in known:
                known[id(one)] = _order(one)
            orders.append(known[id(one)])
        self._collectives(orders)
        self._messages(orders)
        for rank, order in enumerate(orders):
            self._add(rank, order)

    def _collectives(self, orders: list[list[int]]) -> None:
        """Match the collectives of each group in their order."""
        graph, everyone = self._graph, tuple(range(len(orders)))
        calls: dict[tuple[int, ...], dict[int, list[int]]] = defaultdict(dict)
        for rank, order in enumerate(orders):
            rows = graph.operations[rank].rows
            for row in order:
                if rows["kind"][row] == COLLECTIVE:
                    group = int(rows["group"][row])
                    ranks = everyone if group < 0 else tuple(graph.groups[group])
                    calls[ranks].setdefault(rank, []).append(row)
        for ranks, listed in calls.items():
            most = max(map(len, listed.values()))
            for turn in range(most):
                self._collective(ranks, listed, turn)

    def _collective(self, ranks: tuple[int, ...], listed: dict[int, list[int]], turn: int) -> None:
        said = {}
        for rank in ranks:
            if turn >= len(listed.get(rank, ())):
                first = min(rank for rank in ranks if len(listed.get(rank, ())) > turn)
                row = self._graph.operations[first].rows[listed[first][turn]]
                what = (
                    f"rank {first} waits in {_NAMES[int(row['collective'])]} number {turn + 1} of its group "
                    f"({format_bytes(int(row['bytes']))}), which rank {rank} never calls"
                )
                raise InputError(what, where=self._graph.title, mend="give each rank of a group the same")
            row = self._graph.operations[rank].rows[listed[rank][turn]]
            name, peer = _NAMES[int(row["collective"])], int(row["peer"])
            root = ranks.index(peer) if name == "broadcast" and peer in ranks else 0
            said[rank] = (name, int(row["bytes"]), root)
        first = ranks[0]
        for rank in ranks:
            if said[rank] != said[first]:
                (a, size, own), (b, other, its) = said[first], said[rank]
                here, there = f"rank {first}", f"{format_bytes(other)} on rank {rank}"
                what = f"{a} of {format_bytes(size)} on {here} meets {b} of {there}"
                if (a, size) == (b, other):
                    what = f"{a} with root {ranks[own]} on {here} meets root {ranks[its]} on rank {rank}"
                raise InputError(what, where=self._graph.title, mend="give both the same")
        if len(ranks) < 2:
            return
        name, size, root = said[first]
        # The size of a collective is that of the larger of a rank's buffers.
        whole = size * len(ranks) if name == "all_gather" else size
        for rank in ranks:
            self._of[rank, listed[rank][turn]] = len(self.parts)
        self.parts.append(_Call(name, whole, ranks, f"{name} {listed[first][turn]}", root))

    def _messages(self, orders: list[list[int]]) -> None:
        """Match each receive with the send of the same ranks, tag and size, in order."""
        halves: dict[tuple[int, int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for rank, order in enumerate(orders):
            rows = self._graph.operations[rank].rows
            for row in order:
                kind, peer = int(rows["kind"][row]), int(rows["peer"][row])
                key = (int(rows["tag"][row]), int(rows["bytes"][row]))
                if kind == SEND:
                    halves[rank, peer, *key][0].append(row)
                elif kind == RECV:
                    halves[peer, rank, *key][1].append(row)
        for (source, target, tag, size), (sent, received) in halves.items():
            if len(sent) != len(received):
                what = (
                    f"rank {source} sends {len(sent)} messages of {format_bytes(size)} with tag {tag} "
                    f"to rank {target}, which receives {len(received)}"
                )
                raise InputError(what, where=self._graph.title, mend="match each send with a receive")
            for send, receive in zip(sent, received, strict=True):
                self._of[source, send] = self._of[target, receive] = len(self.parts)
                self.parts.append(_Call("send_recv", max(size, 1), (source, target), f"message {send}"))

    def _add(self, rank: int, order: list[int]) -> None:
        """Add a rank's nodes: they wait for what they name, and for the one before them in their place."""
        graph = self._graph
        one = graph.operations[rank]
        took_ns = durations_ns(one.rows, graph.system, graph.memory)
        node_of: dict[int, int] = {}
        last: dict[int, int] = {}
        for row in order:
            after = {node_of[int(dep)] for dep in one.deps[one.dep_start[row] : one.dep_start[row + 1]]}
            place = _place(one, row)
            if place in last:
                after.add(last[place])
            call = self._of.get((rank, row), -1)
            kind = int(one.rows["kind"][row])
            name = f"{'compute' if kind == COMPUTE else 'operation'} {row}"
            if call >= 0:
                name = self.parts[call].title
            spends_ps = 1000 * int(took_ns[row]) if kind not in (COLLECTIVE, SEND, RECV) else 0
            node_of[row] = len(self.nodes)
            if kind != RECV:
                last[place] = len(self.nodes)
            self.nodes.append(Node(rank, tuple(sorted(after)), spends_ps, call, name, row))
        if not order:
            self.nodes.append(Node(rank, name="nothing"))


def _computes(one: Operations) -> np.ndarray:
    """Which operations are computations on the GPU."""
    return np.asarray((one.rows["kind"] == COMPUTE) & (one.rows["on_cpu"] == 0))


def _place(one: Operations, row: int) -> int:
    """What an operation occupies: the CPU, the GPU's computations, or its communication."""
    if one.rows["on_cpu"][row]:
        return 0
    return 1 if one.rows["kind"][row] == COMPUTE else 2


def _order(one: Operations) -> list[int]:
    """The order in which a rank comes to its operations: the lowest of those that may begin."""
    start, children = one.children()
    waits = np.diff(one.dep_start).copy()
    ready = np.flatnonzero(waits == 0).tolist()
    order = []
    while ready:
        row = heapq.heappop(ready)
        order.append(row)
        for child in children[start[row] : start[row + 1]].tolist():
            waits[child] -= 1
            if waits[child] == 0:
                heapq.heappush(ready, child)
    if len(order) < len(one.rows):
        raise InputError("operations wait for one another in a circle", mend="see astranb chakra info")
    return order
