"""Times of single collectives and messages on a cluster, by the message engine."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from astranb.engine.messages import simulate
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    RECV,
    SEND,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
    Workload,
    spanned_dimensions,
)

__all__ = ["CollectiveTimes", "times_on"]

_SIZES: Final = tuple(1 << power for power in (10, 14, 18, 22, 26, 30))
"""Sizes that are simulated; between two of them a time lies on the line through both."""
_MOST_KEPT: Final = 4
_kept: list[tuple[DimensionNetwork | InfraNetwork, System, CollectiveTimes]] = []


class CollectiveTimes:
    """Times of single collectives and messages on a cluster, simulated once for each size and group.

    Parameters
    ----------
    network : DimensionNetwork or InfraNetwork
    system : System
    other : CollectiveTimes, optional
        Of other algorithms for the same collectives: the faster ones are taken.

    Examples
    --------
    >>> from astranb import models
    >>> cluster = models.machine(models.workload("gpt3-350m", models.Parallelism(tensor=8)))
    >>> times = CollectiveTimes(cluster.network, cluster.system)
    >>> eight, two = (times.collective_ns("all_reduce", range(n), 1 << 20) for n in (8, 2))
    >>> eight > two
    True
    """

    def __init__(
        self,
        network: DimensionNetwork | InfraNetwork,
        system: System,
        other: CollectiveTimes | None = None,
    ) -> None:
        self._network, self._system, self._other = network, system, other
        self._known: dict[tuple[str, tuple[int, ...], int], int] = {}

    def collective_ns(self, kind: str, ranks: Sequence[int], size: int) -> int:
        """Return the time of a collective.

        Parameters
        ----------
        kind : str
            Its name, as ``all_reduce``.
        ranks : sequence of int
            Its group, ascending.
        size : int
            Bytes of each rank's input.
        """
        if len(ranks) < 2:
            return 0
        own = self._at(kind, tuple(ranks), size)
        return own if self._other is None else min(own, self._other.collective_ns(kind, ranks, size))

    def message_ns(self, source: int, target: int, size: int) -> int:
        """Return the time of a message, from its sending to its receipt."""
        return self._at("message", (source, target), size)

    def _at(self, kind: str, ranks: tuple[int, ...], size: int) -> int:
        """Interpolate between simulated sizes; beyond them the last line goes on."""
        after = min(max(1, bisect.bisect_left(_SIZES, size)), len(_SIZES) - 1)
        low, high = _SIZES[after - 1], _SIZES[after]
        first, second = (self._simulated(kind, ranks, each) for each in (low, high))
        return max(0, round(first + (second - first) * (size - low) / (high - low)))

    def _simulated(self, kind: str, ranks: tuple[int, ...], size: int) -> int:
        # Groups that are alike but begin at another rank of a node take the same time.
        start = ranks[0] - ranks[0] % math.prod(self._network.npus_count[:1])
        key = kind, tuple(rank - start for rank in ranks), size
        if key not in self._known:
            self._known[key] = self._run(kind, ranks, size)
        return self._known[key]

    def _run(self, kind: str, ranks: tuple[int, ...], size: int) -> int:
        whole = len(ranks) == self._network.npus
        network, system, first = self._spanned(ranks)
        ranks = tuple(rank - first for rank in ranks)
        operations = [Operations.of([])] * network.npus
        along = 0
        if kind == "message":
            (source, target), about = ranks, {"tag": 1, "bytes": size}
            operations[source] = Operations.of([{"kind": SEND, "peer": target, **about}])
            operations[target] = Operations.of([{"kind": RECV, "peer": source, **about}])
        else:
            # Along dimensions all groups like this one do it at once, as in a step.
            along = spanned_dimensions(ranks, network.npus_count) if system.group_dimensions else 0
            row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES[kind], "bytes": size}
            if along:
                one = Operations.of([{**row, "involved": along}])
                operations = [one] * network.npus
            else:
                one = Operations.of([{**row, "group": -1 if whole else 1}])
                for rank in ranks:
                    operations[rank] = one
        groups = {} if along else {1: list(ranks)}
        work = Workload(operations, network, system, groups=groups)
        return int(simulate(work).end_ns.max())

    def _spanned(self, ranks: tuple[int, ...]) -> tuple[DimensionNetwork | InfraNetwork, System, int]:
        """Return the first dimensions, which the ranks do not leave, as a network; and its first rank."""
        network = self._network
        if not isinstance(network, DimensionNetwork):
            return network, self._system, 0
        for dims in range(1, len(network.npus_count)):
            inside = math.prod(network.npus_count[:dims])
            if ranks[0] // inside == max(ranks) // inside == min(ranks) // inside:
                part = DimensionNetwork(
                    network.topology[:dims], network.npus_count[:dims], network.bandwidth[:dims],
                    network.latency[:dims], network.where,
                )  # fmt: skip
                chosen = {key: each[:dims] for key, each in self._system.algorithms.items()}
                return part, replace(self._system, algorithms=chosen), ranks[0] // inside * inside
        return network, self._system, 0


def times_on(network: DimensionNetwork | InfraNetwork, system: System) -> CollectiveTimes:
    """Return the times on a cluster; those that are known of the clusters used last are kept.

    Parameters
    ----------
    network : DimensionNetwork or InfraNetwork
    system : System
    """
    found = next((one for one in _kept if one[:2] == (network, system)), None)
    if found is None:
        found = network, system, CollectiveTimes(network, system)
    _kept[:] = [found, *(one for one in _kept if one is not found)][:_MOST_KEPT]
    return found[2]
