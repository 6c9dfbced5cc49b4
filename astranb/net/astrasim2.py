"""The two networks of ASTRA-sim 2.0's analytical backend, in whole nanoseconds, and our own ports.

Sources: astra-network-analytical (MIT licence), ``congestion_unaware`` and ``congestion_aware``.
Without congestion a message takes its hops' latency and its bytes once. With it every directed
link is a server: a message crosses one link after another and waits in a queue for each. ASTRA-sim
2.0 stores it whole at each node; here its first bytes go on while the last ones still come, as in
switches that cut through.

Without congestion ASTRA-sim 2.0 lets an NPU send any number of messages at once. Here the messages
of an NPU share its **ports**, its own ends of the links of a dimension: one to a switch, two of a ring
or mesh, one to each peer where all are connected.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Records, kernel

from .link import PACKET_BYTES

__all__ = [
    "DIMENSION",
    "DOWN",
    "FULLY_CONNECTED",
    "MESH",
    "MESSAGE_ROUTE",
    "RING",
    "ROUTED",
    "SERVER",
    "SWITCH",
    "WIRE",
    "arrived_in",
    "delay_ns",
    "heading_from",
    "hops_in",
    "link_count",
    "link_from",
    "node_after",
    "port_count",
    "port_of",
    "route_of",
    "wire_ns",
]

RING: Final = 0
FULLY_CONNECTED: Final = 1
SWITCH: Final = 2
MESH: Final = 3  # a ring without the link from the last to the first
ROUTED: Final = 4  # whatever links an infrastructure has

DIMENSION = np.dtype(
    [
        ("kind", "i8"),
        ("nodes", "i8"),  # NPUs in it
        ("stride", "i8"),  # from one NPU of it to the next, in ranks
        ("latency_ns", "f8"),  # of one link
        ("rate_Bpns", "f8"),  # bytes a nanosecond of one link
        ("first_link", "i8"),  # the first of its links, of those ahead or to the switch
        ("back_link", "i8"),  # and of those back or from the switch
        ("first_port", "i8"),  # the first of its ports among those of an NPU
    ]
)
"""One dimension of the network; the first is the one whose neighbours have neighbouring ranks."""

SERVER = np.dtype([("busy", "i8"), ("head", "i8"), ("tail", "i8"), ("free_ns", "f8"), ("turn", "i8")])
"""One directed link with congestion: whether it sends, which messages wait, where nodes cut through when it
has sent the bytes of those that do not, and the turn of what it has sent last."""

DOWN: Final = 2
"""Added to ``busy``: 1 where a link sends; whatever is not 0 takes in nothing."""

WIRE = np.dtype([("latency_ns", "f8"), ("rate_Bpns", "f8"), ("gap_ns", "f8")])
"""A link with congestion; ``gap_ns``: least time between two packets of a NIC, 0: none."""

MESSAGE_ROUTE = np.dtype(
    [
        ("key", "i8"),  # source and target: source * NPUs + target, in order
        ("count", "i8"),  # equally good routes from here to the last of this key
        ("first_hop", "i8"),  # in the list of links
        ("hops", "i8"),
        ("latency_ns", "f8"),  # of all links
        ("rate_Bpns", "f8"),  # of the narrowest
        ("gap_ns", "f8"),  # of the NIC with the fewest messages a second
        # Ports among those of the source: of the first link, and of the first of the narrowest; and
        # among those of the target: of the last link, and of the last of the narrowest. -1: the same.
        ("out", "i8"),
        ("out_narrow", "i8"),
        ("into", "i8"),
        ("into_narrow", "i8"),
        ("narrow_hop", "i8"),  # the first of the narrowest links, in the list of links
        ("last_narrow_hop", "i8"),
        ("shared", "i8"),  # 1: messages of others take some of its links, too
    ]
)
"""A route from an NPU to another over links of an infrastructure."""


@kernel
def hops_in(dims: Records, dim: int, here: int, there: int) -> int:
    """Return how many links a message crosses in a dimension, between two places that are not the same."""
    if dims[dim].kind == SWITCH:
        return 2
    if dims[dim].kind == RING:
        ahead = there - here
        if ahead < 0:
            ahead += dims[dim].nodes
        return int(min(ahead, dims[dim].nodes - ahead))
    if dims[dim].kind == MESH:
        return int(abs(there - here))
    return 1


@kernel
def delay_ns(dims: Records, src: int, dst: int, size: int, every_dim: int) -> int:
    """Return the time of a message without congestion.

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
            latency_ns += hops_in(dims, at, here, there) * dims[at].latency_ns
            if rate == 0.0 or dims[at].rate_Bpns < rate:
                rate = dims[at].rate_Bpns
            if every_dim == 0:
                break
    return int(latency_ns + float(size) / rate)


@kernel
def wire_ns(size: int, rate_Bpns: float, gap_ns: float) -> float:  # noqa: N803 - unit in the name
    """Return what a message occupies a link of an infrastructure: its bytes, or its packets' slots at a NIC.

    Parameters
    ----------
    size : int
        Bytes; a NIC cuts them into packets of :data:`PACKET_BYTES`.
    rate_Bpns : float
        Bytes a nanosecond.
    gap_ns : float
        Least time between two packets, 0 where there is none.

    Examples
    --------
    >>> wire_ns(8192, 50.0, 0.0), wire_ns(8193, 50.0, 100.0), wire_ns(1, 50.0, 100.0)
    (163.84, 300.0, 100.0)
    """
    wire = float(size) / rate_Bpns
    if gap_ns > 0.0:
        wire = max(wire, float((size + PACKET_BYTES - 1) // PACKET_BYTES) * gap_ns)
    return wire


def link_count(kind: int, nodes: int, npus: int) -> int:
    """Return how many directed links one dimension has, over all its copies.

    Examples
    --------
    >>> link_count(RING, 4, 8), link_count(FULLY_CONNECTED, 4, 8)
    (16, 32)
    """
    return npus * nodes if kind == FULLY_CONNECTED else 2 * npus


def port_count(kind: int, nodes: int) -> int:
    """Return how many ports an NPU has in one dimension.

    Examples
    --------
    >>> port_count(SWITCH, 8), port_count(RING, 8), port_count(FULLY_CONNECTED, 8)
    (1, 2, 8)
    """
    if kind == FULLY_CONNECTED:
        return nodes
    return 1 if kind == SWITCH else 2


@kernel
def port_of(dims: Records, dim: int, here: int, there: int) -> int:
    """Return the port that a message uses in a dimension, of its source as of its target.

    Parameters
    ----------
    dims : recarray of DIMENSION
    dim : int
    here, there : int
        Places of the source and the target in the dimension, not the same.

    Returns
    -------
    int
        Its number among the ports of an NPU.
    """
    kind = dims[dim].kind
    number = 0
    if kind == FULLY_CONNECTED or kind == RING:
        ahead = there - here
        if ahead < 0:
            ahead += dims[dim].nodes
        if kind == FULLY_CONNECTED:
            number = ahead
        elif dims[dim].nodes - ahead < ahead:
            number = 1
    elif kind == MESH and there < here:
        number = 1
    return int(dims[dim].first_port + number)


# Where a message is heading: twice the dimension, and 1 where it goes backwards (rings, meshes)
# or is at the switch.


@kernel
def heading_from(dims: Records, at: int, dst: int, first: int) -> int:
    """Return where a message heads from an NPU that is not its last: dimension by dimension.

    Parameters
    ----------
    dims : recarray of DIMENSION
    at, dst : int
        Ranks.
    first : int
        A dimension before which they do not differ.
    """
    dim = first
    here = at
    there = dst
    if len(dims) > 1:
        here = (at // dims[dim].stride) % dims[dim].nodes
        there = (dst // dims[dim].stride) % dims[dim].nodes
        while here == there and dim + 1 < len(dims):
            dim += 1
            here = (at // dims[dim].stride) % dims[dim].nodes
            there = (dst // dims[dim].stride) % dims[dim].nodes
    if dims[dim].kind == RING:
        ahead = there - here
        if ahead < 0:
            ahead += dims[dim].nodes
        if dims[dim].nodes - ahead < ahead:
            return int(2 * dim + 1)
    elif dims[dim].kind == MESH and there < here:
        return int(2 * dim + 1)
    return int(2 * dim)


@kernel
def _beyond(dims: Records, dim: int, at: int, dst: int) -> int:
    """Return the NPU that has the place of the last one in one dimension."""
    if len(dims) == 1:
        return dst
    stride = dims[dim].stride
    nodes = dims[dim].nodes
    return int(at + ((dst // stride) % nodes - (at // stride) % nodes) * stride)


@kernel
def link_from(dims: Records, at: int, dst: int, heading: int) -> int:
    """Return the link that a message takes next."""
    dim = heading >> 1
    if dims[dim].kind == FULLY_CONNECTED:
        there = dst
        if len(dims) > 1:
            there = (dst // dims[dim].stride) % dims[dim].nodes
        return int(dims[dim].first_link + at * dims[dim].nodes + there)
    if heading & 1 == 0:
        return int(dims[dim].first_link + at)
    if dims[dim].kind == SWITCH:
        return int(dims[dim].back_link + _beyond(dims, dim, at, dst))
    return int(dims[dim].back_link + at)


@kernel
def node_after(dims: Records, at: int, dst: int, heading: int) -> int:
    """Return the NPU that the link leads to; one before a switch stays where it is."""
    dim = heading >> 1
    kind = dims[dim].kind
    if kind == RING or kind == MESH:
        nodes = dims[dim].nodes
        stride = dims[dim].stride
        here = at
        if len(dims) > 1:
            here = (at // stride) % nodes
        if heading & 1 == 0:
            return int(at + stride) if here + 1 < nodes else int(at - here * stride)
        return int(at - stride) if here > 0 else int(at + (nodes - 1) * stride)
    if kind == SWITCH and heading & 1 == 0:
        return at
    return _beyond(dims, dim, at, dst)


@kernel
def arrived_in(dims: Records, heading: int, at: int, dst: int) -> bool:
    """Return whether a message has reached its target coordinate in its dimension."""
    if len(dims) == 1:
        return at == dst
    dim = heading >> 1
    stride = dims[dim].stride
    nodes = dims[dim].nodes
    return bool((at // stride) % nodes == (dst // stride) % nodes)


_MIX: Final = 0x5BD1E995
_LOW: Final = 0x7FFFFFFF


@kernel
def route_of(routes: Records, key: int, number: int) -> int:
    """Find a route over an infrastructure: of equally good ones the same for the same number.

    Parameters
    ----------
    routes : recarray of MESSAGE_ROUTE
    key : int
        Source and target.
    number : int
        Of the message: its tag.

    Returns
    -------
    int
        A row; -1 where there is no such pair.
    """
    low = 0
    high = len(routes)
    while low < high:
        middle = (low + high) >> 1
        if routes[middle].key < key:
            low = middle + 1
        else:
            high = middle
    if low == len(routes) or routes[low].key != key:
        return -1
    count = routes[low].count
    if count == 1:
        return low
    return int(low + ((((number * 8191 + key) & _LOW) * _MIX) >> 15) % count)
