"""The two networks of ASTRA-sim 2.0's analytical backend, in whole nanoseconds.

Sources: astra-network-analytical (MIT licence), ``congestion_unaware`` and ``congestion_aware``.
Without congestion a message takes its hops' latency and its bytes once. With it every directed
link is a server: a message crosses one link after another, whole, and waits in a queue for each.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Records, kernel

__all__ = [
    "DIMENSION",
    "FULLY_CONNECTED",
    "RING",
    "SERVER",
    "SWITCH",
    "delay_ns",
    "link_arrival_ns",
    "link_count",
    "link_from",
    "link_wire_ns",
    "node_after",
]

RING: Final = 0
FULLY_CONNECTED: Final = 1
SWITCH: Final = 2

DIMENSION = np.dtype(
    [
        ("kind", "i8"),
        ("nodes", "i8"),  # NPUs in it
        ("stride", "i8"),  # from one NPU of it to the next, in ranks
        ("latency_ns", "f8"),  # of one link
        ("rate_Bpns", "f8"),  # bytes a nanosecond of one link
    ]
)
"""One dimension of the network; the first is the one whose neighbours have neighbouring ranks."""

SERVER = np.dtype([("busy", "i8"), ("head", "i8"), ("tail", "i8")])
"""One directed link of the network with congestion: whether it sends, and which messages wait."""


@kernel
def delay_ns(dims: Records, src: int, dst: int, size: int, every_dim: int) -> int:
    """Give the time of a message without congestion.

    Parameters
    ----------
    dims : recarray of DIMENSION
        The network.
    src, dst : int
        Ranks, not the same.
    size : int
        Bytes.
    every_dim : int
        1: the latency of all dimensions that the message crosses, and the least bandwidth of
        them; 0, as ASTRA-sim 2.0 does: the first of them alone.

    Returns
    -------
    int
        Nanoseconds, rounded down.
    """
    latency_ns = 0.0
    rate = 0.0
    for at in range(len(dims)):
        here = src
        there = dst
        if len(dims) > 1:
            here = (src // dims[at].stride) % dims[at].nodes
            there = (dst // dims[at].stride) % dims[at].nodes
        if here != there:
            hops = 1
            if dims[at].kind == SWITCH:
                hops = 2
            elif dims[at].kind == RING:
                ahead = there - here
                if ahead < 0:
                    ahead += dims[at].nodes
                hops = min(ahead, dims[at].nodes - ahead)
            latency_ns += hops * dims[at].latency_ns
            if rate == 0.0 or dims[at].rate_Bpns < rate:
                rate = dims[at].rate_Bpns
            if every_dim == 0:
                break
    return int(latency_ns + float(size) / rate)


def link_count(kind: int, size: int) -> int:
    """Give how many directed links one dimension has."""
    return size * size if kind == FULLY_CONNECTED else 2 * size


@kernel
def link_from(dims: Records, at: int, dst: int, forwards: int) -> int:
    """Give the link that a message takes from a node (the switch is the node after the last NPU)."""
    size = dims[0].nodes
    if dims[0].kind == FULLY_CONNECTED:
        return int(at * size + dst)
    if dims[0].kind == SWITCH:
        return int(size + dst) if at == size else int(at)
    return int(at) if forwards == 1 else int(size + at)


@kernel
def node_after(dims: Records, at: int, dst: int, forwards: int) -> int:
    """Give the node that the link leads to."""
    size = dims[0].nodes
    if dims[0].kind == FULLY_CONNECTED:
        return int(dst)
    if dims[0].kind == SWITCH:
        return int(dst) if at == size else int(size)
    return int((at + 1) % size) if forwards == 1 else int((at - 1) % size)


@kernel
def link_arrival_ns(dims: Records, size: int) -> int:
    """Give the time from the start of a message on a link to its arrival, rounded down."""
    return int(dims[0].latency_ns + float(size) / dims[0].rate_Bpns)


@kernel
def link_wire_ns(dims: Records, size: int) -> int:
    """Give the time for which a message occupies a link, rounded down."""
    return int(float(size) / dims[0].rate_Bpns)
