"""Thread blocks: the current operation of each, and the conditions for going on."""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import schedule

from . import tables as t
from .sm import make_ready
from .tables import Machine
from .tile import finish_step, start_tile

__all__ = [
    "acknowledge",
    "begin",
    "enter",
    "finish_op",
    "launch",
    "pass_fence",
    "posted",
    "raise_shared",
    "run_ahead",
    "start_op",
    "stop_spinning",
]


@kernel
def enter(m: Machine, block: int, state: int) -> None:
    """Change a block's state and book the time that it spent in the old one."""
    clock = m.clock[0]
    now_ps = clock.now_ps
    old = m.blocks[block].state
    spent_ps = now_ps - m.blocks[block].since_ps
    if old == t.MOVING:
        m.blocks[block].moving_ps += spent_ps
    elif old == t.SIGNALLING:
        m.blocks[block].signalling_ps += spent_ps
    elif old == t.WAITING:
        m.blocks[block].waiting_ps += spent_ps
        m.sms[m.blocks[block].sm].waiting -= 1
        clock.busy += 1
    elif old == t.DRAINING:
        m.blocks[block].draining_ps += spent_ps
    if state == t.WAITING:
        m.sms[m.blocks[block].sm].waiting += 1
    if state == t.WAITING or state == t.DONE:
        clock.busy -= 1
    m.blocks[block].state = state
    m.blocks[block].since_ps = now_ps


@kernel
def start_op(m: Machine, op: int) -> None:
    """Something of an operation is done for the first time."""
    clock = m.clock[0]
    if m.ops[op].started_ps >= 0:
        return
    m.ops[op].started_ps = clock.now_ps
    if m.phases[m.ops[op].phase].started_ps < 0:
        m.phases[m.ops[op].phase].started_ps = clock.now_ps
    if m.ops[op].spins:
        block = m.ops[op].block
        m.blocks[block].spinning += 1
        if m.blocks[block].spinning == 1:
            clock.spinners += 1


@kernel
def stop_spinning(m: Machine, op: int) -> None:
    """An operation that reads packets has issued its last instruction."""
    if m.ops[op].spins:
        block = m.ops[op].block
        m.blocks[block].spinning -= 1
        if m.blocks[block].spinning == 0:
            m.clock[0].spinners -= 1


@kernel
def run_ahead(blocks: Records, warps: Records, ops: Records, block: int, warp: int) -> None:
    """Advance a warp that has issued all lines of a move to the moves after it.

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
def outstanding(ops: Records, op: int) -> bool:
    """Return whether a move for which an operation waits (``COUNTED``) is not complete."""
    last = op - ops[op].value
    for before in range(last - ops[op].before + 1, last + 1):
        if ops[before].kind == t.MOVE and ops[before].ended_ps < 0:
            return True
    return False


@kernel
def leaves_gpu(ops: Records, operands: Records, op: int) -> bool:
    """Return whether a move reads or writes the memory of another GPU."""
    if ops[op].lines == 0:
        return False
    for source in range(ops[op].first_source, ops[op].first_source + ops[op].sources):
        if operands[source].out_routes > 0:
            return True
    for target in range(ops[op].first_target, ops[op].first_target + ops[op].targets):
        if operands[target].out_routes > 0:
            return True
    return False


@kernel
def finish_op(m: Machine, op: int) -> None:
    """An operation has taken effect; the last one of a phase completes the phase."""
    clock = m.clock[0]
    m.ops[op].ended_ps = clock.now_ps
    if m.ops[op].kind == t.MOVE and leaves_gpu(m.ops, m.operands, op):
        clock.messages += 1
    phase = m.ops[op].phase
    m.phases[phase].left -= 1
    if m.phases[phase].left == 0:
        m.phases[phase].ended_ps = clock.now_ps
        clock.phases += 1


@kernel
def begin(m: Machine, block: int) -> None:
    """Start the operation that a block is at, passing those that have nothing to do.

    Events that let a block go on leave its number in ``clock.resumes``, and the loop calls
    this: one place instead of six keeps the machine code small.
    """
    clock = m.clock[0]
    sm = m.blocks[block].sm
    gpu = m.blocks[block].gpu
    first_warp = m.blocks[block].first_warp
    while True:
        op = m.blocks[block].op
        at_end = op == m.blocks[block].last_op
        if at_end or m.ops[op].fence:
            counted = not at_end and m.ops[op].fence == t.COUNTED
            if m.blocks[block].unacked > 0 and (not counted or outstanding(m.ops, op)):
                if m.blocks[block].state != t.DRAINING:
                    enter(m, block, t.DRAINING)
                return
            if at_end:
                end(m, block)
                return
            if m.ops[op].fence & t.SYSTEM_WIDE and m.gpus[gpu].fence_ps > 0 and m.blocks[block].fenced == 0:
                enter(m, block, t.DRAINING)
                m.blocks[block].fenced = 1
                schedule(m.event_queue, clock.now_ps + m.gpus[gpu].fence_ps, t.FENCE, block)
                return
        passed = m.blocks[block].fenced == 2
        m.blocks[block].fenced = 0
        start_op(m, op)
        kind = m.ops[op].kind
        if kind == t.NOTIFY and m.ops[op].before > 0:
            post(m, block, op)
            m.blocks[block].op += 1
            continue
        if kind == t.WAIT and m.semaphores[m.ops[op].semaphore].line == t.IN_SHARED:
            if not passed and m.semaphores[m.ops[op].semaphore].value < m.ops[op].value:
                enter(m, block, t.WAITING)  # until a role of its thread block wakes it
                return
            m.ops[op].issued_ps = clock.now_ps
            finish_op(m, op)
            m.blocks[block].op += 1
            continue
        if kind == t.SPEND and not passed:
            enter(m, block, t.MOVING)
            m.blocks[block].fenced = 1
            m.ops[op].acked = count_taken(m, gpu)
            schedule(m.event_queue, clock.now_ps + m.ops[op].left, t.FENCE, block)
            return
        if kind == t.TILE and not passed:
            enter(m, block, t.MOVING)
            start_tile(m, block, op)
            return
        if kind == t.SPEND or kind == t.RELEASE or kind == t.TILE:
            if kind == t.RELEASE:
                release(m, m.ops[op].value)
            m.ops[op].left = 0
            m.ops[op].issued_ps = clock.now_ps
            finish_op(m, op)
            m.blocks[block].op += 1
            continue
        if kind == t.MOVE and m.ops[op].ahead == 0:
            for warp in range(first_warp, first_warp + m.blocks[block].warps):
                m.warps[warp].op = op
                m.warps[warp].next_line = warp - first_warp
                run_ahead(m.blocks, m.warps, m.ops, block, warp)
                if m.warps[warp].next_line < m.ops[m.warps[warp].op].lines:
                    make_ready(m, warp, sm)
        if kind == t.FLUSH or (kind == t.MOVE and m.ops[op].left == 0):
            if m.ops[op].lines == 0:
                m.ops[op].issued_ps = clock.now_ps
                stop_spinning(m, op)
                finish_op(m, op)
            m.blocks[block].op += 1
            continue
        if kind == t.MOVE:
            enter(m, block, t.MOVING)
            return
        if kind == t.COMPUTE:
            m.ops[op].left = m.ops[op].value * m.blocks[block].warps
            enter(m, block, t.MOVING)
            for warp in range(m.blocks[block].warps):
                m.warps[first_warp + warp].next_line = m.ops[op].value
                make_ready(m, first_warp + warp, sm)
            return
        # Warp zero alone issues control requests.
        enter(m, block, t.WAITING if kind == t.WAIT else t.SIGNALLING)
        make_ready(m, first_warp, sm)
        return


@kernel
def pass_fence(m: Machine, block: int) -> None:
    """The t.FENCE event: the time of a system-wide fence is over, or that of a computation."""
    op = m.blocks[block].op
    if op < m.blocks[block].last_op and m.ops[op].kind == t.TILE and m.blocks[block].fenced == 0:
        finish_step(m, block, op)
        return
    if op < m.blocks[block].last_op and m.ops[op].kind == t.SPEND and m.ops[op].value == 1:
        taken_ps = count_taken(m, m.blocks[block].gpu) - m.ops[op].acked
        if taken_ps > 0:
            m.ops[op].acked += taken_ps
            schedule(m.event_queue, m.clock[0].now_ps + taken_ps, t.FENCE, block)
            return
    m.blocks[block].fenced = 2
    m.clock[0].resumes = block


@kernel
def post(m: Machine, block: int, op: int) -> None:
    """A block has reached a signal behind stores: it will leave when they are acknowledged."""
    m.blocks[block].unacked += 1
    m.clock[0].busy += 1
    if m.blocks[block].post < 0:
        m.blocks[block].post = op
    post_next(m, block)


@kernel
def post_next(m: Machine, block: int) -> None:
    """Queue the next signal behind stores of a block, if all of these stores are acknowledged.

    They leave in their order, one after another, as from a warp that does nothing else: each takes the
    time of a system-wide fence.
    """
    op = m.blocks[block].post
    if op < 0 or m.blocks[block].posting or m.ops[op].started_ps < 0 or m.blocks[block].posted >= t.POSTED:
        return
    for before in range(op - m.ops[op].before, op):
        if m.ops[before].kind == t.MOVE and m.ops[before].ended_ps < 0:
            return
    m.blocks[block].posting = 1
    schedule(m.event_queue, m.clock[0].now_ps + m.gpus[m.blocks[block].gpu].fence_ps, t.POST, block)


@kernel
def posted(m: Machine, block: int) -> int:
    """Take the signal behind stores that leaves now, and let the next one be queued."""
    op = m.blocks[block].post
    m.blocks[block].posting = 0
    m.blocks[block].post = -1
    for later in range(op + 1, m.blocks[block].op):
        if m.ops[later].kind == t.NOTIFY and m.ops[later].before > 0:
            m.blocks[block].post = later
            break
    if m.semaphores[m.ops[op].semaphore].line != t.IN_SHARED:
        m.blocks[block].posted += 1
    post_next(m, block)
    m.ops[op].issued_ps = m.clock[0].now_ps
    return int(op)


@kernel
def first_role(blocks: Records, block: int) -> int:
    """Return the first role of the thread block of a role: a block without roles is its own."""
    return int(block - blocks[block].role)


@kernel
def next_role(blocks: Records, block: int) -> int:
    """Return the next role of the same thread block, -1: none. They are in consecutive rows."""
    return block + 1 if block + 1 < len(blocks) and blocks[block + 1].role > 0 else -1


@kernel
def raise_shared(m: Machine, block: int, op: int) -> None:
    """Add to a semaphore in shared memory; roles that wait for it go on after ``WAKE_SLOTS``.

    About 22 clocks, as ``bar.sync`` of a warp takes on a V100 (Zhang et al., arXiv 2004.05371); taken for
    other GPUs too.
    """
    semaphore = m.ops[op].semaphore
    m.semaphores[semaphore].value += m.ops[op].value
    finish_op(m, op)
    role = first_role(m.blocks, block)
    while role >= 0:
        at = m.blocks[role].op
        waits = m.blocks[role].state == t.WAITING and m.blocks[role].fenced == 0
        if waits and m.ops[at].semaphore == semaphore and m.semaphores[semaphore].value >= m.ops[at].value:
            m.blocks[role].fenced = 1
            delay_ps = t.WAKE_SLOTS * m.gpus[m.blocks[role].gpu].issue_ps
            schedule(m.event_queue, m.clock[0].now_ps + delay_ps, t.FENCE, role)
        role = next_role(m.blocks, role)


@kernel
def end(m: Machine, block: int) -> None:
    """A block has ended: its place on the SM goes to the next pending block of the GPU."""
    clock = m.clock[0]
    gpu = m.blocks[block].gpu
    sm = m.blocks[block].sm
    enter(m, block, t.DONE)
    m.blocks[block].ended_ps = clock.now_ps
    clock.done += 1
    m.gpus[gpu].blocks_left -= 1
    if m.gpus[gpu].blocks_left == 0:
        m.gpus[gpu].ended_ps = clock.now_ps
    first = first_role(m.blocks, block)
    m.blocks[first].roles -= 1
    if m.blocks[first].roles > 0 or (m.blocks[first].held == 0 and m.sms[sm].engine == 0):
        return
    m.sms[sm].resident -= 1
    m.sms[sm].free += m.blocks[first].held
    if m.sms[sm].engine == t.NIC:
        return
    if m.sms[sm].resident == 0 and m.sms[sm].engine == 0:
        count_taken(m, gpu)
        m.gpus[gpu].taken -= 1
    if m.sms[sm].engine:
        place_list(m, gpu, sm)
    else:
        place_pending(m, gpu)


@kernel
def enqueue(m: Machine, block: int) -> None:
    """Queue a block for an SM: behind all blocks, or behind the other urgent ones."""
    gpu = m.blocks[block].gpu
    before = m.gpus[gpu].urgent_tail if m.blocks[block].urgent else m.gpus[gpu].pending_tail
    if before >= 0:
        m.blocks[block].next_pending = m.blocks[before].next_pending
        m.blocks[before].next_pending = block
    else:
        m.blocks[block].next_pending = m.gpus[gpu].pending_head
        m.gpus[gpu].pending_head = block
    if m.blocks[block].urgent:
        m.gpus[gpu].urgent_tail = block
    if m.blocks[block].next_pending < 0:
        m.gpus[gpu].pending_tail = block


@kernel
def place_pending(m: Machine, gpu: int) -> None:
    """Place the blocks that wait, in their order, each on the SM with most room, as long as there is room."""
    first = m.gpus[gpu].first_sm
    while m.gpus[gpu].pending_head >= 0:
        block = m.gpus[gpu].pending_head
        emptiest = first
        for sm in range(first + 1, first + m.gpus[gpu].usable):
            if m.sms[sm].free > m.sms[emptiest].free:
                emptiest = sm
        if m.sms[emptiest].free < m.blocks[block].held:
            return
        following = m.blocks[block].next_pending
        m.gpus[gpu].pending_head = following
        if following < 0:
            m.gpus[gpu].pending_tail = -1
        if m.gpus[gpu].urgent_tail == block:
            m.gpus[gpu].urgent_tail = -1
        place(m, block, emptiest)


@kernel
def place_list(m: Machine, gpu: int, engine: int) -> None:
    """Hand the next list of descriptors to a copy engine that has ended one."""
    block = m.gpus[gpu].list_head
    if block < 0:
        return
    m.gpus[gpu].list_head = m.blocks[block].next_pending
    if m.gpus[gpu].list_head < 0:
        m.gpus[gpu].list_tail = -1
    place(m, block, engine)


@kernel
def place(m: Machine, block: int, sm: int) -> None:
    """Make a block resident on an SM or copy engine."""
    m.blocks[block].sm = sm
    m.blocks[block].next_pending = -1
    if m.sms[sm].resident == 0 and m.sms[sm].engine == 0:
        gpu = m.blocks[block].gpu
        count_taken(m, gpu)
        m.gpus[gpu].taken += 1
    m.sms[sm].resident += 1
    m.sms[sm].free -= m.blocks[block].held
    while block >= 0:
        m.blocks[block].sm = sm
        queue_launch(m, block)
        block = next_role(m.blocks, block)


@kernel
def count_taken(m: Machine, gpu: int) -> int:
    """Add up what blocks on SMs have taken from a computation on all of them; it always keeps one."""
    sms = m.gpus[gpu].sms
    taken = min(m.gpus[gpu].taken, sms - 1)
    since_ps = m.clock[0].now_ps - m.gpus[gpu].taken_at_ps
    m.gpus[gpu].taken_ps += since_ps // sms * taken + since_ps % sms * taken // sms
    m.gpus[gpu].taken_at_ps = m.clock[0].now_ps
    return int(m.gpus[gpu].taken_ps)


@kernel
def queue_launch(m: Machine, block: int) -> None:
    """Queue the launch of a block that is resident and waits for no other."""
    clock = m.clock[0]
    clock.busy += 1
    schedule(m.event_queue, max(clock.now_ps, m.blocks[block].launch_ps), t.LAUNCH, block)


@kernel
def release(m: Machine, block: int) -> None:
    """One of the blocks that a block waits for has ended."""
    m.blocks[block].after -= 1
    if m.blocks[block].after > 0 or m.blocks[block].role > 0:  # the first role brings the others
        return
    gpu = m.blocks[block].gpu
    if m.blocks[block].engine == t.NIC:
        queue_launch(m, block)
    elif m.blocks[block].engine:
        release_list(m, gpu, block)
    elif m.blocks[block].held == 0:
        m.blocks[block].sm = m.gpus[gpu].first_sm
        queue_launch(m, block)
    else:
        enqueue(m, block)
        place_pending(m, gpu)


@kernel
def release_list(m: Machine, gpu: int, block: int) -> None:
    """Hand a list of descriptors to a copy engine that is idle, or let it wait for one."""
    first = m.gpus[gpu].first_sm + m.gpus[gpu].sms
    for engine in range(first, first + m.gpus[gpu].engines):
        if m.sms[engine].resident == 0:
            place(m, block, engine)
            return
    if m.gpus[gpu].list_tail >= 0:
        m.blocks[m.gpus[gpu].list_tail].next_pending = block
    else:
        m.gpus[gpu].list_head = block
    m.gpus[gpu].list_tail = block


@kernel
def launch(m: Machine, block: int) -> None:
    """The t.LAUNCH event: a block begins on its SM."""
    clock = m.clock[0]
    m.blocks[block].since_ps = clock.now_ps
    m.blocks[block].started_ps = clock.now_ps
    enter(m, block, t.SIGNALLING)
    clock.resumes = block


@kernel
def acknowledge(m: Machine, block: int, op: int, needed: int) -> None:
    """A store or signal of a block is acknowledged; a fence may open, an operation end."""
    clock = m.clock[0]
    m.blocks[block].unacked -= 1
    clock.busy -= 1
    m.ops[op].acked += 1
    complete = m.ops[op].acked == needed
    if complete:
        finish_op(m, op)
        if m.ops[op].kind == t.NOTIFY and m.ops[op].before > 0:
            m.blocks[block].posted -= 1
        if m.blocks[block].post >= 0:
            post_next(m, block)
    if m.blocks[block].state != t.DRAINING:
        return
    at = m.blocks[block].op
    counted = complete and at < m.blocks[block].last_op and m.ops[at].fence == t.COUNTED
    if m.blocks[block].unacked == 0 or (counted and not outstanding(m.ops, at)):
        clock.resumes = block
