"""Event queue for many events at the same time: in order of time, and at one time in the order queued.

Simulators of symmetric machines queue thousands of events for the same time. Here each
timestep has a list of its own, found by its time in a hash table, and only timesteps are in
a heap: an event costs the same however many there are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .jit import Records, kernel

__all__ = [
    "NEVER", "PENDING", "TIMESTEP", "TIMESTEPS", "bucket_of", "next_event", "next_time", "put_event",
    "time_after",
]  # fmt: skip

NEVER: Final = 2**61 // 1000
"""No event happens at this time or later: 26 days in nanoseconds, as picoseconds a quarter of an int64."""

TIMESTEPS = np.dtype(
    [
        ("now", "i8"),  # the time of the event that was taken last
        ("open", "i8"),  # the timestep under way, -1 before the first
        ("heaped", "i8"),  # timesteps to come
        ("free_timestep", "i8"),  # heads of the lists of unused rows
        ("free_event", "i8"),
        ("events_left", "i8"),  # unused rows
        ("latest", "i8"),  # the timestep that an event was put into last, -1 where it is over
        ("turns", "i8"),  # how often the time has moved
    ]
)
"""The one row about the whole queue."""

TIMESTEP = np.dtype(
    [
        ("time", "i8"),
        ("head", "i8"),  # the first and the last event of its list
        ("tail", "i8"),
        ("next", "i8"),  # of the same bucket, or of the unused ones
        ("heap", "i8"),  # not of this timestep: the heap's element of this number is this timestep
        ("bucket", "i8"),  # not of this timestep either: the first timestep in the bucket of this number
    ]
)
"""One timestep to come; the heap and the buckets have a column each."""

PENDING = np.dtype([("what", "i8"), ("next", "i8")])
"""One event to come: what it is means something only to the caller."""

_MIX: Final = 0x5BD1E995
_LOW: Final = 0x7FFFFFFF


@kernel
def bucket_of(time: int, count: int) -> int:
    """Return the bucket of a time: the count is a power of two."""
    return int((((time & _LOW) * _MIX) >> 15) & (count - 1))


@kernel
def time_after(queue: Records, delay: int) -> int:
    """Return the time that is so much later than now, at most ``NEVER``."""
    time = queue[0].now + delay
    return NEVER if time >= NEVER or time < queue[0].now else int(time)


@kernel(inline=False)
def _new_timestep(queue: Records, timesteps: Records, time: int, bucket: int) -> int:
    """Add a timestep to its bucket and to the heap."""
    row = queue[0].free_timestep
    queue[0].free_timestep = timesteps[row].next
    timesteps[row].time = time
    timesteps[row].head = -1
    timesteps[row].tail = -1
    timesteps[row].next = timesteps[bucket].bucket
    timesteps[bucket].bucket = row
    hole = queue[0].heaped
    queue[0].heaped = hole + 1
    while hole > 0:
        parent = (hole - 1) >> 1
        other = timesteps[parent].heap
        if timesteps[other].time < time:
            break
        timesteps[hole].heap = other
        hole = parent
    timesteps[hole].heap = row
    return int(row)


@kernel(inline=False)
def put_event(queue: Records, timesteps: Records, pending: Records, time: int, what: int) -> None:
    """Queue an event, not before now.

    Parameters
    ----------
    queue : recarray of TIMESTEPS
        One row.
    timesteps : recarray of TIMESTEP
        A power of two of them, as many as there are rows for events.
    pending : recarray of PENDING
        The caller sees to it that one is unused.
    time : int
        When it happens; what does not happen before ``NEVER`` stays in the queue.
    what : int
        What happens.
    """
    row = queue[0].latest
    if row < 0 or timesteps[row].time != time:
        if time >= NEVER or time < queue[0].now:  # a sum that does not fit is negative
            time = NEVER
        bucket = bucket_of(time, len(timesteps))
        row = timesteps[bucket].bucket
        while row >= 0 and timesteps[row].time != time:
            row = timesteps[row].next
        if row < 0:
            row = _new_timestep(queue, timesteps, time, bucket)
        queue[0].latest = row
    event = queue[0].free_event
    queue[0].free_event = pending[event].next
    queue[0].events_left -= 1
    pending[event].what = what
    pending[event].next = -1
    if timesteps[row].tail >= 0:
        pending[timesteps[row].tail].next = event
    else:
        timesteps[row].head = event
    timesteps[row].tail = event


@kernel
def _close(queue: Records, timesteps: Records, row: int) -> None:
    """Take a timestep out of its bucket."""
    bucket = bucket_of(timesteps[row].time, len(timesteps))
    if timesteps[bucket].bucket == row:
        timesteps[bucket].bucket = timesteps[row].next
    else:
        before = timesteps[bucket].bucket
        while timesteps[before].next != row:
            before = timesteps[before].next
        timesteps[before].next = timesteps[row].next
    timesteps[row].next = queue[0].free_timestep
    queue[0].free_timestep = row
    if queue[0].latest == row:
        queue[0].latest = -1


@kernel
def _first_timestep(queue: Records, timesteps: Records) -> int:
    """Take the earliest timestep off the heap."""
    first = timesteps[0].heap
    last = queue[0].heaped - 1
    queue[0].heaped = last
    moved = timesteps[last].heap
    time = timesteps[moved].time
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= last:
            break
        if (
            child + 1 < last
            and timesteps[timesteps[child + 1].heap].time < timesteps[timesteps[child].heap].time
        ):
            child += 1
        if timesteps[timesteps[child].heap].time >= time:
            break
        timesteps[hole].heap = timesteps[child].heap
        hole = child
    timesteps[hole].heap = moved
    return int(first)


@kernel(inline=False)
def next_time(queue: Records, timesteps: Records) -> int:
    """Return the time of the next event, which stays where it is; -1 where none is left."""
    row = queue[0].open
    if row >= 0 and timesteps[row].head >= 0:
        return int(queue[0].now)
    return int(timesteps[timesteps[0].heap].time) if queue[0].heaped > 0 else -1


@kernel
def next_event(queue: Records, timesteps: Records, pending: Records) -> int:
    """Take the next event and move the time to it; returns what it is, -1 for none before ``NEVER``."""
    row = queue[0].open
    if row < 0 or timesteps[row].head < 0:
        if queue[0].heaped == 0:
            return -1  # and nothing is changed, so that having asked makes no difference
        if timesteps[timesteps[0].heap].time >= NEVER:
            return -1
        if row >= 0:
            _close(queue, timesteps, row)
            queue[0].open = -1
        row = _first_timestep(queue, timesteps)
        queue[0].open = row
        if timesteps[row].time != queue[0].now:
            queue[0].turns += 1
        queue[0].now = timesteps[row].time
    event = timesteps[row].head
    following = pending[event].next
    timesteps[row].head = following
    if following < 0:
        timesteps[row].tail = -1
    pending[event].next = queue[0].free_event
    queue[0].free_event = event
    queue[0].events_left += 1
    return int(pending[event].what)
