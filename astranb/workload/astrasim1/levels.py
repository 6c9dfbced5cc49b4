"""The network dimensions that a layer's collectives use, by the parallelism of the layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from astranb.core.errors import InputError, near

from .network import HierarchicalNetwork

__all__ = ["LAYER_POLICIES", "Levels", "involved", "levels_of"]

LAYER_POLICIES: Final = (
    "DATA",
    "MODEL",
    "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA",
    "DISTRIBUTED_INFERENCE",
    "MICRO",
)
"""The policies of a layer of ``HYBRID_CUSTOMIZED``."""

_NAMES: Final = (*LAYER_POLICIES, "HYBRID_DLRM", "HYBRID_TRANSFORMER", "HYBRID_CUSTOMIZED", "ALL")


@dataclass(frozen=True)
class Levels:
    """The dimensions that the system layer sees: a model-parallel group may split a network dimension.

    Parameters
    ----------
    units : tuple of int
        Number of NPUs in each dimension.
    physical : tuple of int
        The network dimension that each of them lies in.
    model : int
        Number of leading dimensions that are model-parallel.
    """

    units: tuple[int, ...]
    physical: tuple[int, ...]
    model: int = 0


def levels_of(network: HierarchicalNetwork, group: int | None, where: str) -> Levels:
    """Split the network's dimensions where a model-parallel group ends.

    Parameters
    ----------
    network : HierarchicalNetwork
    group : int or None
        Number of NPUs of a model-parallel group.
    where : str
        The layer table's name, for error messages.

    Raises
    ------
    InputError
        The group does not fit into the dimensions.

    Examples
    --------
    >>> torus = HierarchicalNetwork("Ring", units=(4, 16), links=2, latency_ns=1, bandwidth=50)
    >>> levels_of(torus, 16, "table").units
    (4, 4, 4)
    """
    count = len(network.units)
    whole = Levels(network.units, tuple(range(count)))
    if group is None or group == 1:
        return whole
    inside = 1
    for dim, units in enumerate(network.units):
        if inside * units == group:
            return Levels(whole.units, whole.physical, dim + 1)
        if inside * units > group:
            if group % inside or units % (group // inside):
                break
            first = group // inside
            cut = (*network.units[:dim], first, units // first, *network.units[dim + 1 :])
            return Levels(cut, (*range(dim), dim, *range(dim, count)), dim + 1)
        inside *= units
    shape = " x ".join(map(str, network.units))
    raise InputError(
        f"a model-parallel group of {group} NPUs does not fit into {shape}",
        where=where,
        hint="use the product of the first dimensions, times a divisor of the next one",
    )


def involved(policy: str, levels: Levels, where: str) -> tuple[int, int, int]:
    """Return the dimensions that forward pass, input gradient and weight gradient use, as bit masks.

    Raises
    ------
    InputError
        The policy is unknown.
    """
    every = (1 << len(levels.units)) - 1
    if policy == "ALL":
        return every, every, every
    if policy in ("DATA", "MICRO", "HYBRID_DLRM"):
        return 0, 0, every
    if policy in ("MODEL", "DISTRIBUTED_INFERENCE"):
        return every, every, 0
    model = {
        "HYBRID_DATA_MODEL": 1,
        "HYBRID_CUSTOMIZED": 1,
        "HYBRID_MODEL_DATA": every & ~1,
        "HYBRID_TRANSFORMER": (1 << levels.model) - 1,
    }.get(policy)
    if model is None:
        raise InputError(f"unknown policy {policy[:40]!r}", where=where, hint=near(policy[:40], _NAMES))
    return model, model, every & ~model
