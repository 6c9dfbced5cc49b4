"""The hierarchical network of ASTRA-sim 1.0's analytical backend: delays, dollars.

Source: astra-network-analytical (MIT licence), tag ``tutorial-asplos2022``. A message pays its
hops' latency and its bytes once; links are never busy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from astranb.core.errors import InputError

__all__ = ["COSTS", "TOPOLOGIES", "HierarchicalNetwork"]

_LONGEST_PS: Final = 1 << 52

TOPOLOGIES: Final = ("Ring", "FullyConnected", "Switch")

COSTS: Final[Mapping[str, tuple[float, float, float]]] = {
    "Tile": (1.0, 0.0, 0.0),
    "Package": (4.0, 13.0, 0.0),
    "Node": (4.0, 13.0, 0.0),
    "Pod": (7.4, 23.7, 47.8),
}
"""Dollars for each GB/s of a link, of a switch's port and of a NIC, by what a dimension joins."""


@dataclass(frozen=True)
class HierarchicalNetwork:
    """Rings, switches and complete graphs, one in each dimension; the first joins neighbouring ranks.

    Parameters
    ----------
    topologies : tuple of str
        ``Ring``, ``FullyConnected`` or ``Switch``, for each dimension.
    units : tuple of int
        NPUs in each dimension.
    links : tuple of int
        Links of an NPU in each dimension.
    latency_ns : tuple of float
        Of one link.
    bandwidth : tuple of float
        Of one link, in GB/s (10^9 bytes; ASTRA-sim 1.0 takes it for GiB/s).
    kinds : tuple of str
        What a dimension joins: ``Tile``, ``Package``, ``Node`` or ``Pod``. Only the cost depends on it.
    nic_ns, router_ns : tuple of float
        A message passes a NIC twice, and a router where there is a switch.
    hbm_ns, hbm_bandwidth, hbm_scale : tuple of float
        A message takes at least ``hbm_scale * (hbm_ns + bytes / hbm_bandwidth)``.
    compat : bool
        As ASTRA-sim 1.0: bandwidths in GiB/s, each part of a delay cut to whole nanoseconds, and
        of the dimensions that a message crosses only the last one is paid for.
    where : str
        The file's name, for messages.

    Raises
    ------
    InputError
        The lists do not fit, or a dimension has no bandwidth.

    Examples
    --------
    >>> ring = HierarchicalNetwork(("Ring",), (8,), (2,), (500,), (50,), compat=True)
    >>> ring.delay_ps(np.array([0]), np.array([1]), 32768).tolist()
    [805000]
    >>> ring.cost_dollars
    1600.0
    """

    topologies: tuple[str, ...]
    units: tuple[int, ...]
    links: tuple[int, ...]
    latency_ns: tuple[float, ...]
    bandwidth: tuple[float, ...]
    kinds: tuple[str, ...] = ()
    nic_ns: tuple[float, ...] = ()
    router_ns: tuple[float, ...] = ()
    hbm_ns: tuple[float, ...] = ()
    hbm_bandwidth: tuple[float, ...] = ()
    hbm_scale: tuple[float, ...] = ()
    compat: bool = False
    where: str = "network"

    def __post_init__(self) -> None:
        """Fill what is left out, and check."""
        count = len(self.topologies)
        for name, value in (
            ("kinds", "Node"),
            ("nic_ns", 0.0),
            ("router_ns", 0.0),
            ("hbm_ns", 0.0),
            ("hbm_bandwidth", 1.0),
            ("hbm_scale", 0.0),
        ):
            if not getattr(self, name):
                object.__setattr__(self, name, (value,) * count)
        if not 1 <= count <= 10:
            raise InputError(f"{count} dimensions", where=self.where, hint="describe 1 to 10")
        for dim, scale in enumerate(self._scales):
            if scale == 0:
                need = self.units[dim] - 1 if self.topologies[dim] == "FullyConnected" else 2
                what = f"dimension {dim} ({self.topologies[dim]}) has {self.links[dim]} links of an NPU"
                raise InputError(f"{what}: no bandwidth", where=self.where, hint=f"give {need} or more")

    @property
    def npus(self) -> int:
        """How many NPUs there are."""
        return math.prod(self.units)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """From one NPU of a dimension to the next, in ranks."""
        return tuple(math.prod(self.units[:dim]) for dim in range(len(self.units)))

    @cached_property
    def _scales(self) -> tuple[int, ...]:
        """Links that a message uses at once: both ways round a ring, all of a switch's."""
        result = []
        for kind, units, links in zip(self.topologies, self.units, self.links, strict=True):
            if units == 1:
                result.append(max(links, 1))
            elif kind == "Ring":
                # The peer leaves out one of an odd number.
                result.append(links - links % 2 if self.compat else links)
            elif kind == "FullyConnected":
                result.append(links // (units - 1))
            else:
                result.append(links)
        return tuple(result)

    @cached_property
    def rates_Bpns(self) -> tuple[float, ...]:  # noqa: N802 - unit in the name
        """Bytes a nanosecond of a message in each dimension."""
        # In this order: a quotient that comes out whole is cut as the peer's is.
        links = [float(one) * (1 << 30) / 1_000_000_000 if self.compat else one for one in self.bandwidth]
        return tuple(one * scale for one, scale in zip(links, self._scales, strict=True))

    def link_bandwidth(self, dim: int) -> float:
        """GB/s between two neighbours, one way: a ring has half of its links in each direction."""
        return self.bandwidth[dim] * self._scales[dim] / (2 if self.topologies[dim] == "Ring" else 1)

    @cached_property
    def total_bandwidth(self) -> tuple[float, ...]:
        """GB/s of an NPU into each dimension: what Themis balances by."""
        result = []
        for dim, scale in enumerate(self._scales):
            full = self.topologies[dim] == "FullyConnected" and self.units[dim] > 1
            result.append(self.bandwidth[dim] * scale * (self.units[dim] - 1 if full else 1))
        return tuple(result)

    def last_dim(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Give the last dimension in which two NPUs differ, -1 for none."""
        found = np.full(np.broadcast(src, dst).shape, -1)
        for dim, (units, stride) in enumerate(zip(self.units, self.strides, strict=True)):
            found = np.where(src // stride % units != dst // stride % units, dim, found)
        return found

    def delay_ps(self, src: np.ndarray, dst: np.ndarray, size: int) -> np.ndarray:
        """Give the times of messages, in picoseconds.

        Parameters
        ----------
        src, dst : ndarray of int
            Ranks.
        size : int
            Bytes of each message.
        """
        last = self.last_dim(src, dst)
        taken = np.zeros(last.shape)
        wire = np.zeros(last.shape)
        least = np.zeros(last.shape)
        for dim, kind in enumerate(self.topologies):
            units = self.units[dim]
            apart = np.abs(src // self.strides[dim] % units - dst // self.strides[dim] % units)
            crossed = (last == dim) if self.compat else (apart > 0)
            hops = {"Ring": np.minimum(apart, units - apart), "FullyConnected": 1, "Switch": 2}[kind]
            part = hops * self.latency_ns[dim]
            serial = size / self.rates_Bpns[dim]
            router = self.router_ns[dim] if kind == "Switch" else 0.0
            if self.compat:
                part = np.trunc(np.trunc(part) + serial)
                part = np.trunc(np.trunc(part + 2 * self.nic_ns[dim]) + router)
            else:
                part = part + 2 * self.nic_ns[dim] + router
                wire = np.where(crossed, np.maximum(wire, serial), wire)
            taken = taken + np.where(crossed, part, 0.0)
            floor = self.hbm_scale[dim] * (self.hbm_ns[dim] + size / self.hbm_bandwidth[dim])
            least = np.where(crossed, np.maximum(least, floor), least)
        time_ps = np.rint(np.maximum(taken + wire, least) * 1000)
        if time_ps.max(initial=0) > _LONGEST_PS:
            what = f"a message of {size} bytes takes over an hour"
            raise InputError(what, where=self.where, hint="correct link-latency, link-bandwidth or the size")
        whole: np.ndarray = time_ps.astype(np.int64)
        return whole

    @cached_property
    def cost_dollars(self) -> float:
        """What links, switches and NICs cost, by their bandwidths (ASTRA-sim 1.0's table, ``COSTS``)."""
        total = 0.0
        for dim, (kind, units, links) in enumerate(zip(self.topologies, self.units, self.links, strict=True)):
            link, switch, nic = COSTS[self.kinds[dim]]
            groups = self.npus // units
            if kind == "Ring":
                half = links // 2 if self.compat else links / 2
                total += link * groups * units * half * self.bandwidth[dim]
            elif kind == "FullyConnected":
                each = links // max(units - 1, 1)
                total += link * groups * (units * (units - 1) // 2) * each * self.bandwidth[dim]
            else:
                below = self.strides[dim] * units
                switches = self.npus // below
                ports = below * links
                total += (link + switch + nic) * switches * ports * self.bandwidth[dim]
        return total
