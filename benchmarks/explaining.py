"""Time of finding the critical path of a run by cache lines, beside the run itself."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import astranb as anb

__all__ = ["explaining"]

_SIZES = ("1 MiB", "4 MiB", "8 MiB")
_LIMIT_US = 2.0
"""Of an event, replay included."""


def explaining(row: Any, _bare: float) -> None:
    """Measure the critical path of three sizes: an event takes as long in each of them."""
    for size in _SIZES:
        for algorithm in ("ring", "allpairs"):
            sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce(size, algorithm), record=False)
            began = perf_counter()
            sim.run()
            ran = perf_counter()
            sim.critical_path()
            took, run = perf_counter() - ran, ran - began
            what = f"critical path, {size} {algorithm}, {sim.events:,} events"
            row(what, took, "s", "the run", took / run)
            each_us = took / sim.events * 1e6
            row(
                f"the same, an event (limit {_LIMIT_US:g} us)",
                each_us,
                "us",
                "the limit",
                each_us / _LIMIT_US,
            )
