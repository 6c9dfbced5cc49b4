"""Waiting times in a page or a notebook: opening 64 GPUs, the first state, Back, explain."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import astranb as anb
from astranb.widgets.feed import feed_of
from astranb.widgets.session import session_of

__all__ = ["waiting"]

_SYSTEM = "single-tier:server=dgx-h100,servers=8"
_VIEWS = (
    "import astranb.widgets.feed, astranb.widgets.views, astranb.widgets.session, astranb.widgets.connection"
)
_LOOPS = 100_000


def waiting(row: Any, _bare: float) -> None:
    """Measure each beside a loop that appends tuples to a list, or beside the import of NumPy."""
    loop = _best(_append) / _LOOPS
    row("an empty step of a Python loop (the yardstick)", loop * 1e9, "ns")
    for what, infra, collective in (
        ("8 GPUs, 1 MiB ring", "dgx-h100", anb.collectives.all_reduce("1 MiB", "ring")),
        ("64 GPUs, 1 MiB ring", _SYSTEM, anb.collectives.all_reduce("1 MiB", "ring")),
        ("64 GPUs, 1 MiB all-to-all", _SYSTEM, anb.collectives.all_to_all("1 MiB")),
    ):
        sim = anb.Simulation(infra, collective)
        ops = len(sim.engine.program.ops)
        took = _best(partial(anb.Simulation, infra, collective))
        each = took / ops / loop
        row(f"built: {what}, {ops:,} operations", took * 1e3, "ms", "a step of the loop, each", each)
    sim = anb.Simulation(_SYSTEM, anb.collectives.all_reduce("1 MiB", "ring"))

    def first() -> None:
        feed = feed_of(session_of(sim))
        feed.scene()
        feed.state()

    links = len(sim.engine.fabric.links)
    took = _best(first)
    each = took / links / loop
    row(f"64 GPUs, first state of {links:,} links", took * 1e3, "ms", "a step of the loop, each", each)
    sim.step(100_000)
    took = _best(lambda: sim.back(1))
    began = perf_counter()
    fork = sim.fork()
    copied = perf_counter() - began
    del fork
    row("64 GPUs, back by one event", took * 1e3, "ms", "a fork, which copies all", took / copied)
    imported, numpy = _process(_VIEWS), _process("import numpy")
    row("import of views, whole process", imported * 1e3, "ms", "import numpy", imported / numpy)


def _append() -> None:
    found: list[tuple[int, int]] = []
    for number in range(_LOOPS):
        found.append((number, number))  # noqa: PERF401 - a step of a plain loop


def _best(what: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(repeats):
        began = perf_counter()
        what()
        times.append(perf_counter() - began)
    return min(times)


def _process(code: str) -> float:
    return _best(lambda: subprocess.run([sys.executable, "-c", code], check=True))
