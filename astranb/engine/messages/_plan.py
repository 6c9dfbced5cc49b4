"""What a chunk goes through: the phases of a collective, one in each dimension or more."""

from __future__ import annotations

from astranb.core.jit import kernel
from astranb.workload.astrasim2._kinds import THEMIS

from ._schedule import outward
from ._tables import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    COLLECTIVES,
    GATHER,
    IN_NETWORK,
    REDUCE_SCATTER,
    RING_STEPS,
    ROOTED,
    SCATTER,
    TREE,
    Machine,
)

__all__ = ["plan_phases"]


@kernel
def _next_queue(m: Machine, npu: int, dim: int) -> int:
    """Give the next queue of a dimension, all in turn."""
    a = m.allocators[npu * m.config[0].dims + dim]
    queue = a.around
    a.around = (queue + 1) % m.config[0].queues
    return int(queue)


@kernel
def _next_first(m: Machine, npu: int, dim: int) -> int:
    """Give the next queue of the first half: for the way there."""
    a = m.allocators[npu * m.config[0].dims + dim]
    queue = a.first
    a.first = queue + 1
    if a.first >= m.config[0].queues // 2:
        a.first = 0
    return int(queue)


@kernel
def _next_last(m: Machine, npu: int, dim: int) -> int:
    """Give the next queue of the second half: for the way back."""
    a = m.allocators[npu * m.config[0].dims + dim]
    queue = a.last
    a.last = queue + 1
    if a.last >= m.config[0].queues:
        a.last = m.config[0].queues // 2
    return int(queue)


@kernel(inline=False)
def _add_phase(
    m: Machine, stream: int, group: int, requested: int, collective: int, dim: int, size: int, half: int
) -> int:
    """Add a phase in one dimension; returns the bytes that the next one begins with.

    Parameters
    ----------
    m : Machine
    stream, group : int
    requested : int
        The collective that was asked for: its list of algorithms counts.
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
        # Lists for several dimensions mean nothing to a group: it is one ring.
        if m.config[0].dims > 1 and m.implementations[requested * m.config[0].dims + 1].algorithm >= 0:
            p.algorithm = RING_STEPS
    p.bytes = size
    queues = m.config[0].queues
    p.direction = 1
    if half == 0:
        queue = _next_queue(m, s.npu, dim)
        if queues > 1 and queue >= queues // 2:
            p.direction = -1
    elif half == 1:
        queue = _next_first(m, s.npu, dim)
    else:
        queue = _next_last(m, s.npu, dim)
        p.direction = -1
    p.queue = dim * queues + queue
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
def _takes_part(m: Machine, group: int, requested: int, involved: int, dim: int) -> bool:
    """Say whether a collective has a phase in a dimension."""
    if group >= 0:
        return bool(m.groups[group].count > 1)
    i = m.implementations[requested * m.config[0].dims + dim]
    return bool(i.algorithm >= 0 and i.nodes > 1 and ((involved >> dim) & 1) == 1)


@kernel(inline=False)
def _mark_rooted(m: Machine, stream: int, operation: int, at: int, dims: int) -> None:
    """Say of a phase of a collective with a root which shape it has, and whether the NPU has a part in it.

    It has where it is as far as the root in all dimensions that are still to come, or, where all
    goes in to the root, that have been.
    """
    o = m.operations[operation]
    p = m.phases[stream * m.config[0].max_phases + m.streams[stream].phases - 1]
    first = 0
    end = at
    if outward(o.collective):
        first = at + 1
        end = dims
    for other in range(first, end):
        dim = m.schedule[other].order
        if _takes_part(m, o.group, o.collective, o.involved, dim):
            i = m.implementations[o.collective * m.config[0].dims + dim]
            if (o.npu // i.stride) % i.nodes != (o.peer // i.stride) % i.nodes:
                p.direction = 0
    if p.direction == 0 or p.algorithm != IN_NETWORK:
        p.window = p.algorithm
        p.algorithm = ROOTED


@kernel(inline=False)
def plan_phases(m: Machine, stream: int, operation: int, size: int) -> None:
    """Plan the phases of one chunk, through the dimensions in the order that has been found for it.

    Parameters
    ----------
    m : Machine
    stream : int
        A new one; gets its phases.
    operation : int
        The collective.
    size : int
        Bytes of the chunk.
    """
    o = m.operations[operation]
    dims = m.config[0].dims if o.group < 0 else 1
    s = m.schedule
    if o.collective >= BROADCAST:
        for at in range(dims):
            if _takes_part(m, o.group, o.collective, o.involved, s[at].order):
                size = _add_phase(m, stream, o.group, o.collective, o.collective, s[at].order, size, 0)
                _mark_rooted(m, stream, operation, at, dims)
        return
    if o.collective != ALL_REDUCE or m.config[0].baseline == 1:
        for at in range(dims):
            if _takes_part(m, o.group, o.collective, o.involved, s[at].order):
                size = _add_phase(m, stream, o.group, o.collective, o.collective, s[at].order, size, 0)
        return
    last = 0
    for at in range(dims):
        if _takes_part(m, o.group, o.collective, o.involved, s[at].order):
            last = at
    turning = 1
    if m.config[0].inter >= THEMIS:
        # Every dimension has its load of scattering and of gathering.
        turning = 0
        last += 1
    for at in range(last):
        if _takes_part(m, o.group, o.collective, o.involved, s[at].order):
            size = _add_phase(m, stream, o.group, o.collective, REDUCE_SCATTER, s[at].order, size, 1)
    if turning == 1 and _takes_part(m, o.group, o.collective, o.involved, s[last].order):
        size = _add_phase(m, stream, o.group, o.collective, ALL_REDUCE, s[last].order, size, 1)
    for at in range(last - 1, -1, -1):
        if _takes_part(m, o.group, o.collective, o.involved, s[at].order):
            size = _add_phase(m, stream, o.group, o.collective, ALL_GATHER, s[at].order, size, 2)
