"""Time of a search of plans."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from astranb.explore import suggest
from astranb.workload.models import Parallelism, workload

__all__ = ["suggestions"]

_LIMIT_S = 60.0


def suggestions(row: Any, bare: float) -> None:
    """Measure ``--suggest`` over more than 500 plans, beside what the bare loop handles meanwhile."""
    step = workload("llama3-8b", Parallelism(data=64), batch=256, gpu="h100-sxm")
    began = perf_counter()
    found = suggest(step)
    took = perf_counter() - began
    what = f"--suggest, {found.considered:,} plans of llama3-8b on 64 GPUs (limit {_LIMIT_S:g} s)"
    row(what, took, "s", "the limit", took / _LIMIT_S)
    row("the same, events of the bare queue for a plan", took * bare / found.considered, "events")
