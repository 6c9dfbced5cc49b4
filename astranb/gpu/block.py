"""Thread blocks: which operation a block is at, and when it may go on."""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import Agenda, schedule

from .sm import make_ready
from .tables import (
    COMPUTE,
    DONE,
    DRAINING,
    FENCE,
    FLUSH,
    LAUNCH,
    MOVE,
    MOVING,
    RELEASE,
    SIGNALLING,
    SPEND,
    SYSTEM_WIDE,
    WAIT,
    WAITING,
)

__all__ = [
    "acknowledge",
    "begin",
    "enter",
    "finish_op",
    "launch",
    "pass_fence",
    "run_ahead",
    "start_op",
    "stop_spinning",
]


@kernel
def enter(clock: Records, sms: Records, blocks: Records, block: int, state: int) -> None:
    """Change a block's state and book the time that it spent in the old one."""
    now_ps = clock[0].now_ps
    old = blocks[block].state
    spent_ps = now_ps - blocks[block].since_ps
    if old == MOVING:
        blocks[block].moving_ps += spent_ps
    elif old == SIGNALLING:
        blocks[block].signalling_ps += spent_ps
    elif old == WAITING:
        blocks[block].waiting_ps += spent_ps
        sms[blocks[block].sm].waiting -= 1
        clock[0].busy += 1
    elif old == DRAINING:
        blocks[block].draining_ps += spent_ps
    if state == WAITING:
        sms[blocks[block].sm].waiting += 1
    if state == WAITING or state == DONE:
        clock[0].busy -= 1
    blocks[block].state = state
    blocks[block].since_ps = now_ps


@kernel
def start_op(clock: Records, blocks: Records, ops: Records, phases: Records, op: int) -> None:
    """Something of an operation is done for the first time."""
    if ops[op].started_ps >= 0:
        return
    ops[op].started_ps = clock[0].now_ps
    if phases[ops[op].phase].started_ps < 0:
        phases[ops[op].phase].started_ps = clock[0].now_ps
    if ops[op].spins:
        block = ops[op].block
        blocks[block].spinning += 1
        if blocks[block].spinning == 1:
            clock[0].spinners += 1


@kernel
def stop_spinning(clock: Records, blocks: Records, ops: Records, op: int) -> None:
    """An operation that reads packets has issued its last instruction."""
    if ops[op].spins:
        block = ops[op].block
        blocks[block].spinning -= 1
        if blocks[block].spinning == 0:
            clock[0].spinners -= 1


@kernel
def run_ahead(blocks: Records, warps: Records, ops: Records, block: int, warp: int) -> None:
    """Let a warp that has begun all its lines of a move go on to the moves after it.

    Warps of a block are not in step, and moves that do not depend on each other are one
    loop over all their lines (``ahead``, ``before``); signals, waits and fences end it. A warp
    that reads packets goes on only when all of its own have come: it spins until then.
    """
    op = warps[warp].op
    while warps[warp].next_line >= ops[op].lines and op + 1 < blocks[block].last_op and ops[op + 1].ahead:
        if ops[op].spins and warps[warp].under_way > 0:
            return
        op += 1
        warps[warp].op = op
        number = warp - blocks[block].first_warp - ops[op].before % blocks[block].warps
        warps[warp].next_line = number if number >= 0 else number + blocks[block].warps


@kernel
def finish_op(clock: Records, ops: Records, phases: Records, op: int) -> None:
    """An operation has taken effect; the last one of a phase completes the phase."""
    ops[op].ended_ps = clock[0].now_ps
    phase = ops[op].phase
    phases[phase].left -= 1
    if phases[phase].left == 0:
        phases[phase].ended_ps = clock[0].now_ps
        clock[0].phases += 1


@kernel
def begin(
    clock: Records,
    agenda: Agenda,
    gpus: Records,
    sms: Records,
    blocks: Records,
    warps: Records,
    ops: Records,
    phases: Records,
    block: int,
) -> None:
    """Start the operation that a block is at, passing those that have nothing to do.

    Events that let a block go on leave its number in ``clock.resumes``, and the loop calls
    this: one place instead of six keeps the machine code small.
    """
    sm = blocks[block].sm
    gpu = blocks[block].gpu
    first_warp = blocks[block].first_warp
    while True:
        op = blocks[block].op
        at_end = op == blocks[block].last_op
        if at_end or ops[op].fence:
            if blocks[block].unacked > 0:
                if blocks[block].state != DRAINING:
                    enter(clock, sms, blocks, block, DRAINING)
                return
            if at_end:
                end(clock, agenda, gpus, sms, blocks, block)
                return
            if ops[op].fence & SYSTEM_WIDE and gpus[gpu].fence_ps > 0 and blocks[block].fenced == 0:
                enter(clock, sms, blocks, block, DRAINING)
                blocks[block].fenced = 1
                schedule(clock, agenda, clock[0].now_ps + gpus[gpu].fence_ps, FENCE, block)
                return
        passed = blocks[block].fenced == 2
        blocks[block].fenced = 0
        start_op(clock, blocks, ops, phases, op)
        kind = ops[op].kind
        if kind == SPEND and not passed:
            enter(clock, sms, blocks, block, MOVING)
            blocks[block].fenced = 1
            schedule(clock, agenda, clock[0].now_ps + ops[op].left, FENCE, block)
            return
        if kind == SPEND or kind == RELEASE:
            if kind == RELEASE:
                release(clock, agenda, blocks, ops[op].value)
            ops[op].left = 0
            ops[op].issued_ps = clock[0].now_ps
            finish_op(clock, ops, phases, op)
            blocks[block].op += 1
            continue
        if kind == MOVE and ops[op].ahead == 0:
            for warp in range(first_warp, first_warp + blocks[block].warps):
                warps[warp].op = op
                warps[warp].next_line = warp - first_warp
                run_ahead(blocks, warps, ops, block, warp)
                if warps[warp].next_line < ops[warps[warp].op].lines:
                    make_ready(clock, agenda, sms, warps, warp, sm)
        if kind == FLUSH or (kind == MOVE and ops[op].left == 0):
            if ops[op].lines == 0:
                ops[op].issued_ps = clock[0].now_ps
                stop_spinning(clock, blocks, ops, op)
                finish_op(clock, ops, phases, op)
            blocks[block].op += 1
            continue
        if kind == MOVE:
            enter(clock, sms, blocks, block, MOVING)
            return
        if kind == COMPUTE:
            ops[op].left = ops[op].value * blocks[block].warps
            enter(clock, sms, blocks, block, MOVING)
            for warp in range(blocks[block].warps):
                warps[first_warp + warp].next_line = ops[op].value
                make_ready(clock, agenda, sms, warps, first_warp + warp, sm)
            return
        # Warp zero alone issues control requests.
        enter(clock, sms, blocks, block, WAITING if kind == WAIT else SIGNALLING)
        make_ready(clock, agenda, sms, warps, first_warp, sm)
        return


@kernel
def pass_fence(clock: Records, blocks: Records, block: int) -> None:
    """The FENCE event: the time of a system-wide fence is over."""
    blocks[block].fenced = 2
    clock[0].resumes = block


@kernel
def end(clock: Records, agenda: Agenda, gpus: Records, sms: Records, blocks: Records, block: int) -> None:
    """A block has ended: its place on the SM goes to the next pending block of the GPU."""
    gpu = blocks[block].gpu
    sm = blocks[block].sm
    enter(clock, sms, blocks, block, DONE)
    blocks[block].ended_ps = clock[0].now_ps
    clock[0].done += 1
    gpus[gpu].blocks_left -= 1
    if gpus[gpu].blocks_left == 0:
        gpus[gpu].ended_ps = clock[0].now_ps
    sms[sm].resident -= 1
    if sms[sm].engine:
        following = gpus[gpu].next_list
        if following >= gpus[gpu].last_list:
            return
        gpus[gpu].next_list += 1
    else:
        if sm - gpus[gpu].first_sm >= gpus[gpu].usable:
            return
        following = gpus[gpu].next_block
        if following >= gpus[gpu].last_block:
            return
        gpus[gpu].next_block += 1
    blocks[following].sm = sm
    sms[sm].resident += 1
    if blocks[following].after == 0:
        set_off(clock, agenda, blocks, following)


@kernel
def set_off(clock: Records, agenda: Agenda, blocks: Records, block: int) -> None:
    """A block that has its seat and waits for no other is launched."""
    clock[0].busy += 1
    schedule(clock, agenda, max(clock[0].now_ps, blocks[block].launch_ps), LAUNCH, block)


@kernel
def release(clock: Records, agenda: Agenda, blocks: Records, block: int) -> None:
    """One of the blocks that a block waits for has ended."""
    blocks[block].after -= 1
    if blocks[block].after == 0 and blocks[block].sm >= 0:
        set_off(clock, agenda, blocks, block)


@kernel
def launch(clock: Records, sms: Records, blocks: Records, block: int) -> None:
    """The LAUNCH event: a block begins on its SM."""
    blocks[block].since_ps = clock[0].now_ps
    blocks[block].started_ps = clock[0].now_ps
    enter(clock, sms, blocks, block, SIGNALLING)
    clock[0].resumes = block


@kernel
def acknowledge(
    clock: Records, blocks: Records, ops: Records, phases: Records, block: int, op: int, needed: int
) -> None:
    """A store or signal of a block is acknowledged; a fence may open, an operation end."""
    blocks[block].unacked -= 1
    clock[0].busy -= 1
    ops[op].acked += 1
    if ops[op].acked == needed:
        finish_op(clock, ops, phases, op)
    if blocks[block].unacked == 0 and blocks[block].state == DRAINING:
        clock[0].resumes = block
