"""Lower bound of a collective's time: by the capacity of every cut of the network, and by latency.

The first bound is ForestColl's optimum (Zhao et al., arXiv 2402.06787): of every set of nodes that lacks a
rank, what the rank needs and only the set has must leave it, over the links that do; the worst such cut is
found with maximum flows. It is computed for every rank that needs something, and, with time reversed, for
every rank that alone has something. That is sound for any condition: each rank's flow alone has to fit.
Where chunks go to some ranks only, what they take of links on their way is the second one (``flows.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Any, Final

import numpy as np

from astranb.core.extras import needs_extra

from .condition import Condition
from .flows import Flows, flows_of
from .network import RankNetwork

__all__ = ["SpeedLimit", "speed_limit"]

_MOST_RANKS: Final = 256
_SAMPLED: Final = 64
"""Of more ranks, so many spread ones have a maximum flow each: a few hundredths of a second. That finds every
cut between sets of ranks that lack and have one of them; others around single ranks are looked at besides."""
_MOST_FLOW: Final = 2**31 - 1
_ROUNDING: Final = 1e-9  # of floating-point numbers, so that the bound stays one


@dataclass(frozen=True)
class SpeedLimit:
    """The least time of a collective.

    Attributes
    ----------
    bandwidth_ps : int
        By what links carry, and the latency of one link, which the last byte has to pass: of sums that
        several ranks need, the time of the sums and then of the copies.
    latency_ps : int
        By the latency of the longest way that a chunk has to go.
    cut : tuple of int
        The ranks in the set whose links out are the bottleneck (or in, of sums); none of prices.
    cuts : str
        ``"all"``, or ``"sampled"`` where there are too many ranks for a maximum flow each; ``"prices"`` where
        chunks have to share links on their ways, which takes longer than over any one cut.
    """

    bandwidth_ps: int
    latency_ps: int
    cut: tuple[int, ...]
    cuts: str

    @property
    def time_ps(self) -> int:
        """The greater of both."""
        return max(self.bandwidth_ps, self.latency_ps)


def speed_limit(
    network: RankNetwork, condition: Condition, chunk_bytes: int, flows: Flows | None = None
) -> SpeedLimit:
    """Return the least time that a collective takes in a network.

    Parameters
    ----------
    network : RankNetwork
    condition : Condition
    chunk_bytes : int
        Bytes of each of the condition's chunks.
    flows : Flows, optional
        Those of the condition, if they are known already.

    Examples
    --------
    Each rank of a ring of four gets three chunks over two links of 50 GB/s, whose latency is 500 ns:

    >>> from astranb.explore.synthesis.condition import condition_of
    >>> from astranb.explore.synthesis.network import rank_network
    >>> network = rank_network("ring:gpus=4")
    >>> speed_limit(network, condition_of("all_gather", 4), 10**6).bandwidth_ps
    30500000
    """
    before, after = (condition.matrix(side, network.ranks) for side in ("before", "after"))
    if condition.reduces:
        owned = np.zeros_like(after)
        for chunk, rank in condition.owners.items():
            owned[rank, chunk] = True
        parts = [(True, owned, before & owned.any(axis=0)), (False, owned, after)]
    else:
        parts = [(False, before, after)]
    ends = list(range(network.ranks))
    cuts = "all"
    if len(ends) > _MOST_RANKS:  # multiples of the golden ratio: they do not fall into one row of a grid
        ends = sorted({int(k * 0.6180339887 % 1 * len(ends)) for k in range(_SAMPLED)})
        cuts = "sampled"
    bandwidth_ps, latency_ps, longest_ps = 0, 0, -1
    cut: tuple[int, ...] = ()
    for backward, held, needed in parts:
        worst, ranks = _worst_cut(network, held, needed, ends, backward=backward)
        time_ps = int(worst * chunk_bytes * 10**12) + (_least_latency_ps(network) if worst else 0)
        bandwidth_ps += time_ps
        if time_ps > longest_ps:
            longest_ps, cut = time_ps, ranks
        latency_ps += _latency_ps(network.reversed() if backward else network, held, needed)
    flows = flows or flows_of(network, condition)
    if flows is not None:
        time_ps = int(flows.least * (1 - _ROUNDING) * chunk_bytes * 10**12) + _least_latency_ps(network)
        if time_ps > bandwidth_ps:
            bandwidth_ps, cut, cuts = time_ps, (), "prices"
    return SpeedLimit(bandwidth_ps, latency_ps, cut, cuts)


def _least_latency_ps(network: RankNetwork) -> int:
    """Return the least latency of a link that edges use: what crosses a cut takes it."""
    used = [lane for lanes in network.lanes for lane in lanes]
    return int(network.fabric.links["latency_ps"][used].min())


def _latency_ps(network: RankNetwork, held: np.ndarray, needed: np.ndarray) -> int:
    """Return the latency of the longest way that a chunk has to go from the nearest rank that has it."""
    times = network.times_ps(0, latency_only=True)
    longest = 0
    for chunk in range(held.shape[1]):
        ends = np.flatnonzero(needed[:, chunk])
        if len(ends):
            longest = max(longest, int(times[held[:, chunk]][:, ends].min(axis=0).max()))
    return longest


def _worst_cut(
    network: RankNetwork, held: np.ndarray, needed: np.ndarray, ends: list[int], *, backward: bool
) -> tuple[Fraction, tuple[int, ...]]:
    """Return the chunks that have to cross a cut for each byte per second over it, of the worst cut.

    All cuts around single ranks, and all with one of some ranks at an end.
    """
    links = _Links(network, backward=backward)
    missing = needed & ~held
    worst, cut = Fraction(0), tuple[int, ...]()
    alone = held & (held.sum(axis=0) == 1)
    wanted = missing.any(axis=0)
    for rank in range(network.ranks):
        for count, rate, inside in (
            (int(missing[rank].sum()), links.into(rank), False),
            (int((alone[rank] & wanted).sum()), links.out_of(rank), True),
        ):
            if count and rate and Fraction(count, rate) > worst:
                others = tuple(other for other in range(network.ranks) if other != rank)
                worst, cut = Fraction(count, rate), (rank,) if inside else others
    into = _MaximumFlows(links, network.fabric.gpus.tolist())
    for rank in ends:
        worst, cut = into.worse(worst, cut, *_classes(held[:, missing[rank]]), rank)
    back = _MaximumFlows(_Links(network, backward=not backward), network.fabric.gpus.tolist())
    for rank in ends:
        unicast = missing[:, alone[rank]]
        unicast = unicast[:, unicast.any(axis=0)]
        only = np.zeros_like(unicast)  # one of those that need it: what all need, this one needs
        only[np.argmax(unicast, axis=0), np.arange(unicast.shape[1])] = True
        worst, cut = back.worse(worst, cut, *_classes(only), rank)
    return worst, cut


def _classes(holders: np.ndarray) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return the sets of ranks that hold chunks, and how many chunks each holds."""
    counts: dict[tuple[int, ...], int] = {}
    for column in holders.T:
        ranks = tuple(np.flatnonzero(column).tolist())
        counts[ranks] = counts.get(ranks, 0) + 1
    return list(counts), list(counts.values())


class _Links:
    """Bytes per second from node to node over the links on which the edges of a network are."""

    def __init__(self, network: RankNetwork, *, backward: bool) -> None:
        fabric = network.fabric
        used = np.zeros(len(fabric.links), bool)
        for lanes in network.lanes:
            used[lanes] = True
        links = fabric.links[used]
        ends = (links["dst"], links["src"]) if backward else (links["src"], links["dst"])
        self.nodes = len(fabric.graph)
        key = ends[0].astype(np.int64) * self.nodes + ends[1]
        pairs, place = np.unique(key, return_inverse=True)
        rate = np.zeros(len(pairs), np.int64)
        np.add.at(rate, place, links["bandwidth_Bps"])
        self.source, self.target, self.rate_Bps = pairs // self.nodes, pairs % self.nodes, rate
        self._in = np.bincount(self.target, rate, self.nodes)[fabric.gpus].astype(np.int64).tolist()
        self._out = np.bincount(self.source, rate, self.nodes)[fabric.gpus].astype(np.int64).tolist()

    def into(self, rank: int) -> int:
        """Return bytes per second of all links into a rank."""
        return int(self._in[rank])

    def out_of(self, rank: int) -> int:
        """Return bytes per second of all links out of a rank."""
        return int(self._out[rank])


class _MaximumFlows:
    """Maximum flows to ranks, with capacities in whole numbers."""

    def __init__(self, links: _Links, gpus: list[int]) -> None:
        with needs_extra("synthesize"):
            from scipy.sparse import csr_array
            from scipy.sparse.csgraph import breadth_first_order, maximum_flow
        self._array: Any = csr_array
        self._reach, self._flow = breadth_first_order, maximum_flow
        self.links, self.gpus = links, gpus
        unit = 0
        for rate in links.rate_Bps.tolist():
            unit = gcd(unit, rate)
        self.unit = max(unit, 1)

    def worse(
        self,
        worst: Fraction,
        cut: tuple[int, ...],
        classes: list[tuple[int, ...]],
        counts: list[int],
        rank: int,
    ) -> tuple[Fraction, tuple[int, ...]]:
        """Return the worst cut between those that hold chunks and a rank, if it is worse than the one known.

        Where what is known would take a time in which the flow to the rank is too small, the least cut of
        that flow is worse; its time is tried next, until the flow is large enough.
        """
        while classes:
            found = self._least(worst, classes, counts, rank)
            if found is None or found[0] <= worst:
                break
            worst, cut = found
        return worst, cut

    def _least(
        self, time: Fraction, classes: list[tuple[int, ...]], counts: list[int], rank: int
    ) -> tuple[Fraction, tuple[int, ...]] | None:
        """Return the least cut of what can flow to a rank in a time; None if all that it needs can."""
        links, nodes = self.links, self.links.nodes
        # In units: capacity rate * time, and chunks; both times the denominator.
        scaled = time * self.unit
        top, bottom = scaled.numerator, scaled.denominator
        rates = [rate // self.unit for rate in links.rate_Bps.tolist()]
        largest = max(max(rates) * top, sum(counts) * bottom)
        shrink = -(-largest // (_MOST_FLOW // 4))
        capacity = [-(-rate * top // shrink) for rate in rates]  # rounded up: the bound stays one
        supply = [count * bottom // shrink for count in counts]
        root, first = nodes, nodes + 1
        source, target = links.source.tolist(), links.target.tolist()
        for number, (ranks, amount) in enumerate(zip(classes, supply, strict=True)):
            source.append(root)
            target.append(first + number)
            capacity.append(amount)
            source += [first + number] * len(ranks)
            target += [self.gpus[holder] for holder in ranks]
            capacity += [amount] * len(ranks)
        size = first + len(classes)
        graph = self._array((np.array(capacity, np.int32), (source, target)), shape=(size, size))
        flow = self._flow(graph, root, self.gpus[rank])
        if flow.flow_value >= sum(supply):
            return None
        rest = graph - flow.flow
        rest.data[rest.data < 0] = 0
        rest.eliminate_zeros()
        inside = np.zeros(size, bool)
        inside[self._reach(rest, root, return_predecessors=False)] = True
        crossing = inside[links.source] & ~inside[links.target]
        rate = int(links.rate_Bps[crossing].sum())
        count = sum(c for number, c in enumerate(counts) if inside[first + number])
        if not rate or not count:
            return None
        ranks = tuple(number for number, node in enumerate(self.gpus) if inside[node])
        return Fraction(count, rate), ranks
