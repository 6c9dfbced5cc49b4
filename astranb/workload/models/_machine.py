"""The cluster that a model runs on: described by files, or assumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from astranb.core.errors import InputError
from astranb.workload.astrasim2 import InfraNetwork, Network, System, read_network, read_system

from ._gpu import DEFAULT_GPU, roofline
from ._workload import Workload

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
        FLOP/s of a rank, the reference of utilisation.
    assumed : list of str
        The assumptions, one line each.
    """

    network: Network | InfraNetwork
    system: System
    peak_flops: float
    assumed: list[str] = field(default_factory=list)


def machine(
    workload: Workload,
    gpu: str = DEFAULT_GPU,
    system: str | Path | None = None,
    network: str | Path | InfraNetwork | None = None,
    **options: Any,
) -> Cluster:
    """Return the cluster that a model runs on: described by files, or assumed.

    Parameters
    ----------
    workload : Workload
        What runs; it sets the number of ranks, and whether chunking a collective helps.
    gpu : str
        The GPU whose roofline limits computations, where no system is described.
    system, network : str or Path, optional
        ASTRA-sim 2.0's files; the network may be an :class:`InfraNetwork` too.
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
    >>> from astranb.workload.models import Parallelism, workload
    >>> machine(workload("gpt3-125m", Parallelism(data=16))).network.topology
    ['Switch', 'Switch']
    """
    ranks, assumed = workload.ranks, []
    described: Network | InfraNetwork
    if network is None:
        described = tiers = _two_tiers(ranks)
        text = f"{tiers.npus_count[0]} GPUs per node at 450 GB/s and 500 ns (NVLink 4)"
        if len(tiers.npus_count) > 1:
            text += f", {tiers.npus_count[1]} nodes at 50 GB/s and 2,000 ns per GPU (400 Gbit/s)"
        assumed.append(f"{text}; replace with --network FILE")
    else:
        described = network if isinstance(network, InfraNetwork) else read_network(network)
    if described.npus != ranks:
        what = f"a network of {described.npus} NPUs, and {ranks} ranks"
        raise InputError(
            what,
            where=described.where,
            hint="make the product of the degrees of parallelism equal npus_count",
        )
    if system is not None:
        settings = read_system(system, **options)
        peak = settings.peak_flops if settings.roofline else 0.0
        return Cluster(described, settings, peak or roofline(gpu).peak_flops, assumed)
    card = roofline(gpu)
    dims = len(described.topology)
    # Chunks overlap only where a collective crosses several dimensions.
    chunks = 4 if dims > 1 and workload.spans_all else 1
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
    text = f"{card.name}: {card.peak_flops / 1e12:g} TFLOP/s, {card.memory_Bps / 1e9:g} GB/s"
    split = f"{chunks} chunk{'s' if chunks > 1 else ''} per collective"
    assumed.append(f"peak rates of {text}; ring algorithms, {split}; replace with --system FILE")
    return Cluster(described, settings, card.peak_flops, assumed)


def _two_tiers(ranks: int) -> Network:
    """Return nodes of at most eight GPUs, connected by switches."""
    node = next(count for count in range(min(_PER_NODE, ranks), 0, -1) if ranks % count == 0)
    if node == ranks:
        return Network(["Switch"], [ranks], [450], [500], "the assumed network")
    return Network(["Switch", "Switch"], [node, ranks // node], [450, 50], [500, 2000], "the assumed network")
