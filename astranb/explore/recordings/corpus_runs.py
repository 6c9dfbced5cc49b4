"""Recorded and synthetic workloads on the same clusters: what differs in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.errors import InputError

if TYPE_CHECKING:
    from astranb.chakra.corpus import Corpus, CorpusJob
    from astranb.workload.astrasim2 import DimensionNetwork

__all__ = ["CLUSTERS", "compare_on_clusters", "corpus_report", "run_corpus_job"]

CLUSTERS: Final[Mapping[str, tuple[tuple[str, ...], tuple[float, ...], tuple[int, ...]]]] = {
    "ring": (("Ring",), (50.0,), (700,)),
    "switch": (("Switch",), (25.0,), (1_000,)),
    "full mesh": (("FullyConnected",), (100.0,), (300,)),
    "nodes of 2": (("FullyConnected", "Switch"), (300.0, 12.5), (300, 2_000)),
}
"""Topologies, GB/s and ns of links, all assumed: from fast to so slow that communication dominates."""


def corpus_report(corpus: Corpus, *, network: bool = False, seed: int = 0) -> dict[str, Any]:
    """Judge a model of a corpus: quality and privacy of what it draws.

    Parameters
    ----------
    corpus : Corpus
        A model is fitted to its training part.
    network : bool
        Train the network instead of the statistical model.
    seed : int

    Returns
    -------
    dict
        ``clusters``: workloads drawn under the conditions of each held-out one, as
        :func:`compare_on_clusters` gives them; ``distances`` of these: as
        :func:`astranb.chakra.corpus.quality`; ``privacy`` of as many as there are to learn from, drawn
        without conditions: as :func:`astranb.chakra.corpus.privacy`; ``learnt_from``, ``held_out`` and
        ``unlike``: how many workloads were learnt from, compared, and left out because nothing that was
        learnt from is divided like them.

    Raises
    ------
    InputError
        There are fewer than two workloads to learn from, or none held out.
    """
    from astranb.chakra.corpus import privacy, quality

    held = corpus.held_out
    if len(corpus.training) < 2 or not held:
        what = f"{len(corpus.training)} workloads to learn from, and {len(held)} held out"
        raise InputError(what, where="corpus", hint="give four or more")
    model = corpus.fit(network=network)
    compared, made = [], []
    for at, one in enumerate(held):
        plan = {"tensor": one.tensor, "data": one.data, "pipeline": one.pipeline}
        if model.knows(**plan):
            compared.append(one)
            made.append(model.sample(parameters=one.parameters, batch=one.batch, **plan, seed=seed + at))
    if not compared:
        what = f"none of {len(held)} held-out workloads is divided like one learnt from"
        raise InputError(what, where="corpus", hint="give more workloads of each plan")
    free = [model.sample(seed=seed + at) for at in range(len(corpus.training))]
    return {
        "learnt_from": len(corpus.training),
        "held_out": len(compared),
        "unlike": len(held) - len(compared),
        "clusters": compare_on_clusters(compared, made),
        "distances": quality(compared, made, corpus.training),
        "privacy": privacy(corpus.training, held, free),
    }


def compare_on_clusters(recorded: Sequence[CorpusJob], made: Sequence[CorpusJob]) -> list[dict[str, Any]]:
    """Simulate pairs of workloads on :data:`CLUSTERS`, and give how much each differs.

    Parameters
    ----------
    recorded, made : sequence of CorpusJob
        Each made one has as many ranks as the recorded one.

    Returns
    -------
    list of dict
        For each cluster: the mean over workloads of makespan and exposed communication (time in which a
        rank does not compute, mean over ranks) of both, in seconds; how far the made mean is off
        (``makespan_off``, ``exposed_off``); the worst single pair (``worst_pair_off`` of makespans,
        ``worst_pair_exposed_off``), and the median makespan of pairs (``median_pair_off``).
    """
    if not recorded or [one.ranks for one in recorded] != [one.ranks for one in made]:
        raise InputError("the workloads are not pairs of as many ranks", where="compare", hint="sample again")
    rows = []
    for name in CLUSTERS:
        times = np.array(
            [[run_corpus_job(one, name) for one in pair] for pair in zip(recorded, made, strict=True)]
        )
        mean = times.mean(axis=0)
        off = mean[1] / np.maximum(mean[0], 1e-12) - 1
        each, hidden = np.abs(times[:, 1] / np.maximum(times[:, 0], 1e-12) - 1).T
        row = {"cluster": name, "makespan_s": mean[:, 0].tolist(), "exposed_s": mean[:, 1].tolist()}
        row |= {"makespan_off": float(off[0]), "exposed_off": float(off[1])}
        row |= {"worst_pair_off": float(each.max()), "median_pair_off": float(np.median(each))}
        rows.append(row | {"worst_pair_exposed_off": float(hidden.max())})
    return rows


def run_corpus_job(job: CorpusJob, cluster: str) -> tuple[float, float]:
    """Simulate a workload; give its makespan and exposed communication in seconds."""
    from astranb.chakra import NodeType
    from astranb.engine.messages import Run
    from astranb.workload.astrasim2 import Memory, System, Workload, operations_of

    numbered = {name: at for at, name in enumerate(job.groups, 1)}
    groups = {int(name) if name.isdecimal() else at: list(job.groups[name]) for name, at in numbered.items()}
    network = _network(cluster, job.ranks)
    known: dict[bytes, Any] = {}
    for trace in job.traces:
        if trace.data not in known:
            known[trace.data] = operations_of(trace, groups)
    dims = len(network.topology)
    kinds = ("all-reduce", "all-gather", "reduce-scatter")
    system = System.from_document(
        {
            **{f"{kind}-implementation": ["ring"] * dims for kind in kinds},
            "all-to-all-implementation": ["direct"] * dims,
            "preferred-dataset-splits": 1,
        },
        "the assumed system",
    )
    operations = [known[trace.data] for trace in job.traces]
    run = Run(Workload(operations, network, system, Memory(), groups))
    run.finish()
    run.result()
    makespan_s = run.now_ns * 1e-9
    computed = [
        np.where(trace.has("duration_ns"), trace.integers("duration_ns"), trace.duration_us * 1000)[
            trace.type == NodeType.COMP
        ].sum()
        for trace in job.traces
    ]
    return makespan_s, makespan_s - float(np.mean(computed)) * 1e-9


def _network(cluster: str, ranks: int) -> DimensionNetwork:
    from astranb.workload.astrasim2 import DimensionNetwork

    topology, bandwidth, latency = CLUSTERS[cluster]
    node = 2 if len(topology) == 2 and ranks % 2 == 0 and ranks > 2 else 0
    counts = (node, ranks // node) if node else (ranks,)
    last = len(topology) - len(counts)
    return DimensionNetwork(topology[last:], counts, bandwidth[last:], latency[last:])
