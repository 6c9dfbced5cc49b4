"""Boxes of the picture: each represents a node, an instance with all it holds, or a whole tier.

How much is drawn follows from the number of GPUs alone (`detail_of`); a person may open
instances, or look into one.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from astranb.infragraph import NodeKind

__all__ = ["Detail", "DrawnNetwork", "DrawnNodes", "Units", "contracted", "detail_of", "natural", "units_of"]

_HOT_FROM, _COLLAPSED_FROM, _AGGREGATES_FROM = 32, 128, 1000
_HOT = 40
_MOST_IN_ONE = 64  # GPUs of one instance that is drawn as one box
_CHUNK = 32  # GPUs of a box where one instance holds more


class DrawnColumns(Protocol):
    """Columns of the nodes of what is laid out."""

    @property
    def kind(self) -> np.ndarray:
        """The kind of each node, a :class:`NodeKind`."""

    @property
    def instance(self) -> np.ndarray:
        """The number of the instance that each node is in."""


class DrawnNodes(Protocol):
    """The nodes of what is laid out."""

    @property
    def nodes(self) -> DrawnColumns:
        """Their columns."""

    def __len__(self) -> int:
        """Return the number of nodes."""

    def name(self, node: int, /) -> str:
        """A node's name."""

    def instance_name(self, node: int, /) -> str:
        """The name of the instance that a node is in."""


class DrawnNetwork(Protocol):
    """Network that is laid out: a fabric, or the network of a workload."""

    @property
    def graph(self) -> DrawnNodes:
        """Its nodes."""

    @property
    def links(self) -> Any:
        """The nodes at the ends of its links: columns ``src`` and ``dst``."""

    @property
    def gpus(self) -> np.ndarray:
        """The node of each rank."""


@dataclass(frozen=True)
class Detail:
    """Level of detail at which a system is drawn.

    Attributes
    ----------
    level : str
        ``"everything"``, ``"hot"``: only the busiest links as lines; ``"collapsed"``: each
        instance as one box, too; ``"aggregates"``: each tier as one, with tiles.
    hot : int
        Most links drawn as lines; 0: all.
    """

    level: str
    hot: int

    @property
    def collapsed(self) -> bool:
        """Whether instances are drawn as one box each, or less."""
        return self.level in ("collapsed", "aggregates")


def detail_of(gpus: int) -> Detail:
    """Return the level of detail for a number of GPUs.

    Examples
    --------
    >>> [detail_of(n).level for n in (8, 64, 512, 1024)]
    ['everything', 'hot', 'collapsed', 'aggregates']
    """
    if gpus < _HOT_FROM:
        return Detail("everything", 0)
    if gpus < _COLLAPSED_FROM:
        return Detail("hot", _HOT)
    return Detail("collapsed" if gpus < _AGGREGATES_FROM else "aggregates", _HOT)


@dataclass(frozen=True)
class Units:
    """Parts that may be drawn as one box: copies of instances, or GPUs in a row of a very large one.

    Attributes
    ----------
    of : ndarray of int64, shape (nodes,)
        Unit of each node; -1 where the node is not used.
    names : list of str
        By unit, as ``host.3``; units are ordered by their first rank, then by name.
    ranks : list of (int, int)
        First and last rank in each; (-1, -1) where there is no GPU.
    gpus, sizes : list of int
        How many GPUs and used nodes each has.
    """

    of: np.ndarray
    names: list[str]
    ranks: list[tuple[int, int]]
    gpus: list[int]
    sizes: list[int]

    def members(self, unit: int) -> list[int]:
        """DrawnNodes of a unit."""
        return [int(node) for node in np.flatnonzero(self.of == unit)]


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key of a name: numbers in it count as numbers."""
    parts = re.split(r"(\d+)", name)
    return tuple((1, int(p), "") if p.isdecimal() else (0, 0, p) for p in parts if p)


def units_of(fabric: DrawnNetwork, nodes: np.ndarray, *, collapsed: bool = False) -> Units:
    """Divide used nodes, in ascending order, into units.

    Where ``collapsed``, units are drawn as one box: then an instance of very many GPUs is several.
    """
    graph = fabric.graph
    rank = np.full(len(graph), -1, np.int64)
    rank[fabric.gpus] = np.arange(len(fabric.gpus))
    key = graph.nodes.instance.astype(np.int64) * 2 * len(graph)
    if collapsed:
        held = np.bincount(graph.nodes.instance[fabric.gpus], minlength=int(graph.nodes.instance.max()) + 1)
        large = (held > _MOST_IN_ONE)[graph.nodes.instance]
        # GPUs by the chunk, everything else of such an instance by itself.
        inner = np.where(rank >= 0, 1 + rank // _CHUNK, len(graph) + np.arange(len(graph)))
        key += np.where(large, inner, 0)
    _, first, inverse = np.unique(key[nodes], return_index=True, return_inverse=True)
    firsts = nodes[first]
    count = len(first)
    ranks = rank[nodes]
    gpus = np.bincount(inverse[ranks >= 0], minlength=count)
    sizes = np.bincount(inverse, minlength=count)
    low, high = np.full(count, 2**62), np.full(count, -1)
    np.minimum.at(low, inverse[ranks >= 0], ranks[ranks >= 0])
    np.maximum.at(high, inverse[ranks >= 0], ranks[ranks >= 0])
    names = [
        _name(fabric, int(firsts[u]), int(sizes[u]), int(low[u]), int(high[u]), key) for u in range(count)
    ]
    order = sorted(range(count), key=lambda u: (int(low[u]), natural(names[u])))
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    of = np.full(len(graph), -1, np.int64)
    of[nodes] = place[inverse]
    return Units(
        of,
        [names[u] for u in order],
        [(int(low[u]), int(high[u])) if high[u] >= 0 else (-1, -1) for u in order],
        [int(gpus[u]) for u in order],
        [int(sizes[u]) for u in order],
    )


def _name(fabric: DrawnNetwork, node: int, size: int, low: int, high: int, key: np.ndarray) -> str:
    """Name of the unit that a node is in."""
    whole = fabric.graph.name(node)
    if key[node] % (2 * len(fabric.graph)) == 0:
        return fabric.graph.instance_name(node)
    return f"gpu[{low}-{high}]" if size > 1 else whole


def contracted(fabric: DrawnNetwork, nodes: Collection[int], links: np.ndarray) -> dict[int, int]:
    """Used nodes that only forward between a NIC and one other node, and the NIC that represents each."""
    kind = fabric.graph.nodes.kind
    near: dict[int, set[int]] = {int(node): set() for node in nodes}
    src, dst = fabric.links["src"][links].tolist(), fabric.links["dst"][links].tolist()
    for a, b in zip(src, dst, strict=True):
        near[a].add(b)
        near[b].add(a)
    found = {}
    for node, others in near.items():
        nics = [other for other in others if kind[other] == NodeKind.NIC]
        if kind[node] == NodeKind.CUSTOM and len(others) == 2 and len(nics) == 1:
            found[node] = nics[0]
    return found
