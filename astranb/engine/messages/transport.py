"""Messages between NPUs: a send matches the receive of the same tag, peers and size, in order.

A message may arrive before its receive is posted; the receiver is then notified at the time at
which it posts the receive. Under rendezvous the receiver first sends the sender a message that it is ready.

A handler is a number: in the low bits what a message notifies, above them the row of its table.

A link serves messages one after another. On an infrastructure a route may have a link on which other
collectives or ranks contend with them; messages over it go in quanta, at most 16 of at least 4 KiB, a packet,
and each goes on by itself. A link serves what waits by start-time fair queueing (Goyal, Vin and Cheng,
SIGCOMM 1996): the turn of a message comes when others that were there have sent as many bytes. So messages
that overlap share a link alike, and those that go as a whole keep their order.
"""

from __future__ import annotations

import math
from typing import Final

from astranb.core.jit import kernel
from astranb.core.timesteps import put_event
from astranb.net import (
    DOWN,
    SWITCH,
    arrived_in,
    delay_ns,
    heading_from,
    link_from,
    node_after,
    route_of,
    wire_ns,
)

from .ports import come_in, leave, pass_switch, rails_in
from .recording import (
    record_delayed,
    record_flight,
    record_link,
    record_moving,
    record_part,
    record_queued,
    record_resumed,
    record_sent,
)
from .tables import (
    ALL_LINKS,
    CLEAR_TO_SEND_BYTES,
    CLEAR_TO_SEND_TAGS,
    FREE,
    HOP,
    KIND_BITS,
    LATE,
    NO_MESSAGE,
    NOBODY,
    ONE_LINK,
    PACKET_BYTES,
    RECEIVING,
    SENDING,
    MessageMachine,
)
from .ties import expects, posts_late, puts

__all__ = [
    "cross_link",
    "free_link",
    "free_message",
    "hop",
    "meet_at_switch",
    "new_message",
    "post_receive",
    "post_receive_inline",
    "post_send",
    "post_send_inline",
    "quantum_of",
    "resume",
    "row_at_link",
]

_QUANTA: Final = 16
_MIX: Final = 0x5BD1E995
_LOW: Final = 0x7FFFFFFF


@kernel
def _bucket(m: MessageMachine, src: int, dst: int, tag: int) -> int:
    """Return the bucket in which messages with this key wait for their match."""
    mixed = (dst * 1000003 + src) * 8191 + tag
    return int((((mixed & _LOW) * _MIX) >> 15) & (len(m.buckets) - 1))


@kernel
def _find(m: MessageMachine, bucket: int, src: int, dst: int, tag: int, size: int, wants_sent: int) -> int:
    """Take the oldest unmatched message with this key out of its bucket; -1 for none."""
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
def new_message(m: MessageMachine, src: int, dst: int, tag: int, size: int) -> int:
    """Take an unused row for a message; ``dst`` is -1 for what is not sent over the network."""
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
    message.next = message.whole = -1
    message.first_ns = message.last_ns = m.queue[0].now
    return int(row)


@kernel
def free_message(m: MessageMachine, row: int) -> None:
    """Free a message's row."""
    m.messages[row].next = m.clock[0].free_message
    m.clock[0].free_message = row
    m.clock[0].messages_left += 1


@kernel
def _wait(m: MessageMachine, bucket: int, row: int) -> None:
    """Append an unmatched message to its bucket."""
    if m.buckets[bucket].tail >= 0:
        m.messages[m.buckets[bucket].tail].next = row
    else:
        m.buckets[bucket].head = row
    m.buckets[bucket].tail = row


@kernel
def _stop_after(m: MessageMachine, at: int, dst: int, heading: int) -> tuple[int, int]:
    """Return the next NPU of a message, and where it heads from there; -1 where that is its last.

    An NPU whose message is at its switch counts as the next one.
    """
    dim = heading >> 1
    following = node_after(m.dims, at, dst, heading)
    if following == dst:
        return following, -1
    if m.dims[dim].kind == SWITCH and heading & 1 == 0:
        return following, heading + 1
    if arrived_in(m.dims, heading, following, dst):
        return following, heading_from(m.dims, following, dst, dim + 1)
    return following, heading


@kernel
def _goes_on(m: MessageMachine, row: int) -> bool:
    """Return whether a message crosses another link after the one at hand."""
    message = m.messages[row]
    if message.src == message.dst:
        return False  # over one link between an NPU and its switch
    if m.config[0].routed == 1:
        return bool(message.at > 1)
    _, heading = _stop_after(m, message.at, message.dst, message.heading)
    return bool(heading >= 0)


@kernel(inline=False)
def _parallel(m: MessageMachine, row: int, rail: int) -> int:
    """Return one of the links over which the message of a group's ring is divided (:func:`.shared_by`).

    They are those of the ranks that share the place of its target in the group's last dimension.
    """
    message = m.messages[row]
    g = m.groups[(message.sender >> KIND_BITS) - 1]
    stride = m.dims[m.schedule[g.outer].links].stride
    first = g.first
    while m.members[first].value // stride != message.dst // stride:
        first += g.rails
    away = m.members[first + rail].value - message.dst
    return link_from(m.dims, message.at + away, message.dst + away, message.heading)


@kernel(inline=False)
def _share(m: MessageMachine, row: int, rails: int, first_ns: float, taken_ns: float) -> float:
    """Occupy all links over which a message is divided; returns in which time the last one is over."""
    now = m.queue[0].now
    sent_ns = first_ns + taken_ns
    for rail in range(rails):
        part = _parallel(m, row, rail)
        part_ns = max(m.links[part].free_ns - now, first_ns) + taken_ns
        m.links[part].free_ns = now + part_ns
        sent_ns = max(sent_ns, part_ns)
    return float(sent_ns)


@kernel
def _rails(m: MessageMachine, row: int) -> int:
    """Return over how many links a message is divided next."""
    if m.config[0].cut_through == 0 or m.config[0].routed == 1 or m.messages[row].sender == NOBODY:
        return 1
    return rails_in(m, m.messages[row].sender, m.messages[row].heading >> 1)


@kernel
def quantum_of(size: int) -> int:
    """Return the bytes of a quantum of a message on links that are shared."""
    return max(PACKET_BYTES, -(-size // _QUANTA))


@kernel(inline=False)
def row_at_link(m: MessageMachine, whole: int, row: int) -> int:
    """Take a row for the quanta of a message at a link, which go on as those of another row do."""
    part = new_message(
        m, m.messages[row].src, m.messages[row].dst, m.messages[row].tag, m.messages[row].bytes
    )
    m.messages[part].whole = whole
    m.messages[part].onward = -1
    m.messages[part].came = m.messages[part].gone = m.messages[part].crossed = 0
    m.messages[part].late_ns = m.messages[part].turn = 0
    m.messages[part].sender = m.messages[row].sender
    m.messages[part].at = m.messages[row].at
    m.messages[part].heading = m.messages[row].heading
    if m.watch[0].noting == 1:
        record_part(m, part, row)
    return part


@kernel(inline=False)
def _quantum_crossed(m: MessageMachine, row: int) -> int:
    """A quantum has crossed a link; returns its message if that has arrived as a whole, else -1."""
    part = m.messages[row]
    whole = part.whole
    if whole == NO_MESSAGE:  # quanta are counted
        part.crossed += 1
        if part.crossed == part.bytes:
            free_message(m, row)
        return -1
    size = min(quantum_of(m.messages[whole].bytes), part.bytes - part.crossed)
    part.crossed += size
    if part.at == 1:
        m.messages[whole].came += size
        if part.crossed == part.bytes:
            free_message(m, row)
        return int(whole) if m.messages[whole].came == m.messages[whole].bytes else -1
    if part.onward < 0:
        following = row_at_link(m, whole, row)
        m.messages[row].onward = following
        m.messages[following].at -= 1
        m.messages[following].heading += 1
    onward = m.messages[row].onward
    waits = m.messages[onward].came > m.messages[onward].gone
    m.messages[onward].came += size
    m.messages[onward].first_ns = m.queue[0].now - m.messages[row].ahead_ns
    m.messages[onward].last_ns = m.queue[0].now + m.messages[row].spread_ns
    if m.messages[row].crossed == m.messages[row].bytes:
        free_message(m, row)
    if not waits:
        _enter(m, onward)
    return -1


@kernel(inline=False)
def _next_quantum(m: MessageMachine, link: int, row: int) -> int:
    """Take the next quantum that has come to a link; returns its bytes."""
    part = m.messages[row]
    size = min(quantum_of(m.messages[part.whole].bytes), part.came - part.gone)
    m.links[link].turn = max(m.links[link].turn, part.turn)
    part.gone += size
    part.turn += size
    return int(size)


@kernel
def _transmit(m: MessageMachine, link: int, row: int, rails: int) -> None:
    """Start a message, or its next quantum, on a free link: schedule when it arrives, and the link is free.

    A message that comes in more slowly than the link sends leaves gaps, which others fill: the link is
    occupied for its bytes only, from when the first one could have come, and the message is delayed only
    by what its last byte has to wait.
    """
    now = m.queue[0].now
    message = m.messages[row]
    size = message.bytes
    if message.whole >= 0:
        size = _next_quantum(m, link, row)
    taken_ns = wire_ns(size, m.wires[link].rate_Bpns, m.wires[link].gap_ns)
    if rails > 1:
        taken_ns /= rails
    latency_ns = m.wires[link].latency_ns
    first_ns = 0.0  # when its first byte begins to cross, from now on
    occupied = int(taken_ns)
    free = now + occupied
    arrival = now + int(latency_ns + taken_ns)
    onward = arrival
    if m.config[0].cut_through == 1:
        first_ns = float(message.first_ns - now)
        last_ns = float(message.last_ns - now)
        if message.whole >= 0 and message.gone < message.came:  # it has come before that, as a whole
            last_ns = first_ns
        sent_ns = max(m.links[link].free_ns - now, first_ns) + taken_ns
        if rails == 1:
            m.links[link].free_ns = now + sent_ns
        else:
            sent_ns = _share(m, row, rails, first_ns, taken_ns)
        first_ns += max(sent_ns, last_ns) - max(first_ns + taken_ns, last_ns)
        occupied = math.ceil(taken_ns)
        free = now + math.ceil(sent_ns)  # so that no link is faster than it is said to be
        arrival = now + int(max(0.0, latency_ns + max(sent_ns, last_ns)))
        onward = arrival
        if _goes_on(m, row):
            onward = now + int(max(0.0, first_ns + latency_ns))
            if message.whole >= 0:
                message.ahead_ns = onward - (now + math.floor(first_ns + latency_ns))
                message.spread_ns = arrival - onward
            else:
                message.first_ns = now + math.floor(first_ns + latency_ns)
                message.last_ns = arrival
    put_event(m.queue, m.timesteps, m.pending, onward, (row << KIND_BITS) | HOP)
    if m.watch[0].noting == 1:
        starts = now + math.floor(first_ns)
        for rail in range(rails):
            part = link if rails == 1 else _parallel(m, row, rail)
            record_link(m, part, row, (size + rail) // rails, starts, occupied, arrival)
    if free > now or m.config[0].cut_through == 0:
        m.links[link].busy = 1
        put_event(m.queue, m.timesteps, m.pending, free, (link << KIND_BITS) | FREE)


@kernel(inline=False)
def _waits_for(m: MessageMachine, row: int, rails: int, link: int) -> int:
    """Return the link in whose queue a divided message waits: its own, or one of the others that is down."""
    for rail in range(rails):
        part = _parallel(m, row, rail)
        if m.links[part].busy & DOWN:
            return part
    return link


@kernel(inline=False)
def _append(m: MessageMachine, link: int, row: int) -> None:
    """Queue a message at a link, behind those whose turn does not come later."""
    turn = m.messages[row].turn
    before, behind = m.links[link].tail, -1
    if before >= 0 and m.messages[before].turn > turn:
        before, behind = -1, m.links[link].head
        while m.messages[behind].turn <= turn:
            before, behind = behind, m.messages[behind].behind
    m.messages[row].behind = behind
    if before >= 0:
        m.messages[before].behind = row
    else:
        m.links[link].head = row
    if behind < 0:
        m.links[link].tail = row


@kernel
def _begin(m: MessageMachine, link: int, row: int) -> None:
    """Send a message over its next link, or queue it: there, or at another over which it is divided."""
    rails = _rails(m, row)
    if rails > 1:
        link = _waits_for(m, row, rails, link)
    if m.links[link].busy == 0:
        _transmit(m, link, row, rails)
        if m.messages[row].whole < 0 or m.messages[row].came == m.messages[row].gone:
            return
    _append(m, link, row)


@kernel
def _enter(m: MessageMachine, row: int) -> None:
    """Send a message over its next link, or queue it there."""
    message = m.messages[row]
    if m.watch[0].noting == 1:
        record_queued(m, row)
    if m.config[0].routed == 1:
        link = m.hops[message.heading].value
    else:
        link = link_from(m.dims, message.at, message.dst, message.heading)
    if message.whole < 0 or message.turn < m.links[link].turn:
        message.turn = m.links[link].turn
    _begin(m, link, row)


@kernel
def free_link(m: MessageMachine, link: int) -> None:
    """A link has sent a message, or is up again: begin the next messages, unless the link is down."""
    m.links[link].busy &= DOWN
    while m.links[link].busy == 0 and m.links[link].head >= 0:
        row = m.links[link].head
        m.links[link].head = m.messages[row].behind
        if m.links[link].head < 0:
            m.links[link].tail = -1
        _begin(m, link, row)


@kernel(inline=False)
def _delay(m: MessageMachine, row: int) -> int:
    """A message has crossed its last link, and software delays it; returns -1."""
    message = m.messages[row]
    put_event(m.queue, m.timesteps, m.pending, m.queue[0].now + message.late_ns, (row << KIND_BITS) | HOP)
    message.late_ns = -1
    message.at = 0  # no link is ahead
    return -1


@kernel
def hop(m: MessageMachine, row: int) -> int:
    """A message, or a quantum, has crossed a link; returns the message that has arrived by it, else -1."""
    message = m.messages[row]
    if m.config[0].congestion == 0:
        # Over one link between an NPU and its switch; few NPUs that represent all send to each other.
        one_link = message.src == message.dst and m.config[0].folded == 0
        if m.config[0].ports > 0 and not one_link and message.heading == 0:
            message.heading = 1
            waits_ns = come_in(m, row)
            if waits_ns > 0:
                arrival = m.queue[0].now + waits_ns
                if m.watch[0].noting == 1:
                    record_delayed(m, row, arrival)
                if m.config[0].folded == 1:
                    puts(m, row)
                put_event(m.queue, m.timesteps, m.pending, arrival, (row << KIND_BITS) | HOP)
                return -1
    elif message.whole != -1:
        row = _quantum_crossed(m, row)
        if row < 0:
            return -1
    else:
        if m.config[0].routed == 1:
            message.at -= 1
            heading = message.heading + 1 if message.at > 0 else -1
        else:
            message.at, heading = _stop_after(m, message.at, message.dst, message.heading)
        if heading >= 0:
            message.heading = heading
            _enter(m, row)
            return -1
    return _delay(m, row) if m.messages[row].late_ns > 0 else row


@kernel
def _matched(m: MessageMachine, src: int, dst: int, tag: int, size: int, wants_sent: int) -> int:
    """Return the unmatched message with this key, or a new one that waits for its match."""
    bucket = _bucket(m, src, dst, tag)
    row = _find(m, bucket, src, dst, tag, size, wants_sent)
    if row < 0:
        row = new_message(m, src, dst, tag, size)
        _wait(m, bucket, row)
    return row


@kernel(inline=False)
def _route(m: MessageMachine, src: int, dst: int, tag: int) -> int:
    """Find a message's route; a pair of NPUs without one stops the run (see ``Run``)."""
    route = route_of(m.routes, src * m.config[0].npus + dst, tag)
    if route < 0:
        m.clock[0].no_route = src * m.config[0].npus + dst + 1
        return 0
    return route


@kernel
def _send_inline(
    m: MessageMachine, src: int, dst: int, tag: int, size: int, handler: int, late_ns: int
) -> None:
    """Put a message on the network; the handler is notified when it arrives."""
    folded = m.config[0].folded == 1 and m.config[0].congestion == 0
    row = _matched(m, src, m.fold[dst].npu if folded else dst, tag, size, 0)
    message = m.messages[row]
    message.sent = 1
    message.sender = handler
    message.late_ns = late_ns
    message.first_ns = message.last_ns = m.queue[0].now
    m.clock[0].messages += 1
    m.clock[0].bytes += size
    if m.watch[0].noting == 1:
        record_sent(m, row, src, dst, size)
    if m.config[0].congestion == 0:
        route = -1
        if m.config[0].routed == 1:
            route = _route(m, src, dst, tag)
        if m.config[0].ports > 0:
            message.at = route if m.config[0].routed == 1 else dst
            message.heading = 0
            delay = leave(m, row)
        else:
            here = m.fold[src].rank if folded else src
            delay = delay_ns(m.dims, here, dst, size, m.config[0].every_dim)
        if folded:
            puts(m, row)
        if m.watch[0].noting == 1:
            record_flight(m, row, ALL_LINKS, route, src, size, m.queue[0].now, m.queue[0].now + delay)
        put_event(m.queue, m.timesteps, m.pending, m.queue[0].now + delay, (row << KIND_BITS) | HOP)
        return
    if m.config[0].routed == 1:
        route = _route(m, src, dst, tag)
        message.at = m.routes[route].hops
        message.heading = m.routes[route].first_hop
        if m.routes[route].shared == 1 and size > PACKET_BYTES:
            message.came = 0
            whole = row
            row = row_at_link(m, whole, whole)
            m.messages[row].came = size
    else:
        message.at = src
        message.heading = heading_from(m.dims, src, dst, 0)
    _enter(m, row)


@kernel
def _receive_inline(m: MessageMachine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """Wait for a message; the handler is notified when it has arrived."""
    folded = m.config[0].folded == 1 and m.config[0].congestion == 0
    row = _matched(m, m.fold[src].npu if folded else src, dst, tag, size, 1)
    message = m.messages[row]
    if folded:
        expects(m, row)
    if message.sent == 2:
        if folded:
            posts_late(m, handler)
        free_message(m, row)
        put_event(m.queue, m.timesteps, m.pending, m.queue[0].now, (handler << KIND_BITS) | LATE)
        return
    message.posted = 1
    message.receiver = handler


@kernel
def _defer(m: MessageMachine, src: int, dst: int, tag: int, size: int, handler: int) -> int:
    """Keep a send or receive in a message's row until the receiver is ready."""
    row = new_message(m, src, dst, tag, size)
    m.messages[row].sender = handler
    if m.watch[0].noting == 1:
        record_moving(m, row)
    return row


@kernel(inline=False)
def _send(m: MessageMachine, src: int, dst: int, tag: int, size: int, handler: int, late_ns: int) -> None:
    """As :func:`_send_inline`, in one copy for all callers."""
    _send_inline(m, src, dst, tag, size, handler, late_ns)


@kernel(inline=False)
def _receive(m: MessageMachine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """As :func:`_receive_inline`, in one copy for all callers."""
    _receive_inline(m, src, dst, tag, size, handler)


@kernel
def post_send_inline(
    m: MessageMachine, src: int, dst: int, tag: int, size: int, handler: int, late_ns: int
) -> None:
    """Send; under rendezvous, once the receiver is ready."""
    if m.config[0].rendezvous == 0:
        _send_inline(m, src, dst, tag, size, handler, late_ns)
        return
    row = _defer(m, src, dst, tag, size, handler)
    m.messages[row].late_ns = late_ns
    _receive(m, dst, src, tag + CLEAR_TO_SEND_TAGS, CLEAR_TO_SEND_BYTES, (row << KIND_BITS) | SENDING)


@kernel
def post_receive_inline(m: MessageMachine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """Receive; under rendezvous, notify the sender first, and receive once that message has arrived."""
    if m.config[0].rendezvous == 0:
        _receive_inline(m, src, dst, tag, size, handler)
        return
    row = _defer(m, src, dst, tag, size, handler)
    _send(m, dst, src, tag + CLEAR_TO_SEND_TAGS, CLEAR_TO_SEND_BYTES, (row << KIND_BITS) | RECEIVING, 0)


@kernel
def resume(m: MessageMachine, row: int, sends: bool) -> None:
    """The receiver is ready, or the sender knows it: carry out the deferred send or receive."""
    src, dst, tag = m.messages[row].src, m.messages[row].dst, m.messages[row].tag
    size, handler, late_ns = m.messages[row].bytes, m.messages[row].sender, m.messages[row].late_ns
    if m.watch[0].noting == 1:
        record_resumed(m, row)
    free_message(m, row)
    if sends:
        _send(m, src, dst, tag, size, handler, late_ns)
    else:
        _receive(m, src, dst, tag, size, handler)


@kernel(inline=False)
def post_send(m: MessageMachine, src: int, dst: int, tag: int, size: int, handler: int, late_ns: int) -> None:
    """As :func:`post_send_inline`, in one copy for all callers."""
    post_send_inline(m, src, dst, tag, size, handler, late_ns)


@kernel(inline=False)
def post_receive(m: MessageMachine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """As :func:`post_receive_inline`, in one copy for all callers."""
    post_receive_inline(m, src, dst, tag, size, handler)


@kernel(inline=False)
def cross_link(m: MessageMachine, npu: int, heading: int, size: int, sender: int, receiver: int) -> None:
    """Send a message over one link between an NPU and its switch; no receive has to be posted.

    With congestion it queues there as all do; without, :func:`.pass_switch` occupies the NPU's port.

    Parameters
    ----------
    m : MessageMachine
    npu : int
    heading : int
        Twice the dimension, and 1 more from the switch to the NPU.
    size : int
        Bytes.
    sender, receiver : int
        Handlers, both notified on arrival; 0 for none.
    """
    row = new_message(m, npu, npu, 0, size)
    message = m.messages[row]
    message.sent = 1
    message.posted = 1
    message.sender = sender
    message.receiver = receiver
    message.at = npu
    message.heading = heading
    message.late_ns = 0
    m.clock[0].messages += 1
    m.clock[0].bytes += size
    if m.watch[0].noting == 1:
        record_moving(m, row)
    if m.config[0].congestion == 1:
        _enter(m, row)
        return
    dim = heading >> 1
    if m.config[0].ports > 0:
        delay = pass_switch(m, npu, heading, size)
    else:
        delay = int(m.dims[dim].latency_ns + float(size) / m.dims[dim].rate_Bpns)
    arrival = m.queue[0].now + delay
    if m.watch[0].noting == 1:
        record_flight(m, row, ONE_LINK - heading, -1, npu, size, m.queue[0].now, arrival)
    put_event(m.queue, m.timesteps, m.pending, arrival, (row << KIND_BITS) | HOP)


@kernel(inline=False)
def meet_at_switch(m: MessageMachine, stream: int, src: int, dst: int, tag: int, count: int) -> int:
    """Make a stream wait at a switch for the others.

    Parameters
    ----------
    m : MessageMachine
    stream : int
        The one whose chunk has arrived.
    src, dst, tag : int
        What the streams have in common.
    count : int
        The number of streams.

    Returns
    -------
    int
        The last of the streams when all are there, which form a list by ``left``; else -1.
    """
    bucket = _bucket(m, src, dst, tag)
    row = _find(m, bucket, src, dst, tag, 0, 1)
    if row < 0:
        row = new_message(m, src, dst, tag, 0)
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
