"""The cluster that a model runs on: described by files, or assumed from its GPU."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.workload.astrasim2 import (
    DimensionNetwork,
    InfraNetwork,
    Memory,
    System,
    read_network,
    read_system,
)
from astranb.workload.kernels import DEFAULT_GPU, Interconnect, KernelTimes, gpu_named

__all__ = ["Cluster", "assumed_system", "machine"]

_RING_COLLECTIVES: Final = ("all-reduce", "all-gather", "reduce-scatter")


@dataclass(frozen=True)
class Cluster:
    """Cluster on which a workload is simulated.

    Parameters
    ----------
    network : DimensionNetwork or InfraNetwork
    system : System
    peak_flops : float
        FLOP/s of a rank, the reference of utilisation.
    assumed : list of str
        The assumptions, one line each.
    memory : Memory
        What holds offloaded data, outside the GPUs.
    """

    network: DimensionNetwork | InfraNetwork
    system: System
    peak_flops: float
    assumed: list[str] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)


class _Placed(Protocol):
    """Members of a step that a cluster needs."""

    times: KernelTimes | None
    precision: str

    @property
    def ranks(self) -> int: ...

    @property
    def spans_all(self) -> bool: ...

    @property
    def host_updates(self) -> bool: ...

    @property
    def moved_bytes(self) -> int: ...

    @property
    def left_out(self) -> str: ...

    @property
    def chosen(self) -> str: ...


def machine(
    step: _Placed,
    system: str | Path | None = None,
    network: str | Path | DimensionNetwork | InfraNetwork | None = None,
    *,
    all_reduce: str = "ring",
    message_bytes: int = 0,
    memory: Memory | None = None,
    **options: Any,
) -> Cluster:
    """Return the cluster that a model runs on: described by files, or that of its GPU.

    Parameters
    ----------
    step : ModelStep
        What runs; it sets the GPU, the number of ranks, and whether chunking a collective helps.
    system, network : str or Path, optional
        ASTRA-sim 2.0's files; the network may be a :class:`DimensionNetwork` or :class:`InfraNetwork` too.
    all_reduce : str
        The algorithm of all-reduces without a system file; a ring where it cannot be done. Inference takes
        ``halvingDoubling``: its libraries have all-reduces of few steps, which take 4 to 8 µs for 16 KiB
        on 2 to 8 GPUs (github.com/ai-dynamo/aiconfigurator 67f90e7, custom_allreduce_perf), a ring 18.
    message_bytes : int
        Bytes that most of those all-reduces have, where the network is that of the GPU: small ones begin
        sooner, large ones achieve more bandwidth (:meth:`Interconnect.all_reduce`).
    memory : Memory, optional
        What holds offloaded data. Default: the GPUs' expansion, or else their host's memory.
    **options
        Those of :meth:`System.from_document`: ``queues``, ``injection_scale``, ``rendezvous``.

    Raises
    ------
    InputError
        A file cannot be used, or the network has another number of NPUs.

    Examples
    --------
    >>> from astranb import models
    >>> machine(models.workload("gpt3-125m", models.Parallelism(data=16))).network.topology
    ('Switch', 'Switch')
    """
    ranks, assumed = step.ranks, []
    last = [f"{step.chosen}; --framework megatron fuses them"] if step.chosen else []
    last += [f"the model: {step.left_out}"] if step.left_out else []
    times = step.times or KernelTimes(gpu_named(DEFAULT_GPU), step.precision)
    described: DimensionNetwork | InfraNetwork
    if network is None:
        links = times.gpu.interconnect
        if all_reduce != "ring":
            bandwidth, step_ns = links.all_reduce(message_bytes, _node(ranks, links))
            links = replace(links, inside_Bps=bandwidth, inside_ns=step_ns)
        described, text = _two_tiers(ranks, links)
        assumed.append(f"{text}; replace with --network FILE")
    else:
        described = network if isinstance(network, DimensionNetwork | InfraNetwork) else read_network(network)
    if described.npus != ranks:
        what = f"the network has {plural(described.npus, 'NPU')}, but the plan has {plural(ranks, 'rank')}"
        raise InputError(
            what,
            where=described.where,
            hint="make the product of the degrees of parallelism equal npus_count",
        )
    outside = memory or (_outside(times) if step.moved_bytes else Memory())
    if system is not None:
        settings = read_system(system, **options)
        peak = settings.peak_flops if settings.roofline else 0.0
        return Cluster(described, settings, peak or times.peak_flops, [*assumed, *last], outside)
    settings = assumed_system(step, described, all_reduce, **options)
    if step.host_updates or (step.moved_bytes and memory is None and times.expanded is None):
        host = times.gpu.host
        assumed.append(f"offloaded to the host, over {host.link_Bps / 1e9:g} GB/s: {host.text}")
    split = f"{plural(settings.splits, 'chunk')} per collective"
    names = "ring algorithms" if all_reduce == "ring" else "all-reduces of few steps"
    if isinstance(described, InfraNetwork):
        names = f"collectives of the GPUs' library, else {names}"
    assumed.append(f"{times.text}; {names}, {split}; replace with --system FILE")
    return Cluster(described, settings, times.peak_flops, [*assumed, *last], outside)


def assumed_system(
    step: _Placed, network: DimensionNetwork | InfraNetwork, all_reduce: str = "ring", **options: Any
) -> System:
    """Return the system layer that a step has where no file describes it.

    Parameters
    ----------
    step : ModelStep
    network : DimensionNetwork or InfraNetwork
        It may have more NPUs than the step has ranks.
    all_reduce : str
        As of :func:`machine`.
    **options
        Those of :meth:`System.from_document`.
    """
    dims = len(network.topology)
    # Chunks overlap only where a collective crosses several dimensions.
    chunks = 4 if dims > 1 and step.spans_all and step.ranks == network.npus else 1
    return System.from_document(
        {
            **{f"{name}-implementation": ["ring"] * dims for name in _RING_COLLECTIVES},
            "all-reduce-implementation": [
                "ring" if count & (count - 1) else all_reduce for count in network.npus_count
            ],
            "all-to-all-implementation": ["direct"] * dims,
            "preferred-dataset-splits": chunks,
            "collective-optimization": "localBWAware",
            "channels": "library",
            "cost": "library",
        },
        "the assumed system",
        **options,
    )


def _outside(times: KernelTimes) -> Memory:
    """Return the memory that holds what is offloaded: the GPU's expansion, or else its host's."""
    found = times.expanded
    if found is None:
        return Memory("PER_NPU_MEMORY_EXPANSION", 0, times.gpu.host.link_Bps / 1e9)
    kind = "PER_NPU_MEMORY_EXPANSION" if found.shared_by == 1 else "PER_NODE_MEMORY_EXPANSION"
    tier = found.expanded
    return Memory(kind, -(-tier.latency_ps // 1000), tier.bandwidth_Bps / 1e9, found.shared_by)


def _node(ranks: int, links: Interconnect) -> int:
    """Return the number of GPUs of each node."""
    return next(count for count in range(min(links.per_node, ranks), 0, -1) if ranks % count == 0)


def _two_tiers(ranks: int, links: Interconnect) -> tuple[DimensionNetwork, str]:
    """Return nodes of GPUs, connected by switches, and what they are; a message has two hops."""
    node = _node(ranks, links)
    inside, between = links.inside_Bps / 1e9, links.between_Bps / 1e9
    text = (
        f"{plural(node, 'GPU')} per node at {inside:g} GB/s of {links.inside_peak_Bps / 1e9:g} "
        f"and {links.inside_ns:,} ns ({links.inside_text})"
    )
    where = "the assumed network"
    if node == ranks:
        return DimensionNetwork(["Switch"], [ranks], [inside], [links.inside_ns // 2], where, ["Node"]), text
    text += (
        f", {plural(ranks // node, 'node')} at {between:g} GB/s of {links.between_peak_Bps / 1e9:g} and "
        f"{links.between_ns:,} ns per GPU ({links.between_text})"
    )
    counts, latencies = [node, ranks // node], [links.inside_ns // 2, links.between_ns // 2]
    tiers = ["Node", "Pod"]
    return DimensionNetwork(["Switch"] * 2, counts, [inside, between], latencies, where, tiers), text
