"""A collective as a graph of its messages: what each rank of a group sends, and what that waits for.

The collective is run alone by the message engine without congestion, all ranks beginning at one time. A
rank's chunk handles one event after another, so what it sends has to wait for all that its phase has received
before, and for the endpoint's memory (a computation). A phase waits for the phase before it of its chunk
and for a place in its queue, of which a dimension has ``active-chunks-per-dimension``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from astranb.core.arrays import flat_lists
from astranb.core.errors import InputError
from astranb.engine.messages import group_shapes, trace_messages
from astranb.workload.astrasim2 import COLLECTIVE_NAMES, COMPUTE, RECV, SEND, Operations, Workload
from astranb.workload.astrasim2.kinds import ALL_TO_ALL, DIRECT, HALVING, IN_NETWORK, RING_STEPS, ROOTED, TREE

from .graph import NODE, Label, MessageGraph

__all__ = ["template_of"]

_NAMES: Final = {number: name for name, number in COLLECTIVE_NAMES.items()}
_ALGORITHMS: Final = {
    RING_STEPS: "ring", DIRECT: "direct", HALVING: "halving_doubling", TREE: "double_tree", ROOTED: "rooted",
}  # fmt: skip
_GROUP_DELAY_NS: Final = 10
"""Of the endpoint, of a collective of some ranks: that of the message engine, as in ASTRA-sim 2.0."""


def template_of(
    workload: Workload,
    one: Operations,
    row: int,
    members: Sequence[int] | None,
    *,
    chunks: int = 0,
    trees: Sequence[int] = (),
) -> tuple[MessageGraph, tuple[int, ...]]:
    """Return the messages of a collective between the positions of its group.

    Parameters
    ----------
    workload : Workload
        Whose network and system the collective is run on.
    one : Operations
        Has the collective.
    row : int
    members : sequence of int, optional
        The ranks of its group; None: all ranks.
    chunks, trees
        As of :func:`~astranb.engine.messages.trace_messages`.

    Returns
    -------
    graph : MessageGraph
        ``rank`` and ``peer`` are positions in the group. The first node of a rank has to end before all
        others begin; the last one ends when all have ended. Times are from its start on.
    trees : tuple of int
        Trees that a rank uses in each dimension.

    Raises
    ------
    InputError
        A switch reduces, a shared bus delays messages, or the collective cannot be done.
    """
    system, npus = workload.system, workload.network.npus
    if system.bus is not None:
        what = "a shared bus delays messages: a pattern has no such resource"
        raise InputError(what, where=system.where, hint="leave out its parameters")
    ranks = list(range(npus)) if members is None else list(members)
    alone = one.rows[row : row + 1].copy()
    alone["group"] = -1 if members is None else 0
    busy = Operations(alone, np.array([0, 0]), np.array([], np.int64), names=None)
    idle = Operations.of([])
    inside = set(ranks)
    trace = trace_messages(
        replace(
            workload,
            operations=[busy if rank in inside else idle for rank in range(npus)],
            groups={} if members is None else {0: ranks},
            footprint=None,
        ),
        chunks=chunks,
        trees=trees,
    )
    if (trace.phases["algorithm"] == IN_NETWORK).any():
        what = "a switch reduces: the messages between NPUs and switches have no peer"
        raise InputError(what, where=system.where, hint="use ring or direct")
    delay_ns = system.endpoint_ns if members is None else _GROUP_DELAY_NS
    concurrent = -(-system.active_chunks // system.queues) if system.queues == 1 else 0
    built = _TemplateBuilder(trace.messages, trace.phases, ranks, delay_ns, concurrent)
    algorithms = [_ALGORITHMS[number] for number in dict.fromkeys(trace.phases["algorithm"].tolist())]
    label = Label("", _NAMES[int(alone["collective"][0])], "+".join(algorithms))
    graph = built.graph(label)
    rails = 1
    if members is not None and not workload.compat:
        rails = int(group_shapes([ranks], workload.network.npus_count)[1][0])
    if rails > 1 and algorithms == ["ring"] and alone["collective"][0] != ALL_TO_ALL:
        graph = _over_rails(graph, rails)
    return graph, tuple(trace.trees[ranks[0]].tolist())


class _TemplateBuilder:
    """Makes the nodes of each rank from what it sent and received."""

    def __init__(
        self, messages: np.ndarray, phases: np.ndarray, ranks: list[int], delay_ns: int, concurrent: int
    ) -> None:
        self.messages, self.ranks = messages, ranks
        self.delay_ns, self.concurrent = delay_ns, concurrent
        self.position = {rank: place for place, rank in enumerate(ranks)}
        self.sent: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.received: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        ends = messages["end_ns"].tolist()
        keys = zip(*(messages[name].tolist() for name in ("src", "dst", "tag", "phase")), strict=True)
        for number, (src, dst, tag, phase) in enumerate(keys):
            self.sent[src, tag, phase].append(number)
            self.received[dst, tag, phase].append(number)
        for listed in self.received.values():
            listed.sort(key=ends.__getitem__)
        self.starts, self.ends = messages["queued_ns"].tolist(), ends
        self.peers = messages["src"].tolist(), messages["dst"].tolist()
        self.sizes = messages["bytes"].tolist()
        self.phases: dict[int, list[Any]] = defaultdict(list)
        for passed in phases[np.lexsort([phases["end_ns"], phases["begun_ns"]])].tolist():
            self.phases[passed[0]].append(passed)
        self.rows: list[tuple[int, ...]] = []
        self.deps: list[list[int]] = []
        self.of_message: dict[tuple[int, int], int] = {}

    def graph(self, label: Label) -> MessageGraph:
        """Make the graph."""
        for place, rank in enumerate(self.ranks):
            self._rank(place, rank)
        nodes = np.zeros(len(self.rows), NODE)
        for name, column in zip(
            ("rank", "kind", "peer", "bytes", "duration_ps", "start_ps", "phase", "chunk", "tag"),
            zip(*self.rows, strict=True),
            strict=True,
        ):
            nodes[name] = column
        nodes["match"] = -1
        send = np.array([self.of_message[number, SEND] for number in range(len(self.messages))], np.int64)
        receive = np.array([self.of_message[number, RECV] for number in range(len(self.messages))], np.int64)
        nodes["match"][send], nodes["match"][receive] = receive, send
        start, flat = flat_lists(self.deps)
        return MessageGraph(len(self.ranks), nodes, start, flat, (label,), label.collective)

    def _add(self, place: int, kind: int, deps: list[int], start_ns: int, **fields: int) -> int:
        peer, size, duration_ns = fields.get("peer", -1), fields.get("size", 0), fields.get("duration_ns", 0)
        number, phase, chunk = fields.get("number", 0), fields.get("phase", -1), fields.get("chunk", -1)
        self.rows.append((place, kind, peer, size, 1000 * duration_ns, 1000 * start_ns, phase, chunk, number))
        self.deps.append(deps)
        return len(self.rows) - 1

    def _later(self, place: int, deps: list[int], from_ns: int, until_ns: int, phase: int, chunk: int) -> int:
        """Return a node that ends at a time, after all of some others: one of these if it does."""
        deps = list(dict.fromkeys(deps))
        if len(deps) == 1 and until_ns == from_ns:
            return deps[0]
        return self._add(
            place, COMPUTE, deps, from_ns, duration_ns=until_ns - from_ns, phase=phase, chunk=chunk
        )

    def _rank(self, place: int, rank: int) -> None:
        begin = self._add(place, COMPUTE, [], 0)
        chunks = {tag: at for at, tag in enumerate(sorted({one[2] for one in self.phases[rank]}))}
        last: dict[int, int] = {}  # of a chunk: the end of its phase before
        last_ns: dict[int, int] = {}
        ended: dict[int, list[tuple[int, int]]] = defaultdict(list)  # in a dimension: ends of phases
        begun: dict[int, int] = defaultdict(int)
        for _, _, tag, phase, dim, _, _, queued_ns, begun_ns, end_ns in self.phases[rank]:
            chunk = chunks[tag]
            deps = [last.get(tag, begin)]
            if self.concurrent:
                if begun[dim] >= self.concurrent:
                    deps.append(sorted(ended[dim])[begun[dim] - self.concurrent][1])
            elif begun_ns > queued_ns:
                deps += [node for ns, node in ended[dim] if ns == begun_ns]
            begun[dim] += 1
            at = self._later(place, deps, begun_ns, begun_ns, phase, chunk)
            before, before_ns = self._phase(place, (rank, tag, phase), at, begun_ns, chunk)
            at = self._later(place, before, before_ns, end_ns, phase, chunk)
            last[tag], last_ns[tag] = at, end_ns
            ended[dim].append((end_ns, at))
        end_ns = max(last_ns.values(), default=0)
        self._add(place, COMPUTE, list(dict.fromkeys(last.values())) or [begin], end_ns)

    def _phase(
        self, place: int, key: tuple[int, int, int], begin: int, begun_ns: int, chunk: int
    ) -> tuple[list[int], int]:
        """Add the messages of a phase; returns what its end waits for, and when that has happened."""
        phase = key[2]
        arrivals = self.received.get(key, [])
        receives = [
            self._receive(place, number, begin, max(begun_ns, 0), phase, chunk) for number in arrivals
        ]
        at, at_ns, seen, sent_ns = begin, begun_ns, 0, -1
        for number in self.sent.get(key, []):
            now_ns = self.starts[number]
            if now_ns != sent_ns:
                before = seen
                while seen < len(arrivals) and self.ends[arrivals[seen]] <= now_ns - self.delay_ns:
                    seen += 1
                cause_ns = max([at_ns, *(self.ends[arrivals[k]] for k in range(before, seen))])
                at = self._later(place, [at, *receives[before:seen]], cause_ns, now_ns, phase, chunk)
                at_ns = sent_ns = now_ns
            node = self._add(
                place, SEND, [at], now_ns, peer=self.position[self.peers[1][number]],
                size=self.sizes[number], phase=phase, chunk=chunk, number=number,
            )  # fmt: skip
            self.of_message[number, SEND] = node
        rest = [self.ends[number] for number in arrivals[seen:]]
        return [at, *receives[seen:]], max([at_ns, *rest])

    def _receive(self, place: int, number: int, begin: int, start_ns: int, phase: int, chunk: int) -> int:
        node = self._add(
            place, RECV, [begin], start_ns, peer=self.position[self.peers[0][number]],
            size=self.sizes[number], phase=phase, chunk=chunk, number=number,
        )  # fmt: skip
        self.of_message[number, RECV] = node
        return node


def _over_rails(graph: MessageGraph, rails: int) -> MessageGraph:
    """Divide a ring among as many rings as ranks share a node: each leaves it by another one's port.

    Ring ``c`` goes through the ranks of each node in their order from number ``c`` on.
    """
    count = graph.ranks
    within = np.arange(count) % rails
    nodes, start = graph.nodes, graph.dep_start
    inner = np.ones(len(nodes), bool)
    inner[graph.first[:-1]] = inner[graph.first[1:] - 1] = False  # begins and ends are shared
    parts, owners = [], []
    for channel in range(rails):
        # Position p of the ring is taken by the rank at this place.
        taken = np.arange(count) - within + (within + channel) % rails
        part = nodes.copy()
        part["rank"] = taken[nodes["rank"]]
        part["peer"] = np.where(nodes["peer"] >= 0, taken[nodes["peer"]], -1)
        part["bytes"] = nodes["bytes"] // rails + (channel < nodes["bytes"] % rails)
        part["bytes"][nodes["kind"] == COMPUTE] = 0
        part["tag"] = nodes["tag"] * rails + channel
        part["chunk"] = np.where(nodes["chunk"] >= 0, nodes["chunk"] * rails + channel, -1)
        parts.append(part)
        owners.append(inner if channel else np.ones(len(nodes), bool))
    kept = np.concatenate(owners)
    every = np.concatenate(parts)
    size = len(nodes)
    # Where each copy of a node stands: first those of a rank's begin, then all inner ones, then its end.
    section = np.ones(len(every), np.int64)
    section[:size][graph.first[:-1]] = 0
    section[:size][graph.first[1:] - 1] = 2
    order = np.lexsort([np.arange(len(every)), section, every["rank"]])
    order = order[kept[order]]
    place = np.full(len(every), -1, np.int64)
    place[order] = np.arange(len(order))
    # Begins and ends of other channels are those of channel 0 at the same rank.
    for channel in range(1, rails):
        for shared in (graph.first[:-1], graph.first[1:] - 1):
            of_rank = np.empty(count, np.int64)
            of_rank[every["rank"][shared]] = place[shared]
            place[channel * size + shared] = of_rank[every["rank"][channel * size + shared]]
    lists: list[list[int]] = [[] for _ in range(len(order))]
    owner = np.repeat(np.arange(size), np.diff(start))
    for channel in range(rails):
        targets = place[channel * size + owner].tolist()
        for target, dep in zip(targets, place[channel * size + graph.deps].tolist(), strict=True):
            lists[target].append(dep)
    made = every[order]
    matches = every["match"] + np.repeat(np.arange(rails), size) * size
    made["match"] = np.where(made["match"] >= 0, place[matches[order]], -1)
    first, flat = flat_lists(lists)
    return MessageGraph(count, made, first, flat, graph.labels, graph.title)
