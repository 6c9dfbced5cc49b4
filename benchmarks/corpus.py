"""Time of fitting models of a corpus, and of drawing from them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from astranb.chakra.corpus import Corpus, CorpusJob
from astranb.workload.models import TRANSFORMERS, Parallelism, workload

__all__ = ["corpus"]

_SHAPES = ((12, 768), (16, 1024), (24, 1024), (24, 1536), (24, 2048), (32, 2560))
_PLANS = ((2, 1, 1), (1, 4, 1), (2, 2, 1), (4, 2, 1), (2, 4, 1), (2, 2, 2), (1, 2, 2), (4, 1, 2), (4, 2, 2))

_SMALL = 2e8  # parameters


def corpus(row: Any) -> None:
    """Measure a fit to 1,000 traces of steps of GPTs, 100,000 nodes drawn; with PyTorch a network."""
    jobs: list[CorpusJob] = []
    for (layers, hidden), (tensor, data, pipeline), batch in itertools.product(_SHAPES, _PLANS, (8, 16, 32)):
        heads = hidden // 64
        model = replace(
            TRANSFORMERS["gpt3-125m"], layers=layers, hidden=hidden, heads=heads, kv_heads=heads,
            ffn=4 * hidden, expert_ffn=4 * hidden,
        )  # fmt: skip
        plan = Parallelism(data=data, tensor=tensor, pipeline=pipeline)
        step = workload(model, plan, batch=batch, gpu="h100-sxm")
        groups = {str(name): ranks for name, ranks in step.groups.items()}
        traces = [step.trace(rank) for rank in range(step.ranks)]
        jobs.append(CorpusJob(traces, groups, model.parameters, batch, tensor, data, pipeline))
        if sum(one.ranks for one in jobs) >= 1000:
            break
    traces_count = sum(one.ranks for one in jobs)
    began = perf_counter()
    model_of = Corpus(jobs).fit()
    fit_s = perf_counter() - began
    row(f"corpus: fit to {traces_count:,} traces (limit 60 s)", fit_s, "s", "the limit", fit_s / 60)
    began = perf_counter()
    made = model_of.sample(tensor=4, data=16, pipeline=2, parameters=2.7e9, batch=16)
    drawn_s = (perf_counter() - began) * 1e5 / made.nodes
    row(f"100,000 nodes of {made.nodes:,} drawn (limit 5 s)", drawn_s, "s", "the limit", drawn_s / 5)
    if find_spec("torch") is None:
        return
    small = [one for one in jobs if one.parameters < _SMALL]
    began = perf_counter()
    network = Corpus(small).fit(network=True)
    trained_s = perf_counter() - began
    what = f"corpus: network trained on {len(small)} small workloads (limit 120 s)"
    row(what, trained_s, "s", "the limit", trained_s / 120)
    began = perf_counter()
    made = network.sample(tensor=4, data=64, pipeline=2, parameters=1.5e8, batch=16)
    drawn_s = (perf_counter() - began) * 1e5 / made.nodes
    row(
        f"100,000 nodes of {made.nodes:,} written by it (limit 30 s)", drawn_s, "s", "the limit", drawn_s / 30
    )
