"""Messages on the links of ASTRA-sim 1.0's networks: derived from the phases of chunks.

A layer table's run knows when a chunk's phase begins and ends, and no single messages. Its algorithm says who
sends to whom in which step; the steps are drawn as equal parts of the phase.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from astranb.engine.operations import Flights, LinkGraph, Recorded, graph_of_dimensions, recent, spread
from astranb.net import FULLY_CONNECTED, RING, SWITCH, DimensionLinks, links_of_dimensions
from astranb.workload.astrasim1 import ALGORITHMS

from . import tables as t
from .state import LayerState

__all__ = ["crossings_of", "flights", "link_graph", "link_path", "queues", "recorded_flights"]

_SHAPES = {"Ring": RING, "FullyConnected": FULLY_CONNECTED, "Switch": SWITCH}
_MOST = 1 << 18
"""Messages that are given at once; of more, those of the latest phases."""


def _links_of(engine: LayerState) -> DimensionLinks:
    network = engine.run.inputs.network
    return links_of_dimensions([_SHAPES[name] for name in network.topologies], network.units)


def link_graph(engine: LayerState) -> LinkGraph:
    """The nodes and links of the network."""
    network = engine.run.inputs.network
    rates = [network.link_bandwidth(dim) * 1e9 for dim in range(len(network.units))]
    return graph_of_dimensions(_links_of(engine), network.topologies, rates)


def link_path(engine: LayerState, link: int) -> str:
    """Return the path that is inspected for a link: its dimension."""
    physical = int(_links_of(engine).dim[link])
    dims = list(engine.run.built.levels.physical)
    return f"dim[{dims.index(physical)}]" if physical in dims else ""


def queues(engine: LayerState, links: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """No message waits for a link, and none is down: phases wait for one another."""
    del engine
    return np.zeros(len(links), np.int64), np.zeros(len(links), bool)


def recorded_flights(engine: LayerState) -> int:
    """Return the number of phases that have ended."""
    return int(engine.machine.watch[0].passed)


@lru_cache
def _sends(algorithm: str, collective: int, nodes: int) -> tuple[np.ndarray, int]:
    """Return rows of (step, index of the sender, of the receiver, part), and the number of steps.

    A message has ``1 / part`` of the bytes with which the phase begins; where ``part`` is negative, ``-part``
    times as many.
    """
    index = np.arange(nodes)
    passes = 2 if collective == t.ALL_REDUCE else 1
    whole = 1 if collective == t.ALL_GATHER else nodes
    if algorithm == "ring":
        steps = passes * (nodes - 1)
        if collective == t.ALL_TO_ALL:
            steps = nodes * (nodes - 1) // 2
        found = [(step, index, (index + 1) % nodes, whole) for step in range(steps)]
    elif algorithm == "halvingDoubling":
        powers = range((nodes - 1).bit_length())
        pairs = [(1 << power, 2 << power) for power in powers]
        if collective == t.ALL_GATHER:
            pairs = [(nodes >> (power + 1), -1 << power) for power in powers]
        pairs += pairs[::-1] if passes == 2 else []
        steps = len(pairs)
        found = [(step, index, (index ^ away) % nodes, part) for step, (away, part) in enumerate(pairs)]
    elif algorithm == "direct":
        steps = passes
        found = [
            (step, index, (index + away) % nodes, whole) for step in range(passes) for away in range(1, nodes)
        ]
    else:
        # In a binary tree up to the root and down again, a level at a time; nodes are numbered in order.
        height = nodes.bit_length() - 1
        child = np.arange(1, nodes)
        low = child & -child
        parent = (child - low) | (2 * low)
        level = np.log2(low).astype(np.int64)
        steps = 2 * height
        above = np.minimum(parent, nodes) - 1
        found = [(level, child - 1, above, 1), (steps - 1 - level, above, child - 1, 1)]
    rows = [np.stack(np.broadcast_arrays(*one), 1) for one in found]
    return np.concatenate(rows) if rows else np.zeros((0, 4), np.int64), max(1, steps)


def flights(engine: LayerState, since: int) -> Recorded:
    """Messages of the phases that have ended, from a number of the recording on, and of those under way.

    The recording numbers phases in the order of their ends.
    """
    m = engine.machine
    rows = recent(m)
    total = int(m.watch[0].passed)
    first = max(since, total - len(rows))
    rows = rows[len(rows) - (total - first) :]
    running = m.streams[np.flatnonzero(m.streams.running == 1)]
    phase = np.concatenate([np.asarray(rows.phase), np.asarray(running.phase)])
    of = np.asarray(m.collectives.operation)[running.collective]
    start_chunk = np.asarray(m.collectives.first_chunk)[running.collective]
    start_phase = np.asarray(m.chunks.first_phase)[running.chunk]
    begun = np.concatenate([np.asarray(rows.begun_ps), np.asarray(running.started_ps)])
    until = np.asarray(running.started_ps) + np.asarray(m.phases.duration_ps)[running.phase]
    columns = {
        "operation": engine.program.of[np.concatenate([np.asarray(rows.operation), of])],
        "chunk": np.concatenate([np.asarray(rows.chunk), np.asarray(running.chunk) - start_chunk]),
        "phase": np.concatenate([np.asarray(rows.nth), 1 + np.asarray(running.phase) - start_phase]),
    }
    ended = np.concatenate([np.asarray(rows.end_ps), until])
    return _sent(engine, first, total, phase, begun, ended, columns)


def _sent(
    engine: LayerState, first: int, total: int, phase: np.ndarray, begun: np.ndarray, ended: np.ndarray,
    columns: dict[str, np.ndarray],
) -> Recorded:  # fmt: skip
    """The messages of phases, in the order of the phases."""
    m = engine.machine
    of, crossing = crossings_of(engine, phase)
    each = np.array([len(one[0]) for one in crossing], np.int64)[of]
    # Of more than most, the latest ones.
    kept = np.flatnonzero(np.cumsum(each[::-1])[::-1] <= _MOST)
    lost = int(kept[0]) if len(kept) else len(phase)
    parts = []
    for row in range(lost, len(phase)):
        link, source, target, step, part, steps, nth, count = crossing[int(of[row])]
        whole = int(m.phases.bytes[phase[row]])
        size = np.where(part > 0, whole // np.abs(part), whole * np.abs(part))
        start, end = spread(np.full(len(link), begun[row]), np.full(len(link), ended[row]), step, steps)
        start, end = spread(start, end, nth, count)
        given = {name: np.full(len(link), column[row]) for name, column in columns.items()}
        parts.append(Flights(link, source, target, size, step=step + 1, queued_ps=start,
                             start_ps=start, end_ps=end, **given))  # fmt: skip
    nothing = np.zeros(0, np.int64)
    parts = parts or [Flights(*[nothing] * 11)]
    names = Flights.__dataclass_fields__
    joined = Flights(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))
    ended_ones = slice(min(lost, total - first), total - first)
    settled = int(each[ended_ones].sum())
    return Recorded(first + min(lost, total - first), total, joined, settled)


def crossings_of(engine: LayerState, phase: np.ndarray) -> tuple[np.ndarray, list[tuple[np.ndarray, ...]]]:
    """Return the links crossed by messages of phases: each phase's index in a list of :func:`_crossings`."""
    planned = engine.run.built.planned[phase]
    does = np.asarray(engine.machine.phases.collective)[phase]
    kind = np.stack([planned["algorithm"], does, planned["nodes"], planned["stride"]], 1)
    kinds, of = np.unique(kind, axis=0, return_inverse=True)
    links = _links_of(engine)
    return of.reshape(-1), [_crossings(links, *one) for one in kinds.tolist()]


def _crossings(
    links: DimensionLinks, algorithm: int, collective: int, nodes: int, stride: int
) -> tuple[np.ndarray, ...]:
    """The links that the messages of one phase cross, of all ranks whose links are drawn.

    Returns link, sender, receiver, step, part (see :func:`_sends`), number of steps, place of the link in the
    message's path, length of that.
    """
    sends, steps = _sends(ALGORITHMS[algorithm], collective, nodes)
    origin = np.flatnonzero(np.arange(links.npus) // stride % nodes == 0)
    source = (origin[:, None] + sends[:, 1] * stride).reshape(-1)
    target = (origin[:, None] + sends[:, 2] * stride).reshape(-1)
    step, part = np.tile(sends[:, 0], len(origin)), np.tile(sends[:, 3], len(origin))
    shown = links.drawn_ranks()
    kept = shown[source] | shown[target]
    source, target, step, part = source[kept], target[kept], step[kept], part[kept]
    message, link, nth, count = links.paths(source, target)
    on = np.isin(link, links.drawn())
    message, link, nth, count = message[on], link[on], nth[on], count[on]
    ends = source[message], target[message]
    return link, *ends, step[message], part[message], np.full(len(link), steps), nth, count
