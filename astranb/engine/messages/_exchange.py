"""What an endpoint posts: sends and receives, with the receiver's leave under rendezvous.

A handler is a number: who is told in the low bits, and which row of its table above them.
"""

from __future__ import annotations

from astranb.core.jit import kernel

from ._tables import KIND_BITS, LEAVE_BYTES, LEAVE_TAGS, RECEIVING, SENDING, Machine
from ._transport import free_message, receive, send

__all__ = [
    "begin_receive",
    "begin_send",
    "post_receive",
    "post_receive_apart",
    "post_send",
    "post_send_apart",
]


@kernel
def _put_off(m: Machine, src: int, dst: int, tag: int, size: int, handler: int) -> int:
    """Keep what is to be sent or received in a message's row until leave is given."""
    row = m.clock[0].free_message
    m.clock[0].free_message = m.messages[row].next
    m.clock[0].messages_left -= 1
    m.messages[row].src = src
    m.messages[row].dst = dst
    m.messages[row].tag = tag
    m.messages[row].bytes = size
    m.messages[row].sender = handler
    return int(row)


@kernel(inline=False)
def _send_apart(m: Machine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """Send, from places that are not worth a copy of the code each."""
    send(m, src, dst, tag, size, handler)


@kernel(inline=False)
def _receive_apart(m: Machine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """Receive, likewise."""
    receive(m, src, dst, tag, size, handler)


@kernel
def post_send(m: Machine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """Send, or wait for the receiver's leave to do so."""
    if m.config[0].rendezvous == 0:
        send(m, src, dst, tag, size, handler)
        return
    row = _put_off(m, src, dst, tag, size, handler)
    _receive_apart(m, dst, src, tag + LEAVE_TAGS, LEAVE_BYTES, (row << KIND_BITS) | SENDING)


@kernel
def post_receive(m: Machine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """Receive; under rendezvous, give the sender leave first, and receive once that has arrived."""
    if m.config[0].rendezvous == 0:
        receive(m, src, dst, tag, size, handler)
        return
    row = _put_off(m, src, dst, tag, size, handler)
    _send_apart(m, dst, src, tag + LEAVE_TAGS, LEAVE_BYTES, (row << KIND_BITS) | RECEIVING)


@kernel
def begin_send(m: Machine, row: int) -> None:
    """Leave has come: send what was put off."""
    src, dst, tag = m.messages[row].src, m.messages[row].dst, m.messages[row].tag
    size, handler = m.messages[row].bytes, m.messages[row].sender
    free_message(m, row)
    _send_apart(m, src, dst, tag, size, handler)


@kernel
def begin_receive(m: Machine, row: int) -> None:
    """The sender has its leave: receive what was put off."""
    src, dst, tag = m.messages[row].src, m.messages[row].dst, m.messages[row].tag
    size, handler = m.messages[row].bytes, m.messages[row].sender
    free_message(m, row)
    _receive_apart(m, src, dst, tag, size, handler)


@kernel(inline=False)
def post_send_apart(m: Machine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """As :func:`post_send`: one copy of the code for all callers."""
    post_send(m, src, dst, tag, size, handler)


@kernel(inline=False)
def post_receive_apart(m: Machine, src: int, dst: int, tag: int, size: int, handler: int) -> None:
    """As :func:`post_receive`: one copy of the code for all callers."""
    post_receive(m, src, dst, tag, size, handler)
