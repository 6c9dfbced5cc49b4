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
from typing import Final

import numpy as np

from astranb.core.jit import Records
from astranb.core.state import allocate

from ._astrasim2 import WAY, WIRE
from ._fabric import Fabric

__all__ = ["MessageWays", "message_ways"]

_MOST_WAYS: Final = 16
"""Of equally good ways that are not spread over, so many are in use."""

_Edge = tuple[int, int]
_Stage = frozenset[_Edge]


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
    names : list of str
        What each link is in the infrastructure: its lanes' ends, with their number.
    """

    ways: Records
    hops: np.ndarray
    wires: Records
    names: list[str]


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
    lanes: dict[_Edge, list[int]] = {}
    spread: dict[tuple[int, int], list[_Stage]] = {}
    single: dict[tuple[int, int], list[list[_Stage]]] = {}
    for pair, steps in fabric.shortest(pairs):
        start, end = int(fabric.gpus[pair[0]]), int(fabric.gpus[pair[1]])
        for node, onward in steps.items():
            lanes.update({(node, to): own for to, own in onward})
        layers = _layers(steps, start, end)
        if layers is None or any(len(layer) > 1 for layer in layers):
            single[pair] = [
                [frozenset([edge]) for edge in way] for way in islice(_walk(steps, start, end), _MOST_WAYS)
            ]
        else:
            single[pair] = [layers]
        if layers is not None:
            spread[pair] = layers
    _part(spread, single)
    chosen = {pair: [spread[pair]] if pair in spread else single[pair] for pair in sorted(single)}
    return _tables(fabric, lanes, chosen, npus)


def _layers(steps: dict[int, list[tuple[int, list[int]]]], start: int, end: int) -> list[_Stage] | None:
    """Give the links of all ways, hop by hop; None where the ways differ in length."""
    depth = {start: 0}
    layers: list[_Stage] = []
    frontier = [start]
    while frontier != [end]:
        edges = [(node, to) for node in frontier for to, _ in steps.get(node, ())]
        layers.append(frozenset(edges))
        frontier = sorted({to for _, to in edges})
        if any(depth.setdefault(node, len(layers)) != len(layers) for node in frontier):
            return None
        if end in frontier and len(frontier) > 1:
            return None
    return layers


def _walk(steps: dict[int, list[tuple[int, list[int]]]], node: int, end: int) -> Iterable[list[_Edge]]:
    """Give every way, in a fixed order."""
    for to, _ in steps[node]:
        for tail in [[]] if to == end else _walk(steps, to, end):
            yield [(node, to), *tail]


def _part(
    spread: dict[tuple[int, int], list[_Stage]], single: dict[tuple[int, int], list[list[_Stage]]]
) -> None:
    """Leave spread only what shares its links with nobody who uses another set of them."""
    while True:
        owner: dict[_Edge, _Stage] = {}
        clash: set[_Stage] = set()
        used = {stage for layers in spread.values() for stage in layers}
        used |= {stage for pair in single if pair not in spread for way in single[pair] for stage in way}
        for stage in sorted(used, key=sorted):
            for edge in stage:
                if owner.setdefault(edge, stage) != stage:
                    clash |= {stage, owner[edge]}
        leaving = [pair for pair, layers in spread.items() if any(len(s) > 1 and s in clash for s in layers)]
        if not leaving:
            return
        for pair in leaving:
            del spread[pair]


def _tables(
    fabric: Fabric,
    lanes: dict[_Edge, list[int]],
    chosen: dict[tuple[int, int], list[list[_Stage]]],
    npus: int,
) -> MessageWays:
    """Number the links and make the tables."""
    numbers: dict[_Stage, int] = {}
    for found in chosen.values():
        for way in found:
            for stage in way:
                numbers.setdefault(stage, len(numbers))
    links = fabric.links
    wires = allocate(max(len(numbers), 1), WIRE)
    names = []
    for number, stage in enumerate(numbers):
        own = [lane for edge in sorted(stage) for lane in lanes[edge]]
        wires[number].rate_Bpns = links["bandwidth_Bps"][own].sum() / 1e9
        wires[number].latency_ns = (links["latency_ps"][own] + links["forward_ps"][own]).max() / 1000
        name = fabric.name(own[0]).partition("#")[0]
        names.append(name if len(own) == 1 else f"{name} (of {len(own)} lanes)")
    ways = allocate(sum(len(found) for found in chosen.values()), WAY)
    hops: list[int] = []
    row = 0
    for (source, target), found in chosen.items():
        for left, way in enumerate(found):
            numbered = [numbers[stage] for stage in way]
            w = ways[row]
            w.key, w.count = source * npus + target, len(found) - left
            w.first_hop, w.hops = len(hops), len(numbered)
            w.latency_ns = _sum(wires.latency_ns, numbered)
            w.rate_Bpns = wires.rate_Bpns[numbered].min()
            hops += numbered
            row += 1
    return MessageWays(ways, np.array(hops, np.int64), wires, names)


def _sum(latency_ns: np.ndarray, numbered: Sequence[int]) -> float:
    """Add from the first to the last: the same on every machine."""
    total = 0.0
    for number in numbered:
        total += float(latency_ns[number])
    return total
