"""Chunks under way: each is a stream that goes through its phases, one queue after another."""

from __future__ import annotations

from astranb.core.jit import kernel
from astranb.workload.astrasim2._kinds import ALTERNATING, FIFO, SHORTEST_FIRST, SMALLEST_FIRST

from ._noted import PHASE_BEGINS
from ._notes import note_phase
from ._rooted import begin_rooted, load_rooted
from ._steps import begin_steps, load_steps
from ._switch import begin_switch, load_switch
from ._tables import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    CUSTOM,
    IN_NETWORK,
    NONE,
    REDUCE_SCATTER,
    ROOTED,
    TREE,
    Machine,
)
from ._tree import begin_tree, load_tree
from ._turns import next_in_turn

__all__ = ["admit", "free_stream", "leave", "new_stream", "next_phase", "wake"]


@kernel
def new_stream(m: Machine, operation: int, tag: int, priority: int) -> int:
    """Take an unused row for a chunk of an operation."""
    row = m.clock[0].free_stream
    m.clock[0].free_stream = m.streams[row].next
    m.clock[0].streams_left -= 1
    s = m.streams[row]
    s.npu = m.operations[operation].npu
    s.operation = operation
    s.tag = tag
    s.priority = priority
    s.phase = 0
    s.phases = 0
    s.queue = -1
    s.running = 0
    s.before = -1
    s.next = -1
    return int(row)


@kernel
def free_stream(m: Machine, stream: int) -> None:
    """Give a row back."""
    m.streams[stream].next = m.clock[0].free_stream
    m.clock[0].free_stream = stream
    m.clock[0].streams_left += 1


@kernel
def _load(m: Machine, stream: int) -> None:
    """Set a stream to its next phase."""
    s = m.streams[stream]
    p = m.phases[stream * m.config[0].max_phases + s.phase]
    s.phase += 1
    s.running = 0
    s.queued_ns = m.queue[0].now
    s.queue = s.npu * (m.config[0].queues * m.config[0].dims) + p.queue
    s.algorithm = p.algorithm
    s.collective = p.collective
    s.nodes = p.nodes
    s.stride = p.stride
    s.group = p.group
    s.direction = p.direction
    s.largest = p.bytes
    if p.collective == ALL_GATHER and m.config[0].intra == SMALLEST_FIRST:
        s.largest = p.bytes * p.nodes
    if p.group >= 0:
        s.delay_ns = m.config[0].local_group_ns
        first = m.groups[p.group].first
        s.index = 0
        while m.members[first + s.index].value != s.npu:
            s.index += 1
    else:
        s.delay_ns = m.config[0].endpoint_ns
        s.index = (s.npu // p.stride) % p.nodes
        s.origin = s.npu - s.index * p.stride
    if p.collective >= BROADCAST:
        load_rooted(m, stream, p.bytes, p.window)
    if p.algorithm == TREE:
        load_tree(m, stream, p.bytes, p.tree)
    elif p.algorithm == IN_NETWORK:
        load_switch(m, stream, p.bytes)
    elif p.algorithm != CUSTOM and p.algorithm != ROOTED:
        load_steps(m, stream, p.bytes, p.window)


@kernel
def _unlink(m: Machine, stream: int) -> None:
    """Take a stream out of the list of its queue."""
    s = m.streams[stream]
    if s.before < 0:
        m.queues[s.queue].head = s.next
    else:
        m.streams[s.before].next = s.next
    if s.next >= 0:
        m.streams[s.next].before = s.before


@kernel
def _link_behind(m: Machine, stream: int, before: int) -> None:
    """Put a stream into the list of its queue behind another, or first (-1)."""
    s = m.streams[stream]
    row = m.queues[s.queue].head if before < 0 else m.streams[before].next
    s.before = before
    s.next = row
    if before < 0:
        m.queues[s.queue].head = stream
    else:
        m.streams[before].next = stream
    if row >= 0:
        m.streams[row].before = stream


@kernel(inline=False)
def _place(m: Machine, stream: int) -> int:
    """Find the stream behind which one queues up that is not first come, first served; -1 for none."""
    s = m.streams[stream]
    intra = m.config[0].intra
    before = -1
    row = m.queues[s.queue].head
    last = NONE
    while row >= 0:
        r = m.streams[row]
        one_to_last = last
        last = r.collective
        if r.running == 1:
            before = row
            row = r.next
            if intra == ALTERNATING and row >= 0 and m.streams[row].running == 0:
                last = m.streams[row].collective
                before = row
                row = m.streams[row].next
            continue
        if intra == ALTERNATING:
            scatters = last == REDUCE_SCATTER and one_to_last == ALL_GATHER
            gathers = last == ALL_GATHER and one_to_last == REDUCE_SCATTER
            behind = r.priority > s.priority or scatters or gathers
        elif intra == SMALLEST_FIRST:
            # The phase before the last goes behind all others.
            behind = s.phases - s.phase == 1 or r.largest < s.largest
        elif intra == SHORTEST_FIRST:
            behind = r.largest < s.largest
        else:
            behind = r.phases - r.phase < s.phases - s.phase
        if not behind:
            break
        before = row
        row = r.next
    return int(before)


@kernel
def _queue_up(m: Machine, stream: int) -> None:
    """Put a stream into its queue: behind those that run and those of its priority or a higher one."""
    s = m.streams[stream]
    before = -1
    if m.config[0].intra != FIFO and s.collective != ALL_TO_ALL and s.collective != ALL_REDUCE:
        before = _place(m, stream)
        row = m.queues[s.queue].head if before < 0 else m.streams[before].next
    else:
        row = m.queues[s.queue].head
        while row >= 0 and (m.streams[row].running == 1 or m.streams[row].priority >= s.priority):
            before = row
            row = m.streams[row].next
    _link_behind(m, stream, before)


@kernel(inline=False)
def wake(m: Machine, queue: int) -> int:
    """Let the next streams of a queue run, as many as may at once; returns the first custom one or -1."""
    custom = -1
    before = -1
    row = m.queues[queue].head
    for _ in range(m.queues[queue].running):
        if row >= 0:
            before = row
            row = m.streams[row].next
    while row >= 0 and m.queues[queue].running < m.config[0].concurrent:
        if m.config[0].in_turn == 1:
            chosen = next_in_turn(m, queue, row)
            if chosen < 0:
                break
            if chosen != row:
                _unlink(m, chosen)
                _link_behind(m, chosen, before)
                row = chosen
        m.streams[row].running = 1
        m.streams[row].begun_ns = m.queue[0].now
        if m.watch[0].noting == 1:
            note_phase(m, row, PHASE_BEGINS)
        if m.streams[row].algorithm == TREE:
            begin_tree(m, row)
        elif m.streams[row].algorithm == CUSTOM:
            custom = row
        elif m.streams[row].algorithm == IN_NETWORK:
            begin_switch(m, row)
        elif m.streams[row].algorithm == ROOTED:
            begin_rooted(m, row)
        else:
            begin_steps(m, row)
        m.queues[queue].running += 1
        before = row
        row = m.streams[row].next
    return int(custom)


@kernel
def admit(m: Machine, stream: int) -> int:
    """Bring a new stream into its first queue; returns a custom stream that is to begin, or -1."""
    _load(m, stream)
    _queue_up(m, stream)
    return wake(m, m.streams[stream].queue)


@kernel
def leave(m: Machine, stream: int) -> None:
    """Take a stream out of its queue."""
    _unlink(m, stream)


@kernel
def next_phase(m: Machine, stream: int) -> int:
    """Bring a stream that has left its queue into the next one, or end it.

    Returns
    -------
    int
        A custom stream that is to begin now, -1 for none.
    """
    s = m.streams[stream]
    last = s.queue
    if s.phase < s.phases:
        _load(m, stream)
        _queue_up(m, stream)
        m.queues[last].running -= 1
        wake(m, last)
        return wake(m, s.queue)
    free_stream(m, stream)
    m.queues[last].running -= 1
    return wake(m, last)
