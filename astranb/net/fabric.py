"""The fabric compiled from an infrastructure: a record per directed lane, and the routes between GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from astranb.core.errors import InputError, NoRoute
from astranb.core.jit import Records
from astranb.core.progress import share
from astranb.infragraph import NodeGraph, NodeKind, family

from .link import INJECTS, INSIDE, LINK, MARKS, NEVER, PAUSES
from .nearest import Incoming, Outgoing, costs_to, routes_to
from .rank_links import RankLinks
from .shape import Shape

__all__ = ["Fabric", "NextHops", "Routes", "compile_fabric"]

_PROBE_BYTES = 4096
"""The cost of a route is the time of one message of this size: among routes of equal length the
fastest wins (NVLink before PCIe), among equally fast ones the shortest."""

_MOST_NAMED = 4

_HOST_LINKS = "pcie"  # types of links between NICs and hosts
_ETHERNET = ("eth", "cable", "unknown")
"""Link types with pause frames, ECN marks and rate limits; InfiniBand has credits and its own marks."""

_THROUGH_GPU_PS = 10**9
"""Additional cost of passing through a GPU: used only without another route (rings, tori)."""


class NextHops:
    """The next nodes on routes of least cost to a target, for every node.

    Parameters
    ----------
    outgoing : Outgoing
    cost : ndarray of int64
        Of each node to the target.
    target : int
    toll_ps : int
        Additional cost of passing through a GPU.
    """

    def __init__(self, outgoing: Outgoing, cost: np.ndarray, target: int, toll_ps: int) -> None:
        self.cost: list[int] = cost.tolist()
        behind = cost[outgoing.target]
        toll = np.where((outgoing.ranked == 1) & (outgoing.target != target), toll_ps, 0)
        good = (behind >= 0) & (behind + outgoing.price + toll == cost[outgoing.source])
        self._after: list[int] = outgoing.target[good].tolist()
        self._first: list[int] = np.concatenate([[0], np.cumsum(good)])[outgoing.first].tolist()

    def __getitem__(self, node: int) -> list[int]:
        """Return the next nodes of a node, in the order of the fabric."""
        return self._after[self._first[node] : self._first[node + 1]]


@dataclass(frozen=True)
class Routes(Mapping[tuple[int, int], list[list[int]]]):
    """The equal-cost routes of pairs of ranks, each a list of links.

    Attributes
    ----------
    pairs : ndarray of int64, shape (pairs, 2)
        Source and target of each pair.
    first_route : ndarray of int64, shape (pairs + 1,)
        First route of each pair.
    first_link : ndarray of int64, shape (routes + 1,)
        First place of each route in ``links``.
    links : ndarray of int32
        The links of all routes.
    """

    pairs: np.ndarray
    first_route: np.ndarray
    first_link: np.ndarray
    links: np.ndarray

    @cached_property
    def _numbers(self) -> dict[tuple[int, int], int]:
        return {(source, target): number for number, (source, target) in enumerate(self.pairs.tolist())}

    def __getitem__(self, pair: tuple[int, int]) -> list[list[int]]:
        """Return the routes of a pair."""
        number = self._numbers[pair]
        ends = self.first_link[self.first_route[number] : self.first_route[number + 1] + 1].tolist()
        return [self.links[first:last].tolist() for first, last in pairwise(ends)]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over the pairs."""
        return iter(self._numbers)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.pairs)


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
    closed : frozenset of int
        Lanes that routes avoid, because they are down.
    """

    graph: NodeGraph
    links: Records
    lane: np.ndarray
    gpus: np.ndarray
    edge: np.ndarray
    assumed: list[str] = field(default_factory=list)
    closed: frozenset[int] = frozenset()

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The node where each lane begins, and where it ends: one by one, records would be slow."""
        return np.asarray(self.links["src"]), np.asarray(self.links["dst"])

    def name(self, link: int) -> str:
        """Return a lane's name: ``dgx.0.xpu.0->dgx.0.nvsw.0#1`` (``#k`` if there are several)."""
        source, target = (int(nodes[link]) for nodes in self.ends)
        several = any(len(lanes) > 1 for to, lanes, _ in self._out[source] if to == target)
        plain = f"{self.graph.name(source)}->{self.graph.name(target)}"
        return f"{plain}#{self.lane[link]}" if several else plain

    def family(self, link: int) -> str:
        """Return a lane's technology: ``NVLink``, ``PCIe``, ``Ethernet``, ...; ``unspecified``."""
        return family(self.graph.links[int(self.graph.link[self.edge[link]])].type)

    @property
    def leave_nics(self) -> np.ndarray:
        """Whether each lane leads from a NIC to the network, not to its host."""
        types = np.array([link.type for link in self.graph.links] or [""])[self.graph.link[self.edge]]
        host = np.char.startswith(types, _HOST_LINKS)
        found: np.ndarray = (self.graph.kind[self.links["src"]] == NodeKind.NIC) & ~host
        return found

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

    @property
    def per_node(self) -> int:
        """Number of ranks per instance; all ranks if instances have different numbers."""
        owners = [".".join(self.graph.name(int(g)).split(".")[:2]) for g in self.gpus]
        sizes = {len(list(group)) for _, group in groupby(owners)}
        return sizes.pop() if len(sizes) == 1 and len(set(owners)) > 1 else len(owners)

    @cached_property
    def shape(self) -> Shape:
        """How the ranks are joined, as far as algorithms take it into account."""
        per_node, nics = self.per_node, self.graph.kinds(NodeKind.NIC)
        near = self.gpus[:per_node].tolist()
        meshed = all((a, b) in self.bundles for a in near for b in near if a != b)
        rdma = False
        if per_node < len(self.gpus) and len(nics):
            far = self.routes([(0, per_node)])[0][0, per_node]
            rdma = bool(np.isin(self.links["dst"][far[0]], nics).any())
        return Shape(per_node, meshed, rdma, RankLinks(self.gpus.tolist(), self._joined_with))

    def _joined_with(self, node: int) -> list[int]:
        """Return the nodes to which a link leads from a node that is not down."""
        return [
            to for to, lanes, _ in self._out.get(node, ()) if any(lane not in self.closed for lane in lanes)
        ]

    def without(self, lanes: Iterable[int]) -> Fabric:
        """Give the same lanes, of which some carry nothing: routes avoid them."""
        return replace(self, closed=frozenset(lanes))

    def routes(self, pairs: Iterable[tuple[int, int]], *, partial: bool = False) -> tuple[Routes, list[str]]:
        """Find all equal-cost routes for pairs of ranks.

        Parameters
        ----------
        pairs : iterable of (int, int)
            Source and target ranks.
        partial : bool
            Leave out pairs that have none.

        Returns
        -------
        routes : Routes
        notes : list of str
            Assumptions.

        Raises
        ------
        InputError
            A pair has no route, and not ``partial``; the error names both GPUs.
        """
        found: list[tuple[list[tuple[int, int]], np.ndarray, np.ndarray, np.ndarray]] = []
        through = False
        by_target = self._by_target(pairs)
        for done, (target, every) in enumerate(by_target.items()):
            share(done, len(by_target))
            end, sources, starts = int(self.gpus[target]), every, self.gpus[every]
            cost = costs_to(self._incoming, end, set(starts.tolist()), _THROUGH_GPU_PS)
            if partial:
                sources = [source for source in every if cost[int(self.gpus[source])] >= 0]
                starts = self.gpus[sources]
            for source in np.flatnonzero(cost[starts] < 0)[:1].tolist():
                self._start(sources[source], target, cost)
            through |= bool((cost[starts] >= _THROUGH_GPU_PS).any())
            count, hops, links = routes_to(self._outgoing, cost, end, starts, _THROUGH_GPU_PS)
            found.append(([(source, target) for source in sources], count, hops, links.astype(np.int32)))
        note = "some GPUs reach each other only through other GPUs, which forward their lines"
        routes = Routes(
            np.array([pair for listed, *_ in found for pair in listed], np.int64).reshape(-1, 2),
            _ends([count for _, count, _, _ in found]),
            _ends([hops for _, _, hops, _ in found]),
            np.concatenate([np.zeros(0, np.int32), *(links for *_, links in found)]),
        )
        return routes, [note] if through else []

    def routes_from(self, node: int, target: int, seen: frozenset[int] = frozenset()) -> list[list[int]]:
        """Find all equal-cost routes from a node, as a switch, to a rank; none where there is no way."""
        end = int(self.gpus[target])
        if node == end:
            return []
        cost = costs_to(self._incoming, end, {node}, _THROUGH_GPU_PS)
        if cost[node] < 0:  # a node with one link left is a dead end of other routes
            away = [(to, lanes) for to, lanes, _ in self._out.get(node, ()) if to not in seen]
            for to, lanes in away[:1]:
                onward = [[]] if to == end else self.routes_from(to, target, seen | {node})
                return [[lane, *rest] for lane in lanes for rest in onward]
            return []
        _, hops, links = routes_to(self._outgoing, cost, end, np.array([node]), _THROUGH_GPU_PS)
        last = np.cumsum(hops)
        return [links[first:until].tolist() for first, until in pairwise([0, *last.tolist()])]

    def next_hops(
        self, pairs: Iterable[tuple[int, int]], *, partial: bool = False
    ) -> Iterator[tuple[tuple[int, int], NextHops]]:
        """Find the nodes on all equal-cost routes of pairs of ranks.

        Parameters
        ----------
        pairs : iterable of (int, int)
            Source and target ranks.
        partial : bool
            Leave out pairs that have none.

        Yields
        ------
        pair : (int, int)
        next_hops : NextHops
            The same object for all pairs with the same target.

        Raises
        ------
        InputError
            A pair has no route, and not ``partial``; the error names both GPUs.
        """
        by_target = self._by_target(pairs)
        for done, (target, sources) in enumerate(by_target.items()):
            share(done, len(by_target))
            end = int(self.gpus[target])
            starts = {int(self.gpus[source]) for source in sources}
            # Search through other servers only if there is no other route: this is faster.
            around = {int(self._incoming.home[node]) for node in (end, *starts)}
            cost = costs_to(self._incoming, end, starts, _THROUGH_GPU_PS, around)
            if any(cost[start] < 0 for start in starts):
                cost = costs_to(self._incoming, end, starts, _THROUGH_GPU_PS)
            next_hops = NextHops(self._outgoing, cost, end, _THROUGH_GPU_PS)
            for source in sources:
                if partial and cost[int(self.gpus[source])] < 0:
                    continue
                self._start(source, target, cost)
                yield (source, target), next_hops

    @cached_property
    def _bundles(self) -> Outgoing:
        """The lanes from one node to the next, in the order of their first lanes, with their costs."""
        links = self.links
        open_ = np.setdiff1d(np.arange(len(links)), list(self.closed))
        ends = links["src"][open_].astype(np.int64) * len(self.graph) + links["dst"][open_]
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
            price=wire_ps + links["latency_ps"][heads] + links["forward_ps"][heads],
            ranked=np.zeros(0, np.int64),
            first_lane=np.cumsum(lanes) - lanes,
            lanes=lanes,
            numbers=open_[np.argsort(place[bundle], kind="stable")],
        )

    @cached_property
    def _out(self) -> dict[int, list[tuple[int, list[int], int]]]:
        """The bundles out of each node: the next node, the lanes and the cost."""
        found: dict[int, list[tuple[int, list[int], int]]] = defaultdict(list)
        b = self._bundles
        numbers = b.numbers.tolist()
        columns = (column.tolist() for column in (b.source, b.target, b.price, b.first_lane, b.lanes))
        for source, target, price, first, lanes in zip(*columns, strict=True):
            found[source].append((target, numbers[first : first + lanes], price))
        return dict(found)

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

    def _start(self, source: int, target: int, cost: np.ndarray) -> int:
        """Return the node of a rank, after a check that it has a route to another."""
        start = int(self.gpus[source])
        if cost[start] < 0:
            if cut := self.cut_off():
                some = _some([f"{rank} ({self.graph.name(int(self.gpus[rank]))})" for rank in cut])
                down = _some(list(self.graph.failed))
                raise NoRoute(
                    f"no route to rank{'s' * (len(cut) > 1)} {some}: down: {down}",
                    where=f"infrastructure {self.graph.title!r}",
                    hint="leave these ranks out, or bring one of the links up",
                )
            raise NoRoute(
                f"there is no route from {self.graph.name(start)} (rank {source}) "
                f"to {self.graph.name(int(self.gpus[target]))} (rank {target})",
                where=f"infrastructure {self.graph.title!r}",
                hint="add an edge or a switch that joins them",
            )
        return start

    def cut_off(self) -> list[int]:
        """Ranks that failed links have cut off from most of the others."""
        if not self.graph.failed:
            return []
        label = self.graph.component_labels[self.gpus]
        return np.flatnonzero(label != np.argmax(np.bincount(label))).tolist()

    @cached_property
    def _ranked(self) -> set[int]:
        """Nodes that are GPUs."""
        return set(self.gpus.tolist())

    @cached_property
    def _outgoing(self) -> Outgoing:
        """The links out of each node, with their costs."""
        b = self._bundles
        order = np.argsort(b.source, kind="stable")
        source, target, price = b.source[order], b.target[order], b.price[order]
        first = np.searchsorted(source, np.arange(len(self.graph) + 1))
        ranked = np.isin(target, self.gpus).astype(np.int64)
        return Outgoing(first, source, target, price, ranked, b.first_lane[order], b.lanes[order], b.numbers)

    @cached_property
    def _incoming(self) -> Incoming:
        """The links into each node, with their costs; dead ends are left out."""
        neighbours = {src: {dst for dst, _, _ in bundles} for src, bundles in self._out.items()}
        ends = [node for node, others in neighbours.items() if len(others) < 2 and node not in self._ranked]
        while ends:
            node = ends.pop()
            for other in neighbours.pop(node, ()):  # where one direction is down, a node may be listed twice
                if other not in neighbours:  # no link leaves it
                    continue
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
    lane = _lanes_of(links, len(graph))
    links["lane"] = lane
    gpus = np.asarray(graph.gpus, np.int64)
    return Fabric(graph, links, lane, gpus, edge, list(graph.assumed))


def _some(names: list[str]) -> str:
    """Write names, the first few of many."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _ends(counts: list[np.ndarray]) -> np.ndarray:
    """Return where each of so many rows begins, and the end of the last."""
    found: np.ndarray = np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]))
    return found


def _lanes_of(links: Records, nodes: int) -> np.ndarray:
    """Number the parallel lanes between two nodes in each direction."""
    ends = links["src"].astype(np.int64) * nodes + links["dst"]
    order = np.argsort(ends, kind="stable")
    new = np.ones(len(order), bool)
    new[1:] = np.diff(ends[order]) != 0
    lane = np.empty(len(order), np.int64)
    lane[order] = np.arange(len(order)) - np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    return lane


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
