"""A message graph under the LogGP model, as LogGOPSim computes it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

import numpy as np

from astranb.core.errors import InputError
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND

from .graph import MessageGraph
from .order import node_order

__all__ = ["LogGP", "loggp_finish_ps"]

_SEND, _RECV, _CALC, _MESSAGE = 1, 2, 3, 4  # LogGOPSim sorts operations that are free at once by these
_KIND: Final = {SEND: _SEND, RECV: _RECV, COMPUTE: _CALC}


@dataclass(frozen=True)
class LogGP:
    """Parameters of a network without congestion; the defaults are LogGOPSim's.

    Attributes
    ----------
    latency_ps : int
        L: from the sender's overhead to the first byte at the receiver.
    overhead_ps : int
        o: of the CPU for a message, at each end.
    gap_ps : int
        g: of the NIC from one message to the next.
    byte_gap_ps : int
        G: of the NIC for each byte after the first.
    eager_bytes : int
        S: a send of more bytes ends only when its receive has begun (rendezvous).
    """

    latency_ps: int = 2_500_000
    overhead_ps: int = 1_500_000
    gap_ps: int = 1_000_000
    byte_gap_ps: int = 6_000
    eager_bytes: int = 65_535

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value in vars(self).items():
            if value < 0:
                raise InputError(f"{name} is {value}", where="LogGP", hint="give 0 or more")


def loggp_finish_ps(graph: MessageGraph, network: LogGP | None = None) -> np.ndarray:
    """Return when each rank is done, in picoseconds.

    Each rank has one CPU, which computes, sends and receives one after the other, and one NIC in each
    direction. As in LogGOPSim, an operation begins no earlier than its CPU is free, a receive costs nothing
    until its message is there, the last byte is charged at the receiver, and an empty message counts
    as one.

    Parameters
    ----------
    graph : MessageGraph
    network : LogGP, optional

    Raises
    ------
    InputError
        Nodes wait for one another in a cycle.

    Examples
    --------
    >>> pair = MessageGraph.of(2, [{"rank": 0, "kind": SEND, "peer": 1, "bytes": 100},
    ...                            {"rank": 1, "kind": RECV, "peer": 0, "bytes": 100}])
    >>> loggp_finish_ps(pair).tolist()
    [1500000, 6094000]
    """
    node_order(graph)
    return _Replay(graph, network or LogGP()).run()


class _Replay:
    """One replay: the queue of events, and when CPUs and NICs are free."""

    def __init__(self, graph: MessageGraph, network: LogGP) -> None:
        nodes = graph.nodes
        self.network = network
        self.rank: list[int] = nodes["rank"].tolist()
        self.peer: list[int] = nodes["peer"].tolist()
        self.tag: list[int] = nodes["tag"].tolist()
        self.bytes: list[int] = np.maximum(nodes["bytes"], 1).tolist()
        self.duration_ps: list[int] = nodes["duration_ps"].tolist()
        self.kind = [_KIND[kind] for kind in nodes["kind"].tolist()]
        self.waiting: list[int] = np.diff(graph.dep_start).tolist()
        self.children: list[list[int]] = [[] for _ in self.rank]
        for row, dep in zip(
            np.repeat(np.arange(len(nodes)), self.waiting).tolist(), graph.deps.tolist(), strict=True
        ):
            self.children[dep].append(row)
        self.cpu_free_ps = [0] * graph.ranks
        self.send_free_ps = [0] * graph.ranks
        self.receive_free_ps = [0] * graph.ranks
        # By target, source and tag: receives without a message, and messages without a receive.
        self.posted: dict[tuple[int, int, int], list[int]] = {}
        self.arrived: dict[tuple[int, int, int], list[int]] = {}
        self.free: list[list[int]] = [[] for _ in range(graph.ranks)]  # operations that may begin
        self.queue: list[tuple[int, int, int, int]] = []  # time, number, kind, row
        self.number = 0
        self.touched: set[int] = set()
        for row, count in enumerate(self.waiting):
            if count == 0:
                self.free[self.rank[row]].append(row)

    def run(self) -> np.ndarray:
        for rank in range(len(self.free)):
            self._begin(rank, at_zero=True)
        handle = {_SEND: self._send, _RECV: self._receive, _CALC: self._compute, _MESSAGE: self._message}
        while self.queue:
            time_ps, number, kind, row = heapq.heappop(self.queue)
            self.touched = set()
            later_ps = handle[kind](row, time_ps)
            if later_ps > time_ps:  # the CPU or the NIC is busy until then
                heapq.heappush(self.queue, (later_ps, number, kind, row))
            for rank in sorted(self.touched):
                self._begin(rank)
        return np.array(self.cpu_free_ps, np.int64)

    def _begin(self, rank: int, *, at_zero: bool = False) -> None:
        """Queue the operations of a rank that may begin, at the time at which its CPU is free."""
        for row in self._ordered(self.free[rank]):
            time_ps = 0 if at_zero else self.cpu_free_ps[rank]
            if self.kind[row] == _SEND and not at_zero:
                time_ps = max(time_ps, self.send_free_ps[rank])
            self._push(time_ps, self.kind[row], row)
        self.free[rank] = []

    def _ordered(self, rows: list[int]) -> list[int]:
        """Put operations that may begin at once in order: sends, receives, computations."""
        return sorted(rows, key=lambda each: self.kind[each])

    def _push(self, time_ps: int, kind: int, row: int) -> None:
        heapq.heappush(self.queue, (time_ps, self.number, kind, row))
        self.number += 1

    def _done(self, row: int) -> None:
        rank = self.rank[row]
        self.touched.add(rank)
        for child in self.children[row]:
            self.waiting[child] -= 1
            if self.waiting[child] == 0:
                self.free[rank].append(child)

    def _compute(self, row: int, time_ps: int) -> int:
        rank = self.rank[row]
        if self.cpu_free_ps[rank] > time_ps:
            return self.cpu_free_ps[rank]
        self.cpu_free_ps[rank] = time_ps + self.duration_ps[row]
        self._done(row)
        return time_ps

    def _send(self, row: int, time_ps: int) -> int:
        rank, network = self.rank[row], self.network
        ready_ps = max(self.cpu_free_ps[rank], self.send_free_ps[rank])
        if ready_ps > time_ps:
            return ready_ps
        self.cpu_free_ps[rank] = time_ps + network.overhead_ps
        self.send_free_ps[rank] = time_ps + network.gap_ps + (self.bytes[row] - 1) * network.byte_gap_ps
        self._push(time_ps + network.overhead_ps + network.latency_ps, _MESSAGE, row)
        if self.bytes[row] <= network.eager_bytes:
            self._done(row)
        return time_ps

    def _receive(self, row: int, time_ps: int) -> int:
        key = self.rank[row], self.peer[row], self.tag[row]
        if waiting := self.arrived.get(key):
            self._met(waiting.pop(0), time_ps)
            self._done(row)
        else:
            self.posted.setdefault(key, []).append(row)
        return time_ps

    def _message(self, row: int, time_ps: int) -> int:
        """Take the message of a send at its receiver."""
        source, target, network = self.rank[row], self.peer[row], self.network
        ready_ps = max(self.cpu_free_ps[target], self.receive_free_ps[target])
        if ready_ps > time_ps:
            return ready_ps
        rest_ps = (self.bytes[row] - 1) * network.byte_gap_ps
        self.cpu_free_ps[target] = time_ps + network.overhead_ps + rest_ps
        self.receive_free_ps[target] = time_ps + network.gap_ps + rest_ps
        key = target, source, self.tag[row]
        if waiting := self.posted.get(key):
            receive = waiting.pop(0)
            self._met(row, time_ps)
            self._done(receive)
        else:
            self.arrived.setdefault(key, []).append(row)
        return time_ps

    def _met(self, send: int, time_ps: int) -> None:
        """End the send of a large message, whose receive has begun."""
        if self.bytes[send] > self.network.eager_bytes:
            source = self.rank[send]
            self._done(send)
            self.cpu_free_ps[source] = max(self.cpu_free_ps[source], time_ps)
            self.send_free_ps[source] = max(self.send_free_ps[source], time_ps)
