"""Instances as objects: all nodes of ``host.3``, and all links between two of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from astranb.core.errors import InputError
from astranb.core.units import format_bandwidth, format_bytes
from astranb.net import Fabric

from .machine import CacheLineMachine, busy_until

__all__ = ["links_between", "nodes_of", "rows_of_group"]

_MOST_CHILDREN = 200


def nodes_of(path: str, fabric: Fabric) -> tuple[int, ...]:
    """Nodes of an instance (``host.3``) or of consecutive ranks (``gpu[0-31]``); none for anything else."""
    ranks = re.fullmatch(r"gpu\[(\d+)-(\d+)\]", path)
    if ranks:
        return tuple(int(g) for g in fabric.gpus[int(ranks[1]) : int(ranks[2]) + 1])
    if not re.fullmatch(r".+\.\d+", path):
        return ()
    try:
        return tuple(int(node) for node in fabric.graph.select(path))
    except InputError:
        return ()


def links_between(path: str, fabric: Fabric) -> tuple[int, ...]:
    """Links of ``A->B`` where an end is an instance; none where an end is unknown."""
    ends: list[tuple[int, ...]] = []
    for name in path.split("->", 1):
        try:
            ends.append((fabric.graph.index(name.strip()),))
        except (KeyError, ValueError, InputError):
            ends.append(nodes_of(name.strip(), fabric))
    inside = np.isin(fabric.links["src"], ends[0]) & np.isin(fabric.links["dst"], ends[1])
    return tuple(int(link) for link in np.flatnonzero(inside))


def rows_of_group(
    machine: CacheLineMachine, fabric: Fabric, nodes: tuple[int, ...], now_ps: int
) -> tuple[list[tuple[str, Any]], np.ndarray, list[dict[str, str]]]:
    """Return the inspector's rows of an instance: state, requests under way of its GPUs, its nodes."""
    links, graph = machine.links[: len(fabric.links)], fabric.graph
    src, dst = np.isin(links["src"], nodes), np.isin(links["dst"], nodes)
    ranks = np.flatnonzero(np.isin(fabric.gpus, nodes))
    requests = machine.requests
    flying = np.flatnonzero((requests["live"] == 1) & np.isin(requests["gpu"], ranks))

    def busy(which: np.ndarray) -> str:
        count = int(which.sum())
        mean = busy_until(links[which], now_ps).sum() / (max(1, now_ps) * max(1, count))
        return f"{mean:.1%} of {count:,} lanes, {format_bytes(int(links['bytes'][which].sum()))}"

    state: list[tuple[str, Any]] = [
        ("nodes", f"{len(nodes):,}"),
        ("GPUs", f"{len(ranks):,}" + (f", ranks {ranks[0]} to {ranks[-1]}" if len(ranks) else "")),
        ("bandwidth out", format_bandwidth(int(links["bandwidth_Bps"][src & ~dst].sum()))),
        ("used, links out", busy(src & ~dst)),
        ("used, links in", busy(dst & ~src)),
        ("used, links within", busy(src & dst)),
        ("instructions issued", f"{int(machine.sms['issued'][np.isin(machine.sms['gpu'], ranks)].sum()):,}"),
        ("GPUs that have ended", f"{int((machine.gpus['ended_ps'][ranks] > 0).sum()):,}"),
    ]
    rank = {int(fabric.gpus[r]): int(r) for r in ranks}
    first = sorted(nodes, key=lambda node: (rank.get(node, len(fabric.gpus)), node))[:_MOST_CHILDREN]
    children = []
    for node in first:
        name = graph.name(node)
        children.append({"path": name, "text": f"GPU{rank[node]}: {name}" if node in rank else name})
    return state, flying, children
