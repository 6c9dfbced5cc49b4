"""Events to come: a heap by time, and at one instant by what ASTRA-sim 1.0 would do first."""

from __future__ import annotations

from astranb.core.jit import kernel

from ._tables import AT_ONCE, Machine

__all__ = ["put", "take"]


@kernel
def _earlier(m: Machine, one: int, other: int) -> bool:
    """Say which of two events comes first."""
    a = m.events[one]
    b = m.events[other]
    if a.time_ps != b.time_ps:
        return bool(a.time_ps < b.time_ps)
    if a.rank != b.rank:
        return bool(a.rank < b.rank)
    # Of two phases the one whose last act began first.
    if a.last_ps != b.last_ps:
        return bool(a.last_ps > b.last_ps)
    if a.message_ps != b.message_ps:
        return bool(a.message_ps > b.message_ps)
    if a.queue != b.queue:
        return bool(a.queue < b.queue)
    return bool(a.turn < b.turn)


@kernel(inline=False)
def put(m: Machine, event: int, delay_ps: int, rank: int, last_ps: int, message_ps: int, queue: int) -> None:
    """Let an event happen."""
    e = m.events[event]
    e.time_ps = m.clock[0].now_ps + delay_ps
    e.rank = rank
    if delay_ps == 0:
        e.rank = AT_ONCE
    e.last_ps = last_ps
    e.message_ps = message_ps
    e.queue = queue if m.clock[0].by_queue == 1 else 0
    e.turn = m.clock[0].puts
    m.clock[0].puts += 1
    hole = m.clock[0].heaped
    m.clock[0].heaped += 1
    while hole > 0:
        parent = (hole - 1) >> 1
        if not _earlier(m, event, m.events[parent].heap):
            break
        m.events[hole].heap = m.events[parent].heap
        hole = parent
    m.events[hole].heap = event


@kernel
def take(m: Machine) -> int:
    """Take the first event."""
    first = m.events[0].heap
    count = m.clock[0].heaped - 1
    m.clock[0].heaped = count
    moved = m.events[count].heap
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= count:
            break
        if child + 1 < count and _earlier(m, m.events[child + 1].heap, m.events[child].heap):
            child += 1
        if not _earlier(m, m.events[child].heap, moved):
            break
        m.events[hole].heap = m.events[child].heap
        hole = child
    m.events[hole].heap = moved
    return int(first)
