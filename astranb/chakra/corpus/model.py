"""A statistical model of a corpus of workloads, and new workloads drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, overload

import numpy as np

from .depth import with_stages
from .job import CorpusJob
from .outline import Outline, outline_of
from .planned import PlannedModel
from .sizes import SizeModel, quantities, sizes_of

if TYPE_CHECKING:
    from .network import CorpusNetwork

__all__ = ["Corpus", "CorpusModel"]

_RELUCTANCE: Final = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 30.0, 30.0])
"""Parameters of a layer, batch, plan; depth and nodes of a layer only explain what these do not."""


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

    @overload
    def fit(self) -> CorpusModel: ...
    @overload
    def fit(self, *, network: Literal[True], seed: int = 0) -> CorpusNetwork: ...
    @overload
    def fit(self, *, network: bool, seed: int = 0) -> PlannedModel: ...
    def fit(self, *, network: bool = False, seed: int = 0) -> PlannedModel:
        """Learn from the training part.

        Parameters
        ----------
        network : bool
            Train a network (:class:`CorpusNetwork`; this needs PyTorch) instead of the statistical model.
        seed : int
            Of the network.
        """
        if not network:
            return CorpusModel(self.training)
        from .network import CorpusNetwork

        return CorpusNetwork(self.training, seed=seed)


class CorpusModel(PlannedModel):
    """Generative model of a corpus: what its workloads share.

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
        self._outlines = [outline_of(job) for job in jobs]
        super().__init__(jobs, self._outlines)
        alike: dict[object, list[int]] = {}
        for number, one in enumerate(self._outlines):
            alike.setdefault(one.signature, []).append(number)
        self._alike = [alike[one.signature] for one in self._outlines]
        self._sizes = {members[0]: self._fitted(members) for members in alike.values()}

    def _fitted(self, members: list[int]) -> SizeModel:
        conditions = np.array([self._conditions(at, self._outlines[at].layers) for at in members])
        values = np.array([quantities(self._outlines[at].sizes).ravel() for at in members])
        return SizeModel(conditions, values, _RELUCTANCE)

    def _conditions(self, outline: int, layers: int, given: np.ndarray | None = None) -> np.ndarray:
        """Return the logarithms that sizes depend on; depth and microbatches are those of the outline."""
        one = self._outlines[outline]
        parts = len(one.stages[0].letters) / max(1, one.layers)
        size, *others = self._given[outline] if given is None else given
        depth = np.log(max(1, layers)) + others[-1]
        return np.array([size - depth, *others, depth, np.log(parts)])

    def _can(self, at: int, stages: int) -> bool:
        return with_stages(self._outlines[at], stages) is not None

    def _made(
        self,
        chosen: int,
        plan: tuple[int, int, int],
        layers: int,
        given: np.ndarray,
        random: np.random.Generator,
    ) -> tuple[Outline, np.ndarray, int]:
        outline = with_stages(self._outlines[chosen], plan[2]) or self._outlines[chosen]
        model, like = self._sizes[self._alike[chosen][0]], outline.sizes
        drawn = model.drawn(self._conditions(chosen, layers, given), random).reshape(like.shape)
        return outline, np.where(like > 0, sizes_of(drawn, like), like), layers - outline.layers
