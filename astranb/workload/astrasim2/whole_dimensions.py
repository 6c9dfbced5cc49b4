"""Collectives of groups that are whole dimensions of the network go along these, as those of all ranks do.

ASTRA-sim 2.0 lets a group do its collectives as one ring, whatever the network. The hierarchical
collectives of its case studies go through the dimensions that a trace names (``involved_dim``), each by its
own algorithm, and in the order of ``inter-dimension-scheduling``. A group of ranks that differ in some
dimensions of the network, and have all places there, is such a collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from astranb.core.errors import InputError

from .kinds import COLLECTIVE, INTER, THEMIS
from .operations import RankOperations
from .system import System
from .workload import Workload

__all__ = ["along_dimensions", "spanned_dimensions"]

_SAME = ("collective", "involved", "stream", "priority")
"""Columns that must be equal on all ranks: they number the chunks of these collectives alike."""


def along_dimensions(workload: Workload) -> Workload:
    """Return the same workload with collectives of groups along the dimensions of the network.

    Groups that are not whole dimensions keep their ring. Groups may have other sizes than others, as where
    160 heads are divided over 128 ranks, if these make as many chunks.

    Parameters
    ----------
    workload : Workload

    Raises
    ------
    InputError
        It is one of ``--compat``, or ranks do not have the same collectives.

    Examples
    --------
    >>> from astranb import astrasim2
    >>> network = astrasim2.DimensionNetwork(["Ring", "Switch"], [4, 2], bandwidth=[100, 25], latency=500)
    >>> row = {"kind": COLLECTIVE, "bytes": 4096}
    >>> operations = [astrasim2.Operations.of([{**row, "group": 1 + rank // 4}]) for rank in range(8)]
    >>> system = astrasim2.System.from_document({"all-reduce-implementation": ["ring", "ring"]})
    >>> groups = {1: range(4), 2: range(4, 8)}
    >>> moved = along_dimensions(Workload(operations, network, system, groups=groups))
    >>> moved.operations[7].rows[["group", "involved"]].tolist()
    [(-1, 1)]
    """
    hint = "leave out group-implementation: dimensions"
    if workload.compat:
        raise InputError("ASTRA-sim 2.0 does collectives of groups as rings", where="system", hint=hint)
    counts = list(workload.network.npus_count)
    ranks = RankOperations.of(workload.operations)
    masks = {number: spanned_dimensions(members, counts) for number, members in workload.groups.items()}
    patterns, found = [], set()
    for number, one in enumerate(ranks.patterns):
        rows = one.rows.copy()
        mine = np.unique(ranks.groups[ranks.pattern == number], axis=0)
        for at in np.unique(rows["group"][(rows["kind"] == COLLECTIVE) & (rows["group"] >= 0)]).tolist():
            named = {masks.get(group, 0) for group in mine[:, at].tolist()}
            if len(named) == 1 and 0 not in named:
                those = (rows["kind"] == COLLECTIVE) & (rows["group"] == at)
                rows["group"][those], rows["involved"][those] = -1, named.pop()
        patterns.append(replace(one, rows=rows))
        whole = rows[(rows["kind"] == COLLECTIVE) & (rows["group"] < 0)]
        chunks = _chunks(whole, workload.system, workload.network.npus)
        found.add((chunks.tobytes(), *(whole[name].tobytes() for name in _SAME)))
    if len(found) > 1:
        what = "ranks do not have the same collectives along dimensions, as in a pipeline"
        raise InputError(what, where="system", hint=hint)
    return replace(workload, operations=replace(ranks, patterns=patterns))


def _chunks(rows: np.ndarray, system: System, npus: int) -> np.ndarray:
    """Return what of a collective's size decides on its chunks: their number, or the size.

    Themis orders the dimensions of each chunk by sizes, if there are several.
    """
    sizes = rows["bytes"]
    count = -(-sizes // np.maximum(-(-sizes // system.splits), npus))
    several = rows["involved"] & (rows["involved"] - 1) != 0
    return np.where(several & (INTER[system.inter] >= THEMIS), -sizes, count)


def spanned_dimensions(members: Sequence[int], counts: Sequence[int]) -> int:
    """Return a bit for each dimension in which ranks have all places; 0 if they are anything else.

    Examples
    --------
    >>> [spanned_dimensions(ranks, [2, 3]) for ranks in ([0, 1], [1, 3, 5], range(6), [0, 2], [0, 3])]
    [1, 2, 3, 0, 0]
    """
    ranks, mask, size = np.asarray(members), 0, 1
    for dim, nodes in enumerate(counts):
        places = ranks // int(np.prod(counts[:dim], dtype=np.int64)) % nodes
        if (places != places[0]).any():
            mask, size = mask | 1 << dim, size * nodes
    return mask if size == len(np.unique(ranks)) == len(ranks) else 0
