"""Appointments of an NPU: all of one instant are kept together, where the first of them stands."""

from __future__ import annotations

from astranb.core.jit import kernel
from astranb.core.timesteps import put_event

from ._tables import CALLS, KIND_BITS, Machine

__all__ = ["appoint", "appoint_apart", "close_appointments"]


@kernel
def appoint(m: Machine, npu: int, delay_ns: int, kind: int, arg: int, size: int) -> None:
    """Make an appointment of an NPU; the network hears only of the first one of an instant."""
    clock = m.clock
    calls = m.calls
    time = m.queue[0].now + delay_ns
    new = clock[0].free_call
    clock[0].free_call = calls[new].next
    clock[0].calls_left -= 1
    calls[new].time = time
    calls[new].kind = kind
    calls[new].arg = arg
    calls[new].bytes = size
    calls[new].next = -1
    row = m.npus[npu].calls
    while row >= 0 and calls[row].time != time:
        row = calls[row].later
    if row >= 0:
        calls[calls[row].tail].next = new
        calls[row].tail = new
        return
    calls[new].tail = new
    calls[new].later = m.npus[npu].calls
    m.npus[npu].calls = new
    put_event(m.queue, m.timesteps, m.pending, time, (npu << KIND_BITS) | CALLS)


@kernel(inline=False)
def appoint_apart(m: Machine, npu: int, delay_ns: int, kind: int, arg: int, size: int) -> None:
    """As :func:`appoint`: one copy of the code for all callers."""
    appoint(m, npu, delay_ns, kind, arg, size)


@kernel
def close_appointments(m: Machine, npu: int, head: int) -> None:
    """Strike the first appointment of an instant off an NPU's list."""
    calls = m.calls
    row = m.npus[npu].calls
    if row == head:
        m.npus[npu].calls = calls[head].later
    else:
        while calls[row].later != head:
            row = calls[row].later
        calls[row].later = calls[head].later
    calls[head].next = m.clock[0].free_call
    m.clock[0].free_call = head
    m.clock[0].calls_left += 1
