"""The RETURN event: a response or acknowledgement is back at its SM."""

from __future__ import annotations

from typing import Final

from astranb.core.jit import Records, kernel

from .block import acknowledge, finish_op
from .sm import free_slot, make_ready, release
from .tables import IN_VAIN, LOAD, MOVING, POLL, SIGNAL, SWITCH_WRITES, WAITING, Machine
from .tile import arrive

__all__ = ["come_back", "no_wait_ends"]

_SEARCH_PS: Final = 1_000_000  # between two searches for a deadlock among blocks that spin


@kernel
def come_back(m: Machine, request: int) -> int:
    """Hand a response to the warp that waits for it.

    Returns
    -------
    int
        1 if this read found in vain what it waits for, and nothing is left that could
        bring it about (a deadlock), else 0.
    """
    clock = m.clock[0]
    warp = m.requests[request].warp
    block = m.warps[warp].block
    sm = m.blocks[block].sm
    op = m.requests[request].op
    kind = m.requests[request].kind
    in_vain = m.requests[request].returning == IN_VAIN
    if kind == LOAD:
        if in_vain:
            m.blocks[block].polls += 1
            retry(m, request, warp, sm)
            return stuck(m)
        if m.ops[op].spins == 2 and flag_only(m, request):
            retry(m, request, warp, sm)
            return 0
        job = m.requests[request].job
        release(m, request)
        if job < 0:
            arrive(m, warp, op)
            return 0
        free_slot(m, sm)
        m.jobs[job].pending -= 1
        if m.jobs[job].pending == 0:
            m.jobs[job].next = -1
            if m.warps[warp].ready_head < 0:
                m.warps[warp].ready_head = job
            else:
                m.jobs[m.warps[warp].ready_tail].next = job
            m.warps[warp].ready_tail = job
            make_ready(m, warp, sm)
        return 0
    release(m, request)
    free_slot(m, sm)
    if kind == POLL:
        if not in_vain:
            m.ops[op].issued_ps = clock.now_ps
            finish_op(m, op)
            m.blocks[block].op += 1
            clock.resumes = block
            return 0
        m.blocks[block].polls += 1
        make_ready(m, warp, sm)
        return stuck(m)
    needed = 1
    if kind != SIGNAL:
        targets = 1 if m.ops[op].in_switch & SWITCH_WRITES else m.ops[op].targets
        needed = m.ops[op].lines * targets
    acknowledge(m, block, op, needed)
    return 0


@kernel
def flag_only(m: Machine, request: int) -> bool:
    """Return whether a load has found its packet of LL128 and is to be issued once more for its data.

    As NCCL does (``recvReduceSendCopy`` of src/device/prims_ll128.h): the flag may come before the rest.
    """
    if m.details[request].found or m.operands[m.requests[request].operand].flag < 0:
        return False
    m.details[request].found = 1
    return True


@kernel
def retry(m: Machine, request: int, warp: int, sm: int) -> None:
    """A load is issued again, of a packet that was not there yet. It gives its slot back meanwhile."""
    m.requests[request].next_free = -1
    if m.warps[warp].retry_head < 0:
        m.warps[warp].retry_head = request
    else:
        m.requests[m.warps[warp].retry_tail].next_free = request
    m.warps[warp].retry_tail = request
    free_slot(m, sm)
    make_ready(m, warp, sm)


@kernel(inline=False)
def stuck(m: Machine) -> int:
    """Return whether nothing can ever happen again: asked at a read in vain, when no store is under way.

    ``busy`` counts what can go on by itself. Blocks that spin on packets are among it, so
    that where some do all of them are looked at, at most once a microsecond.
    """
    clock = m.clock[0]
    if clock.busy > clock.spinners:
        return 0
    if clock.spinners > 0:
        if clock.now_ps < clock.searched_ps + _SEARCH_PS:
            return 0
        clock.searched_ps = clock.now_ps
        if spinning_helps(m):
            return 0
    return 1 if no_wait_ends(m.blocks, m.ops, m.semaphores) else 0


@kernel
def no_wait_ends(blocks: Records, ops: Records, semaphores: Records) -> bool:
    """Return whether no waiting block's semaphore has reached its value (asked when all others are done)."""
    for block in range(len(blocks)):
        if blocks[block].state == WAITING:
            op = blocks[block].op
            if semaphores[ops[op].semaphore].value >= ops[op].value:
                return False
    return True


@kernel
def spinning_helps(m: Machine) -> bool:
    """Return whether a block that reads packets has anything to do but to read what is not there."""
    for request in range(len(m.requests)):
        if m.requests[request].live and m.requests[request].kind == LOAD:
            flag = m.operands[m.requests[request].operand].flag
            if flag < 0 or m.flags[flag + m.details[request].index] == 1:
                return True
    for block in range(len(m.blocks)):
        if m.blocks[block].state != MOVING:
            continue
        first = m.blocks[block].first_warp
        for warp in range(first, first + m.blocks[block].warps):
            more = m.warps[warp].free_job >= 0 and m.warps[warp].next_line < m.ops[m.warps[warp].op].lines
            if m.warps[warp].ready_head >= 0 or m.warps[warp].loading >= 0 or more:
                return True
    return False
