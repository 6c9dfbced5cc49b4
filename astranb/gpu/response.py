"""The RETURN event: a response or acknowledgement is back at its SM."""

from __future__ import annotations

from astranb.core.jit import Records, kernel

from .block import acknowledge, begin, finish_op
from .sm import make_ready, release
from .tables import LOAD, POLL, SIGNAL, WAITING

__all__ = ["come_back", "hopeless"]


@kernel
def come_back(
    clock: Records,
    heap: Records,
    gpus: Records,
    sms: Records,
    blocks: Records,
    warps: Records,
    jobs: Records,
    ops: Records,
    phases: Records,
    semaphores: Records,
    requests: Records,
    request: int,
) -> int:
    """Hand a response to the warp that waits for it.

    Returns
    -------
    int
        1 if this was a poll in vain and nothing is left that could raise any semaphore
        that is waited for (a deadlock), else 0.
    """
    warp = requests[request].warp
    block = warps[warp].block
    sm = blocks[block].sm
    op = requests[request].op
    kind = requests[request].kind
    release(clock, heap, sms, requests, sm, request)
    if kind == LOAD:
        job = requests[request].job
        jobs[job].pending -= 1
        if jobs[job].pending == 0:
            jobs[job].next = -1
            if warps[warp].ready_head < 0:
                warps[warp].ready_head = job
            else:
                jobs[warps[warp].ready_tail].next = job
            warps[warp].ready_tail = job
            make_ready(clock, heap, sms, warps, warp, sm)
        return 0
    if kind == POLL:
        if requests[request].seen >= ops[op].value:
            ops[op].issued_ps = clock[0].now_ps
            finish_op(clock, ops, phases, op)
            blocks[block].op += 1
            begin(clock, heap, gpus, sms, blocks, warps, ops, phases, block)
            return 0
        blocks[block].polls += 1
        make_ready(clock, heap, sms, warps, warp, sm)
        return 1 if clock[0].busy == 0 and hopeless(blocks, ops, semaphores) else 0
    needed = 1 if kind == SIGNAL else ops[op].lines * ops[op].targets
    acknowledge(clock, heap, gpus, sms, blocks, warps, ops, phases, block, op, needed)
    return 0


@kernel
def hopeless(blocks: Records, ops: Records, semaphores: Records) -> bool:
    """Whether no waiting block's semaphore has reached its value (asked when all others are done)."""
    for block in range(len(blocks)):
        if blocks[block].state == WAITING:
            op = blocks[block].op
            if semaphores[ops[op].semaphore].value >= ops[op].value:
                return False
    return True
