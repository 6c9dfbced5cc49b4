"""The ISSUE event: an SM issues one instruction of its first ready warp."""

from __future__ import annotations

from astranb.core.jit import kernel

from . import tables as t
from .block import acknowledge, finish_op, posted, raise_shared, run_ahead, start_op, stop_spinning
from .sm import has_slot, issue_gap_ps, make_ready, wake
from .tables import Machine
from .tile import fetch
from .travel import depart, prepare

__all__ = ["issue", "leave"]


@kernel
def issue(m: Machine, sm: int) -> int:
    """Issue one instruction, unless every outstanding slot of the SM is taken.

    Of a move, reductions and stores of a line that is there go before loads; then come
    loads that found no packet, and last loads of new lines.

    Returns
    -------
    int
        1 if an instruction was issued, 0 if the SM stalled.
    """
    clock = m.clock[0]
    m.sms[sm].scheduled = 0
    warp = m.sms[sm].ready_head
    block = m.warps[warp].block
    op = m.blocks[block].op
    what = m.ops[op].kind
    # What a tile loads has room in shared memory, and takes no registers.
    if what != t.TILE and not has_slot(m.gpus, m.sms, sm):
        m.sms[sm].stalled = 1
        m.sms[sm].stalled_since_ps = clock.now_ps
        return 0
    m.sms[sm].ready_head = m.warps[warp].next_ready
    m.warps[warp].queued = 0
    m.sms[sm].issued += 1
    clock.instructions += 1
    m.sms[sm].next_issue_ps = clock.now_ps + issue_gap_ps(m, sm, op)
    kind = -1  # of the request, where there is one
    job = -1
    operand = m.ops[op].first_source
    index = 0
    in_switch = 0
    request = -1
    again = 0  # 1: the warp has more to issue
    ends = 0  # 1: the operation has issued its last instruction
    if what == t.MOVE:
        job = m.warps[warp].ready_head
        if job < 0 and m.ops[m.warps[warp].op].sources == 0:
            job = take_line(m, block, warp, 0)  # what it stores is in registers
            m.jobs[job].next = -1
            m.warps[warp].ready_head = job
            m.warps[warp].ready_tail = job
        if job >= 0:
            op = m.jobs[job].op
            in_switch = 1 if m.ops[op].in_switch & t.SWITCH_WRITES else 0
            stores = 1 if in_switch else m.ops[op].targets
            reductions = 0 if m.ops[op].in_switch & t.SWITCH_READS else max(0, m.ops[op].sources - 1)
            step = m.jobs[job].step
            m.jobs[job].step = step + 1
            if step >= reductions:
                kind = t.STORE
                operand = m.ops[op].first_target + step - reductions
                index = m.jobs[job].line
            if step + 1 == reductions + stores:
                m.warps[warp].ready_head = m.jobs[job].next
                m.jobs[job].next = m.warps[warp].free_job
                m.warps[warp].free_job = job
                m.warps[warp].under_way -= 1
                m.ops[op].left -= 1
                ends = 1 if m.ops[op].left == 0 else 0
                run_ahead(m.blocks, m.warps, m.ops, block, warp)
        elif m.warps[warp].retry_head >= 0:
            request = m.warps[warp].retry_head
            m.warps[warp].retry_head = m.requests[request].next_free
        else:
            job = m.warps[warp].loading
            op = m.warps[warp].op if job < 0 else m.jobs[job].op
            in_switch = 1 if m.ops[op].in_switch & t.SWITCH_READS else 0
            reads = 1 if in_switch else m.ops[op].sources
            if job < 0:
                job = take_line(m, block, warp, reads)
                m.warps[warp].loading = job
            kind = t.LOAD
            operand = m.ops[op].first_source + m.jobs[job].step
            index = m.jobs[job].line
            m.jobs[job].step += 1
            if m.jobs[job].step == reads:
                m.jobs[job].step = 0
                m.warps[warp].loading = -1
        again = (
            m.warps[warp].ready_head >= 0
            or m.warps[warp].retry_head >= 0
            or m.warps[warp].loading >= 0
            or (m.warps[warp].free_job >= 0 and m.warps[warp].next_line < m.ops[m.warps[warp].op].lines)
        )
    elif what == t.WAIT:
        kind = t.POLL  # the warp is not ready again until the poll is back
    elif what == t.COMPUTE:
        m.warps[warp].next_line -= 1
        m.ops[op].left -= 1
        again = m.warps[warp].next_line > 0
        ends = 1 if m.ops[op].left == 0 else 0
    elif what == t.TILE:
        kind = t.LOAD
        operand, index, again = fetch(m, warp, op)
    elif what == t.NOTIFY:
        ends = 1
        if m.semaphores[m.ops[op].semaphore].line == t.IN_SHARED:
            raise_shared(m, block, op)
        else:
            kind = t.SIGNAL
            operand = m.ops[op].first_target
    if kind >= 0:
        request = prepare(m, kind, m.sms[sm].gpu, warp, job, op, operand, index, in_switch)
    if request >= 0:
        depart(m, request, sm, between_packets_ps(m, block, op, index) if kind == t.LOAD else 0)
    if what == t.TILE:
        m.sms[sm].outstanding -= 1
    if kind == t.STORE or kind == t.SIGNAL:
        m.blocks[block].unacked += 1
        clock.busy += 1
    if ends:
        stop_spinning(m, op)
        m.ops[op].issued_ps = clock.now_ps
        if what == t.COMPUTE:
            finish_op(m, op)
        if op == m.blocks[block].op:
            m.blocks[block].op += 1
            clock.resumes = block
    if again:
        make_ready(m, warp, sm)
    wake(m, sm)
    return 1


@kernel
def leave(m: Machine, block: int) -> int:
    """The POST event: a signal leaves behind the stores that it announces, while its block goes on.

    What sends it is not among the block's warps, and takes no issue slot of theirs: a warp that only posts.

    Returns
    -------
    int
        The signal.
    """
    op = posted(m, block)
    if m.semaphores[m.ops[op].semaphore].line == t.IN_SHARED:
        raise_shared(m, block, op)
        acknowledge(m, block, op, 0)
        return op
    gpu = m.blocks[block].gpu
    request = prepare(m, t.SIGNAL, gpu, m.blocks[block].first_warp, -1, op, m.ops[op].first_target, 0, 0)
    depart(m, request, m.blocks[block].sm, 0)
    return op


@kernel
def between_packets_ps(m: Machine, block: int, op: int, line: int) -> int:
    """Time that a warp computes before the loads of an access of LL packets; 0 for a move's first one."""
    gpu = m.blocks[block].gpu
    first = m.gpus[gpu].packet_ps == 0 or line < m.blocks[block].warps * m.gpus[gpu].access_lines
    return 0 if first or 2 * m.ops[op].payload > m.gpus[gpu].line_bytes else int(m.gpus[gpu].packet_ps)


@kernel
def take_line(m: Machine, block: int, warp: int, reads: int) -> int:
    """Begin the next line of a warp's move; returns its job."""
    op = m.warps[warp].op
    start_op(m, op)
    job = m.warps[warp].free_job
    m.warps[warp].free_job = m.jobs[job].next
    m.jobs[job].op = op
    m.jobs[job].line = m.warps[warp].next_line
    m.jobs[job].step = 0
    m.jobs[job].pending = reads
    m.warps[warp].next_line += m.blocks[block].warps
    m.warps[warp].under_way += 1
    run_ahead(m.blocks, m.warps, m.ops, block, warp)
    return int(job)
