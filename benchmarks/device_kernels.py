"""Kernels whose program is public line by line, simulated against their published times.

``python -m benchmarks.device_kernels [--write]`` runs ``tests/data/published/device_kernels.csv``:
kernels on NCCL's device API, 4 CTAs, in a graph, and kernels of libraries, which choose them by their own
rules (no algorithm is given). Bytes are of the message, of an exchange those of a pair. ``--write`` renews
the table in docs/fidelity.md.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import astranb as anb
from astranb.collectives import Collective, library_choice
from astranb.infragraph import blueprint
from scripts.generated import write_generated

DATA: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "published" / "device_kernels.csv"
TABLE: Final = "python -m benchmarks.device_kernels --write"
_CTAS: Final = 4
_ELEMENT: Final = 16  # bytes that a thread moves at least; CTAs without any have nothing to do


def rows() -> Iterator[dict[str, str]]:
    """Read the published rows."""
    with DATA.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def simulated_us(row: dict[str, str]) -> float:
    """Return the simulated time of a row, in microseconds."""
    if not row["algorithm"]:
        choice = library_choice(row["infra"], row["collective"], int(row["bytes"]), library=row["kernel"])
        return _run_us(row["infra"], choice.to_run(), choice.launch)
    ranks = len(blueprint(row["infra"]).expand().gpus)
    size = int(row["bytes"]) * (ranks if row["collective"] == "all_to_all" else 1)
    parts = ranks if row["collective"] == "all_to_all" or "twoshot" in row["algorithm"] else 1
    work = Collective.of(
        row["collective"], size, row["algorithm"], channels=min(_CTAS, max(1, size // parts // _ELEMENT))
    )
    return _run_us(row["infra"], work, "graph")


def _run_us(infra: str, work: Collective, launch: str) -> float:
    sim = anb.Simulation(infra, work, launch=launch, record=False, checkpoint_bytes=0)
    sim.run()
    return float(sim.result.time_ps / 1e6)


def table() -> str:
    """Run all rows; return a line for each kernel and machine as Markdown."""
    found: dict[tuple[str, str], list[tuple[str, float, float]]] = defaultdict(list)
    for row in rows():
        found[row["kernel"], row["infra"]].append((row["bytes"], float(row["us"]), simulated_us(row)))
    lines = ["| kernel | machine | points | mean error | worst |", "|---|---|---|---|---|"]
    for (kernel, infra), points in found.items():
        errors = [(ours / theirs - 1, size) for size, theirs, ours in points]
        mean = sum(abs(error) for error, _ in errors) / len(errors)
        worst, size = max(errors, key=lambda one: abs(one[0]))
        lines.append(f"| {kernel} | {infra} | {len(points)} | {mean:.0%} | {worst:+.0%} at {size} B |")
    return "\n".join(lines)


if __name__ == "__main__":
    text = table()
    print(text)
    if "--write" in sys.argv:
        write_generated(TABLE, text)
