"""The algorithm of each collective in each dimension, and which NPUs it lets send to each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astranb.core.arrays import distinct, flat_lists, reduce_at
from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.workload.astrasim2 import DimensionAlgorithm, System

from . import tables as t

__all__ = ["distances", "group_algorithm", "group_shapes", "implementations_of"]


def implementations_of(system: System, counts: Sequence[int], npus: int) -> Records:
    """Make the table of the algorithm of each collective in each dimension, -1 for none."""
    count = len(counts)
    strides = [1, *np.cumprod(counts).tolist()]
    table = allocate(t.COLLECTIVES * count, t.IMPLEMENTATION)
    table.algorithm = -1
    # ASTRA-sim 2.0 has no algorithms of collectives with a root; NCCL scatters and gathers directly.
    rings, direct = [DimensionAlgorithm(t.RING_STEPS)] * count, [DimensionAlgorithm(t.DIRECT)] * count
    defaults = {t.BROADCAST: rings, t.REDUCE: rings, t.SCATTER: direct, t.GATHER: direct}
    for collective, algorithms in (defaults | dict(system.algorithms)).items():
        if len(algorithms) > count:
            raise InputError(
                f"{len(algorithms)} algorithms for a network of {count} dimensions",
                where=system.where,
                hint="give one for each dimension",
            )
        for dim, algorithm in enumerate(algorithms):
            row = table[collective * count + dim]
            row.algorithm, row.window = algorithm.number, algorithm.window
            row.nodes, row.stride = counts[dim], strides[dim]
            if algorithm.whole:
                row.nodes, row.stride = npus, 1
                break
    return table


def group_shapes(groups: Sequence[Sequence[int]], counts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return where the ranks of groups lie in the dimensions of a network.

    Parameters
    ----------
    groups : sequence of sequence of int
        Ranks, at least one in each.
    counts : sequence of int
        NPUs in each dimension.

    Returns
    -------
    outer : ndarray of int64
        The last dimension in which the ranks of each group differ.
    rails : ndarray of int64
        How many of its ranks in a row share each place in that dimension; else 1.

    Examples
    --------
    >>> outer, rails = group_shapes([[0, 1], [0, 1, 8, 9], [0, 1, 8]], [8, 4])
    >>> outer.tolist(), rails.tolist()
    ([0, 1, 1], [1, 2, 1])
    >>> group_shapes([[0, 8, 1, 9]], [8, 4])[1].tolist()  # its ring leaves a place by each rank anyhow
    [1]
    """
    start, members = flat_lists(groups)
    first, group = start[:-1], np.repeat(np.arange(len(groups)), np.diff(start))
    outer, rest = np.zeros(len(groups), np.int64), members
    if not len(groups):
        return outer, outer
    for dim, nodes in enumerate(counts):
        place = rest % nodes
        outer[reduce_at(np.logical_or, place != place[first][group], first)] = dim
        rest = rest // nodes
    place = members // np.cumprod([1, *counts])[outer][group]
    stays = (np.diff(place) == 0) & (np.diff(group) == 0)
    begin = np.flatnonzero(np.concatenate([[True], ~stays]))
    length, of = np.diff(begin, append=len(members)), group[begin]
    passes = np.bincount(of)
    places = np.bincount(distinct(of * (int(place.max()) + 1) + place[begin]) // (int(place.max()) + 1))
    runs = np.searchsorted(of, np.arange(len(groups)))
    least, most = reduce_at(np.minimum, length, runs), reduce_at(np.maximum, length, runs)
    return outer, np.where((passes == places) & (least == most), least, 1)


def group_algorithm(implementations: Records, dims: int, collective: int, outer: int, *, compat: bool) -> int:
    """Return the algorithm of a collective of a group, as :func:`.scheduling._add_phase` chooses it.

    Parameters
    ----------
    implementations : recarray of IMPLEMENTATION
    dims, collective : int
    outer : int
        The last dimension in which the group's ranks differ.
    compat : bool
        Whether ASTRA-sim 2.0 chooses.
    """
    chosen = implementations[collective * dims : (collective + 1) * dims]
    if dims == 1 or chosen[1].algorithm < 0:
        return int(chosen[0].algorithm)
    if collective == t.ALL_TO_ALL and not compat:
        return int(chosen[outer].algorithm)
    return t.RING_STEPS


def distances(algorithm: int, nodes: int) -> list[int]:
    """Return the distances of an algorithm's messages along a logical ring."""
    if algorithm == t.RING_STEPS:
        return [1]
    if algorithm == t.HALVING:
        return [1 << power for power in range((nodes - 1).bit_length())]
    return list(range(1, nodes))
