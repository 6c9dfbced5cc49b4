"""Links of a network of dimensions as a graph: sources and targets.

Links are numbered as the message engine numbers them with congestion; without congestion they are the same
links, and a message of several of them takes all of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from astranb.core.arrays import numbered

from .astrasim2 import FULLY_CONNECTED, MESH, RING, SWITCH, link_count

__all__ = ["DimensionLinks", "links_of_dimensions"]

_ALL_DRAWN = 64
"""Up to so many NPUs every link is drawn; of more, one group of each dimension."""
_MOST_IN_GROUP = 16
_CHUNK = 32
"""NPUs that are drawn as one box where a dimension has more than are drawn one by one."""


@dataclass(frozen=True)
class DimensionLinks:
    """Links between NPUs, and between NPUs and the switches of their dimensions; not to be changed.

    Attributes
    ----------
    npus : int
    source, target, dim : ndarray of int64
        Of each link: the nodes at its ends and its dimension. The first nodes are the NPUs by rank, switches
        follow.
    exists : ndarray of bool
        False for a number that no link has: from the last NPU of a line to its first, from an NPU to itself.
    first : list of int
        The number of the first link of each dimension; behind them the number of all.
    switches : list of (int, int)
        Dimension and first rank of each switch.
    group : int
        Neighbouring ranks that are drawn as one group.
    """

    npus: int
    source: np.ndarray
    target: np.ndarray
    dim: np.ndarray
    exists: np.ndarray
    first: list[int]
    switches: list[tuple[int, int]]
    group: int
    _strides: list[int]
    _nodes: list[int]
    _kinds: list[int]

    @property
    def folded(self) -> bool:
        """Whether only one group of each dimension is drawn."""
        return self.npus > _ALL_DRAWN

    def drawn(self) -> np.ndarray:
        """The links that are drawn.

        Of more than 64 NPUs, they are those of one group of each dimension: the one that rank 0 is in.

        Examples
        --------
        >>> links = links_of_dimensions([RING, RING], [8, 128])
        >>> int(links.exists.sum()), len(links.drawn())
        (4096, 272)
        """
        kept = self.exists.copy()
        if self.folded:
            for dim, (stride, nodes) in enumerate(zip(self._strides, self._nodes, strict=True)):
                mine = slice(self.first[dim], self.first[dim + 1])
                rank = np.where(self.source[mine] < self.npus, self.source[mine], self.target[mine])
                kept[mine] &= rank == rank // stride % nodes * stride
                if self._kinds[dim] == FULLY_CONNECTED and nodes > _ALL_DRAWN:
                    kept[mine] &= (self.source[mine] == 0) | (self.target[mine] == 0)
        return np.flatnonzero(kept)

    def drawn_ranks(self) -> np.ndarray:
        """Return whether each rank is an end of a drawn link."""
        some = self.drawn()
        shown = np.zeros(self.npus + len(self.switches), bool)
        shown[self.source[some]] = shown[self.target[some]] = True
        return shown[: self.npus]

    def paths(
        self, src: np.ndarray, dst: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the links that messages cross: dimension by dimension, the shorter half of a ring.

        Returns
        -------
        message, link, nth, count : ndarray of int64
            A row for each message and link, in the order in which it crosses them: the message's place in
            ``src``, the link, its place among the message's links, and how many these are.

        Examples
        --------
        >>> links = links_of_dimensions([RING, SWITCH], [4, 2])
        >>> message, link, nth, count = links.paths(np.array([0, 3]), np.array([2, 4]))
        >>> [(int(links.source[one]), int(links.target[one])) for one in link]
        [(0, 1), (1, 2), (3, 0), (0, 8), (8, 4)]
        """
        at = np.array(src, np.int64)
        found = [(np.zeros(0, np.int64), np.zeros(0, np.int64), 0, 0)]  # of no messages
        for dim, (kind, stride, nodes) in enumerate(
            zip(self._kinds, self._strides, self._nodes, strict=True)
        ):
            first, here, destination = self.first[dim], at // stride % nodes, dst // stride % nodes
            some = np.flatnonzero(here != destination)
            if kind == FULLY_CONNECTED:
                found.append((some, first + at[some] * nodes + destination[some], dim, 0))
            elif kind == SWITCH:
                after = at[some] + (destination[some] - here[some]) * stride
                found += [(some, first + at[some], dim, 0), (some, first + self.npus + after, dim, 1)]
            else:
                ahead = (destination - here) % nodes
                back = nodes - ahead < ahead if kind == RING else destination < here
                hops = np.where(back, np.where(kind == RING, nodes - ahead, here - destination), ahead)
                for hop in range(int(hops[some].max(initial=0))):
                    some = some[hops[some] > hop]
                    moved = (here[some] + np.where(back[some], -hop, hop)) % nodes - here[some]
                    link = first + np.where(back[some], self.npus, 0) + at[some] + moved * stride
                    found.append((some, link, dim, hop))
            at = at + (destination - here) * stride
        message = np.concatenate([one[0] for one in found])
        link = np.concatenate([one[1] for one in found])
        place = np.concatenate([np.full(len(one[0]), one[2] * max(self._nodes) + one[3]) for one in found])
        order = np.lexsort((place, message))
        message, link = message[order], link[order]
        count = np.bincount(message, minlength=len(src))
        nth = numbered(count)
        return message, link, nth, count[message]

    def groups(self) -> list[tuple[int, int]]:
        """Count the groups of each dimension, and those whose links are drawn."""
        return [(self.npus // nodes, 1 if self.folded else self.npus // nodes) for nodes in self._nodes]


def links_of_dimensions(kinds: Sequence[int], nodes: Sequence[int]) -> DimensionLinks:
    """Return the links of a network of dimensions.

    Parameters
    ----------
    kinds : sequence of int
        ``RING``, ``FULLY_CONNECTED``, ``SWITCH`` or ``MESH``, one for each dimension.
    nodes : sequence of int
        NPUs in each dimension.

    Examples
    --------
    >>> links = links_of_dimensions([RING, SWITCH], [4, 2])
    >>> list(zip(links.source.tolist(), links.target.tolist()))[:2], links.switches[:2]
    ([(0, 1), (1, 2)], [(1, 0), (1, 1)])
    """
    return _links(tuple(kinds), tuple(nodes))


@lru_cache(maxsize=4)
def _links(kinds: tuple[int, ...], nodes: tuple[int, ...]) -> DimensionLinks:
    npus = int(np.prod(nodes, dtype=np.int64))
    rank = np.arange(npus)
    sources, targets, dims, exist = [], [], [], []
    switches: list[tuple[int, int]] = []
    strides, stride = [], 1
    for dim, (kind, count) in enumerate(zip(kinds, nodes, strict=True)):
        strides.append(stride)
        here = rank // stride % count
        if kind == FULLY_CONNECTED:
            peer = np.tile(np.arange(count), npus)
            source = np.repeat(rank, count)
            target = source + (peer - np.repeat(here, count)) * stride
            real = source != target
        elif kind == SWITCH:
            origin = rank - here * stride
            base = npus + len(switches)
            switch = base + np.unique(origin, return_inverse=True)[1]
            switches += [(dim, int(one)) for one in np.unique(origin)]
            source, target = np.concatenate([rank, switch]), np.concatenate([switch, rank])
            real = np.ones(2 * npus, bool)
        else:
            ahead = rank + ((here + 1) % count - here) * stride
            back = rank + ((here - 1) % count - here) * stride
            source, target = np.tile(rank, 2), np.concatenate([ahead, back])
            real = source != target
            if count == 2 and kind == RING:
                real[npus:] = False  # one link from each of the two to the other
            if kind == MESH:
                real &= np.concatenate([here + 1 < count, here > 0])
        assert len(source) == link_count(kind, count, npus)  # noqa: S101 - the engine's numbering
        sources.append(source)
        targets.append(target)
        exist.append(real)
        dims.append(np.full(len(source), dim))
        stride *= count
    first = [0, *np.cumsum([len(one) for one in sources]).tolist()]
    return DimensionLinks(
        npus, np.concatenate(sources), np.concatenate(targets), np.concatenate(dims), np.concatenate(exist),
        first, switches, _group(kinds, nodes), strides, list(nodes), list(kinds),
    )  # fmt: skip


def _group(kinds: Sequence[int], nodes: Sequence[int]) -> int:
    """Return the number of neighbouring ranks that are drawn as one group."""
    npus = int(np.prod(nodes, dtype=np.int64))
    lines = [kind in (RING, MESH) for kind in kinds]
    if npus <= _ALL_DRAWN and lines[0]:
        size = 1
        for kind_is_line, count in list(zip(lines, nodes, strict=True))[:3]:
            if not kind_is_line:
                break
            size *= count
        return size
    size = int(nodes[0])
    for count in nodes[1:]:
        if size * count > _MOST_IN_GROUP:
            break
        size *= count
    return size if size <= _ALL_DRAWN else _CHUNK
