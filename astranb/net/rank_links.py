"""Distances between ranks: the links between their GPUs, and the grid that these form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import product
from math import prod
from typing import Final

__all__ = ["RankLinks"]

_MOST_DIMENSIONS: Final = 3


class RankLinks:
    """The links between the GPUs of ranks, looked up when an algorithm asks.

    Parameters
    ----------
    gpus : sequence of int
        The node of each rank.
    links_from : callable
        Returns the nodes to which a link leads from a node.
    """

    def __init__(self, gpus: Sequence[int], links_from: Callable[[int], Iterable[int]]) -> None:
        self._gpus, self._links_from = tuple(gpus), links_from
        self._rank = {node: rank for rank, node in enumerate(self._gpus)}
        self._found: dict[int, dict[int, int]] = {}

    def among(self, ranks: Sequence[int]) -> RankLinks:
        """Return those of some of the ranks, numbered from 0: other GPUs may still be between them."""
        return RankLinks([self._gpus[rank] for rank in ranks], self._links_from)

    def distance(self, a: int, b: int) -> int | None:
        """Return how many links the shortest path between two ranks has; None if there is none."""
        return self._distances(a).get(b)

    def neighbours(self, rank: int) -> list[int]:
        """Return the ranks that a link of their own joins with one; else those that fewest links join.

        They are in ascending order.
        """
        direct = self._direct[rank]
        if direct:
            return direct
        distances = {other: far for other, far in self._distances(rank).items() if other != rank}
        least = min(distances.values(), default=0)
        return sorted(other for other, far in distances.items() if far == least)

    @cached_property
    def dimensions(self) -> tuple[int, ...]:
        """The ranks in each dimension of the torus or mesh that the links form; empty if they form none.

        The last dimension is the one in which consecutive ranks are neighbours.
        """
        ranks = len(self._gpus)
        counts = [count for count in range(2, ranks + 1) if ranks % count == 0]
        for dimensions in range(1, _MOST_DIMENSIONS + 1):
            for sizes in product(counts, repeat=dimensions):
                if prod(sizes) == ranks and self._is_grid(sizes):
                    return sizes
        return ()

    @cached_property
    def _direct(self) -> list[list[int]]:
        """For each rank, those that a link of their own joins with it."""
        return [
            sorted({self._rank[node] for node in self._links_from(gpu) if node in self._rank} - {rank})
            for rank, gpu in enumerate(self._gpus)
        ]

    def _is_grid(self, sizes: tuple[int, ...]) -> bool:
        """Return whether the links of their own are those of a torus, or of a mesh, with these sizes."""
        if not self._direct[0]:
            return False
        wraps = [
            size > 2 and prod(sizes[k + 1 :]) * (size - 1) in self._direct[0] for k, size in enumerate(sizes)
        ]
        for rank, direct in enumerate(self._direct):
            wanted = set()
            for k, (size, wrap) in enumerate(zip(sizes, wraps, strict=True)):
                step = prod(sizes[k + 1 :])
                place = rank // step % size
                for by in (-1, 1):
                    if wrap or 0 <= place + by < size:
                        wanted.add(rank + ((place + by) % size - place) * step)
            if sorted(wanted - {rank}) != direct:
                return False
        return True

    def _distances(self, rank: int) -> dict[int, int]:
        """Return the links of the shortest path to every rank that can be reached."""
        if rank not in self._found:
            seen, border, far = {self._gpus[rank]}, [self._gpus[rank]], 0
            found = {rank: 0}
            while border:
                far += 1
                border = list(
                    dict.fromkeys(n for node in border for n in self._links_from(node) if n not in seen)
                )
                seen.update(border)
                found.update((self._rank[node], far) for node in border if node in self._rank)
            self._found[rank] = found
        return self._found[rank]
