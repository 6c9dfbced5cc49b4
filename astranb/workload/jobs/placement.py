"""Placement of jobs on the GPUs of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.plural import plural

__all__ = ["PLACEMENTS", "FreeGpus"]

PLACEMENTS: Final = ("contiguous", "by node", "scattered", "random")
"""``contiguous``: neighbouring ranks. ``by node``: nodes that are wholly free, which need not be neighbours.
``scattered``: a GPU of each node in turn. ``random``: drawn with a seed, in the order of their ranks."""


class FreeGpus:
    """The GPUs that no job has yet.

    Parameters
    ----------
    npus : int
    per_node : int
        Consecutive ranks that share a node.

    Examples
    --------
    >>> free = FreeGpus(8, 4)
    >>> free.take("a", [0, 1], 2), free.take("b", "by node", 3), free.take("c", "contiguous", 2)
    ((0, 1), (4, 5, 6), (2, 3))
    """

    def __init__(self, npus: int, per_node: int) -> None:
        self.npus, self.per_node = npus, per_node
        self._owner = [""] * npus

    @property
    def left(self) -> list[int]:
        """The ranks that are free."""
        return [rank for rank, owner in enumerate(self._owner) if not owner]

    def take(self, name: str, placement: str | Sequence[int], count: int, seed: int = 0) -> tuple[int, ...]:
        """Assign GPUs to a job.

        Parameters
        ----------
        name : str
            Of the job, for messages.
        placement : str or sequence of int
            One of :data:`PLACEMENTS`, or the ranks.
        count : int
            GPUs that the job needs.
        seed : int
            Of a random placement.

        Raises
        ------
        InputError
            There are not as many, or another job has one of them.
        """
        where = f"job {name}"
        if count > self.npus:
            what = f"it needs {plural(count, 'GPU')}, but the network has {self.npus:,}"
            raise InputError(what, where=where, hint="use a smaller plan or a larger network")
        if isinstance(placement, str):
            chosen = self._placed(placement, count, seed, where)
        else:
            chosen = self._listed(list(placement), count, where)
        for rank in chosen:
            self._owner[rank] = name
        return tuple(chosen)

    def _listed(self, ranks: list[int], count: int, where: str) -> list[int]:
        if len(ranks) != count:
            what = f"it needs {plural(count, 'GPU')}, but has {len(ranks):,}"
            raise InputError(what, where=where, hint="give as many ranks as it has")
        if len(set(ranks)) != len(ranks):
            twice = next(rank for rank in ranks if ranks.count(rank) > 1)
            raise InputError(f"duplicate rank {twice}", where=where, hint="name each rank once")
        for rank in ranks:
            if not 0 <= rank < self.npus:
                hint = f"ranks are 0 to {self.npus - 1}"
                raise InputError(f"unknown rank {rank}", where=where, hint=hint)
            if self._owner[rank]:
                what = f"rank {rank} has job {self._owner[rank]} already"
                raise InputError(what, where=where, hint="give each GPU one job")
        return ranks

    def _placed(self, placement: str, count: int, seed: int, where: str) -> list[int]:
        if placement not in PLACEMENTS:
            hint = near(placement, PLACEMENTS)
            raise InputError(f"unknown placement {placement[:40]!r}", where=where, hint=hint)
        free = self.left
        if len(free) < count:
            what = f"it needs {plural(count, 'GPU')}, but {len(free):,} are free"
            raise InputError(what, where=where, hint="use smaller jobs or a larger network")
        if placement == "random":
            drawn = np.random.Generator(np.random.PCG64(seed)).choice(free, count, replace=False)
            return sorted(drawn.tolist())
        if placement == "scattered":  # the first free GPU of each node, then the second of each, ...
            nth: dict[int, int] = {}
            keys = []
            for rank in free:
                node = rank // self.per_node
                keys.append((nth.setdefault(node, 0), rank))
                nth[node] += 1
            return [rank for _, rank in sorted(keys)[:count]]
        if placement == "by node":
            nodes = [
                range(at, min(at + self.per_node, self.npus)) for at in range(0, self.npus, self.per_node)
            ]
            some = [rank for node in nodes if not any(self._owner[rank] for rank in node) for rank in node]
            if len(some) < count:
                what = f"it needs {plural(count, 'GPU')} of whole nodes, {len(some):,} are free"
                raise InputError(what, where=where, hint="use 'contiguous' or 'scattered'")
            return some[:count]
        for first in free:
            if first + count <= self.npus and not any(self._owner[first : first + count]):
                return list(range(first, first + count))
        what = f"no {count:,} neighbouring GPUs are free"
        raise InputError(what, where=where, hint="use 'scattered', 'random' or a list of ranks")
