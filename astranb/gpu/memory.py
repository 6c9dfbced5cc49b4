"""L2 slices and HBM channels: service, latency, and what the lines of a piece hold."""

from __future__ import annotations

from astranb.core.jit import Records, kernel

from .sm import schedule
from .tables import HBM, HOP, LOAD, POLL, RETURN, SIGNAL, STORE, TORN

__all__ = ["reach_hbm", "reach_l2", "spread"]


@kernel
def spread(line: int, ways: int) -> int:
    """Spread line addresses over slices or channels so that no stride hits only some.

    Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4); real GPUs hash
    addresses likewise, by functions that are not published.
    """
    return ((line * 2654435769) & 0xFFFFFFFF) * ways >> 32


@kernel
def serve(servers: Records, server: int, now_ps: int, service_ps: int) -> int:
    """Take one line through a FIFO server; returns when its service ends."""
    start_ps = max(now_ps, servers[server].free_at_ps)
    servers[server].free_at_ps = start_ps + service_ps
    servers[server].busy_ps += service_ps
    servers[server].queued_ps += start_ps - now_ps
    servers[server].lines += 1
    return start_ps + service_ps


@kernel
def reach_l2(
    clock: Records,
    heap: Records,
    gpus: Records,
    slices: Records,
    operands: Records,
    pieces: Records,
    ops: Records,
    semaphores: Records,
    requests: Records,
    resident: Records,
    request: int,
) -> None:
    """The L2 event: stores and signals take effect here; loads of lines never touched go on to HBM.

    A line is resident from its first touch on: compulsory misses are modelled, capacity
    misses are not, and neither is the write-back of dirty lines.
    """
    gpu = requests[request].target
    line = requests[request].line
    kind = requests[request].kind
    server = gpus[gpu].first_slice + spread(line, gpus[gpu].slices)
    served_ps = serve(slices, server, clock[0].now_ps, gpus[gpu].slice_ps)
    if kind == LOAD:
        if resident[gpus[gpu].first_line + line] == 0:
            schedule(clock, heap, served_ps, HBM, request)
            return
        read_piece(pieces, operands, requests[request].operand, requests[request].op)
    elif kind == STORE:
        resident[gpus[gpu].first_line + line] = 1
        write_piece(pieces, operands[requests[request].operand].piece, requests[request].op)
    elif kind == SIGNAL:
        semaphores[ops[requests[request].op].semaphore].value += ops[requests[request].op].value
    elif kind == POLL:
        requests[request].seen = semaphores[ops[requests[request].op].semaphore].value
    respond(clock, heap, gpus, requests, request, served_ps + gpus[gpu].l2_ps)


@kernel
def reach_hbm(
    clock: Records,
    heap: Records,
    gpus: Records,
    channels: Records,
    operands: Records,
    pieces: Records,
    requests: Records,
    resident: Records,
    request: int,
) -> None:
    """The HBM event: a line that missed in L2 is read and becomes resident."""
    gpu = requests[request].target
    line = requests[request].line
    server = gpus[gpu].first_channel + spread(line, gpus[gpu].channels)
    served_ps = serve(channels, server, clock[0].now_ps, gpus[gpu].channel_ps)
    resident[gpus[gpu].first_line + line] = 1
    read_piece(pieces, operands, requests[request].operand, requests[request].op)
    respond(clock, heap, gpus, requests, request, served_ps + gpus[gpu].hbm_ps + gpus[gpu].l2_ps)


@kernel
def respond(
    clock: Records, heap: Records, gpus: Records, requests: Records, request: int, ready_ps: int
) -> None:
    """Send the response or acknowledgement on its way back."""
    at_port_ps = ready_ps + gpus[requests[request].target].noc_ps
    requests[request].returning = 1
    if requests[request].last_back_hop == 0:
        schedule(clock, heap, at_port_ps, RETURN, request)
    else:
        requests[request].hop = requests[request].back_hop
        requests[request].last_hop = requests[request].last_back_hop
        schedule(clock, heap, at_port_ps, HOP, request)


@kernel
def read_piece(pieces: Records, operands: Records, operand: int, op: int) -> None:
    """Note whose write a source line shows; lines of different writes make the source torn.

    An operation may write over its own source: it reads each line before it writes it.
    """
    piece = operands[operand].piece
    writing = pieces[piece].writing
    writer = pieces[piece].writer if writing < 0 or writing == op else TORN
    # ``seen`` starts as a number that no writer has.
    if operands[operand].seen < TORN:
        operands[operand].seen = writer
    elif operands[operand].seen != writer:
        operands[operand].seen = TORN


@kernel
def write_piece(pieces: Records, piece: int, op: int) -> None:
    """Count a line of a write in; the last one makes the operation the piece's writer."""
    if pieces[piece].writing != op:
        # Two writes at once leave a mixture: neither of them ever counts as complete.
        pieces[piece].arrived = 0 if pieces[piece].writing < 0 else pieces[piece].lines + 1
        pieces[piece].writing = op
    pieces[piece].arrived += 1
    if pieces[piece].arrived == pieces[piece].lines:
        pieces[piece].writing = -1
        pieces[piece].writer = op
