"""Distance of every node from a GPU (Dijkstra's algorithm, backwards), and the routes to it, as kernels."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astranb.core.entry import Entry
from astranb.core.jit import kernel

__all__ = ["Incoming", "Outgoing", "costs_to", "routes_to"]

_Ints = NDArray[np.int64]

_TARGET: Final = 0
_TOLL: Final = 1
_SOURCES: Final = 2
# Places of a search's arguments.
_USUAL_HOPS: Final = 16


class Incoming(NamedTuple):
    """From where each node is reached, as arrays.

    Parameters
    ----------
    first : ndarray of int64, shape (nodes + 1,)
        Where the rows of each node begin.
    source, price : ndarray of int64
        The node before, and the cost of coming from it.
    ranked : ndarray of int64, shape (nodes,)
        1 for a GPU.
    """

    first: _Ints
    source: _Ints
    price: _Ints
    ranked: _Ints


class Outgoing(NamedTuple):
    """The links out of each node, as arrays.

    Parameters
    ----------
    first : ndarray of int64, shape (nodes + 1,)
        First row of each node.
    source, target, price : ndarray of int64
        The node, the next node, and the cost of the link.
    ranked : ndarray of int64
        1 where the next node is a GPU.
    first_lane, lanes : ndarray of int64
        First place in ``numbers``, and number of parallel lanes.
    numbers : ndarray of int64
        The lanes of all rows.
    """

    first: _Ints
    source: _Ints
    target: _Ints
    price: _Ints
    ranked: _Ints
    first_lane: _Ints
    lanes: _Ints
    numbers: _Ints


@kernel
def nearest(
    job: _Ints,
    first: _Ints,
    source: _Ints,
    price: _Ints,
    ranked: _Ints,
    wanted: _Ints,
    cost: _Ints,
    heap_cost: _Ints,
    heap_node: _Ints,
) -> int:
    """Fill ``cost`` from the target on until all wanted nodes have theirs; returns how many have none.

    ``heap_cost`` and ``heap_node`` hold a binary heap; a node is in it once for each link into it.
    """
    target = job[_TARGET]
    left = job[_SOURCES]
    heap_cost[0] = 0
    heap_node[0] = target
    size = 1
    while size > 0 and left > 0:
        so_far = heap_cost[0]
        node = heap_node[0]
        size -= 1
        last_cost = heap_cost[size]
        last_node = heap_node[size]
        place = 0
        child = 1
        while child < size:
            if child + 1 < size and heap_cost[child + 1] < heap_cost[child]:
                child += 1
            if heap_cost[child] >= last_cost:
                break
            heap_cost[place] = heap_cost[child]
            heap_node[place] = heap_node[child]
            place = child
            child = 2 * place + 1
        heap_cost[place] = last_cost
        heap_node[place] = last_node
        if cost[node] >= 0:
            continue
        cost[node] = so_far
        left -= wanted[node]
        if ranked[node] == 1 and node != target:
            so_far += job[_TOLL]
        for row in range(first[node], first[node + 1]):
            previous = source[row]
            if cost[previous] >= 0:
                continue
            own = so_far + price[row]
            place = size
            size += 1
            while place > 0 and heap_cost[(place - 1) >> 1] > own:
                heap_cost[place] = heap_cost[(place - 1) >> 1]
                heap_node[place] = heap_node[(place - 1) >> 1]
                place = (place - 1) >> 1
            heap_cost[place] = own
            heap_node[place] = previous
    return left


@kernel
def leads_on(job: _Ints, out: Outgoing, cost: _Ints, node: int, row: int) -> int:
    """Return 1 if a route of least cost leaves a node by a row of its links."""
    to = out.target[row]
    if cost[to] < 0:
        return 0
    own = cost[to] + out.price[row]
    if out.ranked[row] == 1 and to != job[_TARGET]:
        own += job[_TOLL]
    return 1 if own == cost[node] else 0


@kernel
def count_routes(job: _Ints, out: Outgoing, cost: _Ints, wanted: _Ints, routes: _Ints, stack: _Ints) -> int:
    """Fill ``routes``, 0 at first, with the number of routes to the target; returns those of wanted nodes.

    A route keeps its lane number if the next bundle has it, and wraps around if it has fewer lanes, so
    that parallel routes do not multiply with every hop.
    """
    routes[job[_TARGET]] = 1
    total = 0
    for number in range(len(wanted)):
        stack[0] = wanted[number]
        size = 1
        while size > 0:
            node = stack[size - 1]
            known = True
            count = 0
            for row in range(out.first[node], out.first[node + 1]):
                if routes[node] == 0 and leads_on(job, out, cost, node, row) == 1:
                    to = out.target[row]
                    if routes[to] == 0:
                        known = False
                        stack[size] = to
                        size += 1
                    count += max(routes[to], out.lanes[row])
            if known:
                routes[node] += count
                size -= 1
        total += routes[wanted[number]]
    return total


@kernel
def list_routes(
    job: _Ints, out: Outgoing, cost: _Ints, wanted: _Ints, routes: _Ints, last: _Ints, links: _Ints
) -> int:
    """List the links of all routes of the wanted nodes, as far as there is room; returns how many there are.

    ``last`` is where each route ends in ``links``.
    """
    route = 0
    place = 0
    for number in range(len(wanted)):
        for chosen in range(routes[wanted[number]]):
            node = wanted[number]
            rest = chosen
            while node != job[_TARGET]:
                row = out.first[node]
                while True:
                    if leads_on(job, out, cost, node, row) == 1:
                        width = max(routes[out.target[row]], out.lanes[row])
                        if rest < width:
                            break
                        rest -= width
                    row += 1
                if place < len(links):
                    links[place] = out.numbers[out.first_lane[row] + rest % out.lanes[row]]
                place += 1
                node = out.target[row]
                rest = rest % routes[node]
            last[route] = place
            route += 1
    return place


_INT: Final = np.dtype(np.int64)
_OUT: Final = Outgoing(*[_INT] * 8)  # type: ignore[arg-type]  # types in the places of tables
_NEAREST: Final = Entry(nearest, [_INT] * 9)
_COUNT: Final = Entry(count_routes, [_INT, _OUT, *[_INT] * 4])
_LIST: Final = Entry(list_routes, [_INT, _OUT, *[_INT] * 5])


def costs_to(incoming: Incoming, target: int, sources: set[int], toll: int) -> _Ints:
    """Return the cost of every node to a target, as far as some of them are away.

    Parameters
    ----------
    incoming : Incoming
    target : int
        A node.
    sources : set of int
        The nodes whose costs are wanted: what is farther away than all of them is left out.
    toll : int
        What passing through a GPU costs besides.

    Returns
    -------
    ndarray of int64, shape (nodes,)
        -1 where it is not known.
    """
    nodes = len(incoming.ranked)
    cost = np.full(nodes, -1, np.int64)
    wanted = np.zeros(nodes, np.int64)
    wanted[list(sources)] = 1
    heap = np.empty((2, len(incoming.source) + 1), np.int64)
    job = np.array([target, toll, len(sources)], np.int64)
    _NEAREST(job, *incoming, wanted, cost, heap[0], heap[1])
    return cost


def routes_to(
    outgoing: Outgoing, cost: _Ints, target: int, sources: _Ints, toll: int
) -> tuple[_Ints, _Ints, _Ints]:
    """List all routes of least cost to a target, lane by lane, in the order of the fabric.

    Parameters
    ----------
    outgoing : Outgoing
    cost : ndarray of int64
        Of each node to the target; those of the sources are known.
    target : int
        A node.
    sources : ndarray of int64
        The nodes whose routes are wanted.
    toll : int
        What passing through a GPU costs besides.

    Returns
    -------
    count : ndarray of int64, shape (sources,)
        Number of routes of each source.
    hops : ndarray of int64, shape (routes,)
        Number of links of each route.
    links : ndarray of int64
        The links of all routes.
    """
    job = np.array([target, toll, len(sources)], np.int64)
    routes = np.zeros(len(cost), np.int64)
    stack = np.empty(len(outgoing.target) + 2, np.int64)
    last = np.empty(_COUNT(job, outgoing, cost, sources, routes, stack), np.int64)
    links = np.empty(_USUAL_HOPS * len(last), np.int64)
    total = _LIST(job, outgoing, cost, sources, routes, last, links)
    if total > len(links):
        links = np.empty(total, np.int64)
        _LIST(job, outgoing, cost, sources, routes, last, links)
    return routes[sources], np.diff(last, prepend=0), links[:total]
