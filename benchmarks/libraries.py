"""Libraries as they run by default against published tables of nccl-tests and rccl-tests.

``python -m benchmarks.libraries [--most 16MiB] [--only ID] [--write]`` simulates the rows of
``astranb/hardware/measured/collectives.csv`` that blueprints describe, at every power of four: algorithm,
protocol, channels and launch as ``astranb run collective`` chooses them, line by line, nothing fitted.
With ``--fidelity congestion`` by messages with the library's costs, to 1 GiB in seconds; large sizes by lines
take minutes with ``--coalesce 16``.
``--write`` renews the table in docs/fidelity.md, and what README.md says of it; with ``--only`` these rows
alone, and the means.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Final, NamedTuple

import astranb as anb
from astranb.core.units import format_bytes, size_bytes
from astranb.hardware import MeasuredCollective, measured_collectives
from scripts.generated import README, generated, write_generated

TABLE: Final = "python -m benchmarks.libraries --write"
BY_MESSAGES: Final = "python -m benchmarks.libraries --fidelity congestion --most 1GiB --write"

_OWN_TRANSPORT: Final = ("p5:", "a3-mega:")
"""Clouds whose networks have a transport of their own, as a row's network begins."""


@dataclass(frozen=True)
class Point:
    """A measured and a simulated time."""

    row: MeasuredCollective
    size: int
    choice: str
    simulated_us: float
    seconds: float

    @property
    def error(self) -> float:
        """Relative error of the simulated time."""
        return self.simulated_us / self.row.times_us[self.size] - 1


def rows() -> list[MeasuredCollective]:
    """Return the tables that blueprints describe, of the kernels that libraries run by default."""
    return [one for one in measured_collectives() if one.infra and one.by_default]


def sizes_of(row: MeasuredCollective) -> list[int]:
    """Return the powers of four that were measured."""
    return [size for size in row.times_us if size >= row.least_bytes and size.bit_length() % 2 == 1]


def simulate(row: MeasuredCollective, size: int, fidelity: str = "cacheline", coalesce: int = 1) -> Point:
    """Run what the library runs for one size, by cache lines perhaps several as one request."""
    began = perf_counter()
    sim = anb.explore.library_run(
        row.infra,
        row.collective,
        size,
        gpu=row.gpu,
        fidelity=fidelity,
        in_graph=row.in_graph,
        coalesce=coalesce,
    )
    sim.run()
    name = fidelity
    if fidelity == "cacheline":
        found = anb.collectives.library_choice(row.infra, row.collective, size, gpu=row.gpu)
        name = f"{found.algorithm}/{found.protocol}" + (f" x{coalesce}" if coalesce > 1 else "")
    return Point(row, size, name, sim.now_us, perf_counter() - began)


def main(arguments: list[str]) -> None:
    """Print each point, then the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.libraries")
    parser.add_argument("--most", default="16MiB", help="largest size (default: 16MiB)")
    parser.add_argument("--fidelity", default="cacheline", help="or congestion, analytical")
    parser.add_argument("--coalesce", type=int, default=1, help="cache lines as one request: not exact")
    parser.add_argument("--least", default="1", help="smallest size (default: all)")
    parser.add_argument("--only", action="append", help="a row's id; may be repeated")
    parser.add_argument("--write", action="store_true", help="renew the table of docs/fidelity.md")
    args = parser.parse_args(arguments)
    found = []
    by_messages = args.fidelity != "cacheline"
    for row in rows():
        if (args.only and row.id not in args.only) or (by_messages and row.collective == "send_recv"):
            continue
        for size in sizes_of(row):
            if not size_bytes(args.least) <= size <= size_bytes(args.most):
                continue
            point = simulate(row, size, args.fidelity, args.coalesce)
            found.append(point)
            measured = row.times_us[size]
            print(
                f"{row.id:<26} {format_bytes(size):>8} {point.choice:<20} {point.simulated_us:9.2f} "
                f"{measured:9.2f} {point.error:+7.1%} {point.seconds:5.1f} s",
                file=sys.stderr, flush=True,
            )  # fmt: skip
    whose = BY_MESSAGES if by_messages else TABLE
    lines = _lines(found)
    if args.only and args.write:
        lines = _lines_of(generated(whose)) | lines
    text = table(lines)
    print(text)
    if args.write:
        write_generated(whose, text)
        if not by_messages:
            write_generated(TABLE, summary(text), README)


class Line(NamedTuple):
    """A published table as a line of ours.

    Attributes
    ----------
    points : int
    mean : float
        Of the errors.
    worst, blind : str
    """

    points: int
    mean: float
    worst: str
    blind: str


def _lines(found: list[Point]) -> dict[str, Line]:
    """Return the line of each published table."""
    lines = {}
    for row in {point.row.id: point.row for point in found}.values():
        mine = [point for point in found if point.row.id == row.id]
        worst = max(mine, key=lambda point: abs(point.error))
        mean = sum(abs(point.error) for point in mine) / len(mine)
        worst_text = f"{worst.error:+.0%} at {format_bytes(worst.size)}"
        lines[row.id] = Line(len(mine), mean, worst_text, "all" if row.blind else "none")
    return lines


def _lines_of(text: str) -> dict[str, Line]:
    """Read the lines of a table as it stands."""
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines()[2:]]
    return {
        name: Line(int(points), int(mean.rstrip("%")) / 100, *others)
        for name, points, mean, *others in cells
        if not name.startswith("**")
    }


def table(lines: dict[str, Line]) -> str:
    """Return a row for each published table as Markdown, then the means over all points."""
    found = ["| published table | points | mean error | worst | of which blind |", "|---|---|---|---|---|"]
    order = [row for row in rows() if row.id in lines]
    for row in order:
        one = lines[row.id]
        found.append(f"| {row.id} | {one.points} | {one.mean:.0%} | {one.worst} | {one.blind} |")
    groups = {
        "one box": [row.id for row in order if row.boxes == 1],
        "2 to 4 boxes": [
            row.id for row in order if row.boxes > 1 and not row.network.startswith(_OWN_TRANSPORT)
        ],
        "2 boxes, a cloud's own transport": [
            row.id for row in order if row.network.startswith(_OWN_TRANSPORT)
        ],
    }
    for name, ids in groups.items():
        if points := sum(lines[one].points for one in ids):
            mean = sum(lines[one].points * lines[one].mean for one in ids) / points
            found.append(f"| **{name}** | {points} | {mean:.0%} | | |")
    return "\n".join(found)


def summary(text: str) -> str:
    """Return the groups of such a table in words: how many points, and the mean error of each group."""
    groups = re.findall(r"^\| \*\*(.+?)\*\* \| (\d+) \| (\d+)% \|", text, re.MULTILINE)
    points = sum(int(count) for _, count, _ in groups)
    errors = "; ".join(f"{name} {error} %" for name, _, error in groups)
    page = "docs/fidelity.md#libraries-as-they-run"
    return f"[{points} points]({page}) of nccl-tests and rccl-tests, mean error: {errors}"


if __name__ == "__main__":
    main(sys.argv[1:])
