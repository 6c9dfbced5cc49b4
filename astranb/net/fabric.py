"""The fabric compiled from an infrastructure: a record per directed lane, and the routes between GPUs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.ticks import transfer_ps
from astranb.infragraph import NodeGraph, NodeKind, family

from .link import INJECTS, INSIDE, LINK, MARKS, NEVER, PAUSES
from .nearest import Incoming, costs_to

__all__ = ["Fabric", "NextHops", "compile_fabric"]

_PROBE_BYTES = 4096
"""The cost of a route is the time of one message of this size: among routes of equal length the
fastest wins (NVLink before PCIe), among equally fast ones the shortest."""

_ETHERNET = ("eth", "cable", "unknown")
"""Link types with pause frames, ECN marks and rate limits; InfiniBand has credits and its own marks."""

_THROUGH_GPU_PS = 10**9
"""Additional cost of passing through a GPU: used only without another route (rings, tori)."""


class Outgoing(NamedTuple):
    """The links out of each node, as arrays.

    Parameters
    ----------
    first : ndarray of int64, shape (nodes + 1,)
        First row of each node.
    source, target, price : ndarray of int64
        The node, the next node, and the cost of the link.
    ranked : ndarray of bool
        Whether the next node is a GPU.
    """

    first: np.ndarray
    source: np.ndarray
    target: np.ndarray
    price: np.ndarray
    ranked: np.ndarray


class NextHops:
    """The next nodes on routes of least cost to a target, for every node.

    Parameters
    ----------
    outgoing : Outgoing
    cost : list of int
        Of each node to the target.
    target : int
    toll_ps : int
        Additional cost of passing through a GPU.
    """

    def __init__(self, outgoing: Outgoing, cost: list[int], target: int, toll_ps: int) -> None:
        self.cost = cost
        costs = np.array(cost, np.int64)
        behind = costs[outgoing.target]
        toll = np.where(outgoing.ranked & (outgoing.target != target), toll_ps, 0)
        good = (behind >= 0) & (behind + outgoing.price + toll == costs[outgoing.source])
        self._after: list[int] = outgoing.target[good].tolist()
        self._first: list[int] = np.concatenate([[0], np.cumsum(good)])[outgoing.first].tolist()

    def __getitem__(self, node: int) -> list[int]:
        """Return the next nodes of a node, in the order of the fabric."""
        return self._after[self._first[node] : self._first[node + 1]]


@dataclass
class Fabric:
    """Directed lanes, and the equal-cost routes between GPUs.

    Attributes
    ----------
    graph : NodeGraph
        The expanded infrastructure.
    links : recarray of LINK
        One row per lane and direction.
    lane : ndarray of int64, shape (links,)
        Index of the lane among parallel lanes.
    gpus : ndarray of int64, shape (ranks,)
        Node of each rank.
    edge : ndarray of int64, shape (links,)
        The edge of the graph that each lane belongs to.
    """

    graph: NodeGraph
    links: Records
    lane: np.ndarray
    gpus: np.ndarray
    edge: np.ndarray
    assumed: list[str] = field(default_factory=list)
    _out: dict[int, list[tuple[int, list[int], int]]] = field(default_factory=dict, repr=False)
    _names: dict[str, int] = field(default_factory=dict, repr=False)

    def name(self, link: int) -> str:
        """Return a lane's name: ``dgx.0.xpu.0->dgx.0.nvsw.0#1`` (``#k`` if there are several)."""
        row = self.links[link]
        several = any(len(lanes) > 1 for to, lanes, _ in self._out[int(row.src)] if to == int(row.dst))
        plain = f"{self.graph.name(int(row.src))}->{self.graph.name(int(row.dst))}"
        return f"{plain}#{self.lane[link]}" if several else plain

    def family(self, link: int) -> str:
        """Return a lane's technology: ``NVLink``, ``PCIe``, ``Ethernet``, ...; ``unspecified``."""
        return family(self.graph.links[int(self.graph.link[self.edge[link]])].type)

    def find(self, name: str) -> list[int]:
        """Return lanes by name: all lanes of ``A->B``, or lane ``A->B#k``.

        Raises
        ------
        InputError
            There is no such link.
        """
        plain, _, number = name.partition("#")
        a, _, b = plain.partition("->")
        try:
            src, dst = self.graph.index(a.strip()), self.graph.index(b.strip())
        except (KeyError, InputError):
            src = dst = -1
        for to, lanes, _ in self._out.get(src, ()):
            if to == dst and not number:
                return lanes
            if to == dst and number.isdigit() and int(number) < len(lanes):
                return [lanes[int(number)]]
        raise InputError(
            f"there is no link {name!r}", hint="write A->B or A->B#k with names of the infrastructure"
        )

    def full(self, path: str) -> str:
        """Replace ``gpu[3]`` by the full name of rank 3, at both ends of a link.

        Raises
        ------
        InputError
            There is no such rank.
        """

        def name(match: re.Match[str]) -> str:
            if int(match[1]) >= len(self.gpus):
                raise InputError(f"there is no {match[0]}", hint=f"ranks are 0 to {len(self.gpus) - 1}")
            return self.graph.name(int(self.gpus[int(match[1])]))

        return "->".join(re.sub(r"^gpu\[(\d+)\](?=#|$)", name, end.strip()) for end in path.split("->", 1))

    @property
    def per_node(self) -> int:
        """Number of ranks per instance; all ranks if instances have different numbers."""
        owners = [".".join(self.graph.name(int(g)).split(".")[:2]) for g in self.gpus]
        sizes = {len(list(group)) for _, group in groupby(owners)}
        return sizes.pop() if len(sizes) == 1 and len(set(owners)) > 1 else len(owners)

    def routes(
        self, pairs: Iterable[tuple[int, int]]
    ) -> tuple[dict[tuple[int, int], list[list[int]]], list[str]]:
        """Find all equal-cost routes for pairs of ranks.

        Parameters
        ----------
        pairs : iterable of (int, int)
            Source and target ranks.

        Returns
        -------
        routes : dict
            The routes of each pair, each a list of links.
        notes : list of str
            Assumptions.

        Raises
        ------
        InputError
            A pair has no route; the error names both GPUs.
        """
        routes: dict[tuple[int, int], list[list[int]]] = {}
        through = False
        for target, sources in self._by_target(pairs).items():
            end, starts = int(self.gpus[target]), {int(self.gpus[source]) for source in sources}
            cost = costs_to(self._incoming, end, starts, _THROUGH_GPU_PS)
            next_hops = NextHops(self._outgoing, cost, end, _THROUGH_GPU_PS)
            for source in sources:
                start = self._start(source, target, cost)
                through |= cost[start] >= _THROUGH_GPU_PS
                routes[source, target] = list(self._walk(start, end, next_hops))
        note = "some GPUs reach each other only through other GPUs, which forward their lines"
        return routes, [note] if through else []

    def next_hops(self, pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], NextHops]]:
        """Find the nodes on all equal-cost routes of pairs of ranks.

        Parameters
        ----------
        pairs : iterable of (int, int)
            Source and target ranks.

        Yields
        ------
        pair : (int, int)
        next_hops : NextHops
            The same object for all pairs with the same target.

        Raises
        ------
        InputError
            A pair has no route; the error names both GPUs.
        """
        for target, sources in self._by_target(pairs).items():
            end = int(self.gpus[target])
            starts = {int(self.gpus[source]) for source in sources}
            # Search through other servers only if there is no other route: this is faster.
            around = {int(self._incoming.home[node]) for node in (end, *starts)}
            cost = costs_to(self._incoming, end, starts, _THROUGH_GPU_PS, around)
            if any(cost[start] < 0 for start in starts):
                cost = costs_to(self._incoming, end, starts, _THROUGH_GPU_PS)
            next_hops = NextHops(self._outgoing, cost, end, _THROUGH_GPU_PS)
            for source in sources:
                self._start(source, target, cost)
                yield (source, target), next_hops

    @cached_property
    def bundles(self) -> dict[tuple[int, int], list[int]]:
        """The lanes from one node to the next."""
        return {(src, dst): lanes for src, found in self._out.items() for dst, lanes, _ in found}

    @staticmethod
    def _by_target(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
        """Return the sources of each target."""
        wanted: dict[int, list[int]] = defaultdict(list)
        for source, target in sorted(set(pairs)):
            wanted[target].append(source)
        return wanted

    def _start(self, source: int, target: int, cost: list[int]) -> int:
        """Return the node of a rank, after a check that it has a route to another."""
        start = int(self.gpus[source])
        if cost[start] < 0:
            raise InputError(
                f"there is no route from {self.graph.name(start)} (rank {source}) "
                f"to {self.graph.name(int(self.gpus[target]))} (rank {target})",
                where=f"infrastructure {self.graph.title!r}",
                hint="add an edge or a switch that joins them",
            )
        return start

    def _walk(self, node: int, target: int, next_hops: NextHops) -> Iterable[list[int]]:
        """Enumerate the routes of least cost, lane by lane, in a fixed order.

        A message keeps its lane number if the next bundle has it, and wraps around if it has
        fewer lanes, so that parallel routes do not multiply with every hop.
        """
        for to in next_hops[node]:
            lanes = self.bundles[node, to]
            tails = [[]] if to == target else list(self._walk(to, target, next_hops))
            width = max(len(lanes), len(tails))
            for k in range(width):
                yield [lanes[k % len(lanes)], *tails[k % len(tails)]]

    @cached_property
    def _ranked(self) -> set[int]:
        """Nodes that are GPUs."""
        return set(self.gpus.tolist())

    @cached_property
    def _outgoing(self) -> Outgoing:
        """The links out of each node, with their costs."""
        bundles = sorted(self._out.items())
        rows = [(src, to, price) for src, found in bundles for to, _, price in found]
        source, target, price = np.array(rows, np.int64).reshape(-1, 3).T
        first = np.searchsorted(source, np.arange(len(self.graph) + 1))
        return Outgoing(first, source, target, price, np.isin(target, self.gpus))

    @cached_property
    def _incoming(self) -> Incoming:
        """The links into each node, with their costs; dead ends are left out."""
        neighbours = {src: {dst for dst, _, _ in bundles} for src, bundles in self._out.items()}
        ends = [node for node, others in neighbours.items() if len(others) < 2 and node not in self._ranked]
        while ends:
            node = ends.pop()
            for other in neighbours.pop(node):
                neighbours[other].discard(node)
                if len(neighbours[other]) == 1 and other not in self._ranked:
                    ends.append(other)
        rows = np.array(
            sorted(
                (dst, src, price)
                for src, bundles in self._out.items()
                for dst, _, price in bundles
                if src in neighbours and dst in neighbours
            ),
            np.int64,
        ).reshape(-1, 3)
        nodes = np.arange(len(self.graph))
        first = np.searchsorted(rows[:, 0], np.arange(len(nodes) + 1))
        instance = self.graph.instance
        home = np.where(np.isin(instance, instance[self.gpus]), instance, -1).astype(np.int64)
        ranked = np.isin(nodes, self.gpus).astype(np.int64)
        return Incoming(first, np.array(rows[:, 1]), np.array(rows[:, 2]), ranked, home)


def compile_fabric(graph: NodeGraph) -> Fabric:
    """Return the fabric of an infrastructure: every edge becomes directed lanes.

    Parameters
    ----------
    graph : NodeGraph
        The expanded infrastructure.

    Returns
    -------
    Fabric

    Raises
    ------
    InputError
        The infrastructure has no GPU.
    """
    if len(graph.gpus) == 0:
        raise InputError(
            "the infrastructure has no GPU",
            where=f"infrastructure {graph.title!r}",
            hint="a GPU is a component with choice: xpu",
        )
    usable = np.flatnonzero(graph.a != graph.b)
    for number in usable[graph.latency_ps[usable] >= NEVER][:1]:
        a, b = (graph.name(int(end[number])) for end in (graph.a, graph.b))
        raise InputError(
            f"the latency of {a}->{b} is more than 26 days",
            where=f"infrastructure {graph.title!r}",
            hint="use a smaller latency",
        )
    lanes = graph.lanes[usable].astype(np.int64)
    edge = np.repeat(usable, 2 * lanes)
    within = np.arange(len(edge)) - np.repeat(np.cumsum(2 * lanes) - 2 * lanes, 2 * lanes)
    backward = within % 2 == 1
    links = np.zeros(len(edge), LINK).view(np.recarray)
    links["src"] = np.where(backward, graph.b[edge], graph.a[edge])
    links["dst"] = np.where(backward, graph.a[edge], graph.b[edge])
    links["bandwidth_Bps"] = np.where(backward, graph.bandwidth_ba_Bps[edge], graph.bandwidth_ab_Bps[edge])
    links["latency_ps"] = graph.latency_ps[edge]
    # A GPU at the far end receives the line; any other node forwards it.
    passes_on = graph.kind[links["dst"]] != NodeKind.XPU
    links["forward_ps"] = np.where(passes_on, graph.forward_ps[links["dst"]], 0)
    # A NIC has a message rate, and so has a GPU, which includes its own NIC; a switch has none.
    kind = graph.kind[links["src"]]
    links["gap_ps"] = np.where((kind == NodeKind.NIC) | (kind == NodeKind.XPU), graph.gap_ps[edge], 0)
    links["role"] = _roles(graph, edge, links)
    bundles: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, (src, dst) in enumerate(zip(links["src"].tolist(), links["dst"].tolist(), strict=True)):
        bundles[src, dst].append(number)
    lane = np.zeros(len(links), np.int64)
    out: dict[int, list[tuple[int, list[int], int]]] = defaultdict(list)
    for (src, dst), members in bundles.items():
        lane[members] = links["lane"][members] = np.arange(len(members))
        first = links[members[0]]
        wire = transfer_ps(_PROBE_BYTES, int(first.bandwidth_Bps))
        out[src].append((dst, members, wire + int(first.latency_ps) + int(first.forward_ps)))
    gpus = np.asarray(graph.gpus, np.int64)
    return Fabric(graph, links, lane, gpus, edge, list(graph.assumed), dict(out))


def _roles(graph: NodeGraph, edge: np.ndarray, links: Records) -> np.ndarray:
    """Return the role of each lane for pause frames, ECN marks and rate limits, which Ethernet has.

    NVLink, PCIe and links inside a host have credits instead. A link of unknown type counts as
    Ethernet.
    """
    types = np.array([link.type for link in graph.links] or [""])
    ethernet = np.array([name.startswith(_ETHERNET) for name in types])[graph.link[edge]]
    src, dst = graph.kind[links["src"]], graph.kind[links["dst"]]
    from_host = (src == NodeKind.XPU) | (src == NodeKind.NIC)
    role = np.where(ethernet & (dst != NodeKind.XPU), PAUSES, 0)
    role |= np.where(ethernet, np.where(from_host, INJECTS, MARKS), 0)
    return role | np.where((types == "on-chip")[graph.link[edge]], INSIDE, 0)
