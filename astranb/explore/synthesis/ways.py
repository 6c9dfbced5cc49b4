"""A schedule of chunks that only one rank each needs: the way of each slice, and when it goes.

Slices are spread over the ways of a flow so that the most loaded port has as little to carry as can be. Then
time goes from event to event: whenever the ports of an edge are free, what waits there starts, at the most
loaded ports first, and of several slices the one with the longest way left.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from .flows import Flows, Way
from .matching import EdgeTables
from .network import RankNetwork

__all__ = ["along_ways"]

Ints = NDArray[np.int64]

_PASSES = 4
_POWER = 12  # a sum of such powers of loads is hardly more than the largest


def along_ways(
    network: RankNetwork, flows: Flows, before: np.ndarray, wanted: np.ndarray, slice_bytes: int, *, seed: int
) -> tuple[Ints, Ints, Ints]:
    """Return edges, slices and starts of transfers that bring each slice to the rank that needs it.

    Parameters
    ----------
    network : RankNetwork
    flows : Flows
        Of the condition.
    before, wanted : ndarray of bool, shape (ranks, slices)
        Who holds and who lacks which slice; at most one rank lacks it.
    slice_bytes, seed : int
    """
    tables = network.edges(slice_bytes)
    draw = np.random.default_rng(seed)
    slices = draw.permutation(np.flatnonzero(wanted.any(axis=0))).tolist()
    choices = [
        flows.ways[tuple(np.flatnonzero(before[:, one]).tolist()), int(np.argmax(wanted[:, one]))]
        for one in slices
    ]
    ways = _spread(tables, choices)
    return _listed(tables, slices, ways)


def _spread(tables: EdgeTables, choices: list[list[Way]]) -> list[Way]:
    """Choose a way for each slice."""
    ports_of = [tables.port[a:b] for a, b in zip(tables.first_port[:-1], tables.first_port[1:], strict=True)]
    used: dict[Way, tuple[Ints, Ints, int]] = {}
    for way in {way for some in choices for way in some}:
        ports, times = np.unique(np.concatenate([ports_of[edge] for edge in way]), return_counts=True)
        used[way] = ports, times * tables.busy_ps[ports], int(tables.took_ps[list(way)].sum())
    load = np.zeros(len(tables.busy_ps))
    longest = sum(max(float(used[way][1].max()) for way in some) for some in choices)
    chosen: list[Way | None] = [None] * len(choices)
    for number in range(_PASSES):
        scale = max(float(load.max()), 1.0) if number else longest
        moved = False
        for place, some in enumerate(choices):
            now = chosen[place]
            if len(some) == 1 and now is not None:
                continue
            if now is not None:
                load[used[now][0]] -= used[now][1]
            best, least = some[0], np.inf
            for way in some:
                ports, busy, took_ps = used[way]
                after = (load[ports] + busy) / scale
                price = (
                    float((after**_POWER - (load[ports] / scale) ** _POWER).sum()) + 1e-6 * took_ps / scale
                )
                if price < least:
                    best, least = way, price
            moved |= best is not now
            chosen[place] = best
            load[used[best][0]] += used[best][1]
        if not moved:
            break
    return [way for way in chosen if way is not None]


def _listed(tables: EdgeTables, slices: list[int], ways: list[Way]) -> tuple[Ints, Ints, Ints]:
    """Return when each slice starts on each edge of its way."""
    took, busy = tables.took_ps.tolist(), tables.busy_ps.tolist()
    ports_of = [
        tables.port[a:b].tolist() for a, b in zip(tables.first_port[:-1], tables.first_port[1:], strict=True)
    ]
    edges_of = [
        tables.of[a:b].tolist() for a, b in zip(tables.first_of[:-1], tables.first_of[1:], strict=True)
    ]
    left = np.zeros(len(busy), np.int64)
    waiting: list[list[tuple[int, int, int]]] = [
        [] for _ in took
    ]  # minus the way left, slice, place on its way
    for number, way in enumerate(ways):
        for edge in way:
            left[ports_of[edge]] += tables.busy_ps[ports_of[edge]]
        heapq.heappush(waiting[way[0]], (-sum(took[edge] for edge in way), number, 0))
    to_do = left.tolist()
    free_ps = [0] * len(busy)
    events: list[tuple[int, int, int, int]] = []  # time, and a port; or -1, a slice and its place
    rows: list[tuple[int, int, int]] = []
    now_ps, touched = 0, {way[0] for way in ways}
    while True:
        ready = [edge for edge in touched if waiting[edge]]
        ready.sort(key=lambda edge: (-max(to_do[p] for p in ports_of[edge]), waiting[edge][0]))
        for edge in ready:
            if any(free_ps[port] > now_ps for port in ports_of[edge]):
                continue
            _, number, place = heapq.heappop(waiting[edge])
            rows.append((edge, slices[number], now_ps))
            for port in ports_of[edge]:
                free_ps[port] = now_ps + busy[port]
                to_do[port] -= busy[port]
                heapq.heappush(events, (free_ps[port], port, 0, 0))
            if place + 1 < len(ways[number]):
                heapq.heappush(events, (now_ps + took[edge], -1, number, place + 1))
        if not events:
            break
        now_ps, touched = events[0][0], set()
        while events and events[0][0] == now_ps:
            _, port, number, place = heapq.heappop(events)
            if port >= 0:
                touched.update(edges_of[port])
                continue
            way = ways[number]
            heapq.heappush(waiting[way[place]], (-sum(took[edge] for edge in way[place:]), number, place))
            touched.add(way[place])
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]
