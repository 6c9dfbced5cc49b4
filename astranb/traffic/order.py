"""An order in which the nodes of a message graph can begin, and cycles where there is none."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from astranb.core.entry import Entry
from astranb.core.errors import InputError
from astranb.core.jit import kernel
from astranb.workload.astrasim2 import COMPUTE, RECV

from .graph import KIND_NAMES, MessageGraph

__all__ = ["node_name", "node_order", "overlapping"]

_Ints = NDArray[np.int64]


@kernel
def order_nodes(
    dep_start: _Ints, deps: _Ints, sent: _Ints, waiting: _Ints, first: _Ints, children: _Ints, order: _Ints
) -> int:
    """Fill ``order`` with nodes, each after those that it waits for; returns how many have a place.

    ``sent`` is the send of each receive, otherwise -1. ``waiting``, ``first`` and ``children`` are work
    space; at the end ``waiting`` is 0 for the nodes that have a place.
    """
    count = len(sent)
    for row in range(count + 2):
        first[row] = 0
    for row in range(count):
        waiting[row] = dep_start[row + 1] - dep_start[row]
        for place in range(dep_start[row], dep_start[row + 1]):
            first[deps[place] + 2] += 1
        if sent[row] >= 0:
            waiting[row] += 1
            first[sent[row] + 2] += 1
    for row in range(count):
        first[row + 2] += first[row + 1]
    for row in range(count):
        for place in range(dep_start[row], dep_start[row + 1]):
            children[first[deps[place] + 1]] = row
            first[deps[place] + 1] += 1
        if sent[row] >= 0:
            children[first[sent[row] + 1]] = row
            first[sent[row] + 1] += 1
    found = 0
    for row in range(count):
        if waiting[row] == 0:
            order[found] = row
            found += 1
    done = 0
    while done < found:
        row = order[done]
        done += 1
        for place in range(first[row], first[row + 1]):
            child = children[place]
            waiting[child] -= 1
            if waiting[child] == 0:
                order[found] = child
                found += 1
    return found


@kernel
def count_overlapping(
    dep_start: _Ints, deps: _Ints, order: _Ints, rank: _Ints, computes: _Ints, latest: _Ints, seen: _Ints
) -> int:
    """Count the computations that do not wait for the computation before them on their rank.

    ``seen``, 0 at first, counts those of each rank; ``latest`` is the last one that each node waits for.
    """
    found = 0
    for place in range(len(order)):
        row = order[place]
        last = 0
        for dep in range(dep_start[row], dep_start[row + 1]):
            last = max(last, latest[deps[dep]])
        if computes[row] == 1:
            if last < seen[rank[row]]:
                found += 1
            seen[rank[row]] += 1
            last = seen[rank[row]]
        latest[row] = last
    return found


_INT: Final = np.dtype(np.int64)
_ORDER: Final = Entry(order_nodes, [_INT] * 7)
_OVERLAPPING: Final = Entry(count_overlapping, [_INT] * 7)


def node_name(graph: MessageGraph, row: int) -> str:
    """Name a node as errors do: ``node 3 of rank 1 (send to 2)``."""
    node = graph.nodes[row]
    rank, kind = int(node["rank"]), int(node["kind"])
    peer = "" if kind == COMPUTE else f" {'from' if kind == RECV else 'to'} {node['peer']}"
    return f"node {row - int(graph.first[rank])} of rank {rank} ({KIND_NAMES[kind]}{peer})"


def node_order(graph: MessageGraph) -> _Ints:
    """Return the rows of a graph in an order in which they can begin: a receive after its send.

    Raises
    ------
    InputError
        Nodes wait for one another; the message names the cycle.

    Examples
    --------
    >>> from astranb.workload.astrasim2 import SEND
    >>> pair = MessageGraph.of(2, [
    ...     {"rank": 0, "kind": RECV, "peer": 1, "bytes": 1},
    ...     {"rank": 1, "kind": SEND, "peer": 0, "bytes": 1},
    ... ])
    >>> node_order(pair)
    array([1, 0])
    """
    count = len(graph.nodes)
    sent = np.where(graph.nodes["kind"] == RECV, graph.nodes["match"], -1)
    waiting, order = np.empty(count, np.int64), np.empty(count, np.int64)
    first, children = np.empty(count + 2, np.int64), np.empty(len(graph.deps) + count, np.int64)
    lists = np.ascontiguousarray(graph.dep_start, np.int64), np.ascontiguousarray(graph.deps, np.int64)
    if _ORDER(*lists, sent, waiting, first, children, order) == count:
        return order
    cycle = _cycle(graph, sent, waiting)
    names = ", which waits for ".join(node_name(graph, row) for row in [*cycle[:4], cycle[0]])
    more = f" (and {len(cycle) - 4} more)" if len(cycle) > 4 else ""
    raise InputError(
        f"nodes wait for one another in a cycle: {names}{more}",
        where=graph.title,
        hint="drop one of these dependencies",
    )


def _cycle(graph: MessageGraph, sent: _Ints, waiting: _Ints) -> list[int]:
    """Find a cycle of rows, each of which waits for the next one."""
    row = int(np.flatnonzero(waiting)[0])
    seen: dict[int, int] = {}
    while row not in seen:
        seen[row] = len(seen)
        before = graph.deps[graph.dep_start[row] : graph.dep_start[row + 1]].tolist()
        row = next(dep for dep in (*before, int(sent[row])) if dep >= 0 and waiting[dep])
    return [other for other in seen if seen[other] >= seen[row]]


def overlapping(graph: MessageGraph, order: _Ints) -> int:
    """Count the computations that may run beside another one of their rank.

    Parameters
    ----------
    graph : MessageGraph
    order : ndarray of int64
        As :func:`node_order` gives it.
    """
    rank = np.ascontiguousarray(graph.nodes["rank"])
    computes = (graph.nodes["kind"] == COMPUTE).astype(np.int64)
    lists = np.ascontiguousarray(graph.dep_start, np.int64), np.ascontiguousarray(graph.deps, np.int64)
    seen = np.zeros(graph.ranks, np.int64)
    return _OVERLAPPING(*lists, order, rank, computes, np.zeros(len(rank), np.int64), seen)
