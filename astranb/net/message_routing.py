"""Routes of whole messages over an infrastructure, and the links that they use.

Parallel lanes between two nodes form one link with their total bandwidth. Equal-cost routes that
split and join at the same nodes (the planes of NVLink switches, the spines of a Clos) form one route
with their total bandwidth: a message is spread over them, as packets are. Elsewhere (a torus) each
message takes one of them, chosen by its tag.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise, product
from typing import Final, NamedTuple, Protocol

import numpy as np

from astranb.core.arrays import distinct, flat_lists, numbered, reduce_at
from astranb.core.jit import Records
from astranb.core.state import allocate

from .astrasim2 import MESSAGE_ROUTE, WIRE
from .fabric import Fabric
from .search import Chain, NextHops

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
    found = _found(fabric, pairs, partial=partial)
    if fabric.closed or fabric.graph.failed:
        found = _narrowed(fabric, found)
    found.take_one_where_links_overlap(fabric)
    made = _tables(fabric, found, npus, known)
    fabric.remark(np.array([lane for lanes in made.lanes for lane in lanes], np.int64))
    return made


class _Stem(NamedTuple):
    """Common part of all routes of a GPU to or from other boxes, up to a node with a choice of links."""

    end: int
    stages: tuple[_Stage, ...]
    cost: int
    nodes: frozenset[int]  # of the network, with the end


class _Piece:
    """A part of routes, from one node to another: spread over links, or some routes of which one is taken.

    Parameters
    ----------
    stages : tuple of _Stage, optional
        The links of all routes, hop by hop; None if their lengths differ.
    steps : mapping of int to list of int
        The next nodes of each.
    start, end : int
    """

    def __init__(self, stages: tuple[_Stage, ...] | None, steps: _Steps | None, start: int, end: int) -> None:
        self.stages, self._steps, self._start, self._end = stages, steps, start, end
        self._walked: list[list[_Edge]] | None = None

    def walked(self, fabric: Fabric) -> list[list[_Edge]]:
        """Return some of the routes, each on its own."""
        if self._walked is None:
            if self._start == self._end:
                return [[]]
            steps = self._steps
            if self.stages is not None:
                steps = _steps(self.stages, fabric)
            assert steps is not None  # noqa: S101 - a piece without stages has them
            self._walked = list(islice(_walk(steps, self._start, self._end), _MOST_ROUTES))
        return self._walked


@dataclass
class _Found:
    """The routes of pairs of ranks, in pieces that many of them share.

    Parameters
    ----------
    pairs : ndarray of int64, shape (pairs, 2)
    pieces : list of _Piece
    parts : ndarray of int64, shape (pairs, n)
        The pieces of each route, in their order; -1 for none.
    cost : ndarray of int64, shape (pairs,)
    """

    pairs: np.ndarray
    pieces: list[_Piece]
    parts: np.ndarray
    cost: np.ndarray

    def __post_init__(self) -> None:
        """Choose one route for messages whose routes differ in length."""
        self._single: dict[int, list[tuple[_Stage, ...]]] = {}
        self._kept: dict[_Edge, _Stage] = {}

    @cached_property
    def _uneven(self) -> np.ndarray:
        """The rows of pairs with routes of several lengths."""
        return self._rows_with(np.array([piece.stages is None for piece in self.pieces] or [False]))

    def _rows_with(self, marked: np.ndarray) -> np.ndarray:
        """Return the rows of pairs that have a marked piece."""
        return np.flatnonzero((marked[self.parts] & (self.parts >= 0)).any(axis=1))

    def singles(self, fabric: Fabric) -> dict[int, list[tuple[_Stage, ...]]]:
        """Return, by row, the routes of pairs of which a message takes one."""
        self._take_one(self._uneven, fabric)
        return self._single

    def _take_one(self, rows: np.ndarray, fabric: Fabric) -> None:
        for row in rows.tolist():
            if row not in self._single:
                halves = [self.pieces[k].walked(fabric) for k in self.parts[row].tolist() if k >= 0]
                self._single[row] = [
                    tuple(self._kept.setdefault(edge, frozenset([edge])) for half in each for edge in half)
                    for each in islice(product(*halves), _MOST_ROUTES)
                ]

    def overlaps(self, fabric: Fabric) -> list[tuple[_Stage, _Stage]]:
        """Find pairs of different sets of links that have a link in common."""
        singles = self.singles(fabric)
        spread = np.ones(len(self.pairs), bool)
        spread[list(singles)] = False
        in_use = np.unique(self.parts[spread]).tolist()
        used = {stage for k in in_use if k >= 0 for stage in self.pieces[k].stages or ()}
        used |= {stage for routes in singles.values() for route in routes for stage in route}
        owner: dict[_Edge, _Stage] = {}
        return [
            (stage, owner[edge]) for stage in used for edge in stage if owner.setdefault(edge, stage) != stage
        ]

    def take_one_where_links_overlap(self, fabric: Fabric) -> None:
        """Choose one route for messages whose routes share some of their links with those of others."""
        while overlaps := self.overlaps(fabric):
            conflicting = {stage for pair in overlaps for stage in pair if len(stage) > 1}
            marked = [not conflicting.isdisjoint(piece.stages or ()) for piece in self.pieces]
            rows = self._rows_with(np.array(marked))
            rows = rows[~np.isin(rows, list(self._single))]
            if not len(rows):
                break
            self._take_one(rows, fabric)

    def rows(self, fabric: Fabric) -> tuple[list[tuple[_Stage, ...]], np.ndarray, np.ndarray, np.ndarray]:
        """List all routes.

        Returns
        -------
        pieces : list of tuple of _Stage
        pair : ndarray of int64, shape (routes,)
        left : ndarray of int64, shape (routes,)
            How many routes of the pair there are from each on.
        parts : ndarray of int64, shape (routes, n)
        """
        pieces: list[tuple[_Stage, ...]] = [piece.stages or () for piece in self.pieces]
        singles = self.singles(fabric)
        count = np.ones(len(self.pairs), np.int64)
        count[list(singles)] = [len(routes) for routes in singles.values()]
        pair = np.repeat(np.arange(len(count)), count)
        left = count[pair] - numbered(count)
        parts = self.parts[pair]
        first = np.cumsum(count) - count
        for row, routes in singles.items():
            at = int(first[row])
            parts[at : at + len(routes)] = -1
            parts[at : at + len(routes), 0] = np.arange(len(pieces), len(pieces) + len(routes))
            pieces += routes
        return pieces, pair, left, parts


class _PieceSearch:
    """Finds the pieces of routes.

    Parameters
    ----------
    fabric : Fabric
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.pieces: list[_Piece] = []
        self.cost: list[int] = []
        self._stages: dict[_Stage, _Stage] = {}
        self._stems: dict[tuple[int, str], _Stem | None] = {}

    def add(self, stages: tuple[_Stage, ...] | None, steps: _Steps | None, ends: _Edge, cost: int) -> int:
        """Number a piece."""
        self.pieces.append(_Piece(stages, steps, *ends))
        self.cost.append(cost)
        return len(self.pieces) - 1

    def stem(self, gpu: int, way: str) -> _Stem | None:
        """Return what all routes of a GPU to other boxes (``"out"``), or from them, have in common."""
        if (gpu, way) not in self._stems:
            self._stems[gpu, way] = self._stem(gpu, way)
        return self._stems[gpu, way]

    def _stem(self, gpu: int, way: str) -> _Stem | None:
        fabric, lanes, found = self.fabric.search, self.fabric.lane_table, list[tuple[int, int, Chain]]()
        edges: dict[int, dict[int, None]] = {}
        if fabric.boxes.of[gpu] >= 0:
            for nic, cost in fabric.boxes.nics(gpu, way):
                inside = NextHops(fabric.outgoing, fabric.nowhere, nic if way == "out" else gpu, cost)
                for node in cost:
                    edges.setdefault(node, {}).update(dict.fromkeys(inside[node]))
                own = cost[gpu if way == "out" else nic]
                found += [(nic, own, links) for links in fabric.chains(nic, way)]
        elif len(lanes.neighbours(gpu, "out")) == len(lanes.neighbours(gpu, "into")) == 1:
            found = [(gpu, 0, links) for links in fabric.chains(gpu, way)]
        ends = {(links.nodes[-1], own + links.costs[-1]) for _, own, links in found}
        if len(ends) != 1:
            return None
        for first, _, links in found:
            for pair in pairwise((first, *links.nodes)):
                a, b = pair if way == "out" else reversed(pair)
                edges.setdefault(a, {})[b] = None
        end, far = ends.pop()
        steps = {node: list(after) for node, after in edges.items()}
        stages = _layers(steps, gpu, end) if way == "out" else _layers(steps, end, gpu)
        nodes = frozenset(node for *_, links in found for node in links.nodes)
        return None if stages is None else _Stem(end, self._kept(stages), far, nodes)

    def overlapping(self, sources: Iterable[int], targets: Iterable[int]) -> set[tuple[int, int]]:
        """Find the pairs of ranks whose stems have links in common, as where few switches form a line."""
        passed: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        inner: set[int] = set()
        for at, (way, ranks) in enumerate((("out", sources), ("into", targets))):
            for rank in ranks:
                if (stem := self.stem(int(self.fabric.gpus[rank]), way)) is not None:
                    inner |= stem.nodes - {stem.end}
                    for node in stem.nodes:
                        passed[node][at].append(rank)
        return {pair for node in inner for pair in product(*passed[node])}

    def _kept(self, stages: Iterable[_Stage]) -> tuple[_Stage, ...]:
        return tuple(self._stages.setdefault(stage, stage) for stage in stages)

    def between(self, ends: list[tuple[int, int]], *, near: bool) -> dict[tuple[int, int], int]:
        """Search between the ends of stems; pairs without a route are left out.

        Parameters
        ----------
        ends : list of (int, int)
        near : bool
            Over the network of boxes alone, not through what is no box.
        """
        found, fabric = {}, self.fabric
        by_end: dict[int, list[int]] = defaultdict(list)
        for start, end in ends:
            by_end[end].append(start)
        for end, starts in by_end.items():
            cost = (
                fabric.search.costs_between(end, starts)
                if near
                else fabric.search.costs_anywhere(end, starts)
            )
            hops = NextHops(fabric.search.outgoing, cost, end)
            to_one = _ToOne(hops, end, self._stages)
            for start in starts:
                if cost[start] >= 0:
                    ends_ = (start, end)
                    found[ends_] = self.add(to_one.layers(start), hops, ends_, int(cost[start]))
        return found

    def whole(self, pairs: list[tuple[int, int]], *, partial: bool) -> dict[tuple[int, int], int]:
        """Search from rank to rank."""
        found = {}
        gpus = self.fabric.gpus
        for target, groups in self.fabric.search.searches(pairs, partial=partial):
            end = int(gpus[target])
            for sources, hops in groups:
                to_one = _ToOne(hops, end, self._stages)
                for source in sources:
                    start = int(gpus[source])
                    layers = to_one.layers(start)
                    found[source, target] = self.add(layers, hops, (start, end), hops.cost(start))
        return found


def _found(fabric: Fabric, pairs: Iterable[tuple[int, int]], *, partial: bool) -> _Found:
    """Find the routes of pairs in pieces: to the network, through it, and from it."""
    search, ranks = _PieceSearch(fabric), len(fabric.gpus)
    asked = np.fromiter(chain.from_iterable(pairs), np.int64).reshape(-1, 2)
    asked = np.stack(np.divmod(distinct(asked @ np.array([ranks, 1])), ranks), axis=1)
    proxies = fabric.search.proxies((a, b) for a, b in asked.tolist()) if fabric.graph.pxn else {}
    if not proxies:
        parts, cost = _parts(search, asked, partial=partial)
        reached = cost >= 0
    else:
        by = np.array([proxies.get((a, b), -1) for a, b in asked.tolist()])
        legs = [asked[:, 0] * ranks + np.where(by < 0, asked[:, 1], by), (by * ranks + asked[:, 1])[by >= 0]]
        keys, place = np.unique(np.concatenate(legs), return_inverse=True)
        found, far = _parts(search, np.stack(np.divmod(keys, ranks), axis=1), partial=partial)
        second = np.full(len(asked), len(keys))
        second[by >= 0] = place[len(asked) :]
        found, far = np.concatenate([found, np.full((1, 3), -1)]), np.append(far, 0)
        parts = np.concatenate([found[place[: len(asked)]], found[second]], axis=1)
        costs = far[place[: len(asked)]], far[second]
        reached, cost = (costs[0] >= 0) & (costs[1] >= 0), costs[0] + costs[1]
    return _Found(asked[reached], search.pieces, parts[reached], cost[reached])


def _parts(search: _PieceSearch, pairs: np.ndarray, *, partial: bool) -> tuple[np.ndarray, np.ndarray]:
    """Find three pieces of the routes of each pair of ranks, -1 for none, and their cost, -1 for no route."""
    gpus = search.fabric.gpus
    box = search.fabric.search.boxes.of[gpus]
    source, target = pairs.T
    joined = (box[source] < 0) == (box[target] < 0)
    joined &= (box[source] < 0) | (box[source] != box[target])
    ends, pieces, costs = (np.full((2, len(gpus)), -1) for _ in range(3))
    for at, (way, mine) in enumerate((("out", source), ("into", target))):
        for rank in np.unique(mine[joined]).tolist():
            if (stem := search.stem(int(gpus[rank]), way)) is not None:
                path_ends = (int(gpus[rank]), stem.end) if way == "out" else (stem.end, int(gpus[rank]))
                ends[at, rank], costs[at, rank] = stem.end, stem.cost
                pieces[at, rank] = search.add(stem.stages, None, path_ends, stem.cost)
    start, end = ends[0, source], ends[1, target]
    joined &= (start >= 0) & (end >= 0)
    overlapping = search.overlapping(*(np.unique(one[joined]).tolist() for one in (source, target)))
    whole_ones = np.array([a * len(gpus) + b for a, b in overlapping], np.int64)
    joined &= ~np.isin(source * len(gpus) + target, whole_ones)
    nodes = len(search.fabric.graph)
    keys, place = np.unique(((box[source] >= 0) * nodes + start) * nodes + end, return_inverse=True)
    middle, far = np.full(len(keys), -1), np.where(keys % nodes == keys // nodes % nodes, 0, -1)
    asked = np.unique(place[joined])
    for near in (False, True):
        mine = asked[(keys[asked] >= nodes * nodes) == near]
        mine = mine[far[mine] < 0]
        listed = [(key // nodes % nodes, key % nodes) for key in keys[mine].tolist()]
        found = search.between(listed, near=near)
        for number, one in zip(mine.tolist(), listed, strict=True):
            if one in found:
                middle[number], far[number] = found[one], search.cost[found[one]]
    joined &= far[place] >= 0
    parts = np.full((len(pairs), 3), -1)
    cost = np.full(len(pairs), -1)
    rows = np.flatnonzero(joined)
    parts[rows] = np.stack([pieces[0, source[rows]], middle[place[rows]], pieces[1, target[rows]]], axis=1)
    cost[rows] = costs[0, source[rows]] + far[place[rows]] + costs[1, target[rows]]
    rest = np.flatnonzero(~joined)
    whole = search.whole([(a, b) for a, b in pairs[rest].tolist()], partial=partial)
    for row, (a, b) in zip(rest.tolist(), pairs[rest].tolist(), strict=True):
        if (a, b) in whole:
            parts[row, 0], cost[row] = whole[a, b], search.cost[whole[a, b]]
    return parts, cost


def _narrowed(fabric: Fabric, found: _Found) -> _Found:
    """Leave out planes that a failure has left to some pairs only, where all have other routes as short.

    A message is spread over planes as packets are, so that it must not take one of them alone instead.
    """
    now, narrower = found, fabric
    while uneven := {edge for one, other in now.overlaps(fabric) for edge in one ^ other}:
        lanes = {lane for edge in uneven for lane in fabric.lane_table.lanes_of(edge)}
        narrower = narrower.without(narrower.closed | lanes)
        now = _found(narrower, ((a, b) for a, b in found.pairs.tolist()), partial=True)
        if not np.array_equal(now.cost, found.cost):
            return found
    return now


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
            if min(map(cost, frontier)) <= max(map(cost, following)):
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


def _steps(layers: Sequence[_Stage], fabric: Fabric) -> dict[int, list[int]]:
    """Return the next nodes of each node from the links of all routes, in the order of the fabric."""
    steps: dict[int, list[int]] = {}
    for edge in sorted(
        {edge for layer in layers for edge in layer}, key=lambda edge: fabric.lane_table.lanes_of(edge)[0]
    ):
        steps.setdefault(edge[0], []).append(edge[1])
    return steps


def _walk(steps: _Steps, node: int, end: int) -> Iterable[list[_Edge]]:
    """Yield every route, in a fixed order."""
    for to in steps[node]:
        for tail in [[]] if to == end else _walk(steps, to, end):
            yield [(node, to), *tail]


def _tables(fabric: Fabric, found: _Found, npus: int, known: MessageRoutes | None) -> MessageRoutes:
    """Number the links and make the tables."""
    pieces, pair, left, parts = found.rows(fabric)
    stages: dict[_Stage, int] = {}
    start, flat = flat_lists([stages.setdefault(one, len(stages)) for one in piece] for piece in pieces)
    start, lengths = np.append(start, start[-1]), np.append(np.diff(start), 0)  # no piece is the last one
    hops = lengths[parts].sum(axis=1)
    flat = _behind_one_another(flat.astype(np.int32), start, lengths, parts)
    own = [] if known is None else list(known.lanes)
    numbers = _numbers(fabric, list(stages), flat, own)
    flat = numbers[flat]
    fast, far, slow = (fabric.links[name].tolist() for name in ("bandwidth_Bps", "latency_ps", "forward_ps"))
    slots = fabric.links["gap_ps"].tolist()
    wires = allocate(max(len(own), 1), WIRE)
    wires.rate_Bpns[: len(own)] = [sum(fast[lane] for lane in each) / 1e9 for each in own]
    wires.latency_ns[: len(own)] = [max(far[lane] + slow[lane] for lane in each) / 1000 for each in own]
    # Parallel NICs send at the sum of their packet rates.
    wires.gap_ns[: len(own)] = [_together([slots[lane] for lane in each]) for each in own]
    earlier = np.zeros(0, np.int64) if known is None else known.hops
    routes = allocate(len(pair), MESSAGE_ROUTE)
    sends = _Ports(own, {} if known is None else known.sends)
    receives = _Ports(own, {} if known is None else known.receives)
    if len(pair):
        first = np.cumsum(hops) - hops
        routes["key"], routes["count"] = found.pairs[pair] @ np.array([npus, 1]), left
        routes["first_hop"], routes["hops"] = first + len(earlier), hops
        whole, latency = np.zeros(len(pair)), np.ascontiguousarray(wires.latency_ns)
        for place in range(int(hops.max())):  # in this order: the sum is the same in every version of Python
            some = np.flatnonzero(hops > place)
            whole[some] += latency[flat[first[some] + place]]
        rate = np.ascontiguousarray(wires.rate_Bpns)[flat]
        narrowest = reduce_at(np.minimum, rate, first)
        routes["latency_ns"], routes["rate_Bpns"] = whole, narrowest
        routes["gap_ns"] = reduce_at(np.maximum, np.ascontiguousarray(wires.gap_ns)[flat], first)
        narrow = np.flatnonzero(rate == np.repeat(narrowest, hops))
        before, after = np.searchsorted(narrow, first), np.searchsorted(narrow, first + hops) - 1
        routes["narrow_hop"], routes["last_narrow_hop"] = narrow[before], narrow[after]
        for ports, side, at, end, most in (
            (sends, ("out", "out_narrow"), 0, first, narrow[before]),
            (receives, ("into", "into_narrow"), 1, first + hops - 1, narrow[after]),
        ):
            routes[side[0]], routes[side[1]] = ports.of(found.pairs[pair, at], flat[end], flat[most])
        routes["narrow_hop"] += len(earlier)
        routes["last_narrow_hop"] += len(earlier)
    all_hops = np.concatenate([earlier, flat])
    return MessageRoutes(routes, all_hops, wires, own, sends.numbers, receives.numbers)


def _behind_one_another(
    flat: np.ndarray, start: np.ndarray, lengths: np.ndarray, parts: np.ndarray
) -> np.ndarray:
    """Put the lists of the parts of each row behind one another; ``ranges`` of millions is slower."""
    hops = lengths[parts]
    made = np.empty(int(hops.sum()), flat.dtype)
    at = np.cumsum(hops.sum(axis=1)) - hops.sum(axis=1)
    for part, count in zip(parts.T, hops.T, strict=True):
        for place in range(int(count.max(initial=0))):
            some = np.flatnonzero(count > place)
            made[at[some] + place] = flat[start[part[some]] + place]
        at += count
    return made


def _numbers(fabric: Fabric, stages: list[_Stage], flat: np.ndarray, own: list[list[int]]) -> np.ndarray:
    """Number sets of links in the order in which routes need them, behind those known, which are added to."""
    of_lanes = {tuple(lanes): number for number, lanes in enumerate(own)}
    numbers = np.full(len(stages), -1, np.int32)
    first = np.full(len(stages), len(flat))
    first[flat[::-1]] = np.arange(len(flat))[::-1]
    for stage in np.argsort(first, kind="stable")[: int((first < len(flat)).sum())].tolist():
        lanes = [lane for edge in sorted(stages[stage]) for lane in fabric.lane_table.lanes_of(edge)]
        numbers[stage] = of_lanes.setdefault(tuple(lanes), len(own))
        if numbers[stage] == len(own):
            own.append(lanes)
    return numbers


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

    def of(self, ranks: np.ndarray, ends: np.ndarray, narrow: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ports of routes' ends and of their narrowest links; -1 where that is the same."""
        links = len(self._lanes)
        keys = np.stack([ranks * links + ends, ranks * links + narrow], axis=1)
        asked, first, place = np.unique(keys, return_index=True, return_inverse=True)
        ports = np.empty(len(asked), np.int64)
        for number in np.argsort(first).tolist():
            rank, link = divmod(int(asked[number]), links)
            ports[number] = self._number(self.numbers.setdefault(rank, {}), link)
        own, narrowest = ports[place.reshape(keys.shape)].T
        return own, np.where(narrow == ends, -1, narrowest)


def _together(gap_ps: list[int]) -> float:
    """Return the least time between packets of parallel NICs, in ns; 0 for no limit."""
    if 0 in gap_ps:
        return 0.0
    if len(set(gap_ps)) == 1:
        return gap_ps[0] / len(gap_ps) / 1000
    return 1 / sum(1000 / one for one in gap_ps)
