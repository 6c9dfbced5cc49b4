"""The loop: one event after another, and why it stopped."""

from __future__ import annotations

from typing import Final

from astranb.core.entry import Entry
from astranb.core.handle import handle
from astranb.core.jit import Records, kernel
from astranb.core.timesteps import PENDING, TIMESTEP, TIMESTEPS, next_event, next_time
from astranb.engine.stops import BREAK, ENDED, GROW, REACHED, STEPS, TIME
from astranb.net._astrasim2 import DIMENSION, SERVER, WAY, WIRE

from ._appoint import appoint, appoint_apart, close_appointments
from ._bus import LISTS, bus_processed, bus_received, bus_sent, bus_settle
from ._exchange import begin_receive, begin_send
from ._issue import custom_done, fire, memory_free, operation_done, phase_over
from ._noted import DELIVERED, PASSED, POINT, TRAFFIC, USED, WATCH
from ._notes import conditions_hold, note
from ._rooted import rooted_passed, rooted_received
from ._steps import bundle_passed, insert_packet
from ._switch import at_switch, from_switch, switch_bundle_passed, switch_done
from ._tables import (
    ALLOCATOR,
    BUCKET,
    BUNDLE,
    BUNDLE_REDUCED,
    BUS,
    BUS_PROCESSED,
    BUS_RECEIVED,
    BUS_SENT,
    CALL,
    CALLS,
    CLOCK,
    CONFIG,
    COUNTER,
    DONE,
    FREE,
    GROUP,
    HOP,
    IMPLEMENTATION,
    IN_NETWORK,
    KIND_BITS,
    LIMITS,
    MEMORY_FREE,
    MESSAGE,
    NPU,
    OPERATION,
    OPERATION_ROW,
    PHASE,
    PLACE,
    QUEUE,
    RECEIVING,
    REDUCING,
    ROOTED,
    SCHEDULE,
    SENDING,
    STREAM,
    STREAM_ROW,
    SWITCH_DONE,
    TREE,
    TURNS,
    Machine,
)
from ._transport import free_link, free_message, hop
from ._tree import tree_bundle_passed, tree_received

__all__ = ["BREAK", "DTYPES", "ENDED", "ENTRY", "GROW", "REACHED", "STEPS", "TIME", "waiting_ns"]

_MASK: Final = (1 << KIND_BITS) - 1


@kernel
def _tell(m: Machine, handler: int) -> None:
    """Tell whoever sent or expected a message."""
    who = handler & _MASK
    row = handler >> KIND_BITS
    if who == STREAM:
        m.streams[row].received += 1
        if m.streams[row].algorithm == TREE:
            tree_received(m, row)
        elif m.streams[row].algorithm == IN_NETWORK:
            from_switch(m, row)
        elif m.streams[row].algorithm == ROOTED:
            rooted_received(m, row)
        else:
            insert_packet(m, row)
    elif who == OPERATION:
        if m.operations[row].owner >= 0:
            custom_done(m, row)
        else:
            operation_done(m, row)
    elif who == SENDING:
        begin_send(m, row)
    elif who == RECEIVING:
        begin_receive(m, row)
    elif who == REDUCING:
        at_switch(m, row)


@kernel
def _arrive(m: Machine, row: int) -> int:
    """A message is where it belongs; returns the receiver's handler where it has posted, else 0."""
    message = m.messages[row]
    m.clock[0].delivered += 1
    if m.watch[0].noting == 1:
        note(m, DELIVERED, message.dst, -1, message.src, -1)
    if message.posted == 1:
        free_message(m, row)
        return int(message.receiver)
    message.sent = 2
    return 0


@kernel
def _reduce_ns(m: Machine, size: int) -> int:
    """How long it takes to reduce a message: two reads and a write, each cut to whole nanoseconds."""
    if m.config[0].reduce_Bps > 0.0:
        return 3 * int(float(size) / m.config[0].reduce_Bps * 1e9)
    return 0


@kernel
def _passed(m: Machine, stream: int) -> None:
    """A message of a stream has passed the endpoint's memory."""
    algorithm = m.streams[stream].algorithm
    if algorithm == TREE:
        over = tree_bundle_passed(m, stream)
    elif algorithm == IN_NETWORK:
        over = switch_bundle_passed(m, stream)
    elif algorithm == ROOTED:
        over = rooted_passed(m, stream)
    else:
        over = bundle_passed(m, stream)
    if over:
        phase_over(m, stream)


@kernel(inline=False)
def _over_bus(m: Machine, npu: int, side: int) -> None:
    """A request has come over a shared bus; what it carries goes on first, and then the bus."""
    size = m.messages[m.bus_lists[side * LISTS + 1].head].bytes
    bundle = bus_received(m, side)
    if bundle < 0:
        return
    stream = bundle >> 1
    if bundle & 1 == 1:
        appoint_apart(m, npu, _reduce_ns(m, size), BUNDLE, stream, 0)
    else:
        _passed(m, stream)
    bus_settle(m, side)


@kernel
def _appointment(m: Machine, npu: int, row: int) -> None:
    """Keep one appointment of an NPU."""
    kind = m.calls[row].kind
    arg = m.calls[row].arg
    if kind == BUNDLE:
        _passed(m, arg)
    elif kind == BUNDLE_REDUCED:
        appoint(m, npu, _reduce_ns(m, m.calls[row].bytes), BUNDLE, arg, 0)
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
def _step(m: Machine) -> bool:
    """Handle one event; returns False where none is left."""
    clock = m.clock
    if clock[0].cursor >= 0:
        row = clock[0].cursor
        npu = clock[0].caller
        _appointment(m, npu, row)
        clock[0].cursor = m.calls[row].next
        if row != clock[0].head:
            m.calls[row].next = clock[0].free_call
            clock[0].free_call = row
            clock[0].calls_left += 1
        if clock[0].cursor < 0:
            close_appointments(m, npu, clock[0].head)
        return True
    if clock[0].fired < len(m.npus):
        clock[0].fired += 1
        fire(m, clock[0].fired - 1)
        return True
    what = next_event(m.queue, m.timesteps, m.pending)
    if what < 0:
        return False
    kind = what & _MASK
    row = what >> KIND_BITS
    if kind == CALLS:
        head = m.npus[row].calls
        while m.calls[head].time != m.queue[0].now:
            head = m.calls[head].later
        clock[0].caller = row
        clock[0].head = head
        clock[0].cursor = head
        return True
    first = 0
    second = 0
    if kind == HOP:
        if hop(m, row):
            # The sender is told before the receiver.
            first = m.messages[row].sender
            second = _arrive(m, row)
    elif kind == FREE:
        free_link(m, row)
    else:
        second = row
    for turn in range(2):
        handler = first if turn == 0 else second
        if handler != 0:
            _tell(m, handler)
    return True


@kernel(inline=False)
def waiting_ns(m: Machine) -> int:
    """Give the time of the next event; -1 where none is left."""
    if m.clock[0].cursor >= 0 or m.clock[0].fired < len(m.npus):
        return int(m.queue[0].now)
    return next_time(m.queue, m.timesteps)


@kernel(inline=False)
def _met(m: Machine, limits: Records) -> int:
    """Tell which of the limits is met before the next event, 0 for none."""
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
def run_astrasim2(
    limits: Records,
    config: Records,
    clock: Records,
    dims: Records,
    implementations: Records,
    npus: Records,
    places: Records,
    queues: Records,
    allocators: Records,
    trees: Records,
    groups: Records,
    members: Records,
    group_streams: Records,
    operations: Records,
    children: Records,
    ready: Records,
    memories: Records,
    streams: Records,
    phases: Records,
    calls: Records,
    messages: Records,
    buckets: Records,
    links: Records,
    ways: Records,
    hops: Records,
    wires: Records,
    schedule: Records,
    turns: Records,
    bus: Records,
    bus_lists: Records,
    queue: Records,
    timesteps: Records,
    pending: Records,
    watch: Records,
    points: Records,
    passed: Records,
    traffic: Records,
    used: Records,
    npu_words: Records,
    operation_words: Records,
    queue_words: Records,
) -> int:
    """Handle events until there are none or a limit is met; returns why it stopped."""
    m = handle(Machine(
        config, clock, dims, implementations, npus, places, queues, allocators, trees, groups, members,
        group_streams, operations, children, ready, memories, streams, phases, calls, messages, buckets,
        links, ways, hops, wires, schedule, turns, bus, bus_lists, queue, timesteps, pending, watch, points,
        passed, traffic, used,
    ))  # fmt: skip
    margin = limits[0].margin
    while True:
        if clock[0].steps >= limits[0].steps:
            return STEPS
        if limits[0].closely == 1:
            met = _met(m, limits)
            if met != 0:
                return met
        if (
            clock[0].calls_left < margin
            or clock[0].messages_left < margin
            or queue[0].events_left < 2 * margin
            or clock[0].streams_left < limits[0].streams
        ):
            return GROW
        if not _step(m):
            return ENDED
        clock[0].steps += 1
        if limits[0].closely == 1 and watch[0].points > 0:
            conditions_hold(m, npu_words, operation_words, queue_words)
            if watch[0].hit >= 0:
                return BREAK


ENTRY = Entry(
    run_astrasim2,
    [
        LIMITS, CONFIG, CLOCK, DIMENSION, IMPLEMENTATION, NPU, PLACE, QUEUE, ALLOCATOR, COUNTER, GROUP,
        COUNTER, COUNTER, OPERATION_ROW, COUNTER, COUNTER, QUEUE, STREAM_ROW, PHASE, CALL, MESSAGE,
        BUCKET, SERVER, WAY, COUNTER, WIRE, SCHEDULE, TURNS, BUS, BUCKET, TIMESTEPS, TIMESTEP, PENDING,
        WATCH, POINT, PASSED, TRAFFIC, USED, COUNTER, COUNTER, COUNTER,
    ],
)  # fmt: skip
"""The loop as Python calls it: the limits, the tables of the machine, and three of them as numbers."""

DTYPES = dict(zip(Machine._fields, ENTRY.dtypes[1:], strict=False))
"""The dtype of each table of the machine."""
