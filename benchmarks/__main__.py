"""``make bench``: every figure with a ratio to something measured in the same run."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from math import isfinite
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import astranb as anb
from astranb.collectives import Collective

from . import NotMeasured, attempted
from .astrasim2 import astrasim2
from .bare_queue import events_per_second
from .browser import PARTS as BROWSER
from .browser import browser
from .chakra_files import chakra_files
from .corpus import corpus
from .data_centre import data_centre
from .explaining import explaining
from .hostile import hostile
from .hosts import in_node
from .kernels import kernels
from .large import large
from .prototyping import prototyping
from .routes import routes
from .suggestions import suggestions
from .sweeps import sweeps
from .synthesis import synthesis
from .timelines import lod
from .traffic import traffic
from .waiting import waiting
from .wheel import first_step, install_wheel

_RESIDENT = """
import astranb as anb
from benchmarks.resident import most_resident
sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("1 MiB", "ring"))
sim.run()
anb.Workbench(sim).feed.state(fine=True)
print(most_resident())
"""
"""A whole process with recorder, history and the data that a browser is sent."""

_RUN = ["run", "collective", "all_reduce", "--infra", "dgx-h100", "--size", "1MiB", "--json"]


def main() -> int:
    """Print the table; ``--json`` prints it as one document. Exit code 1: a part has measured nothing."""
    parser = argparse.ArgumentParser(prog="make bench", description=main.__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-browser", action="store_true", help="skip rows that need a browser")
    parser.add_argument("--no-large", action="store_true", help="skip runs that take a minute each")
    parser.add_argument(
        "--only",
        metavar="PART",
        nargs="+",
        default=[],
        choices=[*_PARTS, *BROWSER],
        help="only these parts: %(choices)s",
    )
    options = parser.parse_args()
    _as_from_a_terminal()
    rows: list[dict[str, Any]] = []

    def row(what: str, value: float, unit: str, against: str = "", ratio: float | None = None) -> None:
        if not isfinite(value):
            raise NotMeasured(what)
        rows.append({"what": what, "value": value, "unit": unit, "against": against, "ratio": ratio})
        if not options.json:
            shown = f"{value:>12,.3f}" if value < 1000 else f"{value:>12,.0f}"
            compared = f"{ratio:8.2f} x {against}" if ratio is not None else against
            print(f"{what:<58}{shown} {unit:<12}{compared}", flush=True)

    bare = events_per_second()
    row("bare queue loop (the yardstick)", bare, "events/s")
    complete = True
    for name, part in _PARTS.items():
        if name in options.only or not (options.only or (options.no_large and name in _LARGE)):
            complete &= attempted(name, partial(part, row, bare))
    shown = [name for name in BROWSER if name in options.only]
    if shown or not (options.only or options.no_browser):
        subprocess.run(["sh", "scripts/browser.sh", "--install"], check=True, stdout=subprocess.DEVNULL)
        complete &= browser(row, shown)
    if options.json:
        print(json.dumps(rows))
    return 0 if complete else 1


def _as_from_a_terminal() -> None:
    """Restore a terminal's settings for processes: compiled modules are kept, and Ctrl-C is not ignored.

    A shell's background job ignores Ctrl-C, and so does every process that it starts.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def fidelity(row: Any, _bare: float) -> None:
    """Measure errors against published times up to 1 MiB; docs/fidelity.md has all of them."""
    from .fidelity import fit, points

    found = list(points(2**20))
    fit(found)
    for what, wanted in (("known while building", False), ("held out", True)):
        free = [abs(p.error) for p in found if not p.fitted and p.held_out == wanted]
        row(f"mean error of {len(free)} published times, {what}", 100 * sum(free) / len(free), "%", "15 %")


def engine(row: Any, bare: float) -> None:
    """Measure events and line hops per second of the engine, beside the bare loop."""
    for algorithm in ("ring", "allpairs", "allpairs_oneshot"):
        for record in (False, True):
            sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("1 MiB", algorithm), record=record)
            sim.step(1)
            best = float("inf")
            for _ in range(3):
                sim.reset()
                began = perf_counter()
                sim.run()
                best = min(best, perf_counter() - began)
            how = "recording" if record else "not recording"
            row(
                f"8 GPUs, 1 MiB {algorithm}, {how}",
                sim.events / best,
                "events/s",
                "bare queue",
                sim.events / best / bare,
            )
            hops = int(sim.engine.machine.clock[0].hops)
            row(
                f"8 GPUs, 1 MiB {algorithm}, {how}",
                hops / best,
                "line hops/s",
                "bare queue",
                hops / best / bare,
            )
    sim = anb.Simulation("dgx-h100", Collective.of("all_reduce", "1 MiB", "ring"))
    sim.run()
    began = perf_counter()
    sim.back(100_000)
    took = perf_counter() - began
    replay = 100_000 / bare
    row("back over 100,000 events", took * 1e3, "ms", "the same events of the bare queue", took / replay)


def processes(row: Any, _bare: float) -> None:
    """Measure whole processes: import, a run, the first compilation."""
    empty = _process(["-c", "pass"])
    row("an empty Python process", empty, "s")
    imported = _process(["-c", "import astranb"])
    row("import astranb, whole process (limit 0.6 s)", imported, "s", "empty process", imported / empty)
    for algorithm in ("ring", "allpairs"):
        took = _process(["-m", "astranb", *_RUN, "--algorithm", algorithm])
        row(
            f"astranb run 1 MiB {algorithm}, whole process (limit 1.5 s)",
            took,
            "s",
            "empty process",
            took / empty,
        )
    if sys.platform == "linux":
        printed = subprocess.run([sys.executable, "-c", _RESIDENT], check=True, capture_output=True).stdout
        resident = int(printed)
        row(
            "peak memory of a recorded 1 MiB run",
            resident / 1e6,
            "MB",
            "the limit of 500 MB",
            resident / 500e6,
        )
    with tempfile.TemporaryDirectory() as folder:
        cold = _process(["-m", "astranb", *_RUN, "--algorithm", "ring"], repeats=1, ASTRANB_CACHE_DIR=folder)
    row("the same with a cold compile (limit 30 s)", cold, "s", "empty process", cold / empty)
    with tempfile.TemporaryDirectory() as folder:
        site, cache = install_wheel(Path(folder)), Path(folder, "cache")
        cache.mkdir()
        first_step(site, cache)  # writes Python's own caches
        took = median(first_step(site, cache)[0] for _ in range(5))
    row("wheel installed, empty cache: import to first step (limit 2 s)", took, "s", "the limit", took / 2)


def infrastructure(row: Any, _bare: float) -> None:
    """Measure the expansion of a large InfraGraph document."""
    text = data_centre()
    began = perf_counter()
    graph = anb.infragraph.load(text).expand()
    took = perf_counter() - began
    row(
        f"InfraGraph: {len(graph.gpus):,} GPUs read and expanded (limit 1 s)",
        took,
        "s",
        "48.7 s of the infragraph package (recorded)",
        took / 48.7,
    )


def _process(arguments: list[str], repeats: int = 5, **environment: str) -> float:
    """Return the median seconds of a whole Python process, after one that warms the disk cache."""
    took = []
    for _ in range(repeats + (repeats > 1)):
        began = perf_counter()
        subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, **environment},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        took.append(perf_counter() - began)
    return median(took[-repeats:])


_PARTS: dict[str, Callable[[Any, float], None]] = {
    "engine": engine,
    "processes": processes,
    "infrastructure": infrastructure,
    "fidelity": fidelity,
    "astrasim2": lambda row, _: astrasim2(row),
    "explaining": explaining,
    "waiting": waiting,
    "suggestions": suggestions,
    "synthesis": synthesis,
    "chakra": chakra_files,
    "corpus": lambda row, _: corpus(row),
    "sweeps": lambda row, _: sweeps(row),
    "timelines": lambda row, _: lod(row),
    "kernels": kernels,
    "prototyping": prototyping,
    "traffic": traffic,
    "large": large,
    "routes": routes,
    "hosts": in_node,
    "hostile": lambda row, _: hostile(row),
}
"""The parts of the table that need no browser, by name."""

_LARGE = ("explaining", "kernels", "traffic", "large", "routes", "hostile", "prototyping", "sweeps")


if __name__ == "__main__":
    sys.exit(main())
