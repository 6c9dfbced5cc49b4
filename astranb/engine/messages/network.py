"""Builds the tables of links and routes from a network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.net import DIMENSION, MESH, MESSAGE_ROUTE, ROUTED, SERVER, WIRE, link_count, port_count, route_of
from astranb.workload.astrasim2 import DimensionNetwork, InfraNetwork

from . import tables as t
from .implementations import distances, group_algorithm
from .rooted import binary_parent

__all__ = ["Links", "communicating_pairs", "dimensions_of", "make_links"]

_MOST_PAIRS: Final = 1 << 21


@dataclass(frozen=True)
class Links:
    """The tables of a network.

    Parameters
    ----------
    dims : recarray of DIMENSION
        Of the network; of an infrastructure those of its collectives, for inspection.
    servers : recarray of SERVER
        Links with congestion.
    routes : recarray of MESSAGE_ROUTE
    hops : recarray of COUNTER
    wires : recarray of WIRE
    ports : int
        Of an NPU, to send by and as many to receive by; 0 with congestion, and where ASTRA-sim 2.0 has none.
    """

    dims: Records
    servers: Records
    routes: Records
    hops: Records
    wires: Records
    ports: int


def make_links(
    network: DimensionNetwork | InfraNetwork,
    pairs: Iterable[tuple[int, int]],
    *,
    congestion: bool,
    compat: bool,
) -> Links:
    """Make the tables of a network.

    Parameters
    ----------
    network : DimensionNetwork or InfraNetwork
    pairs : iterable of (int, int)
        The pairs that may send to each other; they need routes in an infrastructure.
    congestion : bool
        Whether messages queue on links.
    compat : bool
        Whether bandwidths are GiB/s.

    Raises
    ------
    InputError
        There is no route, or ``compat`` is given and ASTRA-sim 2.0 does not have this network.
    """
    if isinstance(network, InfraNetwork):
        return _routed(network, pairs, congestion=congestion)
    dims = dimensions_of(network, compat=compat)
    if compat and congestion and len(network.topology) > 1:
        raise InputError(
            f"ASTRA-sim 2.0 has no congestion in a network of {len(network.topology)} dimensions",
            where=network.where,
            hint="use one dimension, --fidelity analytical, or leave --compat out",
        )
    count = 0
    owns = [link_count(int(dim.kind), int(dim.nodes), network.npus) if congestion else 0 for dim in dims]
    for dim, own in zip(dims, owns, strict=True):
        dim.first_link, dim.back_link = count, count + network.npus
        count += own
    wires = allocate(max(count, 1), WIRE)
    if count:
        for name in ("latency_ns", "rate_Bpns"):
            wires[name] = np.repeat(dims[name], owns)
    ports = 0
    if not (congestion or compat):
        each = [port_count(int(dim.kind), int(dim.nodes)) for dim in dims]
        dims.first_port, ports = np.concatenate([[0], np.cumsum(each)[:-1]]), sum(each)
    return Links(dims, _servers(count), allocate(1, MESSAGE_ROUTE), allocate(1, t.COUNTER), wires, ports)


def _servers(count: int) -> Records:
    """Make free links."""
    servers = allocate(max(count, 1), SERVER)
    servers.head = servers.tail = -1
    return servers


def dimensions_of(network: DimensionNetwork, *, compat: bool) -> Records:
    """Make the dimensions of links; ASTRA-sim 2.0 reads bandwidths as GiB/s."""
    rows: list[tuple[int, int, int, float, float]] = []
    stride = 1
    for at, (kind, sides) in enumerate(network.sides):
        if compat and (len(sides) > 1 or kind == MESH):
            raise InputError(
                f"ASTRA-sim 2.0 has no {network.topology[at]}",
                where=network.where,
                hint="take Ring, FullyConnected or Switch, or leave --compat out",
            )
        rate = network.bandwidth[at] * (1 << 30) / 1_000_000_000 if compat else network.bandwidth[at]
        for nodes in sides:
            rows.append((kind, nodes, stride, network.latency[at], rate))
            stride *= nodes
    dims = allocate(len(rows), DIMENSION)
    for name, column in zip(
        ("kind", "nodes", "stride", "latency_ns", "rate_Bpns"), zip(*rows, strict=True), strict=True
    ):
        dims[name] = column
    return dims


def _routed(network: InfraNetwork, pairs: Iterable[tuple[int, int]], *, congestion: bool) -> Links:
    """Make the routes through an infrastructure."""
    from astranb.net import message_routes

    wanted = set(pairs)
    if len(wanted) > _MOST_PAIRS:
        raise InputError(
            f"{len(wanted)} pairs of GPUs send to each other",
            where=network.where,
            hint="use rings, or collectives in several dimensions (--dimensions)",
        )
    found = message_routes(network.fabric, wanted, network.npus)
    hops = allocate(max(len(found.hops), 1), t.COUNTER)
    hops.value[: len(found.hops)] = found.hops
    routes = found.routes if len(found.routes) else allocate(1, MESSAGE_ROUTE)
    dims = allocate(len(network.npus_count), DIMENSION)
    dims.kind, dims.nodes = ROUTED, network.npus_count
    dims.stride = np.concatenate([[1], np.cumprod(network.npus_count)[:-1]])
    for dim in dims:
        # Those of the route from the first NPU to the next one of the dimension, if there is one.
        route = route_of(routes, int(dim.stride), 0)
        dim.latency_ns = routes[route].latency_ns if route >= 0 else 0.0
        dim.rate_Bpns = routes[route].rate_Bpns if route >= 0 else 1.0
    ports = 0
    if not congestion:
        ports = 1 + int(max(routes[name].max() for name in ("out", "out_narrow", "into", "into_narrow")))
    return Links(dims, _servers(len(found.wires)), routes, hops, found.wires, ports)


def communicating_pairs(
    table: Records,
    implementations: Records,
    group_rows: Records,
    members: Records,
    npus: int,
    *,
    compat: bool,
) -> set[tuple[int, int]]:
    """Return the pairs of NPUs that may send to each other; some may not do so."""
    keys: list[np.ndarray] = [np.empty(0, np.int64)]
    sends = np.isin(table.kind, (t.SEND, t.RECV))
    keys.append(table.npu[sends] * npus + table.peer[sends])
    all_of_them = np.arange(npus)
    chosen = implementations.reshape(t.COLLECTIVES, -1)
    own = (table.kind == t.COLLECTIVE) & (table.custom < 0)
    for collective in set(table.collective[own & (table.group < 0)].tolist()):
        for row in chosen[collective]:
            if row.algorithm >= 0 and row.nodes > 1:
                index = (all_of_them // row.stride) % row.nodes
                for distance in distances(int(row.algorithm), int(row.nodes)):
                    there = (index + distance) % row.nodes
                    keys.append(all_of_them * npus + all_of_them + (there - index) * row.stride)
    for number, collective in {(int(o.group), int(o.collective)) for o in table[own & (table.group >= 0)]}:
        group = group_rows[number]
        ranks = np.array(members.value[group.first : group.first + group.count])
        outer = int(group.outer)
        algorithm = group_algorithm(implementations, chosen.shape[1], collective, outer, compat=compat)
        keys += [ranks * npus + np.roll(ranks, -away) for away in distances(algorithm, len(ranks))]
    used = {(int(o.ring), int(o.rings)) for o in table[own & (table.ring >= 0)]}
    for row in sorted({row for first, count in used for row in range(first, first + count)}):
        ring = group_rows[row]
        ranks = np.array(members.value[ring.first : ring.first + ring["count"]])
        heads = ranks[:: ring.chain]
        above = heads[[binary_parent(place, len(heads)) for place in range(1, len(heads))]]
        keys += [ranks * npus + np.roll(ranks, -1), heads[1:] * npus + above]
    flat = np.unique(np.concatenate(keys))
    sources, targets = np.divmod(flat, npus)
    differ = sources != targets
    pairs = set(zip(sources[differ].tolist(), targets[differ].tolist(), strict=True))
    return pairs | {(target, source) for source, target in pairs}
