"""The ways of whole messages over an infrastructure: what is one link to them, and which they take.

Parallel lanes between two nodes are one link of their bandwidth together. Equally good ways are one
way, of links as wide as all of them together, where all messages part and meet at the same places
(the planes of NVLink switches, the spines of a Clos): a message is spread over them, as packets
are. Elsewhere (a torus) each message takes one of them, by its tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

import numpy as np

from astranb.core.jit import Records
from astranb.core.state import allocate

from ._astrasim2 import WAY, WIRE
from ._fabric import Fabric
from ._onward import Onward

__all__ = ["MessageWays", "message_ways"]

_MOST_WAYS: Final = 16
"""Of equally good ways that are not spread over, so many are in use."""

_Edge = tuple[int, int]
_Stage = frozenset[_Edge]


class _Steps(Protocol):
    """For each node those that may come next."""

    def __getitem__(self, node: int) -> list[int]: ...


@dataclass(frozen=True)
class MessageWays:
    """Links and ways as tables.

    Parameters
    ----------
    ways : recarray of WAY
        By source and target.
    hops : ndarray of int64
        Links of the ways, one after the other.
    wires : recarray of WIRE
        The links.
    lanes : list of list of int
        What each link is in the infrastructure: its lanes.
    """

    ways: Records
    hops: np.ndarray
    wires: Records
    lanes: list[list[int]]


def message_ways(fabric: Fabric, pairs: Iterable[tuple[int, int]], npus: int) -> MessageWays:
    """Find the ways of pairs of ranks.

    Parameters
    ----------
    fabric : Fabric
    pairs : iterable of (int, int)
        Sources and targets.
    npus : int

    Returns
    -------
    MessageWays

    Raises
    ------
    InputError
        A pair has no way.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> from astranb.net import compile_fabric
    >>> fabric = compile_fabric(blueprint("ring:gpus=4").expand())
    >>> ways = message_ways(fabric, [(0, 1), (0, 2)], 4)
    >>> ways.ways.hops.tolist(), ways.ways["count"].tolist()
    ([1, 2, 2], [1, 2, 1])
    """
    stages: dict[_Stage, _Stage] = {}
    spread: dict[tuple[int, int], Sequence[_Stage]] = {}
    single: dict[tuple[int, int], Sequence[Sequence[_Stage]]] = {}
    to_one: _ToOne | None = None
    for pair, onward in fabric.shortest(pairs):
        start, end = int(fabric.gpus[pair[0]]), int(fabric.gpus[pair[1]])
        if to_one is None or to_one.onward is not onward:
            to_one = _ToOne(onward, end, stages)
        layers = to_one.layers(start)
        if layers is None:
            single[pair] = _single(onward, start, end)
        else:
            spread[pair] = layers
    while leaving := _clashing(spread, single):
        for pair in leaving:
            steps = _steps(spread.pop(pair), fabric.bundles)
            single[pair] = _single(steps, int(fabric.gpus[pair[0]]), int(fabric.gpus[pair[1]]))
    chosen: dict[tuple[int, int], Sequence[Sequence[_Stage]]] = {}
    chosen |= {
        pair: [spread[pair]] if pair in spread else single[pair] for pair in sorted([*spread, *single])
    }
    return _tables(fabric, chosen, npus)


class _ToOne:
    """The links of all ways to one target, hop by hop; what is behind the same nodes is found once.

    Parameters
    ----------
    onward : Onward
    end : int
        The target.
    kept : dict
        Links of hops that many pairs share are kept once, over all targets.
    """

    def __init__(self, onward: Onward, end: int, kept: dict[_Stage, _Stage]) -> None:
        self.onward = onward
        self._end = end
        self._kept = kept
        self._behind: dict[frozenset[int], tuple[_Stage, ...] | None] = {frozenset((end,)): ()}

    def layers(self, start: int) -> tuple[_Stage, ...] | None:
        """Give the links of all ways from a node, hop by hop; None where the ways differ in length."""
        onward, cost, behind = self.onward, self.onward.cost, self._behind
        chain: list[tuple[frozenset[int], _Stage]] = []
        frontier = frozenset((start,))
        while frontier not in behind:
            stage = frozenset([(node, to) for node in frontier for to in onward[node]])
            following = frozenset([to for _, to in stage])
            if self._end in following and len(following) > 1:
                behind[frontier] = None
                break
            if min(cost[node] for node in frontier) <= max(cost[node] for node in following):
                # A node may come again further on: looked for from the start.
                found = _layers(onward, start, self._end)
                return None if found is None else tuple(self._kept.setdefault(one, one) for one in found)
            chain.append((frontier, self._kept.setdefault(stage, stage)))
            frontier = following
        tail = behind[frontier]
        for nodes, stage in reversed(chain):
            tail = behind[nodes] = None if tail is None else (stage, *tail)
        return tail


def _layers(onward: _Steps, start: int, end: int) -> list[_Stage] | None:
    """Give the links of all ways, hop by hop; None where the ways differ in length."""
    depth = {start: 0}
    layers: list[_Stage] = []
    frontier = {start}
    while frontier != {end}:
        layers.append(frozenset([(node, to) for node in frontier for to in onward[node]]))
        frontier = {to for _, to in layers[-1]}
        if any(depth.setdefault(node, len(layers)) != len(layers) for node in frontier):
            return None
        if end in frontier and len(frontier) > 1:
            return None
    return layers


def _steps(layers: Sequence[_Stage], lanes: dict[_Edge, list[int]]) -> dict[int, list[int]]:
    """Give the nodes that may come next from the links of all ways, in the fabric's order."""
    steps: dict[int, list[int]] = {}
    for edge in sorted({edge for layer in layers for edge in layer}, key=lambda edge: lanes[edge][0]):
        steps.setdefault(edge[0], []).append(edge[1])
    return steps


def _single(steps: _Steps, start: int, end: int) -> list[list[_Stage]]:
    """Give some of the ways, each by itself."""
    return [[frozenset([edge]) for edge in way] for way in islice(_walk(steps, start, end), _MOST_WAYS)]


def _walk(steps: _Steps, node: int, end: int) -> Iterable[list[_Edge]]:
    """Give every way, in a fixed order."""
    for to in steps[node]:
        for tail in [[]] if to == end else _walk(steps, to, end):
            yield [(node, to), *tail]


def _clashing(
    spread: dict[tuple[int, int], Sequence[_Stage]], single: dict[tuple[int, int], Sequence[Sequence[_Stage]]]
) -> list[tuple[int, int]]:
    """Find the pairs spread over links that somebody uses in another set of them."""
    used = {stage for layers in spread.values() for stage in layers}
    used |= {stage for ways in single.values() for way in ways for stage in way}
    owner: dict[_Edge, _Stage] = {}
    clash: set[_Stage] = set()
    for stage in used:
        for edge in stage:
            if owner.setdefault(edge, stage) != stage:
                clash |= {stage, owner[edge]}
    return [pair for pair, layers in spread.items() if any(len(s) > 1 and s in clash for s in layers)]


def _tables(
    fabric: Fabric,
    chosen: dict[tuple[int, int], Sequence[Sequence[_Stage]]],
    npus: int,
) -> MessageWays:
    """Number the links and make the tables."""
    numbers: dict[_Stage, int] = {}
    for found in chosen.values():
        for way in found:
            for stage in way:
                numbers.setdefault(stage, len(numbers))
    fast, far, slow = (fabric.links[name].tolist() for name in ("bandwidth_Bps", "latency_ps", "forward_ps"))
    slots = fabric.links["gap_ps"].tolist()
    own = [[lane for edge in sorted(stage) for lane in fabric.bundles[edge]] for stage in numbers]
    rate = [sum(fast[lane] for lane in each) / 1e9 for each in own]
    latency = [max(far[lane] + slow[lane] for lane in each) / 1000 for each in own]
    # NICs side by side send as many packets as all of them.
    gap = [_together([slots[lane] for lane in each]) for each in own]
    wires = allocate(max(len(numbers), 1), WIRE)
    wires.rate_Bpns[: len(own)], wires.latency_ns[: len(own)] = rate, latency
    wires.gap_ns[: len(own)] = gap
    rows: list[tuple[int, int, int, int, float, float, float]] = []
    hops: list[int] = []
    for (source, target), found in chosen.items():
        for left, way in enumerate(found):
            numbered = [numbers[stage] for stage in way]
            whole = 0.0
            for number in numbered:  # from the first to the last: the same with every Python's sum()
                whole += latency[number]
            narrowest = min(rate[number] for number in numbered)
            slowest = max(gap[number] for number in numbered)
            key = source * npus + target
            rows.append((key, len(found) - left, len(hops), len(numbered), whole, narrowest, slowest))
            hops += numbered
    ways = allocate(len(rows), WAY)
    if rows:
        ways[:] = np.array(rows, WAY)
    return MessageWays(ways, np.array(hops, np.int64), wires, own)


def _together(gap_ps: list[int]) -> float:
    """Give the least time between packets of several NICs side by side, in ns; 0 for none."""
    if 0 in gap_ps:
        return 0.0
    if len(set(gap_ps)) == 1:
        return gap_ps[0] / len(gap_ps) / 1000
    return 1 / sum(1000 / one for one in gap_ps)
