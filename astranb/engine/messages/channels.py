"""Channels: over an infrastructure a library runs several rings or trees, each in an order of its own.

Over a mesh each ring uses other links; between nodes each ring and tree enters and leaves a node by another
NIC (:mod:`astranb.net.ring_orders`), so that a node has the bandwidth of all of its NICs. A tree is NCCL's:
a chain in each node, and a binary tree over the first ranks of these (``src/graph/trees.cc``); every other
one is its mirror image. The channels of a collective are rows of the table of groups, and its chunks take
them in turn.

In a network of dimensions one ring stands for all of them (:func:`.ports.shared_by`), and trees are those of
ASTRA-sim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from astranb.core.jit import Records
from astranb.infragraph import NodeKind
from astranb.net import Fabric, node_chains, node_rings, ring_order
from astranb.workload.astrasim2 import InfraNetwork

from . import tables as t
from .implementations import group_algorithm

__all__ = ["Channel", "add_channels"]

_LEAST_BYTES: Final = 1 << 14
"""A step's bytes for another ring: at 50 GB/s they take less time than a message takes to the next node."""


@dataclass(frozen=True)
class Channel:
    """The ranks of a channel, in the order of its ring or tree.

    Attributes
    ----------
    ranks : sequence of int
    chain : int
        How many in a row a tree joins in a chain, so that it joins only the first of them with others.
    """

    ranks: Sequence[int]
    chain: int = 1


def add_channels(
    operations: Records,
    groups: Sequence[Sequence[int]],
    network: InfraNetwork,
    implementations: Records,
    costs: Records,
) -> list[Channel]:
    """Set which channels the collectives of an infrastructure have.

    Parameters
    ----------
    operations : recarray of OPERATION_ROW
        ``ring`` and ``rings`` are set: the row of the first channel, and how many there are.
    groups : sequence of sequence of int
        Ranks; the channels have the rows behind these.
    network : InfraNetwork
    implementations : recarray of IMPLEMENTATION
    costs : recarray of COST

    Returns
    -------
    list of Channel
    """
    dims = len(network.npus_count)
    some = (operations.kind == t.COLLECTIVE) & (operations.custom < 0)
    if dims > 1:
        some &= operations.group >= 0  # all ranks go dimension by dimension
    made: list[Channel] = []
    for group in np.unique(operations.group[some]).tolist():
        ranks = groups[group] if group >= 0 else range(network.npus)
        mine = np.flatnonzero(some & (operations.group == group))
        first: dict[int, tuple[int, int]] = {}
        kinds = np.unique(np.stack([operations.collective[mine], operations.cost[mine]]), axis=1)
        for collective, cost in kinds.T.tolist():
            algorithm = group_algorithm(implementations, dims, collective, 0, compat=False)
            if cost >= 0:
                algorithm = int(costs[cost].algorithm)
            if collective == t.ALL_TO_ALL or algorithm not in (t.RING_STEPS, t.TREE):
                continue
            if algorithm not in first:
                added = _channels(network.fabric, ranks, algorithm)
                first[algorithm] = len(groups) + len(made), len(added)
                made += added
            row, most = first[algorithm]
            if most:
                alike = mine[(operations.collective[mine] == collective) & (operations.cost[mine] == cost)]
                whole = algorithm == t.TREE or collective in (t.ALL_GATHER, t.BROADCAST, t.REDUCE)
                step_bytes = operations.bytes[alike] // (1 if whole else len(ranks))
                operations.ring[alike] = row
                operations.rings[alike] = np.clip(step_bytes // _LEAST_BYTES, 1, most)
    return made


def _channels(fabric: Fabric, ranks: Sequence[int], algorithm: int) -> list[Channel]:
    """Return a channel for each of the links that they share; none where the ranks' order is as good."""
    count, shape = len(ranks), fabric.shape.among(ranks)
    width = shape.per_node
    used: Sequence[int] = ()
    if width < count:
        used = _leaving(fabric, ranks, width) if shape.rdma else [0]
    elif algorithm == t.RING_STEPS and shape.meshed and count > 2:
        used = range(len(node_rings(count)))
    if algorithm == t.RING_STEPS:
        return [Channel([ranks[k] for k in ring_order(count, shape, channel)]) for channel in used]
    # Within a node a tree joins the ranks one by one.
    chain = width if width < count else 1
    found = []
    for channel in used or [0]:
        chains = node_chains(count, shape, channel) if chain > 1 else [(k,) for k in range(count)]
        # The second tree mirrors the first one, or shifts it where the number of nodes is odd.
        other = chains[::-1] if len(chains) % 2 == 0 else [*chains[1:], chains[0]]
        found += [Channel([ranks[k] for each in order for k in each], chain) for order in (chains, other)]
    return found


def _leaving(fabric: Fabric, ranks: Sequence[int], width: int) -> list[int]:
    """Return the first place of each NIC by which the ranks of the first node leave for the second."""
    is_nic = fabric.graph.nodes.kind == NodeKind.NIC
    pairs = [(ranks[place], ranks[width + place]) for place in range(width)]
    routes, _ = fabric.routes(pairs, partial=True)
    first: dict[int, int] = {}
    for place, pair in enumerate(pairs):
        for route in routes.get(pair, ()):
            nodes = fabric.links["dst"][route]
            for nic in nodes[is_nic[nodes]][:1].tolist():
                first.setdefault(nic, place)
    return sorted(set(first.values())) or [0]
