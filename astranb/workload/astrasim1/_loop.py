"""The loop: the program of an NPU, and the chunks of its collectives on their way through dimensions.

All NPUs do the same at the same time, so one of them is simulated: see :mod:`._phases`.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import Entry, Records, kernel, kernel_apart

from ._tables import (
    AT_ONCE,
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
    OPERATION,
    PASS,
    PASS_END,
    PHASE,
    PHASE_OVER,
    PROGRAM,
    QUEUE,
    RESUME,
    SLOT,
    SMALLEST,
    STREAM,
    WAIT,
    Machine,
)

__all__ = ["ENDED", "ENTRY", "STEPS"]

ENDED: Final = 0  # nothing is left to happen
STEPS: Final = 1  # as many events as asked for

_ALL_REDUCE: Final = 0
_REDUCE_SCATTER: Final = 1
_ALL_GATHER: Final = 2
_ALL_TO_ALL: Final = 3


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


@kernel_apart
def _put(m: Machine, event: int, delay_ps: int, rank: int, last_ps: int, message_ps: int, queue: int) -> None:
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
def _take(m: Machine) -> int:
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


@kernel
def _place(m: Machine, stream: int, queue: int) -> int:
    """Find the stream behind which another one is put into a queue; -1 for its head."""
    s = m.streams[stream]
    p = m.phases[s.phase]
    priority = m.collectives[s.collective].priority
    left = m.chunks[s.chunk].first_phase + m.chunks[s.chunk].phases - s.phase
    within = m.clock[0].within
    if p.collective == _ALL_REDUCE or p.collective == _ALL_TO_ALL:
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
                # The first one that waits keeps its place.
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
            if (last == _REDUCE_SCATTER and one_to_last == _ALL_GATHER) or (
                last == _ALL_GATHER and one_to_last == _REDUCE_SCATTER
            ):
                behind = True
        else:
            behind = m.collectives[r.collective].priority >= priority
        if not behind:
            break
        before = row
        row = m.streams[row].next
    return int(before)


@kernel_apart
def _enter(m: Machine, stream: int) -> None:
    """Put a stream into the queue of its phase."""
    s = m.streams[stream]
    q = m.queues[m.phases[s.phase].queue]
    before = _place(m, stream, m.phases[s.phase].queue)
    s.before = before
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


@kernel_apart
def _wake(m: Machine, queue: int) -> None:
    """Let the next streams of a queue run, as many as may at once."""
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
        _put(m, event, p.duration_ps, PHASE_OVER, p.last_ps, p.message_ps, queue)
        row = s.next


@kernel
def _leave(m: Machine, stream: int) -> None:
    """Take a stream out of its queue's list."""
    s = m.streams[stream]
    q = m.queues[m.phases[s.phase].queue]
    if s.before < 0:
        q.head = s.next
    else:
        m.streams[s.before].next = s.next
    if s.next >= 0:
        m.streams[s.next].before = s.before


@kernel
def _left(m: Machine, queue: int, started_ps: int) -> None:
    """A stream has left a queue: its figures, and the next one runs."""
    q = m.queues[queue]
    q.running -= 1
    q.inside -= 1
    if q.inside == 0:
        q.busy_ps += m.clock[0].now_ps - q.since_ps
    q.chunks += 1
    q.chunk_ps += m.clock[0].now_ps - started_ps
    _wake(m, queue)


@kernel
def _phase_over(m: Machine, stream: int) -> None:
    """All NPUs have ended a stream's phase: it goes on to the next, or is over."""
    s = m.streams[stream]
    chunk = m.chunks[s.chunk]
    queue = m.phases[s.phase].queue
    started_ps = s.started_ps
    m.phases[s.phase].over += 1
    done = s.phase + 1 == chunk.first_phase + chunk.phases
    if done:
        c = m.collectives[s.collective]
        c.over += 1
        if c.over == c.chunks:
            _put(m, 1 + s.collective, c.update_ps, PROGRAM, 0, 0, 0)
    _leave(m, stream)
    s.running = 0
    if done:
        _left(m, queue, started_ps)
        return
    s.phase += 1
    _enter(m, stream)
    # The queue that it leaves goes on before the one that it enters.
    _left(m, queue, started_ps)
    _wake(m, m.phases[s.phase].queue)


@kernel
def _issue(m: Machine, number: int) -> None:
    """Begin a collective: its chunks go into the queues of their first phases."""
    c = m.collectives[number]
    c.issued_ps = m.clock[0].now_ps
    m.slots[c.slot].under_way += 1
    m.clock[0].issued += 1
    m.clock[0].streams_left += c.chunks
    for turn in range(c.chunks):
        stream = c.first_stream + turn
        s = m.streams[stream]
        s.collective = number
        s.chunk = c.first_chunk + turn
        s.phase = m.chunks[s.chunk].first_phase
        _enter(m, stream)
        _wake(m, m.phases[s.phase].queue)


@kernel
def _wait(m: Machine, slot: int) -> bool:
    """Wait for a slot's collectives; returns whether there are any."""
    s = m.slots[slot]
    if s.under_way == 0:
        return False
    if s.waiting == 0:
        s.waiting = 1
        s.since_ps = m.clock[0].now_ps
    return True


@kernel_apart
def _advance(m: Machine) -> None:
    """Go on with the program until time has to pass."""
    clock = m.clock
    while True:
        o = m.operations[clock[0].at]
        if o.kind == COMPUTE:
            m.slots[o.slot].compute_ps += o.time_ps
            clock[0].at += 1
            if o.time_ps > 0:
                _put(m, RESUME, o.time_ps, PROGRAM, 0, 0, 0)
                return
        elif o.kind == ISSUE:
            clock[0].at += 1
            _issue(m, o.slot)
        elif o.kind == WAIT:
            if _wait(m, o.slot):
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
            elif clock[0].ending == 0:
                clock[0].ending = 1
                # What the first layer's weights still wait for counts as exposed.
                _wait(m, o.slot)
            return
        else:
            clock[0].at += 1
            if o.time_ps > 0:
                _put(m, RESUME, o.time_ps, PROGRAM, 0, 0, 0)
                return


@kernel
def _updated(m: Machine, number: int) -> None:
    """A collective is over and its update done: who waits for it goes on."""
    c = m.collectives[number]
    s = m.slots[c.slot]
    s.total_ps += m.clock[0].now_ps - c.issued_ps
    s.under_way -= 1
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


@kernel
def run_astrasim1(
    limits: Records,
    clock: Records,
    operations: Records,
    slots: Records,
    collectives: Records,
    chunks: Records,
    phases: Records,
    streams: Records,
    queues: Records,
    events: Records,
    pass_ends: Records,
) -> int:
    """Handle events until there are none or a limit is met; returns why it stopped."""
    m = Machine(clock, operations, slots, collectives, chunks, phases, streams, queues, events, pass_ends)
    while True:
        if clock[0].events >= limits[0].events:
            return STEPS
        if clock[0].heaped == 0:
            return ENDED
        event = _take(m)
        clock[0].now_ps = m.events[event].time_ps
        clock[0].events += 1
        if event == RESUME:
            _advance(m)
        elif event <= len(m.collectives):
            _updated(m, event - 1)
        else:
            _phase_over(m, event - 1 - len(m.collectives))


ENTRY = Entry(
    run_astrasim1,
    [LIMITS, CLOCK, OPERATION, SLOT, COLLECTIVE, CHUNK, PHASE, STREAM, QUEUE, EVENT, PASS_END],
)
"""The loop as Python calls it: the limits, and the tables of the machine."""
