"""Shared parts of the targets that start messages by the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - TimedMessages is shown by help()

from astranb.core.arrays import numbered
from astranb.core.errors import InputError
from astranb.infragraph import Infra
from astranb.traffic.graph import MessageGraph
from astranb.traffic.schedule import MessageTimes, flat_network_of, message_times
from astranb.workload.astrasim2 import COMPUTE, RECV

from .checked import checked_order, counted, labelled

__all__ = ["SECOND_PS", "TimedMessages", "WaitingNodes", "beside", "timed_messages"]

SECOND_PS: Final = 10**12


class TimedMessages:
    """Messages between different ranks in the order of their starts, and what is lost by that.

    Attributes
    ----------
    rows : ndarray of int64
        Of the graph: the sends.
    source, target, size, start_ps : ndarray of int64
    times : MessageTimes
        Of all sends, in the order of the graph.
    not_expressed : list of str
    order : ndarray of int64
        Of the graph's nodes.
    """

    def __init__(
        self, graph: MessageGraph, topology: Infra | None, bandwidth: str | int, latency: str | int
    ) -> None:
        self.order: NDArray[np.int64] = checked_order(graph)
        network = flat_network_of(topology, graph)
        self.times: MessageTimes = message_times(
            graph, network, bandwidth=bandwidth, latency=latency, order=self.order
        )
        nodes, sends = graph.nodes, graph.sends
        between = np.flatnonzero(nodes["rank"][sends] != nodes["peer"][sends])
        by_start = between[np.argsort(self.times.start_ps[between], kind="stable")]
        self.rows = sends[by_start]
        columns = [nodes[name][self.rows] for name in ("rank", "peer", "bytes")]
        self.source: NDArray[np.int64] = columns[0]
        self.target: NDArray[np.int64] = columns[1]
        self.size: NDArray[np.int64] = columns[2]
        self.start_ps = self.times.start_ps[by_start]
        self.not_expressed: list[str] = [
            *counted(len(sends) - len(between), len(sends), "messages", "from a rank to itself: not sent"),
        ]
        self._graph = graph

    def __len__(self) -> int:
        """Number of messages."""
        return len(self.rows)

    def by_the_clock(self, what: str) -> None:
        """Report that messages wait for the clock and not for each other."""
        graph = self._graph
        computations = int((graph.nodes["kind"] == COMPUTE).sum())
        rest = f"{what} starts messages by the clock; {self.times.remark}"
        self.not_expressed += counted(len(graph.deps), len(graph.deps), "dependencies", rest)
        self.not_expressed += counted(
            computations, computations, "computations", "messages start later by them"
        )
        self.not_expressed += labelled(graph, "labels have no place")

    def at_least_one_byte(self, what: str) -> None:
        """Set messages without bytes to one byte, and report it."""
        empty = self.size == 0
        self.not_expressed += counted(
            int(empty.sum()), len(self), "messages", f"of no bytes, which {what} cannot send: one byte"
        )
        self.size = np.maximum(self.size, 1)

    def refuse_above(self, most: int, what: str) -> None:
        """Check that no message has more bytes."""
        large = np.flatnonzero(self.size > most)
        if len(large):
            size = int(self.size[large[0]])
            raise InputError(
                f"a message of {size:,} bytes from rank {self.source[large[0]]} to {self.target[large[0]]}",
                where=self._graph.title,
                hint=f"{what} has messages of up to {most:,} bytes: record with more chunks",
            )


def timed_messages(
    graph: MessageGraph, topology: Infra | None, bandwidth: str | int, latency: str | int
) -> TimedMessages:
    """Check a graph and give its messages with their starts.

    Raises
    ------
    InputError
        The graph has a cycle or unmatched messages, or the topology has not all ranks.
    """
    return TimedMessages(graph, topology, bandwidth, latency)


class WaitingNodes:
    """Nodes as rows of a list in which each waits for rows by number.

    Sends and computations are rows. A receive that waits for nothing ends with its send, and is none; other
    receives are rows that wait for their send, too.

    Attributes
    ----------
    listed : ndarray of int64
        Rows of the graph, in an order in which they can begin.
    kind : ndarray of int64
        Of all nodes.
    number : ndarray of int64
        Of all nodes, the row of the list that others wait for: at first its position in ``listed``.
    """

    def __init__(self, graph: MessageGraph, order: NDArray[np.int64]) -> None:
        self._graph = graph
        self.kind: NDArray[np.int64] = np.ascontiguousarray(graph.nodes["kind"])
        self._degree = np.diff(graph.dep_start)
        self._alias = (self.kind == RECV) & (self._degree == 0)
        self.listed = order[~self._alias[order]]
        self.number: NDArray[np.int64] = np.full(len(graph.nodes), -1)
        self.give_numbers(np.arange(len(self.listed)))

    def give_numbers(self, numbers: NDArray[np.int64]) -> None:
        """Set which row of the list others wait for, for each node of ``listed``."""
        self.number[self.listed] = numbers
        self.number[self._alias] = self.number[self._graph.nodes["match"][self._alias]]

    def parts(
        self, rows: NDArray[np.int64], heads: NDArray[np.int64], template: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return values and templates of the text of some rows: of each its head and what it waits for.

        Templates 2 and 3 are for the first and the other rows that it waits for, 4 is for the end.

        Parameters
        ----------
        rows : ndarray of int64
            Nodes.
        heads : ndarray of int64, shape (rows, columns)
        template : ndarray of int64
            Of each head.
        """
        graph, late = self._graph, self.kind[rows] == RECV
        lengths = self._degree[rows]
        pieces = lengths + late + 2
        begin = np.cumsum(pieces) - pieces
        values = np.zeros((int(pieces.sum()), heads.shape[1]), np.int64)
        which = np.full(len(values), 3)
        values[begin] = heads
        which[begin], which[begin + pieces - 1] = template, 4
        which[begin[pieces > 2] + 1] = 2
        values[begin[late] + 1, 0] = self.number[graph.nodes["match"][rows[late]]]
        owner = np.repeat(np.arange(len(rows)), lengths)
        nth = numbered(lengths)
        dep = graph.deps[graph.dep_start[rows][owner] + nth]
        values[begin[owner] + 1 + late[owner] + nth, 0] = self.number[dep]
        return values, which


def beside(path: Path, ending: str) -> Path:
    """Name a file beside another one.

    Examples
    --------
    >>> beside(Path("step.txt"), ".topology.txt").name
    'step.topology.txt'
    """
    return path.with_name(f"{path.stem}{ending}")
