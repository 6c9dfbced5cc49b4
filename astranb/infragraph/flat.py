"""An infrastructure as packet simulators know one: hosts, switches, and links between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astranb.core.arrays import connected
from astranb.core.plural import plural

from .graph import NodeGraph
from .plan import NodeKind

__all__ = ["FlatLink", "FlatNetwork", "fabric_of", "flattened"]

I64 = NDArray[np.int64]

_PASSIVE: Final = (NodeKind.PORT, NodeKind.NIC, NodeKind.CUSTOM, NodeKind.MEMORY)
"""Kinds of nodes that, with two links, are a part of the link through them."""


class FlatLink(NamedTuple):
    """A link in both directions.

    Attributes
    ----------
    a, b : int
        Hosts are numbered from 0, as ranks are; switches follow.
    bandwidth_Bps : int
        In each direction, of all lanes.
    latency_ps : int
    lanes : int
    """

    a: int
    b: int
    bandwidth_Bps: int  # noqa: N815 - unit in the name
    latency_ps: int
    lanes: int = 1


@dataclass(frozen=True)
class FlatNetwork:
    """Hosts, which are GPUs, and switches with the links between them.

    Attributes
    ----------
    title : str
    names : tuple of str
        Hosts first, in the order of ranks.
    hosts : int
    forward_ps : tuple of int
        What each node takes to forward; of hosts 0.
    links : tuple of FlatLink
    remarks : tuple of str
        What of the infrastructure is not, or not exactly, in it.

    Examples
    --------
    >>> pair = FlatNetwork("pair", ("0", "1", "switch"), 2, (0, 0, 100_000),
    ...                    (FlatLink(0, 2, 25 * 10**9, 150_000), FlatLink(1, 2, 25 * 10**9, 150_000)))
    >>> [link.latency_ps for link in pair.latency_in_links().links]
    [200000, 200000]
    """

    title: str
    names: tuple[str, ...]
    hosts: int
    forward_ps: tuple[int, ...]
    links: tuple[FlatLink, ...]
    remarks: tuple[str, ...] = ()

    @property
    def switches(self) -> int:
        """The number of switches."""
        return len(self.names) - self.hosts

    def merged(self) -> FlatNetwork:
        """Join parallel links to one of their bandwidth; the latency is the largest."""
        pairs: dict[tuple[int, int], FlatLink] = {}
        for link in self.links:
            key = (min(link.a, link.b), max(link.a, link.b))
            have = pairs.get(key)
            pairs[key] = link if have is None else FlatLink(
                have.a, have.b, have.bandwidth_Bps + link.bandwidth_Bps,
                max(have.latency_ps, link.latency_ps), have.lanes + link.lanes,
            )  # fmt: skip
        several = sum(link.lanes > 1 for link in pairs.values())
        remarks = self.remarks
        if several:
            remarks += (f"{several:,} of {len(pairs):,} links have several lanes: one of their bandwidth",)
        return replace(self, links=tuple(pairs.values()), remarks=remarks)

    def latency_in_links(self) -> FlatNetwork:
        """Add the forwarding latency of switches to links: half of it to each of a switch's links."""
        if not any(self.forward_ps):
            return self
        links = tuple(
            link._replace(
                latency_ps=link.latency_ps + (self.forward_ps[link.a] + self.forward_ps[link.b]) // 2
            )
            for link in self.links
        )
        count = sum(ps > 0 for ps in self.forward_ps)
        remark = f"the latency of switches ({count:,}): half of it is in each of their links"
        none = (0,) * len(self.names)
        return replace(self, forward_ps=none, links=links, remarks=(*self.remarks, remark))

    def with_routers(self) -> FlatNetwork:
        """Return a network in which hosts with links to hosts have a switch each, as hosts forward nothing.

        Nothing changes where all hosts have links to all others, or none has one to another.
        """
        direct = {frozenset((k.a, k.b)) for k in self.links if k.a < self.hosts and k.b < self.hosts}
        if len(direct) in (0, self.hosts * (self.hosts - 1) // 2):
            return self
        made = self._given_routers(sorted({host for pair in direct for host in pair}))
        count = made.switches - self.switches
        remark = f"{plural(count, 'GPU')} with links to other GPUs: a switch each, which forwards for them"
        return replace(made, remarks=(*made.remarks, remark))

    def every_router(self) -> FlatNetwork:
        """Return a network in which each host has a switch of its own, as where hosts have one link."""
        return self._given_routers(list(range(self.hosts)))

    def _given_routers(self, hosts: list[int]) -> FlatNetwork:
        router = {host: len(self.names) + n for n, host in enumerate(hosts)}
        links, inside = [], dict.fromkeys(hosts, 0)
        for link in self.links:
            for end in {link.a, link.b} & inside.keys():
                inside[end] += link.bandwidth_Bps
            links.append(link._replace(a=router.get(link.a, link.a), b=router.get(link.b, link.b)))
        links += [FlatLink(host, router[host], max(rate, 1), 0) for host, rate in inside.items()]
        names = (*self.names, *(f"router of {self.names[host]}" for host in hosts))
        forward = (*self.forward_ps, *(0 for _ in hosts))
        return replace(self, names=names, forward_ps=forward, links=tuple(links))


class _Edges:
    """Links that can be joined and removed, by number, with the links of each node."""

    def __init__(self, graph: NodeGraph, kept: I64) -> None:
        rates = np.minimum(*graph.edges["bandwidth_Bps"]) * graph.edges.lanes
        columns = (graph.edges.a, graph.edges.b, rates, graph.edges["latency_ps"][0], graph.edges.lanes)
        self.links: dict[int, FlatLink] = {
            number: FlatLink(*row)
            for number, row in zip(
                kept.tolist(), zip(*(c[kept].tolist() for c in columns), strict=True), strict=True
            )
        }
        self.of: list[set[int]] = [set() for _ in range(len(graph))]
        for number, link in self.links.items():
            self.of[link.a].add(number)
            self.of[link.b].add(number)

    def remove(self, number: int) -> tuple[int, int]:
        link = self.links.pop(number)
        self.of[link.a].discard(number)
        self.of[link.b].discard(number)
        return link.a, link.b

    def join(self, node: int, forward_ps: int) -> None:
        """Make one link of the two of a node."""
        first, second = sorted(self.of[node])
        one, other = self.links[first], self.links[second]
        a = one.b if one.a == node else one.a
        b = other.b if other.a == node else other.a
        self.remove(first)
        self.remove(second)
        lanes = one.lanes if one.lanes == other.lanes else 1
        rate = min(one.bandwidth_Bps, other.bandwidth_Bps)
        self.links[first] = FlatLink(a, b, rate, one.latency_ps + forward_ps + other.latency_ps, lanes)
        self.of[a].add(first)
        self.of[b].add(first)


def flattened(graph: NodeGraph, *, without: I64 | None = None) -> FlatNetwork:
    """Make a flat network of an infrastructure.

    Ports, NICs and slots with two links become a part of one link with the smaller bandwidth and both
    latencies; nodes at the end of a single link that are no GPUs are left out.

    Parameters
    ----------
    graph : NodeGraph
    without : ndarray of int64, optional
        Edges that are left out.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> network = flattened(blueprint("single-tier:servers=2").expand())
    >>> network.hosts, network.switches, min(link.bandwidth_Bps for link in network.links)
    (16, 11, 50000000000)
    """
    kept = (
        np.arange(len(graph.edges.a))
        if without is None
        else np.setdiff1d(np.arange(len(graph.edges.a)), without)
    )
    kept, through_cpus = _past_cpus(graph, kept)
    edges = _Edges(graph, kept)
    gpus = set(graph.gpus.tolist())
    with_gpu = set(graph.nodes.instance[graph.gpus].tolist())
    kind, instance, forward = (
        graph.nodes.kind.tolist(),
        graph.nodes.instance.tolist(),
        graph.nodes.forward_ps.tolist(),
    )
    removed, joined = 0, 0
    waiting = [node for node in range(len(graph)) if node not in gpus and len(edges.of[node]) <= 2]
    gone: set[int] = set()
    while waiting:
        node = waiting.pop()
        numbers = edges.of[node]
        if node in gone or node in gpus or len(numbers) > 2:
            continue
        passive = kind[node] in _PASSIVE or (kind[node] == NodeKind.CPU and instance[node] in with_gpu)
        others = {edges.links[n].a + edges.links[n].b - node for n in numbers}
        if len(others) < 2:
            for number in list(numbers):
                edges.remove(number)
            removed += 1
        elif passive:
            edges.join(node, forward[node])
            joined += 1
        else:
            continue
        gone.add(node)
        waiting += others
    switches = [n for n in range(len(graph)) if n not in gpus and n not in gone]
    order = [*graph.gpus.tolist(), *switches]
    place = {node: number for number, node in enumerate(order)}
    differ = int(np.not_equal(*graph.edges["bandwidth_Bps"])[kept].sum())
    remarks = [
        f"part of a link: {plural(joined, 'node')} (port, NIC, slot or CPU) with two links" if joined else "",
        f"left out: {plural(removed, 'node')} at the end of one link, between no GPUs" if removed else "",
        f"{plural(differ, 'link')} with two bandwidths: the smaller one" if differ else "",
        f"left out: {plural(through_cpus, 'link')} of hosts' CPUs, which no GPU needs"
        if through_cpus
        else "",
    ]
    return FlatNetwork(
        graph.title,
        tuple(graph.name(node) for node in order),
        len(gpus),
        tuple(0 if node in gpus else forward[node] for node in order),
        tuple(link._replace(a=place[link.a], b=place[link.b]) for link in edges.links.values()),
        tuple(filter(None, remarks)),
    )


def _past_cpus(graph: NodeGraph, kept: I64) -> tuple[I64, int]:
    """Leave out links of hosts' CPUs where GPUs have other ways: packet simulators take the fewest hops.

    All of them, or those between two CPUs, if a part of the network then still has links to all GPUs.
    """
    host = (graph.nodes.kind == NodeKind.CPU) & np.isin(
        graph.nodes.instance, graph.nodes.instance[graph.gpus]
    )
    ends = host[graph.edges.a[kept]].astype(np.int64) + host[graph.edges.b[kept]]
    if not ends.any() or not _joins_all(graph, kept):
        return kept, 0
    for most in (1, 2):
        fewer = kept[ends < most]
        if len(fewer) < len(kept) and _joins_all(graph, fewer):
            return fewer, len(kept) - len(fewer)
    return kept, 0


def _joins_all(graph: NodeGraph, kept: I64) -> bool:
    """Return whether switches that some links join have links to all GPUs, which forward nothing."""
    gpu = np.zeros(len(graph), bool)
    gpu[graph.gpus] = True
    a, b = graph.edges.a[kept], graph.edges.b[kept]
    inside = ~(gpu[a] | gpu[b])
    label = connected(len(graph), a[inside], b[inside])
    ends = np.concatenate([np.stack([a, b]), np.stack([b, a])], axis=1)
    ends = ends[:, gpu[ends[0]] & ~gpu[ends[1]]]
    pairs = np.unique(np.stack([label[ends[1]], ends[0]]), axis=1)
    return bool((np.bincount(pairs[0], minlength=1) == len(graph.gpus)).any())


def fabric_of(graph: NodeGraph) -> FlatNetwork:
    """Make a flat network of the links between servers only: each GPU reaches them by its nearest NIC.

    Where no server has links to the outside it is the same as :func:`flattened`.
    """
    instance = graph.nodes.instance
    with_gpu = np.zeros(int(instance.max(initial=-1)) + 1, bool)
    with_gpu[instance[graph.gpus]] = True
    inside = with_gpu[instance[graph.edges.a]] & (instance[graph.edges.a] == instance[graph.edges.b])
    if inside.all() or not inside.any():
        return flattened(graph)
    near: dict[int, list[tuple[int, int]]] = {}
    for number in np.flatnonzero(inside).tolist():
        a, b = int(graph.edges.a[number]), int(graph.edges.b[number])
        near.setdefault(a, []).append((b, number))
        near.setdefault(b, []).append((a, number))
    outside = set(graph.edges.a[~inside].tolist()) | set(graph.edges.b[~inside].tolist())
    needed: set[int] = set()
    taken: dict[int, int] = {}  # how many GPUs have each node with links to the outside
    for gpu in graph.gpus.tolist():
        needed |= _edges_out(gpu, near, outside, taken)
    left = np.array([n for n in np.flatnonzero(inside).tolist() if n not in needed], np.int64)
    network = flattened(graph, without=left)
    remark = f"left out: {plural(len(left), 'link')} inside servers (NVLink, PCIe); hosts have one link"
    return replace(network, remarks=(*network.remarks, remark))


def _edges_out(
    gpu: int, near: dict[int, list[tuple[int, int]]], outside: set[int], taken: dict[int, int]
) -> set[int]:
    """Find the edges from a GPU to the nearest node of its server with links to the outside.

    Of several that are equally near, it is one that the fewest GPUs have.
    """
    before: dict[int, tuple[int, int]] = {gpu: (-1, -1)}
    front = [gpu]
    while front:
        if found := [node for node in front if node in outside]:
            at = min(found, key=lambda node: taken.get(node, 0))
            taken[at] = taken.get(at, 0) + 1
            edges = set()
            while at != gpu:
                at, number = before[at]
                edges.add(number)
            return edges
        following: list[int] = []
        for node in front:
            for other, number in near.get(node, ()):
                if other not in before:
                    before[other] = (node, number)
                    following.append(other)
        front = following
    return set()
