"""The lanes from one node to the next, with what a route over them costs, as tables."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from astranb.core.arrays import offsets, ranges
from astranb.core.jit import Records
from astranb.infragraph import NodeGraph

from .boxes import host_tolls, incoming
from .nearest import Incoming, Outgoing

__all__ = ["Bundles"]

_PROBE_BYTES = 4096
"""The cost of a route is the time of one message of this size: among routes of equal length the
fastest wins (NVLink before PCIe), among equally fast ones the shortest."""


class Bundles:
    """The lanes of a fabric that routes may use, one bundle from a node to the next.

    Parameters
    ----------
    graph : NodeGraph
    gpus : ndarray of int64
        Node of each rank.
    links : recarray of LINK
    closed : frozenset of int
        Lanes that are not used.
    """

    def __init__(self, graph: NodeGraph, gpus: np.ndarray, links: Records, closed: frozenset[int]) -> None:
        self._graph, self._gpus, self._links, self._closed = graph, gpus, links, closed
        self._from: dict[int, list[tuple[int, list[int], int]]] = {}
        self._lanes: dict[tuple[int, int], list[int]] = {}
        self._near: dict[tuple[int, str], dict[int, int]] = {}

    def links_from(self, node: int) -> list[tuple[int, list[int], int]]:
        """Return the bundles out of a node: the next node, the lanes and the cost."""
        if node not in self._from:
            out = self.every
            first, last = (int(out.first[node]), int(out.first[node + 1])) if node >= 0 else (0, 0)
            self._from[node] = [
                (
                    int(out.target[row]),
                    out.numbers[out.first_lane[row] : out.first_lane[row] + out.lanes[row]].tolist(),
                    int(out.price[row]),
                )
                for row in range(first, last)
            ]
        return self._from[node]

    def lanes_of(self, edge: tuple[int, int]) -> list[int]:
        """Return the lanes from one node to the next; none where no link joins them."""
        if edge not in self._lanes:
            out = self.every
            first, last = out.first[edge[0] : edge[0] + 2]
            rows = first + np.flatnonzero(out.target[first:last] == edge[1])
            self._lanes[edge] = out.numbers[ranges(out.first_lane[rows], out.lanes[rows])].tolist()
        return self._lanes[edge]

    def neighbours(self, node: int, way: str) -> dict[int, int]:
        """Return the nodes that links lead to, or come from, with the costs of the links; no dead ends."""
        key = node, way
        if key not in self._near:
            links = self.outgoing if way == "out" else self.incoming
            rows = slice(int(links.first[node]), int(links.first[node + 1]))
            other = (self.outgoing.target if way == "out" else self.incoming.source)[rows]
            self._near[key] = dict(zip(other.tolist(), links.price[rows].tolist(), strict=True))
        return self._near[key]

    @cached_property
    def outgoing(self) -> Outgoing:
        """The links out of each node, with their costs; dead ends are left out."""
        b = self.table
        return self._by_source(np.flatnonzero(self.alive[b.source] & self.alive[b.target]))

    @cached_property
    def incoming(self) -> Incoming:
        """The links into each node, with their costs; dead ends are left out."""
        return self.among(np.ones(len(self._graph), bool))

    def among(self, nodes: np.ndarray) -> Incoming:
        """Return the links into each of some nodes from others of them; ``nodes`` marks them."""
        b, kept = self.table, nodes & self.alive
        rows = kept[b.source] & kept[b.target]
        return incoming(len(self._graph), b.source[rows], b.target[rows], b.price[rows], self._gpus)

    @cached_property
    def every(self) -> Outgoing:
        """The same with dead ends."""
        return self._by_source(np.arange(len(self.table.source)))

    def _by_source(self, rows: np.ndarray) -> Outgoing:
        b = self.table
        rows = rows[np.argsort(b.source[rows], kind="stable")]
        source, target = b.source[rows], b.target[rows]
        ranked = np.isin(target, self._gpus).astype(np.int64)
        first = offsets(source, len(self._graph))
        return Outgoing(
            first, source, target, b.price[rows], ranked, b.first_lane[rows], b.lanes[rows], b.numbers
        )

    @cached_property
    def alive(self) -> np.ndarray:
        """Whether each node leads on: it is a GPU, or has links to two others that do."""
        b = self.table
        alive, source, target = np.ones(len(self._graph), bool), b.source, b.target
        while True:
            ends = alive & (np.bincount(source, minlength=len(alive)) < 2)
            ends[self._gpus] = False
            if not ends.any():
                return alive
            alive &= ~ends
            kept = alive[source] & alive[target]
            source, target = source[kept], target[kept]

    @cached_property
    def table(self) -> Outgoing:
        """The lanes from one node to the next, in the order of their first lanes, with their costs."""
        links = self._links
        open_ = np.setdiff1d(np.arange(len(links)), list(self._closed))
        ends = links["src"][open_].astype(np.int64) * len(self._graph) + links["dst"][open_]
        _, first, bundle, lanes = np.unique(ends, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(first)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        heads, lanes = open_[first[order]], lanes[order].astype(np.int64)
        wire_ps = (_PROBE_BYTES * 10**12 + links["bandwidth_Bps"][heads] - 1) // links["bandwidth_Bps"][heads]
        return Outgoing(
            first=np.zeros(0, np.int64),
            source=links["src"][heads].astype(np.int64),
            target=links["dst"][heads].astype(np.int64),
            price=wire_ps
            + links["latency_ps"][heads]
            + links["forward_ps"][heads]
            + host_tolls(self._graph, self._gpus, links["src"][heads], links["dst"][heads]),
            ranked=np.zeros(0, np.int64),
            first_lane=np.cumsum(lanes) - lanes,
            lanes=lanes,
            numbers=open_[np.argsort(place[bundle], kind="stable")],
        )
