"""How far every node is from a GPU: Dijkstra's algorithm, backwards, as a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astranb.core.entry import Entry
from astranb.core.jit import kernel

__all__ = ["Incoming", "costs_to"]

_Ints = NDArray[np.int64]

_TARGET: Final = 0
_TOLL: Final = 1
_SOURCES: Final = 2
# Places of a search's arguments.


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
    home : ndarray of int64, shape (nodes,)
        The instance of each node; -1 where it has no GPU.
    """

    first: _Ints
    source: _Ints
    price: _Ints
    ranked: _Ints
    home: _Ints


@kernel
def nearest(
    job: _Ints,
    first: _Ints,
    source: _Ints,
    price: _Ints,
    ranked: _Ints,
    home: _Ints,
    closed: _Ints,
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
            if home[previous] >= 0 and closed[home[previous]] == 1:
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


_NEAREST: Final = Entry(nearest, [np.dtype(np.int64)] * 11)


def costs_to(
    incoming: Incoming, target: int, sources: set[int], toll: int, homes: Iterable[int] | None = None
) -> list[int]:
    """Give the cost of every node to a target, as far as some of them are away.

    Parameters
    ----------
    incoming : Incoming
    target : int
        A node.
    sources : set of int
        The nodes whose costs are wanted: what is farther away than all of them is left out.
    toll : int
        What passing through a GPU costs besides.
    homes : iterable of int, optional
        No other instance that has GPUs is entered than these.

    Returns
    -------
    list of int
        By node; -1 where it is not known.
    """
    nodes = len(incoming.ranked)
    cost = np.full(nodes, -1, np.int64)
    wanted = np.zeros(nodes, np.int64)
    wanted[list(sources)] = 1
    closed = np.full(int(incoming.home.max()) + 2, int(homes is not None), np.int64)
    if homes is not None:
        closed[list(homes)] = 0
    heap = np.empty((2, len(incoming.source) + 1), np.int64)
    job = np.array([target, toll, len(sources)], np.int64)
    _NEAREST(job, *incoming, closed, wanted, cost, heap[0], heap[1])
    return cost.tolist()
