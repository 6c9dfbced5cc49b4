"""Simulated against published times: one fitted number per group, the error of every point.

``python -m benchmarks.fidelity [--most 4MiB] [--write]`` prints the table; ``--write`` updates
the one in docs/fidelity.md. The fitted number is the time outside the simulated kernel: the launch,
the library's prologue and, for device times, the setup of the kernel.
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

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "published.json"
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "fidelity.md"
_BEGIN, _END = "<!-- table: python -m benchmarks.fidelity --write -->", "<!-- end of the table -->"
_COALESCED = ((2**28, 8), (2**26, 4))  # from this number of bytes on, lines per request
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
    """Return the time of the group's fastest protocol in µs; from 1 MiB on, with the library's channels."""
    channels = None if size_bytes(size) < 2**20 else group["channels"]
    infra = (
        group["infra"]
        if not group["infra"].endswith(".yaml")
        else DATA.parent / "infragraph" / group["infra"]
    )
    coalesce = next((lines for least, lines in _COALESCED if size_bytes(size) >= least), 1)
    best = float("inf")
    for protocol in group["protocols"]:
        if protocol != "Simple" and size_bytes(size) > 2**20 and len(group["protocols"]) > 1:
            continue  # outside its range and slow to simulate
        wanted = Collective.of(
            group["collective"], size, group["algorithm"], protocol=protocol, channels=channels
        )
        network = anb.Network(coalesce=coalesce)
        sim = anb.Simulation(infra, wanted, record=False, checkpoint_bytes=0, network=network)
        sim.run()
        best = min(best, sim.result.time_ps / 1e6)
    return best


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
    most = "1GiB"
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
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(_BEGIN)
        after = rest.partition(_END)[2]
        DOCUMENT.write_text(f"{before}{_BEGIN}\n\n{text}\n\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
