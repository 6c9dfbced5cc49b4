"""Shape in which ranks are connected, as far as algorithms take it into account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .rank_links import RankLinks

__all__ = ["Shape"]


@dataclass(frozen=True, slots=True)
class Shape:
    """Ranks of each node, and the links between them.

    Attributes
    ----------
    per_node : int
        Consecutive ranks that share a node.
    meshed : bool
        Whether links of their own join any two GPUs of a node (xGMI), not switches.
    rdma : bool
        Whether GPUs of different nodes reach each other through NICs.
    links : RankLinks, optional
        The links between GPUs, where the ranks are those of an infrastructure.
    """

    per_node: int
    meshed: bool = False
    rdma: bool = False
    links: RankLinks | None = field(default=None, compare=False, repr=False)

    def distance(self, a: int, b: int) -> int:
        """Return how many links a message between two ranks crosses at least.

        Without an infrastructure: none to itself, 1 within a node, 2 between nodes.

        Examples
        --------
        >>> Shape(4).distance(0, 3), Shape(4).distance(0, 4)
        (1, 2)
        """
        found = self.links.distance(a, b) if self.links is not None else None
        if found is None:
            return 0 if a == b else 1 if a // self.per_node == b // self.per_node else 2
        return found

    def neighbours(self, rank: int, ranks: int) -> list[int]:
        """Return the ranks that a link of their own joins with a rank; else those that the fewest links join.

        On a torus they are the next ones in each dimension; behind switches, the others of the node.
        """
        if self.links is not None:
            return self.links.neighbours(rank)
        first = rank - rank % self.per_node
        near = [other for other in range(first, min(ranks, first + self.per_node)) if other != rank]
        return near or [other for other in range(ranks) if other != rank]

    def dimensions(self, ranks: int) -> tuple[int, ...]:
        """Return the ranks in each dimension: of a torus or mesh, else nodes and ranks of each.

        Examples
        --------
        >>> Shape(4).dimensions(8), Shape(8).dimensions(8)
        ((2, 4), (8,))
        """
        grid = self.links.dimensions if self.links is not None else ()
        if grid:
            return grid
        nodes, rest = divmod(ranks, self.per_node)
        return (ranks,) if rest or nodes == 1 else (nodes, self.per_node)

    def among(self, ranks: Sequence[int]) -> Shape:
        """Return the shape of some of the ranks: one node if they do not fill equal parts of nodes.

        Examples
        --------
        >>> Shape(8, rdma=True).among([0, 1, 8, 9]).per_node
        2
        """
        links = self.links.among(ranks) if self.links is not None else None
        nodes = [rank // self.per_node for rank in ranks]
        width = nodes.count(nodes[0])
        alike = nodes == [node for node in nodes[::width] for _ in range(width)]
        if not alike or len(nodes) % width or len(set(nodes[::width])) < len(nodes) // width:
            return Shape(len(ranks), links=links)
        return Shape(width, self.meshed, self.rdma, links)
