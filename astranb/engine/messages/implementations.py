"""The algorithm of each collective in each dimension, and which NPUs it lets send to each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.workload.astrasim2 import DimensionAlgorithm, System

from . import tables as t

__all__ = ["distances", "group_algorithm", "implementations_of", "outer_dimension", "rails_of"]


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


def outer_dimension(ranks: Sequence[int], counts: Sequence[int]) -> int:
    """Give the last dimension in which some ranks differ.

    Examples
    --------
    >>> outer_dimension([0, 1], [8, 4]), outer_dimension([0, 1, 8, 9], [8, 4])
    (0, 1)
    """
    rest, outer = np.asarray(ranks), 0
    for dim, nodes in enumerate(counts):
        if (rest % nodes != rest[0] % nodes).any():
            outer = dim
        rest = rest // nodes
    return outer


def rails_of(ranks: Sequence[int], counts: Sequence[int]) -> int:
    """Give how many ranks in a row share each place in the last dimension in which they differ; else 1.

    Examples
    --------
    >>> rails_of([0, 1], [8, 4]), rails_of([0, 1, 8, 9], [8, 4]), rails_of([0, 1, 8], [8, 4])
    (1, 2, 1)
    >>> rails_of([0, 8, 1, 9], [8, 4])  # its ring leaves a place by each rank anyhow
    1
    """
    places = np.asarray(ranks) // math.prod(counts[: outer_dimension(ranks, counts)])
    found, shares = np.unique(places, return_counts=True)
    passed_once = np.count_nonzero(np.diff(places)) + 1 == len(found)
    return int(shares[0]) if passed_once and (shares == shares[0]).all() else 1


def group_algorithm(implementations: Records, dims: int, collective: int, outer: int, *, compat: bool) -> int:
    """Give the algorithm of a collective of a group, as :func:`.scheduling._add_phase` chooses it.

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
    """Give the distances of an algorithm's messages along a logical ring."""
    if algorithm == t.RING_STEPS:
        return [1]
    if algorithm == t.HALVING:
        return [1 << power for power in range((nodes - 1).bit_length())]
    return list(range(1, nodes))
