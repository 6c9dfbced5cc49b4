"""Libraries as they run by default against published tables of nccl-tests and rccl-tests.

``python -m benchmarks.libraries [--most 16MiB] [--only ID] [--write]`` simulates the rows of
``tests/data/published/collectives.csv`` that blueprints describe, at every power of four: algorithm,
protocol, channels and launch as ``astranb run`` chooses them, line by line, nothing fitted. ``--write``
renews the table in docs/fidelity.md, and what README.md says of it.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

import astranb as anb
from astranb.core.units import size_bytes

from .generated import README, write_generated

DATA: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "published" / "collectives.csv"
TABLE: Final = "python -m benchmarks.libraries --write"

_SERVERS: Final = {
    "a100-sxm": "dgx-a100",
    "a100-sxm-40": "dgx-a100",
    "h100-sxm": "dgx-h100",
    "h200-sxm": "dgx-h100",
    "h800-sxm": "dgx-h800",
    "h20": "dgx-h20",
    "b200-sxm": "dgx-b200",
    "mi300x": "mi300x",
}
"""The servers whose links the boxes of each GPU have."""
_PRESETS: Final = {"a100-sxm-40": "a100-sxm"}  # half the memory, whose bandwidth matters to no row here
_NIC_GBPS: Final = {"dgx-a100": 25}  # of each of the eight NICs; of the others' 50
_CLOUDS: Final = {"p5": "p5", "a3-mega": "a3-mega"}
_OTHER: Final = ("symmetric", "tuner")  # kernels or choices that are not the library's default
_HOST_LIMIT: Final = 2**24
"""Below this, rows that one process launches for all GPUs, or PyTorch, show the host's time."""


@dataclass(frozen=True)
class Row:
    """A published table: what ran where, and the times by size."""

    id: str
    blind: bool
    infra: str
    gpu: str
    cloud: str
    boxes: int
    collective: str
    launch: str
    least_bytes: int
    times_us: dict[str, float]

    @property
    def sizes(self) -> list[str]:
        """The powers of four that were measured."""
        found = [size for size in self.times_us if size_bytes(size) >= self.least_bytes]
        return [size for size in found if (size_bytes(size).bit_length() - 1) % 2 == 0]


@dataclass(frozen=True)
class Point:
    """A measured and a simulated time."""

    row: Row
    size: str
    choice: str
    simulated_us: float
    seconds: float

    @property
    def error(self) -> float:
        """Relative error of the simulated time."""
        return self.simulated_us / self.row.times_us[self.size] - 1


def rows() -> Iterator[Row]:
    """Yield the tables that blueprints describe."""
    with DATA.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            words = f"{line['library']} {line['settings']} {line['network']}"
            server, boxes = _SERVERS.get(line["gpu"]), int(line["boxes"])
            cloud = next((name for word, name in _CLOUDS.items() if line["network"].startswith(word)), None)
            whole = int(line["gpus"]) == 8 * boxes
            plain = (
                "8 x " in line["network"] and f" {_NIC_GBPS.get(server or '', 50)} GB/s" in line["network"]
            )
            if server is None or not whole or any(word in words for word in _OTHER):
                continue
            if boxes > 1 and not (cloud or plain):
                continue
            hosted = "one process" in words or "PyTorch" in words
            yield Row(
                id=line["id"],
                blind=line["use"] == "blind",
                infra=f"single-tier:servers={boxes},server={cloud or server}" if boxes > 1 else server,
                gpu=_PRESETS.get(line["gpu"], line["gpu"]),
                cloud=cloud or "",
                boxes=boxes,
                collective=line["collective"],
                launch="graph" if "in a graph" in words else "",
                least_bytes=_HOST_LIMIT if hosted else 0,
                times_us={
                    name: float(us)
                    for name, us in line.items()
                    if name and name.endswith(("KiB", "MiB", "GiB")) and us
                },
            )


def simulate(row: Row, size: str) -> Point:
    """Run what the library runs for one size."""
    began = perf_counter()
    choice = anb.collectives.library_choice(row.infra, row.collective, size, gpu=row.gpu)
    sim = anb.Simulation(
        row.infra,
        choice.to_run(),
        gpu=row.gpu,
        launch=choice.launched(row.launch),
        network=anb.Network(proxy_ps=choice.proxy_ps),
        record=False,
        checkpoint_bytes=0,
    )
    sim.run()
    name = f"{choice.algorithm}/{choice.protocol}"
    return Point(row, size, name, sim.result.time_ps / 1e6, perf_counter() - began)


def main(arguments: list[str]) -> None:
    """Print each point, then the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.libraries")
    parser.add_argument("--most", default="16MiB", help="largest size (default: 16MiB)")
    parser.add_argument("--only", action="append", help="a row's id; may be repeated")
    parser.add_argument("--write", action="store_true", help="renew the table of docs/fidelity.md")
    args = parser.parse_args(arguments)
    found = []
    for row in rows():
        if args.only and row.id not in args.only:
            continue
        for size in row.sizes:
            if size_bytes(size) > size_bytes(args.most):
                continue
            point = simulate(row, size)
            found.append(point)
            measured = row.times_us[size]
            print(
                f"{row.id:<26} {size:>8} {point.choice:<16} {point.simulated_us:9.2f} "
                f"{measured:9.2f} {point.error:+7.1%} {point.seconds:5.1f} s",
                file=sys.stderr, flush=True,
            )  # fmt: skip
    text = table(found)
    print(text)
    if args.write:
        write_generated(TABLE, text)
        write_generated(TABLE, summary(text), README)


def table(found: list[Point]) -> str:
    """Return a row for each published table as Markdown, then the means."""
    lines = ["| published table | points | mean error | worst | of which blind |", "|---|---|---|---|---|"]
    for row in dict.fromkeys(point.row.id for point in found):
        mine = [point for point in found if point.row.id == row]
        worst = max(mine, key=lambda point: abs(point.error))
        share = "all" if mine[0].row.blind else "none"
        lines.append(
            f"| {row} | {len(mine)} | {_mean(mine):.0%} | {worst.error:+.0%} at {worst.size} | {share} |"
        )
    groups = {
        "one box": [point for point in found if point.row.boxes == 1],
        "2 to 4 boxes": [point for point in found if point.row.boxes > 1 and not point.row.cloud],
        "2 boxes, a cloud's own transport": [point for point in found if point.row.cloud],
    }
    for name, mine in groups.items():
        if mine:
            lines.append(f"| **{name}** | {len(mine)} | {_mean(mine):.0%} | | |")
    return "\n".join(lines)


def summary(text: str) -> str:
    """Return the groups of such a table in words: how many points, and the mean error of each group."""
    groups = re.findall(r"^\| \*\*(.+?)\*\* \| (\d+) \| (\d+)% \|", text, re.MULTILINE)
    points = sum(int(count) for _, count, _ in groups)
    errors = "; ".join(f"{name} {error} %" for name, _, error in groups)
    page = "docs/fidelity.md#libraries-as-they-run"
    return f"[{points} points]({page}) of nccl-tests and rccl-tests, mean error: {errors}"


def _mean(points: list[Point]) -> float:
    return sum(abs(point.error) for point in points) / len(points)


if __name__ == "__main__":
    main(sys.argv[1:])
