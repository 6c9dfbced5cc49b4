"""The event loop: handle one event after another until a limit is reached."""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.entry import Entry
from astranb.core.handle import handle
from astranb.core.jit import Records, kernel
from astranb.core.timesteps import next_event, next_time
from astranb.engine.conditions import check_conditions
from astranb.engine.stops import BREAK, ENDED, GROW, REACHED, STEPS, TIME, TOO_LATE

from .algorithms import at_switch, bundle_passed, message_received, switch_done
from .bus import LISTS, bus_processed, bus_received, bus_sent, bus_settle
from .issue import custom_done, memory_free, operation_done, phase_over, start_npu
from .recording import record
from .tables import (
    BUNDLE,
    BUNDLE_REDUCED,
    BUS_PROCESSED,
    BUS_RECEIVED,
    BUS_SENT,
    DELIVERED,
    DONE,
    DTYPES,
    FREE,
    HOP,
    KIND_BITS,
    LIMITS,
    MEMORY_FREE,
    OPERATION,
    RECEIVING,
    REDUCING,
    SENDING,
    STREAM,
    SWITCH_DONE,
    TIMERS,
    MessageMachine,
)
from .ties import arrives, at_sender, at_target, scheduled, scheduled_late, scheduled_message, scheduled_timer
from .timers import drop_timers, set_timer, set_timer_inline
from .transport import free_link, free_message, hop, resume

__all__ = ["ENTRY", "waiting_ns"]

_MASK: Final = (1 << KIND_BITS) - 1


@kernel
def _notify(m: MessageMachine, handler: int) -> None:
    """Notify the sender or the receiver of a message."""
    who = handler & _MASK
    row = handler >> KIND_BITS
    if who == STREAM:
        message_received(m, row)
    elif who == OPERATION:
        if m.operations[row].owner >= 0:
            custom_done(m, row)
        else:
            operation_done(m, row)
    elif who == SENDING or who == RECEIVING:
        resume(m, row, who == SENDING)
    elif who == REDUCING:
        at_switch(m, row)


@kernel
def _arrive(m: MessageMachine, row: int) -> int:
    """A message is at its target; returns the receiver's handler if the receive is posted, else 0."""
    message = m.messages[row]
    m.clock[0].delivered += 1
    if m.watch[0].noting == 1:
        record(m, DELIVERED, message.dst, -1, message.src, -1)
    if m.config[0].folded == 1 and m.config[0].congestion == 0:
        arrives(m, row)
    if message.posted == 1:
        free_message(m, row)
        return int(message.receiver)
    message.sent = 2
    return 0


@kernel
def _reduce_ns(m: MessageMachine, size: int) -> int:
    """Return the time to reduce a message: two reads and a write, each rounded down to nanoseconds."""
    if m.config[0].reduce_Bps > 0.0:
        return 3 * int(float(size) / m.config[0].reduce_Bps * 1e9)
    return 0


@kernel
def _passed(m: MessageMachine, stream: int) -> None:
    """A message of a stream has passed the endpoint's memory."""
    if bundle_passed(m, stream):
        phase_over(m, stream)


@kernel(inline=False)
def _over_bus(m: MessageMachine, npu: int, side: int) -> None:
    """A request has crossed a shared bus: first handle what it carries, then go on with the bus."""
    size = m.messages[m.bus_lists[side * LISTS + 1].head].bytes
    bundle = bus_received(m, side)
    if bundle < 0:
        return
    stream = bundle >> 1
    if bundle & 1 == 1:
        set_timer(m, npu, _reduce_ns(m, size), BUNDLE, stream, 0)
    else:
        _passed(m, stream)
    bus_settle(m, side)


@kernel
def _expire(m: MessageMachine, npu: int, row: int) -> None:
    """Handle a timer of an NPU that expires."""
    kind = m.timers[row].kind
    arg = m.timers[row].arg
    if kind == BUNDLE:
        _passed(m, arg)
    elif kind == BUNDLE_REDUCED:
        set_timer_inline(m, npu, _reduce_ns(m, m.timers[row].bytes), BUNDLE, arg, 0)
    elif kind == DONE:
        operation_done(m, arg)
    elif kind == MEMORY_FREE:
        memory_free(m, arg)
    elif kind == BUS_SENT:
        bus_sent(m, arg)
    elif kind == BUS_RECEIVED:
        _over_bus(m, npu, arg)
    elif kind == BUS_PROCESSED:
        bus_processed(m, arg)
    elif kind == SWITCH_DONE:
        switch_done(m, arg)
    else:
        custom_done(m, arg)


@kernel
def _step(m: MessageMachine) -> bool:
    """Handle one event; returns False where none is left."""
    clock = m.clock
    if clock[0].cursor >= 0:
        row = clock[0].cursor
        npu = clock[0].timer_npu
        scheduled_timer(m, npu, clock[0].head, row)
        _expire(m, npu, row)
        clock[0].cursor = m.timers[row].next
        if row != clock[0].head:
            m.timers[row].next = clock[0].free_timer
            clock[0].free_timer = row
            clock[0].timers_left += 1
        if clock[0].cursor < 0:
            drop_timers(m, npu, clock[0].head)
        return True
    if clock[0].fired < len(m.npus):
        clock[0].fired += 1
        scheduled(m, clock[0].fired - 1)
        start_npu(m, clock[0].fired - 1)
        return True
    what = next_event(m.queue, m.timesteps, m.pending)
    if what < 0:
        return False
    kind = what & _MASK
    row = what >> KIND_BITS
    if kind == TIMERS:
        head = m.npus[row].timers
        while m.timers[head].time != m.queue[0].now:
            head = m.timers[head].later
        clock[0].timer_npu = row
        clock[0].head = head
        clock[0].cursor = head
        return True
    first = 0
    second = 0
    if kind == HOP:
        scheduled_message(m, row)
        arrived = hop(m, row)
        if arrived >= 0:
            # The sender is notified before the receiver.
            first = m.messages[arrived].sender
            second = _arrive(m, arrived)
    elif kind == FREE:
        free_link(m, row)
    else:
        scheduled_late(m, row)
        second = row
    for number in range(2):
        handler = first if number == 0 else second
        if handler != 0:
            if number == 0:
                at_sender(m)
            _notify(m, handler)
            if number == 0:
                at_target(m)
    return True


@kernel(inline=False)
def waiting_ns(m: MessageMachine) -> int:
    """Return the time of the next event, -1 if none is left."""
    if m.clock[0].cursor >= 0 or m.clock[0].fired < len(m.npus):
        return int(m.queue[0].now)
    return next_time(m.queue, m.timesteps)


@kernel(inline=False)
def _limit_reached(m: MessageMachine, limits: Records) -> int:
    """Return the limit that is reached before the next event, 0 for none."""
    clock = m.clock[0]
    limit = limits[0]
    if clock.ended >= limit.ended or clock.delivered >= limit.delivered or clock.phases >= limit.phases:
        return REACHED
    following = waiting_ns(m)
    if following > limit.until_ns:
        return TIME
    if following > m.queue[0].now and m.queue[0].turns >= limit.turns:
        return REACHED
    return 0


@kernel
def run_messages(limits: Records, machine: MessageMachine, words: tuple[Records, ...]) -> int:
    """Handle events until none is left or a limit is reached; returns why it stopped."""
    m = handle(machine)
    clock, queue, watch = m.clock, m.queue, m.watch
    margin = limits[0].margin
    while True:
        if clock[0].steps >= limits[0].steps:
            return STEPS
        if limits[0].closely == 1:
            reached = _limit_reached(m, limits)
            if reached != 0:
                return reached
        if (
            clock[0].timers_left < margin
            or clock[0].messages_left < margin
            or queue[0].events_left < 2 * margin
            or clock[0].streams_left < limits[0].streams
        ):
            return GROW
        if not _step(m):
            return ENDED if queue[0].heaped == 0 else TOO_LATE
        clock[0].steps += 1
        if limits[0].closely == 1 and watch[0].points > 0:
            found = check_conditions(m.points, watch[0].points, words)
            if watch[0].hit < 0:
                watch[0].hit = found
            if watch[0].hit >= 0:
                return BREAK


ENTRY = Entry(run_messages, [LIMITS, MessageMachine(**DTYPES), (np.dtype("i8"),) * 3])  # type: ignore[arg-type]
"""The loop as Python calls it: the limits, the tables of the machine, and three of them as numbers."""
