"""Totals of all nodes of a kind in a step, given the workload that it is a step of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .job import CorpusJob
from .outline import Outline
from .sizes import SizeModel

__all__ = ["TotalsModel"]


class TotalsModel:
    """The work, bytes and time of a rank, by kind of node.

    They depend on the conditions much more smoothly than what a single node does, and they decide how
    long a step takes. So the sizes of single nodes are scaled to them.

    Parameters
    ----------
    jobs : sequence of CorpusJob
    outlines : sequence of Outline
        Their grammars.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> from astranb.chakra.corpus.outline import outline_of
    >>> step = TraceBuilder()
    >>> _ = step.compute("a", num_ops=1000, tensor_size=8)
    >>> job = CorpusJob([step.build()])
    >>> model, outline = TotalsModel([job], [outline_of(job)]), outline_of(job)
    >>> made = model.scaled(outline, outline.sizes * 3, 0, np.zeros(5), np.random.default_rng(0))
    >>> bool(abs(made[0, 0] / 1000 - 1) < 0.1)
    True
    """

    def __init__(self, jobs: Sequence[CorpusJob], outlines: Sequence[Outline]) -> None:
        stated = np.array(
            [
                _conditions(one, np.log([job.parameters, job.batch, job.tensor, job.data, job.pipeline]))
                for job, one in zip(jobs, outlines, strict=True)
            ]
        )
        found = [_totals(one, one.sizes, one.counts()) for one in outlines]
        having: dict[tuple[tuple[str, ...], str], list[int]] = {}
        for at, one in enumerate(outlines):
            for kind in found[at]:
                having.setdefault((_pool(one, stated[at]), kind), []).append(at)
        together: dict[tuple[tuple[str, ...], tuple[int, ...]], list[str]] = {}
        for (pool, kind), members in having.items():
            together.setdefault((pool, tuple(members)), []).append(kind)
        self._models: dict[tuple[str, ...], list[tuple[list[str], SizeModel]]] = {}
        for (pool, those), kinds in together.items():
            values = [np.concatenate([found[at][kind] for kind in kinds]) for at in those]
            model = SizeModel(stated[list(those)], np.array(values))
            self._models.setdefault(pool, []).append((kinds, model))

    def scaled(
        self, outline: Outline, sizes: np.ndarray, more: int, given: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """Scale the sizes of symbols, so that those of each kind add up to what a step does.

        Parameters
        ----------
        outline : Outline
        sizes : array of float, shape (symbols, 4)
        more : int
            How many more layers than the outline's.
        given : array of float
            Logarithms of parameters, batch, tensor, data and pipeline.
        random : Generator
        """
        has = _totals(outline, sizes, outline.counts(more))
        factor: dict[str, np.ndarray] = {}
        for those, model in self._models.get(_pool(outline, given), []):
            if not has.keys().isdisjoint(those):
                wanted = model.drawn(_conditions(outline, given), random).reshape(len(those), -1)
                factor.update(zip(those, wanted, strict=True))
        kinds = [_kind(one) for one in outline.signature]
        scale = np.exp(np.array([factor.get(kind, has[kind]) - has[kind] for kind in kinds]))
        return np.where(sizes > 0, sizes * scale, sizes)


def _conditions(outline: Outline, given: np.ndarray) -> np.ndarray:
    """Add how finely a step is divided: the nodes of a layer, as of its microbatches."""
    return np.array([*given, np.log(outline.rows / max(1, outline.layers))])


def _pool(outline: Outline, given: np.ndarray) -> tuple[str, ...]:
    """Return what workloads have in common that say something about each other's totals.

    A model of size 1 is one whose size is not known: such workloads, and those whose ranks differ, are
    compared with those of the same kinds of nodes only.
    """
    alike = outline.divided and given[0] != 0
    return () if alike else tuple(sorted({_kind(one) for one in outline.signature}))


def _kind(symbol: tuple[object, ...]) -> str:
    return repr(symbol[0])


def _totals(outline: Outline, sizes: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
    """Return the logarithms of a rank's sums of all sizes, kind by kind."""
    found: dict[str, np.ndarray] = {}
    for symbol, each in zip(outline.signature, np.maximum(sizes, 0) * counts[:, None], strict=True):
        found[_kind(symbol)] = found.get(_kind(symbol), 0) + each
    return {kind: np.log(np.maximum(sums / len(outline.stages), 1)) for kind, sums in found.items()}
