"""The shared bus between an NPU and its network adapter, and the one to its memory behind it.

``model-shared-bus``: every message of a collective passes the bus before it is sent and after it
has arrived. A bus has two sides; transfers follow LogGP: latency ``L``, overhead ``o``, gap ``g``
and ``G`` per byte. A side that has begun more than eight transfers in a row yields to the other
one. Sources: ASTRA-sim 2.0, ``LogGP.cc`` and ``MemBus.cc`` (MIT licence), and Alexandrov et
al., "LogGP: incorporating long messages into the LogP model" (1995).
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel

from .tables import BUS_PROCESSED, BUS_RECEIVED, BUS_SENT, MessageMachine
from .timers import set_timer
from .transport import free_message, new_message

__all__ = ["LISTS", "SIDES", "bus_processed", "bus_received", "bus_sent", "bus_settle", "enter_bus"]

# Sides of an NPU's two buses. The other side of the same bus differs in the last bit.
SIDES: Final = 4
_NPU: Final = 0
_ADAPTER: Final = 1
_INNER_NPU: Final = 2
_INNER_MEMORY: Final = 3

# Lists of requests of a side.
LISTS: Final = 3
_SENDS: Final = 0
_RECEIVES: Final = 1
_WORK: Final = 2

_FREE: Final = 0
_SENDING: Final = 1
_RECEIVING: Final = 2

# What follows when the memory has served a request.
_SEND_BACK: Final = 0
_PROCESS: Final = 1
_RETIRE: Final = 2

_INNER_NS_A_BYTE: Final = 0.0038
_MOST_IN_A_ROW: Final = 8

# A request is a row of the table of messages. `sent`: it has to be processed; `posted`: it comes
# back; `sender`: what it carries (a bundle, or the request that waits for the memory);
# `receiver`: what follows.


@kernel
def _append(m: MessageMachine, side: int, which: int, row: int) -> None:
    """Append a request to a list of a side."""
    line = m.bus_lists[side * LISTS + which]
    m.messages[row].behind = -1
    if line.tail >= 0:
        m.messages[line.tail].behind = row
    else:
        line.head = row
    line.tail = row


@kernel
def _pop(m: MessageMachine, side: int, which: int) -> int:
    """Take the first request out of a list."""
    line = m.bus_lists[side * LISTS + which]
    row = line.head
    line.head = m.messages[row].behind
    if line.head < 0:
        line.tail = -1
    return int(row)


@kernel
def _request(m: MessageMachine, npu: int, size: int, processed: int, comes_back: int, carries: int) -> int:
    """Take an unused row for a request."""
    row = new_message(m, npu, -1, 0, size)
    r = m.messages[row]
    r.sent = processed
    r.posted = comes_back
    r.sender = carries
    r.receiver = _SEND_BACK
    return row


@kernel(inline=False)
def _transfer(m: MessageMachine, side: int) -> None:
    """Begin the first pending transfer of a side."""
    b = m.bus[side]
    other = m.bus[side ^ 1]
    config = m.config[0]
    now = m.queue[0].now
    offset = config.bus_o
    if b.previous == _SENDING and config.bus_o + now - b.last_ns <= config.bus_g:
        offset = config.bus_g - (now - b.last_ns)
    row = _pop(m, side, _SENDS)
    per_byte = config.bus_G
    if side % SIDES >= _INNER_NPU:
        per_byte = _INNER_NS_A_BYTE
    wire_ns = float(offset) + per_byte * float(m.messages[row].bytes - 1)
    _append(m, side ^ 1, _RECEIVES, row)
    other.receiving += 1
    other.previous = other.state
    other.state = _RECEIVING
    other.reads = 0
    coming_ns = int(wire_ns + float(config.bus_L) + float(config.bus_o))
    set_timer(m, side // SIDES, coming_ns, BUS_RECEIVED, side ^ 1, 0)
    b.state = _SENDING
    set_timer(m, side // SIDES, int(wire_ns), BUS_SENT, side, 0)


@kernel(inline=False)
def _look(m: MessageMachine, side: int) -> None:
    """Begin a transfer if a side is free and has one, or the other side's if that has waited too long."""
    b = m.bus[side]
    if b.state != _FREE or m.bus_lists[side * LISTS + _SENDS].head < 0:
        return
    other = m.bus[side ^ 1]
    waits = m.bus_lists[(side ^ 1) * LISTS + _SENDS].head >= 0
    if b.reads > _MOST_IN_A_ROW and waits and other.reads <= _MOST_IN_A_ROW:
        if other.state == _FREE:
            _transfer(m, side ^ 1)
        return
    _transfer(m, side)


@kernel
def _cross(m: MessageMachine, side: int, row: int) -> None:
    """Send a request over the bus."""
    _append(m, side, _SENDS, row)
    _look(m, side)


@kernel(inline=False)
def _from_memory(m: MessageMachine, npu: int, row: int, side: int, comes_back: int, follows: int) -> None:
    """Send a request for the memory over its bus; the given one waits for it."""
    m.messages[row].receiver = follows
    inner = _request(m, npu, m.messages[row].bytes, 0, comes_back, row)
    _cross(m, npu * SIDES + side, inner)


@kernel(inline=False)
def enter_bus(
    m: MessageMachine, npu: int, stream: int, size: int, reduced: int, leaves: int, comes_back: int
) -> None:
    """Put a message of a stream on the bus.

    Parameters
    ----------
    m : MessageMachine
    npu, stream : int
    size : int
        Bytes.
    reduced : int
        1: it has arrived and has to be reduced.
    leaves : int
        1: it goes to the adapter, 0: it comes from there.
    comes_back : int
        1: it goes back to the adapter, because it is sent on.
    """
    row = _request(m, npu, size, reduced, comes_back, stream * 2 + reduced)
    if leaves == 1:
        _from_memory(m, npu, row, _INNER_MEMORY, 0, _SEND_BACK)
    else:
        _cross(m, npu * SIDES + _ADAPTER, row)


@kernel
def _work(m: MessageMachine, side: int) -> None:
    """Begin to process the first request."""
    row = m.bus_lists[side * LISTS + _WORK].head
    if m.bus[side].busy == 0 and row >= 0:
        m.bus[side].busy = 1
        work_ns = m.messages[row].bytes // 100 * m.config[0].bus_reduce_ns + 50
        set_timer(m, side // SIDES, work_ns, BUS_PROCESSED, side, 0)


@kernel
def _served(m: MessageMachine, row: int) -> int:
    """The memory has served a request of the NPU's side; returns a bundle that has passed, or -1."""
    npu = m.messages[row].src
    follows = m.messages[row].receiver
    if follows == _RETIRE:
        bundle = m.messages[row].sender
        free_message(m, row)
        return int(bundle)
    if follows == _PROCESS:
        _append(m, npu * SIDES, _WORK, row)
        _work(m, npu * SIDES)
    else:
        _append(m, npu * SIDES, _SENDS, row)
    _look(m, npu * SIDES)
    return -1


@kernel(inline=False)
def bus_sent(m: MessageMachine, side: int) -> None:
    """A side has sent."""
    b = m.bus[side]
    b.last_ns = m.queue[0].now
    b.previous = b.state
    b.state = _FREE
    b.reads += 1
    _look(m, side)


@kernel(inline=False)
def bus_received(m: MessageMachine, side: int) -> int:
    """A request has crossed a bus.

    Returns
    -------
    int
        A bundle that has passed: twice its stream, plus 1 if it has to be reduced; -1 for none.
        The caller handles it, and then calls :func:`bus_settle`.
    """
    b = m.bus[side]
    row = m.bus_lists[side * LISTS + _RECEIVES].head
    r = m.messages[row]
    npu = side // SIDES
    b.last_ns = m.queue[0].now
    b.previous = b.state
    if b.receiving < 2:
        b.state = _FREE
    outer = side % SIDES == _NPU
    processed = r.sent == 1
    if processed or r.posted == 1:
        if processed:
            r.sent = 0
        else:
            r.posted = 0
        _drop(m, side)
        if outer:
            _from_memory(m, npu, row, _INNER_NPU, 1, _PROCESS if processed else _SEND_BACK)
        else:
            _append(m, side, _WORK if processed else _SENDS, row)
        if processed:
            _work(m, side)
    elif outer:
        _drop(m, side)
        _from_memory(m, npu, row, _INNER_NPU, 0, _RETIRE)
    elif side % SIDES == _ADAPTER:
        return int(r.sender)
    else:
        bundle = _served(m, r.sender)
        if bundle >= 0:
            return bundle
        free_message(m, _drop(m, side))
    _look(m, side)
    return -1


@kernel
def _drop(m: MessageMachine, side: int) -> int:
    """Take the first request that has arrived out of its list."""
    m.bus[side].receiving -= 1
    return _pop(m, side, _RECEIVES)


@kernel(inline=False)
def bus_settle(m: MessageMachine, side: int) -> None:
    """Continue on the buses after a bundle has been handled."""
    if side % SIDES >= _INNER_NPU:
        _look(m, side // SIDES * SIDES + _NPU)
    free_message(m, _drop(m, side))
    _look(m, side)


@kernel(inline=False)
def bus_processed(m: MessageMachine, side: int) -> None:
    """A request has been processed (on the NPU's side)."""
    row = _pop(m, side, _WORK)
    m.bus[side].busy = 0
    comes_back = m.messages[row].posted
    m.messages[row].posted = 0
    follows = _SEND_BACK if comes_back == 1 else _RETIRE
    _from_memory(m, side // SIDES, row, _INNER_NPU, comes_back, follows)
    _work(m, side)
    _look(m, side)
