"""Builds the tables of links and routes from a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from astranb.core.arrays import numbered, reduce_at
from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.net import DIMENSION, MESH, MESSAGE_ROUTE, ROUTED, SERVER, WIRE, link_count, port_count, route_of
from astranb.workload.astrasim2 import DimensionNetwork, InfraNetwork

from . import tables as t
from .implementations import distances, group_algorithm
from .rooted import binary_parent

__all__ = ["Links", "Pairs", "communicating_pairs", "dimensions_of", "make_links", "mark_shared"]

_MOST_PAIRS: Final = 1 << 21
_NOBODY: Final = -1
"""User of pairs whose messages are short, or that are hardly used."""


class Pairs(NamedTuple):
    """Pairs of NPUs that may send to each other, and who sends between them.

    Attributes
    ----------
    key : ndarray of int64, shape (pairs,)
        Source times all NPUs plus target, in order.
    least, most : ndarray of int64, shape (pairs,)
        The least and the most of the numbers of the groups that send more than a packet at a time; an NPU by
        itself counts as one. -1 is the most where none does.
    """

    key: np.ndarray
    least: np.ndarray
    most: np.ndarray

    @staticmethod
    def none() -> Pairs:
        """Return no pairs, where the routes of messages are not looked up."""
        return Pairs(*(np.empty(0, np.int64) for _ in range(3)))


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
    pairs: Pairs,
    *,
    congestion: bool,
    compat: bool,
) -> Links:
    """Make the tables of a network.

    Parameters
    ----------
    network : DimensionNetwork or InfraNetwork
    pairs : Pairs
        They need routes in an infrastructure.
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


def _routed(network: InfraNetwork, pairs: Pairs, *, congestion: bool) -> Links:
    """Make the routes through an infrastructure."""
    from astranb.net import message_routes

    if len(pairs.key) > _MOST_PAIRS:
        raise InputError(
            f"{len(pairs.key)} pairs of GPUs send to each other",
            where=network.where,
            hint="use rings, or collectives in several dimensions (--dimensions)",
        )
    wanted = (divmod(key, network.npus) for key in pairs.key.tolist())
    found = message_routes(network.fabric, wanted, network.npus)
    if congestion:
        mark_shared(found.routes, found.hops, found.wires, pairs, network)
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


def mark_shared(
    routes: np.ndarray, hops: np.ndarray, wires: Records, pairs: Pairs, network: InfraNetwork
) -> None:
    """Mark the routes between nodes with a link where messages of different groups can meet, and no others.

    They can where more comes in than the link carries: of each source as much as its best route over it does.
    Routes without a key, which no new message takes, are left as they are.
    """
    taken = np.asarray(routes["key"]) >= 0
    routes["shared"][taken] = 0
    most_users = int(pairs.most.max(initial=_NOBODY))
    if most_users == _NOBODY or most_users == int(pairs.least.min()):  # one group alone
        return
    source, target = np.divmod(np.asarray(routes["key"]), network.npus)
    width = network.fabric.shape.per_node
    pair = np.searchsorted(pairs.key, routes["key"])
    between = taken & (source // width != target // width)
    between[between] = pairs.most[pair[between]] >= 0
    if not between.any():
        return
    count = routes["hops"] * between
    route = np.repeat(np.arange(len(routes)), count)
    link = hops[np.repeat(routes["first_hop"], count) + numbered(count)]
    rate_Bpns = np.full(len(routes), np.inf)  # noqa: N806 - unit in the name
    np.minimum.at(rate_Bpns, route, wires.rate_Bpns[link])
    user = pair[route]
    least, most = np.full(len(wires), np.iinfo(np.int64).max), np.full(len(wires), -1)
    np.minimum.at(least, link, pairs.least[user])
    np.maximum.at(most, link, pairs.most[user])
    meet = (least < most)[link]
    if not meet.any():
        return
    route, link = route[meet], link[meet]
    order = np.lexsort((rate_Bpns[route], source[route], link))
    sent = link[order] * network.npus + source[route][order]
    best = order[np.flatnonzero(np.diff(sent, append=-1))]  # the last of each source and link
    comes = np.bincount(link[best], rate_Bpns[route[best]], len(wires))
    np.maximum.at(routes["shared"], route, (comes > 1.001 * wires.rate_Bpns)[link])


def communicating_pairs(
    table: Records,
    implementations: Records,
    costs: Records,
    group_rows: Records,
    members: Records,
    npus: int,
    *,
    compat: bool,
) -> Pairs:
    """Return the pairs of NPUs that may send to each other; some may not do so."""
    keys: list[np.ndarray] = [np.empty(0, np.int64)]
    users: list[np.ndarray] = [np.empty(0, np.int64)]

    def add(sources: np.ndarray, targets: np.ndarray, user: int | np.ndarray) -> None:
        """Add pairs of a user, and the ways back, which are looked up and hardly used."""
        keys.extend((sources * npus + targets, targets * npus + sources))
        users.extend(np.broadcast_to(one, len(sources)) for one in (user, _NOBODY))

    everyone = len(group_rows)
    sends = np.isin(table.kind, (t.SEND, t.RECV))
    source, target = np.where(table.kind == t.SEND, (table.npu, table.peer), (table.peer, table.npu))
    owner = np.maximum(table.owner, 0)
    of_group = np.where(table.group[owner] < 0, everyone, table.group[owner])
    user = np.where(table.owner < 0, everyone + 1 + source, of_group)
    add(source[sends], target[sends], user[sends])
    all_of_them = np.arange(npus)
    chosen = implementations.reshape(t.COLLECTIVES, -1)
    own = table[(table.kind == t.COLLECTIVE) & (table.custom < 0)]
    large = own.bytes > t.PACKET_BYTES  # others go as a whole

    def user_of(group: int, shares: int) -> int:
        return _NOBODY if not shares else everyone if group < 0 else group

    alone = own.group < 0
    for collective, shares in _distinct_rows(own.collective[alone], large[alone]):
        for row in chosen[collective]:
            if row.algorithm >= 0 and row.nodes > 1:
                index = (all_of_them // row.stride) % row.nodes
                for distance in distances(int(row.algorithm), int(row.nodes)):
                    peer = (index + distance) % row.nodes
                    add(all_of_them, all_of_them + (peer - index) * row.stride, user_of(-1, shares))
    by_itself = large & (own.ring < 0)
    columns = own.group, own.collective, own.cost, by_itself
    for number, collective, cost, shares in _distinct_rows(*(one[~alone] for one in columns)):
        group = group_rows[number]
        ranks = np.array(members.value[group.first : group.first + group["count"]])
        outer = int(group.outer)
        algorithm = group_algorithm(implementations, chosen.shape[1], collective, outer, compat=compat)
        if cost >= 0:
            algorithm = int(costs[cost].algorithm)
            if algorithm == t.TREE:  # by channels
                continue
        for away in distances(algorithm, len(ranks)):
            add(ranks, np.roll(ranks, -away), user_of(number, shares))
    rings = own.ring >= 0
    for first, count, number, shares in _distinct_rows(
        *(one[rings] for one in (own.ring, own.rings, own.group, large))
    ):
        for ring in group_rows[first : first + count]:
            ranks = np.array(members.value[ring.first : ring.first + ring["count"]])
            heads = ranks[:: ring.chain]
            above = heads[[binary_parent(place, len(heads)) for place in range(1, len(heads))]]
            user_here = user_of(number, shares)
            add(ranks, np.roll(ranks, -1), user_here)
            for one, other in ((heads[1:], above), (above, heads[1:])):
                add(one, other, user_here)
    flat, of = np.concatenate(keys), np.concatenate(users)
    differ = flat // npus != flat % npus
    order = np.argsort(flat[differ], kind="stable")
    flat, of = flat[differ][order], of[differ][order]
    at = np.flatnonzero(np.diff(flat, prepend=-1))
    least = np.where(of < 0, np.iinfo(np.int64).max, of)
    return Pairs(flat[at], reduce_at(np.minimum, least, at), reduce_at(np.maximum, of, at))


def _distinct_rows(*columns: np.ndarray) -> list[list[int]]:
    """Return each combination of values once."""
    found: list[list[int]] = np.unique(
        np.stack([np.asarray(c, np.int64) for c in columns]), axis=1
    ).T.tolist()
    return found
