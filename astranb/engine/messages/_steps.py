"""Ring, direct and halving-doubling: one message after another, or a window of them.

Each message first passes the endpoint's memory (the bundle), reduced where it is to be; then
the next one is sent and its counterpart expected. The order is ASTRA-sim 2.0's to the event.
"""

from __future__ import annotations

from astranb.core.jit import kernel

from ._appoint import appoint
from ._bus import enter_bus
from ._exchange import post_receive, post_send
from ._tables import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BUNDLE,
    BUNDLE_REDUCED,
    DIRECT,
    HALVING,
    KIND_BITS,
    REDUCE_SCATTER,
    STREAM,
    Machine,
)

__all__ = ["begin_steps", "bundle_passed", "insert_packet", "load_steps", "member_at"]


@kernel
def member_at(m: Machine, stream: int, index: int) -> int:
    """Give the rank at an index of the phase's dimension or group."""
    s = m.streams[stream]
    if s.group >= 0:
        return int(m.members[m.groups[s.group].first + index].value)
    return int(s.origin + index * s.stride)


@kernel
def _log2(size: int) -> int:
    """Give the whole part of the logarithm."""
    power = 0
    while size > 1:
        size >>= 1
        power += 1
    return power


@kernel
def _aim(m: Machine, stream: int) -> None:
    """Find the peer of the next message of halving and doubling: at the distance, to and fro."""
    s = m.streams[stream]
    index = s.index
    if s.distance > 0:
        if (s.index // s.distance) % 2 == 0:
            index = (s.index + s.distance) % s.nodes
        else:
            index = (s.index - s.distance) % s.nodes
    s.packet_peer = member_at(m, stream, index)


@kernel
def load_steps(m: Machine, stream: int, size: int, window: int) -> None:
    """Set the counters of a phase of so many bytes."""
    s = m.streams[stream]
    n = s.nodes
    s.window = 1
    if s.algorithm == HALVING:
        s.to_send = _log2(n)
        s.message_bytes = size // 2
        s.distance = 1
        s.doubling = 1
        if s.collective == ALL_REDUCE:
            # Twice the logarithm, cut: not the same where the size is no power of two.
            s.to_send = _log2(n * n)
        elif s.collective == ALL_GATHER:
            s.message_bytes = size
            s.distance = n // 2
            s.doubling = 0
    else:
        s.message_bytes = size if s.collective == ALL_GATHER else size // n
        s.to_send = n - 1
        if s.collective == ALL_REDUCE:
            s.to_send = 2 * (n - 1)
        elif s.collective == ALL_TO_ALL and s.algorithm != DIRECT:
            s.to_send = n * (n - 1) // 2
        if s.algorithm == DIRECT:
            s.window = n - 1 if window < 0 else min(window, n - 1)
    s.inserted = 0
    s.sent = 0
    s.free = 0
    s.received = 0
    s.plain = 0
    s.reduced = 0
    s.toggle = 0


@kernel
def insert_packet(m: Machine, stream: int) -> None:
    """Make the next message ready: it goes through the endpoint's memory first."""
    s = m.streams[stream]
    if s.plain == 0 and s.reduced == 0:
        s.plain = s.window
        if s.algorithm == HALVING:
            s.reduced = _log2(s.nodes) - 1
        elif s.algorithm == DIRECT and s.group < 0:
            s.reduced = s.window
        else:
            s.reduced = (s.nodes - 1) * s.window
        s.toggle = 1 - s.toggle
    kind = BUNDLE
    leaves = 1
    comes_back = 0
    if s.plain > 0:
        s.plain -= 1
    else:
        leaves = 0
        if s.reduced > s.window:
            comes_back = 1
        if s.collective == REDUCE_SCATTER or (s.collective == ALL_REDUCE and s.toggle == 1):
            kind = BUNDLE_REDUCED
        s.reduced -= 1
    s.inserted += 1
    size = s.message_bytes
    if s.algorithm == HALVING:
        _aim(m, stream)
        s.packet_bytes = size
        if s.doubling == 1:
            s.distance *= 2
            s.message_bytes //= 2
        else:
            s.distance //= 2
            s.message_bytes *= 2
        if s.distance == s.nodes and s.collective == ALL_REDUCE:
            s.doubling = 0
            s.distance //= 2
            s.message_bytes *= 2
    if m.config[0].bus == 1 and s.group < 0:
        reduced = 1 if kind == BUNDLE_REDUCED else 0
        enter_bus(m, s.npu, stream, size, reduced, leaves, comes_back)
        return
    appoint(m, s.npu, s.delay_ns, kind, stream, size)


@kernel(inline=False)
def _insert_apart(m: Machine, stream: int) -> None:
    """As :func:`insert_packet`: the beginning need not be as fast as what follows."""
    insert_packet(m, stream)


@kernel
def begin_steps(m: Machine, stream: int) -> None:
    """Begin the phase with a window of messages."""
    for _ in range(m.streams[stream].window):
        _insert_apart(m, stream)


@kernel
def _ready(m: Machine, stream: int) -> None:
    """Send the next message that has passed the memory, and expect its counterpart."""
    s = m.streams[stream]
    if s.inserted == s.sent or s.to_send == 0 or s.free == 0:
        return
    size = s.message_bytes
    if s.algorithm == HALVING:
        dst = s.packet_peer
        src = dst
        size = s.packet_bytes
    else:
        ahead = 1
        if s.algorithm == DIRECT:
            ahead = 1 + s.sent % (s.nodes - 1)
        ahead *= s.direction
        up = s.index + ahead
        down = s.index - ahead
        if up < 0:
            up += s.nodes
        elif up >= s.nodes:
            up -= s.nodes
        if down < 0:
            down += s.nodes
        elif down >= s.nodes:
            down -= s.nodes
        dst = member_at(m, stream, up)
        src = member_at(m, stream, down)
    here = s.npu
    post_send(m, here, dst, s.tag, size, 0)
    if m.config[0].folded == 1:
        # The one that sends to us does so as we to the next.
        src = here
        here = dst
    post_receive(m, src, here, s.tag, size, (stream << KIND_BITS) | STREAM)
    s.to_send -= 1
    s.sent += 1
    s.free -= 1


@kernel
def bundle_passed(m: Machine, stream: int) -> bool:
    """A message has passed the memory: go on; returns whether the phase is over."""
    s = m.streams[stream]
    s.free += 1
    turns = 1
    if s.algorithm == DIRECT and s.collective == ALL_REDUCE and s.to_send <= s.nodes - 1:
        if s.received < s.nodes - 1:
            return False
        turns = s.window
    for _ in range(turns):
        _ready(m, stream)
    return bool(s.to_send == 0 and s.free == s.window)
