"""The fabric compiled from an infrastructure: a record per directed lane, and the routes between GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import Final

import numpy as np

from astranb.core.arrays import offsets, ranges, reduce_at
from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.infragraph import (
    ARROW,
    LINK_PROPERTIES,
    NodeGraph,
    NodeKind,
    ambiguous,
    family,
    find_nodes,
    is_link,
    is_short,
    link_ends,
    pattern_of,
    short_name,
    spelled,
)

from .boxes import BETWEEN_CPUS_PS, THROUGH_GPU_PS, joins_cpus
from .bundles import Bundles
from .link import INJECTS, INSIDE, LINK, MARKS, PAUSES
from .nearest import routes_to
from .rank_links import RankLinks
from .routes import Routes, by_proxy, ends, joined, legs
from .search import Search, some
from .shape import Shape

__all__ = ["Fabric", "compile_fabric"]

_MOST_ASKED: Final = 128  # ranks of an instance
_HOST_LINKS = "pcie"  # types of links between NICs and hosts
_ETHERNET = ("eth", "cable", "unknown")
"""Link types with pause frames, ECN marks and rate limits; InfiniBand has credits and its own marks."""


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
    remarks : list of str
        What has to be said about the routes that were asked for.
    """

    graph: NodeGraph
    links: Records
    lane: np.ndarray
    gpus: np.ndarray
    edge: np.ndarray
    assumed: list[str] = field(default_factory=list)
    closed: frozenset[int] = frozenset()
    remarks: list[str] = field(default_factory=list)

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The node where each lane begins, and where it ends: one by one, records would be slow."""
        return np.asarray(self.links["src"]), np.asarray(self.links["dst"])

    def name(self, link: int) -> str:
        """Return a lane's name: ``dgx.0.xpu.0->dgx.0.nvsw.0#1`` (``#k`` if there are several)."""
        source, target = (int(nodes[link]) for nodes in self.ends)
        several = any(len(lanes) > 1 for to, lanes, _ in self.lane_table.links_from(source) if to == target)
        plain = f"{self.graph.name(source)}->{self.graph.name(target)}"
        return f"{plain}#{self.lane[link]}" if several else plain

    def short_ends(self, lanes: Iterable[int]) -> tuple[str, str]:
        """Return short names of the nodes that lanes lead from and to: ``gpu[5]`` and ``nvsw.2``."""
        some = list(lanes)
        source, target = (frozenset(nodes[some].tolist()) for nodes in self.ends)
        return self._short_name(source), self._short_name(target)

    def _short_name(self, nodes: frozenset[int]) -> str:
        if nodes not in self._short_names:
            self._short_names[nodes] = short_name(self.graph, nodes)
        return self._short_names[nodes]

    @cached_property
    def _short_names(self) -> dict[frozenset[int], str]:
        return {}

    def family(self, link: int) -> str:
        """Return a lane's technology: ``NVLink``, ``PCIe``, ``Ethernet``, ...; ``unspecified``."""
        return family(self.graph.links[int(self.graph.edges.link[self.edge[link]])].type)

    @property
    def enter_nics(self) -> np.ndarray:
        """Whether each lane leads from a host to its NIC."""
        types = np.array([link.type for link in self.graph.links] or [""])[self.graph.edges.link[self.edge]]
        nodes, (starts, ends) = self.graph.nodes, self.ends
        near = np.char.startswith(types, _HOST_LINKS) | (nodes.instance[starts] == nodes.instance[ends])
        found: np.ndarray = (nodes.kind[ends] == NodeKind.NIC) & near
        return found

    def find(self, name: str) -> list[int]:
        """Return the lanes that a name stands for.

        Parameters
        ----------
        name : str
            ``A->B`` (all lanes) or ``A->B#k`` (one of them), each end as
            :func:`astranb.infragraph.find_nodes` reads it: short where only one link fits
            (``gpu[2]->nvsw.0``), or several (``gpu[*]->*``, ``host.0->leaf.1``).

        Raises
        ------
        InputError
            There is no such link, or a short name is that of several.
        """
        plain = spelled(name, self.graph)
        if not is_link(self.graph, plain):
            raise InputError(f"unknown link {name!r:.80}", hint="write A->B or A->B#k")
        a, b, number = link_ends(self.graph, plain)
        try:
            src, dst = (find_nodes(self.graph, end, allow_ambiguous=True) for end in (a, b))
        except InputError as error:
            raise InputError(f"unknown link {name!r:.80}: {error.what}", hint=error.hint) from None
        if len(src) == len(dst) == 1:
            lanes = self.lane_table.lanes_of((int(src[0]), int(dst[0])))
        else:
            leaving = self._leaving(src)
            lanes = leaving[np.isin(self.ends[1][leaving], dst)].tolist()
        every = len(lanes)
        if number:
            lanes = [lane for lane in lanes if number in ("*", str(self.lane[lane]))]
        if not lanes:
            hint = f"lanes are #0 to #{every - 1}" if every else self._near(src)
            raise InputError(f"unknown link {name!r:.80}", hint=hint)
        pairs = self.by_ends(lanes)
        if len(pairs) > 1 and any(
            _joined_by_several(pairs, self.ends[at], self.ends[1 - at])
            for at, end in enumerate((a, b))
            if is_short(self.graph, end)
        ):
            raise ambiguous(name, [self.name(one[0]).partition("#")[0] for one in pairs[:3]], len(pairs))
        return lanes

    def by_ends(self, lanes: Iterable[int]) -> list[list[int]]:
        """Return lanes in groups that join the same two nodes, in the order of their first lanes."""
        groups: dict[tuple[int, int], list[int]] = {}
        starts, ends = self.ends
        for lane in lanes:
            groups.setdefault((int(starts[lane]), int(ends[lane])), []).append(lane)
        return list(groups.values())

    def full(self, lanes: Sequence[int]) -> str:
        """Return the name of lanes between two nodes: ``A->B`` of all, ``A->B#k`` of one of several."""
        name = self.name(lanes[0])
        return name if len(lanes) == 1 else name.partition("#")[0]

    def _leaving(self, nodes: np.ndarray) -> np.ndarray:
        """Return the lanes that leave some nodes, in their order."""
        order, first = self._by_start
        return np.sort(order[ranges(first[nodes], first[nodes + 1] - first[nodes])])

    @cached_property
    def _by_start(self) -> tuple[np.ndarray, np.ndarray]:
        """The lanes by the nodes where they begin, and the first of each node."""
        return np.argsort(self.ends[0], kind="stable"), offsets(self.ends[0], len(self.graph))

    def exact(self, lanes: Sequence[int]) -> str:
        """Return the name by which :meth:`find` finds exactly these lanes; empty where there is none.

        Examples
        --------
        >>> from astranb.infragraph import blueprint
        >>> fabric = compile_fabric(blueprint("dgx-h100").expand())
        >>> fabric.exact(fabric.find("gpu[0]->nvsw.1")), fabric.exact(fabric.find("gpu[0]->nvsw.*"))
        ('dgx_h100.0.xpu.0->dgx_h100.0.nvsw.1', 'dgx_h100.0.xpu.0->dgx_h100.0.nvsw.*')
        """
        starts, ends = (frozenset(side[list(lanes)].tolist()) for side in self.ends)
        joined = sum(len(each) for a in starts for b, each, _ in self.lane_table.links_from(a) if b in ends)
        if joined == len(lanes):
            a, b = (self._pattern(nodes) for nodes in (starts, ends))
            return f"{a}->{b}" if a and b else ""
        return self.name(lanes[0]) if len(lanes) == 1 else ""

    def _pattern(self, nodes: frozenset[int]) -> str:
        """Return the name that stands for some nodes; empty where there is none."""
        if nodes not in self._patterns:
            self._patterns[nodes] = pattern_of(self.graph, sorted(nodes))
        return self._patterns[nodes]

    @cached_property
    def _patterns(self) -> dict[frozenset[int], str]:
        return {}

    def _near(self, nodes: np.ndarray) -> str:
        """Name links that leave some nodes: what may have been meant instead."""
        leaving = self._leaving(nodes[:1]).tolist()
        some = [ARROW.join(self.short_ends(one)) for one in self.by_ends(leaving)[:3]]
        return f"for example {', '.join(some)}" if some else "write A->B or A->B#k"

    @property
    def per_node(self) -> int:
        """Number of ranks per instance; all ranks if instances have different numbers."""
        owners = [".".join(self.graph.name(int(g)).split(".")[:2]) for g in self.gpus]
        sizes = {len(list(group)) for _, group in groupby(owners)}
        return sizes.pop() if len(sizes) == 1 and len(set(owners)) > 1 else len(owners)

    @cached_property
    def shape(self) -> Shape:
        """Shape in which the ranks are connected, as far as algorithms take it into account."""
        per_node, nics = self.per_node, self.graph.kinds(NodeKind.NIC)
        near = self.gpus[:per_node].tolist()
        meshed = all(self.lane_table.lanes_of((a, b)) for a in near for b in near if a != b)
        rdma = False
        if per_node < len(self.gpus) and len(nics):
            far = self.routes([(0, per_node)])[0][0, per_node]
            rdma = bool(np.isin(self.links["dst"][far[0]], nics).any())
        return Shape(per_node, meshed, rdma, RankLinks(self.gpus.tolist(), self._joined_with))

    def _joined_with(self, node: int) -> list[int]:
        """Return the nodes to which a link leads from a node that is not down."""
        return [
            to
            for to, lanes, _ in self.lane_table.links_from(node)
            if any(lane not in self.closed for lane in lanes)
        ]

    def without(self, lanes: Iterable[int]) -> Fabric:
        """Return the same lanes, of which some carry nothing: routes avoid them."""
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
        asked = sorted(set(pairs))
        proxies = self.search.proxies(asked) if self.graph.pxn else {}
        found: list[Routes] = []
        through = False
        for target, groups in self.search.searches(legs(asked, proxies), partial=partial):
            for sources, hops in groups:
                cost, starts = hops.costs(), self.gpus[sources]
                through |= bool((cost[starts] % BETWEEN_CPUS_PS >= THROUGH_GPU_PS).any())
                count, length, links = routes_to(
                    self.search.outgoing, cost, int(self.gpus[target]), starts, THROUGH_GPU_PS
                )
                listed = np.array([(source, target) for source in sources], np.int64)
                found.append(Routes(listed, ends([count]), ends([length]), links.astype(np.int32)))
        routes = joined(found)
        if proxies:
            routes = by_proxy(routes, asked, proxies)
        self.remark(routes.links)
        note = "some GPUs reach each other only through other GPUs, which forward their lines"
        return routes, [*self.remarks, *([note] if through else [])]

    def host_remarks(self) -> list[str]:
        """Return what has to be said about routes within the first instance, and from it to the next one."""
        each, ranks = self.per_node, len(self.gpus)
        near = range(min(each, _MOST_ASKED))
        pairs = {(rank, (rank + each // 2) % each) for rank in near} | {(rank, rank + each) for rank in near}
        self.routes([(a, b) for a, b in pairs if a != b < ranks], partial=True)
        return list(self.remarks)

    def remark(self, lanes: np.ndarray) -> None:
        """Note that some routes lead from one CPU of a host to the other, if they do."""
        used = np.zeros(len(self.links), bool)
        used[lanes] = True
        found = np.flatnonzero(used & joins_cpus(self.graph, self.gpus, *self.ends))
        if len(found) and not self.remarks:
            names = list(dict.fromkeys(self.name(lane).partition("#")[0] for lane in found.tolist()))
            self.remarks.append(f"some GPUs have no other way than over links between CPUs: {some(names)}")

    @cached_property
    def search(self) -> Search:
        """Search for routes."""
        b = self.lane_table.table
        total = reduce_at(np.add, self.links["bandwidth_Bps"][b.numbers], b.first_lane)
        return Search(self.graph, self.gpus, self.lane_table, total, self.family)

    @cached_property
    def lane_table(self) -> Bundles:
        """The lanes that are open."""
        return Bundles(self.graph, self.gpus, self.links, self.closed)

    @property
    def bundles(self) -> dict[tuple[int, int], list[int]]:
        """The lanes from each node to each next one."""
        open_ = self.lane_table
        nodes = np.flatnonzero(np.diff(open_.every.first)).tolist()
        return {(node, to): lanes for node in nodes for to, lanes, _ in open_.links_from(node)}

    def routes_from(self, node: int, target: int, seen: frozenset[int] = frozenset()) -> list[list[int]]:
        """Find all equal-cost routes from a node, as a switch, to a rank; none where there is no way."""
        end = int(self.gpus[target])
        if node == end:
            return []
        cost = self.search.costs_anywhere(end, {node})
        if cost[node] < 0:  # a node with one link left is a dead end of other routes
            away = [(to, lanes) for to, lanes, _ in self.lane_table.links_from(node) if to not in seen]
            for to, lanes in away[:1]:
                onward = [[]] if to == end else self.routes_from(to, target, seen | {node})
                return [[lane, *rest] for lane in lanes for rest in onward]
            return []
        _, hops, links = routes_to(self.search.outgoing, cost, end, np.array([node]), THROUGH_GPU_PS)
        last = np.cumsum(hops)
        return [links[first:until].tolist() for first, until in pairwise([0, *last.tolist()])]


def _joined_by_several(pairs: list[list[int]], these: np.ndarray, others: np.ndarray) -> bool:
    """Return whether a node at the other end of links is joined to several of these."""
    nodes: dict[int, set[int]] = {}
    for lanes in pairs:
        nodes.setdefault(int(others[lanes[0]]), set()).add(int(these[lanes[0]]))
    return any(len(joined) > 1 for joined in nodes.values())


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
    usable = np.flatnonzero(graph.edges.a != graph.edges.b)
    lanes = graph.edges.lanes[usable].astype(np.int64)
    edge = np.repeat(usable, 2 * lanes)
    within = np.arange(len(edge)) - np.repeat(np.cumsum(2 * lanes) - 2 * lanes, 2 * lanes)
    way = within % 2  # 0: from a to b
    links = np.zeros(len(edge), LINK).view(np.recarray)
    links["src"] = np.where(way, graph.edges.b[edge], graph.edges.a[edge])
    links["dst"] = np.where(way, graph.edges.a[edge], graph.edges.b[edge])
    sender = graph.nodes.kind[links["src"]]
    for one in LINK_PROPERTIES:
        values = graph.edges[one.column][way, edge]
        if one.senders:
            values = np.where(np.isin(sender, one.senders), values, one.default)
        links[one.column] = values
    # A GPU at the far end receives the line; any other node forwards it.
    passes_on = graph.nodes.kind[links["dst"]] != NodeKind.XPU
    links["forward_ps"] = np.where(passes_on, graph.nodes.forward_ps[links["dst"]], 0)
    links["role"] = _roles(graph, edge, links)
    lane = _lanes_of(links, len(graph))
    links["lane"] = lane
    gpus = np.asarray(graph.gpus, np.int64)
    return Fabric(graph, links, lane, gpus, edge, list(graph.assumed))


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
    ethernet = np.array([name.startswith(_ETHERNET) for name in types])[graph.edges.link[edge]]
    src, dst = graph.nodes.kind[links["src"]], graph.nodes.kind[links["dst"]]
    from_host = (src == NodeKind.XPU) | (src == NodeKind.NIC)
    role = np.where(ethernet & (dst != NodeKind.XPU), PAUSES, 0)
    role |= np.where(ethernet, np.where(from_host, INJECTS, MARKS), 0)
    return role | np.where((types == "on-chip")[graph.edges.link[edge]], INSIDE, 0)
