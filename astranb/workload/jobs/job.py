"""A job: something that runs on some GPUs of a network, from some time on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from astranb.collectives import Collective
from astranb.core.errors import InputError
from astranb.core.units import size_bytes, time_ps
from astranb.hardware import Gpu
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    DimensionNetwork,
    InfraNetwork,
    Memory,
    RankOperations,
    System,
    Workload,
)
from astranb.workload.models import ModelStep, assumed_system

from .background import BackgroundTraffic
from .collective import collective_operations

__all__ = ["ClusterJob", "JobPart"]

_MOST_NAME = 60


@dataclass(frozen=True, eq=False)
class JobPart:
    """Part of a network's workload that a job adds, before it is placed.

    Attributes
    ----------
    operations : RankOperations
        Of its own ranks, which are numbered from 0, as are those of ``groups``.
    groups : mapping of int to sequence of int
    system : System, optional
        What it would run with alone; None: anything.
    memory : Memory
    only_algorithms : bool
        Whether it needs nothing but the algorithms of its system.
    """

    operations: RankOperations
    groups: Mapping[int, Sequence[int]] = field(default_factory=dict)
    system: System | None = None
    memory: Memory = field(default_factory=Memory)
    only_algorithms: bool = False

    @property
    def collectives(self) -> set[int]:
        """The collectives that it does."""
        rows = [one.rows for one in self.operations.patterns]
        return {int(c) for each in rows for c in np.unique(each["collective"][each["kind"] == COLLECTIVE])}


@dataclass(frozen=True, eq=False)
class ClusterJob:
    """One of several jobs that share a network: ``astranb.Job``.

    Parameters
    ----------
    what : ModelStep, Workload, Pattern, MessageGraph, Collective or BackgroundTraffic
        A step of a model, operations of ranks (their network is left out), recorded traffic
        (:mod:`astranb.traffic`), a collective, or background traffic (:meth:`background`).
    ranks : str or sequence of int, optional
        The GPUs of its ranks, in the job's order, or how they are chosen: ``contiguous`` (default),
        ``by node``, ``scattered`` or ``random`` (:data:`PLACEMENTS`). Jobs with a list are placed first,
        then the others in their order, then background traffic.
    gpus : int, optional
        How many GPUs a collective or background traffic has; all that are left by default. Steps and
        workloads have as many as they have ranks.
    start : str or int
        When it begins, with a unit, or in picoseconds.
    name : str, optional
        The names of its operations begin with it; ``job 0``, ``job 1``, ... by default.
    seed : int
        Of a random placement.
    repeat : int
        How often it is done; a rank begins again when it has ended.

    Raises
    ------
    InputError
        It cannot be a job, or a value is out of range.

    Examples
    --------
    >>> from astranb.collectives import all_reduce
    >>> job = ClusterJob(all_reduce("1 MiB", "ring"), ranks=range(4), start="2 us", name="a")
    >>> job.start_ps, job.count
    (2000000, 4)
    """

    what: Any
    ranks: str | Sequence[int] | None = None
    gpus: int | None = None
    start: str | int = 0
    name: str = ""
    seed: int = 0
    repeat: int = 1

    def __post_init__(self) -> None:
        """Check what can be known without a network."""
        where = f"job {self.name}" if self.name else "job"
        known = isinstance(self.what, Workload | Collective | BackgroundTraffic)
        if not known and getattr(self.what, "subject", "") != "model":
            hint = "give a step of a model, a Workload, recorded traffic or a collective"
            raise InputError(f"{type(self.what).__name__} cannot be a job", where=where, hint=hint)
        if len(self.name) > _MOST_NAME or not self.name.isprintable():
            raise InputError("a name of a job is too long or not printable", where="jobs")
        fixed = self._own_ranks
        if fixed == 0 or (not isinstance(self.ranks, str | None) and not len(self.ranks)):
            raise InputError("the job has no ranks", where=where, hint="give it a GPU, or leave it out")
        if fixed is not None and self.gpus not in (None, fixed):
            what = f"it has {fixed} ranks, and gpus is {self.gpus}"
            raise InputError(what, where=where, hint="leave gpus out")
        if self.gpus is not None and self.gpus < 1:
            raise InputError(f"gpus must be at least 1, got {self.gpus}", where=where, hint="take 1 or more")
        if isinstance(self.what, Workload) and self.what.compat:
            hint = "load it without compat"
            raise InputError("ASTRA-sim 2.0's peculiarities do not apply to jobs", where=where, hint=hint)
        if isinstance(self.what, Collective):
            for option, usual in (("protocol", "Simple"), ("channels", None)):
                if getattr(self.what, option) != usual:
                    raise InputError("does not apply to a job", where=option, hint="leave it out")
        if self.repeat < 1:
            raise InputError(
                f"repeat count must be positive, got {self.repeat}", where=where, hint="take 1 or more"
            )
        if self.start_ps < 0:
            raise InputError("start must not be negative", where=where, hint="take 0 or later")

    @classmethod
    def background(
        cls,
        load: float,
        size: str | int = "1 MiB",
        pattern: str = "uniform",
        *,
        until: str | int,
        seed: int = 0,
        ranks: str | Sequence[int] | None = None,
        gpus: int | None = None,
        start: str | int = 0,
        name: str = "background",
    ) -> ClusterJob:
        """Make a job of traffic between GPUs that nobody waits for.

        Parameters
        ----------
        load : float
            Part of its bandwidth to the farthest GPU that each GPU sends on average.
        size : str or int
            Of a message.
        pattern : str
            ``uniform``, ``permutation`` or ``incast`` (:data:`PATTERNS`).
        until : str or int
            No message begins later; counted from the job's start.
        seed : int
        ranks, gpus, start, name
            As for the class; by default it has all GPUs that are left.

        Examples
        --------
        >>> ClusterJob.background(load=0.2, until="20 ms", pattern="incast").what.title
        '20% of 1 MiB messages, incast'
        """
        end_ps = time_ps(until, where="until")
        what = BackgroundTraffic(load, size_bytes(size), end_ps, pattern, seed)
        return cls(what, ranks, gpus, start, name, seed)

    @property
    def start_ps(self) -> int:
        """Its start, in whole nanoseconds."""
        return time_ps(self.start, where="start") // 1000 * 1000

    @property
    def _own_ranks(self) -> int | None:
        if isinstance(self.what, Workload):
            return len(self.what.operations)
        return None if isinstance(self.what, Collective | BackgroundTraffic) else int(self.what.ranks)

    @property
    def count(self) -> int | None:
        """The number of GPUs that it needs; None: all that are left."""
        fixed = self.gpus if self._own_ranks is None else self._own_ranks
        if fixed is None and not isinstance(self.ranks, str | None):
            return len(self.ranks)
        return fixed

    def part(
        self,
        network: DimensionNetwork | InfraNetwork,
        ranks: int,
        rate_Bps: float,  # noqa: N803 - unit in the name
        gpu: str | Path | Gpu | None,
        *,
        by_lines: bool,
    ) -> JobPart:
        """Return its operations.

        Parameters
        ----------
        network : DimensionNetwork or InfraNetwork
            Of all jobs.
        ranks : int
            How many GPUs it has.
        rate_Bps : float
            What a GPU can send.
        gpu : str or Path or Gpu, optional
            Whose kernels a step without durations has.
        by_lines : bool
            As of :meth:`ModelStep.operations`.
        """
        what = self.what
        if isinstance(what, ModelStep):
            step = what.timed(gpu)
            system = assumed_system(step, network, step.all_reduce)
            return JobPart(step.operations(by_lines=by_lines), step.groups, system)
        if isinstance(what, Workload):
            return JobPart(RankOperations.of(what.operations), what.groups, what.system, what.memory)
        if isinstance(what, Collective):
            if what.root >= ranks:
                where = f"job {self.name}"
                raise InputError(f"root {what.root} is not one of {ranks} ranks", where=where)
            one, system = collective_operations(what, network, ranks)
            return JobPart(RankOperations.of([one] * ranks), {}, system, only_algorithms=True)
        if isinstance(what, BackgroundTraffic):
            return JobPart(what.operations(ranks, rate_Bps))
        # Recorded traffic is replayed on its own ranks, with any network; it has its messages already.
        own = DimensionNetwork(["Ring"], [ranks], [1], [0])
        played: Workload = what.on(own, gpu, by_lines=by_lines)
        operations = RankOperations.of(played.operations)
        return JobPart(operations, played.groups, played.system, only_algorithms=True)

    def named(self, name: str) -> ClusterJob:
        """Return a copy with a name."""
        return replace(self, name=name)
