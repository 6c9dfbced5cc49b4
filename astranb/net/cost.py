"""Cost of a network: dollars per GB/s of links, switch ports and NICs.

Source: ASTRA-sim 1.0's cost model (``CostModel.cc`` and ``HierarchicalTopology.cc`` of
astra-network-analytical, tutorial ASPLOS 2022; MIT licence). :data:`LIBRA` has the rates of Won et al., arXiv
2109.11762 (``inputs/cost_model/4d_cost_model.yml`` of github.com/astra-sim/libra ff225aa).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from astranb.core.errors import InputError, near

if TYPE_CHECKING:
    from .fabric import Fabric

__all__ = ["LIBRA", "PLACES", "CostRates", "cost_dollars", "fabric_cost_dollars"]

CostRates: TypeAlias = Mapping[str, tuple[float, float | None, float | None]]
"""Dollars per GB/s of a link, of a switch port and of a NIC, by the kind of a dimension."""

PLACES: Final[CostRates] = {
    "Tile": (1.0, None, None),
    "Package": (4.0, 13.0, 0.0),
    "Node": (4.0, 13.0, 0.0),
    "Pod": (7.4, 23.7, 47.8),
}
"""Those of ASTRA-sim 1.0."""

LIBRA: Final[CostRates] = {
    "Tile": (2.0, None, None),
    "Package": (4.0, 13.0, 0.0),
    "Node": (4.0, 13.0, 0.0),
    "Pod": (7.8, 18.0, 31.6),
}
"""Those of LIBRA: between chiplets, packages, nodes and pods."""


def cost_dollars(
    links: Sequence[tuple[str, Sequence[int]]],
    bandwidth: Sequence[float],
    places: Sequence[str] = (),
    rates: CostRates = PLACES,
) -> float:
    """Return the cost of a hierarchical network.

    Parameters
    ----------
    links : sequence of (str, sequence of int)
        For each dimension ``Ring``, ``Mesh``, ``FullyConnected`` or ``Switch``, and the number of NPUs
        in each of its directions. A bidirectional link counts once; a switch has a link to each NPU
        of its dimension and of those before.
    bandwidth : sequence of float
        Of one link of each dimension, in 10^9 bytes per second.
    places : sequence of str, optional
        ``Tile``, ``Package``, ``Node`` or ``Pod`` for each dimension (``Node``).
    rates : mapping, optional
        Dollars.

    Returns
    -------
    float
        Dollars.

    Raises
    ------
    InputError
        A kind is unknown, or has no switches.

    Examples
    --------
    >>> cost_dollars([("Ring", [8])], [50]), cost_dollars([("Switch", [8])], [50])
    (1600.0, 6800.0)
    """
    npus = 1
    for _, sides in links:
        for nodes in sides:
            npus *= nodes
    total = 0.0
    up_to = 1
    for at, (kind, sides) in enumerate(links):
        place = places[at] if places else "Node"
        if place not in rates:
            raise InputError(f"unknown dimension type {place[:40]!r}", hint=near(place, rates))
        link, port, nic = rates[place]
        for nodes in sides:
            up_to *= nodes
            if kind == "Switch":
                if port is None or nic is None:
                    raise InputError(f"a {place} has no switches", hint="use Package, Node or Pod")
                total += npus * bandwidth[at] * (link + port + nic)
                continue
            each = {"Ring": nodes if nodes > 1 else 0, "Mesh": nodes - 1}.get(kind, nodes * (nodes - 1) // 2)
            total += npus // nodes * each * bandwidth[at] * link
    return total


def fabric_cost_dollars(fabric: Fabric, rates: CostRates = PLACES) -> float:
    """Return the cost of an infrastructure: ``Node`` within an instance, ``Pod`` between instances.

    Each lane costs a link, and a port of the switches at its ends; a lane from a NIC to another
    instance costs the NIC too. Links on a chip cost nothing.

    Parameters
    ----------
    fabric : Fabric
    rates : mapping, optional
        Dollars.

    Returns
    -------
    float
        Dollars.
    """
    from astranb.infragraph import NodeKind

    from .link import INSIDE

    graph = fabric.graph
    lanes = fabric.links
    # Each lane is listed twice, once in each direction.
    rate = lanes["bandwidth_Bps"] / 2e9
    between = graph.nodes.instance[lanes["src"]] != graph.nodes.instance[lanes["dst"]]
    total = np.zeros(len(lanes))
    rows = np.array([rates["Node"], rates["Pod"]], float)[between.astype(np.int64)]
    link, port, nic = rows[:, 0], rows[:, 1], rows[:, 2]
    for end in ("src", "dst"):
        kind = graph.nodes.kind[lanes[end]]
        total += np.where(kind == NodeKind.SWITCH, port, 0.0)
        total += np.where((kind == NodeKind.NIC) & between, nic, 0.0)
    total += link
    return float((total * rate)[lanes["role"] & INSIDE == 0].sum())
