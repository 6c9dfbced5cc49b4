"""Several jobs as one workload: operations, groups and messages of each on the ranks that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from astranb.chakra import Distinct
from astranb.collectives import Collective
from astranb.core.arrays import flat_lists
from astranb.core.errors import InputError, near
from astranb.hardware import Gpu
from astranb.net import message_routes
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    COSTS,
    DELAY,
    MEMORY,
    RECV,
    SEND,
    DimensionAlgorithm,
    DimensionNetwork,
    InfraNetwork,
    Memory,
    Operations,
    PlacedJob,
    RankOperations,
    System,
    Workload,
)
from astranb.workload.astrasim2.kinds import ALL_TO_ALL, BROADCAST, RING_STEPS

from .background import BackgroundTraffic
from .collective import flat
from .job import ClusterJob, JobPart
from .placement import FreeGpus
from .start import delayed

__all__ = ["Jobs", "only_job"]

_NAMES = {number: name for name, number in COLLECTIVE_NAMES.items()}
_KINDS = {COMPUTE: "compute", SEND: "send", RECV: "receive", MEMORY: "memory", DELAY: "delay"}
_JOINED_APART = ("algorithms", "speeds", "library_channels", "cost", "where")
"""Fields of a system that need not be the same for all jobs."""


@dataclass(frozen=True, eq=False)
class Jobs:
    """Several jobs on one network: give it to a ``Simulation``, or give that ``jobs=[...]``.

    A rank without a job is idle. A collective of all ranks of a job is one of its group. An infrastructure
    on which only collectives run has one dimension, as for a collective alone; otherwise its servers are the
    first dimension, and collectives of a part of the network are rings.

    Parameters
    ----------
    jobs : sequence of ClusterJob
    system : System, optional
        The system layer of all jobs. By default they keep their own, and may differ in the algorithms of
        collectives that only one of them does.
    title : str, optional
    alone : str, optional
        The only job that runs.

    Raises
    ------
    InputError
        There is no job, or two have one name.

    Examples
    --------
    >>> from astranb.collectives import all_reduce
    >>> two = Jobs([ClusterJob(all_reduce("1 MiB", "ring"), ranks=some) for some in ([0, 2], [1, 3])])
    >>> network = DimensionNetwork("Ring", 4, bandwidth=50, latency=500)
    >>> [(job.name, job.gpus) for job in two.on(network).jobs]
    [('job 0', '0,2'), ('job 1', '1,3')]
    """

    subject: ClassVar = "jobs"

    jobs: Sequence[ClusterJob]
    system: System | None = None
    title: str = ""
    alone: str | None = None

    def __post_init__(self) -> None:
        """Name the jobs."""
        if not self.jobs:
            raise InputError("no jobs are given", where="jobs", hint="give one or more")
        for one in self.jobs:
            if not isinstance(one, ClusterJob):
                hint = "write anb.Job(what, ranks=...)"
                raise InputError(f"{type(one).__name__} is not a job", where="jobs", hint=hint)
        named = [one if one.name else one.named(f"job {at}") for at, one in enumerate(self.jobs)]
        names = [one.name for one in named]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"duplicate job name {name}", where="jobs", hint="give each its own name")
        object.__setattr__(self, "jobs", tuple(named))
        if not self.title:
            title = f"{len(names)} jobs: {', '.join(names)}" if len(names) > 1 else names[0]
            object.__setattr__(self, "title", title)

    @property
    def notes(self) -> list[str]:
        """Remarks on how traces were read."""
        read = ((one.name, one.what.remarks) for one in self.jobs if isinstance(one.what, Workload))
        return [f"{name}: {remark}" for name, remarks in read for remark in remarks]

    def only(self, name: str) -> Jobs:
        """Return the same jobs on the same GPUs, of which only one runs."""
        return replace(self, alone=name)

    def placed(self, network: DimensionNetwork | InfraNetwork) -> list[PlacedJob]:
        """Return the GPUs of each job, in the order in which they were given.

        Raises
        ------
        InputError
            A job does not fit, or a GPU would have two jobs.
        """
        free = FreeGpus(network.npus, _per_node(network))
        found: dict[int, PlacedJob] = {}
        last = [isinstance(one.what, BackgroundTraffic) for one in self.jobs]
        listed = [not isinstance(one.ranks, str | None) for one in self.jobs]
        for at in sorted(range(len(self.jobs)), key=lambda at: (not listed[at], last[at])):
            one = self.jobs[at]
            count = len(free.left) if one.count is None else one.count
            if count == 0:
                raise InputError("no GPU is left", where=f"job {one.name}", hint="leave some without a job")
            how = one.ranks
            if how is None:
                how = free.left if one.count is None else "contiguous"
            ranks = free.take(one.name, how, count, one.seed)
            found[at] = PlacedJob(one.name, ranks, one.start_ps, last[at])
        return [found[at] for at in range(len(self.jobs))]

    def on(
        self,
        network: DimensionNetwork | InfraNetwork | None = None,
        gpu: str | Path | Gpu | None = None,
        *,
        by_lines: bool = False,
    ) -> Workload:
        """Put the jobs on a network.

        Parameters
        ----------
        network : DimensionNetwork or InfraNetwork
        gpu : str, optional
            Whose kernels steps of models have that have no durations.
        by_lines : bool
            As of :meth:`ModelStep.operations`.

        Raises
        ------
        InputError
            A job does not fit, two jobs need one GPU, or they cannot share a system layer.
        """
        if network is None:
            raise InputError(
                "an infrastructure is needed", where="infra", hint="for example 'clos:servers=4'"
            )
        only = all(isinstance(one.what, Collective | BackgroundTraffic) for one in self.jobs)
        if only and not any(_hierarchical(one) for one in self.jobs):
            network = flat(network)
        places = self.placed(network)
        rate_Bps = _injection_Bps(network) if any(one.background for one in places) else 0.0  # noqa: N806
        parts = [
            job.part(network, len(place.ranks), rate_Bps, gpu, by_lines=by_lines)
            for job, place in zip(self.jobs, places, strict=True)
        ]
        for job, place in zip(self.jobs, places, strict=True):
            _check_algorithm(job, place, network)
        system = _system(parts, places, network, self.system)
        memories = {id(part.memory): part.memory for part in parts if part.memory != Memory()}
        if len({str(one) for one in memories.values()}) > 1:
            raise InputError("jobs have different remote memories", where="jobs", hint="give all the same")
        joined = _Joined(network.npus)
        for job, place, part in zip(self.jobs, places, parts, strict=True):
            keeps = system.roofline and part.system is not None and not part.system.roofline
            joined.add(place, _keeping_durations(part) if keeps else part, job.repeat)
        memory = next(iter(memories.values()), Memory())
        found = Workload(
            joined.operations(), network, system, memory, joined.groups, title=self.title, jobs=tuple(places)
        )
        return found if self.alone is None else only_job(found, self.alone)


def only_job(workload: Workload, name: str) -> Workload:
    """Return a workload of several jobs in which only the ranks of one do anything.

    Raises
    ------
    InputError
        There is no such job.
    """
    names = [one.name for one in workload.jobs]
    if name not in names:
        raise InputError(f"unknown job {name!r}", where="jobs", hint=near(name, names))
    all_ranks = RankOperations.of(workload.operations)
    pattern = np.full_like(all_ranks.pattern, len(all_ranks.patterns))
    mine = list(workload.jobs[names.index(name)].ranks)
    pattern[mine] = all_ranks.pattern[mine]
    patterns = [*all_ranks.patterns, Operations.of([])]
    operations = RankOperations(patterns, pattern, all_ranks.groups, all_ranks.peers)
    return replace(workload, operations=operations, title=f"{name} alone")


class _Joined:
    """The operations of all ranks, job by job."""

    def __init__(self, npus: int) -> None:
        self.groups: dict[int, list[int]] = {}
        self._npus = npus
        self._patterns = [Operations.of([])]  # of ranks without a job
        self._pattern = np.zeros(npus, np.int64)
        self._tables: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, place: PlacedJob, part: JobPart, repeat: int) -> None:
        """Add a job."""
        own, ranks = part.operations, np.array(place.ranks, np.int64)
        numbers = {}
        for number, members in part.groups.items():
            numbers[number] = len(self.groups) + 1
            self.groups[numbers[number]] = ranks[np.asarray(members, np.int64)].tolist()
        whole = -1
        if place.ranks != tuple(range(self._npus)):
            whole = len(self.groups) + 1
            self.groups[whole] = ranks.tolist()
        position = own.groups.shape[1]  # of the group of all of the job's ranks, behind the others
        new = np.array([[numbers.get(int(g), whole) for g in row] for row in own.groups], np.int64)
        groups = np.full((len(ranks), position + 1), whole, np.int64)
        groups[:, :position] = new.reshape(len(ranks), position)
        peers = np.where(own.peers >= 0, ranks[own.peers], -1)
        self._pattern[ranks] = len(self._patterns) + own.pattern
        at = -1 if whole < 0 else position
        self._patterns += [_in_job(one, place, at, repeat) for one in own.patterns]
        self._tables.append((ranks, groups, peers))

    def operations(self) -> RankOperations:
        """Return those of all ranks."""
        found = []
        for which in (1, 2):
            width = max((each[which].shape[1] for each in self._tables), default=0)
            table = np.full((self._npus, width), -1, np.int64)
            for each in self._tables:
                table[each[0], : each[which].shape[1]] = each[which]
            found.append(table)
        return RankOperations(self._patterns, self._pattern, *found)


def _in_job(one: Operations, place: PlacedJob, whole: int, repeat: int) -> Operations:
    """Rewrite a pattern of a job with its name, groups and ranks, its repetitions and its start."""
    ranks = np.array(place.ranks, np.int64)
    rows = one.rows.copy()
    collective = rows["kind"] == COLLECTIVE
    rooted = collective & (rows["collective"] >= BROADCAST) & (rows["peer"] >= 0)
    rows["peer"][rooted] = ranks[rows["peer"][rooted]]
    rows["group"][collective & (rows["group"] < 0)] = whole
    custom = {row: _with_peers(each, ranks, place.name) for row, each in one.custom.items()}
    names = one.names or Distinct.of(map(_what, rows))
    named = Distinct(
        np.where(names.index < 0, len(names.values), names.index),
        (*(f"{place.name}: {name}" for name in names.values), place.name),
    )
    found = replace(one, rows=rows, custom=custom, names=named)
    return delayed(_repeated(found, repeat), place.start_ps, f"{place.name}: start")


def _keeping_durations(part: JobPart) -> JobPart:
    """Mark computations to keep their durations under a roofline that other jobs need."""

    def kept(one: Operations) -> Operations:
        rows = one.rows.copy()
        rows["flops"][rows["kind"] == COMPUTE] = -1
        return replace(one, rows=rows, custom={row: kept(each) for row, each in one.custom.items()})

    own = part.operations
    patterns = [kept(one) for one in own.patterns]
    return replace(part, operations=RankOperations(patterns, own.pattern, own.groups, own.peers))


def _what(row: Any) -> str:
    kind = int(row["kind"])
    return _NAMES[int(row["collective"])] if kind == COLLECTIVE else _KINDS.get(kind, "operation")


def _with_peers(one: Operations, ranks: np.ndarray, job: str) -> Operations:
    """Return the operations of a custom collective, which name ranks, those of the network."""
    rows = one.rows.copy()
    some = np.isin(rows["kind"], (SEND, RECV))
    rows["peer"][some] = ranks[rows["peer"][some]]
    parts = one.parts
    if parts is not None:
        parts = replace(parts, labels=tuple(replace(label, job=label.job or job) for label in parts.labels))
    return replace(one, rows=rows, parts=parts)


def _repeated(one: Operations, times: int) -> Operations:
    """Do operations several times; each time begins when the one before has ended."""
    count = len(one.rows)
    if times == 1 or not count:
        return one
    lengths = np.diff(one.dep_start)
    first, last = np.flatnonzero(lengths == 0), np.setdiff1d(np.arange(count), one.deps)
    lists = [one.deps[a:b].tolist() for a, b in zip(one.dep_start[:-1], one.dep_start[1:], strict=True)]
    again = list(lists)
    for row in first.tolist():
        again[row] = (last - count).tolist()
    every = [[dep + count * n for dep in each] for n in range(times) for each in (again if n else lists)]
    start, deps = flat_lists(every)
    names = one.names
    return Operations(
        np.tile(one.rows, times),
        start,
        deps,
        {row + count * n: each for n in range(times) for row, each in one.custom.items()},
        None if names is None else Distinct(np.tile(names.index, times), names.values),
        one.grids * times,
        {row + count * n: each for n in range(times) for row, each in one.kernels.items()},
    )


def _hierarchical(job: ClusterJob) -> bool:
    return isinstance(job.what, Collective) and job.what.algorithm_name == "hierarchical"


def _check_algorithm(job: ClusterJob, place: PlacedJob, network: DimensionNetwork | InfraNetwork) -> None:
    """Check that a group of ranks has the job's algorithm, instead of using a ring."""
    if not isinstance(job.what, Collective) or len(place.ranks) == network.npus:
        return
    name = job.what.algorithm_name
    several = len(network.topology) > 1 and name != "ring" and job.what.name != "all_to_all"
    if several or _hierarchical(job):
        what = f"{name} on a part of a network of several dimensions"
        hint = "use 'ring', or jobs that are collectives only"
        raise InputError(what, where=f"job {place.name}", hint=hint)


def _system(
    parts: Sequence[JobPart],
    places: Sequence[PlacedJob],
    network: DimensionNetwork | InfraNetwork,
    given: System | None,
) -> System:
    """Return the system layer that all jobs share.

    Raises
    ------
    InputError
        Jobs need different ones.
    """
    own = [
        (place, part, part.system)
        for place, part in zip(places, parts, strict=True)
        if part.system is not None
    ]
    speeds = {
        place.ranks[rank]: speed
        for place, _, system in own
        for rank, speed in system.speeds.items()
        if rank < len(place.ranks)
    }
    if given is not None:
        return replace(given, speeds={**speeds, **given.speeds})
    if not own:
        return System({})
    settled = [each for each in own if not each[1].only_algorithms] or own[:1]
    first, _, system = settled[0]
    for place, _, other in settled[1:]:
        for field in fields(System):
            a, b = getattr(system, field.name), getattr(other, field.name)
            if field.name not in _JOINED_APART and a != b:
                what = f"jobs {first.name} and {place.name} have different {field.name}: {a} and {b}"
                raise InputError(what, where="jobs", hint="give both one system, or Jobs(..., system=...)")
    # In recorded traffic, computations without operations take no time: the roofline says so.
    roofline = any(each.roofline for _, _, each in own)
    library = any(each.library_channels for _, _, each in own)
    algorithms = _algorithms(own, network)
    cost = max((each.cost for _, _, each in own), key=COSTS.index)
    return replace(
        system, algorithms=algorithms, speeds=speeds, roofline=roofline, library_channels=library,
        cost=cost,
    )  # fmt: skip


def _algorithms(
    own: Sequence[tuple[PlacedJob, JobPart, System]], network: DimensionNetwork | InfraNetwork
) -> Mapping[int, Sequence[DimensionAlgorithm]]:
    """Return one algorithm for each collective and dimension: that of the jobs that do the collective."""
    rings = len(network.topology) > 1 and all(len(place.ranks) < network.npus for place, _, _ in own)
    found: dict[int, Sequence[DimensionAlgorithm]] = {}
    users: dict[int, str] = {}
    for place, part, system in own:
        used = part.collectives
        for number, chosen in system.algorithms.items():
            if number not in used:
                found.setdefault(number, chosen)
            elif number not in users:
                found[number], users[number] = chosen, place.name
            elif list(found[number]) != list(chosen):
                if rings and number != ALL_TO_ALL:  # groups go in rings, whatever is named
                    found[number] = [DimensionAlgorithm(RING_STEPS)] * len(network.topology)
                    continue
                what = f"jobs {users[number]} and {place.name} do {_NAMES[number]} by different algorithms"
                raise InputError(what, where="jobs", hint="give both the same, or Jobs(..., system=...)")
    return found


def _per_node(network: DimensionNetwork | InfraNetwork) -> int:
    """Return how many consecutive ranks share a node."""
    if isinstance(network, InfraNetwork):
        return network.fabric.per_node
    return int(network.npus_count[0])


def _injection_Bps(network: DimensionNetwork | InfraNetwork) -> float:  # noqa: N802 - unit in the name
    """Return what the first rank can send to the last one: the least bandwidth on the route."""
    if isinstance(network, DimensionNetwork):
        return float(min(network.bandwidth)) * 1e9
    found = message_routes(network.fabric, [(0, network.npus - 1)], network.npus)
    return float(found.wires.rate_Bpns[found.hops].min()) * 1e9
