"""The RETURN event: a response or acknowledgement is back at its SM."""

from __future__ import annotations

from typing import Final

from astranb.core.jit import Records, kernel, kernel_apart
from astranb.core.queue import Agenda

from .block import acknowledge, finish_op
from .sm import free_slot, make_ready, release
from .tables import IN_VAIN, LOAD, MOVING, POLL, SIGNAL, SWITCH_WRITES, WAITING

__all__ = ["come_back", "hopeless"]

_SEARCH_PS: Final = 1_000_000  # between two searches for a deadlock among blocks that spin


@kernel
def come_back(
    clock: Records, agenda: Agenda, sms: Records, blocks: Records, warps: Records, jobs: Records,
    ops: Records, operands: Records, flags: Records, phases: Records, semaphores: Records,
    requests: Records, details: Records, request: int,
) -> int:  # fmt: skip
    """Hand a response to the warp that waits for it.

    Returns
    -------
    int
        1 if this read found in vain what it waits for, and nothing is left that could
        bring it about (a deadlock), else 0.
    """
    warp = requests[request].warp
    block = warps[warp].block
    sm = blocks[block].sm
    op = requests[request].op
    kind = requests[request].kind
    in_vain = requests[request].returning == IN_VAIN
    if kind == LOAD:
        if in_vain:
            blocks[block].polls += 1
            retry(clock, agenda, sms, warps, requests, request, warp, sm)
            return stuck(clock, blocks, warps, ops, operands, flags, semaphores, requests, details)
        job = requests[request].job
        release(clock, requests, request)
        free_slot(clock, agenda, sms, sm)
        jobs[job].pending -= 1
        if jobs[job].pending == 0:
            jobs[job].next = -1
            if warps[warp].ready_head < 0:
                warps[warp].ready_head = job
            else:
                jobs[warps[warp].ready_tail].next = job
            warps[warp].ready_tail = job
            make_ready(clock, agenda, sms, warps, warp, sm)
        return 0
    release(clock, requests, request)
    free_slot(clock, agenda, sms, sm)
    if kind == POLL:
        if not in_vain:
            ops[op].issued_ps = clock[0].now_ps
            finish_op(clock, ops, phases, op)
            blocks[block].op += 1
            clock[0].resumes = block
            return 0
        blocks[block].polls += 1
        make_ready(clock, agenda, sms, warps, warp, sm)
        return stuck(clock, blocks, warps, ops, operands, flags, semaphores, requests, details)
    needed = 1
    if kind != SIGNAL:
        targets = 1 if ops[op].in_switch & SWITCH_WRITES else ops[op].targets
        needed = ops[op].lines * targets
    acknowledge(clock, blocks, ops, phases, block, op, needed)
    return 0


@kernel
def retry(
    clock: Records, agenda: Agenda, sms: Records, warps: Records, requests: Records, request: int, warp: int,
    sm: int,
) -> None:  # fmt: skip
    """A packet was not there yet: its load is issued again. It gives its slot back meanwhile."""
    requests[request].next_free = -1
    if warps[warp].retry_head < 0:
        warps[warp].retry_head = request
    else:
        requests[warps[warp].retry_tail].next_free = request
    warps[warp].retry_tail = request
    free_slot(clock, agenda, sms, sm)
    make_ready(clock, agenda, sms, warps, warp, sm)


@kernel_apart
def stuck(
    clock: Records, blocks: Records, warps: Records, ops: Records, operands: Records,
    flags: Records, semaphores: Records, requests: Records, details: Records,
) -> int:  # fmt: skip
    """Whether nothing can ever happen again: asked at a read in vain, when no store is under way.

    ``busy`` counts what can go on by itself. Blocks that spin on packets are among it, so
    that where some do all of them are looked at, at most once a microsecond.
    """
    if clock[0].busy > clock[0].spinners:
        return 0
    if clock[0].spinners > 0:
        if clock[0].now_ps < clock[0].searched_ps + _SEARCH_PS:
            return 0
        clock[0].searched_ps = clock[0].now_ps
        if spinning_helps(blocks, warps, ops, operands, flags, requests, details):
            return 0
    return 1 if hopeless(blocks, ops, semaphores) else 0


@kernel
def hopeless(blocks: Records, ops: Records, semaphores: Records) -> bool:
    """Whether no waiting block's semaphore has reached its value (asked when all others are done)."""
    for block in range(len(blocks)):
        if blocks[block].state == WAITING:
            op = blocks[block].op
            if semaphores[ops[op].semaphore].value >= ops[op].value:
                return False
    return True


@kernel
def spinning_helps(
    blocks: Records,
    warps: Records,
    ops: Records,
    operands: Records,
    flags: Records,
    requests: Records,
    details: Records,
) -> bool:
    """Whether a block that reads packets has anything to do but to read what is not there."""
    for request in range(len(requests)):
        if requests[request].live and requests[request].kind == LOAD:
            flag = operands[requests[request].operand].flag
            if flag < 0 or flags[flag + details[request].index] == 1:
                return True
    for block in range(len(blocks)):
        if blocks[block].state != MOVING:
            continue
        first = blocks[block].first_warp
        for warp in range(first, first + blocks[block].warps):
            more = warps[warp].free_job >= 0 and warps[warp].next_line < ops[warps[warp].op].lines
            if warps[warp].ready_head >= 0 or warps[warp].loading >= 0 or more:
                return True
    return False
