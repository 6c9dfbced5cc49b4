"""Tables of rows that come and go: unused rows form a list, and a full table is enlarged."""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.core.timesteps import bucket_of

from . import _tables as t

__all__ = ["enlarge", "thread"]


def _chain(rows: Records, first: int) -> None:
    """Join the rows from the first one on in a list."""
    rows["next"][first:] = np.arange(first + 1, len(rows) + 1)


def thread(m: t.Machine) -> t.Machine:
    """Declare all rows of the tables unused."""
    for rows in (m.calls, m.messages, m.streams, m.pending, m.timesteps):
        _chain(rows, 0)
    m.clock.calls_left, m.clock.messages_left = len(m.calls), len(m.messages)
    m.clock.streams_left, m.queue.events_left = len(m.streams), len(m.pending)
    return m


def _longer(rows: Records, count: int, free: int) -> tuple[Records, int]:
    """Copy a table into a longer one; returns it and its first unused row, the new ones first."""
    old = len(rows)
    new = allocate(count, rows.dtype)
    new[:old] = rows
    _chain(new, old)
    new[count - 1].next = free
    return new, old


def _refill(timesteps: Records, heaped: int, opened: int) -> None:
    """Put the timesteps to come into the buckets again, whose number has changed."""
    timesteps.bucket = -1
    rows = [int(row) for row in timesteps.heap[:heaped]] + ([opened] if opened >= 0 else [])
    for row in rows:
        bucket = bucket_of(int(timesteps[row].time), len(timesteps))
        timesteps[row].next = timesteps[bucket].bucket
        timesteps[bucket].bucket = row


def enlarge(m: t.Machine, margin: int, streams: int) -> t.Machine:
    """Enlarge what is full.

    Parameters
    ----------
    m : Machine
    margin, streams : int
        How many unused rows there must be at least.

    Returns
    -------
    Machine
        With longer tables; the others are the same.
    """
    clock, queue = m.clock[0], m.queue[0]
    changed: dict[str, Records] = {}
    if clock.calls_left < margin:
        changed["calls"], clock.free_call = _longer(m.calls, 2 * len(m.calls) + margin, clock.free_call)
        clock.calls_left += len(changed["calls"]) - len(m.calls)
    if clock.messages_left < margin:
        count = 2 * len(m.messages) + margin
        changed["messages"], clock.free_message = _longer(m.messages, count, clock.free_message)
        clock.messages_left += count - len(m.messages)
    if clock.streams_left < streams:
        count = 2 * len(m.streams) + streams
        changed["streams"], clock.free_stream = _longer(m.streams, count, clock.free_stream)
        clock.streams_left += count - len(m.streams)
        phases = allocate(count * int(m.config[0].max_phases), t.PHASE)
        phases[: len(m.phases)] = m.phases
        changed["phases"] = phases
    if queue.events_left < 2 * margin:
        count = 1 << (2 * len(m.pending) + 2 * margin - 1).bit_length()
        changed["pending"], queue.free_event = _longer(m.pending, count, queue.free_event)
        queue.events_left += count - len(m.pending)
        changed["timesteps"], queue.free_timestep = _longer(m.timesteps, count, queue.free_timestep)
        _refill(changed["timesteps"], int(queue.heaped), int(queue.open))
    return m._replace(**changed)
