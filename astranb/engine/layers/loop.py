"""The event loop: the program of an NPU, its chunks in the queues of dimensions, and the event queue.

All NPUs do the same at the same time, so one of them is simulated: see :mod:`.phase_times`.
"""

from __future__ import annotations

import numpy as np

from astranb.core.entry import Entry
from astranb.core.handle import handle
from astranb.core.jit import Records, kernel
from astranb.engine.conditions import check_conditions
from astranb.engine.messages import PHASE_BEGINS, PHASE_ENDS
from astranb.engine.stops import BREAK, ENDED, REACHED, STEPS, TIME

from .recording import PASSED, POINT, WATCH, begin, end, record_phase
from .tables import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    CHUNK,
    CLOCK,
    COLLECTIVE,
    COMPUTE,
    END,
    EVENT,
    FEWEST_LEFT,
    FIFO,
    GROUPED,
    ISSUE,
    LIMITS,
    NO_DELAY,
    OPERATION,
    PASS,
    PASS_END,
    PHASE,
    PHASE_OVER,
    PROGRAM,
    QUEUE,
    REDUCE_SCATTER,
    RESUME,
    SLOT,
    SMALLEST,
    STREAM,
    WAIT,
    LayerMachine,
)  # fmt: skip

__all__ = ["DTYPES", "ENDED", "ENTRY", "run_layers"]


# The event queue: a heap by time, and at one time in the order of ASTRA-sim 1.0.


@kernel
def _earlier(m: LayerMachine, one: int, other: int) -> bool:
    """Return whether one event is handled before another."""
    a = m.events[one]
    b = m.events[other]
    if a.time_ps != b.time_ps:
        return bool(a.time_ps < b.time_ps)
    if a.rank != b.rank:
        return bool(a.rank < b.rank)
    # Of two phases, the one whose last endpoint delay began first.
    if a.last_ps != b.last_ps:
        return bool(a.last_ps > b.last_ps)
    if a.message_ps != b.message_ps:
        return bool(a.message_ps > b.message_ps)
    if a.queue != b.queue:
        return bool(a.queue < b.queue)
    return bool(a.sequence < b.sequence)


@kernel(inline=False)
def _schedule(
    m: LayerMachine, event: int, delay_ps: int, rank: int, last_ps: int, message_ps: int, queue: int
) -> None:
    """Schedule an event."""
    e = m.events[event]
    e.time_ps = m.clock[0].now_ps + delay_ps
    e.rank = rank
    if delay_ps == 0:
        e.rank = NO_DELAY
    e.last_ps = last_ps
    e.message_ps = message_ps
    e.queue = queue if m.clock[0].by_queue == 1 else 0
    e.sequence = m.clock[0].puts
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
def _next(m: LayerMachine) -> int:
    """Remove the first event from the queue and return it."""
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


# Chunks in flight: each is a stream that passes through its phases, from one queue to the next.


@kernel
def _place(m: LayerMachine, stream: int, queue: int) -> int:
    """Return the stream behind which a stream enters a queue; -1 for its head."""
    s = m.streams[stream]
    p = m.phases[s.phase]
    priority = m.collectives[s.collective].priority
    left = m.chunks[s.chunk].first_phase + m.chunks[s.chunk].phases - s.phase
    within = m.clock[0].within
    if p.collective == ALL_REDUCE or p.collective == ALL_TO_ALL:
        within = FIFO
    before = -1
    last = -1
    one_to_last = -1
    row = m.queues[queue].head
    while row >= 0:
        r = m.streams[row]
        q = m.phases[r.phase]
        one_to_last = last
        last = q.collective
        behind = False
        if r.running == 1:
            behind = True
            following = r.next
            if within == GROUPED and following >= 0 and m.streams[following].running == 0:
                # The first waiting stream keeps its place.
                before = row
                row = following
                one_to_last = last
                last = m.phases[m.streams[row].phase].collective
        elif within == SMALLEST:
            behind = q.bytes < p.bytes
        elif within == FEWEST_LEFT:
            behind = m.chunks[r.chunk].first_phase + m.chunks[r.chunk].phases - r.phase < left
        elif within == GROUPED:
            behind = m.collectives[r.collective].priority > priority
            if (last == REDUCE_SCATTER and one_to_last == ALL_GATHER) or (
                last == ALL_GATHER and one_to_last == REDUCE_SCATTER
            ):
                behind = True
        else:
            behind = m.collectives[r.collective].priority >= priority
        if not behind:
            break
        before = row
        row = m.streams[row].next
    return int(before)


@kernel(inline=False)
def _enter(m: LayerMachine, stream: int) -> None:
    """Insert a stream into the queue of its phase."""
    s = m.streams[stream]
    q = m.queues[m.phases[s.phase].queue]
    before = _place(m, stream, m.phases[s.phase].queue)
    s.before = before
    s.queued_ps = m.clock[0].now_ps
    if before < 0:
        s.next = q.head
        q.head = stream
    else:
        s.next = m.streams[before].next
        m.streams[before].next = stream
    if s.next >= 0:
        m.streams[s.next].before = stream
    if q.inside == 0:
        q.since_ps = m.clock[0].now_ps
    q.inside += 1


@kernel(inline=False)
def _serve(m: LayerMachine, queue: int) -> None:
    """Start the next streams of a queue, up to the number that it serves at once."""
    q = m.queues[queue]
    row = q.head
    while row >= 0 and m.streams[row].running == 1:
        row = m.streams[row].next
    while row >= 0 and q.running < m.clock[0].concurrent:
        s = m.streams[row]
        p = m.phases[s.phase]
        s.running = 1
        s.started_ps = m.clock[0].now_ps
        q.running += 1
        event = 1 + len(m.collectives) + row
        _schedule(m, event, p.duration_ps, PHASE_OVER, p.last_ps, p.message_ps, queue)
        if m.watch[0].noting == 1:
            record_phase(m, row, PHASE_BEGINS)
        row = s.next


@kernel
def _unlink(m: LayerMachine, stream: int) -> None:
    """Remove a stream from its queue's list."""
    s = m.streams[stream]
    q = m.queues[m.phases[s.phase].queue]
    if s.before < 0:
        q.head = s.next
    else:
        m.streams[s.before].next = s.next
    if s.next >= 0:
        m.streams[s.next].before = s.before


@kernel
def _served(m: LayerMachine, queue: int, started_ps: int) -> None:
    """Update a queue's counters after a stream has left it, and start the next one."""
    q = m.queues[queue]
    q.running -= 1
    q.inside -= 1
    if q.inside == 0:
        q.busy_ps += m.clock[0].now_ps - q.since_ps
    q.chunks += 1
    q.chunk_ps += m.clock[0].now_ps - started_ps
    _serve(m, queue)


@kernel
def _end_phase(m: LayerMachine, stream: int) -> None:
    """End a stream's phase on all NPUs: it enters the next one, or is complete."""
    s = m.streams[stream]
    chunk = m.chunks[s.chunk]
    queue = m.phases[s.phase].queue
    started_ps = s.started_ps
    m.phases[s.phase].over += 1
    m.clock[0].phases += 1
    if m.watch[0].noting == 1:
        record_phase(m, stream, PHASE_ENDS)
    done = s.phase + 1 == chunk.first_phase + chunk.phases
    if done:
        c = m.collectives[s.collective]
        c.over += 1
        if c.over == c.chunks:
            _schedule(m, 1 + s.collective, c.update_ps, PROGRAM, 0, 0, 0)
    _unlink(m, stream)
    s.running = 0
    if done:
        _served(m, queue, started_ps)
        return
    s.phase += 1
    _enter(m, stream)
    # The queue that it leaves is served before the one that it enters.
    _served(m, queue, started_ps)
    _serve(m, m.phases[s.phase].queue)


@kernel
def _issue(m: LayerMachine, number: int) -> None:
    """Issue a collective: its chunks enter the queues of their first phases."""
    c = m.collectives[number]
    c.issued_ps = m.clock[0].now_ps
    m.slots[c.slot].under_way += 1
    m.clock[0].issued += 1
    m.clock[0].under_way += 1
    begin(m, c.operation)
    m.clock[0].streams_left += c.chunks
    for nth in range(c.chunks):
        stream = c.first_stream + nth
        s = m.streams[stream]
        s.collective = number
        s.chunk = c.first_chunk + nth
        s.phase = m.chunks[s.chunk].first_phase
        _enter(m, stream)
        _serve(m, m.phases[s.phase].queue)


# The program.


@kernel
def _wait(m: LayerMachine, operation: int) -> bool:
    """Wait for the collectives of an operation's slot; returns whether any is in flight."""
    o = m.operations[operation]
    s = m.slots[o.slot]
    if s.under_way == 0:
        if o.begun_ps >= 0:
            o.ended_ps = m.clock[0].now_ps
            m.clock[0].waiting = 0
        return False
    if s.waiting == 0:
        s.waiting = 1
        s.since_ps = m.clock[0].now_ps
        o.begun_ps = m.clock[0].now_ps
        m.clock[0].waiting = 1
    return True


@kernel(inline=False)
def _advance(m: LayerMachine) -> None:
    """Run the program until time has to pass."""
    clock = m.clock
    while True:
        o = m.operations[clock[0].at]
        if o.kind == COMPUTE:
            m.slots[o.slot].compute_ps += o.time_ps
            clock[0].compute_ps += o.time_ps
            begin(m, clock[0].at)
            clock[0].at += 1
            if o.time_ps > 0:
                clock[0].computing = clock[0].at - 1
                _schedule(m, RESUME, o.time_ps, PROGRAM, 0, 0, 0)
                return
            end(m, clock[0].at - 1)
        elif o.kind == ISSUE:
            clock[0].at += 1
            _issue(m, o.slot)
        elif o.kind == WAIT:
            if _wait(m, clock[0].at):
                return
            clock[0].at += 1
        elif o.kind == PASS:
            m.pass_ends[clock[0].passes].time_ps = clock[0].now_ps
            clock[0].passes += 1
            clock[0].at += 1
        elif o.kind == END:
            if clock[0].streams_left == 0:
                clock[0].ending = 2
                clock[0].end_ps = clock[0].now_ps
                clock[0].waiting = 0
                if o.begun_ps >= 0:
                    o.ended_ps = clock[0].now_ps
            elif clock[0].ending == 0:
                clock[0].ending = 1
                # The wait for the first layer's weights counts as exposed.
                _wait(m, clock[0].at)
                o.begun_ps = clock[0].now_ps
                clock[0].waiting = 1
            return
        else:
            clock[0].at += 1
            if o.time_ps > 0:
                _schedule(m, RESUME, o.time_ps, PROGRAM, 0, 0, 0)
                return


@kernel
def _updated(m: LayerMachine, number: int) -> None:
    """End a collective after its update: the program resumes if it waits for it."""
    c = m.collectives[number]
    s = m.slots[c.slot]
    s.total_ps += m.clock[0].now_ps - c.issued_ps
    s.under_way -= 1
    m.clock[0].under_way -= 1
    end(m, c.operation)
    waited = s.waiting == 1
    if waited:
        s.waiting = 0
        s.exposed_ps += m.clock[0].now_ps - s.since_ps
    ending = m.clock[0].ending == 1
    if waited and not ending:
        _advance(m)
    m.clock[0].streams_left -= c.chunks
    if m.clock[0].ending == 1 and m.clock[0].streams_left == 0:
        _advance(m)


@kernel(inline=False)
def _limit_reached(m: LayerMachine, limits: Records) -> int:
    """Return the limit that is reached before the next event, 0 for none."""
    clock = m.clock[0]
    limit = limits[0]
    if clock.ended >= limit.ended or clock.phases >= limit.phases or clock.passes >= limit.passes:
        return REACHED
    following = m.events[m.events[0].heap].time_ps
    if following > limit.until_ps:
        return TIME
    if following > clock.now_ps and clock.turns >= limit.turns:
        return REACHED
    return 0


@kernel
def run_layers(limits: Records, machine: LayerMachine, words: tuple[Records, ...]) -> int:
    """Handle events until none is left or a limit is reached; returns why it stopped."""
    m = handle(machine)
    clock, watch = m.clock, m.watch
    while True:
        if clock[0].events >= limits[0].events:
            return STEPS
        if clock[0].heaped == 0:
            return ENDED
        if limits[0].closely == 1:
            reached = _limit_reached(m, limits)
            if reached != 0:
                return reached
        event = _next(m)
        if m.events[event].time_ps > clock[0].now_ps:
            clock[0].turns += 1
        clock[0].now_ps = m.events[event].time_ps
        clock[0].events += 1
        if event == RESUME:
            if clock[0].computing >= 0:
                end(m, clock[0].computing)
                clock[0].computing = -1
            _advance(m)
        elif event <= len(m.collectives):
            _updated(m, event - 1)
        else:
            _end_phase(m, event - 1 - len(m.collectives))
        if limits[0].closely == 1 and watch[0].points > 0:
            found = check_conditions(m.points, watch[0].points, words)
            if watch[0].hit < 0:
                watch[0].hit = found
            if watch[0].hit >= 0:
                return BREAK


_TABLES = (
    CLOCK, OPERATION, SLOT, COLLECTIVE, CHUNK, PHASE, STREAM, QUEUE, EVENT, PASS_END, WATCH, POINT, PASSED,
)  # fmt: skip
DTYPES = dict(zip(LayerMachine._fields, _TABLES, strict=True))
"""The record type of each table."""

ENTRY = Entry(run_layers, [LIMITS, LayerMachine(*_TABLES), (np.dtype("i8"),) * 5])  # type: ignore[arg-type]
"""The loop as Python calls it: limits, tables, and five of the tables as plain numbers."""
