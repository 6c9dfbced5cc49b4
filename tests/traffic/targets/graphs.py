"""Message graphs by name, and random ones, that every target is tried with."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from astranb.traffic import MessageGraph
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND


class Builder:
    """Adds nodes in any order of ranks; `graph` sorts them."""

    def __init__(self, ranks: int, title: str) -> None:
        self.ranks, self.title = ranks, title
        self.nodes: list[dict[str, Any]] = []
        self.deps: list[list[int]] = []

    def compute(self, rank: int, duration_ps: int, deps: list[int] | None = None) -> int:
        return self._add({"rank": rank, "kind": COMPUTE, "duration_ps": duration_ps}, deps)

    def send(self, rank: int, peer: int, size: int, tag: int = 0, deps: list[int] | None = None) -> int:
        return self._add({"rank": rank, "kind": SEND, "peer": peer, "bytes": size, "tag": tag}, deps)

    def receive(self, rank: int, peer: int, size: int, tag: int = 0, deps: list[int] | None = None) -> int:
        return self._add({"rank": rank, "kind": RECV, "peer": peer, "bytes": size, "tag": tag}, deps)

    def _add(self, node: dict[str, Any], deps: list[int] | None) -> int:
        self.nodes.append(node)
        self.deps.append(deps or [])
        return len(self.nodes) - 1

    def graph(self) -> MessageGraph:
        order = sorted(range(len(self.nodes)), key=lambda row: (self.nodes[row]["rank"], row))
        place = {row: number for number, row in enumerate(order)}
        deps = [[place[dep] for dep in self.deps[row]] for row in order]
        return MessageGraph.of(self.ranks, [self.nodes[row] for row in order], deps, title=self.title)


def ring(ranks: int, size: int, compute_ps: int = 5_000_000) -> MessageGraph:
    """All-reduce: 2 (ranks - 1) steps, each of which waits for what arrived in the one before."""
    made = Builder(ranks, f"ring {ranks} x {size}")
    for rank in range(ranks):
        last = made.compute(rank, compute_ps * (rank + 1))
        for step in range(2 * (ranks - 1)):
            made.send(rank, (rank + 1) % ranks, size, step, [last])
            last = made.receive(rank, (rank - 1) % ranks, size, step, [last])
            if step < ranks - 1:
                last = made.compute(rank, 1_000_000, [last])
    return made.graph()


def halving_doubling(ranks: int, size: int) -> MessageGraph:
    """All-reduce: halves go to partners at ranks / 2, …, 1, and come back."""
    made = Builder(ranks, f"halving-doubling {ranks} x {size}")
    for rank in range(ranks):
        last = [made.compute(rank, 2_000_000)]
        distances = [ranks >> shift for shift in range(1, ranks.bit_length())]
        for tag, distance in enumerate([*distances, *reversed(distances)]):
            part = max(1, size * distance // ranks)
            sent = made.send(rank, rank ^ distance, part, tag, last)
            last = [sent, made.receive(rank, rank ^ distance, part, tag, last)]
    return made.graph()


def all_to_all(ranks: int, size: int) -> MessageGraph:
    """Everybody to everybody, then a computation."""
    made = Builder(ranks, f"all-to-all {ranks} x {size}")
    for rank in range(ranks):
        begun = made.compute(rank, 3_000_000)
        for step in range(1, ranks):
            made.send(rank, (rank + step) % ranks, size, 7, [begun])
        got = [made.receive(rank, (rank - step) % ranks, size, 7, [begun]) for step in range(1, ranks)]
        made.compute(rank, 4_000_000, got)
    return made.graph()


def tree(ranks: int, size: int) -> MessageGraph:
    """Reduction up a binary tree and broadcast down."""
    made = Builder(ranks, f"tree {ranks} x {size}")
    for rank in range(ranks):
        children = [child for child in (2 * rank + 1, 2 * rank + 2) if child < ranks]
        ready = [made.compute(rank, 1_500_000)]
        for child in children:
            ready.append(made.receive(rank, child, size, 1, [ready[0]]))
        if rank:
            up = made.send(rank, (rank - 1) // 2, size, 1, ready)
            ready = [made.receive(rank, (rank - 1) // 2, size, 2, [up])]
        for child in children:
            made.send(rank, child, size, 2, ready)
    return made.graph()


def pipeline(ranks: int, size: int, microbatches: int = 4) -> MessageGraph:
    """Stages that pass microbatches on and their gradients back, one after the other."""
    made = Builder(ranks, f"pipeline {ranks} x {size}")
    for rank in range(ranks):
        last: list[int] = []
        for batch in range(microbatches):
            if rank:
                last = [made.receive(rank, rank - 1, size, batch, last)]
            last = [made.compute(rank, 10_000_000 + 1_000_000 * rank, last)]
            if rank + 1 < ranks:
                made.send(rank, rank + 1, size, batch, last)
        for batch in range(microbatches):
            if rank + 1 < ranks:
                last = [made.receive(rank, rank + 1, size, 100 + batch, last)]
            last = [made.compute(rank, 20_000_000, last)]
            if rank:
                made.send(rank, rank - 1, size, 100 + batch, last)
    return made.graph()


def random_graph(
    ranks: int, nodes: int, seed: int, largest: int = 200_000, *, zero: bool = False
) -> MessageGraph:
    """A graph without cycles: nodes in a common order, each waits for some earlier ones of its rank."""
    pick = random.Random(seed)
    made = Builder(ranks, f"random {ranks} x {nodes} of seed {seed}")
    own: list[list[int]] = [[] for _ in range(ranks)]
    tags: dict[tuple[int, int], int] = {}

    def before(rank: int) -> list[int]:
        return sorted(pick.sample(own[rank], min(len(own[rank]), pick.randrange(3))))

    for _ in range(nodes):
        rank = pick.randrange(ranks)
        if ranks == 1 or pick.random() < 0.4:
            own[rank].append(made.compute(rank, 1000 * pick.randrange(20_000), before(rank)))
            continue
        peer = pick.choice([other for other in range(ranks) if other != rank])
        size = pick.randrange(0 if zero else 1, largest)
        tag = tags[rank, peer] = tags.get((rank, peer), -1) + 1
        sent = made.send(rank, peer, size, tag, before(rank))
        received = made.receive(peer, rank, size, tag, before(peer))
        own[rank].append(sent)
        own[peer].append(received)
    return made.graph()


NAMED: dict[str, Callable[[], MessageGraph]] = {
    "ring 4": lambda: ring(4, 1 << 20),
    "ring 8, small messages": lambda: ring(8, 4096),
    "halving-doubling 8": lambda: halving_doubling(8, 1 << 20),
    "halving-doubling 16": lambda: halving_doubling(16, 262_144),
    "all-to-all 4": lambda: all_to_all(4, 300_000),
    "all-to-all 8, small messages": lambda: all_to_all(8, 2000),
    "tree 7": lambda: tree(7, 65_536),
    "tree 15": lambda: tree(15, 1000),
    "pipeline 4": lambda: pipeline(4, 500_000),
    "pipeline 8, small messages": lambda: pipeline(8, 30_000),
    "random 3": lambda: random_graph(3, 40, 1),
    "random 5": lambda: random_graph(5, 120, 2),
    "random 8": lambda: random_graph(8, 300, 3),
    "random 16": lambda: random_graph(16, 400, 4),
}
"""Graphs whose makespans other simulators have printed (`tests/data/traffic.json`)."""

graphs = st.builds(
    random_graph, st.integers(1, 5), st.integers(0, 30), st.integers(0, 10_000), zero=st.booleans()
)
"""Small random graphs."""


def bytes_by_pair(graph: MessageGraph) -> dict[tuple[int, int], int]:
    """Add up the bytes from each rank to each other one."""
    found: dict[tuple[int, int], int] = {}
    for node in graph.nodes[graph.sends]:
        key = int(node["rank"]), int(node["peer"])
        found[key] = found.get(key, 0) + int(node["bytes"])
    return found
