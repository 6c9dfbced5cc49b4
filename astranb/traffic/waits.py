"""Dependencies between messages: a graph without the nodes between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astranb.core.entry import Entry
from astranb.core.jit import kernel
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND

from .graph import MessageGraph

__all__ = ["COMPUTATION", "JOIN", "MESSAGE", "TIMER", "Waits", "waits_of"]

_Ints = NDArray[np.int64]

MESSAGE: Final = 0
JOIN: Final = 1  # all events of a set have happened
TIMER: Final = 2  # computations that wait for no message have ended
COMPUTATION: Final = 3  # a computation that waits for messages has ended

# Places of the kernel's numbers.
_WITH_COMPUTATIONS: Final = 0
_EVENTS: Final = 1
_SETS: Final = 2
_POOL: Final = 3
_MESSAGES: Final = 4
_MOST_SEEN: Final = 64  # events looked at to find out which follow from others; what is not found is kept
_ROOM: Final = 4  # members of each set, at first
_FLAT: Final = 2  # so many events are listed; more of them, where parts have several, are joined


class _WaitNodes(NamedTuple):
    """The graph: of each node its kind, its message, the send of a message to its own rank, its time."""

    dep_start: _Ints
    deps: _Ints
    order: _Ints
    kind: _Ints
    flow: _Ints  # -1: none, or to its own rank
    partner: _Ints
    duration: _Ints
    end: _Ints  # the set that has happened when it has ended


class _WaitEvents(NamedTuple):
    kind: _Ints
    waits: _Ints  # a set
    position: _Ints  # in the order
    earliest: _Ints  # before which it cannot happen, in picoseconds
    row: _Ints
    needed: _Ints  # 1 where a message waits for it, or for what waits for it; every message is


class _WaitSets(NamedTuple):
    """Set 0 is empty, set 1 + E has event E alone, then come those of several events."""

    start: _Ints
    size: _Ints
    pool: _Ints
    table: _Ints  # by contents
    join: _Ints  # the event that all have happened, -1: none
    used: _Ints  # 1 where a needed event waits for it


class _Marks(NamedTuple):
    """Marks are the number of the step in which they are made, so that none has to be erased."""

    part: _Ints  # of sets
    in_union: _Ints  # of events
    implied: _Ints
    seen: _Ints


class _Lists(NamedTuple):
    parts: _Ints
    events: _Ints
    stack: _Ints


@kernel(inline=False)
def find_implied(
    events: _WaitEvents, sets: _WaitSets, marks: _Marks, lists: _Lists, size: int, step: int
) -> int:
    """Mark the events of a union that have happened when the others have; returns how many are left."""
    timer = -1
    earliest = -1
    oldest = len(events.position)
    for at in range(size):
        event = lists.events[at]
        if events.kind[event] == TIMER:
            if timer < 0 or events.earliest[event] > events.earliest[timer]:
                timer = event
            continue
        oldest = min(oldest, events.position[event])
        if events.kind[event] != JOIN:  # which is left out itself where all its events are here
            earliest = max(earliest, events.earliest[event])
        else:
            own = events.waits[event]
            for place in range(sets.start[own], sets.start[own] + sets.size[own]):
                oldest = min(oldest, events.position[sets.pool[place]])
    for at in range(size):
        event = lists.events[at]
        if events.kind[event] == TIMER and (event != timer or events.earliest[event] <= earliest):
            marks.implied[event] = step
    budget = _MOST_SEEN
    for turn in range(2):  # messages and computations; then the joins that are left
        top = 0
        for at in range(size):
            event = lists.events[at]
            if events.kind[event] == TIMER or marks.implied[event] == step:
                continue
            if (events.kind[event] == JOIN) != (turn == 1):
                continue
            if turn == 1:
                own = events.waits[event]
                follows = 1
                for place in range(sets.start[own], sets.start[own] + sets.size[own]):
                    member = sets.pool[place]
                    if marks.in_union[member] != step and marks.seen[member] != step:
                        follows = 0
                if follows == 1:
                    marks.implied[event] = step
                    continue
            lists.stack[top] = event
            top += 1
        while top > 0 and budget > 0:
            top -= 1
            own = events.waits[lists.stack[top]]
            for place in range(sets.start[own], sets.start[own] + sets.size[own]):
                member = sets.pool[place]
                budget -= 1
                if budget > 0 and marks.seen[member] != step and events.position[member] >= oldest:
                    marks.seen[member] = step
                    if marks.in_union[member] == step:
                        marks.implied[member] = step
                    lists.stack[top] = member
                    top += 1
    left = 0
    for at in range(size):
        event = lists.events[at]
        if marks.implied[event] != step:
            lists.events[left] = event
            left += 1
    return left


@kernel(inline=False)
def join_parts(
    job: _Ints,
    events: _WaitEvents,
    sets: _WaitSets,
    marks: _Marks,
    lists: _Lists,
    count: int,
    left: int,
    place: int,
) -> int:
    """Replace the events that come from sets of several by the event that such a set has happened.

    Returns how many events there are then. Nothing is done where all come from one set.
    """
    step = place + 1
    for part in range(count):
        own = lists.parts[part]
        several = 0
        for at in range(sets.start[own], sets.start[own] + sets.size[own]):
            if marks.implied[sets.pool[at]] != step:
                several += 1
        if several == left:
            return left
    for at in range(left):
        marks.seen[lists.events[at]] = -step  # in no part so far
    kept = 0
    for turn in range(2):  # sets of one event, then the others
        for part in range(count):
            own = lists.parts[part]
            if (sets.size[own] == 1) != (turn == 0):
                continue
            several = 0
            event = 0
            for at in range(sets.start[own], sets.start[own] + sets.size[own]):
                if marks.seen[sets.pool[at]] == -step:
                    several += 1
                    event = sets.pool[at]
                    marks.seen[event] = step
            if several == 0:
                continue
            if several > 1:
                if sets.join[own] < 0:
                    event = job[_EVENTS]
                    job[_EVENTS] += 1
                    sets.join[own] = event
                    events.kind[event] = JOIN
                    events.waits[event] = own
                    events.position[event] = place
                    events.earliest[event] = 0
                    for at in range(sets.start[own], sets.start[own] + sets.size[own]):
                        events.earliest[event] = max(events.earliest[event], events.earliest[sets.pool[at]])
                    events.row[event] = events.row[sets.pool[sets.start[own]]]
                event = sets.join[own]
            lists.events[kept] = event
            kept += 1
    return kept


@kernel(inline=False)
def number_of_set(job: _Ints, sets: _WaitSets, marks: _Marks, lists: _Lists, left: int, step: int) -> int:
    """Return the number of the set of some events, a new one where it is new; -1 where room is lacking."""
    found: int = lists.events[0] + 1
    if left == 1:
        return found
    key = 0
    for at in range(left):
        key += (lists.events[at] + 17) * (lists.events[at] + 17) % 4294967291
        marks.in_union[lists.events[at]] = -step
    slot = key % len(sets.table)
    while sets.table[slot] > 0:
        found = sets.table[slot]
        if sets.size[found] == left:
            equal = 1
            for at in range(sets.start[found], sets.start[found] + left):
                if marks.in_union[sets.pool[at]] != -step:
                    equal = 0
            if equal == 1:
                return found
        slot = (slot + 1) % len(sets.table)
    if job[_POOL] + left > len(sets.pool):
        return -1
    found = job[_SETS]
    job[_SETS] += 1
    sets.table[slot] = found
    sets.start[found] = job[_POOL]
    sets.size[found] = left
    for at in range(left):
        sets.pool[job[_POOL] + at] = lists.events[at]
    job[_POOL] += left
    return found


@kernel
def mark_needed(events: _WaitEvents, sets: _WaitSets, own: int) -> None:
    """Mark a set, and its events unless it is that of one timer: that one is a time to begin at."""
    if sets.used[own] == 1:
        return
    sets.used[own] = 1
    for at in range(sets.start[own], sets.start[own] + sets.size[own]):
        if sets.size[own] > 1 or events.kind[sets.pool[at]] != TIMER:
            events.needed[sets.pool[at]] = 1


@kernel
def find_waits(
    job: _Ints, nodes: _WaitNodes, events: _WaitEvents, sets: _WaitSets, marks: _Marks, lists: _Lists
) -> int:
    """Find the set of events that each event waits for; return 1 where the pool of sets is too small."""
    for place in range(len(nodes.order)):
        row = nodes.order[place]
        step = place + 1
        count = 0
        for dep in range(nodes.dep_start[row], nodes.dep_start[row + 1]):
            own = nodes.end[nodes.deps[dep]]
            if own > 0 and marks.part[own] != step:
                marks.part[own] = step
                lists.parts[count] = own
                count += 1
        if nodes.kind[row] == RECV:
            own = nodes.end[nodes.partner[row]]
            if own > 0 and marks.part[own] != step:
                marks.part[own] = step
                lists.parts[count] = own
                count += 1
        found = 0
        if count == 1:
            found = lists.parts[0]
        elif count > 1:
            size = 0
            for part in range(count):
                own = lists.parts[part]
                for at in range(sets.start[own], sets.start[own] + sets.size[own]):
                    event = sets.pool[at]
                    if marks.in_union[event] != step:
                        marks.in_union[event] = step
                        lists.events[size] = event
                        size += 1
            left = find_implied(events, sets, marks, lists, size, step)
            if left > _FLAT:
                left = join_parts(job, events, sets, marks, lists, count, left, place)
            found = number_of_set(job, sets, marks, lists, left, step)
            if found < 0:
                return 1
        event = -1
        if nodes.kind[row] == SEND:
            event = nodes.flow[row]
        elif nodes.kind[row] == COMPUTE and nodes.duration[row] > 0:
            first = sets.pool[sets.start[found]]
            timed = found == 0 or (sets.size[found] == 1 and events.kind[first] == TIMER)
            if timed or job[_WITH_COMPUTATIONS] == 1:
                event = job[_EVENTS]
                job[_EVENTS] += 1
                events.kind[event] = TIMER if timed else COMPUTATION
        nodes.end[row] = found
        if event >= 0:
            latest = nodes.duration[row]
            for at in range(sets.start[found], sets.start[found] + sets.size[found]):
                latest = max(latest, events.earliest[sets.pool[at]] + nodes.duration[row])
            events.earliest[event] = latest
            events.waits[event] = found
            events.position[event] = place
            events.row[event] = row
            nodes.end[row] = event + 1
    for event in range(job[_MESSAGES]):
        if events.needed[event] == 1:
            mark_needed(events, sets, events.waits[event])
    for event in range(job[_EVENTS] - 1, job[_MESSAGES] - 1, -1):  # each waits for earlier ones
        if events.needed[event] == 1 and events.kind[event] != TIMER:
            mark_needed(events, sets, events.waits[event])
    return 0


_INT: Final = np.dtype(np.int64)
_TABLES: Final = (
    _WaitNodes(*[_INT] * 8),  # type: ignore[arg-type]  # types in the places of tables
    _WaitEvents(*[_INT] * 6),  # type: ignore[arg-type]
    _WaitSets(*[_INT] * 6),  # type: ignore[arg-type]
    _Marks(*[_INT] * 4),  # type: ignore[arg-type]
    _Lists(*[_INT] * 3),  # type: ignore[arg-type]
)
_FIND: Final = Entry(find_waits, [_INT, *_TABLES])


@dataclass(frozen=True, eq=False)
class Waits:
    """Events, and the sets of events that they wait for.

    Attributes
    ----------
    kind : ndarray of int64
        Of each event: ``MESSAGE`` (its end), ``TIMER``, ``COMPUTATION`` or ``JOIN``. The events of messages
        come first, in the order of the graph's sends; those of messages to the own rank are not used.
    waits : ndarray of int64
        The set that an event waits for. Set 0 is empty.
    earliest_ps : ndarray of int64
        When an event happens at the earliest; a timer happens then.
    row : ndarray of int64
        A node at whose rank the event happens.
    needed : ndarray of bool
        Whether a message waits for the event, directly or not; every message between ranks is needed.
    set_start, set_size, members : ndarray of int64
        The events of each set.
    used : ndarray of bool
        Whether a needed event waits for the set.
    """

    kind: _Ints
    waits: _Ints
    earliest_ps: _Ints
    row: _Ints
    needed: NDArray[np.bool_]
    set_start: _Ints
    set_size: _Ints
    members: _Ints
    used: NDArray[np.bool_]


def waits_of(graph: MessageGraph, order: _Ints, *, with_computations: bool = False) -> Waits:
    """Find what each message waits for: other messages, and computations at the beginning.

    Events that follow from others of a set are left out where that is found quickly. The union of sets of
    several events has one event for each such set, a *join*, so that chains of receives do not make longer
    and longer sets.

    Parameters
    ----------
    graph : MessageGraph
    order : ndarray of int64
        As ``node_order`` gives it.
    with_computations : bool
        Whether computations that wait for messages are events. Otherwise what waits for them waits for what
        they wait for.
    """
    nodes = graph.nodes
    count, messages = len(nodes), graph.messages
    own = (nodes["kind"] != COMPUTE) & (nodes["peer"] == nodes["rank"])
    flow = np.full(count, -1, np.int64)
    flow[graph.sends] = np.where(own[graph.sends], -1, np.arange(messages))
    tables = _WaitNodes(
        np.ascontiguousarray(graph.dep_start, np.int64),
        np.ascontiguousarray(graph.deps, np.int64),
        order,
        np.ascontiguousarray(nodes["kind"]),
        flow,
        np.ascontiguousarray(nodes["match"]),
        np.where(nodes["kind"] == COMPUTE, nodes["duration_ps"], 0),
        np.zeros(count, np.int64),
    )
    unions = int(
        (np.diff(graph.dep_start) + (nodes["kind"] == RECV) > 1).sum()
    )  # a set of several each, at most
    most_events = messages + int((tables.duration > 0).sum()) + unions
    room = max(1, _ROOM * unions)
    while True:
        tables.end[:] = 0
        events = _WaitEvents(*(np.zeros(most_events + 1, np.int64) for _ in _WaitEvents._fields))
        most_sets = most_events + 1 + unions
        sets = _WaitSets(
            np.zeros(most_sets + 1, np.int64),
            np.zeros(most_sets + 1, np.int64),
            np.zeros(most_events + room + 1, np.int64),
            np.zeros(1 << max(4, (2 * unions).bit_length()), np.int64),
            np.full(most_sets + 1, -1, np.int64),
            np.zeros(most_sets + 1, np.int64),
        )
        events.needed[:messages] = ~own[graph.sends]
        sets.start[1 : most_events + 1] = sets.pool[:most_events] = np.arange(most_events)
        sets.size[1 : most_events + 1] = 1
        marks = _Marks(
            np.zeros(most_sets + 1, np.int64), *(np.zeros(most_events + 1, np.int64) for _ in range(3))
        )
        lists = _Lists(*(np.zeros(max(count, most_events) + 2, np.int64) for _ in _Lists._fields))
        job = np.array([with_computations, messages, most_events + 1, most_events, messages], np.int64)
        if _FIND(job, tables, events, sets, marks, lists) == 0:
            break
        room *= 2
    made = int(job[_EVENTS])
    return Waits(
        events.kind[:made],
        events.waits[:made],
        events.earliest[:made],
        events.row[:made],
        events.needed[:made] == 1,
        sets.start[: int(job[_SETS])],
        sets.size[: int(job[_SETS])],
        sets.pool[: int(job[_POOL])],
        sets.used[: int(job[_SETS])] == 1,
    )
