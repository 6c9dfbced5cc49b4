"""Where nodes stand in the picture: deterministic, by tier, the same every time."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from astranb.infragraph import Graph, NodeKind
from astranb.net import Fabric

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Box", "Layout", "lay_out"]

_GPUS_A_ROW = 8
_WIDTH, _HEIGHT, _GAP = 96.0, 44.0, 28.0
_MARGIN = 30.0
_TIERS = 130.0  # between rows of GPUs and of switches


@dataclass(frozen=True)
class Box:
    """One node in the picture; ``x`` and ``y`` are its centre."""

    node: int
    name: str
    label: str
    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """Boxes and the bundles of parallel lanes between them.

    Attributes
    ----------
    boxes : tuple of Box
    bundles : tuple of (int, int, tuple of int)
        Place of the box at each end, and the lanes from the first to the second.
    width, height : float
    hidden : int
        Nodes that carry none of the program's lines and are not drawn.
    """

    boxes: tuple[Box, ...]
    bundles: tuple[tuple[int, int, tuple[int, ...]], ...]
    width: float
    height: float
    hidden: int


def lay_out(fabric: Fabric, used: np.ndarray) -> Layout:
    """Place the GPUs and whatever lies on the ways between them.

    Parameters
    ----------
    fabric : Fabric
    used : ndarray of int
        Links that the program's ways cross.

    Returns
    -------
    Layout
        What passes lines on stands in rows between and below the GPUs, by how many hops
        it is away from one; GPUs that are joined directly stand in a ring or a square.
    """
    graph = fabric.graph
    links = fabric.links
    gpus = [int(g) for g in fabric.gpus]
    rank = {node: number for number, node in enumerate(gpus)}
    nodes = sorted({*gpus, *links["src"][used].tolist(), *links["dst"][used].tolist()})
    tier = _tiers(gpus, nodes, links, used)
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    direct = len(nodes) == len(gpus)
    for node in sorted(nodes, key=lambda node: rank.get(node, node)):
        if node not in rank:
            rows[(1, tier.get(node, 1))].append(node)
        elif direct and len(gpus) > _GPUS_A_ROW:  # a square, as a torus is drawn
            rows[(0, rank[node] // math.ceil(math.sqrt(len(gpus))))].append(node)
        else:
            rows[_gpu_row(rank[node], len(gpus))].append(node)
    if direct and (2, 0) in rows:
        rows[(2, 0)].reverse()  # so that a ring is drawn as one
    boxes: list[Box] = []
    widest = max(len(row) for row in rows.values())
    width = 2 * _MARGIN + widest * (_WIDTH + _GAP) - _GAP
    y = _MARGIN + _HEIGHT / 2
    for key in sorted(rows):
        row = rows[key]
        step = width / len(row)
        for place, node in enumerate(row):
            x = step * (place + 0.5)
            boxes.append(_box(graph, node, rank, x, y))
        y += _TIERS
    number = {box.node: place for place, box in enumerate(boxes)}
    bundles: dict[tuple[int, int], list[int]] = defaultdict(list)
    for link in sorted(int(k) for k in used):
        bundles[number[int(links[link].src)], number[int(links[link].dst)]].append(link)
    return Layout(
        tuple(boxes),
        tuple((a, b, tuple(lanes)) for (a, b), lanes in bundles.items()),
        width,
        y - _TIERS + _HEIGHT / 2 + _MARGIN,
        len(graph.kind) - len(nodes),
    )


def _gpu_row(rank: int, count: int) -> tuple[int, int]:
    """Up to eight GPUs stand above and below what joins them; more fill rows above."""
    if count <= _GPUS_A_ROW:
        return (0, 0) if rank < -(-count // 2) else (2, 0)
    return (0, rank // (2 * _GPUS_A_ROW))


def _tiers(gpus: list[int], nodes: list[int], links: np.ndarray, used: np.ndarray) -> dict[int, int]:
    """Hops of every node from the nearest GPU, over the links in use."""
    neighbours: dict[int, list[int]] = defaultdict(list)
    for src, dst in zip(links["src"][used].tolist(), links["dst"][used].tolist(), strict=True):
        neighbours[src].append(dst)
    tier = dict.fromkeys(gpus, 0)
    front = list(gpus)
    while front:
        following = []
        for node in front:
            for other in neighbours[node]:
                if other not in tier:
                    tier[other] = tier[node] + 1
                    following.append(other)
        front = following
    return {node: tier.get(node, len(nodes)) for node in nodes}


def _box(graph: Graph, node: int, rank: dict[int, int], x: float, y: float) -> Box:
    name = graph.name(node)
    kind = NodeKind(int(graph.kind[node])).name.lower()
    label = f"GPU{rank[node]}" if node in rank else ".".join(name.split(".")[-2:])
    return Box(node, name, label, kind, x, y, _WIDTH, _HEIGHT)
