"""The loop: the program of an NPU, and one event after another.

All NPUs do the same at the same time, so one of them is simulated: see :mod:`._phases`.
"""

from __future__ import annotations

from astranb.core.entry import Entry
from astranb.core.handle import handle
from astranb.core.jit import Records, kernel
from astranb.engine.stops import BREAK, ENDED, REACHED, STEPS, TIME

from ._events import put, take
from ._noted import PASSED, POINT, WATCH
from ._notes import begin, conditions_hold, end
from ._streams import issue, phase_over
from ._tables import (
    CHUNK,
    CLOCK,
    COLLECTIVE,
    COMPUTE,
    END,
    EVENT,
    ISSUE,
    LIMITS,
    NUMBER,
    OPERATION,
    PASS,
    PASS_END,
    PHASE,
    PROGRAM,
    QUEUE,
    RESUME,
    SLOT,
    STREAM,
    WAIT,
    Machine,
)

__all__ = ["DTYPES", "ENDED", "ENTRY"]


@kernel
def _wait(m: Machine, operation: int) -> bool:
    """Wait for the collectives of an operation's slot; returns whether there are any."""
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
def _advance(m: Machine) -> None:
    """Go on with the program until time has to pass."""
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
                put(m, RESUME, o.time_ps, PROGRAM, 0, 0, 0)
                return
            end(m, clock[0].at - 1)
        elif o.kind == ISSUE:
            clock[0].at += 1
            issue(m, o.slot)
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
                # What the first layer's weights still wait for counts as exposed.
                _wait(m, clock[0].at)
                o.begun_ps = clock[0].now_ps
                clock[0].waiting = 1
            return
        else:
            clock[0].at += 1
            if o.time_ps > 0:
                put(m, RESUME, o.time_ps, PROGRAM, 0, 0, 0)
                return


@kernel
def _updated(m: Machine, number: int) -> None:
    """A collective is over and its update done: who waits for it goes on."""
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
def _met(m: Machine, limits: Records) -> int:
    """Tell which of the limits is met before the next event, 0 for none."""
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
    watch: Records,
    points: Records,
    passed: Records,
    clock_words: Records,
    operation_words: Records,
    slot_words: Records,
    collective_words: Records,
    queue_words: Records,
) -> int:
    """Handle events until there are none or a limit is met; returns why it stopped."""
    m = handle(Machine(
        clock, operations, slots, collectives, chunks, phases, streams, queues, events, pass_ends, watch,
        points, passed,
    ))  # fmt: skip
    while True:
        if clock[0].events >= limits[0].events:
            return STEPS
        if clock[0].heaped == 0:
            return ENDED
        if limits[0].closely == 1:
            met = _met(m, limits)
            if met != 0:
                return met
        event = take(m)
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
            phase_over(m, event - 1 - len(m.collectives))
        if limits[0].closely == 1 and watch[0].points > 0:
            conditions_hold(m, clock_words, operation_words, slot_words, collective_words, queue_words)
            if watch[0].hit >= 0:
                return BREAK


_TABLES = (
    CLOCK, OPERATION, SLOT, COLLECTIVE, CHUNK, PHASE, STREAM, QUEUE, EVENT, PASS_END, WATCH, POINT, PASSED,
)  # fmt: skip
DTYPES = dict(zip(Machine._fields, _TABLES, strict=True))
"""The records of each table."""

ENTRY = Entry(run_astrasim1, [LIMITS, *_TABLES, *(NUMBER,) * 5])
"""The loop as Python calls it: the limits, the tables of the machine, and five of them as numbers."""
