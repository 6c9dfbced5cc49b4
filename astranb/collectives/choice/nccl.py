"""NCCL's choice: the cost of every algorithm and protocol, the least, then channels and threads.

Source of all numbers and rules: NVIDIA/nccl @5067397c (2.30.7), ``src/graph/tuning.cc``
(``ncclTunerConstantsDefaults``, ``ncclTopoTuneModel``, ``ncclTopoGetAlgoTime``), ``src/enqueue.cc``
(``topoGetAlgoInfo``, ``scheduleCollTasksToPlan``, ``calcCollChunking``, ``addP2pToPlan``),
``src/include/device.h``, ``src/include/comm.h`` and ``src/init.cc`` (buffer sizes); of older releases
:mod:`.nccl_releases`. Without CollNet (it needs switches that reduce) and without registered buffers, as
nccl-tests run by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, inf
from typing import Final, NamedTuple

from astranb.collectives.language import BUFFER_BYTES, NCCL_STEPS
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_bytes

from .candidate import LibraryCandidate, LibraryChoice, LibraryCost
from .nccl_graphs import ChannelGraph, ChannelGraphs, channel_graphs
from .nccl_releases import NcclRelease, nccl_release
from .topology import LibraryView

__all__ = ["NCCL_SOURCE", "choose_nccl", "nccl_candidates", "nccl_cost"]

NCCL_SOURCE: Final = "NVIDIA/nccl @5067397c (2.30.7), src/graph/tuning.cc and src/enqueue.cc"

_PROTOCOLS: Final = ("LL", "LL128", "Simple")
_ALGORITHMS: Final = {
    "all_reduce": ("Tree", "Ring", "NVLS", "NVLSTree"),
    "all_gather": ("Ring", "NVLS", "PAT"),
    "reduce_scatter": ("Ring", "NVLS", "PAT"),
    "broadcast": ("Ring",),
    "reduce": ("Ring",),
}
_EXCHANGES: Final = ("all_to_all", "gather", "scatter", "send_recv")

_Latencies = dict[str, tuple[float, float, float]]
_BASE_US: Final[_Latencies] = {
    "Tree": (6.8, 14.0, 8.4),
    "Ring": (6.6, 14.0, 8.4),
    "NVLS": (0, 0, 0),
    "NVLSTree": (0, 0, 0),
    "PAT": (8.0, 8.0, 8.0),
}
_HOP_US: Final[_Latencies] = {
    "Tree": (0.6, 1.25, 4.0),
    "Ring": (0.6, 1.9, 3.4),
    "NVLS": (0, 0, 25),
    "NVLSTree": (0, 0, 25),
    "PAT": (0, 0, 4.0),
}
_PCIE_HOP_US: Final[_Latencies] = {"Tree": (1.0, 1.9, 5.7), "Ring": (1.0, 2.5, 5.7), "PAT": (0, 0, 4.0)}
_NET_HOP_US: Final[_Latencies] = {
    "Tree": (5.0, 8.5, 14),
    "Ring": (2.7, 4.0, 14.0),
    "NVLS": (0, 0, 18),
    "NVLSTree": (0, 0, 20.9),  # of the newest release
    "PAT": (0, 0, 14),
}
"""In microseconds, of LL, LL128 and Simple."""

_LEAST_NVLS_US: Final = 4.6
"""Duration of the smallest NVLS when it is simulated."""
_NVLS_BASE_US: Final = 22.8
"""Before its first step: 25 us, which the table has for all of it, less the smallest, and 2.4 us fitted to
h100-ar-dgxc."""

_PROXY_US: Final = {
    ("Tree", "LL"): 1.7,
    ("Tree", "LL128"): 5.2,
    ("Ring", "LL128"): 0.7,
    ("NVLSTree", "Simple"): 15.9,
}
"""Latency of a hop between nodes in the table, less that of the hop when NICs alone are simulated: 3.3 us
for packets; of NVLSTree half of what 8 KiB on two nodes, 14.6 us simulated, lack of the table's 66.8 us
less its base latency here."""

_Caps = tuple[tuple[float, float, float], ...]
_LL_GBPS: Final[_Caps] = ((39.0, 39.0, 20.4), (87.7, 22.5, 19.0), (141.0, 45.0, 35.0), (282.0, 90.0, 70.0))
_RING_LL128_GBPS: Final[_Caps] = ((20.0,) * 3, (20.0,) * 3, (36.7,) * 3)
_TREE_LL128_GBPS: Final[_Caps] = ((20.0,) * 3, (20.0,) * 3, (36.7, 36.7, 29.0))
_TREE_GBPS: Final[_Caps] = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0))
_NVLS_TREE_GBPS: Final[_Caps] = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (0.0, 57.7, 45.5))
"""Ceilings by generation (Volta, Ampere, Hopper, Blackwell) and by one, two or more nodes; all but LL's
are of one channel, and Blackwell's go by the release. LL's second and later columns go by the processor:
others, AMD."""
_NVLS_EFFICIENCY: Final = (0.0, 0.0, 0.85, 0.74)

_TREE_CORRECTION: Final = {
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    "LL128": (
        *(
            1,
            1,
            1,
            1,
            1,
            0.9,
            0.8,
            0.8,
            0.8,
            0.7,
            0.6,
            0.6,
            0.6,
            0.6,
            0.6,
            0.6,
            0.8,
            0.9,
            0.9,
            0.9,
            0.9,
            1,
            1,
        ),
    ),
    "Simple": (
        *(0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7),
        *(0.7, 0.8, 0.9, 0.9),
    ),
}
"""Factor of a tree's bandwidth for 64 B, 128 B, ..., 256 MiB; of NVLSTree the last is for 512 MiB, too."""

_THREADS: Final = {"LL": 512, "LL128": 640, "Simple": 512}
_MOST_THREADS: Final = 640
_THREAD_BYTES: Final = {"LL": 8, "LL128": 8, "Simple": 64}  # work of a thread that is worth having it
_WARP: Final = 32
_PEER_CHUNK: Final = (524_288, 131_072)  # within a node, between nodes
_PEER_GBPS: Final = 14.0  # what one channel to a peer of another node carries
_PEER_BATCH: Final = 8  # sends, and as many receives, of a thread block
_MOST_HEADS: Final = 32
_PEER_LL: Final = 16_384  # up to this a channel sends by LL
_PEER_US: Final = 0.3
"""Launch of a group of sends and receives for each peer beyond the first: fitted to b200-a2a-vultr."""


class _SearchedMachine(NamedTuple):
    """A view with what follows from it."""

    view: LibraryView
    graphs: ChannelGraphs
    generation: int  # 0 Volta, 1 Ampere, 2 Hopper, 3 Blackwell
    scale: int  # 0 one node, 1 two, 2 more
    release: NcclRelease

    def cap_GBps(self, older: _Caps, blackwell: tuple[float, ...]) -> float:  # noqa: N802 - unit in the name
        """Return the ceiling of a channel."""
        return (*older, blackwell)[self.generation][self.scale]


def _machine(view: LibraryView) -> _SearchedMachine:
    if not view.switched and view.per_node > 2:  # two GPUs are each other's only peer either way
        what = f"no model of NCCL's choice where NVLinks join {view.per_node} GPUs without a switch"
        raise InputError(what, where="library", hint="give an algorithm")
    if view.nodes > 1 and not view.nics:
        what = f"no model of NCCL's choice for {view.nodes} nodes without NICs between them"
        raise InputError(what, where="library", hint="give an algorithm")
    capability = view.capability
    generation = 3 if capability >= 100 else 2 if capability >= 90 else 1 if capability >= 80 else 0
    release, _ = nccl_release(view.version)
    return _SearchedMachine(view, channel_graphs(view), generation, min(view.nodes, 3) - 1, release)


def nccl_candidates(view: LibraryView, collective: str, size_bytes: int) -> list[LibraryCandidate]:
    """Return every algorithm and protocol that NCCL can use, the fastest by its cost model first.

    Examples
    --------
    >>> h100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
    >>> best = nccl_candidates(h100, "all_reduce", 2**20)[0]
    >>> best.algorithm, best.protocol, round(best.time_us, 1)
    ('Ring', 'LL', 28.0)
    """
    machine = _machine(view)
    found = [
        LibraryCandidate(algorithm, protocol, latency_us, rate, latency_us + size_bytes / (1000 * rate))
        for algorithm, protocol in _usable(machine, collective)
        if (rate := _bandwidth_GBps(machine, collective, algorithm, protocol, size_bytes)) > 0
        for latency_us in [
            _latency_us(machine, collective, algorithm, protocol, size_bytes, view.network.stated_us)
        ]
    ]
    return sorted(found, key=lambda one: one.time_us)


def _usable(machine: _SearchedMachine, collective: str) -> Iterator[tuple[str, str]]:
    view, graphs = machine.view, machine.graphs
    for algorithm in _ALGORITHMS[collective]:
        usable = {
            "Ring": True,
            "Tree": True,
            "NVLS": view.nodes == 1 and graphs.nvls.channels >= 2,  # between nodes it needs CollNet
            "NVLSTree": view.nodes > 1 and graphs.nvls.channels >= 2,
            "PAT": view.per_node == 1,
        }[algorithm]
        for protocol in view.network.protocols.split() if usable else ():
            # Stores of 128 B arrive whole over NVLink only.
            if (algorithm in ("Ring", "Tree") and not (view.pcie_GBps and protocol == "LL128")) or (
                protocol == "Simple"
            ):
                yield algorithm, protocol


def _hops(view: LibraryView) -> _Latencies:
    """Return the latencies of hops within a node."""
    return _PCIE_HOP_US if view.pcie_GBps else _HOP_US


def _steps(view: LibraryView, collective: str) -> int:
    """Return the steps of a ring."""
    return {
        "all_reduce": 2 * (view.ranks - 1),
        "all_gather": view.ranks - 1,
        "reduce_scatter": view.ranks - 1,
    }.get(collective, view.ranks)


def _bandwidth_GBps(  # noqa: N802 - unit in the name
    machine: _SearchedMachine, collective: str, algorithm: str, protocol: str, size_bytes: int
) -> float:
    """Return the algorithm bandwidth that the cost model takes, in GB/s."""
    view, graphs, generation, scale, release = machine
    nvls = algorithm in ("NVLS", "NVLSTree")
    graph = graphs.nvls if nvls else graphs.tree if algorithm == "Tree" else graphs.ring
    one = graph.intra_GBps if view.nodes <= 2 else graph.inter_GBps
    if nvls:
        one = _nvls_GBps(machine, graph, collective, tree=algorithm == "NVLSTree")
    bus = graph.channels * one
    # Within a node LL's ceiling goes by the GPU, between nodes by the processor.
    most_ll = _LL_GBPS[generation if view.nodes == 1 else int(view.cpu == "amd")][scale]
    if algorithm == "Ring" and protocol == "LL":
        bus = min(most_ll, bus * 0.5)
    if algorithm == "Ring" and protocol == "LL128":
        cap = machine.cap_GBps(_RING_LL128_GBPS, release.ring_ll128_GBps)
        bus = min(bus * 0.92, graph.channels * cap)
    if algorithm == "Tree":
        bus = min(bus * 0.92, graph.channels * machine.cap_GBps(_TREE_GBPS, release.tree_GBps))
        if protocol == "LL":
            bus = min(bus / 3.8, most_ll)
        if protocol == "LL128":
            share = 7 / 9 if view.nodes == 1 else 120 / 128
            cap = machine.cap_GBps(_TREE_LL128_GBPS, release.tree_ll128_GBps)
            bus = min(bus * share, graph.channels * cap)
        if view.nodes > 1 and view.capability >= 90:
            bus *= 0.85  # a simple tree: the search's second try from Hopper on, as logged in nccl#1453
    if algorithm == "PAT":
        bus *= 0.75
    if algorithm in ("Ring", "NVLSTree") or collective == "all_reduce":
        whole = 5 / 6 if nvls and not release.nvls_efficiency else view.ranks / _steps(view, collective)
        bus *= 0.5 if algorithm == "Tree" else whole
    factors, power = _TREE_CORRECTION[protocol], (size_bytes >> 6).bit_length() - 1
    if algorithm == "NVLSTree" and release.nvls_tree_corrected and view.capability >= 100 and view.cpu:
        return bus * factors[min(power, len(factors) - 1)] if 0 <= power <= len(factors) else bus
    return bus * factors[power] if algorithm == "Tree" and 0 <= power < len(factors) else bus


def _nvls_GBps(  # noqa: N802 - unit in the name
    machine: _SearchedMachine, graph: ChannelGraph, collective: str, *, tree: bool
) -> float:
    """Return the bus bandwidth of one NVLS channel."""
    view, heads = machine.view, graph.channels
    if not machine.release.nvls_efficiency:
        if tree:
            return min(graph.intra_GBps, graph.inter_GBps / (1 if view.nodes <= 2 else 2))
        part = 1.0 if collective == "all_reduce" else (view.per_node - 1) / view.per_node
        return graph.intra_GBps * part
    inside = graph.intra_GBps * _NVLS_EFFICIENCY[machine.generation] * (heads - 1) / heads
    inside *= 2 if collective == "all_reduce" else (view.per_node - 1) / view.per_node
    if view.nodes == 1:
        return inside
    outside = graph.inter_GBps * (2 if view.nodes == 2 and tree else 1)
    most = machine.cap_GBps(_NVLS_TREE_GBPS, machine.release.nvls_tree_GBps) if tree else inf
    return min(inside, outside, most)


def _latency_us(
    machine: _SearchedMachine,
    collective: str,
    algorithm: str,
    protocol: str,
    size_bytes: int,
    added_us: float,
) -> float:
    """Return the latency of the cost model where a hop between nodes has some more than its table."""
    view, column = machine.view, _PROTOCOLS.index(protocol)
    base, hop = _BASE_US[algorithm][column], _hops(view)[algorithm][column]
    net = _NET_HOP_US["Tree" if view.per_node == 1 and algorithm != "PAT" else algorithm][column]
    net = machine.release.nvls_tree_hop_us if algorithm == "NVLSTree" else net
    net += added_us
    depth = view.nodes.bit_length() - 1
    if algorithm == "Tree":
        return base + 2 * ((view.per_node - 1) * hop + depth * net)
    if algorithm == "NVLS":
        return hop
    if algorithm == "NVLSTree":
        return base + hop + 2 * depth * net
    if algorithm == "PAT":
        return base + depth * net / 3.5 + view.ranks * 2.8
    if collective in ("broadcast", "reduce"):
        return base + (hop if view.nodes == 1 else _NET_HOP_US["Ring"][column])
    posting = (
        0.0 if view.nodes == 1 else (2.0 if view.cpu == "amd" else 1.0) * (3 if protocol == "Simple" else 1)
    )
    between = (view.nodes - 1) * (2 if collective == "all_reduce" else 1)
    latency = base + (_steps(view, collective) - between) * max(hop, posting) + between * net
    large = size_bytes // (machine.graphs.channels * view.ranks) >= 64
    if protocol == "Simple" and view.nodes > 1 and collective == "all_reduce" and large:
        latency *= 1.9 if view.capability < 80 else 1.4
    return latency


def choose_nccl(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what NCCL runs.

    Raises
    ------
    InputError
        NCCL has no such collective, or there is no model of the machine.

    Examples
    --------
    >>> h100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
    >>> choice = choose_nccl(h100, "all_reduce", 2**21)
    >>> choice.algorithm, choice.protocol, choice.blocks
    ('NVLS', 'Simple', 16)
    """
    if collective in _EXCHANGES:
        return _exchange(view, collective, size_bytes)
    if collective not in _ALGORITHMS:
        raise InputError(f"NCCL has no {collective}", where="library", hint="give an algorithm")
    machine = _machine(view)
    candidates = nccl_candidates(view, collective, size_bytes)
    best = candidates[0]
    blocks, threads, rule = _channels(machine, collective, best, size_bytes)
    simulated, protocol, difference = _SIMULATED[best.algorithm], best.protocol, ""
    if collective == "reduce" and protocol != "Simple":
        difference, protocol = f"reduce/ring has no packets: Simple instead of {protocol}", "Simple"
    why = (
        _searched(machine),
        f"least of {len(candidates)} predicted times: {best.time_us:.1f} us",
        rule,
        *view.notes,
    )
    return LibraryChoice(
        library="nccl",
        collective=collective,
        size_bytes=size_bytes,
        algorithm=best.algorithm,
        protocol=best.protocol,
        blocks=blocks,
        threads=threads,
        chunk_bytes=_chunk(view, best, size_bytes, blocks),
        simulated=simulated,
        simulated_protocol=protocol,
        channels=blocks,
        why=why,
        source=NCCL_SOURCE,
        candidates=tuple(candidates),
        base_us=_BASE_US[best.algorithm][_PROTOCOLS.index(best.protocol)] or _NVLS_BASE_US,
        saved_us=view.saved_us,
        proxy_us=_PROXY_US.get((best.algorithm, best.protocol), 0.0) + view.network.hop_us
        if view.nodes > 1
        else 0.0,
        difference=difference or _DIFFERENCE.get(best.algorithm, ""),
        elsewhere=_SYMMETRIC
        if view.nodes == 1 and not view.pcie_GBps and collective not in ("broadcast", "reduce")
        else "",
    )


_SYMMETRIC: Final = "for buffers in symmetric memory other kernels run: --library nccl-symmetric"
_SIMULATED: Final = {
    "Ring": "ring",
    "Tree": "tree",
    "NVLS": "nvls",
    "NVLSTree": "nvls_tree",
    "PAT": "ring",
}
_DIFFERENCE: Final = {
    "NVLSTree": "what comes from other nodes is added by warps of its own, not as it is loaded",
    "PAT": "a ring instead of PAT's logarithmic steps",
}


def _searched(machine: _SearchedMachine) -> str:
    ring, nvls = machine.graphs.ring, machine.graphs.nvls
    heads = f", {nvls.channels} NVLS heads of {nvls.intra_GBps:g} GB/s" if nvls.channels else ", no NVLS"
    return (
        f"search: {ring.channels} rings of {ring.intra_GBps:g} GB/s, "
        f"{machine.graphs.channels} channels{heads}"
    )


def _channels(
    machine: _SearchedMachine, collective: str, best: LibraryCandidate, size_bytes: int
) -> tuple[int, int, str]:
    """Return thread blocks and threads of each, and the rule that led to them."""
    view, protocol = machine.view, best.protocol
    threads = _THREADS[protocol]
    if best.algorithm in ("NVLS", "NVLSTree"):
        blocks = machine.graphs.nvls_channels
        rule = f"NVLS uses its {blocks} channels, {_MOST_THREADS} threads each"
        return _with_traffic(machine, collective, best, size_bytes, blocks), _MOST_THREADS, rule
    least = _THREAD_BYTES[protocol] * (view.ranks if (best.algorithm, protocol) == ("Ring", "LL") else 1)
    most = machine.graphs.channels
    blocks = max(1, min(most, size_bytes // (threads * least)))
    rule = f"{blocks} of {most} channels: {least} B at least for each of {threads} threads"
    while size_bytes < blocks * threads * least and threads % 128 == 0:
        threads //= 2
    if protocol == "Simple" and best.algorithm == "Ring":
        threads += _WARP  # one warp synchronises
    threads = max(threads, 3 * _WARP)
    if best.algorithm in ("Tree", "PAT"):
        threads = _MOST_THREADS
    return _with_traffic(machine, collective, best, size_bytes, blocks), threads, rule


def _with_traffic(
    machine: _SearchedMachine, collective: str, best: LibraryCandidate, size_bytes: int, blocks: int
) -> int:
    """Return how many channels have at least as much traffic as is worth one."""
    view, least = machine.view, machine.release.channel_bytes
    gathered = collective in ("all_gather", "reduce_scatter")
    count = size_bytes // view.ranks if gathered else size_bytes
    per_byte = view.ranks if gathered else 2 if collective == "all_reduce" else 1
    per_byte *= 4 if best.protocol == "LL" else 1
    share = _up(max(least, count * per_byte) // blocks, 16)
    cell = _up(ceil(least / per_byte), 16)  # work is dealt out in cells
    cells = max(1, ceil(count / cell))
    return max(1, min(blocks, ceil(cells / ceil(share / (cell * per_byte)))))


def _up(count: int, unit: int) -> int:
    """Round up to a multiple of the unit."""
    return ceil(count / unit) * unit


def _chunk(view: LibraryView, best: LibraryCandidate, size_bytes: int, blocks: int) -> int:
    """Return the data of one step of a channel."""
    step = BUFFER_BYTES[best.protocol] // NCCL_STEPS
    if best.protocol == "LL":
        return step // 2
    if best.protocol == "LL128":
        step = step // 16 * 15
        if best.algorithm == "Tree":
            depth = 1 + (view.nodes.bit_length() - 1) + 0.1 * view.per_node
            for factor, least in ((64, 131_072), (16, 32_768)):
                while size_bytes // (blocks * step) < depth * factor / view.per_node and step > least:
                    step //= 2
        return step
    if best.algorithm == "Ring":
        return step * NCCL_STEPS // 2
    heads = blocks * min(_MOST_HEADS, view.per_node)
    if best.algorithm == "NVLS":
        chunk = 131_072
        for factor, least in ((64, 65_536), (8, 32_768), (2, 16_384)):
            if size_bytes < factor * heads * chunk and chunk > least:
                chunk = least
        return chunk
    if best.algorithm == "NVLSTree":
        # ncclNvlsTreeSm100Tuning: NICs of 400 Gb/s beside their GPUs
        blackwell = view.capability >= 100 and 48 <= view.nic_GBps < 96 and 4 < view.per_node <= 8
        tuned = blackwell and nccl_release(view.version)[0].nvls_tree_tuned
        chunk = 65_536 if view.nodes >= 4 or tuned else 131_072
        for factor, least in ((4, 65_536), (1, 32_768)):
            if size_bytes < factor * heads * chunk and chunk > least:
                chunk = least
        return chunk
    return step


def _exchange(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return how NCCL sends to peers: grouped sends and receives, each on channels of its own."""
    machine = _machine(view)
    far = view.nodes > 1
    paired = collective in ("all_to_all", "send_recv")
    bytes_ = size_bytes if collective == "send_recv" else max(1, size_bytes // view.ranks)
    step = _PEER_CHUNK[far]
    small, large = (step // 2, step) if far else (step // 8, step * 32)
    most, least = _peer_channels(machine)
    channels = min(least, -(-bytes_ // small))
    while -(-bytes_ // channels) > large and channels <= most // 2:
        channels *= 2
    counted = least if machine.release.packets_by_most else channels
    protocol = "LL" if not far and bytes_ <= counted * _PEER_LL else "Simple"
    chunk = BUFFER_BYTES["LL"] // NCCL_STEPS // 2 if protocol == "LL" else step
    peers = 1 if collective == "send_recv" else view.ranks - 1
    blocks = channels * (1 if collective == "gather" else peers)
    simulated, wide, difference = "allpairs", blocks, ""
    if paired and far:
        simulated, wide, blocks = "pxn", channels, channels * ceil(peers / _PEER_BATCH)
        chunk //= 4 if bytes_ < step else 2 if bytes_ < 8 * step else 1
    elif paired and (protocol == "Simple" or collective == "send_recv"):
        simulated, wide = "put", channels
    elif far:
        difference = f"{collective}/allpairs uses the sender's NIC, not that of the receiver's rail"
    elif protocol == "LL" and not paired:
        difference = f"{collective}/allpairs has no packets: Simple, not LL"
    return LibraryChoice(
        library="nccl",
        collective=collective,
        size_bytes=size_bytes,
        algorithm="SendRecv",
        protocol=protocol,
        blocks=blocks,
        threads=_MOST_THREADS,
        chunk_bytes=chunk,
        simulated=simulated,
        simulated_protocol=protocol if paired else "Simple",
        channels=wide,
        why=(
            f"grouped send and receive: {channels} of {plural(most, 'channel')} for each peer",
            f"{format_bytes(small)} at least on each channel",
            "to other nodes by the NIC of the receiver's rail (PXN)"
            if far
            else f"{protocol}: up to {format_bytes(_PEER_LL)} a channel go by LL",
            *view.notes,
        ),
        source=NCCL_SOURCE,
        base_us=_BASE_US["Ring"][_PROTOCOLS.index(protocol)] + _PEER_US * (peers - 1),
        saved_us=view.saved_us,
        proxy_us=view.network.hop_us if far else 0.0,
        difference=difference,
    )


def _everything(machine: _SearchedMachine) -> int:
    """Return how many channels of a rank all its peers have together."""
    return 1 << (machine.graphs.channels - 1).bit_length()


def _peer_channels(machine: _SearchedMachine) -> tuple[int, int]:
    """Return how many channels of a rank one peer has: at most, and where all peers have some at once."""
    view, everything = machine.view, _everything(machine)
    if view.nodes == 1:
        most = min(everything, 1 << (2 * view.links - 1).bit_length())
    else:
        most = min(everything, 1 << (max(1, ceil(view.nic_GBps / _PEER_GBPS)) - 1).bit_length())
        while most * ceil(view.ranks / _PEER_BATCH) > everything and most > 1:
            most //= 2
    least = most
    while least * view.ranks > everything and least > 1:
        least //= 2
    return most, least


_PATTERNS: Final = {
    "Ring": "ring",
    "Tree": "doubleBinaryTree",
    "NVLSTree": "doubleBinaryTree",
    "NVLS": "direct",
    "PAT": "direct",
    "SendRecv": "direct",
}
_LINK_SHARE: Final = {"LL": 0.5, "LL128": 120 / 128, "Simple": 0.92}
"""Of a link's bandwidth: flags of packets; of Simple what NCCL's model takes of trees (``busBw * .92``)."""
_NVLS_STAGES: Final = 3  # a node's chunks are put into buffers, added and spread by the switch, taken out


def nccl_cost(view: LibraryView, collective: str, size_bytes: int) -> LibraryCost:
    """Return the cost of what NCCL runs, taken apart into begin, hops and bandwidth.

    Examples
    --------
    >>> h100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
    >>> cost = nccl_cost(h100, "all_reduce", 2**20)
    >>> cost.algorithm, cost.begin_us, cost.near_us
    ('ring', 6.6, 0.6)
    """
    added_us = view.network.hop_us
    if collective in _EXCHANGES:
        choice = _exchange(view, collective, size_bytes)
        column = _PROTOCOLS.index(choice.protocol)
        near, far = (table["Ring"][column] for table in (_hops(view), _NET_HOP_US))
        share = _LINK_SHARE[choice.protocol]
        cost = LibraryCost(
            "direct", choice.base_us, near, far + added_us, 0.0, share, NCCL_SOURCE, view.saved_us
        )
        if collective != "all_to_all":
            return cost
        # A receiver takes a chunk out of the buffer into which a sender has put it (packets as they come); to
        # other nodes a proxy thread hands each chunk to its NIC. All peers share the channels.
        share_bytes, posts = size_bytes / view.ranks, 0
        blocks = min(choice.blocks, _everything(_machine(view)))
        each = ceil(share_bytes * (view.ranks - 1) / blocks)
        if view.nodes > 1:
            each = ceil(share_bytes / choice.channels)
            mine = choice.channels * ceil(each / choice.chunk_bytes) * (view.ranks - view.per_node)
            posts = ceil(mine * view.per_node / view.nics)
        fill = blocks * min(each, choice.chunk_bytes) if choice.protocol == "Simple" else 0
        return replace(cost, fill_bytes=fill, blocks=blocks, posts=posts)
    best = nccl_candidates(view, collective, size_bytes)[0]
    name, column = best.algorithm, _PROTOCOLS.index(best.protocol)
    latency = _latency_us(_machine(view), collective, name, best.protocol, size_bytes, 0.0)
    begin, near, far = (table[name][column] for table in (_BASE_US, _hops(view), _NET_HOP_US))
    fill, rate = 0, best.bandwidth_GBps
    if name in ("NVLS", "NVLSTree"):
        begin, near = _NVLS_BASE_US + _LEAST_NVLS_US, 0.0
        blocks = _channels(_machine(view), collective, best, size_bytes)[0]
        at_once = blocks * min(_MOST_HEADS, view.per_node) * _chunk(view, best, size_bytes, blocks)
        fill = (_NVLS_STAGES - 1) * min(at_once, size_bytes)
        rate = _switched_GBps(view, collective, name)
    elif name == "PAT":
        near, far = 0.0, latency - begin
    elif collective not in ("broadcast", "reduce"):
        # What is left of the latency beside the hops between nodes is shared by the others: posting, too.
        # Of consecutive steps one in each node leaves it; the cost model counts one hop of a round less.
        steps = _steps(view, collective)
        between = ceil(steps / view.per_node) if view.nodes > 1 else 0
        if name == "Ring" and steps > between:
            near = max(0.0, latency - begin - between * far) / (steps - between)
    return LibraryCost(
        _PATTERNS[name],
        begin,
        near,
        far + added_us,
        rate,
        1.0,
        NCCL_SOURCE,
        view.saved_us,
        fill_bytes=fill,
    )


def _switched_GBps(  # noqa: N802 - unit in the name
    view: LibraryView, collective: str, algorithm: str
) -> float:
    """Return the bandwidth of NVLS and NVLSTree: within a node the switch gives what it gives in one node.

    The search between nodes starts from what NICs carry, and gives NVLS within a node no more. NICs carry as
    much of what its trees send as of other trees (``busBw * .92``). The corrections by size, which order the
    candidates, are left out.
    """
    machine, alone = _machine(view), _machine(replace(view, ranks=view.per_node))
    nvls, inside = machine.graphs.nvls, alone.graphs.nvls.intra_GBps
    nvls = replace(nvls, intra_GBps=inside, inter_GBps=nvls.inter_GBps * _LINK_SHARE["Simple"])
    machine = machine._replace(graphs=replace(machine.graphs, nvls=nvls))
    return _bandwidth_GBps(machine, collective, algorithm, "Simple", 0)
