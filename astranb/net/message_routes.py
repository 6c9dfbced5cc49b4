"""Routes of whole messages over an infrastructure, and the links that they use.

Parallel lanes between two nodes form one link with their total bandwidth. Equal-cost routes that
split and join at the same nodes (the planes of NVLink switches, the spines of a Clos) form one route
with their total bandwidth: a message is spread over them, as packets are. Elsewhere (a torus) each
message takes one of them, chosen by its tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

import numpy as np

from astranb.core.jit import Records
from astranb.core.state import allocate

from .astrasim2 import MESSAGE_ROUTE, WIRE
from .fabric import Fabric, NextHops

__all__ = ["MessageRoutes", "message_routes"]

_MOST_ROUTES: Final = 16
"""Number of equal-cost routes in use where a message takes one of them."""

_Edge = tuple[int, int]
_Stage = frozenset[_Edge]


class _Steps(Protocol):
    """The next nodes of each node."""

    def __getitem__(self, node: int) -> list[int]: ...


@dataclass(frozen=True)
class MessageRoutes:
    """Links and routes as tables.

    Parameters
    ----------
    routes : recarray of MESSAGE_ROUTE
        By source and target.
    hops : ndarray of int64
        Links of the routes, one route after the other.
    wires : recarray of WIRE
        The links.
    lanes : list of list of int
        The lanes of each link.
    """

    routes: Records
    hops: np.ndarray
    wires: Records
    lanes: list[list[int]]


def message_routes(fabric: Fabric, pairs: Iterable[tuple[int, int]], npus: int) -> MessageRoutes:
    """Find the routes of pairs of ranks.

    Parameters
    ----------
    fabric : Fabric
    pairs : iterable of (int, int)
        Sources and targets.
    npus : int

    Returns
    -------
    MessageRoutes

    Raises
    ------
    InputError
        A pair has no route.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> from astranb.net import compile_fabric
    >>> fabric = compile_fabric(blueprint("ring:gpus=4").expand())
    >>> found = message_routes(fabric, [(0, 1), (0, 2)], 4)
    >>> found.routes.hops.tolist(), found.routes["count"].tolist()
    ([1, 2, 2], [1, 2, 1])
    """
    stages: dict[_Stage, _Stage] = {}
    spread: dict[tuple[int, int], Sequence[_Stage]] = {}
    single: dict[tuple[int, int], Sequence[Sequence[_Stage]]] = {}
    to_one: _ToOne | None = None
    for pair, next_hops in fabric.next_hops(pairs):
        start, end = int(fabric.gpus[pair[0]]), int(fabric.gpus[pair[1]])
        if to_one is None or to_one.next_hops is not next_hops:
            to_one = _ToOne(next_hops, end, stages)
        layers = to_one.layers(start)
        if layers is None:
            single[pair] = _single(next_hops, start, end)
        else:
            spread[pair] = layers
    while conflicts := _conflicts(spread, single):
        for pair in conflicts:
            steps = _steps(spread.pop(pair), fabric.bundles)
            single[pair] = _single(steps, int(fabric.gpus[pair[0]]), int(fabric.gpus[pair[1]]))
    chosen: dict[tuple[int, int], Sequence[Sequence[_Stage]]] = {}
    chosen |= {
        pair: [spread[pair]] if pair in spread else single[pair] for pair in sorted([*spread, *single])
    }
    return _tables(fabric, chosen, npus)


class _ToOne:
    """The links of all routes to one target, hop by hop; common ends of routes are found once.

    Parameters
    ----------
    next_hops : NextHops
    end : int
        The target.
    kept : dict
        Sets of links that many pairs share, over all targets.
    """

    def __init__(self, next_hops: NextHops, end: int, kept: dict[_Stage, _Stage]) -> None:
        self.next_hops = next_hops
        self._end = end
        self._kept = kept
        self._behind: dict[frozenset[int], tuple[_Stage, ...] | None] = {frozenset((end,)): ()}

    def layers(self, start: int) -> tuple[_Stage, ...] | None:
        """Return the links of all routes from a node, hop by hop; None if their lengths differ."""
        next_hops, cost, behind = self.next_hops, self.next_hops.cost, self._behind
        chain: list[tuple[frozenset[int], _Stage]] = []
        frontier = frozenset((start,))
        while frontier not in behind:
            stage = frozenset([(node, to) for node in frontier for to in next_hops[node]])
            following = frozenset([to for _, to in stage])
            if self._end in following and len(following) > 1:
                behind[frontier] = None
                break
            if min(cost[node] for node in frontier) <= max(cost[node] for node in following):
                # A node may occur again: search from the start.
                found = _layers(next_hops, start, self._end)
                return None if found is None else tuple(self._kept.setdefault(one, one) for one in found)
            chain.append((frontier, self._kept.setdefault(stage, stage)))
            frontier = following
        tail = behind[frontier]
        for nodes, stage in reversed(chain):
            tail = behind[nodes] = None if tail is None else (stage, *tail)
        return tail


def _layers(next_hops: _Steps, start: int, end: int) -> list[_Stage] | None:
    """Return the links of all routes, hop by hop; None if their lengths differ."""
    depth = {start: 0}
    layers: list[_Stage] = []
    frontier = {start}
    while frontier != {end}:
        layers.append(frozenset([(node, to) for node in frontier for to in next_hops[node]]))
        frontier = {to for _, to in layers[-1]}
        if any(depth.setdefault(node, len(layers)) != len(layers) for node in frontier):
            return None
        if end in frontier and len(frontier) > 1:
            return None
    return layers


def _steps(layers: Sequence[_Stage], lanes: dict[_Edge, list[int]]) -> dict[int, list[int]]:
    """Return the next nodes of each node from the links of all routes, in the order of the fabric."""
    steps: dict[int, list[int]] = {}
    for edge in sorted({edge for layer in layers for edge in layer}, key=lambda edge: lanes[edge][0]):
        steps.setdefault(edge[0], []).append(edge[1])
    return steps


def _single(steps: _Steps, start: int, end: int) -> list[list[_Stage]]:
    """Return some of the routes, each on its own."""
    return [[frozenset([edge]) for edge in route] for route in islice(_walk(steps, start, end), _MOST_ROUTES)]


def _walk(steps: _Steps, node: int, end: int) -> Iterable[list[_Edge]]:
    """Yield every route, in a fixed order."""
    for to in steps[node]:
        for tail in [[]] if to == end else _walk(steps, to, end):
            yield [(node, to), *tail]


def _conflicts(
    spread: dict[tuple[int, int], Sequence[_Stage]], single: dict[tuple[int, int], Sequence[Sequence[_Stage]]]
) -> list[tuple[int, int]]:
    """Find pairs that are spread over links which another pair uses in a different set."""
    used = {stage for layers in spread.values() for stage in layers}
    used |= {stage for routes in single.values() for route in routes for stage in route}
    owner: dict[_Edge, _Stage] = {}
    conflicting: set[_Stage] = set()
    for stage in used:
        for edge in stage:
            if owner.setdefault(edge, stage) != stage:
                conflicting |= {stage, owner[edge]}
    return [pair for pair, layers in spread.items() if any(len(s) > 1 and s in conflicting for s in layers)]


def _tables(
    fabric: Fabric,
    chosen: dict[tuple[int, int], Sequence[Sequence[_Stage]]],
    npus: int,
) -> MessageRoutes:
    """Number the links and make the tables."""
    numbers: dict[_Stage, int] = {}
    for found in chosen.values():
        for route in found:
            for stage in route:
                numbers.setdefault(stage, len(numbers))
    fast, far, slow = (fabric.links[name].tolist() for name in ("bandwidth_Bps", "latency_ps", "forward_ps"))
    slots = fabric.links["gap_ps"].tolist()
    own = [[lane for edge in sorted(stage) for lane in fabric.bundles[edge]] for stage in numbers]
    rate = [sum(fast[lane] for lane in each) / 1e9 for each in own]
    latency = [max(far[lane] + slow[lane] for lane in each) / 1000 for each in own]
    # Parallel NICs send at the sum of their packet rates.
    gap = [_together([slots[lane] for lane in each]) for each in own]
    wires = allocate(max(len(numbers), 1), WIRE)
    wires.rate_Bpns[: len(own)], wires.latency_ns[: len(own)] = rate, latency
    wires.gap_ns[: len(own)] = gap
    rows: list[tuple[float, ...]] = []
    hops: list[int] = []
    sends, receives = _Ports(), _Ports()
    for (source, target), found in chosen.items():
        for left, route in enumerate(found):
            numbered = [numbers[stage] for stage in route]
            whole = 0.0
            for number in numbered:  # in this order: the sum is the same in every version of Python
                whole += latency[number]
            narrowest = min(rate[number] for number in numbered)
            slowest = max(gap[number] for number in numbered)
            key = source * npus + target
            narrow = [at for at, number in enumerate(numbered) if rate[number] == narrowest]
            ends = (
                *sends.two(source, numbered[0], numbered[narrow[0]]),
                *receives.two(target, numbered[-1], numbered[narrow[-1]]),
                len(hops) + narrow[0], len(hops) + narrow[-1],
            )  # fmt: skip
            rows.append((key, len(found) - left, len(hops), len(numbered), whole, narrowest, slowest, *ends))
            hops += numbered
    routes = allocate(len(rows), MESSAGE_ROUTE)
    if rows:
        routes[:] = np.array(rows, MESSAGE_ROUTE)
    return MessageRoutes(routes, np.array(hops, np.int64), wires, own)


class _Ports:
    """Numbers of links that are ports of their ranks, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, int]] = {}

    def two(self, rank: int, end: int, narrow: int) -> tuple[int, int]:
        """Return the ports of a route's end and of its narrowest link; -1 where that is the same."""
        mine = self._known.setdefault(rank, {})
        port = mine.setdefault(end, len(mine))
        return port, -1 if narrow == end else mine.setdefault(narrow, len(mine))


def _together(gap_ps: list[int]) -> float:
    """Return the least time between packets of parallel NICs, in ns; 0 for no limit."""
    if 0 in gap_ps:
        return 0.0
    if len(set(gap_ps)) == 1:
        return gap_ps[0] / len(gap_ps) / 1000
    return 1 / sum(1000 / one for one in gap_ps)
