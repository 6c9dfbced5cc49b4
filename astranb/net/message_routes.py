"""Routes of whole messages over an infrastructure, and the links that they use.

Parallel lanes between two nodes form one link with their total bandwidth. Equal-cost routes that
split and join at the same nodes (the planes of NVLink switches, the spines of a Clos) form one route
with their total bandwidth: a message is spread over them, as packets are. Elsewhere (a torus) each
message takes one of them, chosen by its tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

Ports = dict[int, dict[int, int]]
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
    sends, receives : dict of int to dict of int to int
        Of each rank the links that are its ports, with their numbers.
    """

    routes: Records
    hops: np.ndarray
    wires: Records
    lanes: list[list[int]]
    sends: Ports
    receives: Ports


def message_routes(
    fabric: Fabric, pairs: Iterable[tuple[int, int]], npus: int, known: MessageRoutes | None = None
) -> MessageRoutes:
    """Find the routes of pairs of ranks.

    Parameters
    ----------
    fabric : Fabric
    pairs : iterable of (int, int)
        Sources and targets.
    npus : int
    known : MessageRoutes, optional
        Of the same fabric when other lanes were closed: links and ports of the same lanes keep their
        numbers, new hops and wires come behind those known; pairs without a route are left out.

    Returns
    -------
    MessageRoutes

    Raises
    ------
    InputError
        A pair has no route, and nothing is known.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> from astranb.net import compile_fabric
    >>> fabric = compile_fabric(blueprint("ring:gpus=4").expand())
    >>> found = message_routes(fabric, [(0, 1), (0, 2)], 4)
    >>> found.routes.hops.tolist(), found.routes["count"].tolist()
    ([1, 2, 2], [1, 2, 1])
    """
    partial = known is not None
    spread, single, cost = _found(fabric, pairs, partial=partial)
    if fabric.closed or fabric.graph.failed:
        spread, single = _narrowed(fabric, spread, single, cost)
    while conflicts := _conflicts(spread, single):
        for pair in conflicts:
            steps = _steps(spread.pop(pair), fabric.bundles)
            single[pair] = _single(steps, int(fabric.gpus[pair[0]]), int(fabric.gpus[pair[1]]))
    chosen: dict[tuple[int, int], Sequence[Sequence[_Stage]]] = {}
    chosen |= {
        pair: [spread[pair]] if pair in spread else single[pair] for pair in sorted([*spread, *single])
    }
    return _tables(fabric, chosen, npus, known)


_Spread = dict[tuple[int, int], Sequence[_Stage]]
_Single = dict[tuple[int, int], Sequence[Sequence[_Stage]]]


def _found(
    fabric: Fabric, pairs: Iterable[tuple[int, int]], *, partial: bool
) -> tuple[_Spread, _Single, dict[tuple[int, int], int]]:
    """Find what pairs are spread over, the routes of those that are not, and the cost of each."""
    stages: dict[_Stage, _Stage] = {}
    spread: _Spread = {}
    single: _Single = {}
    cost: dict[tuple[int, int], int] = {}
    to_one: _ToOne | None = None
    for pair, next_hops in fabric.next_hops(pairs, partial=partial):
        start, end = int(fabric.gpus[pair[0]]), int(fabric.gpus[pair[1]])
        cost[pair] = next_hops.cost[start]
        if to_one is None or to_one.next_hops is not next_hops:
            to_one = _ToOne(next_hops, end, stages)
        layers = to_one.layers(start)
        if layers is None:
            single[pair] = _single(next_hops, start, end)
        else:
            spread[pair] = layers
    return spread, single, cost


def _narrowed(
    fabric: Fabric, spread: _Spread, single: _Single, cost: dict[tuple[int, int], int]
) -> tuple[_Spread, _Single]:
    """Leave out planes that a failure has left to some pairs only, where all have other routes as short.

    A message is spread over planes as packets are, so that it must not take one of them alone instead.
    """
    now, routes, narrower = spread, single, fabric
    while uneven := _uneven(now, routes):
        lanes = {lane for edge in uneven for lane in fabric.bundles[edge]}
        narrower = narrower.without(narrower.closed | lanes)
        now, routes, costs = _found(narrower, cost, partial=True)
        if costs != cost:
            return spread, single
    return now, routes


def _uneven(spread: _Spread, single: _Single) -> set[_Edge]:
    """Find the links that some, but not all, of the routes that overlap are spread over."""
    return {edge for one, other in _overlaps(spread, single) for edge in one ^ other}


def _overlaps(spread: _Spread, single: _Single) -> Iterator[tuple[_Stage, _Stage]]:
    """Yield pairs of different sets of links that have a link in common."""
    used = {stage for layers in spread.values() for stage in layers}
    used |= {stage for routes in single.values() for route in routes for stage in route}
    owner: dict[_Edge, _Stage] = {}
    for stage in used:
        for edge in stage:
            if owner.setdefault(edge, stage) != stage:
                yield stage, owner[edge]


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


def _conflicts(spread: _Spread, single: _Single) -> list[tuple[int, int]]:
    """Find pairs that are spread over links which another pair uses in a different set."""
    conflicting = {stage for both in _overlaps(spread, single) for stage in both}
    return [pair for pair, layers in spread.items() if any(len(s) > 1 and s in conflicting for s in layers)]


def _tables(
    fabric: Fabric,
    chosen: dict[tuple[int, int], Sequence[Sequence[_Stage]]],
    npus: int,
    known: MessageRoutes | None,
) -> MessageRoutes:
    """Number the links and make the tables."""
    own = [] if known is None else list(known.lanes)
    of_lanes = {tuple(lanes): number for number, lanes in enumerate(own)}
    numbers: dict[_Stage, int] = {}
    for found in chosen.values():
        for route in found:
            for stage in route:
                if stage in numbers:
                    continue
                lanes = [lane for edge in sorted(stage) for lane in fabric.bundles[edge]]
                numbers[stage] = of_lanes.setdefault(tuple(lanes), len(own))
                if numbers[stage] == len(own):
                    own.append(lanes)
    fast, far, slow = (fabric.links[name].tolist() for name in ("bandwidth_Bps", "latency_ps", "forward_ps"))
    slots = fabric.links["gap_ps"].tolist()
    rate = [sum(fast[lane] for lane in each) / 1e9 for each in own]
    latency = [max(far[lane] + slow[lane] for lane in each) / 1000 for each in own]
    # Parallel NICs send at the sum of their packet rates.
    gap = [_together([slots[lane] for lane in each]) for each in own]
    wires = allocate(max(len(own), 1), WIRE)
    wires.rate_Bpns[: len(own)], wires.latency_ns[: len(own)] = rate, latency
    wires.gap_ns[: len(own)] = gap
    rows: list[tuple[float, ...]] = []
    hops: list[int] = [] if known is None else known.hops.tolist()
    sends = _Ports(own, {} if known is None else known.sends)
    receives = _Ports(own, {} if known is None else known.receives)
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
    return MessageRoutes(routes, np.array(hops, np.int64), wires, own, sends.numbers, receives.numbers)


class _Ports:
    """Numbers of links that are ports of their ranks, in the order in which they are asked for.

    A link that has some of the lanes of a known one is the same port.
    """

    def __init__(self, lanes: Sequence[Sequence[int]], known: Ports) -> None:
        self._lanes = lanes
        self.numbers: Ports = {rank: dict(mine) for rank, mine in known.items()}

    def _number(self, mine: dict[int, int], link: int) -> int:
        if link not in mine:
            lanes = set(self._lanes[link])
            same = (port for other, port in mine.items() if not lanes.isdisjoint(self._lanes[other]))
            mine[link] = next(same, max(mine.values(), default=-1) + 1)
        return mine[link]

    def two(self, rank: int, end: int, narrow: int) -> tuple[int, int]:
        """Return the ports of a route's end and of its narrowest link; -1 where that is the same."""
        mine = self.numbers.setdefault(rank, {})
        port = self._number(mine, end)
        return port, -1 if narrow == end else self._number(mine, narrow)


def _together(gap_ps: list[int]) -> float:
    """Return the least time between packets of parallel NICs, in ns; 0 for no limit."""
    if 0 in gap_ps:
        return 0.0
    if len(set(gap_ps)) == 1:
        return gap_ps[0] / len(gap_ps) / 1000
    return 1 / sum(1000 / one for one in gap_ps)
