"""The grammar of a workload: each stage as letters and repeated modules, with dependencies between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from astranb.chakra.scaling import RepeatedModules, commonest_repeats
from astranb.chakra.traces import NodeType, Trace, topological_order
from astranb.core.errors import InputError

from .job import CorpusJob

__all__ = [
    "SIZES",
    "GrammarStage",
    "GroupRole",
    "Letter",
    "NodePattern",
    "Outline",
    "agree",
    "outline_of",
    "stage_of",
]

SIZES: Final = ("num_ops", "tensor_size", "comm_size", "duration_ns")
"""Values of which a symbol has a distribution."""


class GroupRole(NamedTuple):
    """A group by its place in the plan: whether it spans a tensor group and replicas, and its stages."""

    tensor: bool
    data: bool
    stages: tuple[int, ...]


class Letter(NamedTuple):
    """A node apart from its sizes."""

    type: int
    collective: int
    role: GroupRole | None
    peer: int  # stage, -1 for none
    background: bool
    cpu: bool
    symbol: int  # nodes of one symbol have the same sizes

    @property
    def crosses_stages(self) -> bool:
        """Whether other stages have to agree with it."""
        return self.peer >= 0 or (self.role is not None and len(self.role.stages) > 1)


class NodePattern(NamedTuple):
    """A node of a stage: its letter, the rows it waits for, and the tag of a message."""

    letter: int
    parents: tuple[int, ...]
    tag: int


@dataclass
class GrammarStage:
    """The nodes of a stage in order: their letters, dependencies, tags of messages, and modules."""

    letters: list[int]
    tags: list[int]
    modules: RepeatedModules

    @property
    def parents(self) -> Sequence[tuple[int, ...]]:
        """Nodes that each node waits for."""
        return self.modules.parents


def stage_of(
    rows: list[int], parents: Sequence[tuple[int, ...]], tags: list[int], letters: Sequence[Letter]
) -> GrammarStage:
    """Divide a stage into modules; what other stages have to agree with is never repeated another time."""
    crosses = np.array([letters[at].crosses_stages for at in rows], bool)
    return GrammarStage(
        rows, tags, RepeatedModules.of(np.where(crosses, -1 - np.arange(len(rows)), rows), parents)
    )


@dataclass
class Outline:
    """The grammar of one workload.

    Attributes
    ----------
    letters : list of Letter
    sizes : array of float, shape (symbols, 4)
        As :data:`SIZES`; -1 for none.
    signature : tuple
        The kinds of the symbols in the order of their first use: workloads with one signature are
        instances of one architecture under one kind of plan.
    layers : int
        How often the commonest module is repeated in a stage; 0 for no module.
    plan : tuple of int
        Tensor, data, pipeline: that of the job, or one stage for each rank where ranks of a stage differ.
    divided : bool
        Whether the plan is that of the job.
    """

    letters: list[Letter]
    sizes: np.ndarray
    signature: tuple[tuple[object, ...], ...]
    stages: list[GrammarStage]
    layers: int
    plan: tuple[int, int, int]
    divided: bool

    @property
    def rows(self) -> int:
        """Nodes of the first stage."""
        return len(self.stages[0].letters)

    def counts(self, more: int = 0) -> np.ndarray:
        """Count the nodes of each symbol in all stages, with so many more layers."""
        at = np.concatenate(
            [[node.letter for node in self.expanded(stage, more)] for stage in range(len(self.stages))]
        )
        symbols = np.array([one.symbol for one in self.letters])
        return np.bincount(symbols[at], minlength=len(self.sizes))

    def expanded(self, stage: int, more: int = 0) -> list[NodePattern]:
        """Write out a stage, with so many more layers (or fewer) in each of its modules."""
        one = self.stages[stage]
        return [
            NodePattern(one.letters[row], parents, one.tags[row])
            for row, parents in one.modules.expanded(more)
        ]


class _Unlike(Exception):
    """The ranks of a stage differ, or a group is no product of the plan's axes."""


def outline_of(job: CorpusJob) -> Outline:
    """Find the grammar of a workload.

    Raises
    ------
    InputError
        A rank of a group or message has no trace, or dependencies are faulty.
    """
    with suppress(_Unlike):
        return _outline(job, (job.tensor, job.data, job.pipeline))
    try:
        return _outline(job, (1, 1, job.ranks))
    except _Unlike:
        what = "a message is for a rank without a trace, or a rank does a collective of a group without it"
        hint = "give the traces of all ranks, and the groups in PREFIX.groups.json"
        raise InputError(what, where=job.traces[0].source, hint=hint) from None


def _outline(job: CorpusJob, plan: tuple[int, int, int]) -> Outline:
    tensor, data, pipeline = plan
    per_stage = tensor * data
    letters: dict[Letter, int] = {}
    symbols: dict[tuple[object, ...], int] = {}
    tags: dict[tuple[int, int, int], int] = {}
    stages = []
    for stage in range(pipeline):
        columns = [
            _columns(job, rank, plan, symbols)
            for rank in range(stage * per_stage, stage * per_stage + (max(1, per_stage)))
        ]
        first = columns[0]
        if any(one.key != first.key for one in columns[1:]):
            raise _Unlike
        row_letters = [letters.setdefault(one, len(letters)) for one in first.letters]
        row_tags = [
            tags.setdefault((*ends, tag), sum(1 for one in tags if one[:2] == ends)) if tag >= 0 else -1
            for ends, tag in zip(first.ends, first.tags, strict=True)
        ]
        stages.append(stage_of(row_letters, first.parents, row_tags, list(letters)))
    if what := agree(stages, list(letters)):
        raise InputError(what, where=job.traces[0].source, hint="leave this workload out of the corpus")
    layers = commonest_repeats(one.modules for one in stages)
    for one in stages:
        one.modules.keep(layers)
    sizes = np.array([key[1] for key in symbols], float).reshape(len(symbols), len(SIZES))
    kinds = tuple((key[0], *(int(np.sign(one)) for one in key[1])) for key in symbols)  # type: ignore[attr-defined]
    divided = plan == (job.tensor, job.data, job.pipeline)
    return Outline(list(letters), sizes, kinds, stages, layers, plan, divided)


def agree(stages: Sequence[GrammarStage], letters: Sequence[Letter]) -> str:
    """Describe where stages send other messages than they receive, or differ in a group's calls."""
    sent: Counter[tuple[int, ...]] = Counter()
    received: Counter[tuple[int, ...]] = Counter()
    calls: dict[GroupRole, dict[int, list[tuple[int, int]]]] = {}
    for own, stage in enumerate(stages):
        for at, tag in zip(stage.letters, stage.tags, strict=True):
            one = letters[at]
            if one.type == NodeType.COMM_SEND:
                sent[own, one.peer, tag, one.symbol] += 1
            elif one.type == NodeType.COMM_RECV:
                received[one.peer, own, tag, one.symbol] += 1
            elif one.role is not None and len(one.role.stages) > 1:
                by_stage = calls.setdefault(one.role, {other: [] for other in one.role.stages})
                by_stage[own].append((one.collective, one.symbol))
    if sent != received:
        return "the ranks send other messages than they receive"
    if any(some != each[role.stages[0]] for role, each in calls.items() for some in each.values()):
        return "the ranks of a group do other collectives, or in another order"
    return ""


class _Columns(NamedTuple):
    letters: list[Letter]
    parents: list[tuple[int, ...]]
    ends: list[tuple[int, int]]
    tags: list[int]

    @property
    def key(self) -> tuple[object, ...]:
        return (self.letters, self.parents, self.tags)


def _columns(
    job: CorpusJob, rank: int, plan: tuple[int, int, int], symbols: dict[tuple[object, ...], int]
) -> _Columns:
    trace = job.traces[rank]
    order = topological_order(trace)
    order = order[trace.type[order] != NodeType.METADATA]
    place = np.full(len(trace), -1)
    place[order] = np.arange(len(order))
    per_stage, own = plan[0] * plan[1], rank // (plan[0] * plan[1])
    groups = [
        _role(list(job.groups.get(name, range(job.ranks))), rank, plan) for name in trace.pg_name.values
    ]
    whole = _role(list(range(job.ranks)), rank, plan)
    sizes = _sizes(trace)
    letters, parents, ends, tags = [], [], [], []
    background = trace.integers("comm_stream").tolist()
    cpu = trace.is_cpu_op.tolist()
    flat, offset = trace.parents.flat, trace.parents.offset
    kinds, collectives = trace.type.tolist(), trace.comm_type.tolist()
    names = trace.pg_name.index.tolist()
    sources, targets, tag = (one.tolist() for one in (trace.comm_src, trace.comm_dst, trace.comm_tag))
    for row in order.tolist():
        kind, peer, role, collective = kinds[row], -1, None, -1
        if kind == NodeType.COMM_COLL:
            collective = collectives[row]
            role = groups[names[row]] if names[row] >= 0 else whole
        elif kind in (NodeType.COMM_SEND, NodeType.COMM_RECV):
            other = targets[row] if kind == NodeType.COMM_SEND else sources[row]
            if not 0 <= other < job.ranks or other % per_stage != rank % per_stage:
                raise _Unlike
            peer = other // per_stage
        named = (
            "message"
            if peer >= 0
            else (kind, collective, role and (role.tensor, role.data, len(role.stages)))
        )
        symbol = symbols.setdefault((named, sizes[row]), len(symbols))
        letters.append(Letter(kind, collective, role, peer, background[row] > 0, cpu[row], symbol))
        before = place[flat[offset[row] : offset[row + 1]]]
        parents.append(tuple(sorted(before[before >= 0].tolist())))
        ends.append((peer, own) if kind == NodeType.COMM_RECV else (own, peer))
        tags.append(tag[row] if peer >= 0 else -1)
    return _Columns(letters, parents, ends, tags)


def _sizes(trace: Trace) -> list[tuple[int, ...]]:
    took = np.where(trace.has("duration_ns"), trace.integers("duration_ns"), trace.duration_us * 1000)
    columns = [trace.num_ops, trace.tensor_size, trace.comm_size, np.where(took > 0, took, -1)]
    return list(map(tuple, np.array(columns).T.tolist()))


def _role(members: Sequence[int], rank: int, plan: tuple[int, int, int]) -> GroupRole:
    """Return a group's place in the plan, as its member sees it."""
    tensor, data, _ = plan
    if rank not in members:
        raise _Unlike
    place = rank % (tensor * data)
    stages = sorted({one // (tensor * data) for one in members})
    across = sorted({one % tensor for one in members})
    replicas = sorted({one // tensor % data for one in members})
    wide = len(across) == tensor > 1
    deep = len(replicas) == data > 1
    full = len(members) == len(across) * len(replicas) * len(stages)
    alone = (wide or across == [place % tensor]) and (deep or replicas == [place // tensor])
    if not (full and alone):
        raise _Unlike
    return GroupRole(wide, deep, tuple(stages))
