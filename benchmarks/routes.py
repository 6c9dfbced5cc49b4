"""Routes of whole messages between many ranks: built and run, each in a process of its own.

``python -m benchmarks.routes NUMBER`` prints the JSON document of one run; ``make bench`` runs all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from time import perf_counter
from typing import Any

RUNS = (
    # what, infrastructure, collective, algorithm
    ("1,024 ranks of a Clos, all-to-all by messages", "clos:servers=128", "all_to_all", "allpairs"),
    ("1,024 ranks on rails, all-to-all by messages", "rails:servers=128", "all_to_all", "allpairs"),
    ("4,096 ranks of a Clos, ring by messages", "clos:servers=512", "all_reduce", "ring"),
)
LIMIT_S = 20.0


def measure(infra: str, collective: str, algorithm: str) -> dict[str, float]:
    """Measure one run in this process, with compiled kernels."""
    import astranb as anb

    make = getattr(anb.collectives, collective)
    anb.Simulation("clos:servers=2", make("1 MiB", algorithm), fidelity="analytical").run()
    began = perf_counter()
    sim = anb.Simulation(infra, make("64 MiB", algorithm), fidelity="analytical", record=False)
    built = perf_counter()
    sim.run()
    return {"built": built - began, "run": perf_counter() - built, "events": sim.events}


def routes(row: Any, bare: float) -> None:
    """Measure all runs."""
    for number, (what, *_) in enumerate(RUNS):
        command = [sys.executable, "-m", "benchmarks.routes", str(number)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(printed)
        took = found["built"] + found["run"]
        row(what, took, "s", f"the limit of {LIMIT_S:g} s", took / LIMIT_S)
        row("  built", found["built"], "s", "run", found["built"] / found["run"])
        rate = found["events"] / found["run"]
        row(f"  {found['events'] / 1e6:,.1f} million events", rate, "events/s", "bare queue", rate / bare)


if __name__ == "__main__":
    print(json.dumps(measure(*RUNS[int(sys.argv[1])][1:])))
