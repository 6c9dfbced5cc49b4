"""Collectives in a switch: all send up once, the switch reduces or joins, and all get it once.

A chunk of ``D`` bytes on ``n`` NPUs: an all-reduce goes up and down whole; a reduce-scatter comes
down as ``D / n``; an all-gather, of which each has ``D``, comes down as ``(n - 1) D``; a broadcast
goes up from its root alone, down to the others when all of them have begun. It takes

    e + up + reduce + down + e

where ``e`` is the endpoint's delay, up and down are one link each, and the switch begins to
reduce when the last of its NPUs' messages has come (it holds whole messages, as all of
ASTRA-sim 2.0's links do). This is the in-switch collective of ASTRA-sim 2.0's paper (Won et al.,
ISPASS 2023), which its program does not have.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel

from ._appoint import appoint_apart
from ._steps import member_at
from ._tables import (
    ALL_GATHER,
    BROADCAST,
    BUNDLE,
    KIND_BITS,
    REDUCE,
    REDUCE_SCATTER,
    REDUCING,
    STREAM,
    SWITCH_DONE,
    Machine,
)
from ._transport import down_from_switch, meet_at_switch, up_to_switch
from ._tree import pass_endpoint

__all__ = ["at_switch", "begin_switch", "from_switch", "load_switch", "switch_bundle_passed", "switch_done"]

_UP: Final = 0
_AT_SWITCH: Final = 1
_DOWN: Final = 2


@kernel
def load_switch(m: Machine, stream: int, size: int) -> None:
    """Set a phase of so many bytes."""
    s = m.streams[stream]
    s.message_bytes = size
    s.state = _UP


@kernel
def begin_switch(m: Machine, stream: int) -> None:
    """Begin: the chunk passes the endpoint's memory; who is to get it stands at the switch at once."""
    s = m.streams[stream]
    if s.collective == BROADCAST and s.node != 0:
        at_switch(m, stream)
        return
    pass_endpoint(m, stream, 0, 1, 0)


@kernel
def _dimension(m: Machine, stream: int) -> int:
    """Give the dimension of the network in which the switch is."""
    s = m.streams[stream]
    dim = s.queue // m.config[0].queues % m.config[0].dims
    return int(m.schedule[dim].links)


@kernel(inline=False)
def switch_bundle_passed(m: Machine, stream: int) -> bool:
    """A chunk has passed the memory; returns whether the phase is over."""
    s = m.streams[stream]
    if s.state == _DOWN:
        return True
    s.state = _AT_SWITCH
    up_to_switch(m, s.npu, _dimension(m, stream), s.message_bytes, (stream << KIND_BITS) | REDUCING)
    return False


@kernel(inline=False)
def at_switch(m: Machine, stream: int) -> None:
    """A chunk is at the switch; when all are, it takes its time."""
    s = m.streams[stream]
    key = m.config[0].npus + _dimension(m, stream)
    row = meet_at_switch(m, stream, member_at(m, stream, 0), key, s.tag, s.nodes)
    delay_ns = m.config[0].switch_ns
    while row >= 0:
        following = m.streams[row].left
        if delay_ns > 0:
            appoint_apart(m, m.streams[row].npu, delay_ns, SWITCH_DONE, row, 0)
        else:
            switch_done(m, row)
        row = following


@kernel(inline=False)
def switch_done(m: Machine, stream: int) -> None:
    """The switch sends a stream what it is to have."""
    s = m.streams[stream]
    if (s.collective == BROADCAST and s.node == 0) or (s.collective == REDUCE and s.node != 0):
        s.state = _DOWN
        appoint_apart(m, s.npu, 0, BUNDLE, stream, 0)
        return
    size = s.message_bytes
    if s.collective == REDUCE_SCATTER:
        size //= s.nodes
    elif s.collective == ALL_GATHER:
        size *= s.nodes - 1
    down_from_switch(m, s.npu, _dimension(m, stream), size, (stream << KIND_BITS) | STREAM)


@kernel
def from_switch(m: Machine, stream: int) -> None:
    """A chunk has come from the switch."""
    m.streams[stream].state = _DOWN
    pass_endpoint(m, stream, 0, 0, 0)
