"""In which order a chunk goes through the dimensions: one after another, in turns, or by Themis.

Themis gives each chunk of a collective the dimensions with the least load so far first, so that
all of them are busy. Source: Rashidi et al., "Themis: a network bandwidth-aware collective
scheduling policy for distributed training of DL models" (ISCA 2022), as ASTRA-sim does it
(``OfflineGreedy.cc``, MIT licence). The loads begin at nothing with each collective.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel
from astranb.workload.astrasim2._kinds import (
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
    ROUND_ROBIN,
    SCATTER,
    THEMIS,
    THEMIS_FLEX,
)

from ._tables import Machine

__all__ = ["forget_loads", "order_dimensions", "outward"]


_MIB: Final = 1048576.0
_GAP: Final = 16  # a gap of loads below this part of a chunk is none


@kernel
def outward(collective: int) -> bool:
    """Say whether a collective has a root, and goes out from it."""
    return collective in (BROADCAST, SCATTER)


@kernel
def forget_loads(m: Machine) -> None:
    """Begin a collective: no dimension has a load."""
    for dim in range(m.config[0].dims):
        m.schedule[dim].dim = dim
        m.schedule[dim].load = 0.0


@kernel
def _active(m: Machine, dim: int, involved: int) -> bool:
    """Say whether a dimension takes part."""
    return bool(m.schedule[dim].nodes > 1 and ((involved >> dim) & 1) == 1)


@kernel
def _share(m: Machine, dim: int, gathers: int) -> float:
    """Give the part of a chunk that goes over a dimension."""
    nodes = float(m.schedule[dim].nodes)
    if gathers == 1:
        return nodes - 1.0
    return (nodes - 1.0) / nodes


@kernel
def _speed(m: Machine, dim: int) -> float:
    """Give the bandwidth of a dimension, compared with the first."""
    return float(m.schedule[dim].rate / m.schedule[0].rate)


@kernel
def _load(m: Machine, at: int, dim: int, chunk: int, gathers: int) -> int:
    """Add a chunk to the load at a place; returns what the next dimension gets."""
    m.schedule[at].load += ((float(chunk) / _MIB) * _share(m, dim, gathers)) / _speed(m, dim)
    if gathers == 1:
        return int(chunk * m.schedule[dim].nodes)
    return int(chunk // m.schedule[dim].nodes)


@kernel
def _sort(m: Machine, gathers: int) -> None:
    """Order the dimensions by load: the least first, where chunks gather the most."""
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
def _reverse(m: Machine) -> None:
    """Turn the order of the loads round."""
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
def _gap_bytes(m: Machine, at: int, involved: int, gathers: int) -> int:
    """Give the bytes by which the load at a place lies below the greatest."""
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
def _plain(m: Machine, involved: int, chunk: int, gathers: int) -> None:
    """Take the dimensions as they are numbered, and add to their loads."""
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
            chunk = _load(m, dim, dim, chunk, gathers)


@kernel(inline=False)
def _themis(m: Machine, collective: int, left: int, chunk: int, involved: int) -> int:
    """Order the dimensions for a chunk by their loads; returns its bytes."""
    s = m.schedule
    flexible = m.config[0].inter == THEMIS_FLEX
    gathers = 1 if collective == ALL_GATHER else 0
    usual = chunk
    taken = min(left, usual)
    _sort(m, gathers)
    looked = False
    for at in range(m.config[0].dims):
        dim = s[at].dim
        s[at].order = dim
        if not _active(m, dim, involved):
            continue
        if not looked:
            looked = True
            for other in range(m.config[0].dims):
                s[other].nodes_of_load = s[s[other].dim].nodes
            gap = _gap_bytes(m, at, involved, gathers)
            if flexible and gap >= usual:
                chunk = gap
                taken = min(left, gap)
            elif flexible or gap < usual // _GAP:
                _plain(m, involved, taken if flexible else chunk, gathers)
                return taken
        chunk = _load(m, at, dim, chunk, gathers)
    return taken


@kernel(inline=False)
def order_dimensions(m: Machine, operation: int, left: int, chunk: int) -> int:
    """Order the dimensions for the next chunk of a collective.

    Parameters
    ----------
    m : Machine
    operation : int
        The collective.
    left : int
        Bytes of it that have no chunk yet.
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
    turn = 0
    if config.inter == ROUND_ROBIN:
        turn = m.npus[o.npu].turn
        m.npus[o.npu].turn = (turn + 1) % count
    for at in range(count):
        dim = (at + turn) % count
        if o.collective == ALL_GATHER or outward(o.collective):
            dim = count - 1 - dim
        m.schedule[at].order = dim
    return chunk
