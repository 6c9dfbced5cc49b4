"""Chunks in progress: each is a stream that goes through its phases, one queue after another."""

from __future__ import annotations

from astranb.core.jit import kernel

from .algorithms import begin_phase, load_phase
from .recording import record_phase
from .scheduling import by_priority, goes_behind, has_own_place, next_granted, place_in_queue
from .tables import (
    ALL_GATHER,
    CUSTOM,
    FIFO,
    PHASE_BEGINS,
    SMALLEST_FIRST,
    MessageMachine,
)
from .ties import begins, enters_queue, has_begun, leaves_queue

__all__ = ["admit", "free_stream", "new_stream", "next_phase", "place_in_group", "unlink"]


@kernel
def new_stream(m: MessageMachine, operation: int, tag: int, priority: int) -> int:
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
    s.begin_ns = 0
    return int(row)


@kernel
def free_stream(m: MessageMachine, stream: int) -> None:
    """Free a stream's row."""
    m.streams[stream].next = m.clock[0].free_stream
    m.clock[0].free_stream = stream
    m.clock[0].streams_left += 1


@kernel
def place_in_group(m: MessageMachine, group: int, npu: int) -> int:
    """The place of an NPU in the list of a group's ranks."""
    rank = npu
    if m.config[0].folded == 1:
        rank = m.fold[npu].rank
    first = m.groups[group].first
    place = 0
    while m.members[first + place].value != rank:
        place += 1
    return int(place)


@kernel
def _load(m: MessageMachine, stream: int) -> None:
    """Set a stream to its next phase."""
    s = m.streams[stream]
    row = stream * m.config[0].max_phases + s.phase
    p = m.phases[row]
    s.phase += 1
    s.running = 0
    s.queued_ns = m.queue[0].now
    s.queue = s.npu * (m.config[0].queues * m.config[0].dims * m.config[0].lanes) + p.queue
    s.algorithm = p.algorithm
    s.collective = p.collective
    s.nodes = p.nodes
    s.stride = p.stride
    s.group = p.group
    s.direction = p.direction
    s.largest = p.bytes
    rank = s.npu
    if m.config[0].folded == 1:
        rank = m.fold[s.npu].rank
    if p.collective == ALL_GATHER and m.config[0].intra == SMALLEST_FIRST:
        s.largest = p.bytes * p.nodes
    s.delay_ns = m.config[0].endpoint_ns
    if m.operations[s.operation].group >= 0:
        s.delay_ns = m.config[0].local_group_ns
    if p.group >= 0:
        s.index = place_in_group(m, p.group, s.npu)
    else:
        s.index = (rank // p.stride) % p.nodes
        s.origin = rank - s.index * p.stride
    load_phase(m, stream, row)
    s.cost = m.operations[s.operation].cost
    if s.cost >= 0:
        s.delay_ns = s.begin_ns
        s.begin_ns = 0


@kernel
def unlink(m: MessageMachine, stream: int) -> None:
    """Take a stream out of the list of its queue."""
    s = m.streams[stream]
    if s.before < 0:
        m.queues[s.queue].head = s.next
    else:
        m.streams[s.before].next = s.next
    if s.next >= 0:
        m.streams[s.next].before = s.before
    else:
        m.tails[s.queue].value = s.before
    if m.tails[s.queue].newest == stream:
        m.tails[s.queue].newest = -1


@kernel
def _link_behind(m: MessageMachine, stream: int, before: int) -> None:
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
    else:
        m.tails[s.queue].value = stream


@kernel
def _queue_up(m: MessageMachine, stream: int) -> None:
    """Queue a stream behind those that run and those of the same or a higher priority."""
    s = m.streams[stream]
    before = -1
    tail, newest = m.tails[s.queue].value, m.tails[s.queue].newest
    fifo = m.config[0].intra == FIFO
    m.tails[s.queue].newest = stream
    if fifo and tail >= 0 and (m.streams[tail].running == 1 or m.streams[tail].priority >= s.priority):
        before = tail  # the waiting ones are in the order of their priorities
    elif not by_priority(m, stream):
        before = place_in_queue(m, stream)
        m.tails[s.queue].newest = -1
    else:
        row = m.queues[s.queue].head
        if newest >= 0 and m.streams[newest].priority >= s.priority:
            before = newest  # whatever that one was queued behind, this one is too
            row = m.streams[newest].next
        while row >= 0 and (m.streams[row].running == 1 or m.streams[row].priority >= s.priority):
            before = row
            row = m.streams[row].next
    if m.config[0].folded == 1:
        enters_queue(m, s.queue, _is_ahead(m, stream, before), _waits_anyhow(m, stream))
    _link_behind(m, stream, before)


@kernel(inline=False)
def _is_ahead(m: MessageMachine, stream: int, before: int) -> int:
    """Return whether a stream that is queued behind another is ahead of any that wait, or just did (1)."""
    s = m.streams[stream]
    row = m.queues[s.queue].head
    behind = 1 if before < 0 else 0
    while row >= 0:
        r = m.streams[row]
        if r.running == 0 and behind == 1:
            return 1
        if r.running == 1 and r.begun_ns == m.queue[0].now and not goes_behind(m, stream, row):
            return 1
        if row == before:
            behind = 1
        row = r.next
    return 0


@kernel(inline=False)
def _waits_anyhow(m: MessageMachine, stream: int) -> int:
    """Return whether a stream waits, in the same place as if it had come before others of this time (1)."""
    s = m.streams[stream]
    if m.queues[s.queue].running < m.config[0].concurrent:
        return 0
    row = m.queues[s.queue].head
    while row >= 0:
        r = m.streams[row]
        now = m.queue[0].now
        if r.running == 1 and r.begun_ns == now:
            return 0
        if r.running == 0 and r.queued_ns == now and not has_own_place(m, stream, row):
            return 0
        row = r.next
    return 1


@kernel(inline=False)
def _wake(m: MessageMachine, queue: int) -> int:
    """Begin the next streams of a queue, up to its limit; returns the custom one that begins, or -1."""
    custom = -1
    before = -1
    row = m.queues[queue].head
    for _ in range(m.queues[queue].running):
        if row >= 0:
            before = row
            row = m.streams[row].next
    while row >= 0:
        # The rings of a collective run at once.
        o = m.operations[m.streams[row].operation]
        at_once = m.config[0].concurrent
        if o.cost >= 0:
            at_once = max(at_once, m.costs[o.cost].pieces)
        if m.queues[queue].running >= at_once * o.rings:
            break
        if m.config[0].same_order == 1:
            chosen = next_granted(m, queue, row)
            if chosen < 0:
                break
            if chosen != row:
                unlink(m, chosen)
                _link_behind(m, chosen, before)
                row = chosen
        m.streams[row].running = 1
        m.streams[row].begun_ns = m.queue[0].now
        if m.watch[0].noting == 1:
            record_phase(m, row, PHASE_BEGINS)
        if m.streams[row].algorithm == CUSTOM:
            custom = row
        else:
            strand = begins(m, queue, row)
            begin_phase(m, row)
            has_begun(m, strand)
        m.queues[queue].running += 1
        before = row
        row = m.streams[row].next
    return int(custom)


@kernel
def admit(m: MessageMachine, stream: int) -> int:
    """Put a new stream into its first queue; returns a custom stream that begins, or -1."""
    _load(m, stream)
    _queue_up(m, stream)
    return _wake(m, m.streams[stream].queue)


@kernel
def next_phase(m: MessageMachine, stream: int) -> int:
    """Put a stream that has left its queue into the next one, or end it.

    Returns
    -------
    int
        A custom stream that begins now, -1 for none.
    """
    s = m.streams[stream]
    last = s.queue
    leaves_queue(m, last)
    if s.phase < s.phases:
        _load(m, stream)
        _queue_up(m, stream)
        m.queues[last].running -= 1
        _wake(m, last)
        return _wake(m, s.queue)
    free_stream(m, stream)
    m.queues[last].running -= 1
    return _wake(m, last)
