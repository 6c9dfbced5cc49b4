"""Distance of synthetic workloads from recorded ones, and from those learnt from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from astranb.chakra.traces import topological_order
from astranb.core.errors import InputError

from .job import CorpusJob
from .outline import SIZES
from .writer import kind_name

__all__ = ["privacy", "quality"]

_QUANTILES: Final = (np.arange(200) + 0.5) / 200
_LEAST_SPREAD: Final = 0.1  # of a logarithm in a corpus: sizes that are all the same would count too much


def quality(
    recorded: Sequence[CorpusJob], made: Sequence[CorpusJob], training: Sequence[CorpusJob] = ()
) -> dict[str, dict[str, float]]:
    """Compare distributions of two sets of workloads, by the traces of their first ranks.

    Parameters
    ----------
    recorded, made : sequence of CorpusJob
        Recorded workloads that were held out, and synthetic ones.
    training : sequence of CorpusJob, optional
        Those learnt from: their distance to the recorded ones is what a good model reaches.

    Returns
    -------
    dict of str to dict
        For each statistic its ``distance``, and with ``training`` the ``baseline`` and ``ratio`` of the two.
        ``kinds`` and ``bigrams`` (kinds along dependencies) are Jensen-Shannon divergences in bits; the
        others Wasserstein-1 distances: of natural logarithms of sizes and durations for each kind, of
        numbers of dependencies (``degree``), and of logarithms of depths.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> def job(size: int) -> CorpusJob:
    ...     step = TraceBuilder()
    ...     _ = step.compute("a", num_ops=size, tensor_size=8)
    ...     return CorpusJob([step.build()])
    >>> round(quality([job(100)], [job(200)])["num_ops of comp"]["distance"], 3)
    0.693
    """
    if not recorded or not made:
        raise InputError("no workload to compare", where="quality", hint="give some of both")
    one, other = _statistics(recorded), _statistics(made)
    base = _statistics(training) if training else None
    table = {}
    for name in sorted(one.keys() | other.keys()):
        distance = _distance(one.get(name), other.get(name))
        table[name] = {"distance": distance}
        if base is not None:
            baseline = _distance(one.get(name), base.get(name))
            ratio = distance / baseline if baseline > 0 else float(distance > 0)
            table[name] |= {"baseline": baseline, "ratio": ratio}
    return table


def privacy(
    training: Sequence[CorpusJob], held_out: Sequence[CorpusJob], made: Sequence[CorpusJob]
) -> dict[str, float]:
    """Find what synthetic workloads give away of those that they were learnt from.

    Parameters
    ----------
    training, held_out, made : sequence of CorpusJob

    Returns
    -------
    dict of str to float
        ``nearest``: the median distance of a synthetic workload to the nearest training one;
        ``nearest_training`` and ``nearest_held_out``: that of a training one to the nearest other, and of a
        held-out one, which a workload of the same kind cannot well exceed. Workloads are points: logarithms
        of quantiles of sizes and durations by kind, and of numbers of nodes, in units of the training's
        spread. ``membership_auc``: how well somebody tells training from held-out workloads by
        their distance to the nearest synthetic one, relative to that to the nearest real one (0.5: not at
        all). ``verbatim_sizes`` and
        ``verbatim_names``: distinct ones of the synthetic workloads that are in the training.
    """
    if len(training) < 2 or not held_out or not made:
        what = f"{len(training)} training, {len(held_out)} held-out and {len(made)} made workloads"
        raise InputError(what, where="privacy", hint="give two or more, one or more, and one or more")
    kinds = sorted({name for name in _statistics([*training, *held_out]) if " of " in name})
    learnt, unseen, drawn = (
        np.array([_point(one, kinds) for one in jobs]) for jobs in (training, held_out, made)
    )
    scale = np.maximum(learnt.std(axis=0), _LEAST_SPREAD)
    real = np.concatenate([learnt, unseen]) / scale
    apart = _apart(real, real)
    np.fill_diagonal(apart, np.inf)
    # What lies among many others is near to everything: the attack counts in distances to other real ones.
    lonely = np.maximum(apart.min(axis=1), 1e-9)
    score = -_apart(real, drawn / scale).min(axis=1) / lonely
    members, others = score[: len(learnt), None], score[len(learnt) :]
    wins = (members > others).mean() + 0.5 * (members == others).mean()
    shared = sum(len(_values(training, name) & _values(made, name)) for name in SIZES)
    names = {text for job in training for trace in job.traces for text in trace.names.values}
    own = {text for job in made for trace in job.traces for text in trace.names.values}
    return {
        "nearest": float(np.median(_apart(drawn / scale, learnt / scale).min(axis=1))),
        "nearest_training": float(np.median(apart[: len(learnt), : len(learnt)].min(axis=1))),
        "nearest_held_out": float(np.median(apart[len(learnt) :, : len(learnt)].min(axis=1))),
        "membership_auc": float(wins),
        "verbatim_sizes": float(shared),
        "verbatim_names": float(len(names & own)),
    }


def _values(jobs: Iterable[CorpusJob], name: str) -> set[int]:
    """Return all sizes above 0 of some workloads."""
    each = [np.unique(trace.integers(name)) for job in jobs for trace in job.traces]
    found = np.unique(np.concatenate(each))
    return set(found[found > 0].tolist())


def _point(job: CorpusJob, kinds: Sequence[str]) -> list[float]:
    found = _statistics([job])
    made = [float(np.log(len(job.traces[0])))]
    for name in kinds:
        values = np.asarray(found.get(name, [0.0]))
        made += np.quantile(values, (0.1, 0.5, 0.9)).tolist()
    return made


def _apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(((one[:, None] - other) ** 2).mean(axis=2)))


def _statistics(jobs: Sequence[CorpusJob]) -> dict[str, Any]:
    """Return counters of kinds and bigrams, and arrays of everything else."""
    kinds: Counter[Hashable] = Counter()
    pairs: Counter[Hashable] = Counter()
    values: dict[str, list[np.ndarray]] = {"degree": [], "depth": []}
    for job in jobs:
        trace = job.traces[0]
        named = [kind_name(*one) for one in zip(trace.type.tolist(), trace.comm_type.tolist(), strict=True)]
        kinds.update(named)
        parents = trace.parents
        pairs.update(
            (named[parent], named[child])
            for parent, child in zip(parents.flat.tolist(), parents.owner.tolist(), strict=True)
        )
        values["degree"].append(np.diff(parents.offset).astype(float))
        depth = np.zeros(len(trace), np.int64)
        for row in topological_order(trace).tolist():
            before = parents.of(row)
            depth[row] = 1 + depth[before].max(initial=0)
        values["depth"].append(np.log(depth.max(initial=1)).reshape(1))
        kind = np.array(named)
        for name in SIZES:
            column = trace.integers(name)
            if name == "duration_ns":
                column = np.where(trace.has(name), column, trace.duration_us * 1000)
            for one in set(named):
                of = column[(kind == one) & (column > 0)]
                if len(of):
                    values.setdefault(f"{name} of {one}", []).append(np.log(of))
    return {"kinds": kinds, "bigrams": pairs} | {name: np.concatenate(each) for name, each in values.items()}


def _distance(one: Any, other: Any) -> float:
    if one is None or other is None:
        return float("inf")
    if isinstance(one, Mapping):
        keys = one.keys() | other.keys()
        p, q = (np.array([each[key] for key in keys], float) for each in (one, other))
        p, q = p / p.sum(), q / q.sum()
        return max(0.0, _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2)
    return float(np.abs(np.quantile(one, _QUANTILES) - np.quantile(other, _QUANTILES)).mean())


def _entropy(p: np.ndarray) -> float:
    some = p[p > 0]
    return float(-(some * np.log2(some)).sum())
