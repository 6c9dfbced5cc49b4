"""The network of a workload: ASTRA-sim 2.0's dimensions, or an infrastructure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from math import prod
from operator import mul
from typing import TYPE_CHECKING, Any

from astranb.core.errors import InputError, near
from astranb.core.keywords import hinted_class
from astranb.net import (
    FULLY_CONNECTED,
    MESH,
    PLACES,
    RING,
    SWITCH,
    CostRates,
    PerDimension,
    cost_dollars,
    fabric_cost_dollars,
    per_dimension,
    repeat_values,
)

if TYPE_CHECKING:
    from astranb.infragraph import Infra
    from astranb.net import Fabric

__all__ = ["TOPOLOGIES", "DimensionNetwork", "InfraNetwork"]

_SHAPES = {
    "Ring": (RING, 1),
    "FullyConnected": (FULLY_CONNECTED, 1),
    "Switch": (SWITCH, 1),
    "Mesh": (MESH, 1),
    "Mesh2D": (MESH, 2),
    "Mesh3D": (MESH, 3),
    "Torus2D": (RING, 2),
    "Torus3D": (RING, 3),
}
"""The kind of links of a topology, and its number of directions, which have the same length."""
TOPOLOGIES = tuple(_SHAPES)
"""Topologies of one dimension, by name."""


@hinted_class(npus="write npus_count", units="write npus_count")
@dataclass(frozen=True)
class DimensionNetwork:
    """A network of one or more dimensions, the first of which joins neighbouring ranks.

    Each parameter is one value for all dimensions, or a list with one for each.

    Parameters
    ----------
    topology : str or sequence of str
        ``Ring``, ``FullyConnected``, ``Switch``, ``Mesh`` (a line), ``Mesh2D``, ``Mesh3D``,
        ``Torus2D`` or ``Torus3D`` (squares and cubes).
    npus_count : int or sequence of int
        NPUs in each dimension.
    bandwidth : float or sequence of float
        Of one link of each, in 10^9 bytes per second (GB/s); ASTRA-sim 2.0 reads them as GiB/s.
    latency : float or sequence of float
        Of one link of each, in ns.
    dimension_type : str or sequence of str
        ``Tile``, ``Package``, ``Node`` or ``Pod``, which determines the cost of its parts.

    Raises
    ------
    InputError
        The lists differ in length, or a value is out of range.

    Examples
    --------
    >>> DimensionNetwork("Ring", 8, bandwidth=100, latency=500).npus
    8
    >>> DimensionNetwork(["Ring", "Switch"], [4, 2], bandwidth=[100, 25], latency=500).latency
    (500, 500)
    """

    topology: PerDimension[str] = per_dimension()
    npus_count: PerDimension[int] = per_dimension()
    bandwidth: PerDimension[float] = per_dimension()
    latency: PerDimension[float] = per_dimension()
    where: str = field(default="network", compare=False)
    dimension_type: PerDimension[str] = per_dimension("Node")

    def __post_init__(self) -> None:
        """Check everything."""
        names = ("topology", "npus_count", "bandwidth", "latency", "dimension_type")
        if not repeat_values(self, names, self.where):
            raise InputError("no dimensions", where=self.where, hint="give at least one")
        for shape in self.topology:
            if shape not in _SHAPES:
                raise InputError(f"unknown topology {shape!r}", where=self.where, hint=near(shape, _SHAPES))
        for count, rate, latency in zip(self.npus_count, self.bandwidth, self.latency, strict=True):
            if count < 1 or rate <= 0 or latency < 0:
                raise InputError(
                    f"a dimension is out of range: {count} NPUs at {rate} GB/s and {latency} ns",
                    where=self.where,
                    hint="give at least 1 NPU, a bandwidth above 0 and a latency of 0 or more",
                )
        for shape, count, (_, sides) in zip(self.topology, self.npus_count, self.sides, strict=True):
            if sides[0] ** len(sides) != count:
                power = "square" if len(sides) == 2 else "cube"
                raise InputError(
                    f"{shape} cannot have {count} NPUs",
                    where=self.where,
                    hint=f"take a {power} of a whole number",
                )

    @property
    def npus(self) -> int:
        """The number of NPUs."""
        return prod(self.npus_count)

    @property
    def shapes(self) -> list[int]:
        """The numbers of the topologies, -1 for one with several directions."""
        return [kind if len(sides) == 1 else -1 for kind, sides in self.sides]

    @property
    def sides(self) -> list[tuple[int, list[int]]]:
        """For each dimension the kind of its links, and the NPUs in each of its directions."""
        result = []
        for shape, count in zip(self.topology, self.npus_count, strict=True):
            kind, directions = _SHAPES[shape]
            result.append((kind, [round(count ** (1 / directions))] * directions))
        return result

    @property
    def link_topology(self) -> list[str]:
        """The topology of each dimension of links: a torus has several."""
        return [shape for shape, (_, sides) in zip(self.topology, self.sides, strict=True) for _ in sides]

    @property
    def places(self) -> Sequence[str]:
        """The kind of each dimension."""
        return self.dimension_type

    def cost_dollars(self, rates: CostRates = PLACES) -> float:
        """Return the cost of its links and switches at some rates (ASTRA-sim 1.0's).

        Examples
        --------
        >>> DimensionNetwork("Switch", 8, bandwidth=50, latency=500).cost_dollars()
        6800.0
        """
        names = {RING: "Ring", MESH: "Mesh", SWITCH: "Switch", FULLY_CONNECTED: "FullyConnected"}
        links = [(names[kind], sides) for kind, sides in self.sides]
        return cost_dollars(links, self.bandwidth, self.dimension_type, rates)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], where: str = "network") -> DimensionNetwork:
        """Make a network from the contents of a YAML file.

        Parameters
        ----------
        document : mapping
            ``topology``, ``npus_count``, ``bandwidth`` and ``latency``.
        where : str
            The file's name, for messages.
        """
        lists = ("topology", "npus_count", "bandwidth", "latency")
        for key in lists:
            if not isinstance(document.get(key), list):
                what = f"{key} is missing or not a list"
                raise InputError(what, where=where, hint="see ASTRA-sim's examples")
        topology, counts, bandwidth, latency = (document[key] for key in lists)
        return cls(topology, counts, bandwidth, latency, where, document.get("dimension_type", "Node"))


@dataclass(frozen=True)
class InfraNetwork:
    """The GPUs of an infrastructure, in the order of their ranks, and the links between them.

    Parameters
    ----------
    infra : Infra
        A document, or a blueprint such as ``clos:servers=16``.
    npus_count : sequence of int, optional
        GPUs in each dimension of hierarchical collectives; neighbouring ranks are in the first one. By
        default the GPUs of one instance (a server) and the number of instances.

    Raises
    ------
    InputError
        There is no GPU, or the product of the dimensions is not the number of GPUs.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> InfraNetwork(blueprint("clos:servers=4")).npus_count
    (8, 4)
    """

    infra: Infra
    npus_count: Sequence[int] = ()
    where: str = field(default="infrastructure", compare=False)

    def __post_init__(self) -> None:
        """Find the dimensions."""
        gpus = len(self.fabric.gpus)
        if not self.npus_count:
            each = self.fabric.per_node
            counts = (each, gpus // each) if each < gpus else (gpus,)
            object.__setattr__(self, "npus_count", tuple(count for count in counts if count > 1) or (1,))
        if min(self.npus_count) < 1 or prod(self.npus_count) != gpus:
            named = " x ".join(map(str, self.npus_count))
            raise InputError(
                f"dimensions {named} do not fit {gpus} GPUs",
                where=self.where,
                hint="give dimensions whose product is the number of GPUs (--dimensions 8x4)",
            )

    @cached_property
    def fabric(self) -> Fabric:
        """Links and routes."""
        from astranb.net import compile_fabric

        return compile_fabric(self.infra.expand())

    @property
    def topology(self) -> tuple[str, ...]:
        """The names of its dimensions."""
        return ("Infra",) * len(self.npus_count)

    @property
    def link_topology(self) -> tuple[str, ...]:
        """The same names: its links have no dimensions."""
        return self.topology

    @property
    def places(self) -> list[str]:
        """The kind of each dimension: ``Node`` within an instance, else ``Pod``."""
        inside = accumulate(self.npus_count, mul)
        return ["Node" if count <= self.fabric.per_node else "Pod" for count in inside]

    def cost_dollars(self, rates: CostRates = PLACES) -> float:
        """Return the cost of its links, switches and NICs at some rates (ASTRA-sim 1.0's)."""
        return fabric_cost_dollars(self.fabric, rates)

    @property
    def npus(self) -> int:
        """The number of NPUs."""
        return prod(self.npus_count)
