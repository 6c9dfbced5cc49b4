"""Profiles of Chakra traces: what ranks of a small run did, scaled to more ranks.

A trace names groups of ranks by number. Which of them is what (parts of a matrix, replicas, stages) follows
from degrees of parallelism that explain every group and every peer of the ranks that were traced, in
Megatron-LM's order of ranks; where several do, they have to be given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from astranb.chakra import CollectiveType, NodeType, read_present
from astranb.core.errors import InputError
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    RECV,
    SEND,
    Operations,
)
from astranb.workload.astrasim2.documents import read_groups
from astranb.workload.astrasim2.traces import operations_of
from astranb.workload.kernels import DEFAULT_GPU, KernelTimes, TimedKernel, gpu_named
from astranb.workload.models import ModelStep, Parallelism, StageProgram
from astranb.workload.models.parallelism import GROUPS, PEERS

from .profile import Profile, plan_text
from .scale import Scaling, scaled

__all__ = ["profile_traces"]

_MOST_RANKS: Final = 1 << 20
_NAME_OF: Final = {number: name for name, number in COLLECTIVE_NAMES.items()}
_KINDS: Final = {
    COMPUTE: NodeType.COMP,
    COLLECTIVE: NodeType.COMM_COLL,
    SEND: NodeType.COMM_SEND,
    RECV: NodeType.COMM_RECV,
}
_REPLICAS: Final = ("data", "expert data")
_STAGES: Final = 2
"""Roles of peers that are stages; those behind them are parts of a sequence."""


class _Use(NamedTuple):
    """A group that a traced rank uses: its members, and collectives by name and stream."""

    rank: int
    members: tuple[int, ...]
    collectives: Mapping[tuple[str, bool], int]


class _Traced(NamedTuple):
    """What was traced: operations by rank, groups by number, and how many ranks there were."""

    operations: Mapping[int, Operations]
    groups: Mapping[int, Sequence[int]]
    ranks: int
    where: str


def profile_traces(
    prefix: str | Path,
    parallelism: Parallelism | Mapping[str, Any] | None = None,
    *,
    groups: str | Path | None = None,
    traced: Parallelism | None = None,
    micro: int = 1,
    gpu: str | KernelTimes = DEFAULT_GPU,
    tokens: int = 0,
) -> Profile:
    """Profile the traces of a few ranks, and scale what they did to more ranks.

    Every stage of the pipeline needs the trace of one rank. The rules of scaling are those of
    :func:`astranb.traffic.profiles.scale.scaled`; they are in the profile's assumptions.

    Parameters
    ----------
    prefix : str or Path
        Of the files ``PREFIX.RANK.et``.
    parallelism : Parallelism or mapping of str to int, optional
        Degrees of the job that is wanted, or those of them that differ from the traced job's.
    groups : str or Path, optional
        The ranks of each group. Default: ``PREFIX.groups.json``, where there is one.
    traced : Parallelism, optional
        Degrees of the traced job. Default: those that explain its groups and peers.
    micro : int
        How many times as many sequences a microbatch has.
    gpu : str or KernelTimes
        Whose roofline gives durations, where the traces have none.
    tokens : int
        Of the traced step.

    Raises
    ------
    InputError
        The traces do not tell what is asked for; the text says why.

    Examples
    --------
    >>> import tempfile
    >>> from astranb.workload.models import workload
    >>> prefix = Path(tempfile.mkdtemp()) / "small"
    >>> _ = workload("gpt3-125m", Parallelism(data=2, tensor=4), gpu="h100-sxm").write(prefix)
    >>> profile = profile_traces(prefix, {"data": 16})
    >>> profile.ranks, profile.assumptions["traced job"]
    (64, '8 ranks: data 2, tensor 4')
    """
    found = _read(Path(prefix), groups, traced)
    uses = [one for rank, listed in found.operations.items() for one in _uses(listed, rank, found)]
    peers = {rank: _peers(listed) for rank, listed in found.operations.items()}
    if traced is None:
        traced = _degrees(found, uses, peers)
    elif (fault := _unexplained(traced, uses, peers)) is not None:
        what = f"{plan_text(traced)} does not explain {fault}"
        raise InputError(what, where=found.where, hint="give the degrees of the traced job")
    timed = any(
        (one.rows["duration_ns"][one.rows["kind"] == COMPUTE] > 0).any() for one in found.operations.values()
    )
    programs = _stages(found, traced)
    traced = replace(traced, sequence=_scatters(programs, "tensor"), zero=int(_scatters(programs, "data")))
    if isinstance(gpu, KernelTimes):
        times = gpu
    else:
        times = KernelTimes(gpu_named(gpu), efficiency=None if timed else 1.0)
    if not timed and times.efficiency is None:
        what = "the traces have neither durations nor shapes of kernels"
        raise InputError(what, where=found.where, hint="take the roofline: --efficiency ideal")
    scaling = Scaling(traced, _target(parallelism, traced), micro, times.gpu.kernel_ns)
    stages = [scaled(one, scaling) for one in programs]
    done = tokens * micro * scaling.target.data // traced.data
    step = ModelStep(scaling.target, stages, done, times, title=Path(prefix).name)
    assumptions = {
        "traced job": f"{found.ranks} ranks: {plan_text(traced)}",
        "traces": f"of {len(found.operations)} ranks; ranks of a stage do the same",
        "parallelism": plan_text(scaling.target),
        "durations": "as recorded" if timed else times.text,
        "model's operations": "all that the traces count, recomputation and the optimizer included",
        **scaling.assumptions,
    }
    return Profile(step, "traces", str(prefix), assumptions)


def _target(given: Parallelism | Mapping[str, Any] | None, traced: Parallelism) -> Parallelism:
    """Give the wanted degrees; what is divided as in the traced job is not asked for again."""
    if not isinstance(given, Parallelism):
        return replace(traced, **(given or {}))
    return replace(given, sequence=traced.sequence and given.tensor > 1, zero=traced.zero)


# Reading


def _read(prefix: Path, groups: str | Path | None, traced: Parallelism | None) -> _Traced:
    traces = read_present(prefix)
    file = Path(f"{prefix}.groups.json") if groups is None else Path(groups)
    members = read_groups(file, _MOST_RANKS) if groups is not None or file.is_file() else {}
    operations = {rank: operations_of(trace, members) for rank, trace in traces.items()}
    highest = [*operations, *(rank for one in members.values() for rank in one)]
    for listed in operations.values():
        highest += _peers(listed)["send"] | _peers(listed)["receive"]
    ranks = max(highest) + 1
    if traced is not None:
        if traced.ranks < ranks:
            what = (
                f"{plan_text(traced)} is a job of {traced.ranks} ranks, and the traces name rank {ranks - 1}"
            )
            raise InputError(what, where=str(prefix), hint="give the degrees of the traced job")
        ranks = traced.ranks
    return _Traced(operations, members, ranks, str(prefix))


def _members(number: int, found: _Traced) -> tuple[int, ...]:
    return tuple(range(found.ranks)) if number < 0 else tuple(sorted(found.groups[number]))


def _uses(listed: Operations, rank: int, found: _Traced) -> Iterator[_Use]:
    rows = listed.rows[listed.rows["kind"] == COLLECTIVE]
    for number in np.unique(rows["group"]).tolist():
        some = rows[rows["group"] == number]
        members = _members(number, found)
        if rank not in members:
            what = f"rank {rank} takes part in a collective of group {number}, which has other ranks"
            raise InputError(what, where=found.where, hint="give the groups of this job")
        pairs, counts = np.unique(some[["collective", "stream"]], return_counts=True)
        yield _Use(
            rank,
            members,
            {
                (_NAME_OF[int(kind)], bool(stream)): int(count)
                for (kind, stream), count in zip(pairs.tolist(), counts.tolist(), strict=True)
            },
        )


def _peers(listed: Operations) -> dict[str, set[int]]:
    rows = listed.rows
    return {
        name: set(rows["peer"][rows["kind"] == kind].tolist())
        for name, kind in (("send", SEND), ("receive", RECV))
    }


# Which group is what


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]


def _candidates(ranks: int, *, experts: bool) -> Iterator[Parallelism]:
    for pipeline in _divisors(ranks):
        for tensor in _divisors(ranks // pipeline):
            for context in _divisors(ranks // pipeline // tensor):
                data = ranks // pipeline // tensor // context
                for expert in _divisors(data) if experts else [1]:
                    yield Parallelism(data, tensor, pipeline, context, expert)


def _roles(degrees: Parallelism, rank: int, members: Sequence[int]) -> list[str]:
    """Give the roles of groups that have these members."""
    return [
        name
        for name in GROUPS
        if degrees.size(name) == len(members) > 1 and degrees.group(name, rank) == list(members)
    ]


def _peer_roles(degrees: Parallelism, rank: int, peer: int) -> list[int]:
    """Give the roles of peers that a peer has."""
    some = range(0 if degrees.pipeline > 1 else _STAGES, len(PEERS) if degrees.context > 1 else _STAGES)
    return [at for at in some if degrees.peer(at, rank) == peer]


def _unexplained(
    degrees: Parallelism, uses: Sequence[_Use], peers: Mapping[int, Mapping[str, set[int]]]
) -> str | None:
    """Name a group or peer that degrees do not explain, or a degree that nothing shows."""
    shown = set()
    for one in uses:
        roles = _roles(degrees, one.rank, one.members)
        if not roles and len(one.members) > 1:
            return f"the group {_shown(one.members)} of rank {one.rank}"
        shown |= set(roles)
    for rank, both in peers.items():
        for peer in both["send"] | both["receive"]:
            roles_of_peer = _peer_roles(degrees, rank, peer)
            if not roles_of_peer:
                return f"messages between ranks {rank} and {peer}"
            shown |= {PEERS[at] for at in roles_of_peer}
    needed = {
        "tensor": {"tensor"},
        "pipeline": {"previous stage", "next stage"},
        "context": {"context", "previous in context", "next in context"},
        "expert": {"expert"},
        "data": {"data", "expert", "expert data"},
    }
    for name, roles_of in needed.items():
        if getattr(degrees, name) > 1 and not roles_of & shown:
            return f"why {name} parallelism is {getattr(degrees, name)}: no rank communicates for it"
    return None


def _shown(members: Sequence[int]) -> str:
    some = ", ".join(map(str, members[:4]))
    return f"[{some}{', ...' if len(members) > 4 else ''}] of {len(members)}"


def _evidence(degrees: Parallelism, uses: Sequence[_Use]) -> int:
    """Count collectives where they belong: replicas' in the background, others not."""
    found = 0
    for one in uses:
        roles = _roles(degrees, one.rank, one.members)
        for (name, background), count in one.collectives.items():
            if name == "all_to_all":
                found += count * ("expert" in roles)
            elif any(role in _REPLICAS for role in roles) == background:
                found += count
    return found


def _degrees(
    found: _Traced, uses: Sequence[_Use], peers: Mapping[int, Mapping[str, set[int]]]
) -> Parallelism:
    """Find the degrees that explain what was traced."""
    experts = any(name == "all_to_all" for one in uses for name, _ in one.collectives)
    every = list(_candidates(found.ranks, experts=experts))
    possible = [one for one in every if _unexplained(one, uses, peers) is None]
    if not possible:
        plain = min(every, key=lambda one: (one.expert * one.context * one.pipeline, one.tensor))
        fault = _unexplained(plain, uses, peers)
        what = f"no degrees of parallelism in Megatron's order explain {found.ranks} ranks, as {fault}"
        raise InputError(what, where=found.where, hint="give --traced")
    streams = any(background for one in uses for _, background in one.collectives)
    weights = [_evidence(one, uses) if streams or experts else 0 for one in possible]
    best = [one for one, weight in zip(possible, weights, strict=True) if weight == max(weights)]
    plain_ones = [one for one in best if one.context == min(each.context for each in best)]
    if len(plain_ones) > 1:
        texts = " or ".join(plan_text(one) for one in plain_ones[:3])
        what = f"the groups of {found.ranks} ranks can be {texts}"
        raise InputError(what, where=found.where, hint="say which, with --traced")
    return plain_ones[0]


# Programs


def _stages(found: _Traced, degrees: Parallelism) -> list[StageProgram]:
    """Give the program of each stage, from the first of its ranks that was traced."""
    stages = []
    for stage in range(degrees.pipeline):
        ranks = [rank for rank in found.operations if degrees.stage(rank) == stage]
        if not ranks:
            first = stage * degrees.per_stage
            what = f"no rank of pipeline stage {stage} was traced"
            raise InputError(
                what, where=found.where, hint=f"trace one of {first} to {first + degrees.per_stage - 1}"
            )
        known: dict[int, StageProgram] = {}
        first_rank, *others = ranks
        program = known[first_rank] = _program(found, degrees, first_rank)
        for rank in others:
            if (column := _differs(program, _program(found, degrees, rank))) is not None:
                what = f"ranks {first_rank} and {rank} of stage {stage} differ in {column}"
                raise InputError(what, where=found.where, hint="ranks of a stage have to do the same")
        stages.append(program)
    return stages


def _differs(one: StageProgram, other: StageProgram) -> str | None:
    """Name a column in which two programs differ; durations may, as those of a real run do."""
    columns = {
        "their operations": "kind", "FLOPs": "flops", "bytes": "size", "collectives": "collective",
        "groups": "group", "peers": "peer", "dependencies": "deps",
    }  # fmt: skip
    return next((text for text, name in columns.items() if getattr(one, name) != getattr(other, name)), None)


def _program(found: _Traced, degrees: Parallelism, rank: int) -> StageProgram:
    listed = found.operations[rank]
    program = StageProgram(degrees)
    rows, start, deps = listed.rows, listed.dep_start.tolist(), listed.deps.tolist()
    names = listed.names
    stage = degrees.stage(rank)
    for row, (one, kind) in enumerate(zip(rows, rows["kind"].tolist(), strict=True)):
        name = "" if names is None else (names[row] or "")
        where = f"{found.where}: rank {rank}, {name!r}"
        if kind not in _KINDS or one["on_cpu"]:
            what = "memory accesses and operations on the host are not scaled"
            raise InputError(what, where=where, hint="profile a trace without them")
        waits = tuple(sorted(deps[start[row] : start[row + 1]]))
        if waits and waits[-1] >= row:
            raise InputError(
                "it waits for a node with a higher id", where=where, hint="number nodes in order"
            )
        number = program.add(_KINDS[kind], name, int(one["bytes"]), waits)
        if kind == COMPUTE:
            flops = max(0, int(one["flops"]))
            program.flops[number] = program.useful[number] = program.counted[number] = flops
            program.computed = number
            if one["duration_ns"] > 0:
                program.kernels[number] = (TimedKernel(int(one["duration_ns"])),)
        elif kind == COLLECTIVE:
            collective, background = _NAME_OF[int(one["collective"])], bool(one["stream"])
            role = _role(
                _roles(degrees, rank, _members(int(one["group"]), found)), collective, background=background
            )
            program.collective[number] = int(CollectiveType[collective.upper()])
            program.group[number], program.background[number] = GROUPS.index(role), background
        else:
            roles = _peer_roles(degrees, rank, int(one["peer"]))
            program.peer[number] = _peer_role(roles, degrees, stage, sends=kind == SEND)
            program.tag[number] = int(one["tag"])
    return program


def _role(roles: Sequence[str], collective: str, *, background: bool) -> str:
    """Choose among roles whose groups are the same: tokens go to experts, sums to replicas."""
    if collective == "all_to_all" and "expert" in roles:
        return "expert"
    if background:
        return next((one for one in _REPLICAS if one in roles), roles[0])
    return roles[0]


def _peer_role(roles: Sequence[int], degrees: Parallelism, stage: int, *, sends: bool) -> int:
    """Choose among the roles of a peer: of two stages or parts each is before and behind the other."""
    ahead = sends
    if roles[0] < _STAGES:
        ahead = stage < degrees.pipeline - 1 if sends else stage == 0
    return next((at for at in roles if at % 2 == ahead), roles[0])


def _scatters(programs: Sequence[StageProgram], group: str) -> bool:
    """Whether sums over a group leave each rank a part."""
    at, kind = GROUPS.index(group), int(CollectiveType.REDUCE_SCATTER)
    return any(
        pair == (at, kind)
        for program in programs
        for pair in zip(program.group, program.collective, strict=True)
    )
