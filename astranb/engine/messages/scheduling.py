"""Scheduling: the order of a chunk's dimensions, its phases, and the order of chunks in a queue.

**Dimensions** of a chunk: one after another, round robin, or by Themis, which gives each chunk of a
collective the dimensions with the least load first, so that all of them are busy. Source: Rashidi et
al., "Themis: a network bandwidth-aware collective scheduling policy for distributed training of DL
models" (ISCA 2022), as ASTRA-sim does it (``OfflineGreedy.cc``, MIT licence). Each collective begins
with no loads.

**Phases** of a chunk: one or more in each dimension.

**Chunks of a queue**: by ``intra-dimension-scheduling``; and in several dimensions all NPUs begin the
chunks of a dimension in the same order. Two NPUs that begin with different chunks, because those
arrived in another order from the previous dimension, would wait for each other (astra-sim's issue
370). So the first NPU that begins a chunk's phase in a dimension grants it for all, and the others
begin it when they reach this grant. An NPU that can begin a phase has ended the previous phase of the
chunk, which was granted earlier; so the grants of all dimensions can always be used in the order in
which they were made, and there is no deadlock.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel

from .rooted import is_outward
from .tables import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    ALTERNATING,
    BROADCAST,
    CHAINED,
    COLLECTIVES,
    CUSTOM,
    DIRECT,
    FIFO,
    GATHER,
    IN_NETWORK,
    NONE,
    ON_BACKGROUND,
    ONE_SHOT,
    REDUCE,
    REDUCE_SCATTER,
    RING_STEPS,
    ROOTED,
    ROUND_ROBIN,
    SCATTER,
    SHORTEST_FIRST,
    SMALLEST_FIRST,
    THEMIS,
    THEMIS_FLEX,
    TREE,
    MessageMachine,
)
from .ties import grants, takes_grant
from .transport import free_message, new_message

__all__ = [
    "by_priority",
    "goes_behind",
    "has_own_place",
    "next_granted",
    "order_dimensions",
    "place_in_queue",
    "plan_phases",
    "reset_loads",
]

_MIB: Final = 1048576.0
_GAP: Final = 16  # a difference of loads below this part of a chunk counts as none


# Dimensions of a chunk.


@kernel
def reset_loads(m: MessageMachine) -> None:
    """Begin a collective with no load on any dimension."""
    for dim in range(m.config[0].dims):
        m.schedule[dim].dim = dim
        m.schedule[dim].load = 0.0


@kernel
def _active(m: MessageMachine, dim: int, involved: int) -> bool:
    """Return whether a dimension takes part."""
    return bool(m.schedule[dim].nodes > 1 and ((involved >> dim) & 1) == 1)


@kernel
def _share(m: MessageMachine, dim: int, gathers: int) -> float:
    """Return the share of a chunk that crosses a dimension."""
    nodes = float(m.schedule[dim].nodes)
    if gathers == 1:
        return nodes - 1.0
    return (nodes - 1.0) / nodes


@kernel
def _speed(m: MessageMachine, dim: int) -> float:
    """Return the bandwidth of a dimension relative to the first."""
    return float(m.schedule[dim].rate / m.schedule[0].rate)


@kernel
def _add_load(m: MessageMachine, at: int, dim: int, chunk: int, gathers: int) -> int:
    """Add a chunk to the load at a position; returns the bytes that the next dimension gets."""
    m.schedule[at].load += ((float(chunk) / _MIB) * _share(m, dim, gathers)) / _speed(m, dim)
    if gathers == 1:
        return int(chunk * m.schedule[dim].nodes)
    return int(chunk // m.schedule[dim].nodes)


@kernel
def _sort(m: MessageMachine, gathers: int) -> None:
    """Order the dimensions by load, the least first; if chunks gather, the greatest first."""
    s = m.schedule
    count = m.config[0].dims
    for last in range(1, count):
        dim = s[last].dim
        load = s[last].load
        hole = last
        while hole > 0 and load < s[hole - 1].load:
            s[hole].dim = s[hole - 1].dim
            s[hole].load = s[hole - 1].load
            hole -= 1
        s[hole].dim = dim
        s[hole].load = load
    if gathers == 1:
        _reverse(m)


@kernel
def _reverse(m: MessageMachine) -> None:
    """Reverse the order of the loads."""
    s = m.schedule
    count = m.config[0].dims
    for low in range(count // 2):
        high = count - 1 - low
        dim, load = s[low].dim, s[low].load
        s[low].dim = s[high].dim
        s[low].load = s[high].load
        s[high].dim = dim
        s[high].load = load


@kernel
def _gap_bytes(m: MessageMachine, at: int, involved: int, gathers: int) -> int:
    """Return the bytes that the load at a position lacks to the greatest."""
    s = m.schedule
    last = m.config[0].dims - 1
    dim = s[at].dim
    if gathers == 1:
        while not _active(m, s[last].dim, involved):
            last -= 1
        dim = s[last].dim
    gap = abs(s[last].load - s[at].load)
    size = int(gap * _speed(m, dim) / _share(m, dim, gathers) * _MIB)
    if gathers == 1:
        last -= 1
        while at <= last:
            if _active(m, s[last].dim, involved):
                size //= s[last].nodes_of_load
            last -= 1
    return size


@kernel
def _in_number_order(m: MessageMachine, involved: int, chunk: int, gathers: int) -> None:
    """Order the dimensions by their numbers, and add the chunk to their loads."""
    s = m.schedule
    count = m.config[0].dims
    for dim in range(count):
        s[dim].order = dim
        at = dim
        while s[at].dim != dim:
            at += 1
        load = s[at].load
        s[at].dim = s[dim].dim
        s[at].load = s[dim].load
        s[dim].dim = dim
        s[dim].load = load
    if gathers == 1:
        _reverse(m)
    for dim in range(count):
        if _active(m, dim, involved):
            chunk = _add_load(m, dim, dim, chunk, gathers)


@kernel(inline=False)
def _themis(m: MessageMachine, collective: int, left: int, chunk: int, involved: int) -> int:
    """Order the dimensions for a chunk by their loads; returns its bytes."""
    s = m.schedule
    flexible = m.config[0].inter == THEMIS_FLEX
    gathers = 1 if collective == ALL_GATHER else 0
    usual = chunk
    taken = min(left, usual)
    _sort(m, gathers)
    first = True
    for at in range(m.config[0].dims):
        dim = s[at].dim
        s[at].order = dim
        if not _active(m, dim, involved):
            continue
        if first:
            first = False
            for other in range(m.config[0].dims):
                s[other].nodes_of_load = s[s[other].dim].nodes
            gap = _gap_bytes(m, at, involved, gathers)
            if flexible and gap >= usual:
                chunk = gap
                taken = min(left, gap)
            elif flexible or gap < usual // _GAP:
                _in_number_order(m, involved, taken if flexible else chunk, gathers)
                return taken
        chunk = _add_load(m, at, dim, chunk, gathers)
    return taken


@kernel(inline=False)
def order_dimensions(m: MessageMachine, operation: int, left: int, chunk: int) -> int:
    """Order the dimensions for the next chunk of a collective.

    Parameters
    ----------
    m : MessageMachine
    operation : int
        The collective.
    left : int
        Bytes of it that are not in a chunk yet.
    chunk : int
        Bytes of a chunk.

    Returns
    -------
    int
        Bytes of this chunk.
    """
    o = m.operations[operation]
    config = m.config[0]
    count = config.dims
    if o.group >= 0:
        m.schedule[0].order = 0
        return chunk
    if config.inter >= THEMIS and o.collective < ALL_TO_ALL:
        return _themis(m, o.collective, left, chunk, o.involved)
    first = 0
    if config.inter == ROUND_ROBIN:
        first = m.npus[o.npu].first_dim
        m.npus[o.npu].first_dim = (first + 1) % count
    for at in range(count):
        dim = (at + first) % count
        if o.collective == ALL_GATHER or is_outward(o.collective):
            dim = count - 1 - dim
        m.schedule[at].order = dim
    return chunk


# Phases of a chunk.


@kernel
def _next_queue(m: MessageMachine, npu: int, dim: int, half: int) -> int:
    """Return a dimension's next queue, round robin: of all (0), of the first half (1), of the second (2).

    Phases before the last dimension use the first half, those after it the second.
    """
    a = m.allocators[npu * m.config[0].dims + dim]
    queues = m.config[0].queues
    if half == 0:
        queue = a.around
        a.around = (queue + 1) % queues
    elif half == 1:
        queue = a.first
        a.first = queue + 1 if queue + 1 < queues // 2 else 0
    else:
        queue = a.last
        a.last = queue + 1 if queue + 1 < queues else queues // 2
    return int(queue)


@kernel(inline=False)
def _add_phase(
    m: MessageMachine,
    stream: int,
    group: int,
    requested: int,
    collective: int,
    dim: int,
    size: int,
    half: int,
) -> int:
    """Add a phase in one dimension; returns the bytes that the next one begins with.

    Parameters
    ----------
    m : MessageMachine
    stream, group : int
    requested : int
        The collective of the operation, which selects the list of algorithms.
    collective : int
        What the phase does.
    dim : int
    size : int
        Bytes at its start.
    half : int
        0: any queue of the dimension, 1: one of the first half, 2: of the second.
    """
    s = m.streams[stream]
    row = stream * m.config[0].max_phases + s.phases
    s.phases += 1
    p = m.phases[row]
    chosen = m.implementations[requested * m.config[0].dims + dim]
    p.algorithm = chosen.algorithm
    p.window = chosen.window
    p.collective = collective
    p.nodes = chosen.nodes
    p.stride = chosen.stride
    p.group = group
    if group >= 0:
        p.nodes = m.groups[group].count
        p.stride = 1
        # A list of algorithms for several dimensions does not apply to a group: it is one ring. But an
        # all-to-all goes by the algorithm of the last dimension that its group crosses.
        if m.config[0].dims > 1 and m.implementations[requested * m.config[0].dims + 1].algorithm >= 0:
            p.algorithm = RING_STEPS
            if requested == ALL_TO_ALL and m.config[0].exact_chunks == 1:
                outer = m.implementations[requested * m.config[0].dims + m.groups[group].outer]
                p.algorithm = outer.algorithm
                p.window = outer.window
    if m.operations[s.operation].cost >= 0:
        cost = m.costs[m.operations[s.operation].cost]
        p.algorithm = cost.algorithm
        p.window = cost.window
    if p.algorithm == ONE_SHOT:
        # Every NPU gets the bytes of all, as in an all-gather.
        p.algorithm = DIRECT
        p.collective = collective = ALL_GATHER
    p.bytes = size
    queues = m.config[0].queues
    queue = _next_queue(m, s.npu, dim, half)
    p.direction = 1
    if half == 2 or (half == 0 and queues > 1 and queue >= queues // 2):
        p.direction = -1
    p.queue = dim * queues + queue
    if m.operations[s.operation].place == ON_BACKGROUND:
        p.queue += m.config[0].dims * queues
    if p.algorithm == TREE and collective < BROADCAST:
        t = m.trees[(s.npu * COLLECTIVES + requested) * m.config[0].dims + dim]
        p.tree = t.value % 2
        t.value += 1
        return size
    if collective in (ALL_GATHER, GATHER):
        return int(size * p.nodes)
    if collective in (REDUCE_SCATTER, SCATTER):
        return int(size // p.nodes)
    return size


@kernel
def _takes_part(m: MessageMachine, group: int, requested: int, involved: int, dim: int) -> bool:
    """Return whether a collective has a phase in a dimension."""
    if group >= 0:
        return bool(m.groups[group].count > 1)
    i = m.implementations[requested * m.config[0].dims + dim]
    return bool(i.algorithm >= 0 and i.nodes > 1 and ((involved >> dim) & 1) == 1)


@kernel(inline=False)
def _mark_rooted(m: MessageMachine, stream: int, operation: int, group: int, at: int, dims: int) -> None:
    """Set the shape of a phase of a collective with a root, and whether the NPU takes part in it.

    It does if its coordinates are the root's in all following dimensions, or, if the collective comes
    in to the root, in all previous ones.
    """
    o = m.operations[operation]
    p = m.phases[stream * m.config[0].max_phases + m.streams[stream].phases - 1]
    first = 0
    end = at
    if is_outward(o.collective):
        first = at + 1
        end = dims
    for other in range(first, end):
        dim = m.schedule[other].order
        if _takes_part(m, group, o.collective, o.involved, dim):
            i = m.implementations[o.collective * m.config[0].dims + dim]
            if (o.npu // i.stride) % i.nodes != (o.peer // i.stride) % i.nodes:
                p.direction = 0
    if p.direction == 0 or p.algorithm != IN_NETWORK:
        p.window = p.algorithm
        p.algorithm = ROOTED


@kernel(inline=False)
def plan_phases(m: MessageMachine, stream: int, operation: int, group: int, size: int) -> None:
    """Plan the phases of one chunk, through the dimensions in the order of ``schedule``.

    Parameters
    ----------
    m : MessageMachine
    stream : int
        A new one without phases.
    operation : int
        The collective.
    group : int
        Its ranks, or their ring; -1: all.
    size : int
        Bytes of the chunk.
    """
    o = m.operations[operation]
    dims = m.config[0].dims if group < 0 else 1
    s = m.schedule
    if o.collective != ALL_REDUCE or m.config[0].baseline == 1:
        for at in range(dims):
            if _takes_part(m, group, o.collective, o.involved, s[at].order):
                size = _add_phase(m, stream, group, o.collective, o.collective, s[at].order, size, 0)
                if o.collective >= BROADCAST:
                    _mark_rooted(m, stream, operation, group, at, dims)
        return
    tree = m.implementations[o.collective * m.config[0].dims].algorithm == TREE
    if o.cost >= 0:
        tree = m.costs[o.cost].algorithm == TREE
    if o.ring >= 0 and tree:
        for half, collective in ((1, REDUCE), (2, BROADCAST)):
            size = _add_phase(m, stream, group, o.collective, collective, s[0].order, size, half)
            p = m.phases[stream * m.config[0].max_phases + half - 1]
            p.algorithm = ROOTED
            p.window = CHAINED
            p.direction = 1
        return
    last = 0
    for at in range(dims):
        if _takes_part(m, group, o.collective, o.involved, s[at].order):
            last = at
    whole = m.config[0].inter < THEMIS
    if not whole:
        # Every dimension has its load of scattering and of gathering.
        last += 1
    for at in range(last):
        if _takes_part(m, group, o.collective, o.involved, s[at].order):
            size = _add_phase(m, stream, group, o.collective, REDUCE_SCATTER, s[at].order, size, 1)
    if whole and _takes_part(m, group, o.collective, o.involved, s[last].order):
        size = _add_phase(m, stream, group, o.collective, ALL_REDUCE, s[last].order, size, 1)
    for at in range(last - 1, -1, -1):
        if _takes_part(m, group, o.collective, o.involved, s[at].order):
            size = _add_phase(m, stream, group, o.collective, ALL_GATHER, s[at].order, size, 2)


# Chunks of a queue.


@kernel
def by_priority(m: MessageMachine, stream: int) -> bool:
    """Return whether a stream is queued behind those of the same or a higher priority."""
    collective = m.streams[stream].collective
    return bool(m.config[0].intra == FIFO or collective == ALL_TO_ALL or collective == ALL_REDUCE)


@kernel(inline=False)
def place_in_queue(m: MessageMachine, stream: int) -> int:
    """Find the stream behind which another is queued if the order is not FIFO; -1 for none."""
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


@kernel(inline=False)
def goes_behind(m: MessageMachine, stream: int, row: int) -> bool:
    """Return whether a stream surely would go behind another one of its queue, wherever that is."""
    s = m.streams[stream]
    r = m.streams[row]
    intra = m.config[0].intra
    if by_priority(m, stream):
        return bool(r.priority >= s.priority)
    if intra == SMALLEST_FIRST or intra == SHORTEST_FIRST:
        return bool(r.largest < s.largest)
    return False


@kernel(inline=False)
def has_own_place(m: MessageMachine, stream: int, row: int) -> bool:
    """Return whether two streams are queued in an order that does not depend on which comes first.

    Each goes behind the first waiting ones that precede it. Of two streams of which one precedes the other,
    the list is the same in both orders of coming, whatever else waits.
    """
    s = m.streams[stream]
    r = m.streams[row]
    if by_priority(m, stream) != by_priority(m, row):
        return False
    if by_priority(m, stream):
        return bool(s.priority != r.priority)
    return bool(m.config[0].intra == SHORTEST_FIRST and s.largest != r.largest)


# A grant is a row of the table of messages: `tag` and `bytes` name the chunk and its phase, `sent`
# counts the NPUs that have begun it.


@kernel
def _add_grant(m: MessageMachine, queue: int, stream: int) -> None:
    """Decide for all NPUs which chunk a queue begins next."""
    row = new_message(m, -1, -1, m.streams[stream].tag, m.streams[stream].phase)
    g = m.grants[queue]
    grants(m, row)
    if g.last == g.first:
        g.head = row
    else:
        m.messages[g.tail].next = row
    g.tail = row
    g.last += 1


@kernel
def _use_grant(m: MessageMachine, queue: int, shared: int, row: int) -> None:
    """Use a grant; after the last NPU it is dropped."""
    g = m.grants[shared]
    m.queues[queue].granted += 1
    m.messages[row].sent += 1
    if m.messages[row].sent == len(m.npus):
        g.head = m.messages[row].next
        g.first += 1
        free_message(m, row)


@kernel(inline=False)
def next_granted(m: MessageMachine, queue: int, stream: int) -> int:
    """Return the stream of a queue that begins next.

    Parameters
    ----------
    m : MessageMachine
    queue : int
    stream : int
        The first that waits in it.

    Returns
    -------
    int
        -1 if another chunk has been granted, which is not in the queue yet. Groups and custom
        collectives need no grants.
    """
    shared = queue % (m.config[0].dims * m.config[0].queues * m.config[0].lanes)
    g = m.grants[shared]
    used = m.queues[queue].granted - g.first
    row = -1
    if m.queues[queue].granted < g.last:
        row = g.head
        for _ in range(used):
            row = m.messages[row].next
        takes_grant(m, row, stream)
    while stream >= 0:
        s = m.streams[stream]
        if s.group >= 0 or s.algorithm == CUSTOM:
            return stream
        if row < 0:
            _add_grant(m, shared, stream)
            row = g.tail
        if m.messages[row].tag == s.tag and m.messages[row].bytes == s.phase:
            _use_grant(m, queue, shared, row)
            return stream
        stream = s.next
    return -1
