"""A workload: what a simulation is made of, and its reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from astranb.chakra import (
    NOT_SENT,
    OTHER_SIZE,
    Trace,
    beside,
    durations_note,
    message_faults,
    read_groups,
    read_ranks,
    read_task_graph,
    task_graph_traces,
)
from astranb.core.errors import InputError, near
from astranb.core.file_formats import is_task_graph

from .custom_collectives import read_custom_collectives
from .documents import read_json, read_memory, read_network, read_system
from .footprint import Footprint
from .kinds import COMPUTE
from .memory import Memory
from .network import DimensionNetwork, InfraNetwork
from .operations import Operations, RankOperations
from .placed_job import PlacedJob
from .system import COSTS, System
from .traces import check_peers, operations_of

__all__ = ["Workload", "load"]


@dataclass(frozen=True)
class Workload:
    """The operations of all ranks, and the machine that they run on.

    Parameters
    ----------
    operations : sequence of Operations
        One for each rank.
    network : DimensionNetwork or InfraNetwork
    system : System
    memory : Memory, optional
        The remote memory; none by default.
    groups : mapping of int to sequence of int, optional
        The ranks of each numbered group.
    compat : bool
        Whether to keep ASTRA-sim 2.0's peculiarities: bandwidths in GiB/s, a whole last chunk, and
        messages that pay for one dimension only.
    title : str
        The name of the workload.
    footprint : Footprint, optional
        What ranks hold in memory meanwhile.
    jobs : tuple of PlacedJob
        The jobs that it consists of, where there are several.
    remarks : tuple of str
        What a reader of the result should know of how it was read.
    """

    subject: ClassVar = "workload"

    operations: Sequence[Operations]
    network: DimensionNetwork | InfraNetwork
    system: System
    memory: Memory = field(default_factory=Memory)
    groups: Mapping[int, Sequence[int]] = field(default_factory=dict)
    compat: bool = False
    title: str = "workload"
    footprint: Footprint | None = None
    jobs: tuple[PlacedJob, ...] = ()
    remarks: tuple[str, ...] = ()

    def with_cost(self, cost: str) -> Workload:
        """Return the workload with other costs of collectives: one of ``COSTS``.

        Raises
        ------
        InputError
            There is no such cost, or these ranks have no library.
        """
        if cost not in COSTS:
            raise InputError(f"unknown cost {str(cost)[:40]!r}", where="cost", hint=near(str(cost), COSTS))
        if cost != "wire" and (self.compat or not isinstance(self.network, InfraNetwork)):
            what = "ASTRA-sim 2.0 has" if self.compat else "a network of dimensions has"
            raise InputError(
                f"{what} no library", where="cost", hint="give an infrastructure of GPUs, or 'wire'"
            )
        return replace(self, system=replace(self.system, cost=cost))

    @property
    def notes(self) -> list[str]:
        """Notes for a reader of the result: where groups are from, what has no duration."""
        if self.system.roofline and not self.system.replay:
            return [*self.remarks]
        ranks = RankOperations.of(self.operations)
        computed = missing = 0
        first = ""
        for number, count in enumerate(np.bincount(ranks.pattern, minlength=len(ranks.patterns)).tolist()):
            one = ranks.patterns[number]
            is_computed = one.rows["kind"] == COMPUTE
            rows = np.flatnonzero(is_computed & (one.rows["duration_ns"] == 0))
            computed += count * int(is_computed.sum())
            missing += count * len(rows)
            if len(rows) and not first:
                name = "" if one.names is None else one.names[int(rows[0])]
                first = (
                    f"{name or f'operation {rows[0]}'!s} of rank {int(np.argmax(ranks.pattern == number))}"
                )
        return [*self.remarks, *durations_note(missing, computed, first)]


def load(
    workload: str | Path,
    system: str | Path | None = None,
    network: str | Path | InfraNetwork | None = None,
    *,
    memory: str | Path | None = None,
    groups: str | Path | None = None,
    logical: str | Path | None = None,
    compat: bool = False,
    queues: int = 1,
    injection_scale: float = 1.0,
    rendezvous: bool = False,
    root: str | Path | None = None,
) -> Workload:
    """Read ASTRA-sim 2.0's files, unmodified.

    Parameters
    ----------
    workload : str or Path
        The prefix of the traces ``PREFIX.RANK.et``; there is one for each NPU. Or a task graph of FlexFlow.
    system : str or Path, optional
        ``system.json``; by default ``PREFIX.system.json``.
    network : str, Path or InfraNetwork, optional
        ``network.yml``, the physical topology of ASTRA-sim's ns-3, or an infrastructure; by default
        ``PREFIX.network.yml``. A system that only replays needs none.
    memory, groups : str or Path, optional
        The remote memory and the communicator groups, JSON.
    logical : str or Path, optional
        Of a topology, the file of its logical dimensions, JSON.
    compat : bool
        Whether to keep ASTRA-sim 2.0's peculiarities.
    queues : int
        Queues of one dimension.
    injection_scale : float
        Factor of the endpoint's delay.
    rendezvous : bool
        Whether a message waits until its receiver is ready.
    root : str or Path, optional
        Where custom collectives are looked for after the folder of ``system.json`` and the working
        directory.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A file cannot be read or used; the text names it, the place and a hint.
    """
    files = _Beside(workload)
    given = (
        network if network is None or isinstance(network, InfraNetwork) else read_network(network, logical)
    )
    document = read_json(files.file("system.json") if system is None else system)
    settings = read_system(document, queues=queues, injection_scale=injection_scale, rendezvous=rendezvous)
    described = given or files.network(logical, needed=not settings.replay)
    npus = described.npus
    traces, members, remarks = _traces(workload, groups, npus)
    if is_task_graph(workload):
        settings = replace(settings, roofline=False)  # its computations have durations and no operations
    for rank, trace in enumerate(traces):
        check_peers(trace, rank, npus)
    remarks += _message_remarks(traces, str(workload), replay=settings.replay)
    custom = read_custom_collectives(document, root)
    known: dict[bytes, Operations] = {}
    operations = []
    for rank, trace in enumerate(traces):
        if trace.data not in known:
            known[trace.data] = operations_of(
                trace, members, replay=settings.replay, roofline=settings.roofline, compat=compat
            )
        one = known[trace.data]
        operations.append(custom.applied_to(one, trace, rank, npus, members) if custom else one)
    return Workload(
        operations,
        described,
        settings,
        Memory() if memory is None else read_memory(memory),
        members,
        compat,
        Path(workload).name,
        remarks=(*files.remarks(), *remarks),
    )


def _message_remarks(traces: Sequence[Trace], where: str, *, replay: bool) -> tuple[str, ...]:
    """Name messages that do not fit together, and refuse those of another size than their receive's.

    A receive that is not sent is left to the run, which follows the ranks that wait for it.
    """
    remarks = []
    for one in message_faults(dict(enumerate(traces))):
        if one.what == OTHER_SIZE and not replay:
            what = f"{one.counted}: {'; '.join(one.examples)}"
            raise InputError(what, where=where, hint=one.hint)
        if one.what != NOT_SENT:
            remarks.append(str(one))
    return tuple(remarks)


class _Beside:
    """Files that are not given, from beside the traces."""

    def __init__(self, workload: str | Path) -> None:
        self._workload = workload
        self._found: list[str] = []
        self._replayed = False

    def file(self, ending: str) -> Path:
        """Find a file that has to be there."""
        file = beside(self._workload, ending)
        if file is None:
            hint = f"give one, or write {self._workload}.{ending}"
            raise InputError(f"no {ending.partition('.')[0]}", where=str(self._workload), hint=hint)
        self._found.append(str(file))
        return file

    def network(self, logical: str | Path | None, *, needed: bool) -> DimensionNetwork | InfraNetwork:
        """Read the network; where none is needed and none is there, make one that nothing uses."""
        if needed or beside(self._workload, "network.yml") is not None:
            return read_network(self.file("network.yml"), logical)
        self._replayed = True
        ranks = len(read_ranks(self._workload))
        return DimensionNetwork(["Switch"], [ranks], [1.0], [0.0])

    def remarks(self) -> tuple[str, ...]:
        """Remarks on them for whoever reads results."""
        files = f"described by {' and '.join(self._found)}, beside the traces"
        replayed = "no network is described: everything takes its recorded duration (replay-only)"
        return (*([files] if self._found else []), *([replayed] if self._replayed else []))


def _traces(
    workload: str | Path, groups: str | Path | None, npus: int
) -> tuple[list[Trace], dict[int, list[int]], tuple[str, ...]]:
    """Read the traces of all ranks and their groups, those beside them by default, and say where from."""
    if not is_task_graph(workload):
        traces = read_ranks(workload, npus)
        if groups is not None:
            return traces, read_groups(groups, npus), ()
        found = beside(workload, "groups.json")
        named = {name for one in traces for name in one.pg_name.values if name not in ("", "0")}
        if found is None or not named:
            return traces, {}, ()
        return traces, read_groups(found, npus), (f"groups of ranks: those of {found}, beside the traces",)
    if groups is not None:
        what = "a task graph of FlexFlow has its own groups"
        raise InputError(what, where=str(groups), hint="leave the groups (--comm-group) out")
    graph = read_task_graph(workload)
    if graph.ranks != npus:
        what = f"the task graph has {graph.ranks:,} GPUs, the network {npus:,}"
        hint = "give a network of as many, or the task graph itself as --infra"
        raise InputError(what, where=str(workload), hint=hint)
    return *task_graph_traces(graph), ()
