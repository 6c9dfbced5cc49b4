"""The large runs, line by line: seconds, events, lines and simulated time per second, and memory.

``python -m benchmarks.large NUMBER`` prints the JSON document of one run, ``python -m benchmarks.large build
SERVERS`` that of building one; ``make bench`` runs all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from time import perf_counter
from typing import Any

from .resident import most_resident

RUNS = (
    # what, infrastructure, collective, size, algorithm, channels, lines per request, limit in seconds
    ("8 GPUs, 64 MiB two-shot all-reduce", "dgx-h100", "all_reduce", "64MiB", "allpairs", None, 1, 20.0),
    ("64 GPUs, 16 MiB", "single-tier:servers=8", "all_reduce", "16MiB", "hierarchical", 16, 1, 60.0),
    ("16 generic GPUs, 16 MiB all-gather", "generic:gpus=16", "all_gather", "16MiB", "allpairs", 60, 1, 60.0),
    ("128 generic GPUs, 1 MiB all-gather", "generic:gpus=128", "all_gather", "1MiB", "allpairs", 4, 1, None),
    ("8 GPUs, 64 MiB ring", "dgx-h100", "all_reduce", "64MiB", "ring", None, 1, None),
    ("8 GPUs, 64 MiB ring, 8 lines a request", "dgx-h100", "all_reduce", "64MiB", "ring", None, 8, 3.0),
    ("8 GPUs, 1 GiB ring, 8 lines a request", "dgx-h100", "all_reduce", "1GiB", "ring", None, 8, 60.0),
)  # fmt: skip

BUILD_LIMIT_S = 20.0


def measure(
    infra: str, collective: str, size: str, algorithm: str, channels: int | None, coalesce: int
) -> dict[str, Any]:
    """Measure one run in this process."""
    import astranb as anb
    from astranb.collectives import Collective

    wanted = Collective.of(collective, size, algorithm, channels=channels)
    began = perf_counter()
    network = anb.Network(coalesce=coalesce)
    sim = anb.Simulation(infra, wanted, record=False, checkpoint_bytes=0, network=network)
    sim.run()
    took = perf_counter() - began
    moved = int((sim.engine.machine.ops["lines"] * sim.engine.machine.ops["targets"]).sum())
    return {
        "seconds": took,
        "events": sim.events,
        "lines": moved,
        "simulated_ns": sim.result.time_ps / 1e3,
        "resident": most_resident(),
    }


def measure_build(servers: int) -> dict[str, Any]:
    """Measure building a hierarchical all-reduce on a Clos network in this process, and its first step."""
    import astranb as anb

    wanted = anb.collectives.all_reduce("64 KiB", "hierarchical")
    anb.Simulation("clos:servers=2", wanted)  # loads what any run needs
    began = perf_counter()
    sim = anb.Simulation(f"clos:servers={servers}", wanted)
    built = perf_counter()
    sim.step(1)
    stepped = perf_counter()
    operations = len(sim.engine.machine.ops)
    return {
        "seconds": built - began,
        "step": stepped - built,
        "operations": operations,
        "resident": most_resident(),
    }


def large(row: Any, bare: float) -> None:
    """Measure every large run in a process of its own."""
    took: dict[Any, float] = {}
    for number, run in enumerate(RUNS):
        what, coalesce, limit = run[0], run[6], run[7]
        found = _in_process(str(number))
        seconds = found["seconds"]
        against = f"the limit of {limit:g} s" if limit else ""
        row(what, seconds, "s", against, seconds / limit if limit else None)
        rate = found["events"] / seconds
        row(f"  {found['events'] / 1e6:,.0f} million events", rate, "events/s", "bare queue", rate / bare)
        row(f"  {found['lines'] / 1e6:,.1f} million stores", found["lines"] / seconds, "requests/s")
        row("  simulated time", found["simulated_ns"] / seconds, "ns/s")
        exact = took.setdefault(run[1:6], found["simulated_ns"] if coalesce == 1 else 0.0)
        if coalesce > 1 and exact:
            row("  simulated time, relative to line by line", found["simulated_ns"] / exact, "")
        row("  peak memory", found["resident"] / 1e6, "MB", "8 GiB", found["resident"] / 2**33)
    small, found = _in_process("build", "32"), _in_process("build", "128")
    each = [one["seconds"] / one["operations"] for one in (small, found)]
    what = "1,024-GPU Clos, 64 KiB hierarchical all-reduce: built"
    against = f"the limit of {BUILD_LIMIT_S:g} s"
    row(what, found["seconds"], "s", against, found["seconds"] / BUILD_LIMIT_S)
    row("  for one of its operations", each[1] * 1e6, "us", "256 GPUs", each[1] / each[0])
    row(
        "  first step, with the checkpoint",
        found["step"],
        "s",
        "building it",
        found["step"] / found["seconds"],
    )
    row("  peak memory", found["resident"] / 1e6, "MB", "8 GiB", found["resident"] / 2**33)


def _in_process(*arguments: str) -> dict[str, Any]:
    """Run a measurement in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.large", *arguments]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


if __name__ == "__main__":
    building = sys.argv[1] == "build"
    print(json.dumps(measure_build(int(sys.argv[2])) if building else measure(*RUNS[int(sys.argv[1])][1:7])))
