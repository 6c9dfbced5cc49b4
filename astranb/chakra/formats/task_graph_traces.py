"""Task graphs of FlexFlow as Chakra traces.

A task of a GPU becomes a computation; the devices that a message passes one after the other, a send and a
receive; an all-reduce, a collective of its GPUs. FlexFlow's messages and all-reduces all go at once. A rank
of a trace does one at a time, in two streams: messages, and all-reduces in the order in which they can begin,
which is the same on all ranks, so that none waits for another one in a circle. Nothing waits for one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

from astranb.chakra.traces import NodeType, Trace, TraceBuilder, write_ranks
from astranb.core.errors import InputError

from .task_graph import MESSAGES, FlexFlowTask, TaskGraph

__all__ = ["task_graph_traces", "write_task_graph"]

_SIGNAL_BYTES: Final = 1  # of a task that waits for one of another GPU, where FlexFlow moves no data
_BACKGROUND: Final = 1


def task_graph_traces(graph: TaskGraph) -> tuple[list[Trace], dict[int, list[int]]]:
    """Return the trace of each GPU, and the numbered groups of its collectives.

    Raises
    ------
    InputError
        Tasks wait for one another, or a message has no GPU at one of its ends.

    Examples
    --------
    >>> tasks = [FlexFlowTask("TASK_FORWARD", rank, duration_ns=5000, following=(2,)) for rank in (0, 1)]
    >>> graph = TaskGraph("step", 1, 2, 0, [*tasks, FlexFlowTask("TASK_ALLREDUCE", size=64, members=(0, 1))])
    >>> traces, groups = task_graph_traces(graph)
    >>> [traces[1].names[row] for row in range(2)], traces[1].parents.of(1), groups
    (['forward 1', 'all-reduce 2'], array([0]), {})
    """
    writer = _TaskGraphWriter(graph)
    for number in graph.order:
        writer.add(number)
    traces = [one.build(f"{graph.where}, rank {rank}") for rank, one in enumerate(writer.made)]
    return traces, {number: list(members) for members, number in writer.groups.items()}


def write_task_graph(graph: TaskGraph, prefix: str | Path) -> list[Path]:
    """Write ``PREFIX.RANK.et`` for each GPU, and ``PREFIX.groups.json``: all of them or none.

    Returns
    -------
    list of Path
        The files written.
    """
    traces, groups = task_graph_traces(graph)
    named = json.dumps({str(number): members for number, members in groups.items()}).encode()
    others = {Path(f"{prefix}.groups.json"): named}
    return write_ranks(lambda rank: traces[rank].data, prefix, ranks=graph.ranks, others=others)


class _TaskGraphWriter:
    """The traces so far; tasks are added in an order in which they can begin."""

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        self.made = [TraceBuilder() for _ in range(graph.ranks)]
        self.groups: dict[tuple[int, ...], int] = {}
        # Where a task ends, and for each rank the nodes that have then ended.
        self.home: dict[int, int] = {}
        self.done: dict[int, dict[int, tuple[int, ...]]] = {}
        self.tags: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.last: dict[int, int] = {}  # all-reduce of each rank

    def add(self, number: int) -> None:
        task = self.graph.tasks[number]
        if number in self.done:  # within a message
            return
        if task.members:
            self.all_reduce(number, task)
        elif task.kind in MESSAGES:
            self.message(number)
        else:
            node = self.compute(task, task.rank, f"{_named(task)} {number}", self.after(number, task.rank))
            self.end(number, task.rank, (node,))

    def end(self, number: int, rank: int, nodes: tuple[int, ...]) -> None:
        self.home[number], self.done[number] = rank, {rank: nodes}

    def after(self, number: int, rank: int) -> tuple[int, ...]:
        """Nodes of a rank that have ended when everything before a task has."""
        return tuple(node for before in self.graph.preceding[number] for node in self.ended(before, rank))

    def ended(self, number: int, rank: int) -> tuple[int, ...]:
        """Nodes of a rank that have ended when a task has; another rank's end is signalled."""
        done = self.done[number]
        if rank not in done:
            home = self.home[number]
            done[rank] = (self.transfer(home, rank, _SIGNAL_BYTES, f"end of {number}", done[home]),)
        return done[rank]

    def compute(self, task: FlexFlowTask, rank: int, name: str, after: tuple[int, ...]) -> int:
        on_cpu = task.on_cpu or bool(task.members)
        attributes = {"is_cpu_op": on_cpu, "duration_ns": task.duration_ns or None}
        duration_us = round(task.duration_ns / 1000)
        return self.made[rank].add(NodeType.COMP, name, attributes, after=after, duration_us=duration_us)

    def transfer(self, source: int, to: int, size: int, name: str, after: tuple[int, ...]) -> int:
        tag = self.tags[source, to]
        self.tags[source, to] += 1
        self.made[source].send(size, to, rank=source, tag=tag, name=name, after=after)
        return self.made[to].recv(size, source, rank=to, tag=tag, name=name)

    def message(self, first: int) -> None:
        """Add a message over one device after the other."""
        graph = self.graph
        chain = [first]
        while (
            len(following := graph.tasks[chain[-1]].following) == 1
            and graph.tasks[following[0]].kind in MESSAGES
            and len(graph.preceding[following[0]]) == 1
        ):
            chain.append(following[0])
        ends = [graph.tasks[number].ends for number in chain if graph.tasks[number].ends]
        if ends and graph.gpus_per_node == 1:
            sources, targets = {ends[0][0]}, {ends[-1][1]}
        else:
            sources = {self.home[number] for number in graph.preceding[first]}
            targets = {graph.tasks[number].rank for number in graph.tasks[chain[-1]].following} - {-1}
        for which, ranks in (("from", sources), ("to", targets)):
            if len(ranks) != 1 or max(ranks) >= graph.ranks:
                shown = ", ".join(map(str, sorted(ranks)[:8])) or "none"
                what = f"task {first} is a message {which} GPU {shown}"
                raise InputError(what, where=graph.where, hint="let one GPU compute before and one after it")
        source, to = *sources, *targets
        after = self.after(first, source)
        if source != to:
            size = max(1, *(graph.tasks[number].size for number in chain))
            after = (self.transfer(source, to, size, f"message {first}", after),)
        for number in chain:
            self.end(number, to, after)

    def all_reduce(self, number: int, task: FlexFlowTask) -> None:
        """Add an all-reduce; among one GPU it is nothing."""
        self.end(number, task.members[0], ())
        if len(task.members) == 1 or not task.size:
            return
        after: defaultdict[int, tuple[int, ...]] = defaultdict(tuple)
        for before in self.graph.preceding[number]:
            home = self.home[before]
            rank = home if home in task.members else task.members[0]
            after[rank] += self.ended(before, rank)
        name = f"all-reduce {number}"
        everyone = task.members == tuple(range(self.graph.ranks))
        group = None if everyone else str(self.groups.setdefault(task.members, len(self.groups) + 1))
        for rank in task.members:
            waits = after[rank]
            if task.duration_ns:
                waits = (self.compute(task, rank, f"{name} inside a GPU", waits),)
            if rank in self.last:
                waits += (self.last[rank],)
            self.last[rank] = self.made[rank].collective(
                "all_reduce", task.size, name=name, group=group, stream=_BACKGROUND, after=waits
            )


def _named(task: FlexFlowTask) -> str:
    return task.kind.removeprefix("TASK_").lower()
