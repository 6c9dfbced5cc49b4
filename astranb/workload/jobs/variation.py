"""Variation between runs of a workload: jitter, stragglers and failures, drawn with a seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.plural import plural
from astranb.core.units import format_time, time_ps
from astranb.hardware import Gpu
from astranb.workload.astrasim2 import (
    COMPUTE,
    DimensionNetwork,
    InfraNetwork,
    RankOperations,
    Workload,
    durations_ns,
)

from .join import only_job

__all__ = ["SHAPES", "Failures", "Jitter", "LinkFault", "Stragglers", "Variation", "Varied"]

SHAPES: Final = ("lognormal", "gamma", "normal")
"""Distributions of the factors of durations; ``normal`` is truncated to factors above 0."""
_MOST_CV: Final = {"lognormal": 10.0, "gamma": 10.0, "normal": 0.5}
_JITTER, _STRAGGLERS, _GPUS, _LINKS = range(4)
"""One stream of random numbers for each purpose, so that none changes another."""


@dataclass(frozen=True)
class Jitter:
    """Factors of the durations of computations, drawn for each rank and computation, with mean 1.

    Parameters
    ----------
    cv : float
        Coefficient of variation: standard deviation by mean.
    shape : str
        One of :data:`SHAPES`.
    """

    cv: float
    shape: str = "lognormal"

    def __post_init__(self) -> None:
        """Check the values."""
        if self.shape not in SHAPES:
            raise InputError(
                f"unknown shape {self.shape[:40]!r}", where="jitter", hint=near(self.shape, SHAPES)
            )
        if not 0 < self.cv <= _MOST_CV[self.shape]:
            hint = f"take more than 0, at most {_MOST_CV[self.shape]:g} with {self.shape}"
            raise InputError(f"coefficient of variation {self.cv} is out of range", where="jitter", hint=hint)

    def factors(self, draw: np.random.Generator, count: int) -> np.ndarray:
        """Draw some."""
        if self.shape == "lognormal":
            spread = math.log1p(self.cv**2)
            return draw.lognormal(-spread / 2, math.sqrt(spread), count)
        if self.shape == "gamma":
            return draw.gamma(self.cv**-2, self.cv**2, count)
        found = draw.normal(1, self.cv, count)
        while (low := found <= 0).any():
            found[low] = draw.normal(1, self.cv, int(low.sum()))
        return found


@dataclass(frozen=True)
class Stragglers:
    """Ranks whose computations take longer in the whole run.

    Parameters
    ----------
    factor : float
        How many times as long.
    ranks : int
        How many there are; which ones is drawn.
    """

    factor: float
    ranks: int = 1

    def __post_init__(self) -> None:
        """Check the values."""
        if not 0 < self.factor <= 1e6 or self.ranks < 1:
            what = f"{self.ranks} stragglers with factor {self.factor} are out of range"
            raise InputError(what, where="stragglers", hint="take one or more ranks and a factor above 0")


@dataclass(frozen=True)
class Failures:
    """Failures of GPUs and links as Poisson processes.

    A GPU may fail while it computes: the computation under way takes ``gpu_repair`` longer, and what waits
    for it waits. A link is down for ``link_repair``, or slower, for messages that come to it meanwhile.

    Parameters
    ----------
    gpu_every, gpu_repair : str or int, optional
        Mean time that a GPU computes between two failures, and the time until it goes on.
    link_every, link_repair : str or int, optional
        Mean time between two failures of one link, and how long each lasts.
    link_rate : float
        Part of its bandwidth that such a link has meanwhile; 0: messages wait.
    """

    gpu_every: str | int | None = None
    gpu_repair: str | int = 0
    link_every: str | int | None = None
    link_repair: str | int = 0
    link_rate: float = 0.0

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("gpu_every", "link_every", "gpu_repair", "link_repair"):
            value = getattr(self, name)
            needed = value is not None and getattr(self, name.replace("repair", "every")) is not None
            if needed and time_ps(value, where=name) <= 0:
                raise InputError(
                    f"{name} must be greater than zero", where="failures", hint="give a time, as '1 ms'"
                )
        if not 0 <= self.link_rate < 1:
            hint = "take 0 or more, and less than 1"
            raise InputError(f"rate {self.link_rate} is out of range", where="failures", hint=hint)


@dataclass(frozen=True)
class LinkFault:
    """One link that is down or slower for a while."""

    at_ps: int
    until_ps: int
    link: int


@dataclass(frozen=True)
class Variation:
    """Variation between runs.

    The same seed and number of a run give the same run. What is drawn for one purpose does not depend on
    the others: with failures, jitter and stragglers are what they are without.

    Parameters
    ----------
    seed : int
    jitter : Jitter, optional
    stragglers : Stragglers, optional
    failures : Failures, optional

    Examples
    --------
    >>> from astranb import models, units
    >>> step = models.workload("gpt3-125m", models.Parallelism(data=2))
    >>> slow = Variation(3, stragglers=Stragglers(2.0)).of(step).on()
    >>> [int(one.rows["duration_ns"].sum()) * units.ns // units.ms for one in slow.operations]
    [14, 7]
    """

    seed: int = 0
    jitter: Jitter | None = None
    stragglers: Stragglers | None = None
    failures: Failures | None = None

    def __post_init__(self) -> None:
        """Check the seed."""
        if self.seed < 0:
            raise InputError(
                f"seed must not be negative, got {self.seed}", where="variation", hint="take 0 or more"
            )

    @property
    def slows_links(self) -> bool:
        """Whether links fail."""
        return self.failures is not None and self.failures.link_every is not None

    @property
    def text(self) -> str:
        """Description in words."""
        parts = []
        if self.jitter:
            parts.append(f"jitter {self.jitter.cv:g} ({self.jitter.shape})")
        if self.stragglers:
            count = self.stragglers.ranks
            slow = plural(count, "straggler")
            parts.append(f"{slow}, {self.stragglers.factor:g} times as long")
        if self.failures and self.failures.gpu_every is not None:
            parts.append(f"a GPU fails every {format_time(time_ps(self.failures.gpu_every))}")
        if self.failures and self.failures.link_every is not None:
            parts.append(f"a link fails every {format_time(time_ps(self.failures.link_every))}")
        return f"{'; '.join(parts) or 'nothing'}; seed {self.seed}"

    def of(self, what: Any, run: int = 0) -> Varied:
        """Return what a ``Simulation`` runs with what is drawn for a run.

        Parameters
        ----------
        what : ModelStep, Jobs or Workload
        run : int
        """
        return Varied(what, self, run)

    def workload(self, workload: Workload, run: int = 0) -> Workload:
        """Change the durations of computations of a workload.

        Parameters
        ----------
        workload : Workload
        run : int
            The number of the run: each one draws anew.

        Raises
        ------
        InputError
            Computations are simulated as thread blocks, or there are fewer ranks than stragglers.
        """
        operations = RankOperations.of(workload.operations)
        for one in operations.patterns:
            if one.grids or one.kernels:
                what = "the thread blocks of computations have no durations that could vary"
                raise InputError(what, where="variation", hint="use fidelity='congestion' or 'analytical'")
        slow = self._stragglers(operations, run)
        draw, fails = self._stream(_JITTER, run), self._stream(_GPUS, run)
        patterns, pattern = list(operations.patterns), operations.pattern.copy()
        took = [durations_ns(one.rows, workload.system, workload.memory) for one in patterns]
        for rank, number in enumerate(operations.pattern.tolist()):
            computes = np.flatnonzero(patterns[number].rows["kind"] == COMPUTE)
            before = took[number][computes].astype(np.float64)
            after = before.copy()
            if self.jitter is not None:
                after *= self.jitter.factors(draw, len(computes))
            if rank in slow and self.stragglers is not None:
                after *= self.stragglers.factor
            self._fail(after, fails)
            if len(computes) and (after != before).any():
                rows = patterns[number].rows.copy()
                rows["duration_ns"][computes] = np.maximum(np.rint(after), 1).astype(np.int64)
                rows["flops"][computes] = -1  # it keeps its duration
                pattern[rank] = len(patterns)
                patterns.append(replace(patterns[number], rows=rows))
        changed = RankOperations(patterns, pattern, operations.groups, operations.peers)
        return replace(workload, operations=changed)

    def link_faults(self, links: int, run: int = 0) -> Iterator[LinkFault]:
        """Draw failures of links in the order of time, without end.

        Parameters
        ----------
        links : int
            How many there are.
        run : int
        """
        failures = self.failures
        if failures is None or failures.link_every is None or not links:
            return
        draw, at_ps = self._stream(_LINKS, run), 0.0
        every_ps, repair_ps = time_ps(failures.link_every), time_ps(failures.link_repair)
        while True:
            at_ps += draw.exponential(every_ps / links)
            yield LinkFault(int(at_ps), int(at_ps) + repair_ps, int(draw.integers(links)))

    def _stream(self, purpose: int, run: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, run, purpose])))

    def _stragglers(self, operations: RankOperations, run: int) -> set[int]:
        """Draw the slow ranks among those that do something."""
        if self.stragglers is None:
            return set()
        busy = [rank for rank, n in enumerate(operations.pattern) if len(operations.patterns[n].rows)]
        if self.stragglers.ranks > len(busy):
            what = f"{self.stragglers.ranks} stragglers, but only {len(busy)} ranks do something"
            raise InputError(what, where="stragglers", hint="take fewer")
        chosen = self._stream(_STRAGGLERS, run).choice(busy, self.stragglers.ranks, replace=False)
        return set(chosen.tolist())

    def _fail(self, took_ns: np.ndarray, draw: np.random.Generator) -> None:
        """Lengthen a rank's computations in which its GPU fails."""
        if self.failures is None or self.failures.gpu_every is None or not len(took_ns):
            return
        every_ns, repair_ns = (
            time_ps(one) / 1000 for one in (self.failures.gpu_every, self.failures.gpu_repair)
        )
        ends, at_ns = np.cumsum(took_ns), draw.exponential(every_ns)
        while at_ns < ends[-1]:
            took_ns[np.searchsorted(ends, at_ns, side="right")] += repair_ns
            at_ns += draw.exponential(every_ns)


@dataclass(frozen=True)
class Varied:
    """Something to run, with what is drawn for one run of it: give it to a ``Simulation``.

    Parameters
    ----------
    what : ModelStep, Jobs or Workload
    variation : Variation
    run : int
    alone : str, optional
        The only job that runs, with what is drawn for all.
    """

    subject: ClassVar = "varied"

    what: Any
    variation: Variation
    run: int = 0
    alone: str | None = None

    def __post_init__(self) -> None:
        """Check what runs."""
        if getattr(self.what, "subject", "") not in ("model", "jobs", "workload"):
            hint = "give a step of a model, jobs or a Workload"
            raise InputError(f"{type(self.what).__name__} cannot vary", where="variation", hint=hint)

    @property
    def notes(self) -> list[str]:
        """Remarks on how traces were read."""
        return list(getattr(self.what, "notes", ()))

    def only(self, name: str) -> Varied:
        """Return the same with only one of its jobs."""
        return replace(self, alone=name)

    def on(
        self,
        network: DimensionNetwork | InfraNetwork | None = None,
        gpu: str | Path | Gpu | None = None,
        *,
        by_lines: bool = False,
    ) -> Workload:
        """Put it on a network: see :meth:`Jobs.on`."""
        if isinstance(self.what, Workload):
            placed = self.what if network is None else replace(self.what, network=network)
        else:
            placed = self.what.on(network, gpu, by_lines=by_lines)
        varied = self.variation.workload(placed, self.run)
        return varied if self.alone is None else only_job(varied, self.alone)
