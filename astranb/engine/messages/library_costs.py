"""Costs: what a library's software adds to the messages of its collectives on an infrastructure.

A library chooses an algorithm and a protocol by the size, launches a kernel, and takes time for each hop and
each byte besides the links (:func:`astranb.collectives.library_cost`). Here this becomes delays: before the
first message (the launch and the library's base latency), of every message (the hop, and by how much its
channels are slower than the links), and, where chunks follow one another through a tree, between chunks (its
channels' bandwidth). Messages meet on links as ever: what waits there comes on top.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from astranb.collectives import LibraryCost, LibraryView, library_cost, library_view
from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.gpu import chosen_preset
from astranb.net import message_routes, node_rings, route_of
from astranb.workload.astrasim2 import COLLECTIVE_NAMES, DimensionAlgorithm, InfraNetwork

from . import tables as t

__all__ = ["KNOWN_ERROR", "CollectiveCosts", "absent_of", "add_costs", "costs_text"]

KNOWN_ERROR: Final = "11 % off on one box, 17 % on several"
"""Of collectives with a library's cost, alone, to 1 GiB: the table of docs/fidelity.md."""

_NAMES: Final = {number: name for name, number in COLLECTIVE_NAMES.items()}
_PIECE_BYTES: Final = 1 << 17
_MOST_PIECES: Final = 32


class CollectiveCosts(NamedTuple):
    """Costs of the collectives of a run.

    Attributes
    ----------
    table : recarray of COST
    everyone : bool
        Whether collectives of all ranks are now those of a group behind the others.
    """

    table: Records
    everyone: bool


_TABLE_WAY_NS: Final = 300.0
"""Of the hops in NCCL's table: NVLink 4 to an NVSwitch, through it, and on (``docs/fidelity.md``)."""


class _Way(NamedTuple):
    """A message's way between two ranks, without others."""

    latency_ns: float
    rate_Bpns: float  # noqa: N815 - unit in the name


@dataclass(frozen=True)
class _Ranks:
    """Ranks of a collective on an infrastructure."""

    network: InfraNetwork
    ranks: Sequence[int]
    view: LibraryView

    def way(self, place: int) -> _Way:
        """Return the way from the rank in a place to the next one."""
        npus, (source, target) = self.network.npus, self.ranks[place : place + 2]
        routes = message_routes(self.network.fabric, [(source, target)], npus).routes
        route = routes[route_of(routes, source * npus + target, 0)]
        return _Way(float(route.latency_ns), float(route.rate_Bpns))


def add_costs(
    operations: Records, groups: Sequence[Sequence[int]], network: InfraNetwork, *, in_graph: bool = False
) -> CollectiveCosts:
    """Set which cost each collective of an infrastructure has; none where its library is not known.

    Parameters
    ----------
    operations : recarray of OPERATION_ROW
        ``cost`` is set, and ``group`` where a collective of all ranks has one.
    groups : sequence of sequence of int
        Ranks.
    network : InfraNetwork
    in_graph : bool
        Whether a graph replays the collectives.
    """
    whole = (1 << len(network.npus_count)) - 1
    some = (operations.kind == t.COLLECTIVE) & (operations.custom < 0)
    some &= (operations.group >= 0) | (operations.involved & whole == whole)
    try:
        machine = library_view(network.infra)
    except InputError:  # no GPUs whose library is known
        return CollectiveCosts(allocate(1, t.COST), everyone=False)
    keys = np.stack([operations.group[some], operations.collective[some], operations.bytes[some]])
    kinds, kind_of = np.unique(keys, axis=1, return_inverse=True)
    costs = np.full(kinds.shape[1], -1)
    found: dict[tuple[LibraryView, int, int], int] = {}
    rows: list[tuple[int, ...]] = []
    for kind, (group, collective, size) in enumerate(kinds.T.tolist()):
        ranks = groups[group] if group >= 0 else range(network.npus)
        size_bytes = size * len(ranks) if collective in (t.ALL_GATHER, t.GATHER) else size
        with suppress(InputError):  # no model of the library's choice for these ranks
            view = _communicator(machine, network, ranks)
            key = view, collective, size_bytes
            if key not in found:
                cost = library_cost(view, _NAMES[collective], size_bytes)
                those = _Ranks(network, ranks, view)
                rows.append(_row(those, cost, collective, size_bytes, in_graph=in_graph))
                found[key] = len(rows) - 1
            costs[kind] = found[key]
    cost_of = costs[kind_of.reshape(-1)]
    operations.cost[some] = cost_of
    of_all = (cost_of >= 0) & (keys[0] < 0)
    everyone = bool(of_all.any())
    operations.group[np.flatnonzero(some)[of_all]] = len(groups)
    table = allocate(max(len(rows), 1), t.COST)
    for at, row in enumerate(rows):
        table[at] = row
    return CollectiveCosts(table, everyone)


def costs_text(machine: t.MessageMachine) -> str:
    """Describe what the collectives of an infrastructure cost; empty where none runs."""
    o = machine.operations
    cost = o.cost[(o.kind == t.COLLECTIVE) & (o.custom < 0)]
    if not (machine.config[0].routed and len(cost)):
        return ""
    whole = f"what the GPUs' library takes (alone {KNOWN_ERROR}: docs/fidelity.md)"
    bare = "of bare messages, without launches and protocols of a library"
    if (cost >= 0).all():
        return f"collectives take {whole}"
    if (cost < 0).all():
        return f"collectives take the time {bare}"
    return f"{int((cost >= 0).sum()):,} of {len(cost):,} collectives take {whole}, the others the time {bare}"


def absent_of(operations: Records) -> dict[str, str]:
    """Return what a run of collectives on an infrastructure cannot know by messages, and why."""
    cost = operations.cost[(operations.kind == t.COLLECTIVE) & (operations.custom < 0)]
    if (cost < 0).all():
        reason = "bare messages have no software: cost='library' adds what the GPUs' library takes"
        return dict.fromkeys(("launch_ps", "protocol"), reason)
    reason = "by messages, what a library takes is one delay: fidelity='cacheline' runs its thread blocks"
    return {
        "launch_ps": "a launch is part of a collective's delay (cost='graph': of a replay in a graph)",
        "protocol": reason,
        "sms": "collectives take nothing from computations: fidelity='cacheline' shares SMs and memory",
    }


def _communicator(machine: LibraryView, network: InfraNetwork, ranks: Sequence[int]) -> LibraryView:
    """Return the library's view of some ranks of a machine."""
    if len(ranks) < 2:
        raise InputError("a rank by itself exchanges nothing", where="cost")
    width = min(network.fabric.shape.among(ranks).per_node, len(ranks))
    nics = -(-machine.nics * width // machine.per_node)
    return replace(machine, ranks=len(ranks), per_node=width, nics=nics)


def _row(
    those: _Ranks, cost: LibraryCost, collective: int, size_bytes: int, *, in_graph: bool
) -> tuple[int, ...]:
    """Return the row of a cost: delays are such that, without other traffic, the library's time results."""
    algorithm = DimensionAlgorithm.named(cost.algorithm, "cost")
    count, width = len(those.ranks), those.view.per_node
    rounds = 2 if collective == t.ALL_REDUCE else 1
    chained = collective in (t.BROADCAST, t.REDUCE)
    moved = size_bytes * (1 if chained else rounds * (count - 1) / count)  # by each rank
    ways = those.way(0) if width > 1 else None, those.way(width - 1) if width < count else None
    links_ns = [
        moved * part / way.rate_Bpns if way else 0.0
        for way, part in zip(ways, _parts(those, algorithm.number, chained=chained), strict=True)
    ]
    all_ns = _all_ns(those, cost, size_bytes, moved, links_ns)
    hops_us = cost.near_us + _farther_us(those.view, ways[0]) if cost.near_us else 0.0, cost.far_us
    hops_ns = [
        max(0.0, 1e3 * us - way.latency_ns) if way else 0.0 for us, way in zip(hops_us, ways, strict=True)
    ]
    begin_ns = 1e3 * (cost.begin_us - (cost.saved_us if in_graph else 0.0))
    pieces, gap_ns, rings = 1, 0.0, _rings(those)
    if algorithm.number == t.TREE or chained:
        pieces = min(max(size_bytes // _PIECE_BYTES, 1), _MOST_PIECES)
        gap_ns = all_ns / pieces
        if chained:  # the cost model has one hop for all ranks in a row
            hops_ns = [one / (count - 1) for one in hops_ns]
        else:  # one piece takes as long as lies between two, on links or before
            hops = [2 * (width - 1), 2 * (those.view.nodes.bit_length() - 1)]
            on_links = sum(n / way.rate_Bpns for n, way in zip(hops, ways, strict=True) if way)
            begin_ns += max(0.0, gap_ns - size_bytes / pieces / rings * on_links)
    else:
        steps = rounds
        if algorithm.number == t.RING_STEPS:
            # Between nodes rings are at different places, and hardly meet; in a mesh each waits for half of
            # the others on its link.
            steps = rounds * (count - 1)
            meet = (rings / (width - 1) + 1) / 2 if width == count and rings > 1 else 1.0
            links_ns = [meet * moved / rings / way.rate_Bpns if way else 0.0 for way in ways]
        hops_ns = [
            hop + max(0.0, all_ns - links) / steps for hop, links in zip(hops_ns, links_ns, strict=True)
        ]
    return (algorithm.number, algorithm.window, pieces, *(round(one) for one in (begin_ns, gap_ns, *hops_ns)))


def _all_ns(
    those: _Ranks, cost: LibraryCost, size_bytes: int, moved: float, links_ns: Sequence[float]
) -> float:
    """Return how long all bytes take: by the library's bandwidth, or the slowest of what they pass.

    Parameters
    ----------
    those : _Ranks
    cost : LibraryCost
    size_bytes : int
    moved : float
        Bytes that each rank sends.
    links_ns : sequence of float
        Of what crosses a link in a node, and a NIC.
    """
    if cost.bandwidth_GBps:
        return (size_bytes + cost.fill_bytes) / cost.bandwidth_GBps
    near_ns, far_ns = links_ns
    all_ns = max(near_ns / cost.link_share, far_ns / cost.far_share + _posts_ns(those, cost))
    if cost.blocks and those.view.per_node > 1:
        rate_GBps = cost.blocks * _copy_GBps(those, those.way(0))  # noqa: N806 - unit in the name
        all_ns = max(all_ns, moved / rate_GBps) + cost.fill_bytes / rate_GBps
    return all_ns


def _farther_us(view: LibraryView, way: _Way | None) -> float:
    """Return how much longer a hop of NCCL within a node is than in its table, which has one for all NVLinks.

    Its way may be longer than NVLink 4's, and half of what arrives is read in the farther half of the L2.
    """
    given = chosen_preset(view.gpu)[0]
    if way is None or given is None or view.amd or view.pcie_GBps:
        return 0.0
    return (way.latency_ns - _TABLE_WAY_NS + given.poll_ps / 2e3) / 1e3


def _rings(those: _Ranks) -> int:
    """Return over how many rings or trees a collective's messages go: one for each NIC, or of a mesh."""
    count = len(those.ranks)
    if those.view.per_node < count:
        return max(1, those.view.nics)
    return len(node_rings(count)) if those.network.fabric.shape.meshed and count > 2 else 1


def _parts(those: _Ranks, algorithm: int, *, chained: bool) -> list[float]:
    """Return the part of what a rank moves that crosses one of its links in a node, and its node's NIC.

    Through a NIC goes what a rank sends to other nodes; of a ring or a tree, what all send, over the NICs.
    """
    count, view = len(those.ranks), those.view
    width, nics = view.per_node, max(1, view.nics)
    inside = (width - 1) / (count - 1) if algorithm == t.DIRECT else 1 - 1 / width if width < count else 1.0
    if chained:
        return [1.0, 1 / nics]
    if those.network.fabric.shape.meshed and width > 1:
        inside /= width - 1  # links of their own lead to each of the others
    outside = 1 / nics
    if algorithm == t.DIRECT:
        outside = (count - width) / (count - 1)
    elif algorithm == t.TREE:
        # Half of the data goes up one tree and down the other: of two nodes each sends all once, of more some
        # twice. A rank moves all of it twice but for its share of a ring.
        outside *= count / (count - 1) * (0.5 if count // width == 2 else 1)
    return [inside, outside]


def _posts_ns(those: _Ranks, cost: LibraryCost) -> float:
    """Return what a NIC's proxy thread takes to hand it a rank's messages, one after another."""
    given = chosen_preset(those.view.gpu)[0]
    return cost.posts * given.nic_post_ps / 1e3 if given and cost.posts else 0.0


def _copy_GBps(those: _Ranks, way: _Way) -> float:  # noqa: N802 - unit in the name
    """Return what a thread block copies to another GPU: its lines under way, by the time of one of them.

    A line is loaded out of its memory, stored over the way into the other's L2, and acknowledged.
    """
    given = chosen_preset(those.view.gpu)[0]
    if given is None:
        return math.inf
    line_ps = 2 * (2 * given.noc_ps + given.l2_ps) + given.hbm_ps + 2e3 * way.latency_ns
    return 1e3 * given.max_outstanding * given.line_bytes / line_ps
