"""Which dimensions of the network a layer's collectives use, by the way it is parallelised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from astranb.core.errors import InputError, near

from ._network import HierarchicalNetwork

__all__ = ["LAYER_POLICIES", "Levels", "involved", "levels_of"]

LAYER_POLICIES: Final = (
    "DATA",
    "MODEL",
    "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA",
    "DISTRIBUTED_INFERENCE",
    "MICRO",
)
"""What a layer of ``HYBRID_CUSTOMIZED`` may have."""

_NAMES: Final = (*LAYER_POLICIES, "HYBRID_DLRM", "HYBRID_TRANSFORMER", "HYBRID_CUSTOMIZED", "ALL")


@dataclass(frozen=True)
class Levels:
    """The dimensions as the system layer sees them: one may be cut in two by model-parallel groups.

    Parameters
    ----------
    units : tuple of int
        NPUs of each.
    physical : tuple of int
        The network's dimension that each lies in.
    model : int
        How many of the first ones are model-parallel.
    """

    units: tuple[int, ...]
    physical: tuple[int, ...]
    model: int = 0


def levels_of(network: HierarchicalNetwork, group: int | None, where: str) -> Levels:
    """Cut the network's dimensions where a model-parallel group ends.

    Parameters
    ----------
    network : HierarchicalNetwork
    group : int or None
        NPUs of a model-parallel group.
    where : str
        The workload's name, for messages.

    Raises
    ------
    InputError
        The group does not fit into the dimensions.

    Examples
    --------
    >>> torus = HierarchicalNetwork(("Ring",) * 2, (4, 16), (2, 2), (1, 1), (50, 50))
    >>> levels_of(torus, 16, "workload").units
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
        hint="take a product of the first dimensions, or one that divides the next",
    )


def involved(policy: str, levels: Levels, where: str) -> tuple[int, int, int]:
    """Give the dimensions of forward pass, input gradient and weight gradient, a bit for each.

    Raises
    ------
    InputError
        The policy is not known.
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
