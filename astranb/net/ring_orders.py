"""The order of the ranks on a channel's ring: another one for each channel.

Within a mesh (xGMI) rings share no link; between nodes each channel enters a node at another GPU,
and so by another NIC, and stays on its rail.

Sources: Hamiltonian cycles that share no edge, Walecki's construction (Lucas, Récréations
mathématiques, 1892; Alspach, "The wonderful Walecki construction", 2008); paths that share no arc,
Williams, "Experimental designs balanced for the estimation of residual effects", 1949; for eight
GPUs, those of RCCL; nodes that a ring passes in opposite directions, NCCL (src/graph/connect.cc, rings
are exchanged on odd nodes so that they do not cross rails).
"""

from __future__ import annotations

from functools import cache

from .shape import Shape

__all__ = ["node_chains", "node_paths", "node_rings", "ring_order"]

_Orders = tuple[tuple[int, ...], ...]

_RCCL_RINGS = (
    "0 1 2 3 4 5 6 7|0 1 2 3 4 5 7 6|0 2 4 1 3 6 5 7|0 2 4 6 1 7 3 5|0 3 1 5 2 7 4 6|0 3 5 1 6 2 7 4|"
    "0 4 1 7 3 6 2 5"
)
"""Rings of MI300X: RCCL, src/graph/rome_models.cc @cb829d62, model 79, where the same seven follow
backwards, and all fourteen once more."""


def ring_order(ranks: int, shape: Shape, channel: int) -> tuple[int, ...]:
    """Return the ranks in the order of a channel's ring.

    Parameters
    ----------
    ranks : int
    shape : Shape
    channel : int

    Examples
    --------
    >>> ring_order(8, Shape(4, rdma=True), 0), ring_order(8, Shape(4, rdma=True), 1)
    ((0, 1, 2, 3, 7, 6, 5, 4), (1, 2, 3, 0, 4, 7, 6, 5))
    """
    if shape.per_node == ranks and shape.meshed and ranks > 2:
        rings = node_rings(ranks)
        return rings[channel % len(rings)]
    # By the NIC by which it leaves a node it enters the next one, which it passes the other way.
    chains = node_chains(ranks, shape, channel)
    other = -1 if shape.rdma else 1
    return tuple(rank for node, chain in enumerate(chains) for rank in chain[:: other if node % 2 else 1])


def node_chains(ranks: int, shape: Shape, channel: int) -> _Orders:
    """Return the ranks of each node in a channel's order: all channels begin at different GPUs.

    Where nodes have no NICs, the order is that of the ranks; where they differ in size, all are one.

    Examples
    --------
    >>> node_chains(8, Shape(4, rdma=True), 1)
    ((1, 2, 3, 0), (5, 6, 7, 4))
    """
    width = shape.per_node
    if ranks % width or width in (1, ranks):
        return (tuple(range(ranks)),)
    path = tuple(range(width))
    if shape.rdma:
        paths = node_paths(width, meshed=shape.meshed)
        path = paths[channel % len(paths)]
    return tuple(tuple(first + place for place in path) for first in range(0, ranks, width))


@cache
def node_rings(gpus: int) -> _Orders:
    """Return rings over a full mesh that use every link equally often; for an even number all but a few.

    Examples
    --------
    >>> node_rings(3)
    ((0, 1, 2), (2, 1, 0))
    """
    if gpus == 8:
        forth = tuple(tuple(map(int, ring.split())) for ring in _RCCL_RINGS.split("|"))
        return forth + tuple(ring[::-1] for ring in forth)
    # Walecki: zigzags over the others on a circle, each turned further, closed over the last rank;
    # in an even number the last but one takes the place of the zigzag's middle link.
    others = gpus - 1 if gpus % 2 else gpus - 2
    zigzag = _zigzag(others)
    middle = tuple(range(others, gpus - 1))
    rings = [
        (*turned[: others // 2], *middle, *turned[others // 2 :], gpus - 1)
        for turned in (tuple((k + turn) % others for k in zigzag) for turn in range(others // 2))
    ]
    return tuple(way for ring in rings for way in (ring, ring[::-1]))


@cache
def node_paths(gpus: int, *, meshed: bool) -> _Orders:
    """Return as many paths over a node's GPUs as there are GPUs: each begins at another one, and so ends.

    In a mesh of an even number of GPUs, they use every link once.

    Examples
    --------
    >>> node_paths(4, meshed=True)[:2]
    ((0, 1, 3, 2), (1, 2, 0, 3))
    """
    path = _zigzag(gpus) if meshed else list(range(gpus))
    return tuple(tuple((k + turn) % gpus for k in path) for turn in range(gpus))


def _zigzag(count: int) -> list[int]:
    """Return points of a circle by turns on both sides: 0, 1, -1, 2, and so on."""
    return [(k + 1) // 2 * (-1) ** (k + 1) % count for k in range(count)]
