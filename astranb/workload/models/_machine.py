"""The cluster that a model runs on, where none or only a part of one is described."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from astranb.core.errors import InputError
from astranb.workload.astrasim2 import InfraNetwork, Network, System, read_network, read_system

from ._gpu import roofline

__all__ = ["Cluster", "machine"]

_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_PER_NODE = 8


@dataclass(frozen=True)
class Cluster:
    """What a workload is simulated on.

    Parameters
    ----------
    network : Network or InfraNetwork
    system : System
    peak_flops : float
        Operations a second of a rank, which utilisation is told of.
    assumed : list of str
        What nobody said.
    """

    network: Network | InfraNetwork
    system: System
    peak_flops: float
    assumed: list[str] = field(default_factory=list)


def machine(
    ranks: int,
    gpu: str,
    system: str | Path | None = None,
    network: str | Path | InfraNetwork | None = None,
    *,
    chunks: int = 4,
    **options: Any,
) -> Cluster:
    """Read a cluster's files, and assume what they do not say.

    Parameters
    ----------
    ranks : int
    gpu : str
        Whose roofline computations have, where no system is described.
    system, network : str or Path, optional
        ASTRA-sim 2.0's files; the network may be an :class:`InfraNetwork` too.
    chunks : int
        Into which the assumed system cuts a collective: they overlap in several dimensions, and do
        nothing in one.
    **options
        Those of :meth:`System.from_document`: ``queues``, ``injection_scale``, ``rendezvous``.

    Returns
    -------
    Cluster

    Raises
    ------
    InputError
        A file cannot be used, or the network has another number of NPUs.

    Examples
    --------
    >>> machine(16, "h100-sxm").network.topology
    ['Switch', 'Switch']
    """
    assumed = []
    described: Network | InfraNetwork
    if network is None:
        described = tiers = _two_tiers(ranks)
        text = f"{tiers.npus_count[0]} GPUs a node at 450 GB/s and 500 ns (NVLink 4)"
        if len(tiers.npus_count) > 1:
            text += f", {tiers.npus_count[1]} nodes at 50 GB/s and 2,000 ns a GPU (400 Gbit/s)"
        assumed.append(f"{text}; --network FILE says otherwise")
    else:
        described = network if isinstance(network, InfraNetwork) else read_network(network)
    if described.npus != ranks:
        what = f"a network of {described.npus} NPUs, and {ranks} ranks"
        raise InputError(what, where=described.where, hint="let degrees of parallelism and npus_count agree")
    if system is not None:
        settings = read_system(system, **options)
        peak = settings.peak_flops if settings.roofline else 0.0
        return Cluster(described, settings, peak or roofline(gpu).peak_flops, assumed)
    card = roofline(gpu)
    dims = len(described.topology)
    chunks = chunks if dims > 1 else 1
    settings = System.from_document(
        {
            **{f"{name}-implementation": ["ring"] * dims for name in _COLLECTIVES},
            "all-to-all-implementation": ["direct"] * dims,
            "preferred-dataset-splits": chunks,
            "collective-optimization": "localBWAware",
            "roofline-enabled": 1,
            "peak-perf": card.peak_flops / 1e12,
            "local-mem-bw": card.memory_Bps / 1e9,
        },
        "the assumed system",
        **options,
    )
    text = f"{card.name}: {card.peak_flops / 1e12:g} TFLOP/s, {card.memory_Bps / 1e9:g} GB/s, nothing lost"
    many = f"{chunks} chunks" if chunks > 1 else "1 chunk"
    assumed.append(f"{text}; rings, {many} a collective; --system FILE says otherwise")
    return Cluster(described, settings, card.peak_flops, assumed)


def _two_tiers(ranks: int) -> Network:
    """Nodes of at most eight GPUs, and switches between them."""
    node = next(count for count in range(min(_PER_NODE, ranks), 0, -1) if ranks % count == 0)
    if node == ranks:
        return Network(["Switch"], [ranks], [450], [500], "the assumed network")
    return Network(["Switch", "Switch"], [node, ranks // node], [450, 50], [500, 2000], "the assumed network")
