"""The rings, trees and NVLS heads that NCCL's search finds: how many channels, and how fast each is.

NCCL searches the topology for channels of a speed out of a list, and takes the speed with the most
bandwidth in all. Where links lead to switches (or no GPU is left out) the result follows from what each
GPU and NIC carries. Source: NVIDIA/nccl @5067397c, ``src/graph/search.cc`` (``ncclTopoCompute``,
``ncclTopoDupChannels``, ``ncclTopoSearchTryNvls``) and ``src/graph/connect.cc`` (``ncclTopoPostset``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from astranb.core.errors import InputError

from .nccl_releases import nccl_release
from .topology import LibraryView

__all__ = ["ChannelGraph", "ChannelGraphs", "channel_graphs"]

_MOST_CHANNELS: Final = 64
_MOST_HEADS: Final = 32  # NCCL_MAX_NVLS_ARITY
_INTRA: Final = {
    90: (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0),
    0: (40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0),
}
"""GB/s of a channel within a node, by the least compute capability; Blackwell's go by the release."""
_INTER: Final = {
    90: (48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12),
    0: (
        48.0,
        30.0,
        28.0,
        24.0,
        20.0,
        18.0,
        15.0,
        12.0,
        10.0,
        9.0,
        7.0,
        6.0,
        5.0,
        4.0,
        3.0,
        2.4,
        1.2,
        0.24,
        0.12,
    ),
}
"""GB/s of a channel that leaves the node."""
_LEAST_NEXT: Final = 0.49  # slower channels than this share of the best are not tried
_DUPLICATED_GBPS: Final = 25.0
_FAST_GBPS: Final = 50.0
_ENOUGH: Final = 4


@dataclass(frozen=True, slots=True)
class ChannelGraph:
    """Channels of one pattern.

    Attributes
    ----------
    channels : int
        0 if the machine has none of the pattern.
    intra_GBps, inter_GBps : float
        Of one channel within a node and between nodes.
    """

    channels: int
    intra_GBps: float  # noqa: N815 - unit in the name
    inter_GBps: float  # noqa: N815 - unit in the name


@dataclass(frozen=True, slots=True)
class ChannelGraphs:
    """Result of the search.

    Attributes
    ----------
    ring, tree, nvls : ChannelGraph
    channels, nvls_channels : int
        Thread blocks that rings and trees, and NVLS, use at most.
    """

    ring: ChannelGraph
    tree: ChannelGraph
    nvls: ChannelGraph
    channels: int
    nvls_channels: int


def channel_graphs(view: LibraryView) -> ChannelGraphs:
    """Return what NCCL's search finds on a machine whose NVLinks lead to switches.

    Examples
    --------
    >>> h100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
    >>> channel_graphs(h100).ring, channel_graphs(h100).channels
    (ChannelGraph(channels=12, intra_GBps=30.0, inter_GBps=30.0), 24)
    """
    release, _ = nccl_release(view.version)
    newest = release.intra_GBps if view.nodes == 1 else release.inter_GBps
    table = {100: newest} | (_INTRA if view.nodes == 1 else _INTER)
    speeds = next(listed for least, listed in table.items() if view.capability >= least)
    ring = _duplicate(_ring(view, speeds), view)
    if not ring.channels:
        what = f"no model of NCCL's choice over NICs of {view.nic_GBps:g} GB/s"
        raise InputError(what, where="library", hint="give an algorithm")
    channels = min(_MOST_CHANNELS, 2 * ring.channels)
    if view.capability >= 90 and view.nodes > 1 and ring.intra_GBps > 45 and channels < 16:
        channels *= 2  # four thread blocks for each channel of the search reach the peak
    nvls = _nvls(view, speeds)
    blocks = 16 if view.capability < 100 else 24 if view.nodes == 1 else 32
    return ChannelGraphs(
        ring, _tree(view, speeds, ring.channels), nvls, channels, blocks if nvls.channels else 0
    )


def _most_ring(view: LibraryView, speed: float) -> int:
    """Return how many channels of a speed fit: a GPU sends in each but those that leave by its node's end."""
    if view.nodes == 1:
        return int(view.gpu_GBps / speed)
    fits = view.nics * int(view.nic_GBps / speed)
    inside = 1 - 1 / view.per_node
    return min(fits, int(view.gpu_GBps / (speed * inside))) if inside else fits


def _ring(view: LibraryView, speeds: tuple[float, ...]) -> ChannelGraph:
    best = ChannelGraph(0, 0.0, 0.0)
    for speed in speeds:
        if best.channels and speed / best.inter_GBps <= _LEAST_NEXT:
            break
        count = min(_MOST_CHANNELS // 2, _most_ring(view, speed))
        if count * speed > best.channels * best.intra_GBps:
            best = ChannelGraph(count, speed, speed)
        if count * speed >= view.gpu_GBps:
            break
    return best


def _duplicate(found: ChannelGraph, view: LibraryView) -> ChannelGraph:
    """Split fast channels in two, so that thread blocks can keep up."""
    if found.intra_GBps < _DUPLICATED_GBPS:
        return found
    if view.capability > 80 and found.intra_GBps < _FAST_GBPS and found.channels > _ENOUGH:
        return found
    count = min(2 * found.channels, _MOST_CHANNELS // 2)
    parts = -(-count // found.channels)
    return ChannelGraph(count, found.intra_GBps / parts, found.inter_GBps / parts)


def _tree(view: LibraryView, speeds: tuple[float, ...], channels: int) -> ChannelGraph:
    """Return as many chains through each node as there are rings, as fast as they fit."""
    inside = (view.per_node - 1) / view.per_node
    fitting = [s for s in speeds if channels * s * inside <= view.gpu_GBps]
    if view.nodes == 1:
        return ChannelGraph(channels, fitting[0], fitting[0])
    inter = next((s for s in fitting if view.nics * int(view.nic_GBps / s) >= channels), 0.0)
    faster = [s for s in fitting if inter <= s < 2 * inter]
    return ChannelGraph(channels, max(faster, default=inter), inter)


def _nvls(view: LibraryView, speeds: tuple[float, ...]) -> ChannelGraph:
    """Return one head for each GPU: it gives to and takes from the switch twice what the others do."""
    none = ChannelGraph(0, 0.0, 0.0)
    if not view.multicast or view.per_node < 2:
        return none
    heads = min(_MOST_HEADS, view.per_node)
    intra = next((s for s in speeds if (heads + 1) * s <= view.gpu_GBps), 0.0)
    if view.nodes == 1:
        return ChannelGraph(heads, intra, intra)
    heads = min(heads, view.nics)
    if not heads:
        return none
    fitting = [s for s in speeds if s <= view.nic_GBps * (view.nics // heads)]
    inter = next((s for s in fitting if s < 2 * intra), 0.0)
    return replace(none, channels=heads, intra_GBps=min(intra, inter), inter_GBps=inter)
