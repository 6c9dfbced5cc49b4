"""Shared part of all models of a corpus: conditions, plans, totals, nothing verbatim."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from astranb.core.errors import InputError

from .job import CorpusJob
from .outline import SIZES, Outline
from .sizes import SizeModel
from .totals import TotalsModel
from .writer import written

__all__ = ["PlannedModel"]

_MOST_RANKS: Final = 1 << 16
_NARROW: Final = np.array([0.35, 0.15, 0.3, 0.3, 0.1])
"""Of the kernel over conditions, in logarithms: the batch decides how many microbatches a grammar has."""
_TRIES: Final = 4
_WIDE: Final = np.array([0.5, 0.3])
"""Around the parameters and batch of a random workload, in logarithms: it is not to be made again."""


class PlannedModel(ABC):
    """A model of workloads that draws a grammar and sizes, and writes them out under a plan.

    Parameters
    ----------
    jobs : sequence of CorpusJob
    outlines : sequence of Outline
        Their grammars.
    """

    def __init__(self, jobs: Sequence[CorpusJob], outlines: Sequence[Outline]) -> None:
        if not jobs:
            raise InputError("no workload to learn from", where="corpus", hint="give some traces")
        self._plans = np.array([[job.tensor, job.data, job.pipeline] for job in jobs])
        self._written_as = [one.plan for one in outlines]
        stated = np.array([[job.parameters, job.batch] for job in jobs])
        self._given = np.log(np.concatenate([stated, self._plans], axis=1))
        self._verbatim = [
            np.unique(np.concatenate([one.sizes[:, at] for one in outlines])) for at in range(len(SIZES))
        ]
        self._own_layers = np.array([one.layers for one in outlines])
        self._totals = TotalsModel(jobs, outlines)
        self._divided = np.array([one.divided for one in outlines])
        self._layers = self._fitted_layers()

    def _fitted_layers(self) -> SizeModel | None:
        """Fit how often modules are repeated in all stages to the size of the model."""
        usable = self._divided & (self._own_layers > 0)
        stated = usable & (self._given[:, 0] != 0)  # a size of 1 is one not known
        usable = stated if stated.any() else usable
        if not usable.any():
            return None
        depth = (self._own_layers * self._plans[:, 2])[usable]
        return SizeModel(self._given[usable, :1], np.log(depth)[:, None])

    def sample(
        self,
        *,
        parameters: float | None = None,
        batch: float | None = None,
        tensor: int | None = None,
        data: int | None = None,
        pipeline: int | None = None,
        ranks: int | None = None,
        seed: int = 0,
    ) -> CorpusJob:
        """Draw a workload.

        Parameters
        ----------
        parameters, batch : float, optional
            Size of the model, and of a step; by default near those of a random workload of the corpus.
        tensor, data, pipeline : int, optional
            Degrees of parallelism; by default those of a random workload. They have to be above 1 if some
            workload's are. More than two stages need a workload with a stage between the first and last.
        ranks : int, optional
            Their product: without ``data`` there are as many replicas as make it so.
        seed : int
            The same seed gives the same workload.

        Raises
        ------
        InputError
            The corpus has nothing like it.
        """
        for name, one in (("parameters", parameters), ("batch", batch)):
            if one is not None and not 0 < one < math.inf:
                raise InputError(f"{one:g} is out of range", where=name, hint="take a number above 0")
        if seed < 0:
            raise InputError(f"{seed} is negative", where="seed", hint="take 0 or more")
        random = np.random.default_rng(seed)
        asked = self._plan(tensor, data, pipeline, ranks)
        fits = self._like(asked)
        wanted = np.log([one or 1.0 for one in (parameters, batch)])
        if parameters is None or batch is None:
            near = self._between(fits, random)
            wanted = np.where([parameters is None, batch is None], near, wanted)
        plan_logs = np.log([one or 1 for one in asked])
        far = (np.concatenate([wanted, plan_logs]) - self._given[fits]) / _NARROW
        far[:, 2:][:, [one is None for one in asked]] = 0
        weight = -0.5 * (far**2).sum(axis=1)
        chance = np.exp(weight - weight.max())
        chosen = int(random.choice(fits, p=chance / chance.sum()))
        own = self._plans[chosen]
        plan = tuple(int(own[at]) if one is None else one for at, one in enumerate(asked))
        given = np.concatenate([wanted, np.log(plan)])
        layers = int(self._own_layers[chosen])
        if self._layers is not None and layers:
            depth = self._layers.drawn(given[:1], random)[0]
            layers = max(2, round(float(np.exp(depth)) / plan[2]))
        outline_plan = (plan[0], plan[1], plan[2]) if self._divided[chosen] else self._written_as[chosen]
        outline, drawn, more = self._made(chosen, outline_plan, layers, given, random)
        drawn = self._totals.scaled(outline, drawn, more, given, random)
        sizes = self._no_copies(drawn, outline.sizes)
        made = written(outline, sizes, more, outline_plan, *np.exp(wanted).tolist())
        return replace(made, tensor=plan[0], data=plan[1], pipeline=plan[2])

    @abstractmethod
    def _can(self, at: int, stages: int) -> bool:
        """Return whether a workload of the corpus is an example for so many stages."""

    @abstractmethod
    def _made(
        self,
        chosen: int,
        plan: tuple[int, int, int],
        layers: int,
        given: np.ndarray,
        random: np.random.Generator,
    ) -> tuple[Outline, np.ndarray, int]:
        """Make a grammar, the sizes of its symbols, and how many more layers it is written with.

        Parameters
        ----------
        chosen : int
            The workload of the corpus whose conditions are near.
        plan : tuple of int
        layers : int
            Of a stage.
        given : array of float
            Logarithms of parameters, batch, and plan.
        random : Generator
        """

    def knows(self, tensor: int, data: int, pipeline: int) -> bool:
        """Return whether the corpus has a workload that is divided like this, so that one can be drawn."""
        return len(self._fitting((tensor, data, pipeline))) > 0

    def _between(self, fits: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Draw parameters and batch around those of a random workload, and away from all of them."""
        own = self._given[:, :2]
        tries = own[random.choice(fits, size=_TRIES)] + _WIDE * random.standard_normal((_TRIES, 2))
        apart = (np.abs(tries[:, None] - own[fits]) / _NARROW[:2]).max(axis=2).min(axis=1)
        return np.asarray(tries[np.argmax(apart)])

    def _plan(
        self, tensor: int | None, data: int | None, pipeline: int | None, ranks: int | None
    ) -> tuple[int | None, int | None, int | None]:
        for name, one in (("tensor", tensor), ("data", data), ("pipeline", pipeline), ("ranks", ranks)):
            if one is not None and not 1 <= one <= _MOST_RANKS:
                raise InputError(f"{one} is out of range", where=name, hint=f"take 1 to {_MOST_RANKS:,}")
        if ranks is None:
            return tensor, data, pipeline
        if data is None and (tensor is not None or pipeline is not None):
            tensor, pipeline = tensor or 1, pipeline or 1
            data = ranks // (tensor * pipeline)
        if data is None:
            fitting = np.flatnonzero(self._plans.prod(axis=1) == ranks)
            if len(fitting):
                chosen = self._plans[fitting[0]].tolist()
                return chosen[0], chosen[1], chosen[2]
            inner = self._plans[:, 0] * self._plans[:, 2]
            usable = np.flatnonzero((ranks % inner == 0) & ((ranks // inner > 1) == (self._plans[:, 1] > 1)))
            if not len(usable):
                raise InputError(f"no plan for {ranks} ranks", where="sample", hint=self._known_plans())
            tensor, _, pipeline = self._plans[usable[0]].tolist()
            data = ranks // (tensor * pipeline)
        if (tensor or 1) * data * (pipeline or 1) != ranks:
            what = f"{ranks} ranks, but tensor, data, pipeline {tensor or 1}, {data}, {pipeline or 1}"
            raise InputError(what, where="sample", hint="their product is the number of ranks")
        return tensor or 1, data, pipeline or 1

    def _like(self, asked: tuple[int | None, int | None, int | None]) -> np.ndarray:
        fits = self._fitting(asked)
        if not len(fits):
            raise InputError("the corpus has no such plan", where="sample", hint=self._known_plans())
        return fits

    def _fitting(self, asked: tuple[int | None, int | None, int | None]) -> np.ndarray:
        """Return the workloads that are divided along the same axes, in as many stages if there are some."""
        fits = np.ones(len(self._plans), bool)
        for at, one in enumerate(asked):
            if one is not None:  # ranks that differ from one another cannot be more or fewer
                same = self._plans[:, at] == one
                fits &= np.where(self._divided, (self._plans[:, at] > 1) == (one > 1), same)
        stages = asked[2]
        same = fits & (self._plans[:, 2] == stages)
        if stages is None or (same & self._divided).any():
            return np.flatnonzero(fits if stages is None else same)
        able = [at for at in np.flatnonzero(fits).tolist() if same[at] or self._can(at, stages)]
        return np.array(able, np.int64)

    def _known_plans(self) -> str:
        plans = sorted({tuple(one) for one in self._plans.tolist()})
        shown = ", ".join(f"{t}x{d}x{p}" for t, d, p in plans[:6])
        known = f"it has tensor x data x pipeline {shown}{', …' if len(plans) > 6 else ''}"
        unsaid = any(t == d == 1 < p for t, d, p in plans)
        return known + ("; ranks of a job without PREFIX.job.json count as stages" if unsaid else "")

    def _no_copies(self, drawn: np.ndarray, like: np.ndarray) -> np.ndarray:
        """Round sizes, so that none is one of the corpus."""
        made = np.where(like > 0, np.maximum(1, np.rint(drawn)), like).astype(np.int64)
        for at, verbatim in enumerate(self._verbatim):
            column = made[:, at]
            for _ in range(len(verbatim)):
                again = (column > 0) & np.isin(column, verbatim)
                if not again.any():
                    break
                column[again] += 1
        return made
