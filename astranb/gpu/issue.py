"""The ISSUE event: an SM issues one instruction of its first ready warp."""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import Agenda

from .block import finish_op, run_ahead, start_op, stop_spinning
from .sm import has_slot, issue_gap_ps, make_ready, wake
from .tables import COMPUTE, LOAD, MOVE, NOTIFY, POLL, SIGNAL, STORE, SWITCH_READS, SWITCH_WRITES, WAIT
from .travel import depart, prepare

__all__ = ["issue"]


@kernel
def issue(
    clock: Records, agenda: Agenda, gpus: Records, sms: Records, blocks: Records, warps: Records,
    jobs: Records, ops: Records, operands: Records, phases: Records, links: Records, ways: Records,
    route: Records, planes: Records, requests: Records, details: Records, sm: int,
) -> int:  # fmt: skip
    """Issue one instruction, unless every outstanding slot of the SM is taken.

    Of a move, reductions and stores of a line that is there go before loads; then come
    loads that found no packet, and last loads of new lines.

    Returns
    -------
    int
        1 if an instruction was issued, 0 if the SM stalled.
    """
    sms[sm].scheduled = 0
    if not has_slot(gpus, sms, sm):
        sms[sm].stalled = 1
        sms[sm].stalled_since_ps = clock[0].now_ps
        return 0
    warp = sms[sm].ready_head
    sms[sm].ready_head = warps[warp].next_ready
    warps[warp].queued = 0
    sms[sm].issued += 1
    clock[0].instructions += 1
    block = warps[warp].block
    op = blocks[block].op
    what = ops[op].kind
    sms[sm].next_issue_ps = clock[0].now_ps + issue_gap_ps(gpus, sms, sm, what)
    kind = -1  # of the request, where there is one
    job = -1
    operand = ops[op].first_source
    index = 0
    in_switch = 0
    request = -1
    again = 0  # 1: the warp has more to issue
    ends = 0  # 1: the operation has issued its last instruction
    if what == MOVE:
        job = warps[warp].ready_head
        if job >= 0:
            op = jobs[job].op
            in_switch = 1 if ops[op].in_switch & SWITCH_WRITES else 0
            stores = 1 if in_switch else ops[op].targets
            reductions = 0 if ops[op].in_switch & SWITCH_READS else ops[op].sources - 1
            step = jobs[job].step
            jobs[job].step = step + 1
            if step >= reductions:
                kind = STORE
                operand = ops[op].first_target + step - reductions
                index = jobs[job].line
            if step + 1 == reductions + stores:
                warps[warp].ready_head = jobs[job].next
                jobs[job].next = warps[warp].free_job
                warps[warp].free_job = job
                warps[warp].under_way -= 1
                ops[op].left -= 1
                ends = 1 if ops[op].left == 0 else 0
                run_ahead(blocks, warps, ops, block, warp)
        elif warps[warp].retry_head >= 0:
            request = warps[warp].retry_head
            warps[warp].retry_head = requests[request].next_free
        else:
            job = warps[warp].loading
            op = warps[warp].op if job < 0 else jobs[job].op
            in_switch = 1 if ops[op].in_switch & SWITCH_READS else 0
            reads = 1 if in_switch else ops[op].sources
            if job < 0:
                start_op(clock, blocks, ops, phases, op)
                job = warps[warp].free_job
                warps[warp].free_job = jobs[job].next
                jobs[job].op = op
                jobs[job].line = warps[warp].next_line
                jobs[job].step = 0
                jobs[job].pending = reads
                warps[warp].next_line += blocks[block].warps
                warps[warp].loading = job
                warps[warp].under_way += 1
                run_ahead(blocks, warps, ops, block, warp)
            kind = LOAD
            operand = ops[op].first_source + jobs[job].step
            index = jobs[job].line
            jobs[job].step += 1
            if jobs[job].step == reads:
                jobs[job].step = 0
                warps[warp].loading = -1
        again = (
            warps[warp].ready_head >= 0
            or warps[warp].retry_head >= 0
            or warps[warp].loading >= 0
            or (warps[warp].free_job >= 0 and warps[warp].next_line < ops[warps[warp].op].lines)
        )
    elif what == WAIT:
        kind = POLL  # the warp is not ready again until the poll is back
    elif what == COMPUTE:
        warps[warp].next_line -= 1
        ops[op].left -= 1
        again = warps[warp].next_line > 0
        ends = 1 if ops[op].left == 0 else 0
    elif what == NOTIFY:
        kind = SIGNAL
        operand = ops[op].first_target
        ends = 1
    if kind >= 0:
        request = prepare(
            clock, gpus, ops, operands, requests, details, kind, sms[sm].gpu, warp, job, op, operand, index,
            in_switch,
        )  # fmt: skip
    if request >= 0:
        depart(
            clock, agenda, gpus, sms, warps, operands, links, ways, route, planes, requests, details, request,
            sm,
        )  # fmt: skip
    if kind == STORE or kind == SIGNAL:
        blocks[block].unacked += 1
        clock[0].busy += 1
    if ends:
        stop_spinning(clock, blocks, ops, op)
        ops[op].issued_ps = clock[0].now_ps
        if what == COMPUTE:
            finish_op(clock, ops, phases, op)
        if op == blocks[block].op:
            blocks[block].op += 1
            clock[0].resumes = block
    if again:
        make_ready(clock, agenda, sms, warps, warp, sm)
    wake(clock, agenda, sms, sm)
    return 1
