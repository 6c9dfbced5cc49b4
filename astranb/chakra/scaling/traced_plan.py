"""The parallel plan of a traced job, recognized from its groups and peers.

A trace names groups of ranks by number. Which of them is what (parts of a matrix, replicas, stages) follows
from degrees of parallelism that explain every group and every peer of the ranks that were traced, in
Megatron-LM's order of ranks; where several do, what runs on the groups decides, or they have to be given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from astranb.chakra.traces import CollectiveType, NodeType, Trace, read_groups, read_present
from astranb.core.errors import InputError, near
from astranb.core.limits import MOST_RANKS

from .parallelism import GROUPS, PEERS, Parallelism, divisors, plan_text

__all__ = ["ALONE", "REPLICAS", "Shift", "TracedJob", "recognized", "scattered", "traced_job"]

REPLICAS: Final = ("data", "expert data")
"""Groups that sum gradients."""
ALONE: Final = "alone"
"""The role of a group of one rank."""
_STAGES: Final = 2
"""Roles of peers that are stages; those behind them are parts of a sequence."""
_SUMS: Final = (CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER)
_FORWARD: Final = 1 / 8
"""Sums of gradients begin after this part of the computations: forward passes take a third of a step, and a
trace may have two steps. Those of partial products begin in the first layer."""
_FEW: Final = 4  # computations of a trace that say nothing about forward and backward passes

Shift: TypeAlias = tuple[int, int, int, int]
"""Distance of a peer from a rank: in parts of matrices, parts of the sequence, replicas and stages."""


class _Use(NamedTuple):
    """A group that a traced rank uses, and the collectives: their number by kind and stream."""

    rank: int
    members: tuple[int, ...]
    collectives: Mapping[tuple[int, bool], int]
    is_late: bool | None
    """Whether its sums begin behind the first forward pass; None: not known."""


class TracedJob:
    """Traces of a job, with its groups.

    Parameters
    ----------
    traces : mapping of int to Trace
        By rank; not necessarily of all ranks.
    groups : mapping of str to sequence of int
        The ranks of each process group; groups without a name, and ``"0"``, have all ranks.
    ranks : int
        How many the job had.
    where : str
        What errors call it.
    """

    def __init__(
        self, traces: Mapping[int, Trace], groups: Mapping[str, Sequence[int]], ranks: int, where: str
    ) -> None:
        self.traces, self.ranks, self.where = dict(traces), ranks, where
        self.groups = {name: tuple(sorted(members)) for name, members in groups.items()}

    def members(self, rank: int, name: str) -> tuple[int, ...]:
        """Return the ranks of a group that a rank names."""
        if name in ("", "0"):
            return tuple(range(self.ranks))
        if name not in self.groups:
            hint = near(name, self.groups) if self.groups else "give the groups (--comm-group)"
            raise InputError(f"unknown group {name[:40]!r} (pg_name)", where=self.where, hint=hint)
        found = self.groups[name]
        if rank not in found:
            what = f"rank {rank} takes part in a collective of group {name}, which has other ranks"
            raise InputError(what, where=self.where, hint="give the groups of this job")
        return found

    @cached_property
    def uses(self) -> list[_Use]:
        """The groups that each traced rank uses."""
        return [one for rank, trace in self.traces.items() for one in self._uses(rank, trace)]

    @cached_property
    def has_streams(self) -> bool:
        """Whether traces say what runs in the background."""
        return any(background for one in self.uses for _, background in one.collectives)

    def _uses(self, rank: int, trace: Trace) -> Iterator[_Use]:
        collective = trace.type == NodeType.COMM_COLL
        background = trace.integers("comm_stream") > 0
        names = ("", *trace.pg_name.values)
        column = np.where(collective, trace.pg_name.index + 1, -1)
        computed = _computed(trace)
        by_members: dict[tuple[int, ...], list[np.ndarray]] = {}
        for number, name in enumerate(names):
            if (column == number).any():
                by_members.setdefault(self.members(rank, name), []).append(np.flatnonzero(column == number))
        for members, parts in by_members.items():
            rows = np.sort(np.concatenate(parts))
            counts: dict[tuple[int, bool], int] = {}
            for kind, behind in zip(trace.comm_type[rows].tolist(), background[rows].tolist(), strict=True):
                counts[kind, behind] = counts.get((kind, behind), 0) + 1
            sums = rows[np.isin(trace.comm_type[rows], _SUMS)]
            late = None if computed is None or not len(sums) else bool(computed[sums].min() >= _FORWARD)
            yield _Use(rank, members, counts, late)

    @cached_property
    def ends(self) -> dict[int, tuple[set[int], set[int]]]:
        """The ranks that each traced rank sends to, and those that it receives from."""
        return {
            rank: (
                set(trace.comm_dst[trace.type == NodeType.COMM_SEND].tolist()),
                set(trace.comm_src[trace.type == NodeType.COMM_RECV].tolist()),
            )
            for rank, trace in self.traces.items()
        }

    @property
    def peers(self) -> dict[int, set[int]]:
        """The ranks that each traced rank sends to or receives from."""
        return {rank: to | source for rank, (to, source) in self.ends.items()}

    def role(
        self, degrees: Parallelism, rank: int, members: tuple[int, ...], collective: int, *, background: bool
    ) -> str:
        """Choose among roles whose groups are the same: tokens go to experts, sums to replicas."""
        if len(members) == 1:
            return ALONE
        roles = _roles(degrees, rank, members)
        if collective == CollectiveType.ALL_TO_ALL and "expert" in roles:
            return "expert"
        if background or not self.has_streams:
            return next((one for one in REPLICAS if one in roles), roles[0])
        return roles[0]

    def peer_role(self, degrees: Parallelism, rank: int, peer: int, *, sends: bool) -> int | Shift:
        """Return the role of a peer, a position in :data:`PEERS`, or else how far it is.

        Of two stages or parts each is before and behind the other.
        """
        roles = _peer_roles(degrees, rank, peer)
        if not roles:
            own, other = degrees.place(rank), degrees.place(peer)
            return other[0] - own[0], other[1] - own[1], other[2] - own[2], other[3] - own[3]
        ahead = sends
        if roles[0] < _STAGES:
            stage = degrees.stage(rank)
            ahead = stage < degrees.pipeline - 1 if sends else stage == 0
        return next((at for at in roles if at % 2 == ahead), roles[0])


def _computed(trace: Trace) -> np.ndarray | None:
    """Return the part of the computations that are before each node, by time if it is recorded."""
    order = np.argsort(trace.id, kind="stable")
    computes = trace.type == NodeType.COMP
    if computes.sum() < _FEW:
        return None
    took = np.where(trace.has("duration_ns"), trace.integers("duration_ns"), trace.duration_us * 1000)
    weight = np.where(computes, took if took[computes].any() else 1, 0)[order].astype(np.float64)
    before = np.empty(len(trace))
    before[order] = (np.cumsum(weight) - weight) / weight.sum()
    return before


def traced_job(
    traces: str | Path | Mapping[int, Trace] | Sequence[Trace],
    groups: str | Path | Mapping[str, Sequence[int]] | Mapping[int, Sequence[int]] | None = None,
    ranks: int | None = None,
) -> TracedJob:
    """Collect what was traced of a job.

    Parameters
    ----------
    traces : str, Path, mapping of int to Trace, or sequence of Trace
        PREFIX of ``PREFIX.RANK.et``, or traces by rank.
    groups : str, Path or mapping, optional
        The ranks of each group. Default: ``PREFIX.groups.json``, where there is one.
    ranks : int, optional
        How many ranks the job had. Default: up to the highest that is named.

    Raises
    ------
    InputError
        There is no trace, or the groups cannot be read.
    """
    where = "traces"
    if isinstance(traces, str | Path):
        where = str(traces)
        if groups is None and (file := Path(f"{traces}.groups.json")).is_file():
            groups = file
        traces = read_present(traces)
    elif not isinstance(traces, Mapping):
        traces = dict(enumerate(traces))
    if not traces:
        raise InputError("no traces are given", where=where, hint="give one of each stage")
    if isinstance(groups, str | Path):
        groups = read_groups(groups, MOST_RANKS)
    members = {str(name): some for name, some in (groups or {}).items()}
    found = TracedJob(traces, members, 0, where)
    highest = [*traces, *(rank for one in members.values() for rank in one)]
    for rank, peers in found.peers.items():
        if peers and (min(peers) < 0 or max(peers) >= MOST_RANKS):
            what = (
                f"rank {rank} sends to or receives from rank {min(peers) if min(peers) < 0 else max(peers)}"
            )
            raise InputError(what, where=where, hint="give comm_src and comm_dst of messages")
        highest += peers
    found.ranks = max(highest) + 1
    if ranks is not None:
        if ranks < found.ranks:
            what = f"the traced job has {ranks} ranks, and the traces name rank {found.ranks - 1}"
            raise InputError(what, where=where, hint="give the degrees of the traced job")
        found.ranks = ranks
    return found


def recognized(job: TracedJob, given: Parallelism | None = None) -> Parallelism:
    """Return the degrees of parallelism that explain a traced job, or check those that were given.

    Raises
    ------
    InputError
        None do, or several; the text says what is not explained.
    """
    if given is None:
        return _degrees(job)
    if (fault := _unexplained(given, job)) is not None:
        what = f"{plan_text(given)} does not explain {fault}"
        raise InputError(what, where=job.where, hint="give the degrees of the traced job")
    return given


def _candidates(ranks: int, *, experts: bool) -> Iterator[Parallelism]:
    for pipeline in divisors(ranks):
        for tensor in divisors(ranks // pipeline):
            for context in divisors(ranks // pipeline // tensor):
                data = ranks // pipeline // tensor // context
                for expert in divisors(data) if experts else [1]:
                    yield Parallelism(data, tensor, pipeline, context, expert)


def _roles(degrees: Parallelism, rank: int, members: Sequence[int]) -> list[str]:
    """Return the roles of groups that have these members."""
    return [
        name
        for name in GROUPS
        if degrees.size(name) == len(members) > 1 and degrees.group(name, rank) == list(members)
    ]


def _peer_roles(degrees: Parallelism, rank: int, peer: int) -> list[int]:
    """Return the roles of peers that a peer has."""
    some = range(0 if degrees.pipeline > 1 else _STAGES, len(PEERS) if degrees.context > 1 else _STAGES)
    return [at for at in some if degrees.peer(at, rank) == peer]


def _unexplained(degrees: Parallelism, job: TracedJob) -> str | None:
    """Name a group or peer that degrees do not explain, or a degree that nothing shows."""
    shown = set()
    for one in job.uses:
        roles = _roles(degrees, one.rank, one.members)
        if not roles and len(one.members) > 1:
            return f"the group {_shown(one.members)} of rank {one.rank}"
        exchanged = any(kind == CollectiveType.ALL_TO_ALL for kind, _ in one.collectives)
        shown |= {name for name in roles if name != "expert" or exchanged}
    for rank, peers in job.peers.items():
        for peer in peers:
            roles_of_peer = _peer_roles(degrees, rank, peer)
            shown |= {PEERS[at] for at in roles_of_peer}
            if not roles_of_peer and degrees.stage(rank) != degrees.stage(peer):
                return f"messages between ranks {rank} and {peer}"
    needed = {
        "tensor": {"tensor"},
        "pipeline": {"previous stage", "next stage"},
        "context": {"context", "previous in context", "next in context"},
        "expert": {"expert"},
        "data": {"data", "expert", "expert data", "all"},
    }
    for name, roles_of in needed.items():
        if getattr(degrees, name) > 1 and not roles_of & shown:
            return f"why {name} parallelism is {getattr(degrees, name)}: no rank communicates for it"
    return None


def _apart(degrees: Parallelism, job: TracedJob) -> int:
    """Count peers that are neither of a stage beside nor in a ring, where a rank sends and receives."""
    found = 0
    for rank, (to, source) in job.ends.items():
        roles = {peer: _peer_roles(degrees, rank, peer) for peer in to | source}
        rings = [any(roles[peer] and roles[peer][0] >= _STAGES for peer in some) for some in (to, source)]
        found += sum(not some or (some[0] >= _STAGES and not all(rings)) for some in roles.values())
    return found


def _shown(members: Sequence[int]) -> str:
    some = ", ".join(map(str, members[:4]))
    return f"[{some}{', ...' if len(members) > 4 else ''}] of {len(members)}"


def _evidence(degrees: Parallelism, job: TracedJob) -> int:
    """Count collectives where they belong: replicas' in the background or behind forward passes."""
    found = 0
    for one in job.uses:
        roles = _roles(degrees, one.rank, one.members)
        sums_gradients = any(role in REPLICAS for role in roles)
        for (kind, background), count in one.collectives.items():
            if kind == CollectiveType.ALL_TO_ALL:
                found += count * ("expert" in roles)
            elif job.has_streams:
                found += count * (sums_gradients == background)
            elif one.is_late is not None:
                found += count * ((sums_gradients or bool({"ends", "all"} & set(roles))) == one.is_late)
    return found


def _degrees(job: TracedJob) -> Parallelism:
    """Find the degrees that explain what was traced."""
    experts = any(kind == CollectiveType.ALL_TO_ALL for one in job.uses for kind, _ in one.collectives)
    every = list(_candidates(job.ranks, experts=experts))
    possible = [one for one in every if _unexplained(one, job) is None]
    if not possible:
        plain = min(every, key=lambda one: (one.expert * one.context * one.pipeline, one.tensor))
        fault = _unexplained(plain, job)
        what = f"no degrees of parallelism in Megatron's order explain {job.ranks} ranks, as {fault}"
        raise InputError(what, where=job.where, hint="give --traced")
    # What runs on groups comes first, then peers that are of the next stage or part, then rings.
    keys = [(-_evidence(one, job), _apart(one, job), one.context) for one in possible]
    plain_ones = [one for one, key in zip(possible, keys, strict=True) if key == min(keys)]
    if len(plain_ones) > 1:
        texts = " or ".join(plan_text(one) for one in plain_ones[:3])
        what = f"the groups of {job.ranks} ranks can be {texts}"
        raise InputError(what, where=job.where, hint="say which, with --traced")
    return plain_ones[0]


def scattered(job: TracedJob, degrees: Parallelism) -> Parallelism:
    """Add whether sums over replicas (ZeRO) and of partial products (sequence) leave each rank a part."""
    kinds: dict[str, set[int]] = {"data": set(), "tensor": set()}
    for one in job.uses:
        for kind, background in one.collectives:
            if kind == CollectiveType.REDUCE_SCATTER and len(one.members) > 1:
                role = job.role(degrees, one.rank, one.members, kind, background=background)
                kinds.get(role, set()).add(kind)
    return replace(degrees, sequence=bool(kinds["tensor"]), zero=int(bool(kinds["data"])))
