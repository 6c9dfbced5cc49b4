"""From the traces of a few ranks to those of many, by stated rules; more replicas are exact."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from astranb.chakra.traces import Hole, Node, Template, Trace, write_ranks
from astranb.core.errors import InputError
from astranb.core.plural import plural

from .parallelism import Parallelism, numbered_groups, plan_document, plan_text
from .restage import layers_of, restaged
from .scale_rules import ScaleRules
from .scaled_rank import OWN, ScaledRank
from .traced_plan import ALONE, TracedJob, recognized, scattered, traced_job

__all__ = ["ScaledJob", "scale"]

_AXES: Final = ("tensor", "context", "data", "pipeline")


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

    def __init__(self, job: TracedJob, rules: ScaleRules) -> None:
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
        self._divided = ""
        self._variants = {(rank, self.traced.stage(rank)): one for rank, one in self._sources.items()}
        if rules.restages:
            self._variants = self._restaged(job.where)
        self._programs, self._program_of = _shared(self._variants)
        notes = set().union(*(one.notes for one in self._sources.values()))
        self.assumptions = {
            "traced job": f"{plural(job.ranks, 'rank')}: {plan_text(self.traced)}",
            "traces": f"of {plural(len(job.traces), 'rank')}; ranks of a stage do the same",
            "parallelism": plan_text(self.plan),
            **rules.assumptions,
            **({"pipeline parallelism": self._divided} if self._divided else {}),
            **{subject: text for note, (subject, text) in _NOTES.items() if note in notes},
        }
        if len(self._programs) > self.plan.pipeline:
            what = (
                f"of {plural(len(job.traces), 'rank')}, which differ; "
                f"more replicas and parts repeat them in turn"
            )
            self.assumptions["traces"] = what

    def _like(self, stage: int) -> int:
        """Return the traced stage that a stage is like: the first, the last, or one between."""
        if self.plan.pipeline == self.traced.pipeline or stage == 0:
            return stage
        return self.traced.pipeline - 1 if stage == self.plan.pipeline - 1 else 1

    def _restaged(self, where: str) -> dict[tuple[int, int], ScaledRank]:
        """Return what the traced ranks do in each stage of the wanted pipeline."""
        was, now = self.traced.pipeline, self.plan.pipeline
        if was < 3 <= now:
            what = f"from {was} to {now} stages: none between the first and the last was traced"
            raise InputError(what, where=where, hint="trace three stages or more")
        first = [self._by_stage[stage][0] for stage in range(was)]
        layers = layers_of([self._sources[rank].stage_rows() for rank in first])
        if not layers:
            what = "stages do not repeat as many equal layers, which could be divided anew"
            raise InputError(what, where=where, hint="keep the number of stages")
        if layers * was % now or layers * was // now < 2:
            what = f"{layers * was} layers do not divide among {now} stages"
            hint = "take a number that divides them, with two or more for each"
            raise InputError(what, where=where, hint=hint)
        more = layers * was // now - layers
        found = {}
        for stage in range(now):
            for rank in self._by_stage[self._like(stage)]:
                rows = self._sources[rank].stage_rows()
                made = restaged(rows, layers, more, (self._like(stage), was), (stage, now))
                found[rank, stage] = self._sources[rank].in_stage(made)
        self._divided = (
            f"{was} to {now}: {layers} layers a stage become {layers + more}, in the order of 1F1B; stages "
            "between are like the second one; updates grow with sums of gradients; tags are numbered anew"
        )
        return found

    def _refuse_shifts(self, job: TracedJob) -> None:
        """Check that no message goes between replicas or parts that cannot be repeated."""
        for rank, one in self._sources.items():
            for shift in {peer for peer in one.peers if isinstance(peer, tuple)}:
                for axis, far in zip(_AXES, shift, strict=True):
                    was, now = getattr(self.traced, axis), getattr(self.plan, axis)
                    apart = now % was or (axis == "pipeline" and now != was)
                    if far and (apart or len(job.traces) < job.ranks):
                        why = f"{now} is not a multiple" if apart else "not all ranks were traced"
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
        lengths = [len(one.nodes) for one in self._programs]
        return sum(lengths[self._program_of[self._variant(rank)]] for rank in range(self.ranks))

    @property
    def programs(self) -> int:
        """Number of different traces, but for groups and peers."""
        return len(self._programs)

    def in_stage(self, stage: int) -> list[ScaledRank]:
        """Return what the traced ranks do in a stage of this job."""
        return [one for (_, at), one in self._variants.items() if at == stage]

    def _variant(self, rank: int) -> tuple[int, int]:
        return self.source(rank), self.plan.stage(rank)

    def source(self, rank: int) -> int:
        """Return the traced rank whose trace a rank has: that in its place, in turn, or one of its stage."""
        part, context, replica, stage = self.plan.place(rank)
        one = self.traced
        like = self._like(stage)
        place = (part % one.tensor, context % one.context, replica % one.data, like)
        return self._by_place.get(place, self._by_stage[like][0])

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
        """Return what is filled in for a rank: the number of a group, a peer or a root."""
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
        """Return the contents of a rank's trace file.

        Raises
        ------
        InputError
            There is no such rank.
        """
        if not 0 <= rank < self.ranks:
            raise InputError(f"unknown rank {rank}", where="rank", hint=f"take 0 to {self.ranks - 1}")
        at = self._program_of[self._variant(rank)]
        program = self._programs[at]
        values: dict[str, int | str] = {OWN: rank}
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
        """Return a rank's trace."""
        return Trace(self.trace_bytes(rank), f"rank {rank}")

    def document(self) -> dict[str, Any]:
        """Return the plan and what it rests on, as ``PREFIX.job.json`` has it."""
        return plan_document(self.plan) | {"assumptions": self.assumptions}

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
        return write_ranks(self.trace_bytes, prefix, ranks=self.ranks, others=others)


_NOTES: Final = {
    "exchange": (
        "all-to-all",
        "a rank's bytes stay, as its tokens or samples do; each of more peers gets fewer",
    ),
    "root": ("roots", "that of a broadcast, reduction, gather or scatter keeps its position in the group"),
    "host": ("host", "its operations stay beside those of a device"),
    "memory": ("memory outside the GPUs", "loads and stores stay"),
    "lists": ("lists of groups", "those in metadata nodes are emptied: PREFIX.groups.json has the groups"),
    "durations": ("durations of communication", "as recorded by the few ranks; a simulation takes its own"),
}
"""Assumptions where traces have something, by its mark."""


def _width(value: int | str) -> int:
    return len(value) if isinstance(value, str) else max(1, -(-value.bit_length() // 7))


def _shared(
    variants: Mapping[tuple[int, int], ScaledRank],
) -> tuple[list[_Program], dict[tuple[int, int], int]]:
    """Return the different programs of traced ranks in stages, and the number of each one's."""
    programs: list[_Program] = []
    program_of: dict[tuple[int, int], int] = {}
    known: dict[tuple[bytes, Any], int] = {}
    for place, one in variants.items():
        key = one.trace.data, tuple(tuple(some.items()) for some in one.holes)
        if key not in known:
            known[key] = len(programs)
            programs.append(_Program(one.nodes, one.holes, one.keys))
        program_of[place] = known[key]
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

    - **Stages** have the same layers divided anew, where the traces repeat them and their passes are in the
      order of 1F1B; those between are like the second one.

    Chunks, or another number of parts of a sequence, do not follow from traces, and are refused.

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
                what = f"{ranks:,} ranks are not a multiple of a replica's {one.ranks:,} ({plan_text(one)})"
                raise InputError(what, where="ranks", hint="give a multiple, or other degrees")
            given["data"] = ranks // one.ranks
        wanted = replace(base, **given)
    if ranks is not None and wanted.ranks != ranks:
        what = f"{plan_text(wanted)} are {wanted.ranks:,} ranks, not {ranks:,}"
        raise InputError(what, where="ranks", hint="leave one of them out")
    return ScaledJob(job, ScaleRules(found, wanted, micro, update_ns))
