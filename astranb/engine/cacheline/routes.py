"""The routes of a program's requests: over the fabric, over switch planes, over meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from astranb.collectives import Lowered
from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.core.state import allocate, own
from astranb.gpu import Preset
from astranb.gpu import tables as t
from astranb.net import FLOW, INJECTS, LINK, ONE, Fabric, Routes

__all__ = [
    "RemoteOperands",
    "enter_routes",
    "flows_of",
    "machine_links",
    "planes_of",
    "remote_operands",
    "route_program",
]


def route_program(fabric: Fabric, program: Lowered) -> tuple[Records, Records, np.ndarray, list[str]]:
    """Find the routes between the ranks that communicate, and enter them in the operands.

    Returns
    -------
    operands, routes : recarray
    route_links : ndarray of int32
        The links of all routes.
    notes : list of str
        What had to be assumed.
    """
    operands = own(program.operands)
    sent = remote_operands(operands, program.ops, program.blocks, program.ranks)
    found, notes = fabric.routes(sent.pairs)
    for way in ("out", "back"):
        enter_routes(operands, sent, found, way)
    table = allocate(max(1, len(found.first_link) - 1), t.ROUTE)
    if len(found.first_link) > 1:
        table["first"], table["last"], table["flow"] = found.first_link[:-1], found.first_link[1:], -1
    return operands, table, found.links, notes


@dataclass(frozen=True)
class RemoteOperands:
    """Operands that are on another rank than the operation.

    Attributes
    ----------
    rows : ndarray of int64
        Which operands.
    out, back : ndarray of int64
        Source and target of their requests and of the responses: source * ranks + target.
    queue_pair : ndarray of int64
        Of a NIC's: its number among those to the same rank. Each sends over one route; -1 for others.
    ranks : int
    """

    rows: np.ndarray
    out: np.ndarray
    back: np.ndarray
    queue_pair: np.ndarray
    ranks: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Sources and targets."""
        source, target = divmod(np.unique(np.concatenate([self.out, self.back])), self.ranks)
        return list(zip(source.tolist(), target.tolist(), strict=True))


def remote_operands(operands: Records, ops: Records, blocks: Records, ranks: int) -> RemoteOperands:
    """Find the operands that are on another rank than the operation."""
    counts = ops["sources"] + ops["targets"] + (ops["semaphore"] >= 0)
    issuer = np.repeat(blocks["gpu"][ops["block"]], counts)
    remote = np.flatnonzero(operands["gpu"] != issuer)
    here, owner = issuer[remote].astype(np.int64), operands["gpu"][remote].astype(np.int64)
    op = np.repeat(np.arange(len(ops)), counts)[remote]
    pair = np.full(len(remote), -1)
    nic = blocks["engine"][ops["block"][op]] == t.NIC
    pair[nic] = _queue_pairs(ops, op[nic], here[nic] * ranks + owner[nic])
    return RemoteOperands(remote, here * ranks + owner, owner * ranks + here, pair, ranks)


def _queue_pairs(ops: Records, op: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Number the queue pairs between the same ranks: one for each semaphore that a NIC's block raises there.

    A block posts for many connections, each with data and, behind them, a signal to a semaphore of its own.
    """
    signals = np.flatnonzero(ops["kind"] == t.NOTIFY)
    behind = signals[np.minimum(np.searchsorted(signals, op), len(signals) - 1)] if len(signals) else op
    raised = np.where(ops["block"][behind] == ops["block"][op], ops["semaphore"][behind], -1)
    kinds, which = np.unique(np.stack([ends, ops["block"][op], raised], axis=1), axis=0, return_inverse=True)
    first = np.searchsorted(kinds[:, 0], kinds[:, 0])
    return (np.arange(len(kinds)) - first)[which.reshape(-1)]


def enter_routes(
    operands: Records,
    sent: RemoteOperands,
    found: Routes,
    way: str,
    *,
    some: np.ndarray | None = None,
    first_row: int = 0,
) -> None:
    """Enter the routes of pairs in the operands.

    Parameters
    ----------
    operands : recarray of OPERAND
    sent : RemoteOperands
    found : Routes
        Those of all pairs that are asked for.
    way : str
        ``"out"`` or ``"back"``.
    some : ndarray of bool, optional
        Which of the remote operands; all where not given.
    first_row : int
        Of these routes in the table.
    """
    some = np.ones(len(sent.rows), bool) if some is None else some
    keys = found.pairs @ np.array([sent.ranks, 1])
    order = np.argsort(keys)
    first, number = found.first_route[:-1], np.diff(found.first_route)
    row = order[np.searchsorted(keys, getattr(sent, way)[some], sorter=order)]
    pair = sent.queue_pair[some]
    target = getattr(sent, way)[some] % sent.ranks
    picked = np.where(pair >= 0, (target + pair) % number[row], 0)
    operands[f"{way}_route"][sent.rows[some]] = first_row + first[row] + picked
    operands[f"{way}_routes"][sent.rows[some]] = np.where(pair >= 0, 1, number[row])


def planes_of(
    fabric: Fabric, program: Lowered, gpus: Records, routes: Records, route_links: np.ndarray
) -> tuple[Records, Records, Records]:
    """Find the lanes between each GPU and the switches that all of them share, or all of its node.

    Returns
    -------
    planes : recarray of PLANE
        For each GPU, in the order of switches and lanes.
    routes : recarray of ROUTE
        Those given, and behind them those over planes.
    route_links : ndarray of int32
        The links of all routes.

    Raises
    ------
    InputError
        An operation is to be done in a switch, and its GPUs have none in common.
    """
    planes: list[tuple[int, int]] = []
    more: list[tuple[int, int, int]] = []
    links: list[int] = []
    first = len(routes)
    if program.ops["in_switch"].any():
        used = [int(fabric.gpus[r]) for r in range(program.ranks)]
        shared = [_switches(fabric, node) for node in used]
        owner = fabric.graph.nodes.instance[used]
        if set.intersection(*(set(lanes) for lanes in shared)):
            owner = np.zeros(program.ranks, np.int64)
        keys_of = {
            node: sorted(set.intersection(*(set(shared[rank]) for rank in np.flatnonzero(owner == node))))
            for node in np.unique(owner).tolist()
        }
        if not all(keys_of.values()) or _leaves(program, owner):
            raise InputError(
                "no switch joins all GPUs directly, so none can add up",
                where=program.name,
                hint="take an infrastructure whose GPUs share switches, or another algorithm",
            )
        for rank in range(program.ranks):
            keys = keys_of[int(owner[rank])]
            gpus[rank].first_plane, gpus[rank].planes = len(planes), len(keys)
            for key in keys:
                up, down = shared[rank][key]
                planes.append((first + len(more), first + len(more) + 1))
                at = len(route_links) + len(more)
                more += [(at, at + 1, -1), (at + 1, at + 2, -1)]
                links += [up, down]
    table = allocate(max(1, len(planes)), t.PLANE)
    if planes:
        table[:] = planes
        routes = np.concatenate([routes, np.array(more, t.ROUTE)]).view(np.recarray)
    count = len(route_links) + len(links)
    link_table = allocate(max(1, count), "i4")
    link_table[: len(route_links)] = route_links
    link_table[len(route_links) : count] = links
    return table, routes, link_table


def _leaves(program: Lowered, owner: np.ndarray) -> bool:
    """Return whether an operation in a switch is of GPUs with several owners."""
    ops, operands = program.ops, program.operands
    counts = ops["sources"] + ops["targets"] + (ops["semaphore"] >= 0)
    within = np.repeat(ops["in_switch"] > 0, counts)
    issuer = np.repeat(program.blocks["gpu"][ops["block"]], counts)
    return bool((owner[issuer[within]] != owner[operands["gpu"][within]]).any())


def _switches(fabric: Fabric, node: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Lanes between a GPU and its switches: (switch, number of the lane) to (up, down)."""
    links, gpus = fabric.links, set(fabric.gpus.tolist())
    up = {(int(links["dst"][k]), int(links["lane"][k])): int(k) for k in np.flatnonzero(links["src"] == node)}
    down = {
        (int(links["src"][k]), int(links["lane"][k])): int(k) for k in np.flatnonzero(links["dst"] == node)
    }
    return {key: (up[key], down[key]) for key in up if key in down and key[0] not in gpus}


def flows_of(fabric: Fabric, routes: Records, route_links: Records, before: Records | None = None) -> Records:
    """Number the flows of routes over Ethernet: what enters by one link, for one GPU, has one rate.

    A route that enters the Ethernet more than once, over GPUs that forward, has the flow of the
    first time. One to a switch that adds up has none.

    Parameters
    ----------
    fabric : Fabric
    routes, route_links : recarray
    before : recarray of FLOW, optional
        Flows that there are, which keep their numbers.
    """
    roles, gpus = fabric.links["role"], set(fabric.gpus.tolist())
    known = allocate(0, FLOW) if before is None else own(before[before["link"] >= 0])
    numbers = {ends: row for row, ends in enumerate(known[["link", "target"]].tolist())}
    for route in routes if len(route_links) else routes[:0]:
        links = route_links[int(route.first) : int(route.last)].tolist()
        target = int(fabric.links["dst"][links[-1]]) if links else -1
        entrance = next((k for k in links if roles[k] & INJECTS), -1)
        if entrance >= 0 and target in gpus:
            route.flow = numbers.setdefault((entrance, target), len(numbers))
    flows = allocate(max(1, len(numbers)), FLOW)
    flows["link"] = flows["target"] = flows["head"] = flows["tail"] = -1
    for (link, target), number in islice(numbers.items(), len(known), None):
        flows["link"][number], flows["target"][number] = link, target
        for rate in ("rate_Bps", "target_Bps", "slowest_Bps"):
            flows[rate][number] = fabric.links["bandwidth_Bps"][link]
    flows["alpha"] = ONE
    flows[: len(known)] = known
    return flows


def machine_links(fabric: Fabric, presets: Sequence[Preset], gpus: Records, proxy_ps: int) -> Records:
    """The links of the fabric, and behind them those of every GPU's mesh (see ``gpu/mesh.py``).

    Requests wait at their NIC for proxy threads; responses need none.
    """
    parts = [own(fabric.links)]
    parts[0]["post_ps"][fabric.enter_nics] = proxy_ps
    first = len(fabric.links)
    for rank, preset in enumerate(presets):
        gpus[rank].first_chip_link = first
        if not preset.mesh:
            continue
        ends = 2 * (preset.sms + preset.engines + preset.nics + preset.hbm_channels + preset.ports)
        mesh = allocate(ends + 4 * preset.columns * preset.rows, LINK)
        mesh["src"] = mesh["dst"] = fabric.gpus[rank]
        mesh["bandwidth_Bps"], mesh["latency_ps"] = preset.chip_Bps, preset.chip_ps
        first += len(mesh)
        parts.append(mesh)
    return own(np.concatenate(parts))
