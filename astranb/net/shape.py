"""How ranks are joined, as far as algorithms take it into account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Shape"]


class Shape(NamedTuple):
    """Which ranks share a node, and how they reach one another.

    Attributes
    ----------
    per_node : int
        Consecutive ranks that share a node.
    meshed : bool
        Whether links of their own join any two GPUs of a node (xGMI), not switches.
    rdma : bool
        Whether GPUs of different nodes reach each other through NICs.
    """

    per_node: int
    meshed: bool = False
    rdma: bool = False

    def among(self, ranks: Sequence[int]) -> Shape:
        """Return the shape of some of the ranks: one node if they do not fill equal parts of nodes.

        Examples
        --------
        >>> Shape(8, rdma=True).among([0, 1, 8, 9]).per_node
        2
        """
        nodes = [rank // self.per_node for rank in ranks]
        width = nodes.count(nodes[0])
        alike = nodes == [node for node in nodes[::width] for _ in range(width)]
        if not alike or len(nodes) % width or len(set(nodes[::width])) < len(nodes) // width:
            return Shape(len(ranks))
        return Shape(width, self.meshed, self.rdma)
