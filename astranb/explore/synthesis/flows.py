"""Ways of chunks to the ranks that need them, which share the network as well as they can.

What each chunk takes of a port, at a *price* of the port for each byte, is at least the cheapest way between
its ranks; all ports together carry no more in a time than their rates say. So for any prices, the cheapest
ways of all chunks, divided by what the ports are worth for each second, are a bound (the dual of the
concurrent multicommodity flow; a cut is the case of equal prices on it and none elsewhere). The best prices
of small networks are found by a linear program (HiGHS), those of large ones by multiplicative weights
(Young, "Randomized rounding without solving the linear program", SODA 1995): ports that many ways share
become dear. Either also gives the ways.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from astranb.core.arrays import reduce_at
from astranb.core.extras import needs_extra

from .condition import Condition
from .network import RankNetwork

__all__ = ["Flows", "Way", "flows_of", "passes_others"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Way = tuple[int, ...]  # edges, one after the other

_MOST_VARIABLES: Final = 8_000
"""Of the linear program, which takes about a second then; more take minutes."""
_ROUNDS: Final = 48
_SLIGHT: Final = 1e-3
_LEAST_SHARE: Final = 1e-6


@dataclass(frozen=True)
class Flows:
    """The ways of chunks, and what they take at least.

    Attributes
    ----------
    least : float
        Seconds that the network needs for chunks of one byte.
    ways : dict
        By the ranks that hold a chunk and the one that needs it, ways from a holder.
    """

    least: float
    ways: dict[tuple[tuple[int, ...], int], list[Way]]


def passes_others(held: np.ndarray, needed: np.ndarray) -> bool:
    """Return whether some chunks are not needed by all ranks, so that others may have to pass them on."""
    return bool(((needed & ~held).any(axis=0) & ~(needed | held).all(axis=0)).any())


def flows_of(network: RankNetwork, condition: Condition) -> Flows | None:
    """Find ways for the chunks of a condition; None if all ranks need all, or for sums.

    A chunk that several ranks need is followed to the farthest of them only, which is sound.

    Examples
    --------
    Of 16 chunks in a ring of four, eight go one step and four go two, over eight links of 50 GB/s:

    >>> from astranb.explore.synthesis.condition import condition_of
    >>> from astranb.explore.synthesis.network import rank_network
    >>> flows = flows_of(rank_network("ring:gpus=4"), condition_of("all_to_all", 4))
    >>> round(flows.least * 50e9, 3)
    2.0
    """
    held, needed = (condition.matrix(side, network.ranks) for side in ("before", "after"))
    if condition.reduces or not passes_others(held, needed):
        return None
    far = network.times_ps(0, latency_only=True)
    counts: dict[tuple[tuple[int, ...], int], int] = {}
    for chunk in np.flatnonzero((needed & ~held).any(axis=0)).tolist():
        holders = np.flatnonzero(held[:, chunk])
        takers = np.flatnonzero(needed[:, chunk] & ~held[:, chunk])
        target = int(takers[np.argmax(far[np.ix_(holders, takers)].min(axis=0))])
        key = tuple(holders.tolist()), target
        counts[key] = counts.get(key, 0) + 1
    flow = _FlowProblem(network, list(counts), np.array(list(counts.values()), np.float64), far)
    least, ways = flow.solved() if flow.variables <= _MOST_VARIABLES else flow.weighted()
    return Flows(least, {key: sorted(some) for key, some in zip(counts, ways, strict=True)})


class _FlowProblem:
    """The flow problem of some pairs of holders and targets, with the number of chunks of each."""

    def __init__(
        self, network: RankNetwork, keys: list[tuple[tuple[int, ...], int]], counts: Floats, far: Ints
    ) -> None:
        with needs_extra("synthesize"):
            from scipy.sparse import coo_array
            from scipy.sparse.csgraph import dijkstra
        self._array: Any = coo_array
        self._dijkstra = dijkstra
        self.network, self.counts = network, counts
        self.ranks, self.edges = network.ranks, len(network.source)
        self.holders = [holders for holders, _ in keys]
        self.target = np.array([target for _, target in keys], np.int64)
        self.source = np.array(
            [holders[int(np.argmin(far[list(holders), target]))] for holders, target in keys], np.int64
        )
        self.rate = network.rate_Bps.astype(np.float64)
        self.owner = np.repeat(np.arange(self.edges), np.diff(network.first_port))
        self.starts = np.unique(self.source)
        self.variables = len(self.starts) * self.edges

    def solved(self) -> tuple[float, list[set[Way]]]:
        """Solve the linear program: flows of each source over each edge, and the least time for them."""
        with needs_extra("synthesize"):
            from scipy.optimize import linprog
        ranks, edges, sources = self.ranks, self.edges, len(self.starts)
        column = np.arange(self.variables)
        of, edge = np.divmod(column, edges)
        rows = np.concatenate(
            [of * ranks + self.network.target[edge], of * ranks + self.network.source[edge]]
        )
        ones = np.ones(self.variables)
        kept = self._array(
            (np.concatenate([ones, -ones]), (rows, np.tile(column, 2))),
            shape=(sources * ranks, self.variables + 1),
        ).tocsr()
        wanted = np.zeros((sources, ranks))
        number = np.searchsorted(self.starts, self.source)
        np.add.at(wanted, (number, self.target), self.counts)
        others = (np.arange(ranks) != self.starts[:, None]).ravel()
        port, ports = self.network.port, len(self.rate)
        unit = self.rate.max()
        used = np.concatenate([np.tile(port, sources), np.arange(ports)])
        through = (np.arange(sources)[:, None] * edges + self.owner).ravel()
        columns = np.concatenate([through, np.full(ports, self.variables)])
        values = np.concatenate([np.ones(len(through)), -self.rate / unit])
        carried = self._array((values, (used, columns)), shape=(ports, self.variables + 1)).tocsr()
        # Of equally fast ways, those that occupy ports for the least time: fewer get into each other's way.
        price = np.ones(self.variables + 1)
        price[:-1] = np.tile(np.bincount(self.owner, _SLIGHT * unit / self.rate[port] / ports), sources)
        found = linprog(
            price, A_ub=carried, b_ub=np.zeros(ports), A_eq=kept[others], b_eq=wanted.ravel()[others],
            method="highs",
        )  # fmt: skip
        if found.status != 0:
            return self.weighted()
        least = self._least(np.maximum(0, -found.ineqlin.marginals))[0]
        flow = found.x[:-1].reshape(sources, edges)
        ends = zip(number.tolist(), self.source.tolist(), self.target.tolist(), self.counts, strict=True)
        return least, [self._taken(flow[row], source, target, count) for row, source, target, count in ends]

    def _taken(self, flow: Floats, source: int, target: int, amount: float) -> set[Way]:
        """Take an amount out of the flow of a source, way by way, the shortest ones first."""
        found: set[Way] = set()
        while amount > _LEAST_SHARE:
            came: dict[int, int] = {source: -1}
            line = [source]
            for rank in line:
                if target in came:
                    break
                for edge in self._out(rank):
                    other = int(self.network.target[edge])
                    if other not in came and flow[edge] > _LEAST_SHARE:
                        came[other] = edge
                        line.append(other)
            if target not in came:
                break
            way, rank = [], target
            while rank != source:
                way.append(came[rank])
                rank = int(self.network.source[came[rank]])
            share = min(amount, float(flow[way].min()))
            flow[way] -= share
            amount -= share
            found.add(tuple(reversed(way)))
        return found

    def _out(self, rank: int) -> Iterable[int]:
        return np.flatnonzero(self.network.source == rank).tolist()

    def weighted(self) -> tuple[float, list[set[Way]]]:
        """Find prices and ways by multiplicative weights: in each round, the cheapest way of each group."""
        price = 1 / self.rate
        sums, least = np.zeros(len(self.rate)), self._halved()
        ways: list[set[Way]] = [set() for _ in self.counts]
        for number in range(1, _ROUNDS + 1):
            bound, before, edge_of = self._least(price)
            least = max(least, bound)
            load = np.zeros(self.edges)
            for group, way in enumerate(self._cheapest(before, edge_of)):
                load[list(way)] += self.counts[group]
                ways[group].add(way)
            sums += np.bincount(self.network.port, load[self.owner], len(self.rate)) / self.rate
            price = np.exp(4 * number**0.5 * (sums / sums.max() - 1)) / self.rate
        return least, ways

    def _halved(self) -> float:
        """Return the bound of the worst cut between ranks below and from a number: halves of dimensions."""
        network, worst = self.network, 0.0
        lowest = np.array([min(holders) for holders in self.holders])
        highest = np.array([max(holders) for holders in self.holders])
        for rank in range(1, self.ranks):
            for crossing, edges in (
                (
                    (highest < rank) & (self.target >= rank),
                    (network.source < rank) & (network.target >= rank),
                ),
                ((lowest >= rank) & (self.target < rank), (network.source >= rank) & (network.target < rank)),
            ):
                rate = self.rate[np.unique(network.port[edges[self.owner]])].sum()
                if rate:
                    worst = max(worst, float(self.counts[crossing].sum() / rate))
        return worst

    def _least(self, price: Floats) -> tuple[float, Ints, Ints]:
        """Return the bound of prices; and on cheapest ways, the rank before each and the edges of pairs."""
        network, ranks = self.network, self.ranks
        cost = reduce_at(np.add, price[network.port], network.first_port[:-1])
        order = np.lexsort((cost, network.target, network.source))
        first = np.unique(network.source[order] * ranks + network.target[order], return_index=True)[1]
        edge = order[first]
        ends = network.source[edge], network.target[edge]
        edge_of = np.full((ranks, ranks), -1, np.int64)
        edge_of[ends] = edge
        # Zero is no edge to SciPy: what is added to each edge is taken away from the bound again.
        little = cost.max() * 1e-9 + 1e-300
        paid = self._array((cost[edge] + little, ends), shape=(ranks, ranks)).tocsr()
        times, before = self._dijkstra(paid, return_predecessors=True)
        nearest = np.array([times[list(h), t].min() for h, t in zip(self.holders, self.target, strict=True)])
        nearest = np.maximum(0, nearest - little * ranks)
        worth = float((price * self.rate).sum())
        return (float((nearest * self.counts).sum()) / worth if worth else 0.0), before, edge_of

    def _cheapest(self, before: Ints, edge_of: Ints) -> list[Way]:
        """Return the way of each group from its source."""
        rank, going = self.target.copy(), np.arange(len(self.target))
        steps: list[list[int]] = [[] for _ in self.target]
        while len(going):
            earlier = before[self.source[going], rank[going]]
            for group, edge in zip(going.tolist(), edge_of[earlier, rank[going]].tolist(), strict=True):
                steps[group].append(edge)
            rank[going] = earlier
            going = going[earlier != self.source[going]]
        return [tuple(reversed(way)) for way in steps]
