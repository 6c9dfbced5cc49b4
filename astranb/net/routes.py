"""The equal-cost routes of pairs of ranks, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from astranb.core.arrays import ranges

__all__ = ["Routes", "by_proxy", "ends", "joined", "legs"]


@dataclass(frozen=True)
class Routes(Mapping[tuple[int, int], list[list[int]]]):
    """The equal-cost routes of pairs of ranks, each a list of links.

    Attributes
    ----------
    pairs : ndarray of int64, shape (pairs, 2)
        Source and target of each pair.
    first_route : ndarray of int64, shape (pairs + 1,)
        First route of each pair.
    first_link : ndarray of int64, shape (routes + 1,)
        First place of each route in ``links``.
    links : ndarray of int32
        The links of all routes.
    """

    pairs: np.ndarray
    first_route: np.ndarray
    first_link: np.ndarray
    links: np.ndarray

    @cached_property
    def _numbers(self) -> dict[tuple[int, int], int]:
        return {(source, target): number for number, (source, target) in enumerate(self.pairs.tolist())}

    def __getitem__(self, pair: tuple[int, int]) -> list[list[int]]:
        """Return the routes of a pair."""
        number = self._numbers[pair]
        ends = self.first_link[self.first_route[number] : self.first_route[number + 1] + 1].tolist()
        return [self.links[first:last].tolist() for first, last in pairwise(ends)]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over the pairs."""
        return iter(self._numbers)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.pairs)


def legs(pairs: list[tuple[int, int]], proxies: Mapping[tuple[int, int], int]) -> list[tuple[int, int]]:
    """Return the pairs of ranks on the way: two in place of one that a third rank sends for."""
    if not proxies:
        return pairs
    by = {pair: proxies.get(pair) for pair in pairs}
    return [
        leg
        for (a, b), proxy in by.items()
        for leg in ([(a, b)] if proxy is None else [(a, proxy), (proxy, b)])
    ]


def joined(found: list[Routes]) -> Routes:
    """Put routes behind one another: targets in their order, and the sources of each."""
    pairs = np.concatenate([np.zeros((0, 2), np.int64), *(one.pairs for one in found)])
    first_route = ends([np.diff(one.first_route) for one in found])
    first_link = ends([np.diff(one.first_link) for one in found])
    links = np.concatenate([np.zeros(0, np.int32), *(one.links for one in found)])
    _, first, target = np.unique(pairs[:, 1], return_index=True, return_inverse=True)
    order = np.lexsort((pairs[:, 0], first[target]))
    if (np.diff(order) == 1).all():
        return Routes(pairs, first_route, first_link, links)
    count = np.diff(first_route)[order]
    rows = ranges(first_route[order], count)
    hops = np.diff(first_link)[rows]
    return Routes(pairs[order], ends([count]), ends([hops]), links[ranges(first_link[rows], hops)])


def by_proxy(legs: Routes, pairs: list[tuple[int, int]], proxies: Mapping[tuple[int, int], int]) -> Routes:
    """Join the routes to the ranks that send for others with those from there."""
    found = []
    for pair in pairs:
        by = proxies.get(pair)
        halves = [pair] if by is None else [(pair[0], by), (by, pair[1])]
        if not all(half in legs for half in halves):
            continue
        ways = [legs[half] for half in halves]
        most = max(map(len, ways))
        lanes = [[link for way in ways for link in way[k % len(way)]] for k in range(most)]
        flat = np.array([link for one in lanes for link in one], np.int32)
        lengths = np.array([len(one) for one in lanes])
        found.append(Routes(np.array([pair], np.int64), ends([np.array([most])]), ends([lengths]), flat))
    return joined(found)


def ends(counts: list[np.ndarray]) -> np.ndarray:
    """Return where each of so many rows begins, and the end of the last."""
    found: np.ndarray = np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]))
    return found
