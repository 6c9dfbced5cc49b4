"""Time and memory of profiling: from 8 to 16,384 ranks, and models of PyTorch that grow.

``python -m benchmarks.profiling [--torch]`` prints a table. Each row is a process of its own: its seconds are
those of profiling, saving and loading, its memory the most that was resident. ``--torch`` adds models that
PyTorch runs with fake tensors; it has to be installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from astranb.traffic import Profile, profile_model, profile_torch
from astranb.workload.models import Parallelism

from .resident import most_resident

COLUMNS = "| ranks | microbatches | operations | profile | save, load | file | memory |"


class Case(NamedTuple):
    """A job to profile: of a model with public sizes, or layers of Llama 3 405B's width in PyTorch."""

    name: str
    data: int
    tensor: int
    pipeline: int
    layers: int = 0

    @property
    def degrees(self) -> Parallelism:
        """Degrees of parallelism."""
        return Parallelism(
            self.data, self.tensor, self.pipeline, sequence=self.layers == 0 and self.tensor > 1
        )


def cases(*, with_torch: bool) -> Iterator[Case]:
    """Yield the jobs of the table."""
    for model in ("llama3-405b", "gpt3-175b"):
        yield Case(model, 1, 8, 1)
        for replicas in (1, 8, 32, 128):
            yield Case(model, replicas, 8, 16)
    if with_torch:
        for layers in (1, 2, 16, 126, 1024):
            yield Case("torch", 128, 8, min(16, layers), layers)


def profiled(case: Case) -> Profile:
    """Profile a job."""
    if not case.layers:
        return profile_model(case.name, case.degrees)
    from tests.traffic.profiles.torch_models import llama

    made = partial(llama, case.layers, 16384, 128, 8, 53248, 128256, 8192)
    return profile_torch(made, parallelism=case.degrees)


def measured(case: Case) -> dict[str, Any]:
    """Profile a job, save and load it; give the times in seconds, bytes, and the most resident."""
    begun = perf_counter()
    profile = profiled(case)
    took = perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.json"
        begun = perf_counter()
        profile.save(file)
        Profile.load(file)
        stored = perf_counter() - begun
        size = file.stat().st_size
    return {
        "ranks": profile.ranks, "operations": profile.step.nodes, "profile_s": took, "file_s": stored,
        "file_bytes": size, "resident_bytes": most_resident(),
        "microbatches": profile.assumptions["batch"].split(", ")[1].split()[0],
    }  # fmt: skip


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=__doc__)
    parser.add_argument("--torch", action="store_true", help="add models that PyTorch runs")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measured(Case(*json.loads(options.case)))))
        return 0
    print(f"| job {COLUMNS}\n|---{'|---:' * 7}|")
    for case in cases(with_torch=options.torch):
        command = [sys.executable, "-m", "benchmarks.profiling", "--case", json.dumps(case)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(run.stdout)
        name = case.name if not case.layers else f"PyTorch, {case.layers:,} layers"
        plan = f"TP {case.tensor}, PP {case.pipeline}, DP {case.data}"
        print(
            f"| {name}, {plan} | {row['ranks']:,} | {row['microbatches']} | {row['operations']:,} | "
            f"{row['profile_s']:.2f} s | {row['file_s']:.2f} s | {row['file_bytes'] / 1e6:.2f} MB | "
            f"{row['resident_bytes'] / 1e9:.2f} GB |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
