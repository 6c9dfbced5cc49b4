"""Events in the order of time, and at one instant in the order queued.

Simulators of symmetric machines queue thousands of events for the same instant. Here each
instant has a list of its own, found by its time in a hash table, and only instants stand in
a heap: an event costs the same however many there are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .jit import Records, kernel, kernel_apart

__all__ = ["INSTANT", "INSTANTS", "PENDING", "bucket_of", "next_event", "next_time", "put_event"]

INSTANTS = np.dtype(
    [
        ("now", "i8"),  # the time of the event that was taken last
        ("open", "i8"),  # the instant under way, -1 before the first
        ("heaped", "i8"),  # instants to come
        ("free_instant", "i8"),  # heads of the lists of unused rows
        ("free_event", "i8"),
        ("events_left", "i8"),  # unused rows
        ("latest", "i8"),  # the instant that an event was put into last, -1 where it is over
        ("turns", "i8"),  # how often the time has moved
    ]
)
"""The one row about the whole queue."""

INSTANT = np.dtype(
    [
        ("time", "i8"),
        ("head", "i8"),  # the first and the last event of its list
        ("tail", "i8"),
        ("next", "i8"),  # of the same bucket, or of the unused ones
        ("heap", "i8"),  # not of this instant: the heap's element of this number is this instant
        ("bucket", "i8"),  # not of this instant either: the first instant in the bucket of this number
    ]
)
"""One instant to come; the heap and the buckets have a column each."""

PENDING = np.dtype([("what", "i8"), ("next", "i8")])
"""One event to come: what it is means something only to the caller."""

_MIX: Final = 0x5BD1E995
_LOW: Final = 0x7FFFFFFF


@kernel
def bucket_of(time: int, count: int) -> int:
    """Give the bucket of a time: the count is a power of two."""
    return int((((time & _LOW) * _MIX) >> 15) & (count - 1))


@kernel_apart
def _new_instant(queue: Records, instants: Records, time: int, bucket: int) -> int:
    """Add an instant to its bucket and to the heap."""
    row = queue[0].free_instant
    queue[0].free_instant = instants[row].next
    instants[row].time = time
    instants[row].head = -1
    instants[row].tail = -1
    instants[row].next = instants[bucket].bucket
    instants[bucket].bucket = row
    hole = queue[0].heaped
    queue[0].heaped = hole + 1
    while hole > 0:
        parent = (hole - 1) >> 1
        other = instants[parent].heap
        if instants[other].time < time:
            break
        instants[hole].heap = other
        hole = parent
    instants[hole].heap = row
    return int(row)


@kernel_apart
def put_event(queue: Records, instants: Records, pending: Records, time: int, what: int) -> None:
    """Queue an event, not before now.

    Parameters
    ----------
    queue : recarray of INSTANTS
        One row.
    instants : recarray of INSTANT
        A power of two of them, as many as there are rows for events.
    pending : recarray of PENDING
        The caller sees to it that one is unused.
    time : int
        When it happens.
    what : int
        What happens.
    """
    row = queue[0].latest
    if row < 0 or instants[row].time != time:
        bucket = bucket_of(time, len(instants))
        row = instants[bucket].bucket
        while row >= 0 and instants[row].time != time:
            row = instants[row].next
        if row < 0:
            row = _new_instant(queue, instants, time, bucket)
        queue[0].latest = row
    event = queue[0].free_event
    queue[0].free_event = pending[event].next
    queue[0].events_left -= 1
    pending[event].what = what
    pending[event].next = -1
    if instants[row].tail >= 0:
        pending[instants[row].tail].next = event
    else:
        instants[row].head = event
    instants[row].tail = event


@kernel
def _close(queue: Records, instants: Records, row: int) -> None:
    """Take an instant out of its bucket."""
    bucket = bucket_of(instants[row].time, len(instants))
    if instants[bucket].bucket == row:
        instants[bucket].bucket = instants[row].next
    else:
        before = instants[bucket].bucket
        while instants[before].next != row:
            before = instants[before].next
        instants[before].next = instants[row].next
    instants[row].next = queue[0].free_instant
    queue[0].free_instant = row
    if queue[0].latest == row:
        queue[0].latest = -1


@kernel
def _first_instant(queue: Records, instants: Records) -> int:
    """Take the earliest instant off the heap."""
    first = instants[0].heap
    last = queue[0].heaped - 1
    queue[0].heaped = last
    moved = instants[last].heap
    time = instants[moved].time
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= last:
            break
        if child + 1 < last and instants[instants[child + 1].heap].time < instants[instants[child].heap].time:
            child += 1
        if instants[instants[child].heap].time >= time:
            break
        instants[hole].heap = instants[child].heap
        hole = child
    instants[hole].heap = moved
    return int(first)


@kernel_apart
def next_time(queue: Records, instants: Records) -> int:
    """Give the time of the next event, which stays where it is; -1 where none is left."""
    row = queue[0].open
    if row >= 0 and instants[row].head >= 0:
        return int(queue[0].now)
    return int(instants[instants[0].heap].time) if queue[0].heaped > 0 else -1


@kernel
def next_event(queue: Records, instants: Records, pending: Records) -> int:
    """Take the next event and move the time to it; returns what it is, -1 where none is left."""
    row = queue[0].open
    if row < 0 or instants[row].head < 0:
        if queue[0].heaped == 0:
            return -1  # and nothing is changed, so that having asked makes no difference
        if row >= 0:
            _close(queue, instants, row)
            queue[0].open = -1
        row = _first_instant(queue, instants)
        queue[0].open = row
        if instants[row].time != queue[0].now:
            queue[0].turns += 1
        queue[0].now = instants[row].time
    event = instants[row].head
    following = pending[event].next
    instants[row].head = following
    if following < 0:
        instants[row].tail = -1
    pending[event].next = queue[0].free_event
    queue[0].free_event = event
    queue[0].events_left += 1
    return int(pending[event].what)
