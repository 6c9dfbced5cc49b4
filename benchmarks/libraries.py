"""Libraries as they run by default against published tables of nccl-tests and rccl-tests.

``python -m benchmarks.libraries [--most 16MiB] [--only ID] [--write]`` simulates the rows of
``astranb/hardware/measured/collectives.csv`` that blueprints describe, at every power of four: algorithm,
protocol, channels and launch as ``astranb run collective`` chooses them, line by line, nothing fitted.
With ``--fidelity congestion`` (or ``analytical``) by messages with the library's costs, to 1 GiB in seconds;
large sizes by lines take minutes with ``--coalesce 16``.
``--write`` puts the points into ``tests/data/libraries.csv``, row by row, and what is made of them into
docs/fidelity.md and README.md; ``--page`` does the latter alone. The first times of a blind table stay.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

import astranb as anb
from astranb.core.units import format_bytes, size_bytes
from astranb.explore.calibration.expectation import period_us
from astranb.hardware import MeasuredCollective, measured_collectives
from scripts.generated import FIDELITY, README, write_generated

SUMMARY: Final = "python -m benchmarks.libraries --page"
BY_LINES: Final = "python -m benchmarks.libraries --write"
BY_MESSAGES: Final = "python -m benchmarks.libraries --fidelity congestion --most 1GiB --write"
POINTS: Final = Path(__file__).parents[1] / "tests" / "data" / "libraries.csv"
SIZES: Final = tuple(1 << power for power in range(10, 31, 2))
COARSE: Final = "cacheline, coarse"
FIRST: Final = ", first"
"""Behind a fidelity: the times of a blind table when it was first compared."""
FITTED: Final = {
    **dict.fromkeys(("h100-ar-p5-aws", "a100-ar-p4de-aws", "h100-ar-a3mega"), SIZES),
    **dict.fromkeys(("h200-ag-a3u-2", "h200-ag-a3u-2-sky"), SIZES),
    **dict.fromkeys(("mi300x-ar-rccl2223", "mi300x-ar-rccl2223-graph"), (1 << 10,)),
    **dict.fromkeys(("b200-ar-vultr", "b200-ag-vultr"), (1 << 12,)),
    "b200-sr-vultr": (1 << 20,),
}
"""Points that chose a number: *What is fitted* in docs/fidelity.md."""

_OWN_TRANSPORT: Final = ("p4de:", "p5:", "a3-mega:")
"""Clouds whose networks have a transport of their own, as a row's network begins."""
_GROUPS: Final = ("one box", "2 to 4 boxes", "2 boxes, a cloud's own transport")
_FIDELITIES: Final = {
    "by lines": ("cacheline", COARSE),
    "by messages": ("congestion",),
    "analytical": ("analytical",),
}
_ROLES: Final = ("blind", "known", "fitted")


@dataclass(frozen=True)
class Point:
    """A measured and a simulated time."""

    row: MeasuredCollective
    size: int
    fidelity: str
    simulated_us: float

    @property
    def error(self) -> float:
        """Relative error of the simulated time."""
        return self.simulated_us / self.row.times_us[self.size] - 1

    @property
    def role(self) -> str:
        """``blind`` as it was first compared, ``fitted`` where it chose a number, otherwise ``known``."""
        if self.fidelity.endswith(FIRST):
            return "blind"
        return "fitted" if self.size in FITTED.get(self.row.id, ()) else "known"

    @property
    def group(self) -> str:
        """Machines of its row."""
        if self.row.boxes == 1:
            return _GROUPS[0]
        return _GROUPS[2 if self.row.network.startswith(_OWN_TRANSPORT) else 1]


class Errors(NamedTuple):
    """Errors of some points, absolute but for the worst."""

    points: int
    median: float
    mean: float
    worst: float

    @staticmethod
    def of(points: Iterable[Point]) -> Errors:
        """Return those of some points; of none, zeros."""
        found = [point.error for point in points]
        if not found:
            return Errors(0, 0.0, 0.0, 0.0)
        each = [abs(error) for error in found]
        return Errors(len(found), median(each), sum(each) / len(each), max(found, key=abs))

    @property
    def text(self) -> str:
        """As a cell of a table."""
        if not self.points:
            return ""
        return f"{self.points}: {self.median:.0%}, {self.mean:.0%}, {self.worst:+.0%}"


def rows() -> list[MeasuredCollective]:
    """Return the tables that blueprints describe, of the kernels that libraries run by default."""
    return [one for one in measured_collectives() if one.infra and one.by_default]


def sizes_of(row: MeasuredCollective) -> list[int]:
    """Return the powers of four that were measured."""
    return [size for size in SIZES if size in row.times_us and size >= row.least_bytes]


def simulate(row: MeasuredCollective, size: int, fidelity: str = "cacheline", coalesce: int = 1) -> Point:
    """Run what the library runs for one size, by cache lines perhaps several as one request."""
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
    return Point(row, size, fidelity if coalesce == 1 else COARSE, period_us(sim, row.collective))


def points() -> list[Point]:
    """Return the committed points."""
    known = {row.id: row for row in rows()}
    with POINTS.open(encoding="utf-8", newline="") as file:
        return [
            Point(known[line["table"]], size, line["fidelity"], float(line[format_bytes(size)]))
            for line in csv.DictReader(file)
            for size in SIZES
            if line[format_bytes(size)]
        ]


def keep(point: Point, *, first: bool) -> None:
    """Put a point into the table of points; also as its table's first, if that is blind and had none."""
    times = {(one.row.id, one.fidelity, one.size): one.simulated_us for one in points()}
    times[point.row.id, point.fidelity, point.size] = point.simulated_us
    if first and point.row.blind and point.fidelity in ("cacheline", "congestion"):
        times[point.row.id, point.fidelity + FIRST, point.size] = point.simulated_us
    kinds = dict.fromkeys(kind for _, kind, _ in times)
    whole = POINTS.with_suffix(".new")  # so that nobody reads a part of it
    with whole.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["table", "fidelity", *map(format_bytes, SIZES)])
        for row in rows():
            for kind in sorted(kinds):
                mine = [times.get((row.id, kind, size)) for size in SIZES]
                if any(mine):
                    written = ("" if one is None else f"{one:.5g}" for one in mine)
                    writer.writerow([row.id, kind, *written])
    whole.replace(POINTS)


def table(fidelity: str, found: Iterable[Point]) -> str:
    """Return the errors of each published table by size, as they are now, as Markdown; *blind* at first."""
    kinds = _FIDELITIES[fidelity]
    mine = [point for point in found if point.fidelity in kinds]
    heads = [format_bytes(size) for size in SIZES]
    lines = [f"| table | {' | '.join(heads)} | mean |", "|---" * (len(SIZES) + 2) + "|"]
    for row in rows():
        own = {point.size: point for point in mine if point.row.id == row.id}
        if own:
            cells = (_cell(own[size]) if size in own else "" for size in SIZES)
            name = f"*{row.id}*" if row.blind else row.id
            lines.append(f"| {name} | {' | '.join(cells)} | {Errors.of(own.values()).mean:.0%} |")
    return "\n".join(lines)


def _cell(point: Point) -> str:
    """Return an error in percent; fitted ones in brackets, those of coarse runs with a tilde."""
    error = f"{'~' if point.fidelity == COARSE else ''}{100 * point.error:+.0f}"
    return f"({error})" if point.role == "fitted" else error


def summary(found: Iterable[Point]) -> str:
    """Return the errors of each group by role at each fidelity, as Markdown."""
    every = list(found)
    lines = ["| machines | fidelity | blind | known | fitted |", "|---|---|---|---|---|"]
    for group in _GROUPS:
        for fidelity, kinds in _FIDELITIES.items():
            cells = []
            for role in _ROLES:
                names = [kind + FIRST for kind in kinds] if role == "blind" else kinds
                mine = (one for one in every if one.fidelity in names and one.group == group)
                cells.append(Errors.of(one for one in mine if one.role == role).text)
            if any(cells):
                lines.append(f"| {group} | {fidelity} | {' | '.join(cells)} |")
    return "\n".join(lines)


def errors_of(fidelity: str, found: Iterable[Point], *groups: str, role: str = "") -> Errors:
    """Return the errors of groups at a fidelity; by default of all roles as they are now."""
    kinds = [kind + FIRST * (role == "blind") for kind in _FIDELITIES[fidelity]]
    return Errors.of(
        one
        for one in found
        if one.fidelity in kinds and one.group in (groups or _GROUPS) and role in ("", one.role)
    )


def words(found: Iterable[Point]) -> str:
    """Return what README.md says: points and mean errors by lines and by messages."""
    every = list(found)
    count = sum(1 for one in every if not one.fidelity.endswith(FIRST) and one.fidelity != "analytical")
    page = "docs/fidelity.md#libraries-as-they-run"
    said = [f"[{count} points]({page}) of nccl-tests and rccl-tests, mean error"]
    for fidelity in ("by lines", "by messages"):
        blind = errors_of(fidelity, every, role="blind")
        means = [f"{group} {errors_of(fidelity, every, group).mean:.0%}" for group in _GROUPS]
        first = [f"blind {blind.mean:.0%}"] if blind.points else []
        said.append(f"{fidelity}: {'; '.join([*first, *means])}")
    return " ".join([said[0], said[1] + ".", said[2][0].upper() + said[2][1:]]).replace("%", " %")


def blocks(found: Iterable[Point]) -> dict[tuple[str, Path], str]:
    """Return what is generated, by its command and its page."""
    every = list(found)
    return {
        (SUMMARY, FIDELITY): summary(every),
        (BY_LINES, FIDELITY): table("by lines", every),
        (BY_MESSAGES, FIDELITY): table("by messages", every),
        (SUMMARY, README): words(every),
    }


def main(arguments: list[str]) -> None:
    """Print each point, then the summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.libraries")
    parser.add_argument("--most", default="16MiB", help="largest size (default: 16MiB)")
    parser.add_argument("--fidelity", default="cacheline", help="or congestion, analytical")
    parser.add_argument("--coalesce", type=int, default=1, help="cache lines as one request: not exact")
    parser.add_argument("--least", default="1", help="smallest size (default: all)")
    parser.add_argument("--only", action="append", help="a row's id; may be repeated")
    parser.add_argument("--write", action="store_true", help="keep the points, and renew the pages")
    parser.add_argument("--page", action="store_true", help="renew the pages by the points that are kept")
    args = parser.parse_args(arguments)
    found = []
    known = {(point.row.id, point.fidelity) for point in points()}
    by_messages = args.fidelity != "cacheline"
    for row in [] if args.page else rows():
        if (args.only and row.id not in args.only) or (by_messages and row.collective == "send_recv"):
            continue
        for size in sizes_of(row):
            if not size_bytes(args.least) <= size <= size_bytes(args.most):
                continue
            began = perf_counter()
            point = simulate(row, size, args.fidelity, args.coalesce)
            found.append(point)
            print(
                f"{row.id:<26} {format_bytes(size):>8} {point.fidelity:<20} {point.simulated_us:9.2f} "
                f"{row.times_us[size]:9.2f} {point.error:+7.1%} {perf_counter() - began:5.1f} s",
                flush=True,
            )
            if args.write:
                keep(point, first=(row.id, point.fidelity) not in known)
    every = points()
    print(summary(every if args.page or args.write else found))
    if args.page or args.write:
        for (command, page), text in blocks(every).items():
            write_generated(command, text, page)


if __name__ == "__main__":
    main(sys.argv[1:])
