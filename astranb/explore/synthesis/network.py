"""Direct sends between ranks, and the ports of the network that they occupy.

Two ranks are joined by an *edge* where the network has a route between them that passes no other rank:
a link, or links and switches. A switch stores nothing. What an edge carries occupies, from its start on,
each *port* on its route: links in parallel that always share their load (the lanes from a GPU to all
switches of a plane, an uplink). So two messages behind a switch take turns where they leave a GPU by one
port or reach one by one port.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astranb.core.arrays import offsets, ranges, reduce_at
from astranb.core.extras import needs_extra
from astranb.infragraph import Infra, resolve
from astranb.net import Fabric, compile_fabric, message_routes

from .matching import EdgeTables

__all__ = ["RankNetwork", "rank_network"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RankNetwork:
    """EdgeTables between ranks, and the ports that they occupy.

    Attributes
    ----------
    fabric : Fabric
        Without the links that are down.
    source, target, latency_ps : ndarray of int64, shape (edges,)
    first_port, port : ndarray of int64
        Edge E occupies ``port[first_port[E]:first_port[E + 1]]``, in the order of its route.
    rate_Bps : ndarray of int64, shape (ports,)
    lanes : list of list of int
        The links of each port.
    """

    fabric: Fabric
    source: Ints
    target: Ints
    latency_ps: Ints
    first_port: Ints
    port: Ints
    rate_Bps: Ints  # noqa: N815 - unit in the name
    lanes: list[list[int]]

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.fabric.gpus)

    @property
    def title(self) -> str:
        """Name of the infrastructure."""
        return self.fabric.graph.title

    @cached_property
    def edge_rate_Bps(self) -> Ints:  # noqa: N802 - unit in the name
        """Bytes per second of each edge: of its narrowest port."""
        found: Ints = reduce_at(np.minimum, self.rate_Bps[self.port], self.first_port[:-1])
        return found

    def ports(self, edge: int) -> Ints:
        """Return the ports of an edge."""
        return self.port[self.first_port[edge] : self.first_port[edge + 1]]

    def reversed(self) -> RankNetwork:
        """Return the network in which every edge leads the other way and occupies the same ports.

        A schedule in it, run backwards, is one in this network.
        """
        lengths = np.diff(self.first_port)
        backwards = ranges(self.first_port[:-1], lengths)
        last = np.repeat(self.first_port[1:] - 1, lengths)
        first = np.repeat(self.first_port[:-1], lengths)
        port = self.port[last - (backwards - first)]
        return replace(self, source=self.target, target=self.source, port=port)

    def edges(self, chunk_bytes: int) -> EdgeTables:
        """Return the tables of a matching for chunks of a size."""
        count, ports = len(self.source), len(self.rate_Bps)
        busy_ps = -(-chunk_bytes * 10**12 // self.rate_Bps.astype(object)).astype(np.int64)
        took_ps = self.latency_ps + reduce_at(np.maximum, busy_ps[self.port], self.first_port[:-1])
        owner = np.repeat(np.arange(count), np.diff(self.first_port))
        return EdgeTables(
            source=self.source,
            target=self.target,
            took_ps=took_ps,
            order=np.unique(took_ps, return_inverse=True)[1].astype(np.int64),
            weight=np.maximum(1, self.edge_rate_Bps // 10**9),
            faster_ps=self._faster_ps(took_ps, chunk_bytes),
            first_port=self.first_port,
            port=self.port,
            busy_ps=busy_ps,
            first_out=offsets(self.source, self.ranks),
            out=np.argsort(self.source, kind="stable"),
            first_in=offsets(self.target, self.ranks),
            into=np.argsort(self.target, kind="stable"),
            first_of=offsets(self.port, ports),
            of=owner[np.argsort(self.port, kind="stable")],
        )

    def _faster_ps(self, took_ps: Ints, chunk_bytes: int) -> Ints:
        """Return in which time all faster edges bring a chunk to the target of each edge; 0 for none."""
        found = np.zeros(len(took_ps), np.int64)
        last = self.port[self.first_port[1:] - 1]
        order = np.lexsort((took_ps, self.target))
        rank, rate, faster, at_ps = -1, 0, 0, -1
        seen: set[int] = set()
        for edge in order.tolist():
            if self.target[edge] != rank:
                rank, rate, faster, at_ps = int(self.target[edge]), 0, 0, int(took_ps[edge])
                seen = set()
            if took_ps[edge] > at_ps:
                faster, at_ps = rate, int(took_ps[edge])
            if faster:
                found[edge] = chunk_bytes * 10**12 // faster
            if int(last[edge]) not in seen:
                seen.add(int(last[edge]))
                rate += int(self.rate_Bps[last[edge]])
        return found

    def times_ps(self, chunk_bytes: int, *, latency_only: bool = False) -> Ints:
        """Return the least time from rank to rank, passed on by others: int64, shape (ranks, ranks).

        2**61 where there is no way. ``latency_only`` counts no bytes.
        """
        with needs_extra("synthesize"):
            from scipy.sparse import csr_array
            from scipy.sparse.csgraph import dijkstra
        took_ps = self.latency_ps if latency_only else self.edges(chunk_bytes).took_ps
        best: dict[tuple[int, int], int] = {}
        for source, target, ps in zip(
            self.source.tolist(), self.target.tolist(), took_ps.tolist(), strict=True
        ):
            best[source, target] = min(best.get((source, target), ps), ps)
        ends = np.array(list(best), np.int64).reshape(-1, 2)
        # Zero is no edge to SciPy: one is added to each, and taken away again.
        price = np.array(list(best.values()), float) + 1 / 1024
        found = dijkstra(csr_array((price, (ends[:, 0], ends[:, 1])), shape=(self.ranks, self.ranks)))
        times: Ints = np.where(np.isinf(found), float(2**61), np.floor(found)).astype(np.int64)
        return times

    def parts(self) -> list[list[int]]:
        """Return the ranks in parts in which every rank reaches every other one."""
        with needs_extra("synthesize"):
            from scipy.sparse import csr_array
            from scipy.sparse.csgraph import connected_components
        ones = np.ones(len(self.source), np.int8)
        joined = csr_array((ones, (self.source, self.target)), shape=(self.ranks, self.ranks))
        count, label = connected_components(joined, directed=True, connection="strong")
        found = [np.flatnonzero(label == part).tolist() for part in range(count)]
        return sorted(found)


def rank_network(infra: Infra | str | Path, down: Sequence[str] = ()) -> RankNetwork:
    """Find what the ranks of an infrastructure can send to each other directly.

    Parameters
    ----------
    infra : Infra or str or Path
        As for :class:`astranb.Simulation`.
    down : sequence of str
        Links that are left out, as ``"A->B"`` or ``"A->B#k"``; ``gpu[3]`` is short for a rank's name.

    Returns
    -------
    RankNetwork

    Raises
    ------
    InputError
        The infrastructure cannot be used, or has no such link.

    Examples
    --------
    >>> network = rank_network("ring:gpus=4", down=["gpu[0]->gpu[1]"])
    >>> sorted(zip(network.source.tolist(), network.target.tolist()))
    [(0, 3), (1, 2), (2, 1), (2, 3), (3, 0), (3, 2)]
    """
    fabric = compile_fabric(resolve(infra).without(*down).expand())
    found = message_routes(fabric, _direct(fabric), len(fabric.gpus))
    hops = found.routes.hops.astype(np.int64)
    first = np.concatenate([[0], np.cumsum(hops)]).astype(np.int64)
    count = len(found.lanes)
    return RankNetwork(
        fabric,
        found.routes.key // len(fabric.gpus),
        found.routes.key % len(fabric.gpus),
        np.rint(found.routes.latency_ns * 1000).astype(np.int64),
        first,
        found.hops[ranges(found.routes.first_hop, hops)],
        np.rint(found.wires.rate_Bpns[:count] * 1e9).astype(np.int64),
        found.lanes,
    )


def _direct(fabric: Fabric) -> list[tuple[int, int]]:
    """List the pairs of ranks with a route that passes no other rank."""
    rank = {node: number for number, node in enumerate(fabric.gpus.tolist())}
    after: dict[int, list[int]] = {}
    for source, target in fabric.bundles:
        after.setdefault(source, []).append(target)
    found = []
    for number, node in enumerate(fabric.gpus.tolist()):
        seen, to_visit = {node}, [node]
        while to_visit:
            for other in after.get(to_visit.pop(), ()):
                if other in seen:
                    continue
                seen.add(other)
                if other in rank:
                    found.append((number, rank[other]))
                else:
                    to_visit.append(other)
    return found
