"""The search of routes: within boxes, by the NICs of two GPUs, and wherever else there is a way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from astranb.core.errors import NoRoute
from astranb.core.progress import share
from astranb.infragraph import NodeGraph

from .boxes import THROUGH_CPU_PS, THROUGH_GPU_PS, Boxes
from .bundles import Bundles
from .nearest import Incoming, Outgoing, costs_to

__all__ = ["Chain", "NextHops", "Search", "some"]

_MOST_NAMED = 4
_KEPT: Final = 32  # searches of the network

_FAST = ("NVLink", "xGMI")  # families of links over which a GPU sends by the NIC of another one


class NextHops:
    """The next nodes on routes of least cost to a target, for every node.

    Parameters
    ----------
    outgoing : Outgoing
    cost : ndarray of int64
        Of each node to the target; -1 where there is no route.
    target : int
    instead : dict of int to int
        The costs of some nodes, in place of those.
    """

    def __init__(
        self, outgoing: Outgoing, cost: np.ndarray, target: int, instead: dict[int, int] | None = None
    ) -> None:
        self._out, self._cost, self._target, self._instead = outgoing, cost, target, instead or {}
        self._after: dict[int, list[int]] = {}
        self._good: np.ndarray | None = None
        self._every: list[int] = []

    def cost(self, node: int) -> int:
        """Return the cost of a node; -1 where there is no route."""
        found = self._instead.get(node)
        return int(self._cost[node]) if found is None else found

    def costs(self) -> np.ndarray:
        """Return the costs of all nodes."""
        if not self._instead:
            return self._cost
        cost = self._cost.copy()
        cost[list(self._instead)] = list(self._instead.values())
        return cost

    def __getitem__(self, node: int) -> list[int]:
        """Return the next nodes of a node, in the order of the fabric."""
        if self._instead:
            if node not in self._after:
                self._after[node] = self._next(node)
            return self._after[node]
        if self._good is None:
            good = self._leads_on(slice(None), self._cost[self._out.target], self._cost[self._out.source])
            self._every = self._out.target[good].tolist()
            self._good = np.concatenate([[0], np.cumsum(good)])
        first, last = self._out.first[node : node + 2]
        return self._every[self._good[first] : self._good[last]]

    def _next(self, node: int) -> list[int]:
        rows = slice(int(self._out.first[node]), int(self._out.first[node + 1]))
        to = self._out.target[rows]
        if node in self._instead:  # what it has links to may be among them, too
            behind = np.array([self.cost(one) for one in to.tolist()], np.int64)
        else:
            behind = self._cost[to]
        found: list[int] = to[self._leads_on(rows, behind, self.cost(node))].tolist()
        return found

    def _leads_on(self, rows: slice, behind: np.ndarray, own: np.ndarray | int) -> np.ndarray:
        out = self._out
        toll = np.where((out.ranked[rows] == 1) & (out.target[rows] != self._target), THROUGH_GPU_PS, 0)
        good: np.ndarray = (behind >= 0) & (behind + out.price[rows] + toll == own)
        return good


class Chain(NamedTuple):
    """The nodes between a GPU or NIC and the first one with a choice of links.

    Attributes
    ----------
    nodes : tuple of int
        From there on; that one is the last.
    costs : tuple of int
        Of each: of the way from there to it, or from it to there.
    """

    nodes: tuple[int, ...]
    costs: tuple[int, ...]


class Search:
    """Searches the routes of a fabric.

    Parameters
    ----------
    graph : NodeGraph
    gpus : ndarray of int64
        Node of each rank.
    bundles : Bundles
    total_Bps : ndarray of int64
        Of the lanes of each bundle together.
    family : callable
        Returns the technology of a lane.
    """

    def __init__(
        self,
        graph: NodeGraph,
        gpus: np.ndarray,
        bundles: Bundles,
        total_Bps: np.ndarray,  # noqa: N803 - unit in the name
        family: Callable[[int], str],
    ) -> None:
        self.graph, self.gpus, self.bundles = graph, gpus, bundles
        self.boxes = Boxes(graph, gpus, bundles.table, total_Bps)
        self.outgoing = bundles.outgoing
        self._family = family
        self._chains: dict[tuple[int, str], list[Chain]] = {}
        self._between: dict[int, np.ndarray] = {}

    def searches(
        self, pairs: Iterable[tuple[int, int]], *, partial: bool = False
    ) -> Iterator[tuple[int, list[tuple[list[int], NextHops]]]]:
        """Search the routes of pairs of ranks.

        Within a box they stay there; from one box to another they lead by the NICs of the two GPUs, see
        `boxes`; any others, and those that have no such route, go where it costs least.

        Parameters
        ----------
        pairs : iterable of (int, int)
            Source and target ranks.
        partial : bool
            Leave out pairs that have none.

        Yields
        ------
        target : int
            A rank.
        groups : list of (list of int, NextHops)
            Ranks that send to it, and the nodes on all their equal-cost routes.

        Raises
        ------
        InputError
            A pair has no route, and not ``partial``; the error names both GPUs.
        """
        by_target = self._by_target(pairs)
        for done, (target, sources) in enumerate(by_target.items()):
            share(done, len(by_target))
            end = int(self.gpus[target])
            groups, others = self._by_boxes(end, sources)
            if others:
                starts = {int(self.gpus[source]) for source in others}
                cost = self.costs_anywhere(end, starts)
                for source in others if not partial else ():
                    self._start(source, target, cost)
                if reached := [source for source in others if cost[int(self.gpus[source])] >= 0]:
                    groups.append((reached, NextHops(self.outgoing, cost, end)))
            yield target, groups

    def _by_boxes(self, end: int, sources: list[int]) -> tuple[list[tuple[list[int], NextHops]], list[int]]:
        """Search the routes to a GPU within its box and from other boxes; return which others there are."""
        box_of, groups, others = self.boxes.of, list[tuple[list[int], NextHops]](), list[int]()
        near: list[int] = []
        merged: list[tuple[list[int], dict[int, int]]] = []
        starts = box_of[self.gpus[sources]]
        far = box_of[end] >= 0 and bool(((starts >= 0) & (starts != box_of[end])).any())
        cost = self._costs_into(end) if far else self.nowhere
        for source in sources:
            start = int(self.gpus[source])
            if box_of[start] < 0 or box_of[end] < 0:
                others.append(source)
            elif box_of[start] == box_of[end]:
                (near if start in self.boxes.inside(end) else others).append(source)
            else:
                leaving = self._costs_out(start, cost)
                if not leaving:
                    others.append(source)
                    continue
                fits = (one for one in merged if one[1].keys().isdisjoint(leaving))
                ranks, costs = next(fits, ([], {}))
                if not ranks:
                    merged.append((ranks, costs))
                ranks.append(source)
                costs.update(leaving)
        if near:
            groups.append((near, NextHops(self.outgoing, self.nowhere, end, self.boxes.inside(end))))
        for ranks, costs in merged:
            groups.append((ranks, NextHops(self.outgoing, cost, end, costs)))
        return groups, others

    def _costs_into(self, end: int) -> np.ndarray:
        """Return the cost of all nodes of the network to a GPU, by its own NICs."""
        best = np.full(len(self.graph), -1, np.int64)
        inside: dict[int, int] = {}
        for nic, cost in self.boxes.nics(end, "into"):
            inside |= cost
            for chain in self.chains(nic, "into"):
                known = self.costs_between(chain.nodes[-1])
                far = np.where(known >= 0, known + chain.costs[-1] + cost[nic], -1)
                best = np.where((best < 0) | ((far >= 0) & (far < best)), far, best)
        for nic, cost in self.boxes.nics(end, "into"):
            for chain in self.chains(nic, "into"):
                for node, onward in zip(chain.nodes[:-1], chain.costs, strict=False):
                    best[node] = onward + cost[nic]
        best[list(inside)] = list(inside.values())
        return best

    def _costs_out(self, start: int, cost: np.ndarray) -> dict[int, int]:
        """Return the costs of the nodes between a GPU and its own NICs; none where these lead nowhere."""
        found: dict[int, int] = {}
        onward: dict[int, int] = {}
        for nic, _ in self.boxes.nics(start, "out"):
            behind = [
                int(cost[to]) + price
                for to, price in self.bundles.neighbours(nic, "out").items()
                if self.boxes.outside[to] and cost[to] >= 0
            ]
            if behind:
                onward[nic] = min(behind)
        nics = [one for one in self.boxes.nics(start, "out") if one.nic in onward]
        least = min((one.cost[start] + onward[one.nic] for one in nics), default=0)
        for nic, own in nics:
            if own[start] + onward[nic] == least:
                for node, far in own.items():
                    found[node] = min(far + onward[nic], found.get(node, far + onward[nic]))
        return found

    def costs_between(self, end: int, starts: Iterable[int] | None = None) -> np.ndarray:
        """Return the cost of nodes of the network to one of them: of all, or as far as some are away."""
        if starts is not None:
            return costs_to(self._network, end, set(starts), THROUGH_GPU_PS)
        if end not in self._between:
            while len(self._between) >= _KEPT:
                self._between.pop(next(iter(self._between)))
            # No GPU of a box is in the network, so that the search goes to its end.
            boxed = self.gpus[self.boxes.of[self.gpus] >= 0]
            self._between[end] = costs_to(self._network, end, {int(boxed[0])}, THROUGH_GPU_PS)
        return self._between[end]

    def costs_anywhere(self, end: int, starts: Iterable[int]) -> np.ndarray:
        """Return the cost of nodes to another one, as far as some of them are away."""
        return costs_to(self.bundles.incoming, end, set(starts), THROUGH_GPU_PS)

    def chains(self, node: int, way: str) -> list[Chain]:
        """Follow the links of a GPU or NIC, from it (``"out"``) or to it (``"into"``), up to a choice."""
        if (node, way) not in self._chains:
            near = self.bundles.neighbours(node, way)
            self._chains[node, way] = [
                self._chain(node, to, price, way) for to, price in near.items() if self._passes_on[to]
            ]
        return self._chains[node, way]

    def _chain(self, start: int, node: int, cost: int, way: str) -> Chain:
        before, nodes, costs = start, [node], [cost]
        while True:
            out, into = self.bundles.neighbours(node, "out"), self.bundles.neighbours(node, "into")
            if len(out) != 2 or out.keys() != into.keys() or before not in out:
                break
            before, node = node, next(other for other in out if other != before)
            if not self._passes_on[node] or node in nodes:
                break
            nodes.append(node)
            costs.append(costs[-1] + self.bundles.neighbours(before, way)[node])
        return Chain(tuple(nodes), tuple(costs))

    def proxies(self, pairs: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Find the GPUs whose NICs pairs of ranks in different boxes use (NCCL's PXN).

        A GPU of the source's box that NVLink joins with it, and whose NIC is on the switch of the
        target's, sends for it; none where the source's own NIC is.

        Returns
        -------
        dict of (int, int) to int
            The rank that sends for each pair that has one.
        """
        found, known = {}, dict[tuple[int, frozenset[int]], list[int]]()
        for source, target in pairs:
            start, end = int(self.gpus[source]), int(self.gpus[target])
            box = self.boxes.of[start]
            wanted = self._rails(end, "into")
            if box < 0 or box == self.boxes.of[end] or not wanted.isdisjoint(self._rails(start, "out")):
                continue
            if (start, wanted) not in known:
                others = [rank for rank in self._members[int(box)] if rank != source]
                near = {
                    rank: self.boxes.inside(int(self.gpus[rank])).get(start, THROUGH_CPU_PS)
                    for rank in others
                    if not wanted.isdisjoint(self._rails(int(self.gpus[rank]), "out"))
                    and self._fast(start, int(self.gpus[rank]))
                }
                known[start, wanted] = [rank for rank in near if near[rank] == min(near.values())]
            if by := known[start, wanted]:
                found[source, target] = by[target % len(by)]
        return found

    @cached_property
    def _members(self) -> dict[int, list[int]]:
        """The ranks in each box."""
        found: dict[int, list[int]] = defaultdict(list)
        for rank, box in enumerate(self.boxes.of[self.gpus].tolist()):
            found[box].append(rank)
        return found

    def _rails(self, gpu: int, way: str) -> frozenset[int]:
        """Return the switches that the NICs of a GPU are joined with."""
        nics = self.boxes.nics(gpu, way)
        return frozenset(chain.nodes[-1] for one in nics for chain in self.chains(one.nic, way))

    def _fast(self, start: int, end: int) -> bool:
        """Return whether a GPU reaches another one over NVLink or xGMI, not over its host."""
        inside = self.boxes.inside(end)
        if inside.get(start, THROUGH_CPU_PS) >= THROUGH_CPU_PS:
            return False
        hops = NextHops(self.outgoing, self.nowhere, end, inside)
        return all(self._family(self.bundles.lanes_of((start, to))[0]) in _FAST for to in hops[start])

    @cached_property
    def _network(self) -> Incoming:
        """The links outside boxes, without those of their NICs."""
        return self.bundles.among(self.boxes.outside)

    @cached_property
    def _passes_on(self) -> np.ndarray:
        """Whether each node belongs to the network, and is no GPU."""
        found = self.boxes.outside.copy()
        found[self.gpus] = False
        return found

    @cached_property
    def nowhere(self) -> np.ndarray:
        """Costs of nodes none of which has a route."""
        return np.full(len(self.graph), -1, np.int64)

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
                ranks = some([f"{rank} ({self.graph.name(int(self.gpus[rank]))})" for rank in cut])
                down = some(list(self.graph.failed))
                raise NoRoute(
                    f"no route to rank{'s' * (len(cut) > 1)} {ranks}: down: {down}",
                    where=f"infrastructure {self.graph.title!r}",
                    hint="leave these ranks out, or bring one of the links up",
                )
            raise NoRoute(
                f"no route from {self.graph.name(start)} (rank {source}) "
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


def some(names: list[str]) -> str:
    """Write names, the first few of many."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
