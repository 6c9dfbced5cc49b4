"""Explains why a run cannot continue: which ranks wait, in which operation, and for which rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from astranb.core.timesteps import NEVER
from astranb.workload.astrasim2 import COLLECTIVE_NAMES

from . import tables as t

__all__ = ["explain_deadlock", "explain_too_late"]

_NAMES: Final = {number: name for name, number in COLLECTIVE_NAMES.items()}
_KINDS: Final = {
    t.COMPUTE: "computation",
    t.MEMORY: "memory access",
    t.REPLAY: "recorded operation",
    t.DELAY: "delay",
    t.SEND: "send",
    t.RECV: "receive",
}
_DAY_NS: Final = 24 * 3600 * 10**9
_MOST_RANKS: Final = 8
"""Ranks of a chain of waits that are named."""


def explain_deadlock(m: t.MessageMachine) -> str:
    """Count the ranks that wait, and follow the waits from the first one to a cycle or an end.

    Parameters
    ----------
    m : Machine
        No event is left, and an NPU is not done.

    Returns
    -------
    str
        One line: ``2 of 4 ranks never end; rank 0 waits in all_reduce #2 of 1024 bytes; rank 1 …``.
    """
    waiting = np.flatnonzero(m.npus.end_ns < 0)
    text = [f"{len(waiting)} of {len(m.npus)} ranks never end"]
    seen: list[int] = []
    rank: int | None = int(waiting[0])
    while rank is not None and rank not in seen and len(seen) < _MOST_RANKS:
        seen.append(rank)
        text.append(f"rank {rank} {_status(m, rank)}")
        rank, why = _waits_for(m, rank)
        if why:
            text.append(why)
    if rank is not None and rank in seen:
        cycle = [*seen[seen.index(rank) :], rank]
        if len(cycle) > 2:
            text.append("a cycle of ranks: " + " -> ".join(map(str, cycle)))
    elif rank is not None:
        text.append("and so on")
    return "; ".join(text)


def explain_too_late(m: t.MessageMachine) -> str:
    """Name the operation that would end later than time is counted.

    Parameters
    ----------
    m : Machine
        No event is left before ``NEVER``.

    Returns
    -------
    str
        One line: ``rank 0, operation 3 (computation) ends after more than 26 days of simulated time``.
    """
    late = [row for row in (*_late_timers(m), *_late_messages(m)) if row >= 0]
    what = "an operation"
    if late:
        row = min(late)
        o = m.operations[row]
        own = (m.operations.npu[:row] == o.npu) & (m.operations.owner[:row] < 0)
        kind = _NAMES[int(o.collective)] if o.kind == t.COLLECTIVE else _KINDS[int(o.kind)]
        size = f" of {int(o.bytes)} bytes" if o.bytes else ""
        what = f"rank {int(o.npu)}, operation {int(own.sum())} ({kind}{size})"
    return f"{what} ends after more than {NEVER // _DAY_NS} days of simulated time"


def _late_timers(m: t.MessageMachine) -> Iterator[int]:
    """Yield the operations of timers that never expire."""
    for first in m.npus.timers.tolist():
        row = first
        while row >= 0:
            one = m.timers[row]
            if one.time >= NEVER:
                if one.kind in (t.BUNDLE, t.BUNDLE_REDUCED, t.SWITCH_DONE):
                    yield int(m.streams[one.arg].operation)
                elif one.kind not in (t.BUS_SENT, t.BUS_RECEIVED, t.BUS_PROCESSED):
                    yield int(one.arg)
            row = int(one.later)


def _late_messages(m: t.MessageMachine) -> Iterator[int]:
    """Yield the operations of messages that never arrive."""
    mask = (1 << t.KIND_BITS) - 1
    for step in m.timesteps.heap[: int(m.queue[0].heaped)].tolist():
        event = int(m.timesteps[step].head) if m.timesteps[step].time >= NEVER else -1
        while event >= 0:
            what = int(m.pending[event].what)
            if what & mask == t.HOP:
                message = m.messages[what >> t.KIND_BITS]
                handler = int(message.sender or message.receiver)
                who, row = handler & mask, handler >> t.KIND_BITS
                if who in (t.SENDING, t.RECEIVING):  # a notice about a message
                    handler = int(m.messages[row].sender)
                    who, row = handler & mask, handler >> t.KIND_BITS
                if handler:
                    yield int(m.streams[row].operation) if who in (t.STREAM, t.REDUCING) else row
            event = int(m.pending[event].next)


def _current(m: t.MessageMachine, rank: int) -> int | None:
    """Return the operation in which a rank waits: the first that has begun and not ended."""
    o = m.operations
    rows = np.flatnonzero((o.npu == rank) & (o.start_ns >= 0) & (o.end_ns < 0) & (o.owner < 0))
    if not len(rows):
        return None
    # A receive of a custom collective is more specific than the collective.
    inner = np.flatnonzero((o.npu == rank) & (o.owner == rows[0]) & (o.waits < 0) & (o.end_ns < 0))
    inner = inner[o.kind[inner] == t.RECV]
    return int(inner[0]) if len(inner) else int(rows[0])


def _number(m: t.MessageMachine, operation: int) -> int:
    """Return the number of a collective among those of its group on its rank, from 1."""
    o = m.operations
    row = o[operation]
    same = (o.npu == row.npu) & (o.group == row.group) & (o.kind == t.COLLECTIVE) & (o.owner < 0)
    return int((same & (o.end_ns >= 0)).sum()) + 1


def _status(m: t.MessageMachine, rank: int) -> str:
    """Describe what a rank does."""
    if m.npus[rank].end_ns >= 0:
        return "has ended"
    operation = _current(m, rank)
    if operation is None:
        return "has operations that wait for one another"
    o = m.operations[operation]
    if o.kind == t.COLLECTIVE:
        group = "" if o.group < 0 else f" of {int(m.groups[o.group].count)} ranks"
        return f"waits in {_NAMES[int(o.collective)]} #{_number(m, operation)} of {int(o.bytes)} bytes{group}"
    if o.kind in (t.SEND, t.RECV):
        direction = "send to" if o.kind == t.SEND else "receive from"
        return f"waits in a {direction} rank {int(o.peer)}, tag {int(o.tag)}, of {int(o.bytes)} bytes"
    return f"waits in a {_KINDS[int(o.kind)]}"


def _waits_for(m: t.MessageMachine, rank: int) -> tuple[int | None, str]:
    """Return the rank that one waits for, None at the end of the chain, and further text."""
    operation = _current(m, rank)
    if operation is None or m.npus[rank].end_ns >= 0:
        return None, ""
    o = m.operations[operation]
    if o.kind in (t.SEND, t.RECV):
        return int(o.peer), _unclaimed(m, int(o.peer), rank)
    if o.kind != t.COLLECTIVE:
        return None, ""
    number = _number(m, operation)
    members = range(len(m.npus))
    if o.group >= 0:
        group = m.groups[o.group]
        members = m.members.value[group.first : group.first + group.count].tolist()
    others = []
    for other in members:
        theirs = _current(m, other)
        if m.npus[other].end_ns >= 0 or theirs is None or m.operations[theirs].kind != t.COLLECTIVE:
            if _done(m, other, int(o.group)) < number:
                return other, ""
        elif m.operations[theirs].group != o.group:
            if _done(m, other, int(o.group)) < number:
                others.append(other)
        else:
            w = m.operations[theirs]
            if (w.collective, w.bytes) != (o.collective, o.bytes) or _number(m, theirs) < number:
                others.append(other)
    if others:
        return others[0], ""
    return None, "every rank is in it, and its algorithm waits for a message that no rank sends"


def _done(m: t.MessageMachine, rank: int, group: int) -> int:
    """Count the collectives of a group that a rank has ended."""
    o = m.operations
    own = (o.npu == rank) & (o.group == group) & (o.kind == t.COLLECTIVE) & (o.owner < 0)
    return int((own & (o.end_ns >= 0)).sum())


def _unclaimed(m: t.MessageMachine, source: int, target: int) -> str:
    """Describe a message that a rank has sent to another and that matches no receive."""
    for bucket in m.buckets[m.buckets.head >= 0]:
        row = int(bucket.head)
        while row >= 0:
            message = m.messages[row]
            between = (message.src, message.dst) == (source, target)
            if between and message.sent > 0 and message.tag < t.NATIVE_TAGS:
                return f"rank {source} has sent it {int(message.bytes)} bytes with tag {int(message.tag)}"
            row = int(message.next)
    return ""
