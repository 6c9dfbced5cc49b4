"""The ISSUE event: an SM issues one instruction of its first ready warp."""

from __future__ import annotations

from astranb.core.jit import Records, kernel

from .block import begin, finish_op
from .sm import has_slot, issue_gap_ps, make_ready, wake
from .tables import COMPUTE, LOAD, MOVE, POLL, SIGNAL, STORE, SWITCH_READS, SWITCH_WRITES, WAIT
from .travel import depart, send

__all__ = ["issue"]


@kernel
def issue(
    clock: Records, heap: Records, gpus: Records, sms: Records, blocks: Records, warps: Records,
    jobs: Records, ops: Records, operands: Records, phases: Records, links: Records, ways: Records,
    route: Records, planes: Records, requests: Records, sm: int,
) -> int:  # fmt: skip
    """Issue one instruction, unless every outstanding slot of the SM is taken.

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
    sms[sm].next_issue_ps = clock[0].now_ps + issue_gap_ps(gpus, sms, sm)
    sms[sm].issued += 1
    clock[0].instructions += 1
    block = warps[warp].block
    op = blocks[block].op
    kind = ops[op].kind
    if kind == MOVE:
        move(
            clock, heap, gpus, sms, blocks, warps, jobs, ops, operands, phases, links, ways, route, planes,
            requests, sm, warp, op,
        )  # fmt: skip
    elif kind == WAIT:
        # Not ready again until the poll is back.
        source = ops[op].first_source
        send(
            clock, heap, gpus, sms, warps, links, ops, operands, ways, route, planes, requests, POLL, sm,
            warp, -1, op, source, 0, 0,
        )  # fmt: skip
    elif kind == COMPUTE:
        warps[warp].next_line -= 1
        blocks[block].lines_left -= 1
        if warps[warp].next_line > 0:
            make_ready(clock, heap, sms, warps, warp, sm)
        if blocks[block].lines_left == 0:
            ops[op].issued_ps = clock[0].now_ps
            finish_op(clock, ops, phases, op)
            blocks[block].op += 1
            begin(clock, heap, gpus, sms, blocks, warps, ops, phases, block)
    else:
        blocks[block].unacked += 1
        clock[0].busy += 1
        ops[op].issued_ps = clock[0].now_ps
        target = ops[op].first_target
        send(
            clock, heap, gpus, sms, warps, links, ops, operands, ways, route, planes, requests, SIGNAL, sm,
            warp, -1, op, target, 0, 0,
        )  # fmt: skip
        blocks[block].op += 1
        begin(clock, heap, gpus, sms, blocks, warps, ops, phases, block)
    wake(clock, heap, sms, sm)
    return 1


@kernel
def move(
    clock: Records, heap: Records, gpus: Records, sms: Records, blocks: Records, warps: Records,
    jobs: Records, ops: Records, operands: Records, phases: Records, links: Records, ways: Records,
    route: Records, planes: Records, requests: Records, sm: int, warp: int, op: int,
) -> None:  # fmt: skip
    """One instruction of a move: reductions and stores of a line that is there go before new loads.

    Then come loads that found no packet, and last loads of new lines.
    """
    block = warps[warp].block
    job = warps[warp].ready_head
    if job >= 0:
        in_switch = 1 if ops[op].in_switch & SWITCH_WRITES else 0
        stores = 1 if in_switch else ops[op].targets
        reductions = 0 if ops[op].in_switch & SWITCH_READS else ops[op].sources - 1
        step = jobs[job].step
        jobs[job].step = step + 1
        if step >= reductions:
            blocks[block].unacked += 1
            clock[0].busy += 1
            target = ops[op].first_target + step - reductions
            send(
                clock, heap, gpus, sms, warps, links, ops, operands, ways, route, planes, requests, STORE,
                sm, warp, job, op, target, jobs[job].line, in_switch,
            )  # fmt: skip
        if step + 1 == reductions + stores:
            warps[warp].ready_head = jobs[job].next
            jobs[job].next = warps[warp].free_job
            warps[warp].free_job = job
            blocks[block].lines_left -= 1
            if blocks[block].lines_left == 0:
                clock[0].spinners -= ops[op].spins
                ops[op].issued_ps = clock[0].now_ps
                blocks[block].op += 1
                begin(clock, heap, gpus, sms, blocks, warps, ops, phases, block)
                return
    elif warps[warp].retry_head >= 0:
        request = warps[warp].retry_head
        warps[warp].retry_head = requests[request].next_free
        way = requests[request].way
        requests[request].hop = 0 if way < 0 else ways[way].first
        requests[request].last_hop = 0 if way < 0 else ways[way].last
        requests[request].issued_ps = clock[0].now_ps
        depart(clock, heap, gpus, sms, links, route, requests, request)
    else:
        load(
            clock, heap, gpus, sms, blocks, warps, jobs, ops, operands, links, ways, route, planes, requests,
            sm, warp, op,
        )  # fmt: skip
    if (
        warps[warp].ready_head >= 0
        or warps[warp].retry_head >= 0
        or warps[warp].loading >= 0
        or (warps[warp].free_job >= 0 and warps[warp].next_line < ops[op].lines)
    ):
        make_ready(clock, heap, sms, warps, warp, sm)


@kernel
def load(
    clock: Records, heap: Records, gpus: Records, sms: Records, blocks: Records, warps: Records,
    jobs: Records, ops: Records, operands: Records, links: Records, ways: Records, route: Records,
    planes: Records, requests: Records, sm: int, warp: int, op: int,
) -> None:  # fmt: skip
    """Load the next source of a line, or the first of a new line."""
    in_switch = 1 if ops[op].in_switch & SWITCH_READS else 0
    reads = 1 if in_switch else ops[op].sources
    job = warps[warp].loading
    if job < 0:
        job = warps[warp].free_job
        warps[warp].free_job = jobs[job].next
        jobs[job].line = warps[warp].next_line
        jobs[job].step = 0
        jobs[job].pending = reads
        warps[warp].next_line += blocks[warps[warp].block].warps
        warps[warp].loading = job
    source = ops[op].first_source + jobs[job].step
    jobs[job].step += 1
    if jobs[job].step == reads:
        jobs[job].step = 0
        warps[warp].loading = -1
    send(
        clock, heap, gpus, sms, warps, links, ops, operands, ways, route, planes, requests, LOAD, sm, warp,
        job, op, source, jobs[job].line, in_switch,
    )  # fmt: skip
