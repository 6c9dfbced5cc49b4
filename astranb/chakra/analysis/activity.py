"""Activity of a rank over time: each instant is attributed to exactly one node."""

from __future__ import annotations

import heapq
import re
from typing import Final, NamedTuple

import numpy as np

from astranb.chakra.recording import OUTSIDE
from astranb.chakra.traces import Ints, NodeType, Trace

from .timeline import Times

__all__ = ["ACTIVITIES", "RankTime", "activities", "covered_ns", "rank_time"]

ACTIVITIES: Final = ("compute", "communication", "memory", "waiting", "host")
"""Of several at a moment the first one counts: communication beside a computation is not exposed."""

COMPUTE, COMMUNICATION, MEMORY, WAITING, HOST = range(5)
NOTHING, BEGINS = -1, -2  # metadata, and a pause; that a rank begins later than others
_COPIES: Final = re.compile("mem(cpy|set)", re.IGNORECASE)
_OUTSIDE: Final = re.compile(rf"{OUTSIDE}(: ProfilerStep.*)?")
_BEGINS: Final = re.compile(r"rank \d+ begins")


class RankTime(NamedTuple):
    """Time of a rank by activity.

    Attributes
    ----------
    activity : array of int64
        Of each node, as an index into :data:`ACTIVITIES`; negative for one that takes no time of its own.
    row, waits, from_ns, to_ns : array of int64
        Which node counts from when to when, and whether it waits for other ranks (1): of each segment.
    own_ns, waiting_ns : array of int64
        For how long it is each node that counts: while it works, and while it waits for other ranks. Their
        sum and the idle time are the time of the rank.
    """

    activity: Ints
    row: Ints
    waits: Ints
    from_ns: Ints
    to_ns: Ints
    own_ns: Ints
    waiting_ns: Ints

    def sums(self) -> list[int]:
        """The time of each of :data:`ACTIVITIES`, in ns."""
        found = [int(self.own_ns[self.activity == one].sum()) for one in range(len(ACTIVITIES))]
        found[WAITING] = int(self.waiting_ns.sum())
        return found

    @property
    def shown(self) -> Ints:
        """The activity of each segment."""
        return np.where(self.waits > 0, WAITING, self.activity[self.row])


def activities(trace: Trace) -> Ints:
    """Return the activity of each node, as an index into :data:`ACTIVITIES`; negative for none of them.

    Operations of the host compute only where no device does.
    """
    kinds = trace.type
    values = trace.names.values
    copies, outside, begins = (
        np.array([*[bool(test(one or "")) for one in values], False])[trace.names.index]
        for test in (_COPIES.match, _OUTSIDE.fullmatch, _BEGINS.fullmatch)
    )
    idle = trace.is_idle
    messages = (kinds >= NodeType.COMM_SEND) & (kinds <= NodeType.COMM_COLL)
    loads = (kinds == NodeType.MEM_LOAD) | (kinds == NodeType.MEM_STORE)
    computes = kinds == NodeType.COMP
    on_device = computes & ~trace.is_cpu_op
    of_host = computes & trace.is_cpu_op
    has_device = on_device.any() or (messages & trace.has("stream")).any()
    host = of_host if has_device else of_host & outside
    found = np.select(
        [messages, loads | (on_device & copies), begins & of_host, idle, host, computes],
        [COMMUNICATION, MEMORY, BEGINS, NOTHING, HOST, COMPUTE],
        NOTHING,
    )
    return found.astype(np.int64)


def covered_ns(start: Ints, end: Ints) -> int:
    """Return the time that spans cover; where several overlap it counts once."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    before = np.concatenate([start[:1], end[:-1]])
    return int(np.maximum(end - np.maximum(start, before), 0).sum())


def rank_time(trace: Trace, times: Times) -> RankTime:
    """Divide the time of a rank among its nodes.

    Examples
    --------
    >>> from astranb.chakra import Node, Trace, recorded_times
    >>> nodes = [Node(0, "mm", 4, start_us=1, duration_us=4), Node(1, "sum", 7, start_us=3, duration_us=5)]
    >>> trace = Trace.of(nodes)
    >>> rank_time(trace, recorded_times(trace)).own_ns
    array([4000, 3000])
    """
    activity = activities(trace)
    row, waits, start, end = np.array(_swept(activity, times), np.int64).reshape(-1, 4).T
    spent = np.zeros((2, len(trace)), np.int64)
    np.add.at(spent, (waits, row), end - start)
    return RankTime(activity, row, waits, start, end, spent[0], spent[1])


def _swept(activity: Ints, times: Times) -> list[tuple[int, int, int, int]]:
    """Return the time away: the row of a node, whether it works (0) or waits (1), from when and to when."""
    own = times.own_ns
    works = np.flatnonzero((activity >= 0) & (times.end_ns > own) & (times.start_ns >= 0))
    waits = np.flatnonzero((activity == COMMUNICATION) & (own > times.start_ns) & (times.start_ns >= 0))
    row = np.concatenate([works, waits])
    start = np.concatenate([own[works], times.start_ns[waits]])
    order = np.argsort(start, kind="stable")
    state = np.concatenate([activity[works], np.full(len(waits), WAITING)])[order].tolist()
    end = np.concatenate([times.end_ns[works], own[waits]])[order].tolist()
    starts, rows = start[order].tolist(), row[order].tolist()
    waiting = (order >= len(works)).astype(np.int64).tolist()
    open_: list[tuple[int, int]] = []
    found: list[tuple[int, int, int, int]] = []
    at = now = 0
    while at < len(starts) or open_:
        if not open_:
            now = starts[at]
        while at < len(starts) and starts[at] <= now:
            heapq.heappush(open_, (state[at], at))
            at += 1
        one = open_[0][1]
        if end[one] <= now:
            heapq.heappop(open_)
            continue
        until = min(end[one], starts[at]) if at < len(starts) else end[one]
        found.append((rows[one], waiting[one], now, until))
        now = until
    return found
