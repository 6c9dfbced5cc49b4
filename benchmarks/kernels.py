"""Compute kernels by cache lines: a layer of GPT-3 6.7B, and a product beside an all-gather."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import astranb as anb
from astranb.workload.kernels import Product
from astranb.workload.models import MODELS, Parallelism, Transformer, workload

_LIMITS_S = {"by lines": 60.0, "coarse": 5.0}
_PUBLISHED = 0.80 / 0.47
"""Slow-down of a product of one wave beside NCCL (forums.developer.nvidia.com/t/337991)."""


def kernels(row: Any, bare: float) -> None:
    """Measure a forward pass of one layer on 8 GPUs, by lines and coarse, and what a product loses."""
    model = MODELS["gpt3-6.7b"]
    assert isinstance(model, Transformer)
    one = replace(model, layers=1, vocab=0)  # without embedding and head
    step = workload(one, Parallelism(tensor=8), batch=1, sequence=2048, mode="prefill", gpu="h100-sxm")
    for name, network in (
        ("coarse", anb.Network(compute_lines=32, coalesce=16)),
        ("by lines", anb.Network()),
    ):
        began = perf_counter()
        sim = anb.Simulation("dgx-h100", step, fidelity="cacheline", network=network, record=False)
        sim.run()
        took = perf_counter() - began
        limit = _LIMITS_S[name]
        row(f"GPT-3 6.7B layer, TP 8, forward, {name}", took, "s", f"the limit of {limit:g} s", took / limit)
        row("  its events", sim.events / took, "events/s", "bare queue loop", sim.events / took / bare)
        row("  its simulated time", sim.now_ps / 1e6, "us")
    product, gather = [Product(12 * 256, 11 * 128, 4096)], anb.collectives.all_gather("16 MiB", "ring")
    alone, beside = (_computed_ps(product, collective) for collective in (None, gather))
    row(
        "product of one wave beside an all-gather",
        beside / alone,
        "x",
        "published",
        beside / alone / _PUBLISHED,
    )


def _computed_ps(product: list[Product], collective: Any) -> int:
    """Return the time that the first GPU computes."""
    network = anb.Network(compute_lines=32, coalesce=4)
    work = anb.beside(product, collective)
    sim = anb.Simulation("dgx-h100", work, fidelity="cacheline", network=network, record=False)
    sim.run()
    rows = sim.result.to_dataframe("operations")
    return int(rows.query("rank == 0 and what == 'compute'")["duration_ps"].iloc[0])
