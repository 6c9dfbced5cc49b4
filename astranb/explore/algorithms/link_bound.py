"""The least time of a collective by the bandwidth of links, whatever its algorithm.

What has to leave and enter a rank, and all ranks of a box together, crosses the links around them that
routes between ranks use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Final, NamedTuple

import numpy as np

from astranb.net import Fabric

__all__ = ["LinkBound"]

_Crossing = Callable[[float, bool], tuple[float, float]]

# Of the larger buffer, by the share of all ranks that a part has and whether the root is one of them: what
# has to leave the part, and what has to enter it. A reduction sends partial sums.
_CROSSING: Final[dict[str, _Crossing]] = {
    "all_gather": lambda share, _: (share, 1 - share),
    "reduce_scatter": lambda share, _: (1 - share, share),
    "all_reduce": lambda _, __: (1.0, 1.0),
    "broadcast": lambda _, root: (1.0, 0.0) if root else (0.0, 1.0),
    "reduce": lambda _, root: (0.0, 1.0) if root else (1.0, 0.0),
    "scatter": lambda share, root: (1 - share, 0.0) if root else (0.0, share),
    "gather": lambda share, root: (0.0, 1 - share) if root else (share, 0.0),
    "send_recv": lambda _, __: (1.0, 1.0),
}


class _Part(NamedTuple):
    """Some of the ranks, and the bandwidth of the links around them."""

    ranks: frozenset[int]
    out_Bps: float  # noqa: N815 - the unit
    in_Bps: float  # noqa: N815


@dataclass(frozen=True)
class LinkBound:
    """Bound of a collective's time by the links of a machine.

    Attributes
    ----------
    ranks : int
    divisions : tuple of tuple of _Part
        The ranks divided into parts: each rank alone, and the boxes where there are several.
    """

    ranks: int
    divisions: tuple[tuple[_Part, ...], ...]

    @classmethod
    def of(cls, fabric: Fabric) -> LinkBound:
        """Return the bound of a fabric."""
        source, target = fabric.ends
        routes, _ = fabric.routes(permutations(range(len(fabric.gpus)), 2))
        rate = np.zeros(len(fabric.links))
        rate[routes.links] = np.asarray(fabric.links["bandwidth_Bps"])[routes.links]

        def parts(places: np.ndarray) -> tuple[_Part, ...]:
            at = places[fabric.gpus]
            out, into = (places[one] for one in (source, target))
            return tuple(
                _Part(
                    frozenset(np.flatnonzero(at == place).tolist()),
                    float(rate[(out == place) & (into != place)].sum()),
                    float(rate[(into == place) & (out != place)].sum()),
                )
                for place in dict.fromkeys(at.tolist())
            )

        divisions = parts(np.arange(len(fabric.graph))), parts(np.asarray(fabric.graph.nodes.instance))
        return cls(len(fabric.gpus), tuple(one for one in divisions if len(one) > 1))

    def least_us(self, collective: str, size: int, root: int = 0, *, in_switch: bool = False) -> float:
        """Return the time that the bytes of a collective take at the full bandwidth of the links.

        Parameters
        ----------
        collective : str
        size : int
            Bytes of the larger buffer of a rank.
        root : int
        in_switch : bool
            Whether switches may add and copy.

        Examples
        --------
        Each of four ranks sends and receives three halves of what an all-reduce adds, at 50 GB/s:

        >>> from astranb.infragraph import blueprint
        >>> from astranb.net import compile_fabric
        >>> bound = LinkBound.of(compile_fabric(blueprint("switch:gpus=4").expand()))
        >>> bound.least_us("all_reduce", 10**9)
        30000.0
        """
        least_s = 0.0
        for parts in self.divisions:
            for part in parts:
                out, into = self._crossing(collective, len(part.ranks), root in part.ranks)
                for share, rate in ((out, part.out_Bps), (into, part.in_Bps)):
                    if rate:
                        least_s = max(least_s, share * size / rate)
            total = sum(part.out_Bps for part in parts)
            if collective == "all_reduce" and not in_switch and total:
                # Every byte but one part's goes to a sum, and every sum to all parts but one.
                least_s = max(least_s, 2 * (len(parts) - 1) * size / total)
        return least_s * 1e6

    def _crossing(self, collective: str, ranks: int, root: bool) -> tuple[float, float]:
        share = ranks / self.ranks
        if collective == "all_to_all":  # the buffer of each rank has a part for every rank
            return (ranks * (1 - share),) * 2
        return _CROSSING[collective](share, root)
