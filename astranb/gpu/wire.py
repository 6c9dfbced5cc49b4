"""Managed links: wire size, arbitration, credit return."""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import schedule
from astranb.core.ticks import transfer_ps
from astranb.net import CLASSES, PACKET_BYTES

from .tables import LOAD, POLL, SIGNAL, STORE, SWITCH_READS, SWITCH_WRITES, WIRE, Machine

__all__ = ["carries_data", "free_buffer", "least_wire_ps", "look_again", "wire_size"]


@kernel
def carries_data(requests: Records, request: int) -> bool:
    """Return whether a message carries data, and is no acknowledgement and no request for data."""
    kind = requests[request].kind
    going = requests[request].returning == 0
    return bool(going if kind == STORE or kind == SIGNAL else not going)


@kernel
def wire_size(gpus: Records, requests: Records, request: int) -> int:
    """Bytes of a message on a wire."""
    if carries_data(requests, request):
        return int(requests[request].bytes)
    return int(gpus[requests[request].gpu].header_bytes)


@kernel
def least_wire_ps(m: Machine, request: int, link: int, size: int) -> int:
    """Least time that a message occupies a link, whatever its number of bytes."""
    if m.links[link].gap_ps > 0:
        return int(slot_ps(m, request, m.links[link].gap_ps))
    kind = m.requests[request].kind
    if m.clock[0].detailed and (kind == LOAD or kind == STORE):
        share = m.gpus[m.requests[request].gpu].multimem_percent
        wanted = SWITCH_READS if kind == LOAD else SWITCH_WRITES
        if share < 100 and m.ops[m.requests[request].op].in_switch & wanted:
            return int(transfer_ps(size * 100 // share, m.links[link].bandwidth_Bps))
    return 0


@kernel
def slot_ps(m: Machine, request: int, gap_ps: int) -> int:
    """A message's share of the slots of a NIC that sends a packet each ``gap_ps`` at most.

    What an operation moves to or from one place is one work request, which a NIC cuts into
    packets of its own, however the lines came: each line has its share of their slots, and so
    has what comes back for it. A signal or a poll is a packet.
    """
    kind = m.requests[request].kind
    if kind == SIGNAL or kind == POLL:
        return gap_ps
    op = m.requests[request].op
    lines = m.ops[op].lines
    size = (lines - 1) * m.ops[op].payload + m.ops[op].last_bytes
    if m.operands[m.requests[request].operand].flag >= 0:  # packets with flags travel as whole lines
        size = lines * m.gpus[m.requests[request].gpu].line_bytes
    packets = (size + PACKET_BYTES - 1) // PACKET_BYTES
    return int((gap_ps * packets + lines - 1) // lines)


@kernel(inline=False)
def look_again(m: Machine, link: int) -> None:
    """Queue a WIRE event for when the wire is free, where a message waits."""
    if m.links[link].awake == 1:
        return
    first = link * CLASSES
    for queue in range(first, first + CLASSES):
        if m.queues[queue].waiting > 0:
            m.links[link].awake = 1
            schedule(m.event_queue, max(m.clock[0].now_ps, m.links[link].free_at_ps), WIRE, link)
            return


@kernel(inline=False)
def free_buffer(m: Machine, request: int) -> None:
    """A request leaves the buffer it was in; the link before it may send again.

    The return of the credit takes no time and no bandwidth.
    """
    held = m.details[request].held
    if held < 0:
        return
    m.details[request].held = -1
    m.queues[held].credits += 1
    look_again(m, held // CLASSES)
