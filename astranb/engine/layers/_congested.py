"""A phase on links that are busy while they send: one chunk, on ASTRA-sim 2.0's network with congestion.

One chunk is under way in a dimension, and a dimension's links are its own, so that chunks never meet.
"""

from __future__ import annotations

from typing import Final

from astranb.core.errors import InputError
from astranb.workload.astrasim1._network import HierarchicalNetwork
from astranb.workload.astrasim1._system import Algorithm, System

__all__ = ["check_congested", "congested_ps"]

_NAMES: Final = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


def check_congested(network: HierarchicalNetwork, system: System) -> None:
    """Refuse what the network with congestion does not have.

    Raises
    ------
    InputError
        Several chunks at once in one dimension, or delays of NICs, routers or memories.
    """
    if system.active_chunks > 1 or system.queues > 1:
        what = "with congestion, one chunk at a time is simulated in each dimension"
        raise InputError(what, where=system.where, hint="set active-chunks-per-dimension to 1, or analytical")
    for name in ("nic_ns", "router_ns", "hbm_scale"):
        if any(getattr(network, name)):
            what = f"the network with congestion knows no {name.replace('_', '-')}"
            raise InputError(what, where=network.where, hint="set it to 0, or take --fidelity analytical")


def congested_ps(
    network: HierarchicalNetwork,
    system: System,
    algorithm: Algorithm,
    collective: int,
    shape: tuple[int, int],
    size: int,
) -> int:
    """Give the time of a phase, in picoseconds.

    Parameters
    ----------
    network : HierarchicalNetwork
    system : System
    algorithm : Algorithm
    collective : int
        What the phase does.
    shape : (int, int)
        NPUs of the dimension, and from one to the next, in ranks.
    size : int
        Bytes that each NPU begins with.

    Raises
    ------
    InputError
        The phase is not one of a whole dimension.
    """
    from astranb.engine.messages import simulate
    from astranb.workload import astrasim2

    nodes, stride = shape
    if algorithm.whole or shape not in list(zip(network.units, network.strides, strict=True)):
        what = f"{nodes} NPUs are no dimension of the network"
        hint = "with congestion, let algorithms and model-parallel groups take whole dimensions"
        raise InputError(what, where=system.where, hint=hint)
    dim = list(zip(network.units, network.strides, strict=True)).index((nodes, stride))
    word = algorithm.name + (str(algorithm.window) if algorithm.window > 0 else "")
    own = astrasim2.System.from_document(
        {
            "scheduling-policy": "LIFO",
            "endpoint-delay": system.endpoint_ns,
            "active-chunks-per-dimension": 1,
            "preferred-dataset-splits": 1,
            "local-mem-bw": 500_000,
            f"{_NAMES[collective]}-implementation": [word],
        },
        system.where,
    )
    links = astrasim2.Network(
        [network.topologies[dim]], [nodes], [network.link_bandwidth(dim)], [network.latency_ns[dim]]
    )
    operation = {"kind": astrasim2.COLLECTIVE, "collective": collective, "bytes": max(size, 1)}
    ranks = [astrasim2.Operations.of([operation])] * nodes
    result = simulate(astrasim2.Workload(ranks, links, own, compat=network.compat), congestion=True)
    return int(result.end_ns.max()) * 1000
