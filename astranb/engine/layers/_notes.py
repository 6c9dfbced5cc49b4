"""What is noted of a run as it happens: for breakpoints, and for the recording.

Nothing simulated depends on it. Who has something to note asks ``watch[0].noting`` first.
"""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.engine.messages.tables import BEGINS, ENDS, NOTHING, PHASE_BEGINS
from astranb.engine.messages.recording import holds

from ._tables import ISSUE, Machine

__all__ = ["begin", "conditions_hold", "end", "note_phase"]


@kernel(inline=False)
def _note(m: Machine, what: int, operation: int, queue: int) -> None:
    """Note that something has happened, and see whether a breakpoint is about it."""
    watch = m.watch[0]
    if watch.hit >= 0:
        return  # what a breakpoint was hit by is what is told
    o = m.operations[operation]
    slot = o.slot
    if o.kind == ISSUE:
        slot = m.collectives[o.slot].slot
    for number in range(watch.points):
        point = m.points[number]
        if (
            point.what == what
            and watch.hit < 0
            and (point.operation < 0 or point.operation == operation)
            and (point.layer < 0 or point.layer == slot // 3)
            and (point.part < 0 or point.part == slot % 3)
            and (point.kind < 0 or point.kind == o.kind)
            and (point.dim < 0 or (queue >= 0 and point.dim == queue // m.clock[0].queues))
        ):
            watch.hit = number
    # Of one event the first is told, for the others follow from it.
    step = m.clock[0].events - 1
    if watch.hit >= 0 or watch.what < 0 or watch.step != step:
        watch.what = what
        watch.operation = operation
        watch.queue = queue
        watch.step = step


@kernel
def begin(m: Machine, operation: int) -> None:
    """An operation of the program begins."""
    m.operations[operation].begun_ps = m.clock[0].now_ps
    if m.watch[0].noting == 1:
        _note(m, BEGINS, operation, -1)


@kernel
def end(m: Machine, operation: int) -> None:
    """An operation of the program is over."""
    m.operations[operation].ended_ps = m.clock[0].now_ps
    m.clock[0].ended += 1
    if m.watch[0].noting == 1:
        _note(m, ENDS, operation, -1)


@kernel(inline=False)
def note_phase(m: Machine, stream: int, what: int) -> None:
    """A phase of a chunk begins or is over."""
    s = m.streams[stream]
    c = m.collectives[s.collective]
    _note(m, what, c.operation, m.phases[s.phase].queue)
    if what == PHASE_BEGINS or m.watch[0].recording == 0:
        return
    row = m.passed[m.watch[0].passed % len(m.passed)]
    m.watch[0].passed += 1
    row.operation = c.operation
    row.chunk = s.chunk - c.first_chunk
    row.phase = s.phase
    row.nth = 1 + s.phase - m.chunks[s.chunk].first_phase
    row.queued_ps = s.queued_ps
    row.begun_ps = s.started_ps
    row.end_ps = m.clock[0].now_ps


@kernel(inline=False)
def conditions_hold(
    m: Machine, clock: Records, operations: Records, slots: Records, collectives: Records, queues: Records
) -> None:
    """See whether a condition has begun to hold; the tables are given as plain numbers."""
    for number in range(m.watch[0].points):
        point = m.points[number]
        if point.what != NOTHING:
            continue
        if point.owner == 0:
            found = clock[point.place].value
        elif point.owner == 1:
            found = operations[point.place].value
        elif point.owner == 2:
            found = slots[point.place].value
        elif point.owner == 3:
            found = collectives[point.place].value
        else:
            found = queues[point.place].value
        now = 1 if holds(found, point.relation, point.value) else 0
        if now == 1 and point.was == 0 and m.watch[0].hit < 0:
            m.watch[0].hit = number
        point.was = now
