"""A small autoregressive network that writes workloads node by node (needs PyTorch)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from astranb.core.errors import InputError

from .assembly import WorkloadAssembly
from .job import CorpusJob
from .outline import SIZES, Outline, outline_of
from .planned import PlannedModel
from .sizes import quantities, sizes_of
from .tokens import NodeToken, Vocabulary, items_of, place_of

__all__ = ["CorpusNetwork"]

_BINS: Final = 48  # of a size or duration
_SHARP: Final = 0.3  # temperature of structure; sizes are drawn as they were learnt
_UNLIKELY: Final = 0.02  # what is so much less likely than the likeliest is not chosen
_DRAWN: Final = 3  # workloads, of which the likeliest is taken
_TRIES: Final = 8  # more, where none of them is whole
_PLACES: Final = ("first", "middle", "last")


class CorpusNetwork(PlannedModel):
    """Generative model of a corpus: a recurrent network (GRU) over the nodes of its workloads.

    It writes a stage as a sequence of tokens: a node (kind, group or peer by place, which of the symbols of
    this kind), what it waits for, and bins of its sizes and duration where its symbol is new; or how often
    the last nodes are repeated. It sees the model's size, batch, plan, layers, the place of the stage, and
    how many messages are left. What would not agree with earlier stages cannot be chosen.

    Parameters
    ----------
    jobs : sequence of CorpusJob
    seed : int
        Of the first weights, and the order of training.
    epochs : int
        How often all workloads are seen.

    Raises
    ------
    InputError
        PyTorch is missing, there is no workload, or one cannot run.
    """

    def __init__(self, jobs: Sequence[CorpusJob], *, seed: int = 0, epochs: int = 120) -> None:
        from .gru import Sequences, trained

        outlines = [outline_of(job) for job in jobs]
        super().__init__(jobs, outlines)
        self._vocabulary = Vocabulary.of(outlines)
        self._trend, self._edges = self._bins(outlines)
        sequences, self._ends = [], []
        for at, outline in enumerate(outlines):
            stages = [items_of(self._vocabulary, outline, own) for own in range(len(outline.stages))]
            self._ends.append([dict(budget.left) for _, budget in stages])
            for own, (items, budget) in enumerate(stages):
                given, plan = self._given[at], outline.plan
                conditions = self._of_stage(given, plan, outline.layers, own, max([0, *budget.left.values()]))
                found = np.array([one.sizes or (-1.0,) * len(SIZES) for one in items])
                binned = np.where(found > 0, self._binned(found, given), -1)
                features = np.array([one.features for one in items])
                chosen = np.array([(one.token, one.pattern) for one in items])
                sequences.append(Sequences(chosen, binned, features, np.asarray(conditions)))
        self._longest = max(len(one.tokens) for one in sequences)
        patterns, tokens = len(self._vocabulary.patterns), len(self._vocabulary.tokens)
        self._net = trained(sequences, patterns, tokens, _BINS, seed=seed, epochs=epochs)

    def save(self, path: str | Path) -> Path:
        """Write the network to a file, whole or not at all.

        Like any model it knows the corpus: what is drawn can be shared, the file should not be.

        Parameters
        ----------
        path : str or Path
        """
        from .gru import write_network

        return write_network(
            self._net, {key: one for key, one in vars(self).items() if key != "_net"}, Path(path)
        )

    @classmethod
    def load(cls, path: str | Path) -> CorpusNetwork:
        """Read a network that was saved; the file holds no code.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        InputError
            PyTorch is missing, or the file is no such network.
        """
        from .gru import read_network

        network, found = read_network(Path(path))
        made = cls.__new__(cls)
        vars(made).update(found, _net=network)
        return made

    def _bins(self, outlines: Sequence[Outline]) -> tuple[np.ndarray, np.ndarray]:
        """Return how each size grows with the conditions, and the limits of bins of what that leaves."""
        trend = np.zeros((len(SIZES), self._given.shape[1]))
        edges = np.zeros((len(SIZES), _BINS + 1))
        for at in range(len(SIZES)):
            rows = [(number, one.sizes[one.sizes[:, at] > 0]) for number, one in enumerate(outlines)]
            given = np.concatenate(
                [np.repeat(self._given[[number]], len(sizes), axis=0) for number, sizes in rows]
            )
            if not len(given):
                continue
            logs = np.concatenate([quantities(sizes)[:, at] for _, sizes in rows])
            x = given - given.mean(axis=0)
            trend[at] = np.linalg.solve(
                x.T @ x + 1e-3 * len(x) * np.eye(x.shape[1]), x.T @ (logs - logs.mean())
            )
            edges[at] = np.quantile(logs - given @ trend[at], np.linspace(0, 1, _BINS + 1))
        return trend, edges

    def _binned(self, sizes: np.ndarray, given: np.ndarray) -> np.ndarray:
        left = quantities(sizes) - self._trend @ given
        found = [np.searchsorted(edges[1:-1], each) for edges, each in zip(self._edges, left.T, strict=True)]
        return np.array(found).T

    def _of_stage(
        self, given: np.ndarray, plan: tuple[int, int, int], layers: int, own: int, messages: int
    ) -> list[float]:
        """Return what the network knows about a stage."""
        centre, scale = self._given.mean(axis=0), np.maximum(self._given.std(axis=0), 0.1)
        stages = plan[2]
        place = place_of(own, stages)
        return [
            *((given - centre) / scale),
            *(float(one > 1) for one in plan),
            *(float(place == one) for one in _PLACES),
            np.log(stages - own) / 2, np.log1p(layers) / 3, np.log1p(messages) / 3,
        ]  # fmt: skip

    def _can(self, at: int, stages: int) -> bool:
        has = int(self._plans[at, 2])
        return bool(self._divided[at]) and stages >= 2 and has >= min(stages, 3)

    def _made(
        self,
        chosen: int,
        plan: tuple[int, int, int],
        layers: int,
        given: np.ndarray,
        random: np.random.Generator,
    ) -> tuple[Outline, np.ndarray, int]:
        found = [self._written(chosen, plan, layers, given, random) for _ in range(_DRAWN)]
        for _ in range(_TRIES):
            whole = [one for one in found if one is not None]
            if whole:
                outline = max(whole, key=lambda one: one[0])[1]
                return outline, outline.sizes, 0
            found = [self._written(chosen, plan, layers, given, random, forced=True)]
        what = f"in each of {_DRAWN + _TRIES} workloads drawn the stages wait for one another"
        raise InputError(what, where="sample", hint="take another seed, or train longer")

    def _written(
        self,
        chosen: int,
        plan: tuple[int, int, int],
        layers: int,
        given: np.ndarray,
        random: np.random.Generator,
        *,
        forced: bool = False,
    ) -> tuple[float, Outline] | None:
        """Write a workload, and say how likely its tokens were.

        One that does not end, or whose stages wait for each other, is none; ``forced``: it is ended.
        """
        made = WorkloadAssembly(self._vocabulary, plan, layers, self._ends[chosen], random)
        bins: dict[int, np.ndarray] = {}
        chances: list[float] = []
        for own in range(plan[2]):
            messages = max([0, *made.budget.left.values()])
            conditions = np.array(self._of_stage(given, plan, layers, own, messages))
            writer = self._net.begin(conditions)
            for step in range(2 * self._longest + 1):
                if step == 2 * self._longest:
                    if not forced:
                        return None
                    made.end()
                    break
                likely, allowed = writer.tokens(made.budget.features), made.allowed()
                if not allowed.any():
                    made.end()
                    break
                token, chance = _chosen(np.where(allowed, likely, -np.inf), random)
                chances.append(chance)
                kind, pattern = self._vocabulary.tokens[token], -1
                binned = np.full(len(SIZES), -1)
                if isinstance(kind, NodeToken):
                    pattern, chance = _chosen(writer.patterns(token), random)
                    chances.append(chance)
                    has = np.array(kind.signs) > 0
                    if token not in bins or kind.ordinal < 0:
                        bins[token] = np.where(has, writer.bins(token, has, random), -1)
                    binned = bins[token]
                writer.take(token, pattern, binned)
                if made.take(token, pattern, partial(self._sizes, binned, given, random)):
                    break
        outline = made.outline(divided=bool(self._divided[chosen]))
        return None if outline is None else (float(np.mean(chances)), outline)

    def _sizes(self, binned: np.ndarray, given: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Draw sizes within bins."""
        at = np.arange(len(SIZES)), np.maximum(binned, 0)
        low, high = self._edges[at], self._edges[at[0], at[1] + 1]
        logs = low + (high - low) * random.random(len(SIZES)) + self._trend @ given
        return np.asarray(sizes_of(logs[None], np.where(binned >= 0, 1.0, -1.0)[None])[0])


def _chosen(logits: np.ndarray, random: np.random.Generator) -> tuple[int, float]:
    """Choose a likely one, and give the logarithm of its probability."""
    chance = np.exp(logits - logits.max())
    likely = chance ** (1 / _SHARP)
    likely[likely < _UNLIKELY] = 0
    one = int(random.choice(len(likely), p=likely / likely.sum()))
    return one, float(np.log(chance[one] / chance.sum()))
