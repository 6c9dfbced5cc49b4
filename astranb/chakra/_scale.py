"""From the traces of a few ranks to those of many, by stated rules; more replicas are exact."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError

from ._check import check
from ._file import write_ranks
from ._plan import ALONE, REPLICAS, Shift, TracedJob, recognized, scattered, traced_job
from ._schema import Attribute, CollectiveType, Node, NodeType
from ._template import Hole, Template
from ._trace import Trace
from .parallelism import Parallelism, numbered_groups, plan_text

__all__ = ["ScaledJob", "ScaledRank", "scale"]

_OWN: Final = "own"
_PARAMETERS: Final = (*REPLICAS, "ends")
_SUMS: Final = (CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER)
_MESSAGES: Final = (NodeType.COMM_SEND, NodeType.COMM_RECV)
_MEMORY: Final = (NodeType.MEM_LOAD, NodeType.MEM_STORE)
_STAGES: Final = 2
"""Roles of peers below are stages."""
_ROOTS: Final = {
    CollectiveType.BROADCAST: "comm_src", CollectiveType.SCATTER: "comm_src",
    CollectiveType.REDUCE: "comm_dst", CollectiveType.GATHER: "comm_dst",
}  # fmt: skip
_AXES: Final = ("tensor", "context", "data", "pipeline")


@dataclass(frozen=True)
class _Rules:
    """How many times as much the operations of the wanted job are, from the traced one's."""

    traced: Parallelism
    target: Parallelism
    micro: int = 1
    update_ns: int = 0

    def __post_init__(self) -> None:
        """Refuse what does not follow from the traces."""
        if self.micro < 1:
            raise InputError(f"{self.micro} times the sequences", where="micro", hint="take 1 or more")
        fixed = {
            "pipeline": "another number of stages has another schedule, and layers",
            "context": "rings over another number of parts are other operations",
            "interleave": "chunks of a stage are other passes",
        }
        for name, why in fixed.items():
            was, now = getattr(self.traced, name), getattr(self.target, name)
            if was != now and not (name == "interleave" and now == 1):
                what = f"the traced job has {name} {was}, not {now}: {why}"
                raise InputError(what, where=name, hint="profile the model or its code instead")
        for name, why in (
            ("data", "sums of gradients"), ("tensor", "sums of partial products"),
            ("expert", "exchanges of tokens"),
        ):  # fmt: skip
            was, now = getattr(self.traced, name), getattr(self.target, name)
            if was != now and min(was, now) == 1:
                what = f"from {name} {was} to {now}: traces of {was} tell nothing of {why}"
                if now == 1:
                    what = f"from {name} {was} to 1: {why} are no operations then"
                raise InputError(what, where=name, hint="trace and take 2 or more")

    @property
    def replicas(self) -> Fraction:
        """A replica's share of what ZeRO divides, relative to the traced job."""
        return Fraction(self.traced.data * self.traced.context, self.target.data * self.target.context)

    @property
    def parts(self) -> Fraction:
        """A rank's part of a matrix, relative to the traced job."""
        return Fraction(self.traced.tensor, self.target.tensor)

    @property
    def experts(self) -> Fraction:
        """A rank's share of the experts, relative to the traced job."""
        return Fraction(self.traced.expert, self.target.expert)

    @property
    def assumptions(self) -> dict[str, str]:
        """What the rules assume, by subject; empty where nothing is scaled."""
        found = {}
        if self.replicas != 1:
            found["data parallelism"] = (
                f"{self.traced.data} to {self.target.data}: a replica's batch and operators are the same"
            )
            if self.traced.zero:
                found["data parallelism"] += (
                    "; parts of ZeRO, and the update of such a part, are divided by the number of replicas, "
                    f"but for the {self.update_ns:,} ns that a kernel takes anyway"
                )
        if self.micro != 1:
            found["batch"] = (
                f"{self.micro} times the sequences in a microbatch: operators and messages grow with them, "
                "also bytes of parameters and durations; sums over replicas and their update stay"
            )
        if self.parts != 1:
            found["tensor parallelism"] = (
                f"{self.traced.tensor} to {self.target.tensor}: operations, bytes, durations, parameters and "
                "gathered parts are divided by it, also those of norms, which every rank has whole; sums stay"
            )
        if self.experts != 1:
            found["expert parallelism"] = (
                f"{self.traced.expert} to {self.target.expert}: a rank sends and computes as many tokens; "
                "sums of experts' gradients, and their gathered parts, are divided by it; updates stay"
            )
        return found

    def communication(self, kind: int, role: str, collective: int, peer: int | Shift | None) -> Fraction:
        """Give how many times as many bytes a message or collective has."""
        between = self.micro * (self.parts if self.traced.sequence else Fraction(1))
        if kind != NodeType.COMM_COLL:
            is_stage = peer is not None and not isinstance(peer, tuple) and peer < _STAGES
            return between if is_stage else self.micro * self.parts
        if role in ("all", ALONE):
            return Fraction(1)
        if role in _PARAMETERS and collective != CollectiveType.ALL_TO_ALL:
            held = self.parts * (self.experts if role == "expert data" else 1)
            is_part = collective == CollectiveType.ALL_GATHER and self.traced.zero
            return held * (self.replicas if is_part else 1)
        if role == "tensor":
            return self.micro * (self.parts if collective == CollectiveType.ALL_GATHER else Fraction(1))
        return between

    def computation(self, *, update: bool, is_part: bool) -> Fraction:
        """Give how many times as much a computation is; an update of parameters, perhaps of a part."""
        if update:
            return self.parts * (self.replicas if is_part else 1)
        return self.parts * self.micro


class ScaledRank:
    """What a traced rank does in the scaled job, but for group and peer numbers.

    Attributes
    ----------
    rank : int
        The traced one.
    trace : Trace
        With the sizes of the scaled job, without groups and peers.
    roles : list of str
        The role of each collective's group (:data:`astranb.chakra.parallelism.GROUPS`), ``""`` for others.
    peers : list
        The role of each message's peer: a position in :data:`astranb.chakra.parallelism.PEERS`, or how far it
        is; None for others.
    """

    def __init__(self, job: TracedJob, rank: int, rules: _Rules) -> None:
        self.rank = rank
        self.holes: list[dict[str, str]] = []
        self.keys: dict[str, Any] = {}
        self.notes: set[str] = set()
        trace = job.traces[rank]
        check(trace)
        self._job, self._rules, self._trace = job, rules, trace
        self.roles, self.peers = self._named()
        self.nodes = list(self._scaled())

    @cached_property
    def trace(self) -> Trace:
        """The scaled trace, without groups and peers."""
        return Trace.of(self.nodes, source=self._trace.source)

    def _named(self) -> tuple[list[str], list[int | Shift | None]]:
        """Give the roles of groups and peers."""
        trace, job, traced = self._trace, self._job, self._rules.traced
        roles, peers = [""] * len(trace), [None] * len(trace)  # type: list[str], list[int | Shift | None]
        background = (trace.integers("comm_stream") > 0).tolist()
        kinds, collectives = trace.type.tolist(), trace.comm_type.tolist()
        known: dict[tuple[int, int, bool], str] = {}
        for row, kind in enumerate(kinds):
            if kind == NodeType.COMM_COLL:
                key = int(trace.pg_name.index[row]), collectives[row], background[row]
                if key not in known:
                    members = job.members(self.rank, trace.pg_name[row] or "")
                    known[key] = job.role(traced, self.rank, members, key[1], background=key[2])
                roles[row] = known[key]
            elif kind in _MESSAGES:
                sends = kind == NodeType.COMM_SEND
                peer = int((trace.comm_dst if sends else trace.comm_src)[row])
                if peer == self.rank:
                    raise InputError(
                        "a message to itself", where=trace.place(row), hint="give the receiving rank"
                    )
                peers[row] = job.peer_role(traced, self.rank, peer, sends=sends)
        return roles, peers

    def _updates(self) -> dict[int, bool]:
        """Find the updates of parameters: what waits for sums over replicas; and whether of a part."""
        trace = self._trace
        sums = np.isin(trace.comm_type, _SUMS) & np.array([one in REPLICAS for one in self.roles], bool)
        owner, parent = trace.parents.owner, trace.parents.flat
        found: dict[int, bool] = {}
        for row, dep in zip(owner[sums[parent]].tolist(), parent[sums[parent]].tolist(), strict=True):
            if trace.type[row] == NodeType.COMP:
                is_part = trace.comm_type[dep] == CollectiveType.REDUCE_SCATTER
                found[row] = found.get(row, False) or bool(is_part)
        return found

    def _scaled(self) -> Iterator[Node]:
        """Give the nodes of the scaled job, and remember what is to be filled in."""
        trace, rules = self._trace, self._rules
        updates = self._updates()
        host = trace.is_cpu_op & (trace.type == NodeType.COMP)
        stays = bool(host.any() and (~trace.is_cpu_op & (trace.type == NodeType.COMP)).any())
        for row, node in enumerate(trace.nodes()):
            holes: dict[str, str] = {}
            changed: dict[str, Attribute] = dict(node.attributes)
            factor, fixed = Fraction(1), 0
            if node.type == NodeType.COMM_COLL:
                collective = int(trace.comm_type[row])
                factor = rules.communication(node.type, self.roles[row], collective, None)
                self._collective(row, collective, changed, holes)
                _times(changed, "comm_size", factor)
                factor = Fraction(1)
            elif node.type in _MESSAGES:
                factor = rules.communication(node.type, "", -1, self.peers[row])
                ends = [_OWN, self._key("peer", self.peers[row])]
                if node.type == NodeType.COMM_RECV:
                    ends.reverse()
                named = zip(("comm_src", "comm_dst"), ends, strict=True)
                holes = {name: key for name, key in named if changed.pop(name, None) is not None}
                _times(changed, "comm_size", factor)
                factor = Fraction(1)
            elif node.type == NodeType.COMP and not (stays and host[row]):
                factor = rules.computation(update=row in updates, is_part=updates.get(row, False))
                fixed = rules.update_ns if row in updates else 0
                for name in ("num_ops", "tensor_size"):
                    _times(changed, name, factor)
            elif node.type == NodeType.COMP:
                self.notes.add("host")
            elif node.type in _MEMORY:
                self.notes.add("memory")
                zero = rules.replicas if rules.traced.zero else Fraction(1)
                if (rules.micro * rules.parts, zero) != (1, 1):
                    what = "what the memory outside the GPUs holds does not follow from loads and stores"
                    raise InputError(what, where=trace.place(row), hint="scale data parallelism without ZeRO")
            if node.duration_us and node.type not in (NodeType.COMP, NodeType.METADATA):
                self.notes.add("durations")
            self.holes.append(holes)
            yield replace(
                node, attributes=changed, duration_us=_took(node.duration_us, changed, factor, fixed)
            )

    def _collective(
        self, row: int, collective: int, changed: dict[str, Attribute], holes: dict[str, str]
    ) -> None:
        """Leave the group and the root of a collective to be filled in."""
        role = self.roles[row]
        changed.pop("pg_name", None)
        if self._spans(role):
            holes["pg_name"] = self._key("group", role)
        name = _ROOTS.get(CollectiveType(collective))
        if name is not None and changed.get(name) is not None:
            members = self._job.members(self.rank, self._trace.pg_name[row] or "")
            root = int(self._trace.integers(name)[row])
            if root not in members:
                what = f"the root {root} of a collective is not in its group"
                raise InputError(what, where=self._trace.place(row), hint="give a rank of the group")
            del changed[name]
            holes[name] = self._key("root", (role, members.index(root)))
            self.notes.add("root")
        if collective == CollectiveType.ALL_TO_ALL and role not in ("", ALONE):
            self.notes.add("exchange")

    def _spans(self, role: str) -> bool:
        """Whether a group has fewer than all ranks, and so a number."""
        return role == ALONE or self._rules.target.size(role) < self._rules.target.ranks

    def _key(self, what: str, value: Any) -> str:
        key = f"{what} {value}"
        self.keys[key] = (what, value)
        return key


def _times(attributes: dict[str, Attribute], name: str, factor: Fraction) -> None:
    """Multiply a whole number, and round up."""
    one = attributes.get(name)
    if factor != 1 and one is not None and isinstance(one.value, int):
        value = -(-one.value * factor.numerator // factor.denominator)
        attributes[name] = one._replace(value=value)


def _took(duration_us: int, attributes: dict[str, Attribute], factor: Fraction, fixed_ns: int) -> int:
    """Multiply a duration but for what a kernel takes anyway; gives the one in microseconds."""
    if factor == 1:
        return duration_us
    exact = attributes.get("duration_ns")
    known = isinstance(exact.value, int) and exact.value > 0 if exact is not None else False
    took = exact.value if exact is not None and known else duration_us * 1000
    if not isinstance(took, int) or not took:
        return duration_us
    fixed_ns = min(fixed_ns, took)
    took = max(1, fixed_ns + round((took - fixed_ns) * factor))
    if exact is not None and known:
        attributes["duration_ns"] = exact._replace(value=took)
    return -(-took // 1000)


class _Program(NamedTuple):
    """The nodes of one or several traced ranks that do the same."""

    nodes: Sequence[Node]
    holes: Sequence[Mapping[str, str]]
    keys: Mapping[str, tuple[str, Any]]


class ScaledJob:
    """The traces of all ranks of a scaled job; ranks that do the same share them but for groups and peers.

    Attributes
    ----------
    plan, traced : Parallelism
        Degrees of this job, and of the traced one.
    assumptions : dict of str to str
        All that it rests on, by subject.
    """

    def __init__(self, job: TracedJob, rules: _Rules) -> None:
        self.plan, self.traced = rules.target, rules.traced
        self._sources = {rank: ScaledRank(job, rank, rules) for rank in job.traces}
        self._by_place = {self.traced.place(rank): rank for rank in self._sources}
        self._by_stage: dict[int, list[int]] = {}
        for rank in self._sources:
            self._by_stage.setdefault(self.traced.stage(rank), []).append(rank)
        for stage in range(self.traced.pipeline):
            if stage not in self._by_stage:
                first = stage * self.traced.per_stage
                what = f"no rank of pipeline stage {stage} was traced"
                hint = f"trace one of {first} to {first + self.traced.per_stage - 1}"
                raise InputError(what, where=job.where, hint=hint)
        self._refuse_shifts(job)
        self._programs, self._program_of = _shared(self._sources)
        notes = set().union(*(one.notes for one in self._sources.values()))
        self.assumptions = {
            "traced job": f"{job.ranks} ranks: {plan_text(self.traced)}",
            "traces": f"of {len(job.traces)} ranks; ranks of a stage do the same",
            "parallelism": plan_text(self.plan),
            **rules.assumptions,
            **{subject: text for note, (subject, text) in _NOTES.items() if note in notes},
        }
        if len(job.traces) == job.ranks and len(self._programs) > self.traced.pipeline:
            self.assumptions["traces"] = (
                f"of {len(job.traces)} ranks, {len(self._programs)} of them different; "
                "more replicas and parts repeat them in turn"
            )

    def _refuse_shifts(self, job: TracedJob) -> None:
        """Refuse messages between replicas or parts that cannot be repeated."""
        for rank, one in self._sources.items():
            for shift in {peer for peer in one.peers if isinstance(peer, tuple)}:
                for axis, far in zip(_AXES, shift, strict=True):
                    was, now = getattr(self.traced, axis), getattr(self.plan, axis)
                    if far and (now % was or len(job.traces) < job.ranks):
                        why = f"{now} is no multiple" if now % was else "not all ranks were traced"
                        what = (
                            f"rank {rank} sends to or receives from another rank of {axis} {was}, and {why}"
                        )
                        raise InputError(what, where=job.where, hint=f"take a multiple of {was}, trace all")

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.plan.ranks

    @property
    def nodes(self) -> int:
        """The number of nodes of all ranks."""
        return sum(len(self._sources[self.source(rank)].nodes) for rank in range(self.ranks))

    @property
    def programs(self) -> int:
        """How many different traces there are, but for groups and peers."""
        return len(self._programs)

    @property
    def sources(self) -> Mapping[int, ScaledRank]:
        """What each traced rank does in this job."""
        return self._sources

    def source(self, rank: int) -> int:
        """Give the traced rank whose trace a rank has: the one in its place, in turn, or one of its stage."""
        part, context, replica, stage = self.plan.place(rank)
        one = self.traced
        place = (part % one.tensor, context % one.context, replica % one.data, stage)
        return self._by_place.get(place, self._by_stage[stage][0])

    @cached_property
    def _numbered(self) -> list[tuple[int, str, list[int]]]:
        used = {role for one in self._sources.values() for role in one.roles if role}
        found = [one for one in self.plan.groups() if one[0] in used]
        if ALONE in used:
            found += [(ALONE, [rank]) for rank in range(self.ranks)]
        return numbered_groups(found)

    @property
    def groups(self) -> dict[int, list[int]]:
        """The ranks of each numbered group, as in ASTRA-sim's file of communicator groups."""
        return {number: members for number, _, members in self._numbered}

    @cached_property
    def _number(self) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {}
        for number, name, members in self._numbered:
            found.setdefault(name, {}).update(dict.fromkeys(members, number))
        return found

    def _value(self, rank: int, what: str, of: Any) -> int | str:
        """Give what is filled in for a rank: the number of a group, a peer or a root."""
        if what == "group":
            return str(self._number[of][rank])
        if what == "root":
            role, position = of
            return rank if role == ALONE else self.plan.group(role, rank)[position]
        if isinstance(of, int):
            return self.plan.peer(of, rank)
        place = [one + far for one, far in zip(self.plan.place(rank), of, strict=True)]
        return self.plan.rank_at(*place)

    def trace_bytes(self, rank: int) -> bytes:
        """Give the contents of a rank's trace file.

        Raises
        ------
        InputError
            There is no such rank.
        """
        if not 0 <= rank < self.ranks:
            raise InputError(f"there is no rank {rank}", where="rank", hint=f"take 0 to {self.ranks - 1}")
        at = self._program_of[self.source(rank)]
        program = self._programs[at]
        values: dict[str, int | str] = {_OWN: rank}
        values |= {key: self._value(rank, *what) for key, what in program.keys.items()}
        widths = {key: _width(value) for key, value in values.items()}
        key = (at, *widths.values())
        if key not in self._templates:
            holes = [
                {name: Hole(one, widths[one], isinstance(values[one], str)) for name, one in some.items()}
                for some in program.holes
            ]
            self._templates[key] = Template(zip(program.nodes, holes, strict=True))
        return self._templates[key].filled(values)

    @cached_property
    def _templates(self) -> dict[tuple[int, ...], Template]:
        return {}

    def trace(self, rank: int) -> Trace:
        """Give a rank's trace."""
        return Trace(self.trace_bytes(rank), f"rank {rank}")

    def document(self) -> dict[str, Any]:
        """Give the plan and what it rests on, as ``PREFIX.job.json`` has it."""
        degrees = {
            name: getattr(self.plan, name) for name in ("tensor", "context", "data", "expert", "pipeline")
        }
        return {
            "ranks": self.ranks,
            "plan": degrees,
            "tensor": self.plan.tensor,
            "data": self.plan.data * self.plan.context,
            "pipeline": self.plan.pipeline,
            "assumptions": self.assumptions,
        }

    def write(self, prefix: str | Path) -> list[Path]:
        """Write ``PREFIX.RANK.et``, ``PREFIX.groups.json`` and ``PREFIX.job.json`` (plan and assumptions).

        Traces of further ranks with this prefix are removed.

        Raises
        ------
        InputError
            A file cannot be written; then none is.
        """
        groups = json.dumps({str(number): members for number, members in self.groups.items()})
        about = json.dumps(self.document(), indent=1)
        others = {
            Path(f"{prefix}.groups.json"): groups.encode(),
            Path(f"{prefix}.job.json"): about.encode(),
        }
        return write_ranks(prefix, self.ranks, self.trace_bytes, others)


_NOTES: Final = {
    "exchange": (
        "all-to-all",
        "a rank's bytes stay, as its tokens or samples do; each of more peers gets fewer",
    ),
    "root": ("roots", "that of a broadcast, reduction, gather or scatter keeps its position in the group"),
    "host": ("host", "its operations stay beside those of a device"),
    "memory": ("memory outside the GPUs", "loads and stores stay"),
    "durations": ("durations of communication", "as recorded by the few ranks; a simulation takes its own"),
}
"""What is assumed where traces have something, by its mark."""


def _width(value: int | str) -> int:
    return len(value) if isinstance(value, str) else max(1, -(-value.bit_length() // 7))


def _shared(sources: Mapping[int, ScaledRank]) -> tuple[list[_Program], dict[int, int]]:
    """Give the different programs of traced ranks, and the number of each one's."""
    programs: list[_Program] = []
    program_of: dict[int, int] = {}
    known: dict[tuple[bytes, Any], int] = {}
    for rank, one in sources.items():
        key = one.trace.data, tuple(tuple(some.items()) for some in one.holes)
        if key not in known:
            known[key] = len(programs)
            programs.append(_Program(one.nodes, one.holes, one.keys))
        program_of[rank] = known[key]
    return programs, program_of


def scale(
    traces: str | Path | Mapping[int, Trace] | Sequence[Trace],
    ranks: int | None = None,
    *,
    groups: str | Path | Mapping[str, Sequence[int]] | Mapping[int, Sequence[int]] | None = None,
    traced: Parallelism | None = None,
    target: Parallelism | Mapping[str, Any] | None = None,
    micro: int = 1,
    update_ns: int = 0,
) -> ScaledJob:
    """Scale the traces of a few ranks to many.

    Groups, peers and sizes are derived anew; nodes, names and dependencies stay.

    - **Replicas**: operators and all-reduces of a replica stay. A part that ZeRO gathers, and the update of
      a part (a computation that waits for a reduce-scatter over replicas), shrinks with their number.
    - **Sequences of a microbatch**: all operators but the update, and all communication but that over
      replicas and ends of the pipeline, grow with them.
    - **Parts of matrices**: operators shrink with their number, as sums over replicas and gathered parts do;
      sums over parts stay.
    - **Ranks of experts**: a rank sends and computes as many tokens; sums of experts' gradients shrink.

    Another number of stages, chunks or parts of a sequence does not follow from traces, and is refused.

    Parameters
    ----------
    traces : str, Path, mapping of int to Trace, or sequence of Trace
        PREFIX of ``PREFIX.RANK.et``, or traces by rank: at least one rank of each pipeline stage.
    ranks : int, optional
        How many are wanted. Only data parallelism grows, unless ``target`` gives other degrees.
    groups : str, Path or mapping, optional
        The ranks of each group. Default: ``PREFIX.groups.json``, where there is one.
    traced : Parallelism, optional
        Degrees of the traced job. Default: those that explain its groups and peers.
    target : Parallelism or mapping of str to int, optional
        Degrees of the wanted job, or those of them that differ from the traced job's.
    micro : int
        How many times as many sequences a microbatch has.
    update_ns : int
        What the kernel of an update takes however small it is.

    Raises
    ------
    InputError
        The traces do not tell what is asked for; the text says why.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.collective("all_reduce", "1 MiB", after=step.compute("work", duration_us=5))
    >>> job = scale([step.build()] * 2, 1024, traced=Parallelism(data=2))
    >>> job.ranks, job.programs, int(job.trace(1023).comm_size[1])
    (1024, 1, 1048576)
    """
    job = traced_job(traces, groups, None if traced is None else traced.ranks)
    found = scattered(job, recognized(job, traced))
    if isinstance(target, Parallelism):
        wanted = replace(target, sequence=found.sequence and target.tensor > 1, zero=found.zero)
    else:
        given = dict(target or {})
        base = replace(found, interleave=1)
        if ranks is not None and "data" not in given:
            one = replace(base, **given | {"data": 1, "expert": 1})
            if ranks < 1 or ranks % one.ranks:
                what = f"{ranks:,} ranks are no multiple of the {one.ranks:,} of a replica ({plan_text(one)})"
                raise InputError(what, where="ranks", hint="give a multiple, or other degrees")
            given["data"] = ranks // one.ranks
        wanted = replace(base, **given)
    if ranks is not None and wanted.ranks != ranks:
        what = f"{plan_text(wanted)} are {wanted.ranks:,} ranks, not {ranks:,}"
        raise InputError(what, where="ranks", hint="leave one of them out")
    return ScaledJob(job, _Rules(found, wanted, micro, update_ns))
