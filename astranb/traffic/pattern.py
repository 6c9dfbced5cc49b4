"""A pattern of traffic: what ranks do, folded; each collective of a size is stored once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from astranb.core.arrays import ranges
from astranb.core.state import require_bytes
from astranb.hardware import Gpu
from astranb.workload.astrasim2 import (
    ALGORITHM_WORDS,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    InfraNetwork,
    RankOperations,
    System,
    Workload,
)

from .graph import NODE, Label, MessageGraph, matched, require_ranks

__all__ = ["Pattern"]

_WORDS: Final = ALGORITHM_WORDS | {"double_tree": "doubleBinaryTree"}
"""Names of the templates' algorithms in a system's file."""
_NODE_BYTES: Final = 4 * NODE.itemsize
"""Bytes of a node while a graph is made: itself, its dependencies, and what matches sends and receives."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """Messages and computations of all ranks with their dependencies, folded.

    Ranks that do the same at the same time share their operations, and collectives of the same kind, size and
    shape of group share their messages. :meth:`unfold` makes the graph of all messages.

    Parameters
    ----------
    operations : RankOperations
        Computations with their durations, sends, receives and collectives: each class of ranks once. Of the
        operations that a rank does one at a time, each waits for the one before it in the recorded run.
    groups : mapping of int to sequence of int
        The ranks of each numbered group.
    templates : sequence of MessageGraph
        The messages of a collective between the positions of its group, as of :func:`template_of`.
    template : sequence of ndarray of int64
        For each class of ranks and each of its operations, the number of the template; -1: no collective.
    start_ns : sequence of ndarray of int64
        For each class of ranks, when its operations began in the recorded run.
    time_ns : int
        When the recorded run ended.
    title : str
    assumptions : mapping of str to str
        What the pattern rests on: machine, algorithms, sources of durations.
    jobs : sequence of str
        For each class of ranks the job that it belongs to; empty: there is one job.
    """

    subject: ClassVar = "model"

    operations: RankOperations
    groups: Mapping[int, Sequence[int]]
    templates: Sequence[MessageGraph]
    template: Sequence[np.ndarray]
    start_ns: Sequence[np.ndarray]
    time_ns: int
    title: str = "traffic"
    assumptions: Mapping[str, str] = field(default_factory=dict)
    jobs: Sequence[str] = ()

    @property
    def time_ms(self) -> float:
        """:attr:`time_ns` in milliseconds."""
        return self.time_ns / 1e6

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.operations)

    @cached_property
    def _uses(self) -> tuple[np.ndarray, np.ndarray]:
        """Number of ranks of each class, and how often a whole group uses each template."""
        sizes = np.bincount(self.operations.pattern, minlength=len(self.operations.patterns))
        used = np.zeros(len(self.templates), np.int64)
        for size, chosen in zip(sizes.tolist(), self.template, strict=True):
            used += size * np.bincount(chosen + 1, minlength=len(used) + 1)[1:]
        widths = np.array([graph.ranks for graph in self.templates], np.int64)
        return sizes, used // np.maximum(widths, 1)

    def _total(self, of_templates: Sequence[int], column: str) -> int:
        """Sum over all messages: of collectives a value of each template, of sends 1 or their bytes."""
        sizes, used = self._uses
        found = sum(int(count) * value for count, value in zip(used, of_templates, strict=True))
        for size, one in zip(sizes.tolist(), self.operations.patterns, strict=True):
            sends = one.rows[one.rows["kind"] == SEND]
            found += size * (int(sends[column].sum()) if column else len(sends))
        return found

    @property
    def messages(self) -> int:
        """Messages of all ranks."""
        return self._total([graph.messages for graph in self.templates], "")

    @property
    def bytes(self) -> int:
        """Bytes of all messages."""
        return self._total([graph.bytes for graph in self.templates], "bytes")

    @property
    def nodes(self) -> int:
        """Nodes of the graph of all messages."""
        sizes, used = self._uses
        found = sum(int(count) * len(graph.nodes) for count, graph in zip(used, self.templates, strict=True))
        for size, chosen in zip(sizes.tolist(), self.template, strict=True):
            found += size * int(np.count_nonzero(chosen < 0))
        return found

    def unfold(self) -> MessageGraph:
        """Make the graph of all messages.

        Raises
        ------
        InputError
            It would not fit in memory, or ranks of a group do not call the same collectives.
        """
        hint = "take fewer ranks, layers or microbatches"
        require_bytes(_NODE_BYTES * self.nodes, where=f"{self.nodes:,} nodes of {self.title}", hint=hint)
        return _Unfolding(self).graph()

    def on(
        self,
        network: DimensionNetwork | InfraNetwork | None,
        gpu: str | Path | Gpu | None = None,
        *,
        by_lines: bool = False,
    ) -> Workload:
        """Return the workload that replays the pattern on a network: pass the pattern to a ``Simulation``.

        Parameters
        ----------
        network : DimensionNetwork or InfraNetwork
            With as many NPUs as there are ranks.
        gpu : str, optional
            Of no effect: computations have their durations.
        by_lines : bool
            Whether collectives stay what they are: their messages are the loads and stores of thread blocks.
            Otherwise all messages are unfolded.

        Raises
        ------
        InputError
            There is no network, it has another number of NPUs, or the messages do not fit in memory.
        """
        if not by_lines:
            require_ranks(self.ranks, network, self.title)
            return self.unfold().on(network, gpu)
        used = require_ranks(self.ranks, network, self.title)
        algorithms = {
            f"{label.collective.replace('_', '-')}-implementation": [_WORDS[label.algorithm.split("+")[0]]]
            for label in (graph.labels[0] for graph in self.templates)
            if label.algorithm.split("+")[0] in _WORDS
        }
        system = System.from_document(
            {"all-reduce-implementation": ["ring"], **algorithms, "preferred-dataset-splits": 1}, "the replay"
        )
        return Workload(self.operations, used, system, groups=self.groups, title=self.title)


class _Unfolding:
    """Makes the graph of all messages: the nodes of ranks with equal positions in their groups at once."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.labels: dict[Label, int] = {}
        self.made: dict[tuple[int, ...], _ClassNodes] = {}
        everyone = np.arange(pattern.ranks)
        self.members = {
            number: np.asarray(members, np.int64) for number, members in pattern.groups.items()
        } | {-1: everyone}
        self.position = {number: np.argsort(listed) for number, listed in self.members.items()}
        self.ordered = {number: np.sort(listed) for number, listed in self.members.items()}
        self.offset = self._tags()

    def _tags(self) -> dict[int, int]:
        """Assign to each group numbers for the tags of its messages that no other group has."""
        pattern = self.pattern
        widest = [int(graph.nodes["tag"].max(initial=-1)) + 1 for graph in pattern.templates]
        needed = dict.fromkeys(self.members, 0)
        first = 0
        for number, one in enumerate(pattern.operations.patterns):
            rows, chosen = one.rows, pattern.template[number]
            messages = np.isin(rows["kind"], (SEND, RECV))
            first = max(first, int(rows["tag"][messages].max(initial=-1)) + 1)
            totals: dict[int, int] = {}
            for slot, template in zip(rows["group"].tolist(), chosen.tolist(), strict=True):
                if template >= 0:
                    totals[slot] = totals.get(slot, 0) + widest[template]
            ranks = np.flatnonzero(pattern.operations.pattern == number)
            for slot, total in totals.items():
                listed = self._groups_of(ranks, slot)
                for group in np.unique(listed).tolist():
                    needed[group] = max(needed[group], total)
        offsets = {}
        for group, total in needed.items():
            offsets[group], first = first, first + total
        return offsets

    def _groups_of(self, ranks: np.ndarray, slot: int) -> np.ndarray:
        if slot < 0:
            return np.full(len(ranks), -1, np.int64)
        return np.asarray(self.pattern.operations.groups[ranks, slot])

    def graph(self) -> MessageGraph:
        """Make the graph."""
        pattern = self.pattern
        every: list[np.ndarray] = []
        counts: list[np.ndarray] = []
        deps: list[np.ndarray] = []
        at = 0
        for rank, number in enumerate(pattern.operations.pattern.tolist()):
            made = self._nodes(rank, number)
            table = made.nodes.copy()
            table["rank"] = rank
            known = made.group >= 0
            for which, slot in enumerate(made.slots):
                group = int(self._groups_of(np.array([rank]), slot)[0])
                mine = made.group == which
                table["peer"][mine] = self.members[group][made.nodes["peer"][mine]]
                table["tag"][mine] += self.offset[group]
            single = ~known & (made.nodes["peer"] >= 0)
            table["peer"][single] = pattern.operations.peers[rank, made.nodes["peer"][single]]
            every.append(table)
            counts.append(made.counts)
            deps.append(made.deps + at)
            at += len(table)
        nodes = np.concatenate(every) if every else np.zeros(0, NODE)
        start = np.concatenate([[0], np.cumsum(np.concatenate(counts) if counts else [])]).astype(np.int64)
        flat = np.concatenate(deps) if deps else np.zeros(0, np.int64)
        nodes = matched(nodes, pattern.title, by_size=True)
        return MessageGraph(
            pattern.ranks, nodes, start, flat, tuple(self.labels) or (Label(),), pattern.title,
            pattern.assumptions,
        )  # fmt: skip

    def _nodes(self, rank: int, number: int) -> _ClassNodes:
        """Return the nodes of a rank, with positions instead of peers."""
        rows, chosen = self.pattern.operations.patterns[number].rows, self.pattern.template[number]
        slots = np.unique(rows["group"][chosen >= 0]).tolist()
        key = [number]
        for slot in slots:
            group = int(self._groups_of(np.array([rank]), slot)[0])
            found = np.searchsorted(self.ordered[group], rank)
            key.append(int(self.position[group][found]))
        if tuple(key) not in self.made:
            places = dict(zip(slots, key[1:], strict=True))
            self.made[tuple(key)] = _ClassNodes(self.pattern, number, places, self.labels)
        return self.made[tuple(key)]


class _ClassNodes:
    """The nodes of ranks of one class with the same positions in their groups.

    Attributes
    ----------
    nodes : ndarray of NODE
        ``peer`` is a position in the group or among the peers, a tag counts within the group.
    counts, deps : ndarray of int64
        Dependencies of each node, and all of them, as rows among these.
    slots : list of int
    group : ndarray of int64
        For each node the index of its group in ``slots``; -1: none.
    """

    def __init__(
        self, pattern: Pattern, number: int, places: Mapping[int, int], labels: dict[Label, int]
    ) -> None:
        one, chosen, began = (
            pattern.operations.patterns[number], pattern.template[number], pattern.start_ns[number],
        )  # fmt: skip
        rows, count = one.rows, len(one.rows)
        self.slots = list(places)
        # A pool of nodes: those of operations that are no collective, then those of each template's position.
        pool = [_single(rows)]
        waits = [np.zeros(count, np.int64)]  # dependencies of each, and all of them, counted from its begin
        lists = [np.zeros(0, np.int64)]
        first = np.arange(count)
        length = np.ones(count, np.int64)
        at = count
        slots = rows["group"]
        for template, slot in {
            (t, s) for t, s in zip(chosen.tolist(), slots.tolist(), strict=True) if t >= 0
        }:
            graph, place = pattern.templates[template], places[slot]
            begin, end = int(graph.first[place]), int(graph.first[place + 1])
            pool.append(graph.nodes[begin:end])
            waits.append(np.diff(graph.dep_start[begin : end + 1]))
            lists.append(graph.deps[int(graph.dep_start[begin]) : int(graph.dep_start[end])] - begin)
            mine = (chosen == template) & (slots == slot)
            first[mine], length[mine] = at, end - begin
            at += end - begin
        nodes, pool_waits, pool_deps = np.concatenate(pool), np.concatenate(waits), np.concatenate(lists)
        entry = np.cumsum(length) - length
        row = np.repeat(np.arange(count), length)
        taken = (first - entry)[row] + np.arange(len(row))
        self.nodes = nodes[taken]
        self.nodes["start_ps"] += 1000 * began[row]
        self.nodes["tag"] += self._tags(pattern, rows, chosen, began)[row]
        self.nodes["label"] = self._labels(pattern, number, labels)[row]
        message = (chosen[row] >= 0) & (self.nodes["kind"] != COMPUTE)
        self.group = np.where(message, np.searchsorted(self.slots, slots[row]), -1)
        own, inner = np.diff(one.dep_start), pool_waits[taken]
        self.counts = inner.copy()
        self.counts[entry] += own
        start = np.cumsum(self.counts) - self.counts
        self.deps = np.empty(int(self.counts.sum()), np.int64)
        self.deps[ranges(start[entry], own)] = (entry + length - 1)[one.deps]
        pool_start = np.cumsum(pool_waits) - pool_waits
        mine = start.copy()
        mine[entry] += own
        self.deps[ranges(mine, inner)] = pool_deps[ranges(pool_start[taken], inner)] + np.repeat(
            entry[row], inner
        )

    @staticmethod
    def _labels(pattern: Pattern, number: int, labels: dict[Label, int]) -> np.ndarray:
        """Return the label of each operation."""
        one, found = pattern.operations.patterns[number], []
        job = pattern.jobs[number] if pattern.jobs else ""
        for row, template in enumerate(pattern.template[number].tolist()):
            name = "" if one.names is None else one.names[row] or ""
            of = pattern.templates[template].labels[0] if template >= 0 else Label()
            label = Label(name, of.collective, of.algorithm, job)
            found.append(labels.setdefault(label, len(labels)))
        return np.array(found, np.int64)

    @staticmethod
    def _tags(pattern: Pattern, rows: np.ndarray, chosen: np.ndarray, began: np.ndarray) -> np.ndarray:
        """Return the first tag of each collective among those of its group, in the order of their starts."""
        tags = np.zeros(len(rows), np.int64)
        next_tag: dict[int, int] = {}
        for row in np.lexsort([np.arange(len(rows)), began, rows["stream"]]).tolist():
            if chosen[row] >= 0:
                slot = int(rows["group"][row])
                tags[row] = next_tag.get(slot, 0)
                widest = int(pattern.templates[chosen[row]].nodes["tag"].max(initial=-1)) + 1
                next_tag[slot] = int(tags[row]) + widest
        return tags


def _single(rows: np.ndarray) -> np.ndarray:
    """Make a node of each operation: a send, a receive or a computation."""
    nodes = np.zeros(len(rows), NODE)
    still = ~np.isin(rows["kind"], (SEND, RECV))
    for name in ("kind", "bytes", "tag", "peer"):
        nodes[name] = np.where(still, 0, rows[name])
    nodes["kind"][still], nodes["peer"][still] = COMPUTE, -1
    nodes["duration_ps"] = np.where(still, 1000 * rows["duration_ns"], 0)
    nodes["match"] = nodes["phase"] = nodes["chunk"] = -1
    return nodes
