"""The order in which the nodes of a trace are issued.

Of the nodes that wait for nothing any more, the one with the lowest id is issued first. A rank does one
thing at a time in each place: on its CPU, on its GPU, on the network, and on a second stream in the
background. A receive occupies nothing. Metadata is not issued: what waits for it waits for what it waits for.

Engines take the order, the places and the queue from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.arrays import distinct, offsets, reversed_lists
from astranb.core.errors import InputError

from .columns import Lists
from .rank_trace import Trace
from .schema import Node, NodeType
from .validity import check
from .wire import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Feeder", "IssuePlace", "IssueQueue", "issue_order", "issue_places"]


class IssuePlace(IntEnum):
    """Resource that a node occupies; a rank has one of each, and nothing is always free."""

    CPU = 0
    GPU = 1
    NETWORK = 2
    BACKGROUND = 3
    NOTHING = 4


def issue_order(trace: Trace) -> tuple[Ints, Lists]:
    """Return the rows of a trace that are issued, by their ids, and what each of them waits for.

    Parameters
    ----------
    trace : Trace
        One that can be run (:func:`check`).

    Returns
    -------
    rows : array of int64
        Without metadata nodes.
    parents : Lists
        For each of them positions in ``rows``.

    Examples
    --------
    >>> some = [Node(7, "b", 4, data_deps=(3,)), Node(3, "groups", 1, ctrl_deps=(1,)), Node(1, "a", 4)]
    >>> rows, parents = issue_order(Trace.of(some))
    >>> rows, parents.of(1)
    (array([2, 0]), array([0]))
    """
    order = np.argsort(trace.id, kind="stable")
    rows = order[trace.type[order] != NodeType.METADATA]
    place = np.full(len(trace), -1, np.int64)
    place[rows] = np.arange(len(rows))
    owner, parent = trace.parents.owner, trace.parents.flat
    while (through := trace.type[parent] == NodeType.METADATA).any():
        lists = [trace.parents.of(int(row)) for row in parent[through]]
        again = np.repeat(owner[through], [len(one) for one in lists])
        owner = np.concatenate([owner[~through], again])
        parent = np.concatenate([parent[~through], *lists])
        pairs = distinct(owner * len(trace) + parent)
        owner, parent = np.divmod(pairs, len(trace))
    owner = place[owner]
    parent = place[parent][owner >= 0]
    owner = owner[owner >= 0]
    return rows, Lists(offsets(owner, len(rows)), parent[np.argsort(owner, kind="stable")])


def issue_places(
    types: NDArray[Any], on_cpu: NDArray[np.bool_], background: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return what nodes occupy, as :class:`IssuePlace`.

    Parameters
    ----------
    types : array of int
        As :class:`NodeType`; metadata occupies nothing.
    on_cpu : array of bool
    background : array of bool
        Whether a collective or an access to memory is on the second stream (``comm_stream``); such an
        access occupies nothing.

    Examples
    --------
    >>> no = np.zeros(3, bool)
    >>> issue_places(np.array([4, 5, 6]), no, no)  # a computation, a send, a receive
    array([1, 2, 4])
    """
    memory = (types == NodeType.MEM_LOAD) | (types == NodeType.MEM_STORE)
    free = (types == NodeType.COMM_RECV) | (types == NodeType.METADATA) | (memory & background)
    return np.select(
        [on_cpu, types == NodeType.COMP, free, (types == NodeType.COMM_COLL) & background],
        [IssuePlace.CPU, IssuePlace.GPU, IssuePlace.NOTHING, IssuePlace.BACKGROUND],
        IssuePlace.NETWORK,
    ).astype(np.int64)


class IssueQueue:
    """The rows that can be issued, the lowest first.

    Parameters
    ----------
    parents : Lists
        The rows that each one waits for.
    places : array of int, optional
        What each occupies, as :class:`IssuePlace`; nothing by default, so that all dependencies are met is
        enough.
    """

    def __init__(self, parents: Lists, places: NDArray[Any] | None = None) -> None:
        waits = np.diff(parents.offset)
        first, children = reversed_lists(waits, parents.flat)
        self._first, self._children = first.tolist(), children.tolist()
        self._waits: list[int] = waits.tolist()
        self._places: list[int] = (
            [int(IssuePlace.NOTHING)] * len(waits) if places is None else places.tolist()
        )
        self._ready: list[list[int]] = [[] for _ in IssuePlace]
        self._busy = [False] * len(IssuePlace)
        for row in np.flatnonzero(waits == 0).tolist():  # ascending: heaps
            self._ready[self._places[row]].append(row)

    def pop(self) -> int:
        """Issue a row; -1 if none can be."""
        best = -1
        for ready, busy in zip(self._ready, self._busy, strict=True):
            if ready and not busy and (best < 0 or ready[0] < best):
                best = ready[0]
        if best >= 0:
            place = self._places[best]
            heappop(self._ready[place])
            self._busy[place] = place != IssuePlace.NOTHING
        return best

    def push_back(self, row: int) -> None:
        """Take back that a row was issued."""
        self._busy[self._places[row]] = False
        heappush(self._ready[self._places[row]], row)

    def done(self, row: int) -> None:
        """End an issued row: free what it occupied, and the rows that waited for it."""
        self._busy[self._places[row]] = False
        for child in self._children[self._first[row] : self._first[row + 1]]:
            self._waits[child] -= 1
            if not self._waits[child]:
                heappush(self._ready[self._places[child]], child)


_WAITING: Final = 0
_ISSUED: Final = 1
_DONE: Final = 2


class Feeder:
    """Return the nodes of a trace in the order in which they are issued, to a simulator of your own.

    It is what Chakra's feeder is (``ETFeeder`` of mlcommons/chakra), with the order of our engines: of the
    nodes whose dependencies are met, that with the lowest id goes first, one at a time in each place. Nodes
    are named by their ids. ``len`` is the number of nodes that have not ended, so that a feeder is true until
    all have.

    Parameters
    ----------
    trace : Trace
    one_at_a_time : bool
        Whether a node waits until its place is free: a rank does one computation, one operation of the CPU
        and one collective, message or access to memory at a time. Otherwise a node can be issued as soon as
        its dependencies are met, and a caller without room for it uses :meth:`push_back`, as with Chakra's.

    Raises
    ------
    InputError
        The trace cannot be run.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> forward, host = step.compute("forward"), step.compute("host", cpu=True)
    >>> _ = step.compute("backward"), step.collective("all_reduce", "1 MiB", after=forward)
    >>> feeder = Feeder(step.build())
    >>> list(feeder)  # those that can begin now
    [0, 1]
    >>> feeder.done(forward)
    >>> [feeder.lookup(node).name for node in feeder]
    ['backward', 'all_reduce']
    >>> for node in (host, 2, 3):
    ...     feeder.done(node)
    >>> len(feeder)
    0
    """

    def __init__(self, trace: Trace, *, one_at_a_time: bool = True) -> None:
        check(trace)
        self._trace = trace
        rows, parents = issue_order(trace)
        places = None
        if one_at_a_time:
            background = trace.integers("comm_stream") > 0
            types = np.where(trace.is_idle, NodeType.METADATA, trace.type)
            places = issue_places(types, trace.is_cpu_op & ~trace.is_idle, background)[rows]
        self._queue = IssueQueue(parents, places)
        self._rows: list[int] = rows.tolist()
        self._ids: list[int] = trace.id[rows].tolist()
        self._place_of = {node: place for place, node in enumerate(self._ids)}
        self._state = bytearray(len(rows))
        self._left = len(rows)

    def __len__(self) -> int:
        """Return the number of nodes that have not ended."""
        return self._left

    def __iter__(self) -> Iterator[int]:
        """Issue nodes until none can be issued; ended ones may free others meanwhile."""
        while (node := self.next()) is not None:
            yield node

    def next(self) -> int | None:
        """Issue a node and return its id; None if no node can be issued now."""
        place = self._queue.pop()
        if place < 0:
            return None
        self._state[place] = _ISSUED
        return self._ids[place]

    def push_back(self, node: int) -> None:
        """Take back that a node was issued: it is the next one again, unless a lower one becomes free."""
        place = self._issued(node)
        self._state[place] = _WAITING
        self._queue.push_back(place)

    def done(self, node: int) -> None:
        """End an issued node, which frees its place and the nodes that waited for it."""
        place = self._issued(node)
        self._state[place] = _DONE
        self._left -= 1
        self._queue.done(place)

    def lookup(self, node: int) -> Node:
        """Return a node with all its fields.

        Raises
        ------
        InputError
            There is no such node, or it is metadata.
        """
        return self._trace.node(self._rows[self._known(node)])

    def _known(self, node: int) -> int:
        place = self._place_of.get(node, -1)
        if place < 0:
            raise InputError(f"unknown node {node}", where=self._trace.source)
        return place

    def _issued(self, node: int) -> int:
        place = self._known(node)
        if self._state[place] != _ISSUED:
            what = f"node {node} {'has ended' if self._state[place] == _DONE else 'was not issued'}"
            raise InputError(what, where=self._trace.source, hint="end each issued node once")
        return place
