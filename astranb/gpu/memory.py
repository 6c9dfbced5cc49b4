"""L2 slices and HBM channels: service, latency, and what the lines of a slice hold."""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import schedule

from .cache import fill, find
from .tables import HBM, IN_VAIN, INITIAL, LINE_BY_LINE, LOAD, NEVER_SEEN, SIGNAL, STORE, TORN, Machine
from .travel import channel_of, respond, slice_of

__all__ = ["reach_hbm", "reach_l2"]


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
def serve_channel(gpus: Records, channels: Records, gpu: int, line: int, now_ps: int) -> int:
    """Take a line through its channel; a line of another row than the one before takes longer."""
    channel = gpus[gpu].first_hbm_channel + channel_of(gpus, gpu, line)
    row = line // gpus[gpu].row_lines
    service_ps = gpus[gpu].channel_ps
    if channels[channel].row != row:
        service_ps += gpus[gpu].row_miss_ps
        channels[channel].row = row
    return serve(channels, channel, now_ps, service_ps)


@kernel
def keep(m: Machine, gpu: int, line: int, dirty: int, now_ps: int) -> None:
    """Put a line into the L2; the evicted one is written back if it is dirty."""
    back = fill(m.gpus, m.tags, m.present, gpu, line, dirty)
    if back >= 0:
        serve_channel(m.gpus, m.hbm_channels, gpu, back, now_ps)


@kernel
def reach_l2(m: Machine, request: int) -> None:
    """The L2 event: stores and signals take effect here; loads of lines that are not there go on to HBM.

    A request of several lines takes each through its own slice; they work in parallel.
    A store allocates without reading, because it is of whole lines or sectors.
    """
    clock = m.clock[0]
    gpu = m.requests[request].target
    line = m.requests[request].line
    kind = m.requests[request].kind
    now_ps = clock.now_ps
    cached = m.gpus[gpu].sets > 0
    service_ps = m.gpus[gpu].slice_ps
    if kind == SIGNAL:
        service_ps += m.gpus[gpu].atomic_ps
    span = m.details[request].span if clock.detailed else 1
    served_ps = 0
    missed = 0
    for place in range(line, line + span):
        server = m.gpus[gpu].first_l2_slice + slice_of(m.gpus, gpu, place)
        done_ps = serve(m.l2_slices, server, now_ps, service_ps)
        if cached:
            writes = 1 if kind == STORE or kind == SIGNAL else 0
            if find(m.gpus, m.tags, m.present, gpu, place, writes) == 0:
                if kind == LOAD:
                    missed += 1
                else:
                    keep(m, gpu, place, writes, now_ps)
        else:
            done_ps = serve_channel(m.gpus, m.hbm_channels, gpu, place, done_ps) + m.gpus[gpu].hbm_ps
        served_ps = max(served_ps, done_ps)
    operand = m.requests[request].operand
    op = m.requests[request].op
    answer = 1
    if kind == LOAD:
        if missed > 0:
            schedule(m.event_queue, served_ps, HBM, request)
            return
        answer = read(m, request)
    elif kind == STORE:
        if m.operands[operand].flag >= 0:
            m.flags[m.operands[operand].flag + m.details[request].index] = 1
        write_slice(m.slices, m.operands, m.ops, operand, op)
    elif kind == SIGNAL:
        m.semaphores[m.ops[op].semaphore].value += m.ops[op].value
    elif m.semaphores[m.ops[op].semaphore].value < m.ops[op].value:
        answer = IN_VAIN
    respond(m, request, answer, served_ps + m.gpus[gpu].l2_ps)


@kernel
def reach_hbm(m: Machine, request: int) -> None:
    """The HBM event: lines that missed in L2 are read and put there."""
    clock = m.clock[0]
    gpu = m.requests[request].target
    line = m.requests[request].line
    now_ps = clock.now_ps
    span = m.details[request].span if clock.detailed else 1
    served_ps = now_ps
    for place in range(line, line + span):
        if find(m.gpus, m.tags, m.present, gpu, place, 0) == 0:
            served_ps = max(served_ps, serve_channel(m.gpus, m.hbm_channels, gpu, place, now_ps))
            keep(m, gpu, place, 0, now_ps)
    answer = read(m, request)
    respond(m, request, answer, served_ps + m.gpus[gpu].hbm_ps + m.gpus[gpu].l2_ps)


@kernel
def read(m: Machine, request: int) -> int:
    """Record what a load has found; a packet that is not there yet makes it load again (IN_VAIN)."""
    operand = m.requests[request].operand
    flag = m.operands[operand].flag
    if flag >= 0 and m.flags[flag + m.details[request].index] == 0:
        return IN_VAIN
    read_slice(m.slices, m.operands, operand, m.requests[request].op)
    return 1


@kernel
def read_slice(slices: Records, operands: Records, operand: int, op: int) -> None:
    """Record whose write a source line shows; lines of different writes make the source torn.

    An operation may write over its own source: it reads each line before it writes it. So may one
    that writes what comes back of each line by packets. A packet's flag vouches for its own line, so
    that a write under way counts.
    """
    slice_ = operands[operand].slice
    writing = slices[slice_].writing
    if operands[operand].flag >= 0 and writing >= 0 and slices[slice_].writer < INITIAL:
        writer = writing
    else:
        whole = writing < 0 or writing == op or operands[operand].flag == LINE_BY_LINE
        writer = slices[slice_].writer if whole else TORN
    # ``seen`` starts as a number that no writer has.
    if operands[operand].seen < TORN:
        operands[operand].seen = writer
    elif operands[operand].seen != writer:
        operands[operand].seen = TORN


@kernel
def write_slice(slices: Records, operands: Records, ops: Records, operand: int, op: int) -> None:
    """Count a request of a write in; the last one makes the operation the slice's writer."""
    slice_ = operands[operand].slice
    if slices[slice_].writing != op:
        if ops[op].value > 0 and write_again(slices, operands, ops, operand, op):
            return
        # Two writes at once leave a mixture: neither of them ever counts as complete.
        slices[slice_].arrived = 0 if slices[slice_].writing < 0 else ops[op].lines + 1
        slices[slice_].writing = op
    slices[slice_].arrived += 1
    if slices[slice_].arrived == ops[op].lines:
        slices[slice_].writing = -1
        slices[slice_].writer = op


@kernel(inline=False)
def write_again(slices: Records, operands: Records, ops: Records, operand: int, op: int) -> bool:
    """Count in a request of a write of the same data as other writes, which have its ``value``.

    Returns whether the slice holds the data already, or another one of these writes is under way: the
    slice is written when one of them is complete.
    """
    slice_ = operands[operand].slice
    writing, writer = slices[slice_].writing, slices[slice_].writer
    if writing < 0:
        return bool(writer >= 0 and ops[writer].value == ops[op].value)
    if ops[writing].value != ops[op].value:
        return False
    operands[operand].seen -= 1
    if slices[slice_].arrived <= ops[op].lines and operands[operand].seen == NEVER_SEEN - ops[op].lines:
        slices[slice_].writing = -1
        slices[slice_].writer = op
    return True
