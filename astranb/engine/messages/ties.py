"""Ties in a folded run: what happens at one time in an order that may not be the same for all ranks.

Events at one time are handled in the order in which they were put into the queue. That order is the same
for all ranks of a class where it is that of one rank, or where the events were put there at different times.
But in a ring one rank gets its message from a rank that is handled before it, and another from one that is
handled after it. Where two events of different ranks were put into the queue at one time, happen at one time,
and their order could make a difference, the NPU is marked, and all ranks are simulated instead:

- a message arrives when its receive is posted: posted later, the message is an event more;
- messages of two operations enter an NPU's memory at one time, and leave it at one time.
"""

from __future__ import annotations

from astranb.core.jit import kernel

from .tables import KIND_BITS, STREAM, MessageMachine

__all__ = ["arrives", "enters", "expects", "scheduled", "scheduled_message"]

_MASK = (1 << KIND_BITS) - 1


@kernel
def scheduled(m: MessageMachine, put_ns: int) -> None:
    """Remember when the event at hand was put into the queue."""
    if m.config[0].folded == 1:
        m.fold[0].event_ns = put_ns


@kernel
def scheduled_message(m: MessageMachine, row: int) -> None:
    """Remember when the arrival of a message was put into the queue."""
    if m.config[0].folded == 1:
        m.fold[0].event_ns = m.meeting[row].put_ns


@kernel(inline=False)
def enters(m: MessageMachine, npu: int, operation: int, delay_ns: int, came: int) -> None:
    """A message enters an NPU's memory: mark the NPU if that ties with another operation's.

    Parameters
    ----------
    m : MessageMachine
    npu, operation : int
    delay_ns : int
        Of the memory.
    came : int
        1: from another NPU.
    """
    f = m.fold[npu]
    now = m.queue[0].now
    put_ns = m.fold[0].event_ns
    same = f.set_ns == now and f.due_ns == now + delay_ns and f.put_ns == put_ns
    if same and f.operation != operation and (came == 1 or f.came == 1):
        f.tied = 1
    f.set_ns = now
    f.due_ns = now + delay_ns
    f.operation = operation
    f.came = came
    f.put_ns = put_ns


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
        s = m.streams[message.receiver >> KIND_BITS]
        enters(m, s.npu, s.operation, s.delay_ns, 1)
