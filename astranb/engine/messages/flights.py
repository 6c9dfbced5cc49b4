"""Messages on the links of ASTRA-sim 2.0's networks, as they were recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from astranb.core.arrays import numbered
from astranb.engine.operations import Flights, LinkGraph, Recorded, graph_of_dimensions, spread
from astranb.infragraph import NodeKind
from astranb.net import DOWN, DimensionLinks, links_of_dimensions

from . import tables as t
from .link_ends import waiting_for
from .state import MessageState

if TYPE_CHECKING:
    from .link_names import LinkNames

__all__ = [
    "flights",
    "kept_flights",
    "link_graph",
    "link_path",
    "queues",
    "recorded_flights",
    "replayed",
]


_ALL_DRAWN = 128
"""GPUs of an infrastructure that are drawn one by one."""


def _links_of(machine: t.MessageMachine) -> DimensionLinks:
    return links_of_dimensions(machine.dims.kind.tolist(), machine.dims.nodes.tolist())


def link_graph(engine: MessageState) -> LinkGraph:
    """The nodes and links of the network."""
    m, about = engine.machine, engine.about
    if not m.config[0].routed:
        return graph_of_dimensions(_links_of(m), about.topology, np.asarray(m.dims.rate_Bpns) * 1e9)
    links = cast("LinkNames", about.links)
    ends = [links.nodes(link) for link in range(len(links))]
    nodes = {node: number for number, node in enumerate(dict.fromkeys(one for pair in ends for one in pair))}
    src = np.array([nodes[a] for a, _ in ends], np.int64)
    dst = np.array([nodes[b] for _, b in ends], np.int64)
    names = [links.fabric.graph.name(node) for node in nodes]
    npus = len(m.npus)
    # A rank is where its routes begin; one without any is a node of its own.
    gpus = np.full(npus, -1)
    taken = m.routes[m.routes.key >= 0]  # others are left
    gpus[taken.key // npus] = src[np.asarray(m.hops.value)[taken.first_hop]] if len(src) else -1
    for rank in np.flatnonzero(gpus < 0).tolist():
        gpus[rank] = len(names)
        names.append(f"gpu.{rank}")
    kind = np.full(len(names), NodeKind.SWITCH)
    kind[gpus] = NodeKind.XPU
    groups: dict[str, int] = {}
    instance = [groups.setdefault(".".join(name.split(".")[:2]), len(groups)) for name in names]
    called = list(names)
    for rank, node in enumerate(gpus.tolist()):
        called[node] = f"rank[{rank}]"
    paths = [called[node] if kind[node] == NodeKind.XPU else "" for node in range(len(names))]
    return LinkGraph(
        called, paths, kind, np.array(instance, np.int64), list(groups), gpus, src, dst,
        np.asarray(m.wires.rate_Bpns)[: len(src)] * 1e9, np.arange(len(src)), npus > _ALL_DRAWN,
    )  # fmt: skip


def link_path(engine: MessageState, link: int) -> str:
    """Return the path inspected for a link: itself, or its dimension where links are not simulated."""
    m, routed = engine.machine, engine.routed
    if m.config[0].congestion:
        alone = routed is not None and routed.over(m, routed.known(m).lanes[link]) == (link,)
        return engine.about.links[link] if alone else f"link[{link}]"
    return "" if m.config[0].routed else f"dim[{int(_links_of(m).dim[link])}]"


def queues(engine: MessageState, links: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of messages that wait for each of some links now, and which links are down."""
    m = engine.machine
    if not m.config[0].congestion:
        return np.zeros(len(links), np.int64), np.zeros(len(links), bool)
    waiting = np.zeros(len(links), np.int64)
    for place in np.flatnonzero(np.asarray(m.links["head"])[links] >= 0).tolist():
        waiting[place] = waiting_for(m, int(links[place]))
    return waiting, (np.asarray(m.links.busy)[links] & DOWN) > 0


def recorded_flights(engine: MessageState) -> int:
    """Return the number of recorded messages, with congestion once for each link."""
    return int(engine.machine.watch[0].flights)


def kept_flights(engine: MessageState, since: int = 0) -> tuple[Any, int, int]:
    """The rows of the recording that are still kept, the number of the first, and of what comes next."""
    m = engine.machine
    total, most = int(m.watch[0].flights), len(m.flights)
    numbers = np.arange(max(since, total - most), total)
    rows = m.flights[numbers % most]
    kept = np.flatnonzero(np.asarray(rows.number) == numbers)  # others are of a future that was left
    return rows[kept], int(numbers[kept[0]]) if len(kept) else total, total


def flights(engine: MessageState, since: int) -> Recorded:
    """Messages on their links, from a number of the recording on.

    Without congestion a message takes all its links at once: its time is divided into equal parts.
    """
    m = engine.machine
    rows, first, total = kept_flights(engine, since)
    link = np.array(rows.link)
    given = {name: np.asarray(rows[name]) for name in ("operation", "phase", "step", "bytes")}
    given |= {"source": np.asarray(rows.src), "target": np.asarray(rows.dst)}
    given["chunk"] = np.asarray(rows.tag) % t.NATIVE_TAGS
    given |= replayed(engine, given)
    queued, start, end = (np.asarray(rows[f"{name}_ns"]) * 1000 for name in ("queued", "start", "end"))
    if not m.config[0].congestion:
        message, link, nth, count = _paths(engine, rows)
        given = {name: column[message] for name, column in given.items()}
        start, end = spread(start[message], end[message], nth, count)
        queued = start
    found = Flights(link=link, queued_ps=queued, start_ps=start, end_ps=end, **given)
    return Recorded(first, total, found, len(found))


def replayed(engine: MessageState, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the operation of each message of a custom collective, and its phase and chunk as recorded."""
    sender = given["operation"]
    row, parts = np.maximum(sender, 0), engine.about.parts
    if parts is None:
        owner = np.asarray(engine.machine.operations.owner)[row]
        return {"operation": np.where((sender >= 0) & (owner >= 0), owner, sender)}
    known = sender >= parts.own
    known[known] = parts.phase[row[known] - parts.own] >= 0
    found = {"operation": np.where(sender >= 0, parts.shown(row), sender)}
    for name, column in (("phase", parts.phase), ("chunk", parts.chunk)):
        found[name] = np.where(known, column[np.where(known, row - parts.own, 0)], given[name])
    return found


def _paths(engine: MessageState, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The links of messages without congestion, see :meth:`.DimensionLinks.paths`."""
    m = engine.machine
    route = np.asarray(rows["route"])
    if m.config[0].routed:
        count = np.asarray(m.routes.hops)[route]
        message = np.repeat(np.arange(len(rows)), count)
        nth = numbered(count)
        return (
            message,
            np.asarray(m.hops.value)[m.routes.first_hop[route][message] + nth],
            nth,
            count[message],
        )
    links = _links_of(m)
    single = np.flatnonzero(rows["link"] <= t.ONE_LINK)
    message, link, nth, count = links.paths(np.asarray(rows["src"]), np.asarray(rows["dst"]))
    heading = t.ONE_LINK - np.asarray(rows["link"])[single]
    up = np.array(links.first)[heading >> 1] + np.asarray(rows["src"])[single]
    message, link = np.concatenate([message, single]), np.concatenate([link, up + (heading & 1) * links.npus])
    nth = np.concatenate([nth, np.zeros(len(single), np.int64)])
    count = np.concatenate([count, np.ones(len(single), np.int64)])
    order = np.lexsort((nth, message))
    return message[order], link[order], nth[order], count[order]
