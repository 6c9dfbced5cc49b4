"""Chunks under way: each is a stream that goes through its phases, one queue after another."""

from __future__ import annotations

from astranb.core.jit import kernel
from astranb.engine.messages.tables import PHASE_BEGINS, PHASE_ENDS

from ._events import put
from ._notes import begin, note_phase
from ._tables import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    FEWEST_LEFT,
    FIFO,
    GROUPED,
    PHASE_OVER,
    PROGRAM,
    REDUCE_SCATTER,
    SMALLEST,
    Machine,
)

__all__ = ["issue", "phase_over"]


@kernel
def _place(m: Machine, stream: int, queue: int) -> int:
    """Find the stream behind which another one is put into a queue; -1 for its head."""
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
def _enter(m: Machine, stream: int) -> None:
    """Put a stream into the queue of its phase."""
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
        put(m, event, p.duration_ps, PHASE_OVER, p.last_ps, p.message_ps, queue)
        if m.watch[0].noting == 1:
            note_phase(m, row, PHASE_BEGINS)
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
def phase_over(m: Machine, stream: int) -> None:
    """All NPUs have ended a stream's phase: it goes on to the next, or is over."""
    s = m.streams[stream]
    chunk = m.chunks[s.chunk]
    queue = m.phases[s.phase].queue
    started_ps = s.started_ps
    m.phases[s.phase].over += 1
    m.clock[0].phases += 1
    if m.watch[0].noting == 1:
        note_phase(m, stream, PHASE_ENDS)
    done = s.phase + 1 == chunk.first_phase + chunk.phases
    if done:
        c = m.collectives[s.collective]
        c.over += 1
        if c.over == c.chunks:
            put(m, 1 + s.collective, c.update_ps, PROGRAM, 0, 0, 0)
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
def issue(m: Machine, number: int) -> None:
    """Begin a collective: its chunks go into the queues of their first phases."""
    c = m.collectives[number]
    c.issued_ps = m.clock[0].now_ps
    m.slots[c.slot].under_way += 1
    m.clock[0].issued += 1
    m.clock[0].under_way += 1
    begin(m, c.operation)
    m.clock[0].streams_left += c.chunks
    for turn in range(c.chunks):
        stream = c.first_stream + turn
        s = m.streams[stream]
        s.collective = number
        s.chunk = c.first_chunk + turn
        s.phase = m.chunks[s.chunk].first_phase
        _enter(m, stream)
        _wake(m, m.phases[s.phase].queue)
