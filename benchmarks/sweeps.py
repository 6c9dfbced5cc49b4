"""Throughput of sweeps: points of a step on 1,024 ranks, from one process to two."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from astranb.explore import Sweep
from astranb.explore.sweeps.points import run_points

__all__ = ["sweeps"]

_LIMIT_S = 60.0

_NETWORK = "topology: [Switch, Switch]\nnpus_count: [8, 128]\nbandwidth: [450, 50]\nlatency: [1000, 2000]\n"
_PLANS = [{"tp": 8, "dp": 128}, {"tp": 4, "dp": 256}, {"tp": 2, "dp": 512}, {"tp": 1, "dp": 1024}]


def _sweep(network: Path, points: int) -> Sweep:
    """Return plans of GPT-3 175B on 1,024 ranks, by the bandwidth between nodes."""
    run: dict[str, Any] = {"model": "gpt3-175b", "memory_limit": "none", "network": str(network)}
    bandwidths = [10 + rate for rate in range(points // len(_PLANS))]
    return Sweep.of({"run": run, "axes": {"plan": _PLANS, "network.bandwidth[1]": bandwidths}})


def sweeps(row: Any) -> None:
    """Measure 1,000 analytical points in a bare loop, on one worker and on two."""
    points = 1000
    with tempfile.TemporaryDirectory() as folder:
        network = Path(folder) / "network.yml"
        network.write_text(_NETWORK)
        sweep = _sweep(network, points)
        words = [(str(number), point.words) for number, point in enumerate(sweep.points())]
        began = perf_counter()
        run_points(words)
        bare_s = perf_counter() - began
        took = []
        for workers in (1, 2):
            began = perf_counter()
            found = sweep.run(workers=workers)
            took.append(perf_counter() - began)
            if found.counts() != {"done": points}:
                message = f"not all points ended: {found.counts()}"
                raise RuntimeError(message)
    one_s, two_s = took
    what = f"sweep: {points:,} analytical points of 1,024 ranks, two workers (limit {_LIMIT_S:g} s)"
    row(what, two_s, "s", "a bare loop over them in one process", two_s / bare_s)
    row("the same on one worker (limit: 1.8 times as long)", one_s, "s", "two workers", one_s / two_s)
