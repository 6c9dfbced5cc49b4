"""Where ways of least cost go on from each node, for all nodes at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Onward", "Outgoing"]


class Outgoing(NamedTuple):
    """Where each node leads to, as arrays.

    Parameters
    ----------
    first : ndarray of int64, shape (nodes + 1,)
        Where the rows of each node begin.
    source, target, price : ndarray of int64
        The node, the next one, and the cost of going there.
    ranked : ndarray of bool
        Whether the next one is a GPU.
    """

    first: np.ndarray
    source: np.ndarray
    target: np.ndarray
    price: np.ndarray
    ranked: np.ndarray


class Onward:
    """For each node the nodes after it on ways of least cost to one target.

    Parameters
    ----------
    outgoing : Outgoing
    cost : list of int
        By node, to the target.
    target : int
    toll_ps : int
        What passing through a GPU costs besides.
    """

    def __init__(self, outgoing: Outgoing, cost: list[int], target: int, toll_ps: int) -> None:
        self.cost = cost
        costs = np.array(cost, np.int64)
        behind = costs[outgoing.target]
        toll = np.where(outgoing.ranked & (outgoing.target != target), toll_ps, 0)
        good = (behind >= 0) & (behind + outgoing.price + toll == costs[outgoing.source])
        self._after: list[int] = outgoing.target[good].tolist()
        self._first: list[int] = np.concatenate([[0], np.cumsum(good)])[outgoing.first].tolist()

    def __getitem__(self, node: int) -> list[int]:
        """Give them in the fabric's order."""
        return self._after[self._first[node] : self._first[node + 1]]
