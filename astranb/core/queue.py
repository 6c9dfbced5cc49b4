"""The event queue: a flat 4-ary heap of (time, sequence, kind, argument).

Ties are broken by the sequence number alone, which counts pushes, so that the order of
events is a function of the inputs and of nothing else. Sequence, kind and argument share
one integer: an entry is 16 bytes, and the four children of one are 64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from .jit import kernel, kernel_apart

if TYPE_CHECKING:
    from .jit import Records

__all__ = [
    "ARGUMENTS",
    "EVENT",
    "SEQUENCES",
    "arg_of",
    "close_hole",
    "kind_of",
    "new_queue",
    "packed",
    "pop",
    "push",
    "schedule",
]

EVENT = np.dtype([("time_ps", "i8"), ("order", "i8")])
"""One entry of the heap; ``order`` is sequence, kind (4 bits) and argument (23 bits)."""

_KIND_BITS: Final = 4
_ARG_BITS: Final = 23
ARGUMENTS: Final = 1 << _ARG_BITS
"""Arguments are smaller than this: 8 million requests, links, blocks."""
SEQUENCES: Final = 1 << (63 - _KIND_BITS - _ARG_BITS)
"""A run can push so many events: 69 billion."""


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
    >>> size = push(heap, 0, 20, packed(0, 1, 7))
    >>> size = push(heap, size, 10, packed(1, 1, 8))
    >>> int(heap[0].time_ps), arg_of(heap[0].order), pop(heap, size)
    (10, 8, 1)
    """
    return np.zeros(capacity, EVENT).view(np.recarray)


@kernel
def packed(seq: int, kind: int, arg: int) -> int:
    """Sequence, kind and argument as one integer, ordered as the sequence is."""
    return int((np.int64(seq) << (_KIND_BITS + _ARG_BITS)) | (np.int64(kind) << _ARG_BITS) | np.int64(arg))


@kernel
def kind_of(order: int) -> int:
    """The kind of an event."""
    return int((np.int64(order) >> _ARG_BITS) & ((1 << _KIND_BITS) - 1))


@kernel
def arg_of(order: int) -> int:
    """The argument of an event."""
    return int(np.int64(order) & ((1 << _ARG_BITS) - 1))


@kernel
def push(heap: Records, size: int, time_ps: int, order: int) -> int:
    """Add an event; returns the new size. The caller sees to the capacity."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 2
        # A new event has the highest sequence number so far: equal times never pass it.
        if heap[parent].time_ps <= time_ps:
            break
        heap[hole].time_ps = heap[parent].time_ps
        heap[hole].order = heap[parent].order
        hole = parent
    heap[hole].time_ps = time_ps
    heap[hole].order = order
    return size + 1


@kernel
def pop(heap: Records, size: int) -> int:
    """Remove the first event (``heap[0]``, read it before); returns the new size."""
    last = size - 1
    sift(heap, last, heap[last].time_ps, heap[last].order)
    return last


@kernel
def sift(heap: Records, size: int, time_ps: int, order: int) -> None:
    """Put an event in the place of the first one, and down to where it belongs among ``size``."""
    hole = 0
    while True:
        child = 4 * hole + 1
        if child >= size:
            break
        best = child
        best_time = heap[child].time_ps
        best_order = heap[child].order
        for other in range(child + 1, min(child + 4, size)):
            t = heap[other].time_ps
            if t < best_time or (t == best_time and heap[other].order < best_order):
                best, best_time, best_order = other, t, heap[other].order
        if best_time > time_ps or (best_time == time_ps and best_order > order):
            break
        heap[hole].time_ps = best_time
        heap[hole].order = best_order
        hole = best
    heap[hole].time_ps = time_ps
    heap[hole].order = order


@kernel_apart
def schedule(clock: Records, heap: Records, time_ps: int, kind: int, arg: int) -> None:
    """Queue an event.

    While an event is handled its place at the top stays open (``clock.hole``): the first
    event that it brings forth takes it, one way down the heap instead of two.
    """
    order = packed(clock[0].seq, kind, arg)
    if clock[0].hole == 1:
        clock[0].hole = 0
        sift(heap, clock[0].queued, time_ps, order)
    else:
        clock[0].queued = push(heap, clock[0].queued, time_ps, order)
    clock[0].seq += 1


@kernel
def close_hole(clock: Records, heap: Records) -> None:
    """Remove the event that was handled, where no other took its place."""
    if clock[0].hole == 1:
        clock[0].hole = 0
        clock[0].queued = pop(heap, clock[0].queued)
