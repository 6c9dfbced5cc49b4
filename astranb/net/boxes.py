"""Boxes of GPUs, and the NICs by which these leave them, as NCCL assigns them.

A GPU sends and receives by the NICs of its box that are fastest, of these by those to which its path is the
shortest: over PCIe switches before a host bridge, before another GPU, before the link between sockets. GPUs
with the same nearest NICs share them out (NCCL, ``src/graph/topo.cc``: ``ncclTopoGetLocalNet``). What lies
beyond the NIC does not matter.

A **box** is what is joined without NICs, and has GPUs and NICs; it is not a box if one of its NICs is
another's, too.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astranb.core.arrays import connected, offsets
from astranb.infragraph import NodeGraph, NodeKind

from .nearest import Incoming, Outgoing, costs_to

__all__ = [
    "BETWEEN_CPUS_PS",
    "THROUGH_CPU_PS",
    "THROUGH_GPU_PS",
    "Boxes",
    "Leaving",
    "host_tolls",
    "incoming",
    "joins_cpus",
]

_Ints = NDArray[np.int64]

THROUGH_CPU_PS: Final = 10**8
"""Additional cost of passing through a host's CPU: more than that of any number of PCIe switches."""

THROUGH_GPU_PS: Final = 10**9
"""Additional cost of passing through a GPU: used only without another route (rings, tori)."""

BETWEEN_CPUS_PS: Final = 10**12
"""Additional cost of a link between the CPUs of a host: the last resort."""


def joins_cpus(graph: NodeGraph, gpus: _Ints, source: _Ints, target: _Ints) -> NDArray[np.bool_]:
    """Find the links between two CPUs of a host (UPI, xGMI)."""
    host = _host_cpus(graph, gpus)
    found: NDArray[np.bool_] = host[source] & host[target]
    return found


def host_tolls(graph: NodeGraph, gpus: _Ints, source: _Ints, target: _Ints) -> _Ints:
    """Return the additional cost of links that lead through a host's CPU, and of those between two."""
    through = _host_cpus(graph, gpus)[target] * np.int64(THROUGH_CPU_PS)
    tolls: _Ints = through + joins_cpus(graph, gpus, source, target) * np.int64(BETWEEN_CPUS_PS)
    return tolls


def _host_cpus(graph: NodeGraph, gpus: _Ints) -> NDArray[np.bool_]:
    """Mark the CPUs of instances with GPUs: the ASIC of a switch may be typed CPU, too."""
    found: NDArray[np.bool_] = (graph.nodes.kind == NodeKind.CPU) & np.isin(
        graph.nodes.instance, graph.nodes.instance[gpus]
    )
    return found


def incoming(nodes: int, source: _Ints, target: _Ints, price: _Ints, gpus: _Ints) -> Incoming:
    """Sort links by the nodes to which they lead."""
    order = np.lexsort((price, source, target))
    ranked = np.zeros(nodes, np.int64)
    ranked[gpus] = 1
    return Incoming(offsets(target, nodes), source[order], price[order], ranked)


class Leaving(NamedTuple):
    """A NIC by which a GPU leaves its box, or comes into it.

    Attributes
    ----------
    nic : int
    cost : dict of int to int
        Of each node on the way between the two, from there to the end of the way.
    """

    nic: int
    cost: dict[int, int]


class _InsideOfBox:
    """The inside of boxes that are alike; nodes are numbered from the first of a box.

    Parameters
    ----------
    links : ndarray of int64, shape (3, links)
        Source, target and price of each.
    gpus, nics : ndarray of int64
    rates_Bps : ndarray of int64, shape (2, nics)
        Of their links to the network and from it; 0 where there is none.
    """

    def __init__(self, links: _Ints, gpus: _Ints, nics: _Ints, rates_Bps: _Ints) -> None:  # noqa: N803 - unit in the name
        self._links, self._gpus = links, gpus
        self._rates = {
            way: {int(nic): int(rate) for nic, rate in zip(nics, rates, strict=True) if rate > 0}
            for way, rates in zip(("out", "into"), rates_Bps, strict=True)
        }
        self._nodes = 1 + int(max(links[:2].max(initial=0), gpus.max(), nics.max()))
        self._is_nic = np.zeros(self._nodes, bool)
        self._is_nic[nics] = True
        self._costs: dict[int, _Ints] = {}
        self._leaving: dict[tuple[int, str], list[tuple[int, dict[int, int]]]] = {}

    def costs_to(self, end: int) -> _Ints:
        """Return the cost of every node to a GPU or NIC within the box; no NIC forwards anything."""
        if end not in self._costs:
            source, target, price = self._links[:, ~self._is_nic[self._links[1]] | (self._links[1] == end)]
            links = incoming(self._nodes, source, target, price, self._gpus)
            self._costs[end] = costs_to(links, end, set(range(self._nodes)), THROUGH_GPU_PS)
        return self._costs[end]

    def leaving(self, gpu: int, way: str) -> list[tuple[int, dict[int, int]]]:
        """Return the NICs of a GPU, each with the nodes between them and their costs."""
        if (gpu, way) not in self._leaving:
            self._leaving[gpu, way] = [
                (nic, self._between(gpu, nic) if way == "out" else self._between(nic, gpu))
                for nic in self._assigned[way][gpu]
            ]
        return self._leaving[gpu, way]

    @cached_property
    def _assigned(self) -> dict[str, dict[int, list[int]]]:
        """The NICs of each GPU, to send by and to receive by."""
        return {way: self._assign(rates, way) for way, rates in self._rates.items()}

    def _assign(self, rates: dict[int, int], way: str) -> dict[int, list[int]]:
        nearest: dict[int, tuple[int, ...]] = {}
        for gpu in self._gpus.tolist():
            far = {
                nic: int(self.costs_to(nic)[gpu] if way == "out" else self.costs_to(gpu)[nic])
                for nic in rates
            }
            reached = [(-rates[nic], cost) for nic, cost in far.items() if cost >= 0]
            best = min(reached, default=None)
            nearest[gpu] = tuple(nic for nic, cost in far.items() if (-rates[nic], cost) == best)
        shared: dict[tuple[int, ...], list[int]] = {}
        for gpu, nics in nearest.items():
            shared.setdefault(nics, []).append(gpu)
        return {
            gpu: list(_part(nics, place, len(gpus)))
            for nics, gpus in shared.items()
            for place, gpu in enumerate(gpus)
        }

    def _between(self, start: int, end: int) -> dict[int, int]:
        """Return the cost of the nodes on all ways of least cost."""
        cost = self.costs_to(end)
        source, target, price = self._links
        toll = np.where(np.isin(target, self._gpus) & (target != end), THROUGH_GPU_PS, 0)
        good = (cost[target] >= 0) & (cost[target] + price + toll == cost[source])
        good &= ~self._is_nic[target] | (target == end)
        found, left = {start: int(cost[start])}, [start]
        while left:
            for node in target[good & (source == left.pop())].tolist():
                if node not in found:
                    found[node] = int(cost[node])
                    left.append(node)
        return found


def _part(nics: tuple[int, ...], place: int, count: int) -> tuple[int, ...]:
    """Return the NICs of one of several GPUs that are equally near to all of them."""
    if not nics or len(nics) >= count:
        return nics[len(nics) * place // count : len(nics) * (place + 1) // count]
    return (nics[place % len(nics)],)


class Boxes:
    """The boxes of a fabric.

    Parameters
    ----------
    graph : NodeGraph
    gpus : ndarray of int64
        Node of each rank.
    links : Outgoing
        The open links.
    rate_Bps : ndarray of int64
        Of each link.

    Attributes
    ----------
    of : ndarray of int64, shape (nodes,)
        The box of each node of a host; -1 of others, and of NICs.
    outside : ndarray of bool, shape (nodes,)
        Whether a node belongs to the network: neither to a box nor to its NICs.
    """

    def __init__(self, graph: NodeGraph, gpus: _Ints, links: Outgoing, rate_Bps: _Ints) -> None:  # noqa: N803 - unit in the name
        nodes, nic = len(graph), graph.nodes.kind == NodeKind.NIC
        source, target = links.source, links.target
        within = ~(nic[source] | nic[target])
        label = connected(nodes, source[within], target[within])
        has_gpu = np.zeros(nodes, bool)
        has_gpu[label[gpus]] = True
        self.of = np.where(has_gpu[label] & ~nic, label, -1)
        hosts = nic[source] & (self.of[target] >= 0)
        least, most = np.full(nodes, nodes), np.full(nodes, -1)
        np.minimum.at(least, source[hosts], self.of[target[hosts]])
        np.maximum.at(most, source[hosts], self.of[target[hosts]])
        several = hosts & (least != most)[source]
        self.of[np.isin(self.of, self.of[target[several]])] = -1
        owner = np.where(nic & (least == most) & np.isin(most, self.of), most, -1)
        self.of[~np.isin(self.of, owner[owner >= 0])] = -1
        self.outside = (self.of < 0) & (owner < 0)
        self._owner, self._gpus, self._links = owner, gpus, links
        leaves = (owner[source] >= 0) & self.outside[target]
        enters = (owner[target] >= 0) & self.outside[source]
        rates = np.zeros((2, nodes), np.int64)
        np.add.at(rates[0], source[leaves], rate_Bps[leaves])
        np.add.at(rates[1], target[enters], rate_Bps[enters])
        self._rates_Bps = rates
        self._alike: dict[bytes, _InsideOfBox] = {}
        self._nics: dict[tuple[int, str], list[Leaving]] = {}
        self._inside: dict[int, dict[int, int]] = {}

    @cached_property
    def _layouts(self) -> dict[int, tuple[int, _InsideOfBox]]:
        """The first node of each box, and its inside; boxes that are alike share it."""
        source, target = self._links.source, self._links.target
        box_of = np.maximum(self.of, self._owner)
        rows = np.flatnonzero((box_of[source] >= 0) & (box_of[source] == box_of[target]))
        rows = rows[np.argsort(box_of[source[rows]], kind="stable")]
        links = np.stack([source[rows], target[rows], self._links.price[rows]])
        inside = _grouped(box_of[source[rows]])
        gpus = self._gpus[self.of[self._gpus] >= 0]
        gpus = gpus[np.argsort(self.of[gpus], kind="stable")]
        of_box = _grouped(self.of[gpus])
        nics = np.flatnonzero(self._owner >= 0)
        nics = nics[np.argsort(self._owner[nics], kind="stable")]
        owned = _grouped(self._owner[nics])
        found = {}
        for box, (first, last) in of_box.items():
            mine, own = gpus[first:last], nics[slice(*owned[box])]
            each = links[:, slice(*inside[box])]
            base = int(min(mine.min(), own.min(), each[:2].min()))
            each = each - np.array([[base], [base], [0]])
            parts = (each, mine - base, own - base, self._rates_Bps[:, own])
            key = b"/".join(part.tobytes() for part in parts)
            if key not in self._alike:
                self._alike[key] = _InsideOfBox(*parts)
            found[box] = base, self._alike[key]
        return found

    def inside(self, gpu: int) -> dict[int, int]:
        """Return the cost of all nodes of its box to a GPU; those that do not reach it are left out."""
        if gpu not in self._inside:
            base, layout = self._layouts[int(self.of[gpu])]
            cost = layout.costs_to(gpu - base)
            nodes = np.flatnonzero(cost >= 0)
            nodes = nodes[self.of[nodes + base] >= 0]
            self._inside[gpu] = dict(zip((nodes + base).tolist(), cost[nodes].tolist(), strict=True))
        return self._inside[gpu]

    def nics(self, gpu: int, way: str) -> list[Leaving]:
        """Return the NICs that a GPU sends by (``"out"``) or receives by (``"into"``)."""
        key = gpu, way
        if key not in self._nics:
            found: list[Leaving] = []
            if self.of[gpu] >= 0:
                base, layout = self._layouts[int(self.of[gpu])]
                for nic, cost in layout.leaving(gpu - base, way):
                    found.append(Leaving(nic + base, {node + base: far for node, far in cost.items()}))
            self._nics[key] = found
        return self._nics[key]


def _grouped(sorted_labels: _Ints) -> dict[int, tuple[int, int]]:
    """Return where each label begins and ends."""
    starts = np.flatnonzero(np.concatenate([[True], sorted_labels[1:] != sorted_labels[:-1]]))
    if not len(sorted_labels):
        return {}
    ends = np.append(starts[1:], len(sorted_labels))
    labels = sorted_labels[starts].tolist()
    return dict(zip(labels, zip(starts.tolist(), ends.tolist(), strict=True), strict=True))
