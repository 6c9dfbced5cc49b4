"""Scheduled callbacks of an NPU: the timers of one time form a list behind the first of them."""

from __future__ import annotations

from astranb.core.jit import kernel
from astranb.core.timesteps import put_event, time_after

from .tables import KIND_BITS, TIMERS, MessageMachine

__all__ = ["drop_timers", "set_timer", "set_timer_inline"]


@kernel
def set_timer_inline(m: MessageMachine, npu: int, delay_ns: int, kind: int, arg: int, size: int) -> None:
    """Schedule a callback of an NPU; the event queue holds only the first one of each time."""
    clock = m.clock
    timers = m.timers
    time = time_after(m.queue, delay_ns)
    new = clock[0].free_timer
    clock[0].free_timer = timers[new].next
    clock[0].timers_left -= 1
    timers[new].time = time
    timers[new].kind = kind
    timers[new].arg = arg
    timers[new].bytes = size
    timers[new].next = -1
    timers[new].block = m.fold[0].block
    timers[new].strand = m.fold[0].strand
    row = m.npus[npu].timers
    while row >= 0 and timers[row].time != time:
        row = timers[row].later
    if row >= 0:
        timers[timers[row].tail].next = new
        timers[row].tail = new
        return
    timers[new].tail = new
    timers[new].later = m.npus[npu].timers
    m.npus[npu].timers = new
    put_event(m.queue, m.timesteps, m.pending, time, (npu << KIND_BITS) | TIMERS)


@kernel(inline=False)
def set_timer(m: MessageMachine, npu: int, delay_ns: int, kind: int, arg: int, size: int) -> None:
    """As :func:`set_timer_inline`, in one copy for all callers."""
    set_timer_inline(m, npu, delay_ns, kind, arg, size)


@kernel
def drop_timers(m: MessageMachine, npu: int, head: int) -> None:
    """Remove the first timer of a time from an NPU's list."""
    timers = m.timers
    row = m.npus[npu].timers
    if row == head:
        m.npus[npu].timers = timers[head].later
    else:
        while timers[row].later != head:
            row = timers[row].later
        timers[row].later = timers[head].later
    timers[head].next = m.clock[0].free_timer
    m.clock[0].free_timer = head
    m.clock[0].timers_left += 1
