"""The hierarchical network of ASTRA-sim 1.0's analytical backend: its file, delays and cost.

Source: astra-network-analytical (MIT licence), tag ``tutorial-asplos2022``. A message takes
the latency of its hops and the time of its bytes once; links are never busy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from astranb.core.document import DocumentNode, DocumentSource, read_document
from astranb.core.errors import InputError, near
from astranb.core.file_formats import names_format
from astranb.core.keywords import hinted_class
from astranb.core.limits import MOST_RANKS
from astranb.net import PLACES, PerDimension, per_dimension, repeat_values

__all__ = ["HierarchicalNetwork", "read_network"]

_LONGEST_PS: Final = 1 << 52
_MOST_BYTES: Final = 16 << 20

_TOPOLOGIES: Final = ("Ring", "FullyConnected", "Switch")


@hinted_class(npus="write units", latency="write latency_ns")
@dataclass(frozen=True)
class HierarchicalNetwork:
    """A ring, a switch or a full mesh in each dimension; the first dimension joins neighbouring ranks.

    Each parameter but ``compat`` is one value for all dimensions, or a list with one for each.

    Parameters
    ----------
    topologies : str or sequence of str
        ``Ring``, ``FullyConnected`` or ``Switch``.
    units : int or sequence of int
        Number of NPUs in each dimension.
    links : int or sequence of int
        Number of links of an NPU in each dimension.
    latency_ns : float or sequence of float
        Of one link.
    bandwidth : float or sequence of float
        Of one link, in GB/s (10^9 bytes; with ``compat`` in GiB/s as in ASTRA-sim 1.0).
    kinds : str or sequence of str
        Kind of a dimension: ``Tile``, ``Package``, ``Node`` or ``Pod``. Only the cost depends on it.
    nic_ns, router_ns : float or sequence of float
        A message crosses a NIC twice, and in a ``Switch`` dimension a router.
    hbm_ns, hbm_bandwidth, hbm_scale : float or sequence of float
        A message takes at least ``hbm_scale * (hbm_ns + bytes / hbm_bandwidth)``.
    compat : bool
        As ASTRA-sim 1.0: bandwidths in GiB/s, each part of a delay truncated to nanoseconds, and
        of the dimensions that a message crosses only the last one counts.
    where : str
        The file's name, for error messages.

    Raises
    ------
    InputError
        The lists do not fit together, a topology is unknown, or a dimension has no bandwidth.

    Examples
    --------
    >>> ring = HierarchicalNetwork("Ring", units=8, links=2, latency_ns=500, bandwidth=50, compat=True)
    >>> ring.delay_ps(np.array([0]), np.array([1]), 32768).tolist()
    [805000]
    >>> ring.cost_dollars
    1600.0
    >>> torus = HierarchicalNetwork("Ring", units=[4, 4, 4], links=2, latency_ns=500, bandwidth=[32, 16, 16])
    >>> torus.topologies, torus.npus
    (('Ring', 'Ring', 'Ring'), 64)
    """

    topologies: PerDimension[str] = per_dimension()
    units: PerDimension[int] = per_dimension()
    links: PerDimension[int] = per_dimension()
    latency_ns: PerDimension[float] = per_dimension()
    bandwidth: PerDimension[float] = per_dimension()
    kinds: PerDimension[str] = per_dimension("Node")
    nic_ns: PerDimension[float] = per_dimension(0.0)
    router_ns: PerDimension[float] = per_dimension(0.0)
    hbm_ns: PerDimension[float] = per_dimension(0.0)
    hbm_bandwidth: PerDimension[float] = per_dimension(1.0)
    hbm_scale: PerDimension[float] = per_dimension(0.0)
    compat: bool = False
    where: str = "network"

    def __post_init__(self) -> None:
        """Check everything."""
        count = repeat_values(self, [name for name, _ in _LISTS.values()], self.where)
        if not 1 <= count <= 10:
            raise InputError(f"{count} dimensions", where=self.where, hint="give 1 to 10")
        for kind in self.topologies:
            if kind not in _TOPOLOGIES:
                what, hint = f"unknown topology {kind!r:.40}", near(str(kind), _TOPOLOGIES)
                raise InputError(what, where=self.where, hint=hint)
        for dim, scale in enumerate(self.scales):
            if scale == 0:
                need = self.units[dim] - 1 if self.topologies[dim] == "FullyConnected" else 2
                what = f"dimension {dim} ({self.topologies[dim]}) has {self.links[dim]} links per NPU"
                raise InputError(
                    f"{what}, so its bandwidth is zero", where=self.where, hint=f"give {need} or more"
                )

    @property
    def npus(self) -> int:
        """Number of NPUs."""
        return math.prod(self.units)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Distance in ranks between neighbours in each dimension."""
        return tuple(math.prod(self.units[:dim]) for dim in range(len(self.units)))

    @cached_property
    def scales(self) -> tuple[int, ...]:
        """Number of links that a message uses at once: in rings and switches all links of the NPU."""
        result = []
        for kind, units, links in zip(self.topologies, self.units, self.links, strict=True):
            if units == 1:
                result.append(max(links, 1))
            elif kind == "Ring":
                # ASTRA-sim 1.0 leaves out one of an odd number.
                result.append(links - links % 2 if self.compat else links)
            elif kind == "FullyConnected":
                result.append(links // (units - 1))
            else:
                result.append(links)
        return tuple(result)

    @cached_property
    def rates_Bpns(self) -> tuple[float, ...]:  # noqa: N802 - unit in the name
        """Bytes per nanosecond of a message in each dimension."""
        # In this order, so that a quotient is rounded as in ASTRA-sim 1.0.
        links = [float(one) * (1 << 30) / 1_000_000_000 if self.compat else one for one in self.bandwidth]
        return tuple(one * scale for one, scale in zip(links, self.scales, strict=True))

    def link_bandwidth(self, dim: int) -> float:
        """GB/s from one neighbour to another: a ring has half of its links in each direction."""
        return self.bandwidth[dim] * self.scales[dim] / (2 if self.topologies[dim] == "Ring" else 1)

    @cached_property
    def total_bandwidth(self) -> tuple[float, ...]:
        """GB/s of an NPU into each dimension, which Themis balances."""
        result = []
        for dim, scale in enumerate(self.scales):
            full = self.topologies[dim] == "FullyConnected" and self.units[dim] > 1
            result.append(self.bandwidth[dim] * scale * (self.units[dim] - 1 if full else 1))
        return tuple(result)

    def last_dim(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Return the last dimension in which two NPUs differ, -1 for none."""
        found = np.full(np.broadcast(src, dst).shape, -1)
        for dim, (units, stride) in enumerate(zip(self.units, self.strides, strict=True)):
            found = np.where(src // stride % units != dst // stride % units, dim, found)
        return found

    def delay_ps(self, src: np.ndarray, dst: np.ndarray, size: int) -> np.ndarray:
        """Return the times of messages, in picoseconds.

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
            distance = np.abs(src // self.strides[dim] % units - dst // self.strides[dim] % units)
            crossed = (last == dim) if self.compat else (distance > 0)
            hops = {"Ring": np.minimum(distance, units - distance), "FullyConnected": 1, "Switch": 2}[kind]
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
        """Cost of links, switches and NICs by their bandwidths, from ASTRA-sim 1.0's table."""
        total = 0.0
        for dim, (kind, units, links) in enumerate(zip(self.topologies, self.units, self.links, strict=True)):
            link, switch, nic = (price or 0.0 for price in PLACES[self.kinds[dim]])
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


# The file.

_LISTS: Final[Mapping[str, tuple[str, Callable[[DocumentNode], Any]]]] = {
    "topologies-per-dim": ("topologies", lambda node: node.choice(_TOPOLOGIES)),
    "units-count": ("units", lambda node: node.number(1, MOST_RANKS)),
    "links-count": ("links", lambda node: node.number(1, MOST_RANKS)),
    "link-latency": ("latency_ns", lambda node: node.real(0, 1e12)),
    "link-bandwidth": ("bandwidth", lambda node: node.real(1e-6, 1e9)),
    # ASTRA-sim 1.0 reads every other word as Node; its own samples have some.
    "dimension-type": ("kinds", lambda node: node.text() if node.text() in PLACES else "Node"),
    "nic-latency": ("nic_ns", lambda node: node.real(0, 1e12)),
    "router-latency": ("router_ns", lambda node: node.real(0, 1e12)),
    "hbm-latency": ("hbm_ns", lambda node: node.real(0, 1e12)),
    "hbm-bandwidth": ("hbm_bandwidth", lambda node: node.real(1e-6, 1e9)),
    "hbm-scale": ("hbm_scale", lambda node: node.real(0, 1e6)),
}
_NEEDED: Final = ("topologies-per-dim", "units-count", "links-count", "link-latency", "link-bandwidth")
_YAML_KEYS: Final = {
    "topology": "topologies-per-dim",
    "npus_count": "units-count",
    "bandwidth": "link-bandwidth",
    "latency": "link-latency",
}
_KEYS: Final = ("topology-name", "dimensions-count", "use-fast-version", *_LISTS)


def _yaml_document(path: str | Path) -> DocumentNode:
    """Read YAML of the congestion-aware backend as the equivalent JSON: one link in each direction."""
    node = read_document(path, _MOST_BYTES)
    value = node.value
    if not isinstance(value, dict):
        raise node.error(f"an object is expected, not {node.brief}", "see ASTRA-sim's examples")
    for key in value:
        if key not in _YAML_KEYS:
            raise node.get(key).error(f"unknown key {key[:60]!r}", near(key[:60], _YAML_KEYS))
    document = {name: node.get(key).value for key, name in _YAML_KEYS.items()}
    if isinstance(value["topology"], str):
        document["topologies-per-dim"] = [value["topology"]]
    source = DocumentSource(str(path))
    kinds = [
        kind.choice(_TOPOLOGIES) for kind in DocumentNode(document["topologies-per-dim"], source).items()
    ]
    units = [count.number(1, MOST_RANKS) for count in node.get("npus_count").items()]
    full = [max(count - 1, 1) for count in units]
    document["links-count"] = [
        {"Ring": 2, "Switch": 1}.get(kind, most) for kind, most in zip(kinds, full, strict=False)
    ]
    return DocumentNode(document, source)


@names_format("network", "network 1.0")
def read_network(
    path: str | Path, *, compat: bool = False, changes: Mapping[str, Sequence[float]] | None = None
) -> HierarchicalNetwork:
    """Read a network file.

    Parameters
    ----------
    path : str or Path
        JSON, or the YAML of ASTRA-sim's congestion-aware network.
    compat : bool
        Reproduce ASTRA-sim 1.0's peculiarities.
    changes : mapping of str to sequence of float, optional
        Values that replace those of the file, by key.

    Raises
    ------
    InputError
        The file cannot be read, or a key or value is invalid.
    """
    if Path(path).suffix in (".yml", ".yaml"):
        document = _yaml_document(path)
    else:
        document = read_document(path, _MOST_BYTES, form="json", strict=False)
    if not isinstance(document.value, dict):
        raise document.error(f"an object is expected, not {document.brief}", "see ASTRA-sim 1.0's samples")
    document.value.update({key: list(values) for key, values in (changes or {}).items()})
    for key in document.value:
        if key not in _KEYS:
            raise document.get(key).error(f"unknown key {key[:60]!r}", near(key[:60], _KEYS))
    if document.has("topology-name"):
        document.get("topology-name").choice(("Hierarchical",))
    lists = {}
    for key, (name, check) in _LISTS.items():
        if key in _NEEDED or document.has(key):
            lists[name] = tuple(check(node) for node in document.get(key).items())
    count = len(lists["topologies"])
    if document.has("dimensions-count"):
        count = document.get("dimensions-count").number(1, 10)
    for key, (name, _) in _LISTS.items():
        if name in lists and len(lists[name]) != count:
            raise document.get(key).error(
                f"{len(lists[name])} values for {count} dimensions", "give one for each dimension"
            )
    network = HierarchicalNetwork(**lists, compat=compat, where=str(path))
    if network.npus > MOST_RANKS:
        raise document.get("units-count").error(f"{network.npus} NPUs", f"use at most {MOST_RANKS}")
    return network
