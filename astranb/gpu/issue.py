"""The ISSUE event: an SM issues one instruction of its first ready warp."""

from __future__ import annotations

from astranb.core.jit import Records, kernel

from .block import begin
from .sm import make_ready, send, wake
from .tables import LOAD, MOVE, POLL, SIGNAL, STORE, WAIT

__all__ = ["issue"]


@kernel
def issue(
    clock: Records,
    heap: Records,
    gpus: Records,
    sms: Records,
    blocks: Records,
    warps: Records,
    jobs: Records,
    ops: Records,
    operands: Records,
    phases: Records,
    ways: Records,
    requests: Records,
    sm: int,
) -> int:
    """Issue one instruction, unless every outstanding slot of the SM is taken.

    Returns
    -------
    int
        1 if an instruction was issued, 0 if the SM stalled.
    """
    sms[sm].scheduled = 0
    gpu = sms[sm].gpu
    if sms[sm].outstanding >= gpus[gpu].max_outstanding:
        sms[sm].stalled = 1
        sms[sm].stalled_since_ps = clock[0].now_ps
        return 0
    warp = sms[sm].ready_head
    sms[sm].ready_head = warps[warp].next_ready
    warps[warp].queued = 0
    sms[sm].next_issue_ps = clock[0].now_ps + gpus[gpu].issue_ps
    sms[sm].issued += 1
    clock[0].instructions += 1
    block = warps[warp].block
    op = blocks[block].op
    kind = ops[op].kind
    if kind == MOVE:
        move(clock, heap, gpus, sms, blocks, warps, jobs, ops, operands, phases, ways, requests, sm, warp, op)
    elif kind == WAIT:
        # Not ready again until the poll is back.
        source = ops[op].first_source
        send(clock, heap, gpus, sms, ops, operands, ways, requests, POLL, sm, warp, -1, op, source, 0)
    else:
        blocks[block].unacked += 1
        clock[0].busy += 1
        ops[op].issued_ps = clock[0].now_ps
        target = ops[op].first_target
        send(clock, heap, gpus, sms, ops, operands, ways, requests, SIGNAL, sm, warp, -1, op, target, 0)
        blocks[block].op += 1
        begin(clock, heap, gpus, sms, blocks, warps, ops, phases, block)
    wake(clock, heap, sms, sm)
    return 1


@kernel
def move(
    clock: Records,
    heap: Records,
    gpus: Records,
    sms: Records,
    blocks: Records,
    warps: Records,
    jobs: Records,
    ops: Records,
    operands: Records,
    phases: Records,
    ways: Records,
    requests: Records,
    sm: int,
    warp: int,
    op: int,
) -> None:
    """One instruction of a move: reductions and stores of a line that is there go before new loads."""
    block = warps[warp].block
    job = warps[warp].ready_head
    if job >= 0:
        reductions = ops[op].sources - 1
        step = jobs[job].step
        jobs[job].step = step + 1
        if step >= reductions:
            blocks[block].unacked += 1
            clock[0].busy += 1
            target = ops[op].first_target + step - reductions
            line = jobs[job].line
            send(
                clock, heap, gpus, sms, ops, operands, ways, requests, STORE, sm, warp, job, op, target, line
            )
        if step + 1 == reductions + ops[op].targets:
            warps[warp].ready_head = jobs[job].next
            jobs[job].next = warps[warp].free_job
            warps[warp].free_job = job
            blocks[block].lines_left -= 1
            if blocks[block].lines_left == 0:
                ops[op].issued_ps = clock[0].now_ps
                blocks[block].op += 1
                begin(clock, heap, gpus, sms, blocks, warps, ops, phases, block)
                return
    else:
        job = warps[warp].loading
        if job < 0:
            job = warps[warp].free_job
            warps[warp].free_job = jobs[job].next
            jobs[job].line = warps[warp].next_line
            jobs[job].step = 0
            jobs[job].pending = ops[op].sources
            warps[warp].next_line += blocks[block].warps
            warps[warp].loading = job
        source = ops[op].first_source + jobs[job].step
        jobs[job].step += 1
        if jobs[job].step == ops[op].sources:
            jobs[job].step = 0
            warps[warp].loading = -1
        line = jobs[job].line
        send(clock, heap, gpus, sms, ops, operands, ways, requests, LOAD, sm, warp, job, op, source, line)
    if (
        warps[warp].ready_head >= 0
        or warps[warp].loading >= 0
        or (warps[warp].free_job >= 0 and warps[warp].next_line < ops[op].lines)
    ):
        make_ready(clock, heap, sms, warps, warp, sm)
