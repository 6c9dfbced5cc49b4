"""Ties in a folded run: what happens at one time in an order that may not be the same for all ranks.

Events at one time are handled in the order in which they were put into the queue. That order is the same
for all ranks of a class where it is that of one rank, or where the events were put there at different times.
But in a ring one rank gets its message from a rank that is handled before it, and another from one that is
handled after it. Where two events of different ranks were put into the queue at one time, happen at one time,
and their order could make a difference, the NPU is marked, and all ranks are simulated instead:

- a message arrives when its receive is posted: posted later, the message is an event more;
- messages of two operations enter an NPU's memory at one time, and leave it at one time; with ports, messages
  of two chunks, unless they came from one NPU;
- messages come in by one port at one time: the second of them waits;
- messages leave by one port at one time, and what let them leave was set at one time, too.

Messages of one NPU are never tied: they come in the order in which it sends them. Nor is a receive that is
posted late (LATE): its event is put into the queue when it happens, behind all messages that come then, as
these were put there a nanosecond before at least; others like it at that time are of other NPUs, or in the
order in which its own NPU posts them. Only a message that takes no time comes later, and ties with its own
receive.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel

from .tables import AWAY_BITS, CLEAR_TO_SEND_TAGS, KIND_BITS, NATIVE_TAGS, STREAM, MessageMachine

__all__ = [
    "arrives",
    "comes_in",
    "enters",
    "expects",
    "leaves",
    "scheduled",
    "scheduled_message",
    "scheduled_timer",
]

_MASK: Final = (1 << KIND_BITS) - 1
_TAGS: Final = (1 << AWAY_BITS) - 1
_CHUNKS_OF_GROUP: Final = 1_000_000
_PEERS: Final = 4095


@kernel
def scheduled(m: MessageMachine, put_ns: int) -> None:
    """Remember when the event at hand was put into the queue."""
    if m.config[0].folded == 1:
        m.fold[0].event_ns = put_ns
        m.fold[0].timer_step = -1
        m.fold[0].sender = -1


@kernel
def scheduled_timer(m: MessageMachine, head: int, row: int) -> None:
    """Remember when a timer was set, and when the first one of its list was put into the queue."""
    if m.config[0].folded == 1:
        scheduled(m, m.timers[head].set_ns)
        m.fold[0].timer_ns = m.timers[row].set_ns
        m.fold[0].timer_step = m.timers[row].set_step


@kernel(inline=False)
def _sender(m: MessageMachine, row: int) -> int:
    """Number the NPU that sent a message as its target counts, -1: unknown.

    Where two messages have the same number, every rank of the target's class gets both from one rank.
    """
    message = m.messages[row]
    tag = message.tag & _TAGS
    group = tag // _CHUNKS_OF_GROUP
    if tag >= CLEAR_TO_SEND_TAGS:
        return -1
    if tag < NATIVE_TAGS:
        group = _PEERS
    return int((((message.at << 12) + group) << 20) + (message.tag >> AWAY_BITS))


@kernel
def scheduled_message(m: MessageMachine, row: int) -> None:
    """Remember when the arrival of a message was put into the queue, and who sent it."""
    if m.config[0].folded == 1:
        scheduled(m, m.meeting[row].put_ns)
        if m.config[0].ports > 0:
            m.fold[0].sender = _sender(m, row)


@kernel(inline=False)
def enters(m: MessageMachine, npu: int, stream: int, came: int) -> None:
    """A message of a chunk enters an NPU's memory: mark the NPU if that ties with another one's.

    Parameters
    ----------
    m : MessageMachine
    npu, stream : int
    came : int
        1: from another NPU.
    """
    f = m.fold[npu]
    now = m.queue[0].now
    put_ns = m.fold[0].event_ns
    operation = m.streams[stream].operation
    due_ns = now + m.streams[stream].delay_ns
    key = m.fold[0].sender
    same = f.set_ns == now and f.due_ns == due_ns and f.put_ns == put_ns
    if same and f.operation != operation and (came == 1 or f.came == 1):
        f.tied = 1
    if same and m.config[0].ports > 0 and (came == 1 or f.came == 1):
        one = came == f.came and key == f.key and key >= 0
        if f.stream != stream and not one:
            f.tied = 1
        if not one:
            key = -1
    f.set_ns = now
    f.due_ns = due_ns
    f.operation = operation
    f.stream = stream
    f.key = key
    f.came = came
    f.put_ns = put_ns


@kernel(inline=False)
def leaves(m: MessageMachine, npu: int, port: int) -> None:
    """A message leaves by a port: mark the NPU if that ties with another message."""
    c = m.crossing[port]
    f = m.fold[0]
    step = m.clock[0].steps
    if c.at_ns == m.queue[0].now and c.step != step and c.put_ns == f.event_ns:
        timers = c.set_step >= 0 and f.timer_step >= 0
        # Of one NPU, timers are in the order in which they were set.
        if not (timers and (c.set_step == f.timer_step or c.set_ns != f.timer_ns)):
            m.fold[npu].tied = 1
    c.at_ns = m.queue[0].now
    c.put_ns = f.event_ns
    c.set_ns = f.timer_ns
    c.set_step = f.timer_step
    c.step = step


@kernel(inline=False)
def comes_in(m: MessageMachine, npu: int, port: int) -> None:
    """A message comes in by a port: mark the NPU if that ties with another NPU's message."""
    c = m.crossing[port]
    f = m.fold[0]
    if c.at_ns == m.queue[0].now and c.put_ns == f.event_ns and (c.key != f.sender or f.sender < 0):
        m.fold[npu].tied = 1
    c.at_ns = m.queue[0].now
    c.put_ns = f.event_ns
    c.key = f.sender


@kernel
def _meets(m: MessageMachine, row: int) -> None:
    """A message has both arrived and been expected."""
    meeting = m.meeting[row]
    if meeting.met_ns == m.queue[0].now and meeting.met_put_ns == m.fold[0].event_ns:
        m.fold[m.messages[row].dst].tied = 1


@kernel(inline=False)
def expects(m: MessageMachine, row: int) -> None:
    """A receive is posted: mark the NPU if that ties with the arrival of its message."""
    if m.messages[row].sent == 2:
        _meets(m, row)
    m.meeting[row].met_ns = m.queue[0].now
    m.meeting[row].met_put_ns = m.fold[0].event_ns


@kernel(inline=False)
def arrives(m: MessageMachine, row: int) -> None:
    """A message arrives: mark its target if that ties with its receive, or with another message."""
    message = m.messages[row]
    if message.posted == 0:
        expects(m, row)
        return
    _meets(m, row)
    if message.receiver & _MASK == STREAM:
        stream = message.receiver >> KIND_BITS
        enters(m, m.streams[stream].npu, stream, 1)
