"""Start times of a graph's messages, for simulators that start messages by the clock."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from astranb.core.entry import Entry
from astranb.core.errors import InputError
from astranb.core.jit import kernel
from astranb.core.ticks import MAX_RATE_BPS, transfer_ps
from astranb.core.units import bandwidth_Bps, format_bandwidth, format_time, time_ps
from astranb.infragraph import FlatNetwork, Infra, flattened
from astranb.workload.astrasim2 import RECV

from .graph import MessageGraph
from .order import node_order

__all__ = ["MessageTimes", "flat_network_of", "message_times"]

_Ints = NDArray[np.int64]


@kernel
def begin_nodes(
    dep_start: _Ints,
    deps: _Ints,
    order: _Ints,
    sent: _Ints,
    size: _Ints,
    rate_Bps: _Ints,  # noqa: N803 - unit in the name
    takes_ps: _Ints,
    begin_ps: _Ints,
    end_ps: _Ints,
) -> int:
    """Compute when each node begins and ends at the earliest; ``sent`` is the send of each receive, else -1.

    ``takes_ps`` has durations, and of messages with a rate their latency, to which the transfer is added.
    """
    for place in range(len(order)):
        row = order[place]
        begin = 0
        for dep in range(dep_start[row], dep_start[row + 1]):
            begin = max(begin, end_ps[deps[dep]])
        begin_ps[row] = begin
        if rate_Bps[row] > 0:
            takes_ps[row] += transfer_ps(size[row], rate_Bps[row])
        if sent[row] >= 0:
            end_ps[row] = max(begin, end_ps[sent[row]])
        else:
            end_ps[row] = begin + takes_ps[row]
    return 0


_INT: Final = np.dtype(np.int64)
_BEGIN: Final = Entry(begin_nodes, [_INT] * 9)


@dataclass(frozen=True, eq=False)
class MessageTimes:
    """Start times of messages, in the order of ``graph.sends``.

    Attributes
    ----------
    start_ps : ndarray of int64
    takes_ps : ndarray of int64
        From the start to the arrival, without congestion.
    remark : str
        Where the starts come from.
    end_ps : int
        When the last message or computation ends, without congestion.
    node_ps : ndarray of int64
        When each node of the graph begins: as recorded where that is known of it and of all messages.
    """

    start_ps: NDArray[np.int64]
    takes_ps: NDArray[np.int64]
    remark: str
    end_ps: int
    node_ps: NDArray[np.int64]


def flat_network_of(topology: Infra | None, graph: MessageGraph) -> FlatNetwork | None:
    """Return the hosts and switches of a topology; None without one.

    Raises
    ------
    InputError
        The graph has more ranks than the topology has GPUs.
    """
    if topology is None:
        return None
    network = flattened(topology.expand())
    if network.hosts < graph.ranks:
        what = f"{graph.ranks:,} ranks, but {topology.name} has {network.hosts:,} GPUs"
        raise InputError(what, where=graph.title, hint="give a topology with a GPU for each rank")
    return network


def message_times(
    graph: MessageGraph,
    network: FlatNetwork | None = None,
    *,
    bandwidth: str | int = "400 Gbps",
    latency: str | int = "1 us",
    order: NDArray[np.int64] | None = None,
) -> MessageTimes:
    """Return when each message begins: as recorded, otherwise as early as it can without congestion.

    Parameters
    ----------
    graph : MessageGraph
        The recorded times count where all messages have one.
    network : FlatNetwork, optional
        Gives bandwidth and latency between any two ranks: of the shortest paths, all of them together.
    bandwidth, latency : str or int
        Between any two ranks, without a network.
    order : ndarray of int64, optional
        As `node_order` gives it.

    Raises
    ------
    InputError
        A rank cannot reach another one, or nodes wait for one another in a cycle.

    Examples
    --------
    >>> from astranb.workload.astrasim2 import COMPUTE, SEND
    >>> relay = MessageGraph.of(3, [
    ...     {"rank": 0, "kind": SEND, "peer": 1, "bytes": 50_000},
    ...     {"rank": 1, "kind": RECV, "peer": 0, "bytes": 50_000},
    ...     {"rank": 1, "kind": COMPUTE, "duration_ps": 3_000_000},
    ...     {"rank": 1, "kind": SEND, "peer": 2, "bytes": 50_000},
    ...     {"rank": 2, "kind": RECV, "peer": 1, "bytes": 50_000},
    ... ], [(), (), (1,), (2,), ()])
    >>> times = message_times(relay, bandwidth="50 GB/s", latency="1 us")
    >>> times.start_ps.tolist(), times.end_ps
    ([0, 5000000], 7000000)
    """
    order = node_order(graph) if order is None else order
    nodes, sends = graph.nodes, graph.sends
    sources, targets, sizes = (nodes[name][sends] for name in ("rank", "peer", "bytes"))
    if network is None:
        rate, delay = bandwidth_Bps(bandwidth, where="bandwidth"), time_ps(latency, where="latency")
        rates, delays = np.full(len(sends), rate), np.full(len(sends), delay)
        between = f"{format_bandwidth(rate)} and {format_time(delay)} between any two ranks"
    else:
        rates, delays = _paths(network, sources, targets)
        between = f"the shortest paths of {network.title}"
    rows = np.zeros((3, len(nodes)), np.int64)
    takes, rate_of, size_of = rows
    apart = sources != targets
    takes[:] = nodes["duration_ps"]
    takes[sends], rate_of[sends] = delays * apart, np.minimum(rates, MAX_RATE_BPS) * apart
    size_of[sends] = sizes
    begin, end = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
    sent = np.where(nodes["kind"] == RECV, nodes["match"], -1)
    lists = np.ascontiguousarray(graph.dep_start, np.int64), np.ascontiguousarray(graph.deps, np.int64)
    _BEGIN(*lists, np.ascontiguousarray(order, np.int64), sent, size_of, rate_of, takes, begin, end)
    takes = takes[sends]
    recorded = nodes["start_ps"]
    start = recorded[sends]
    if len(sends) and (start >= 0).all():
        known = np.where(recorded >= 0, recorded, begin)
        return MessageTimes(start, takes, "starts as recorded", int((start + takes).max()), known)
    remark = f"starts without congestion, with {between}"
    return MessageTimes(begin[sends], takes, remark, int(end.max(initial=0)), begin)


def _paths(
    network: FlatNetwork, sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return bandwidth and latency from sources to targets over the shortest paths, without congestion.

    The bandwidth is what all shortest paths carry together, seen from either end: the smaller one.
    """
    ranks = network.hosts
    both = np.concatenate([sources * ranks + targets, targets * ranks + sources])
    keys, back = np.unique(both, return_inverse=True)
    found = _Reach(network)
    rates, delays = np.ones(len(keys), np.int64), np.zeros(len(keys), np.int64)
    starts = np.flatnonzero(np.diff(keys // ranks, prepend=-1)).tolist()
    for first, last in pairwise([*starts, len(keys)]):
        source, ends = int(keys[first]) // ranks, keys[first:last] % ranks
        rate, delay = found.of(source)
        lost = ends[(rate[ends] == 0) & (ends != source)]
        if len(lost):
            what = f"rank {source} cannot reach rank {int(lost[0])}"
            raise InputError(what, where=network.title, hint="connect them, or give fewer ranks")
        rates[first:last], delays[first:last] = np.maximum(rate[ends], 1), delay[ends]
    there, again = back[: len(sources)], back[len(sources) :]
    return np.minimum(rates[there], rates[again]), np.maximum(delays[there], delays[again])


class _Reach:
    """Hosts in reach of a host over shortest paths."""

    def __init__(self, network: FlatNetwork) -> None:
        flat = network.latency_in_links().with_routers()
        self.nodes, self.hosts = len(flat.names), network.hosts
        columns = np.array([link[:4] for link in flat.links], np.int64).reshape(-1, 4).T
        a, b, rate, delay = columns
        self._from, self._to = np.concatenate([a, b]), np.concatenate([b, a])
        self._rate, self._delay = np.concatenate([rate, rate]), np.concatenate([delay, delay])

    def of(self, source: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return bandwidth (0: none) and latency to every node."""
        rate, delay = np.zeros(self.nodes, np.int64), np.zeros(self.nodes, np.int64)
        level = np.full(self.nodes, -1)
        level[source] = 0
        rate[source] = self._rate[self._from == source].sum()
        step = 0
        while True:
            # Hosts forward nothing.
            inside = (level == step) & ((np.arange(self.nodes) >= self.hosts) | (step == 0))
            edges = np.flatnonzero(inside[self._from] & (level[self._to] < 0))
            if not len(edges):
                return rate, delay
            start, end = self._from[edges], self._to[edges]
            carried = np.minimum(rate[start], self._rate[edges]).astype(np.float64)
            summed = np.bincount(end, carried, self.nodes)
            reached = np.flatnonzero(summed)
            rate[reached] = np.minimum(summed[reached], 2.0**62).astype(np.int64)
            later = np.full(self.nodes, np.iinfo(np.int64).max)
            np.minimum.at(later, end, delay[start] + self._delay[edges])
            delay[reached] = later[reached]
            step += 1
            level[reached] = step
