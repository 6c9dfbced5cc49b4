"""The loop: the program of an NPU, and one event after another.

All NPUs do the same at the same time, so one of them is simulated: see :mod:`._phases`.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import Entry, Records, kernel, kernel_apart

from ._events import put, take
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

__all__ = ["ENDED", "ENTRY", "STEPS"]

ENDED: Final = 0  # nothing is left to happen
STEPS: Final = 1  # as many events as asked for


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
                put(m, RESUME, o.time_ps, PROGRAM, 0, 0, 0)
                return
        elif o.kind == ISSUE:
            clock[0].at += 1
            issue(m, o.slot)
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
                put(m, RESUME, o.time_ps, PROGRAM, 0, 0, 0)
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
        event = take(m)
        clock[0].now_ps = m.events[event].time_ps
        clock[0].events += 1
        if event == RESUME:
            _advance(m)
        elif event <= len(m.collectives):
            _updated(m, event - 1)
        else:
            phase_over(m, event - 1 - len(m.collectives))


ENTRY = Entry(
    run_astrasim1,
    [LIMITS, CLOCK, OPERATION, SLOT, COLLECTIVE, CHUNK, PHASE, STREAM, QUEUE, EVENT, PASS_END],
)
"""The loop as Python calls it: the limits, and the tables of the machine."""
