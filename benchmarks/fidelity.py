"""Kernels against published times, line by line: the error of every point.

``python -m benchmarks.fidelity [--most 4MiB] [--write]`` prints the table; ``--write`` updates
the one in docs/fidelity.md. What NCCL and RCCL run follows from their choice, launch included, and nothing
is fitted. Of other kernels the time outside the simulated one (launch, prologue) is one fitted number for
each group.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import astranb as anb
from astranb.collectives import Collective
from astranb.core.units import size_bytes
from scripts.generated import write_generated

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "published.json"
TABLE = "python -m benchmarks.fidelity --write"
_STEP_US = 0.1
_MOST_US = 20.0


@dataclass
class Point:
    """A published time and the simulated one."""

    group: str
    size: str
    published_us: float
    fitted: bool
    held_out: bool
    simulated_us: float = 0.0
    overhead_us: float = 0.0
    seconds: float = 0.0

    @property
    def error(self) -> float:
        """Relative error, fitted overhead included."""
        return (self.simulated_us + self.overhead_us) / self.published_us - 1


def simulate(group: dict[str, Any], size: str) -> float:
    """Return the time of a group's kernel, or of what its library would run, in µs, line by line."""
    infra = group["infra"]
    if infra.endswith(".yaml"):
        infra = str(DATA.parent / "infragraph" / infra)
    if group.get("library"):
        choice = anb.collectives.library_choice(infra, group["collective"], size)
        launch = {"graph": choice.launched("graph"), "kernel": "none"}
        return _time_us(infra, choice.to_run(), launch.get(group["timed"], choice.launch))
    channels = None if size_bytes(size) < 2**20 else group["channels"]
    wanted = [
        Collective.of(group["collective"], size, group["algorithm"], protocol=protocol, channels=channels)
        for protocol in group["protocols"]
    ]
    return min(_time_us(infra, one, "none") for one in wanted)


def _time_us(infra: str, collective: Collective, launch: str) -> float:
    sim = anb.Simulation(infra, collective, launch=launch, record=False, checkpoint_bytes=0)
    sim.run()
    return sim.result.time_ps / 1e6


def points(most: int) -> Iterator[Point]:
    """Simulate every published point up to a size."""
    for group in json.loads(DATA.read_text(encoding="utf-8"))["groups"]:
        for size, published_us, role in group["points"]:
            if size_bytes(size) > most:
                continue
            began = perf_counter()
            point = Point(group["name"], size, published_us, role == "fit", group.get("held_out", False))
            point.simulated_us = simulate(group, size)
            point.seconds = perf_counter() - began
            yield point


def fit(found: list[Point]) -> None:
    """Set the overhead of each group to minimize the mean error of its fitted points."""
    groups: dict[str, list[Point]] = defaultdict(list)
    for point in found:
        groups[point.group].append(point)
    for members in groups.values():
        fitted = [p for p in members if p.fitted]

        def cost(overhead_us: float, fitted: list[Point] = fitted) -> float:
            return sum(abs((p.simulated_us + overhead_us) / p.published_us - 1) for p in fitted)

        tries = [k * _STEP_US for k in range(int(_MOST_US / _STEP_US) + 1)]
        best = min(tries, key=cost) if fitted else 0.0
        for point in members:
            point.overhead_us = best


def table(found: list[Point]) -> str:
    """Return the points and the mean absolute error of each group as Markdown."""
    rows = [
        "| system and collective | size | published µs | simulated µs | + fitted µs | error |",
        "|---|---|---|---|---|---|",
    ]
    for p in found:
        mark = " (used for fitting)" if p.fitted else " (held out)" if p.held_out else ""
        rows.append(
            f"| {p.group} | {p.size} | {p.published_us:g} | {p.simulated_us:.1f} "
            f"| {p.overhead_us:.1f} | {p.error:+.0%}{mark} |"
        )
    rows += ["", "| system and collective | points not fitted | mean absolute error |", "|---|---|---|"]
    names = list(dict.fromkeys(p.group for p in found))
    parts = {name: [p for p in found if p.group == name] for name in names}
    parts["all known while building"] = [p for p in found if not p.held_out]
    parts["all held out"] = [p for p in found if p.held_out]
    for name, members in parts.items():
        free = [abs(p.error) for p in members if not p.fitted]
        if free:
            rows.append(f"| {name} | {len(free)} | {sum(free) / len(free):.0%} |")
    return "\n".join(rows)


def main(arguments: list[str]) -> None:
    """Print the table and update the document."""
    most = "128MiB"
    if "--most" in arguments:
        most = arguments[arguments.index("--most") + 1]
    found = []
    for point in points(size_bytes(most)):
        found.append(point)
        print(f"{point.group}, {point.size}: {point.seconds:.1f} s", file=sys.stderr)
    fit(found)
    text = table(found)
    print(text)
    if "--write" in arguments:
        write_generated(TABLE, text)


if __name__ == "__main__":
    main(sys.argv[1:])
