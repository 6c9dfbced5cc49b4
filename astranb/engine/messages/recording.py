"""Recording of a run, and what its breakpoints observe; nothing simulated depends on it.

A handler looks at ``watch[0].noting`` first, so that a run without a recording and breakpoints
pays for a comparison only.
"""

from __future__ import annotations

from astranb.core.jit import kernel
from astranb.net import hops_in

from .tables import ENDS, PHASE_ENDS, SENT, MessageMachine

__all__ = [
    "record",
    "record_delayed",
    "record_flight",
    "record_link",
    "record_moving",
    "record_part",
    "record_phase",
    "record_queued",
    "record_resumed",
    "record_sender",
    "record_sent",
    "record_stream",
]


@kernel(inline=False)
def record(m: MessageMachine, what: int, npu: int, operation: int, other: int, dim: int) -> None:
    """Record that something has happened, and check the breakpoints on events."""
    watch = m.watch[0]
    if watch.hit >= 0:
        return  # the event that hit a breakpoint is the one to report
    for number in range(watch.points):
        point = m.points[number]
        if (
            point.what == what
            and watch.hit < 0
            and (point.npu < 0 or point.npu == npu)
            and (point.operation < 0 or point.operation == operation)
            and (point.dim < 0 or point.dim == dim)
            and (point.kind < 0 or (operation >= 0 and m.operations[operation].kind == point.kind))
        ):
            watch.hit = number
    # The first of several reports of one event is kept, because the others follow from it; but the
    # end of an operation replaces that of its last phase.
    fresh = watch.what < 0 or watch.step != m.clock[0].steps
    if watch.hit >= 0 or fresh or (what == ENDS and watch.what == PHASE_ENDS):
        watch.what = what
        watch.npu = npu
        watch.operation = operation
        watch.other = other
        watch.step = m.clock[0].steps


@kernel(inline=False)
def record_sender(m: MessageMachine, operation: int) -> None:
    """Record whose message is sent next: an operation's."""
    watch = m.watch[0]
    watch.sending = operation
    watch.sent_phase = 0
    watch.sent_step = 0


@kernel(inline=False)
def record_stream(m: MessageMachine, stream: int, step: int) -> None:
    """Record whose message is sent next: a chunk's, and how many of its phase it is (0: not counted)."""
    watch = m.watch[0]
    watch.sending = m.streams[stream].operation
    watch.sent_phase = m.streams[stream].phase
    watch.sent_step = step


@kernel(inline=False)
def record_moving(m: MessageMachine, row: int) -> None:
    """Record whose a message is."""
    watch = m.watch[0]
    if watch.recording == 1:
        moving = m.moving[row]
        moving.operation = watch.sending
        moving.phase = watch.sent_phase
        moving.step = watch.sent_step
        moving.queued_ns = m.queue[0].now
        moving.flight = -1


@kernel(inline=False)
def record_part(m: MessageMachine, part: int, row: int) -> None:
    """Record whose the quanta in a row are: those of another row."""
    if m.watch[0].recording == 1:
        m.moving[part].operation = m.moving[row].operation
        m.moving[part].phase = m.moving[row].phase
        m.moving[part].step = m.moving[row].step
        m.moving[part].queued_ns = m.queue[0].now
        m.moving[part].flight = -1


@kernel(inline=False)
def record_resumed(m: MessageMachine, row: int) -> None:
    """Record that the message that was deferred in a row is sent next."""
    watch = m.watch[0]
    if watch.recording == 1:
        moving = m.moving[row]
        watch.sending = moving.operation
        watch.sent_phase = moving.phase
        watch.sent_step = moving.step


@kernel(inline=False)
def record_sent(m: MessageMachine, row: int, src: int, dst: int, size: int) -> None:
    """Record a message that is sent: whose it is, and its bytes in the dimensions that it crosses."""
    record(m, SENT, src, -1, dst, -1)
    if m.watch[0].recording == 0:
        return
    record_moving(m, row)
    count = len(m.dims)
    for at in range(count):
        here = src
        there = dst
        if count > 1:
            here = (src // m.dims[at].stride) % m.dims[at].nodes
            there = (dst // m.dims[at].stride) % m.dims[at].nodes
        if here == there:
            continue
        hops = hops_in(m.dims, at, here, there)
        m.traffic[src * count + at].messages += 1
        m.traffic[src * count + at].bytes += size
        m.traffic[src * count + at].crossed += size * hops
        if m.config[0].every_dim == 0:
            break


@kernel(inline=False)
def record_queued(m: MessageMachine, row: int) -> None:
    """Record that a message comes to its next link."""
    if m.watch[0].recording == 1:
        m.moving[row].queued_ns = m.queue[0].now


@kernel(inline=False)
def record_flight(
    m: MessageMachine, row: int, link: int, route: int, at: int, size: int, start_ns: int, end_ns: int
) -> None:
    """Record a message that crosses a link, or all its links; ``at`` is the rank where it begins."""
    watch = m.watch[0]
    if watch.recording == 0:
        return
    message = m.messages[row]
    if m.drawn[at].value == 0 and m.drawn[max(message.dst, 0)].value == 0:
        return
    flight = m.flights[watch.flights % len(m.flights)]
    moving = m.moving[row]
    flight.number = watch.flights
    flight.link = link
    flight.route = route
    flight.src = message.src
    flight.dst = message.dst
    flight.tag = message.tag
    flight.bytes = size
    flight.operation = moving.operation
    flight.phase = moving.phase
    flight.step = moving.step
    flight.queued_ns = moving.queued_ns
    flight.start_ns = max(start_ns, moving.queued_ns)
    flight.end_ns = end_ns
    moving.flight = watch.flights
    watch.flights += 1


@kernel(inline=False)
def record_delayed(m: MessageMachine, row: int, end_ns: int) -> None:
    """Record that a message arrives later, as it waits for a port of its target."""
    if m.watch[0].recording == 0:
        return
    number = m.moving[row].flight
    if number >= 0 and m.flights[number % len(m.flights)].number == number:
        m.flights[number % len(m.flights)].end_ns = end_ns


@kernel(inline=False)
def record_link(
    m: MessageMachine, link: int, row: int, size: int, starts_ns: int, taken_ns: int, arrival_ns: int
) -> None:
    """Record bytes of a message on a link: from when on, what of the link they take, and when they arrive."""
    if m.watch[0].recording == 1:
        later_quantum = m.messages[row].whole >= 0 and m.messages[row].gone > size
        m.used[link].messages += 0 if later_quantum else 1
        m.used[link].bytes += size
        m.used[link].busy_ns += taken_ns
        at = m.messages[row].src if m.config[0].routed == 1 else m.messages[row].at
        record_flight(m, row, link, -1, at, size, starts_ns, arrival_ns)


@kernel(inline=False)
def record_phase(m: MessageMachine, stream: int, what: int) -> None:
    """Record that a phase of a chunk begins or ends."""
    s = m.streams[stream]
    dim = s.queue // m.config[0].queues % m.config[0].dims
    record(m, what, s.npu, s.operation, -1, dim)
    if what != PHASE_ENDS or m.watch[0].recording == 0:
        return
    row = m.passed[m.watch[0].passed % len(m.passed)]
    m.watch[0].passed += 1
    row.npu = s.npu
    row.operation = s.operation
    row.tag = s.tag
    row.phase = s.phase
    row.dim = dim
    row.algorithm = s.algorithm
    row.collective = s.collective
    row.queued_ns = s.queued_ns
    row.begun_ns = s.begun_ns
    row.end_ns = m.queue[0].now
