"""Messages between NPUs: a send meets the receive of the same tag, peers and size, in order.

A message may come before its receive is posted; the receiver then hears of it at the instant
in which it posts the receive. Under rendezvous the receiver first asks the sender to begin.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel
from astranb.core.timesteps import put_event
from astranb.net._astrasim2 import (
    DEAD,
    SWITCH,
    arrived_in,
    delay_ns,
    heading_from,
    link_from,
    node_after,
    way_of,
    wire_ns,
)

from ._notes import note_link, note_sent
from ._tables import FREE, HOP, KIND_BITS, LATE, NOBODY, Machine

__all__ = [
    "down_from_switch",
    "free_link",
    "free_message",
    "hop",
    "meet_at_switch",
    "receive",
    "send",
    "up_to_switch",
]

_MIX: Final = 0x5BD1E995
_LOW: Final = 0x7FFFFFFF


@kernel
def _bucket(m: Machine, src: int, dst: int, tag: int) -> int:
    """Give the bucket in which messages with this key wait for their other half."""
    mixed = (dst * 1000003 + src) * 8191 + tag
    return int((((mixed & _LOW) * _MIX) >> 15) & (len(m.buckets) - 1))


@kernel
def _find(m: Machine, bucket: int, src: int, dst: int, tag: int, size: int, wants_sent: int) -> int:
    """Take the oldest message with this key that lacks the other half out of its bucket; -1 for none."""
    messages = m.messages
    before = -1
    row = m.buckets[bucket].head
    while row >= 0:
        if (
            messages[row].dst == dst
            and messages[row].src == src
            and messages[row].tag == tag
            and messages[row].bytes == size
            and (messages[row].sent > 0) == (wants_sent == 1)
        ):
            following = messages[row].next
            if before < 0:
                m.buckets[bucket].head = following
            else:
                messages[before].next = following
            if following < 0:
                m.buckets[bucket].tail = before
            return int(row)
        before = row
        row = messages[row].next
    return -1


@kernel
def _new(m: Machine, src: int, dst: int, tag: int, size: int) -> int:
    """Take an unused row for a message."""
    row = m.clock[0].free_message
    message = m.messages[row]
    m.clock[0].free_message = message.next
    m.clock[0].messages_left -= 1
    message.src = src
    message.dst = dst
    message.tag = tag
    message.bytes = size
    message.sent = 0
    message.posted = 0
    message.sender = NOBODY
    message.receiver = NOBODY
    message.next = -1
    return int(row)


@kernel
def free_message(m: Machine, row: int) -> None:
    """Give a row back."""
    m.messages[row].next = m.clock[0].free_message
    m.clock[0].free_message = row
    m.clock[0].messages_left += 1


@kernel
def _wait(m: Machine, bucket: int, row: int) -> None:
    """Put a message with one half last into its bucket."""
    if m.buckets[bucket].tail >= 0:
        m.messages[m.buckets[bucket].tail].next = row
    else:
        m.buckets[bucket].head = row
    m.buckets[bucket].tail = row


@kernel
def _transmit(m: Machine, link: int, row: int) -> None:
    """Start a message on a link that is free: it arrives, and then the link is free again."""
    now = m.queue[0].now
    size = m.messages[row].bytes
    m.links[link].busy = 1
    taken_ns = wire_ns(size, m.wires[link].rate_Bpns, m.wires[link].gap_ns)
    arrival = now + int(m.wires[link].latency_ns + taken_ns)
    put_event(m.queue, m.timesteps, m.pending, arrival, (row << KIND_BITS) | HOP)
    free = now + int(taken_ns)
    if m.watch[0].noting == 1:
        note_link(m, link, size, free - now)
    put_event(m.queue, m.timesteps, m.pending, free, (link << KIND_BITS) | FREE)


@kernel
def _enter(m: Machine, row: int) -> None:
    """Bring a message to its next link."""
    message = m.messages[row]
    if m.config[0].routed == 1:
        link = m.hops[message.heading].value
    else:
        link = link_from(m.dims, message.at, message.dst, message.heading)
    if m.links[link].busy == 0:
        _transmit(m, link, row)
        return
    message.behind = -1
    if m.links[link].tail >= 0:
        m.messages[m.links[link].tail].behind = row
    else:
        m.links[link].head = row
    m.links[link].tail = row


@kernel
def free_link(m: Machine, link: int) -> None:
    """A link has sent a message, or is back; the next one that waits begins, unless the link is dead."""
    m.links[link].busy &= DEAD
    row = m.links[link].head
    if row >= 0 and m.links[link].busy == 0:
        m.links[link].head = m.messages[row].behind
        if m.links[link].head < 0:
            m.links[link].tail = -1
        _transmit(m, link, row)


@kernel
def hop(m: Machine, row: int) -> bool:
    """A message has come over a link; returns whether that was the last one."""
    if m.config[0].aware == 0:
        return True
    message = m.messages[row]
    if m.config[0].routed == 1:
        message.at -= 1
        if message.at == 0:
            return True
        message.heading += 1
    else:
        dim = message.heading >> 1
        message.at = node_after(m.dims, message.at, message.dst, message.heading)
        if message.at == message.dst:
            return True
        if m.dims[dim].kind == SWITCH and message.heading & 1 == 0:
            message.heading += 1
        elif arrived_in(m.dims, message.heading, message.at, message.dst):
            message.heading = heading_from(m.dims, message.at, message.dst, dim + 1)
    _enter(m, row)
    return False


@kernel
def _matched(m: Machine, src: int, dst: int, tag: int, size: int, wants_sent: int) -> int:
    """The message whose other half waits for this one, or a new one that waits for its other half."""
    bucket = _bucket(m, src, dst, tag)
    row = _find(m, bucket, src, dst, tag, size, wants_sent)
    if row < 0:
        row = _new(m, src, dst, tag, size)
        _wait(m, bucket, row)
    return row


@kernel(inline=False)
def _way(m: Machine, src: int, dst: int, tag: int) -> int:
    """Find a message's way; one that nobody has looked for stops the run (see ``Run``)."""
    way = way_of(m.ways, src * m.config[0].npus + dst, tag)
    if way < 0:
        m.clock[0].lost = src * m.config[0].npus + dst + 1
        return 0
    return way


@kernel
def send(m: Machine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """Put a message on the network; the handler is told when it has arrived."""
    row = _matched(m, src, dst, tag, size, 0)
    message = m.messages[row]
    message.sent = 1
    message.sender = handler
    m.clock[0].messages += 1
    m.clock[0].bytes += size
    if m.watch[0].noting == 1:
        note_sent(m, src, dst, size)
    if m.config[0].aware == 0:
        if m.config[0].routed == 1:
            way = _way(m, src, dst, tag)
            w = m.ways[way]
            delay = int(w.latency_ns + wire_ns(size, w.rate_Bpns, w.gap_ns))
        else:
            delay = delay_ns(m.dims, src, dst, size, m.config[0].every_dim)
        put_event(m.queue, m.timesteps, m.pending, m.queue[0].now + delay, (row << KIND_BITS) | HOP)
        return
    if m.config[0].routed == 1:
        way = _way(m, src, dst, tag)
        message.at = m.ways[way].hops
        message.heading = m.ways[way].first_hop
    else:
        message.at = src
        message.heading = heading_from(m.dims, src, dst, 0)
    _enter(m, row)


@kernel
def receive(m: Machine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """Wait for a message; the handler is told when it has come."""
    row = _matched(m, src, dst, tag, size, 1)
    message = m.messages[row]
    if message.sent == 2:
        free_message(m, row)
        put_event(m.queue, m.timesteps, m.pending, m.queue[0].now, (handler << KIND_BITS) | LATE)
        return
    message.posted = 1
    message.receiver = handler


@kernel(inline=False)
def _one_link(m: Machine, npu: int, heading: int, size: int, sender: int, receiver: int) -> None:
    """Send over one link between an NPU and its switch; nobody has to expect it."""
    row = _new(m, npu, npu, 0, size)
    message = m.messages[row]
    message.sent = 1
    message.posted = 1
    message.sender = sender
    message.receiver = receiver
    message.at = npu
    message.heading = heading
    m.clock[0].messages += 1
    m.clock[0].bytes += size
    if m.config[0].aware == 1:
        _enter(m, row)
        return
    dim = heading >> 1
    arrival = m.queue[0].now + int(m.dims[dim].latency_ns + float(size) / m.dims[dim].rate_Bpns)
    put_event(m.queue, m.timesteps, m.pending, arrival, (row << KIND_BITS) | HOP)


@kernel
def up_to_switch(m: Machine, npu: int, dim: int, size: int, handler: int) -> None:
    """Send to the switch of a dimension; the handler is told when it has come there."""
    _one_link(m, npu, 2 * dim, size, handler, NOBODY)


@kernel
def down_from_switch(m: Machine, npu: int, dim: int, size: int, handler: int) -> None:
    """Send from the switch of a dimension to an NPU; the handler is told when it has come."""
    _one_link(m, npu, 2 * dim + 1, size, NOBODY, handler)


@kernel(inline=False)
def meet_at_switch(m: Machine, stream: int, src: int, dst: int, tag: int, count: int) -> int:
    """Let a stream wait at a switch for the others.

    Parameters
    ----------
    m : Machine
    stream : int
        Whose chunk has come.
    src, dst, tag : int
        What they have in common.
    count : int
        How many there are.

    Returns
    -------
    int
        The last of the streams when all are there, with the others in a list by ``left``; else -1.
    """
    bucket = _bucket(m, src, dst, tag)
    row = _find(m, bucket, src, dst, tag, 0, 1)
    if row < 0:
        row = _new(m, src, dst, tag, 0)
        m.messages[row].behind = -1
    message = m.messages[row]
    message.sent += 1
    m.streams[stream].left = message.behind
    message.behind = stream
    if message.sent < count:
        message.next = -1
        _wait(m, bucket, row)
        return -1
    free_message(m, row)
    return stream
