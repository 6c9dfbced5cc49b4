"""A statistical model of a corpus of workloads, and new workloads drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from astranb.core.errors import InputError

from .depth import with_stages
from .job import CorpusJob
from .outline import SIZES, outline_of
from .sizes import SizeModel
from .totals import TotalsModel
from .writer import written

__all__ = ["Corpus", "CorpusModel"]

_RELUCTANCE: Final = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 30.0, 30.0])
"""Parameters of a layer, batch, plan; depth and nodes of a layer only explain what these do not."""
_MOST_RANKS: Final = 1 << 16
_NARROW: Final = np.array([0.35, 0.15, 0.3, 0.3, 0.1])
"""Of the kernel over conditions, in logarithms: the batch decides how many microbatches a grammar has."""


_TRIES: Final = 4
_WIDE: Final = np.array([0.5, 0.3])
"""Around the parameters and batch of a random workload, in logarithms: it is not to be made again."""
_WORK, _TOOK = SIZES.index("num_ops"), SIZES.index("duration_ns")


class Corpus:
    """Workloads to learn from, and some that are held out to judge what was learnt.

    Attributes
    ----------
    training, held_out : list of CorpusJob
    """

    def __init__(self, training: Sequence[CorpusJob], held_out: Sequence[CorpusJob] = ()) -> None:
        self.training, self.held_out = list(training), list(held_out)

    @classmethod
    def of(cls, jobs: Sequence[CorpusJob], *, held_out: float = 0.25, seed: int = 0) -> Corpus:
        """Divide workloads at random.

        Parameters
        ----------
        jobs : sequence of CorpusJob
        held_out : float
            The share that is not learnt from.
        seed : int
        """
        order = np.random.default_rng(seed).permutation(len(jobs)).tolist()
        kept = len(jobs) - round(held_out * len(jobs))
        return cls([jobs[at] for at in sorted(order[:kept])], [jobs[at] for at in sorted(order[kept:])])

    def fit(self) -> CorpusModel:
        """Learn from the training part."""
        return CorpusModel(self.training)


class CorpusModel:
    """What workloads of a corpus have in common.

    Operations are a grammar: an architecture, as letters and modules that are repeated layer by layer,
    with the dependencies between them. How often modules are repeated, and the sizes and durations of
    all letters together, depend on the size of the model, its batch and plan.

    Parameters
    ----------
    jobs : sequence of CorpusJob

    Raises
    ------
    InputError
        There is no workload, or one cannot run.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> def recorded(layers: int) -> CorpusJob:
    ...     step, last = TraceBuilder(), []
    ...     for layer in range(layers):
    ...         last = [step.compute(f"secret {layer}", num_ops=1000 * layers, tensor_size=50, after=last)]
    ...         last = [step.collective("all_reduce", 64 * layers, after=last)]
    ...     return CorpusJob([step.build()] * 2, parameters=layers**3, data=2)
    >>> model = CorpusModel([recorded(layers) for layers in range(4, 9)])
    >>> made = model.sample(data=4, parameters=1000)
    >>> made.ranks, len(made.traces[0]), made.traces[3].names[0]
    (4, 20, 'comp')
    """

    def __init__(self, jobs: Sequence[CorpusJob]) -> None:
        if not jobs:
            raise InputError("no workload to learn from", where="corpus", hint="give some traces")
        self._outlines = [outline_of(job) for job in jobs]
        self._plans = np.array([one.plan for one in self._outlines])
        stated = np.array([[job.parameters, job.batch] for job in jobs])
        self._given = np.log(np.concatenate([stated, self._plans], axis=1))
        self._verbatim = [
            np.unique(np.concatenate([one.sizes[:, at] for one in self._outlines]))
            for at in range(len(SIZES))
        ]
        alike: dict[object, list[int]] = {}
        for number, one in enumerate(self._outlines):
            alike.setdefault(one.signature, []).append(number)
        self._alike = [alike[one.signature] for one in self._outlines]
        self._sizes = {members[0]: self._fitted(members) for members in alike.values()}
        self._totals = TotalsModel(jobs, self._outlines)
        self._layers = self._fitted_layers()

    def _fitted(self, members: list[int]) -> SizeModel:
        conditions = np.array([self._conditions(at, self._outlines[at].layers) for at in members])
        values = np.array([_quantities(self._outlines[at].sizes) for at in members])
        return SizeModel(conditions, values, _RELUCTANCE)

    def _conditions(self, outline: int, layers: int, given: np.ndarray | None = None) -> np.ndarray:
        """Give the logarithms that sizes depend on; depth and microbatches are those of the outline."""
        one = self._outlines[outline]
        parts = len(one.stages[0].letters) / max(1, one.layers)
        size, *others = self._given[outline] if given is None else given
        depth = np.log(max(1, layers) * one.plan[2])
        return np.array([size - depth, *others, depth, np.log(parts)])

    def _fitted_layers(self) -> SizeModel | None:
        """Fit how often modules are repeated in all stages to the size of the model."""
        with_layers = [at for at, one in enumerate(self._outlines) if one.layers and one.divided]
        stated = [at for at in with_layers if self._given[at, 0] != 0]  # a size of 1 is one not known
        with_layers = stated or with_layers
        if not with_layers:
            return None
        depth = [self._outlines[at].layers * self._outlines[at].plan[2] for at in with_layers]
        return SizeModel(self._given[with_layers, :1], np.log(depth)[:, None])

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
        outline = with_stages(self._outlines[chosen], plan[2]) or self._outlines[chosen]
        layers = outline.layers
        if self._layers is not None and layers:
            depth = self._layers.drawn(given[:1], random)[0]
            layers = max(2, round(float(np.exp(depth)) / plan[2]))
        more = layers - outline.layers
        drawn = self._drawn_sizes(chosen, self._conditions(chosen, layers, given), random)
        drawn = self._totals.scaled(outline, drawn, more, given, random)
        sizes = self._no_copies(drawn, outline.sizes)
        return written(outline, sizes, more, (plan[0], plan[1], plan[2]), *np.exp(wanted).tolist())

    def _between(self, fits: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Draw parameters and batch around those of a random workload, and away from all of them."""
        own = self._given[:, :2]
        tries = own[random.choice(fits, size=_TRIES)] + _WIDE * random.standard_normal((_TRIES, 2))
        apart = (np.abs(tries[:, None] - own[fits]) / _NARROW[:2]).max(axis=2).min(axis=1)
        return np.asarray(tries[apart.argmax()])

    def _plan(
        self, tensor: int | None, data: int | None, pipeline: int | None, ranks: int | None
    ) -> tuple[int | None, int | None, int | None]:
        for name, one in (("tensor", tensor), ("data", data), ("pipeline", pipeline), ("ranks", ranks)):
            if one is not None and not 1 <= one <= _MOST_RANKS:
                raise InputError(f"{name} is {one}", where="sample", hint=f"take 1 to {_MOST_RANKS}")
        if ranks is None:
            return tensor, data, pipeline
        if data is None and (tensor is not None or pipeline is not None):
            tensor, pipeline = tensor or 1, pipeline or 1
            data = ranks // (tensor * pipeline)
        if data is None:
            there = np.flatnonzero(self._plans.prod(axis=1) == ranks)
            if len(there):
                chosen = self._plans[there[0]].tolist()
                return chosen[0], chosen[1], chosen[2]
            inner = self._plans[:, 0] * self._plans[:, 2]
            usable = np.flatnonzero((ranks % inner == 0) & ((ranks // inner > 1) == (self._plans[:, 1] > 1)))
            if not len(usable):
                raise InputError(f"no plan for {ranks} ranks", where="sample", hint=self._known_plans())
            tensor, _, pipeline = self._plans[usable[0]].tolist()
            data = ranks // (tensor * pipeline)
        if (tensor or 1) * data * (pipeline or 1) != ranks:
            what = f"{ranks} ranks, and tensor, data, pipeline {tensor or 1}, {data}, {pipeline or 1}"
            raise InputError(what, where="sample", hint="their product is the number of ranks")
        return tensor or 1, data, pipeline or 1

    def _like(self, asked: tuple[int | None, int | None, int | None]) -> np.ndarray:
        """Give the workloads that are divided along the same axes, in as many stages if there are some."""
        fits = np.ones(len(self._plans), bool)
        for at, one in enumerate(asked):
            if one is not None:
                fits &= (self._plans[:, at] > 1) == (one > 1)
        stages = asked[2]
        if stages is not None and (fits & (self._plans[:, 2] == stages)).any():
            fits &= self._plans[:, 2] == stages
        elif stages is not None:
            able = [at for at in np.flatnonzero(fits) if with_stages(self._outlines[at], stages)]
            fits = np.isin(np.arange(len(fits)), able)
        if not fits.any():
            raise InputError("the corpus has no such plan", where="sample", hint=self._known_plans())
        return np.flatnonzero(fits)

    def _known_plans(self) -> str:
        plans = sorted({tuple(one) for one in self._plans.tolist()})
        shown = ", ".join(f"{t}x{d}x{p}" for t, d, p in plans[:6])
        return f"it has tensor x data x pipeline {shown}{', …' if len(plans) > 6 else ''}"

    def _drawn_sizes(self, chosen: int, condition: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Draw the sizes of an outline's symbols."""
        like = self._outlines[chosen].sizes
        model = self._sizes[self._alike[chosen][0]]
        return np.where(like > 0, _sizes_of(model.drawn(condition, random).reshape(like.shape), like), like)

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


def _quantities(sizes: np.ndarray) -> np.ndarray:
    """Give the logarithms of symbols' sizes, and of durations per operation where operations are known."""
    logs = np.log(np.maximum(sizes, 1))
    logs[:, _TOOK] -= np.where(sizes[:, _TOOK] > 0, logs[:, _WORK], 0)
    return np.asarray(logs.ravel())


def _sizes_of(quantities: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Give sizes of such logarithms, for the symbols that have them."""
    logs = quantities.copy()
    logs[:, _TOOK] += np.where(like[:, _TOOK] > 0, logs[:, _WORK], 0)
    return np.asarray(np.exp(np.minimum(logs, 40)))
