"""Instances as objects: all nodes of ``host.3``."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.plural import plural
from astranb.core.units import format_bandwidth, format_bytes
from astranb.infragraph import title_of
from astranb.net import Fabric

from .machine import CacheLineMachine, busy_until

__all__ = ["rows_of_group"]

_MOST_CHILDREN = 200


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
        return f"{mean:.1%} of {plural(count, 'lane')}, {format_bytes(int(links['bytes'][which].sum()))}"

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
        children.append({"path": name, "text": title_of(name, rank=rank.get(node, -1))})
    return state, flying, children
