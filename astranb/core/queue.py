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

from .jit import kernel, kernel_apart, prefetch
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
    "Agenda",
    "arg_of",
    "fill",
    "kind_of",
    "live",
    "new_agenda",
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
SLOTS: Final = 1 << 15
"""Slots of the wheel: 2.1 µs."""


class Agenda(NamedTuple):
    """The events to come.

    Attributes
    ----------
    near : recarray of EVENT
        A heap: those of the open slot.
    later : recarray of LATER
        Those of the slots after it, in lists.
    slots : array of SLOT, shape (SLOTS,)
    far : recarray of EVENT
        A heap: those beyond a turn of the wheel.
    """

    near: Records
    later: Records
    slots: Records
    far: Records


def new_agenda(capacity: int) -> Agenda:
    """Allocate an empty agenda for so many events.

    Examples
    --------
    >>> clock = np.zeros(1, [(n, "i8") for n in ("seq", "queued", "near", "far", "slot", "free_entry")])
    >>> clock, agenda = clock.view(np.recarray), new_agenda(4)
    >>> fill(clock, agenda, [(20, 1, 7), (10, 1, 8)])
    >>> int(agenda.near[0].time_ps), arg_of(agenda.near[0].order), pop(agenda.near, 2)
    (10, 8, 1)
    """
    near, far = (allocate(capacity, EVENT) for _ in range(2))
    later = allocate(capacity, LATER)
    later["next"] = np.arange(1, capacity + 1)
    slots = allocate(SLOTS, SLOT)
    slots[:] = -1
    return Agenda(near, later, slots, far)


def fill(clock: Records, agenda: Agenda, events: list[tuple[int, int, int]]) -> None:
    """Put the first events, (time in ps, kind, argument) each, into an empty agenda.

    Those of one time are handled in the order given.
    """
    for number, (time_ps, kind, arg) in enumerate(sorted(events, key=lambda event: event[0])):
        # A list in order is a heap.
        agenda.far[number] = (time_ps, (number << _WHAT_BITS) | (kind << _ARG_BITS) | arg)
    clock[0].queued = clock[0].far = clock[0].seq = len(events)
    if events:
        open_slot(clock, agenda, agenda.near, agenda.near)


def refill(clock: Records, agenda: Agenda, events: list[tuple[int, int, int]]) -> None:
    """Put other events, (time in ps, kind, argument) each, in place of those of an agenda.

    Those of one time are handled in the order given.
    """
    agenda.later["next"] = np.arange(1, len(agenda.later) + 1)
    agenda.slots[:] = -1
    clock[0].near = clock[0].free_entry = 0
    fill(clock, agenda, events)


def live(clock: Records, agenda: Agenda) -> np.ndarray:
    """Give the events to come in the order in which they will be handled: shape (n, 2), time and what."""
    times: list[np.ndarray] = []
    what: list[np.ndarray] = []
    for heap, size in ((agenda.near, int(clock[0].near)), (agenda.far, int(clock[0].far))):
        rows = np.asarray(heap)[:size]
        rows = rows[np.lexsort((rows["order"], rows["time_ps"]))]
        times.append(rows["time_ps"])
        what.append(rows["order"] & ((1 << _WHAT_BITS) - 1))
    later, slots = np.asarray(agenda.later), np.asarray(agenda.slots)
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
def put_in_slot(clock: Records, agenda: Agenda, time_ps: int, what: int) -> None:
    """Put an event into the list of its slot."""
    place = (time_ps >> _SLOT_BITS) & (SLOTS - 1)
    entry = clock[0].free_entry
    clock[0].free_entry = agenda.later[entry].next
    agenda.later[entry].event = (what << _SLOT_BITS) | (time_ps & ((1 << _SLOT_BITS) - 1))
    agenda.later[entry].next = agenda.slots[place]
    agenda.slots[place] = entry


@kernel_apart
def schedule(clock: Records, agenda: Agenda, time_ps: int, kind: int, arg: int) -> None:
    """Queue an event, not before now."""
    what = int((np.int64(kind) << _ARG_BITS) | np.int64(arg))
    clock[0].queued += 1
    ahead = (time_ps >> _SLOT_BITS) - clock[0].slot
    if 0 < ahead < SLOTS:
        put_in_slot(clock, agenda, time_ps, what)
        return
    order = int((np.int64(clock[0].seq) << _WHAT_BITS) | what)
    clock[0].seq += 1
    if ahead <= 0:
        clock[0].near = push(agenda.near, clock[0].near, time_ps, order)
    else:
        clock[0].far = push(agenda.far, clock[0].far, time_ps, order)


@kernel_apart
def open_slot(clock: Records, agenda: Agenda, about: Records, more: Records) -> None:
    """Open the next slot that has an event: its events go to the heap, which is empty.

    Parameters
    ----------
    clock : recarray
    agenda : Agenda
    about, more : recarray
        Tables whose rows most events are about, by their argument: the processor is told to
        fetch these rows, so that they are there when the events are handled.
    """
    near, later, slots, far = agenda
    slot = clock[0].slot
    if clock[0].queued == clock[0].far:
        slot = far[0].time_ps >> _SLOT_BITS
    else:
        slot += 1
        while slots[slot & (SLOTS - 1)] < 0:
            slot += 1
    # What comes within a turn of the wheel goes there before anything newer can.
    while clock[0].far > 0 and (far[0].time_ps >> _SLOT_BITS) - slot < SLOTS:
        what = int(np.int64(far[0].order) & ((1 << _WHAT_BITS) - 1))
        put_in_slot(clock, agenda, far[0].time_ps, what)
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
