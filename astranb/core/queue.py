"""The event queue: a flat 4-ary heap of (time, sequence, kind, argument).

Ties are broken by the sequence number alone, which counts pushes, so that the order of
events is a function of the inputs and of nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .jit import kernel, kernel_apart

if TYPE_CHECKING:
    from .jit import Records

__all__ = ["EVENT", "close_hole", "new_queue", "pop", "push", "schedule"]

EVENT = np.dtype([("time_ps", "i8"), ("seq", "i8"), ("kind", "i4"), ("arg", "i4")])
"""One entry of the heap (24 bytes)."""


def new_queue(capacity: int) -> Records:
    """Allocate an empty heap.

    Parameters
    ----------
    capacity : int
        Entries it can hold.

    Returns
    -------
    recarray of EVENT, shape (capacity,)

    Examples
    --------
    >>> heap = new_queue(4)
    >>> size = push(heap, 0, 20, 0, 1, 7)
    >>> size = push(heap, size, 10, 1, 1, 8)
    >>> int(heap[0].time_ps), pop(heap, size)
    (10, 1)
    """
    return np.zeros(capacity, EVENT).view(np.recarray)


@kernel
def push(heap: Records, size: int, time_ps: int, seq: int, kind: int, arg: int) -> int:
    """Add an event; returns the new size. The caller sees to the capacity."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 2
        # A new event has the highest sequence number so far: equal times never pass it.
        if heap[parent].time_ps <= time_ps:
            break
        heap[hole].time_ps = heap[parent].time_ps
        heap[hole].seq = heap[parent].seq
        heap[hole].kind = heap[parent].kind
        heap[hole].arg = heap[parent].arg
        hole = parent
    heap[hole].time_ps = time_ps
    heap[hole].seq = seq
    heap[hole].kind = kind
    heap[hole].arg = arg
    return size + 1


@kernel
def pop(heap: Records, size: int) -> int:
    """Remove the first event (``heap[0]``, read it before); returns the new size."""
    last = size - 1
    sift(heap, last, heap[last].time_ps, heap[last].seq, heap[last].kind, heap[last].arg)
    return last


@kernel
def sift(heap: Records, size: int, time_ps: int, seq: int, kind: int, arg: int) -> None:
    """Put an event in the place of the first one, and down to where it belongs among ``size``."""
    hole = 0
    while True:
        child = 4 * hole + 1
        if child >= size:
            break
        best = child
        best_time = heap[child].time_ps
        best_seq = heap[child].seq
        for other in range(child + 1, min(child + 4, size)):
            t = heap[other].time_ps
            if t < best_time or (t == best_time and heap[other].seq < best_seq):
                best, best_time, best_seq = other, t, heap[other].seq
        if best_time > time_ps or (best_time == time_ps and best_seq > seq):
            break
        heap[hole].time_ps = best_time
        heap[hole].seq = best_seq
        heap[hole].kind = heap[best].kind
        heap[hole].arg = heap[best].arg
        hole = best
    heap[hole].time_ps = time_ps
    heap[hole].seq = seq
    heap[hole].kind = kind
    heap[hole].arg = arg


@kernel_apart
def schedule(clock: Records, heap: Records, time_ps: int, kind: int, arg: int) -> None:
    """Queue an event.

    While an event is handled its place at the top stays open (``clock.hole``): the first
    event that it brings forth takes it, one way down the heap instead of two.
    """
    if clock[0].hole == 1:
        clock[0].hole = 0
        sift(heap, clock[0].queued, time_ps, clock[0].seq, kind, arg)
    else:
        clock[0].queued = push(heap, clock[0].queued, time_ps, clock[0].seq, kind, arg)
    clock[0].seq += 1


@kernel
def close_hole(clock: Records, heap: Records) -> None:
    """Remove the event that was handled, where no other took its place."""
    if clock[0].hole == 1:
        clock[0].hole = 0
        clock[0].queued = pop(heap, clock[0].queued)
