"""Steps that all algorithms share: to whom messages go, and the memory that they pass before."""

from __future__ import annotations

from astranb.core.jit import kernel

from .bus import enter_bus
from .tables import BUNDLE, BUNDLE_REDUCED, KIND_BITS, STREAM, MessageMachine
from .timers import set_timer
from .transport import post_receive

__all__ = ["expect", "hop_ns", "member", "pass_memory"]


@kernel
def member(m: MessageMachine, stream: int, index: int) -> int:
    """Return the rank at an index of the phase's dimension or group."""
    s = m.streams[stream]
    if s.group >= 0:
        return int(m.members[m.groups[s.group].first + index].value)
    return int(s.origin + index * s.stride)


@kernel
def hop_ns(m: MessageMachine, stream: int, target: int) -> int:
    """Return the time of a message in a library's software: within a node, or to another one."""
    s = m.streams[stream]
    if s.cost < 0:
        return 0
    if m.npus[target].node != m.npus[s.npu].node:
        return int(m.costs[s.cost].far_ns)
    return int(m.costs[s.cost].near_ns)


@kernel(inline=False)
def pass_memory(m: MessageMachine, stream: int, reduced: int, leaves: int, comes_back: int) -> None:
    """Pass the chunk through the endpoint's memory, over its bus where that is shared."""
    s = m.streams[stream]
    if m.config[0].bus == 1 and s.group < 0:
        enter_bus(m, s.npu, stream, s.message_bytes, reduced, leaves, comes_back)
        return
    kind = BUNDLE_REDUCED if reduced == 1 else BUNDLE
    set_timer(m, s.npu, s.delay_ns, kind, stream, s.message_bytes)


@kernel
def expect(m: MessageMachine, stream: int, rank: int, size: int) -> None:
    """Expect a message from a rank."""
    s = m.streams[stream]
    post_receive(m, rank, s.npu, s.tag, size, (stream << KIND_BITS) | STREAM)
