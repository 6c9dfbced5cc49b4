"""The event queue: a timing wheel, and a small heap for the slot that is open.

Events are handled in the order of time, and those of one time in the order in which they
were queued, so that the order is a function of the inputs and of nothing else. Most lie
less than two microseconds ahead: they go to a list for their slot of time, at a cost that
does not grow with their number (Varghese and Lauck, SOSP 1987), in eight bytes each. When
a slot opens, its events go to a 4-ary heap that has only these to sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from .jit import kernel, prefetch
from .state import allocate

if TYPE_CHECKING:
    from .jit import Records

__all__ = [
    "ARGUMENTS",
    "EVENT",
    "LATER",
    "SEQUENCES",
    "SLOT",
    "SLOTS",
    "EventQueue",
    "arg_of",
    "fill",
    "kind_of",
    "live",
    "new_queue",
    "open_slot",
    "pop",
    "push",
    "refill",
    "schedule",
]

EVENT = np.dtype([("time_ps", "i8"), ("order", "i8")])
"""One entry of a heap; ``order`` is sequence, kind (4 bits) and argument (22 bits)."""

LATER = np.dtype([("event", "u4"), ("next", "i4")])
"""One entry of a slot's list; ``event`` is kind, argument and the time within the slot."""

SLOT = np.dtype("i4")
"""First entry of a slot's list, the newest, or -1."""

_KIND_BITS: Final = 4
_ARG_BITS: Final = 22
_WHAT_BITS: Final = _KIND_BITS + _ARG_BITS
ARGUMENTS: Final = 1 << _ARG_BITS
"""Arguments are smaller than this: 4 million requests, links, blocks."""
SEQUENCES: Final = 1 << (62 - _WHAT_BITS)
"""A run can push so many events: 69 billion."""

_SLOT_BITS: Final = 6  # 64 ps: a few events of a machine of 8 GPUs
_IN_SLOT: Final = (1 << _SLOT_BITS) - 1
SLOTS: Final = 1 << 15
"""Slots of the wheel: 2.1 µs."""


class EventQueue(NamedTuple):
    """Pending events.

    Attributes
    ----------
    clock : recarray
        One row, with the sizes of the others in ``seq``, ``queued``, ``near``, ``far``, ``slot`` and
        ``free_entry``.
    near : recarray of EVENT
        A heap: those of the open slot.
    later : recarray of LATER
        Those of the slots after it, in lists.
    slots : array of SLOT, shape (SLOTS,)
    far : recarray of EVENT
        A heap: those beyond one rotation of the wheel.
    """

    clock: Records
    near: Records
    later: Records
    slots: Records
    far: Records


def new_queue(clock: Records, capacity: int) -> EventQueue:
    """Allocate an empty queue for so many events.

    Examples
    --------
    >>> clock = np.zeros(1, [(n, "i8") for n in ("seq", "queued", "near", "far", "slot", "free_entry")])
    >>> queue = new_queue(clock.view(np.recarray), 4)
    >>> fill(queue, [(20, 1, 7), (10, 1, 8)])
    >>> int(queue.near[0].time_ps), arg_of(queue.near[0].order), pop(queue.near, 2)
    (10, 8, 1)
    """
    near, far = (allocate(capacity, EVENT) for _ in range(2))
    later = allocate(capacity, LATER)
    later["next"] = np.arange(1, capacity + 1)
    slots = allocate(SLOTS, SLOT)
    slots[:] = -1
    return EventQueue(clock, near, later, slots, far)


def fill(queue: EventQueue, events: list[tuple[int, int, int]]) -> None:
    """Put the first events, (time in ps, kind, argument) each, into an empty queue.

    Those of one time are handled in the order given.
    """
    clock, count = queue.clock, len(events)
    clock[0].queued = clock[0].seq = clock[0].far = count
    if not events:
        return
    rows = np.array(events, np.int64)
    time_ps, kind, arg = rows[np.argsort(rows[:, 0], kind="stable")].T
    what, slot = kind << _ARG_BITS | arg, time_ps >> _SLOT_BITS
    # The slot of the first event is open; a list in order is a heap.
    near = int(np.searchsorted(slot, slot[0], "right"))
    queue.near["time_ps"][:near] = time_ps[:near]
    queue.near["order"][:near] = (np.arange(near) - near) << _WHAT_BITS | what[:near]
    # The events of one rotation are in the lists of their slots, each of which begins with the newest.
    turn = int(np.searchsorted(slot, slot[0] + SLOTS))
    entries, place = np.arange(turn - near), slot[near:turn] & (SLOTS - 1)
    last = np.append(place[1:] != place[:-1], True)[: len(place)]
    queue.later["event"][: len(place)] = what[near:turn] << _SLOT_BITS | time_ps[near:turn] & _IN_SLOT
    queue.later["next"][: len(place)] = np.where(np.roll(last, 1), -1, entries - 1)
    queue.slots[place[last]] = entries[last]
    queue.far["time_ps"][: count - turn] = time_ps[turn:]
    queue.far["order"][: count - turn] = np.arange(turn, count) << _WHAT_BITS | what[turn:]
    clock[0].near, clock[0].far = near, count - turn
    clock[0].slot, clock[0].free_entry = slot[0], len(place)


def refill(queue: EventQueue, events: list[tuple[int, int, int]]) -> None:
    """Put other events, (time in ps, kind, argument) each, in place of those of a queue.

    Those of one time are handled in the order given.
    """
    clock = queue.clock
    queue.later["next"] = np.arange(1, len(queue.later) + 1)
    queue.slots[:] = -1
    clock[0].near = clock[0].free_entry = 0
    fill(queue, events)


def live(queue: EventQueue) -> np.ndarray:
    """Return the events to come in the order in which they will be handled: shape (n, 2), time and what."""
    clock = queue.clock
    times: list[np.ndarray] = []
    what: list[np.ndarray] = []
    for heap, size in ((queue.near, int(clock[0].near)), (queue.far, int(clock[0].far))):
        rows = np.asarray(heap)[:size]
        rows = rows[np.lexsort((rows["order"], rows["time_ps"]))]
        times.append(rows["time_ps"])
        what.append(rows["order"] & ((1 << _WHAT_BITS) - 1))
    later, slots = np.asarray(queue.later), np.asarray(queue.slots)
    place = np.flatnonzero(slots >= 0)
    entry = slots[place]
    slot = int(clock[0].slot)
    while len(entry):
        event = later["event"][entry].astype(np.int64)
        # Lists begin with the newest event.
        times.insert(1, ((slot + (place - slot) % SLOTS) << _SLOT_BITS) + (event & ((1 << _SLOT_BITS) - 1)))
        what.insert(1, event >> _SLOT_BITS)
        following = later["next"][entry]
        place, entry = place[following >= 0], following[following >= 0]
    found = np.stack([np.concatenate(times), np.concatenate(what)], axis=1)
    return found[np.argsort(found[:, 0], kind="stable")]


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
    """Add an event to a heap; returns its new size. The caller sees to the capacity."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 2
        parent_ps = heap[parent].time_ps
        if parent_ps < time_ps or (parent_ps == time_ps and heap[parent].order < order):
            break
        heap[hole].time_ps = parent_ps
        heap[hole].order = heap[parent].order
        hole = parent
    heap[hole].time_ps = time_ps
    heap[hole].order = order
    return size + 1


@kernel
def pop(heap: Records, size: int) -> int:
    """Remove the first event of a heap (``heap[0]``, read it before); returns the new size."""
    last = size - 1
    time_ps = heap[last].time_ps
    order = heap[last].order
    hole = 0
    while True:
        child = 4 * hole + 1
        if child >= last:
            break
        best = child
        best_ps = heap[child].time_ps
        best_order = heap[child].order
        for other in range(child + 1, min(child + 4, last)):
            other_ps = heap[other].time_ps
            if other_ps < best_ps or (other_ps == best_ps and heap[other].order < best_order):
                best, best_ps, best_order = other, other_ps, heap[other].order
        if best_ps > time_ps or (best_ps == time_ps and best_order > order):
            break
        heap[hole].time_ps = best_ps
        heap[hole].order = best_order
        hole = best
    heap[hole].time_ps = time_ps
    heap[hole].order = order
    return last


@kernel
def put_in_slot(queue: EventQueue, time_ps: int, what: int) -> None:
    """Put an event into the list of its slot."""
    clock = queue.clock
    place = (time_ps >> _SLOT_BITS) & (SLOTS - 1)
    entry = clock[0].free_entry
    clock[0].free_entry = queue.later[entry].next
    queue.later[entry].event = (what << _SLOT_BITS) | (time_ps & ((1 << _SLOT_BITS) - 1))
    queue.later[entry].next = queue.slots[place]
    queue.slots[place] = entry


@kernel(inline=False)
def schedule(queue: EventQueue, time_ps: int, kind: int, arg: int) -> None:
    """Queue an event, not before now."""
    clock = queue.clock
    what = int((np.int64(kind) << _ARG_BITS) | np.int64(arg))
    clock[0].queued += 1
    ahead = (time_ps >> _SLOT_BITS) - clock[0].slot
    if 0 < ahead < SLOTS:
        put_in_slot(queue, time_ps, what)
        return
    order = int((np.int64(clock[0].seq) << _WHAT_BITS) | what)
    clock[0].seq += 1
    if ahead <= 0:
        clock[0].near = push(queue.near, clock[0].near, time_ps, order)
    else:
        clock[0].far = push(queue.far, clock[0].far, time_ps, order)


@kernel(inline=False)
def open_slot(queue: EventQueue, about: Records, more: Records) -> None:
    """Open the next slot that has an event: its events go to the heap, which is empty.

    Parameters
    ----------
    queue : EventQueue
    about, more : recarray
        Tables whose rows most events are about, by their argument: these rows are prefetched
        into the processor's cache.
    """
    clock, near, later, slots, far = queue.clock, queue.near, queue.later, queue.slots, queue.far
    slot = clock[0].slot
    if clock[0].queued == clock[0].far:
        slot = far[0].time_ps >> _SLOT_BITS
    else:
        slot += 1
        while slots[slot & (SLOTS - 1)] < 0:
            slot += 1
    # What is less than one rotation ahead now goes into the wheel before anything newer can.
    while clock[0].far > 0 and (far[0].time_ps >> _SLOT_BITS) - slot < SLOTS:
        what = int(np.int64(far[0].order) & ((1 << _WHAT_BITS) - 1))
        put_in_slot(queue, far[0].time_ps, what)
        clock[0].far = pop(far, clock[0].far)
    place = slot & (SLOTS - 1)
    entry = slots[place]
    slots[place] = -1
    size = 0
    while entry >= 0:
        event = np.int64(later[entry].event)
        time_ps = int((slot << _SLOT_BITS) | (event & ((1 << _SLOT_BITS) - 1)))
        # The list begins with the newest; all are older than what is queued from now on.
        row = arg_of(int(event >> _SLOT_BITS))
        prefetch(about, row)
        prefetch(more, row)
        order = int((np.int64(-1 - size) << _WHAT_BITS) | (event >> _SLOT_BITS))
        size = push(near, size, time_ps, order)
        following = later[entry].next
        later[entry].next = clock[0].free_entry
        clock[0].free_entry = entry
        entry = following
    clock[0].near = size
    clock[0].slot = slot
