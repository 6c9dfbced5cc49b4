"""The shared bus between an NPU and its network adapter, and the one to its memory behind it.

``model-shared-bus``: every message of a collective passes the bus before it is sent and after it
has come. A bus has two sides; both send over it in LogGP's way: latency ``L``, overhead ``o``, gap
``g`` and ``G`` a byte. A side that has begun more than eight transfers in a row lets the other one
go first. Sources: ASTRA-sim 2.0, ``LogGP.cc`` and ``MemBus.cc`` (MIT licence), and Alexandrov et
al., "LogGP: incorporating long messages into the LogP model" (1995).
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel

from ._appoint import appoint_apart
from ._tables import BUS_PROCESSED, BUS_RECEIVED, BUS_SENT, Machine

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

# What is to be done with a request once the memory has served it.
_SEND_BACK: Final = 0
_PROCESS: Final = 1
_RETIRE: Final = 2

_INNER_NS_A_BYTE: Final = 0.0038
_MOST_IN_A_ROW: Final = 8

# A request is a row of the table of messages: `sent` says whether it is to be processed, `posted`
# whether it comes back, `sender` what it carries (a bundle, or the request that waits for the
# memory), `receiver` what follows.


@kernel
def _append(m: Machine, side: int, which: int, row: int) -> None:
    """Put a request last into a list of a side."""
    line = m.bus_lists[side * LISTS + which]
    m.messages[row].behind = -1
    if line.tail >= 0:
        m.messages[line.tail].behind = row
    else:
        line.head = row
    line.tail = row


@kernel
def _pop(m: Machine, side: int, which: int) -> int:
    """Take the first request out of a list."""
    line = m.bus_lists[side * LISTS + which]
    row = line.head
    line.head = m.messages[row].behind
    if line.head < 0:
        line.tail = -1
    return int(row)


@kernel
def _request(m: Machine, npu: int, size: int, processed: int, comes_back: int, carries: int) -> int:
    """Take an unused row for a request."""
    row = m.clock[0].free_message
    r = m.messages[row]
    m.clock[0].free_message = r.next
    m.clock[0].messages_left -= 1
    r.src = npu
    r.bytes = size
    r.sent = processed
    r.posted = comes_back
    r.sender = carries
    r.receiver = _SEND_BACK
    return int(row)


@kernel
def _free(m: Machine, row: int) -> None:
    """Give a row back."""
    m.messages[row].next = m.clock[0].free_message
    m.clock[0].free_message = row
    m.clock[0].messages_left += 1


@kernel(inline=False)
def _transfer(m: Machine, side: int) -> None:
    """Begin the first transfer that a side has to make."""
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
    appoint_apart(m, side // SIDES, coming_ns, BUS_RECEIVED, side ^ 1, 0)
    b.state = _SENDING
    appoint_apart(m, side // SIDES, int(wire_ns), BUS_SENT, side, 0)


@kernel(inline=False)
def _look(m: Machine, side: int) -> None:
    """Begin a transfer where a side is free and has one to make; the other goes first in its turn."""
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
def _over(m: Machine, side: int, row: int) -> None:
    """Bring a request over the bus."""
    _append(m, side, _SENDS, row)
    _look(m, side)


@kernel(inline=False)
def _from_memory(m: Machine, npu: int, row: int, side: int, comes_back: int, follows: int) -> None:
    """Let a request wait for a way over the memory's bus."""
    m.messages[row].receiver = follows
    inner = _request(m, npu, m.messages[row].bytes, 0, comes_back, row)
    _over(m, npu * SIDES + side, inner)


@kernel(inline=False)
def enter_bus(
    m: Machine, npu: int, stream: int, size: int, reduced: int, leaves: int, comes_back: int
) -> None:
    """Bring a message of a stream to the bus.

    Parameters
    ----------
    m : Machine
    npu, stream : int
    size : int
        Bytes.
    reduced : int
        1: it has come and is to be reduced.
    leaves : int
        1: on its way to the adapter, 0: it has come from there.
    comes_back : int
        1: what has come goes back to the adapter, because something is sent on.
    """
    row = _request(m, npu, size, reduced, comes_back, stream * 2 + reduced)
    if leaves == 1:
        _from_memory(m, npu, row, _INNER_MEMORY, 0, _SEND_BACK)
    else:
        _over(m, npu * SIDES + _ADAPTER, row)


@kernel
def _work(m: Machine, side: int) -> None:
    """Begin to process the first request."""
    row = m.bus_lists[side * LISTS + _WORK].head
    if m.bus[side].busy == 0 and row >= 0:
        m.bus[side].busy = 1
        work_ns = m.messages[row].bytes // 100 * m.config[0].bus_reduce_ns + 50
        appoint_apart(m, side // SIDES, work_ns, BUS_PROCESSED, side, 0)


@kernel
def _served(m: Machine, row: int) -> int:
    """The memory has served a request of the NPU's side; gives a bundle that has passed, or -1."""
    npu = m.messages[row].src
    follows = m.messages[row].receiver
    if follows == _RETIRE:
        bundle = m.messages[row].sender
        _free(m, row)
        return int(bundle)
    if follows == _PROCESS:
        _append(m, npu * SIDES, _WORK, row)
        _work(m, npu * SIDES)
    else:
        _append(m, npu * SIDES, _SENDS, row)
    _look(m, npu * SIDES)
    return -1


@kernel(inline=False)
def bus_sent(m: Machine, side: int) -> None:
    """A side has sent."""
    b = m.bus[side]
    b.last_ns = m.queue[0].now
    b.previous = b.state
    b.state = _FREE
    b.reads += 1
    _look(m, side)


@kernel(inline=False)
def bus_received(m: Machine, side: int) -> int:
    """A request has come over a bus.

    Returns
    -------
    int
        A bundle that has passed, twice its stream and 1 where it is to be reduced: the caller
        sees to it, and then calls :func:`bus_settle`. -1 for none.
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
    if r.sent == 1:
        r.sent = 0
        _drop(m, side)
        if outer:
            _from_memory(m, npu, row, _INNER_NPU, 1, _PROCESS)
        else:
            _append(m, side, _WORK, row)
        _work(m, side)
    elif r.posted == 1:
        r.posted = 0
        _drop(m, side)
        if outer:
            _from_memory(m, npu, row, _INNER_NPU, 1, _SEND_BACK)
        else:
            _append(m, side, _SENDS, row)
    elif outer:
        _drop(m, side)
        _from_memory(m, npu, row, _INNER_NPU, 0, _RETIRE)
    elif side % SIDES == _ADAPTER:
        return int(r.sender)
    else:
        bundle = _served(m, r.sender)
        if bundle >= 0:
            return bundle
        _free(m, _drop(m, side))
    _look(m, side)
    return -1


@kernel
def _drop(m: Machine, side: int) -> int:
    """Take the first request that has come out of its list."""
    m.bus[side].receiving -= 1
    return _pop(m, side, _RECEIVES)


@kernel(inline=False)
def bus_settle(m: Machine, side: int) -> None:
    """After a bundle has been seen to: the buses go on."""
    if side % SIDES >= _INNER_NPU:
        _look(m, side // SIDES * SIDES + _NPU)
    _free(m, _drop(m, side))
    _look(m, side)


@kernel(inline=False)
def bus_processed(m: Machine, side: int) -> None:
    """A request has been processed (on the NPU's side)."""
    row = _pop(m, side, _WORK)
    m.bus[side].busy = 0
    comes_back = m.messages[row].posted
    m.messages[row].posted = 0
    follows = _RETIRE
    if comes_back == 1:
        follows = _SEND_BACK
    _from_memory(m, side // SIDES, row, _INNER_NPU, comes_back, follows)
    _work(m, side)
    _look(m, side)
