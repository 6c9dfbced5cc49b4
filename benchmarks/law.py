"""The law of collectives by messages: how far they are from cache lines, on every blueprint, to 64 MiB.

``python -m benchmarks.law [--only INFRA] [--most 64MiB] [--write]`` runs line by line what the library of
each blueprint runs, and prints its times beside those by messages; 64 MiB with eight lines as one request.
``--write`` puts the times by lines into ``tests/data/lines.csv``, row by row, which takes an hour in all.
With it ``tests/engine/messages/test_library_costs.py`` asserts the law in seconds.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from time import perf_counter
from typing import Final

import astranb as anb
from astranb.core.errors import InputError
from astranb.core.units import format_bytes, size_bytes

TABLE: Final = Path(__file__).parents[1] / "tests" / "data" / "lines.csv"
SIZES: Final = ("1 KiB", "64 KiB", "1 MiB", "4 MiB", "16 MiB", "64 MiB")
COARSE: Final = {"64 MiB": 8}
"""Lines as one request, where exact runs take minutes: up to 16 % off (docs/fidelity.md, *Coalescing*)."""
COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
BOXES: Final = (
    *("dgx-h100", "dgx-b200", "dgx-a100", "mi300x", "dgx-2", "dgx-h20", "dgx-h800", "dgx-b300", "dgx-gb200"),
    *("dgx-gb300", "mi325x", "mi350x", "mi355x", "l40s", "rtxpro6000", "xe9680", "p5", "ndv5", "a3-mega"),
    *("a3-high", "a3-ultra", "a4", "p4d", "p4de", "p5en", "p6-b200", "ndv4", "ndmv4", "h100-nvl"),
    *("gb200-nvl72:trays=2", "gb300-nvl72:trays=2"),
)
_IN_NETWORKS: Final = ("dgx-h100", "dgx-b200", "mi300x", "dgx-a100", "mi355x", "p5", "a3-mega", "a3-ultra")
NETWORKS: Final = (
    *(f"single-tier:servers=2,server={box}" for box in _IN_NETWORKS),
    *("rails:servers=2", "clos:servers=4"),
)
"""Blueprints of GPUs whose library is known; racks of 72 and fat trees by their smallest."""


def time_us(infra: str, collective: str, size: str, fidelity: str = "cacheline", coalesce: int = 1) -> float:
    """Return how long the library's collective takes."""
    sim = anb.explore.library_run(infra, collective, size, fidelity=fidelity, coalesce=coalesce)
    sim.run()
    return sim.now_us


def lines_us() -> dict[tuple[str, str, str], float]:
    """Return the committed times by cache lines of each infrastructure, collective and size."""
    if not TABLE.exists():
        return {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {
            (row["infra"], row["collective"], size): float(row[size])
            for row in csv.DictReader(file)
            for size in SIZES
            if row[size]
        }


def _write(found: dict[tuple[str, str, str], float]) -> None:
    """Write the table: a row for each collective of an infrastructure."""
    whole = TABLE.with_suffix(".new")  # so that nobody reads a part of it
    with whole.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["infra", "collective", *SIZES])
        for infra in (*BOXES, *NETWORKS):
            for collective in COLLECTIVES:
                times = [found.get((infra, collective, size)) for size in SIZES]
                if any(times):
                    written = ("" if one is None else f"{one:.2f}" for one in times)
                    writer.writerow([infra, collective, *written])
    whole.replace(TABLE)


def main(arguments: list[str]) -> None:
    """Print each case; with --write renew the times by lines."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.law")
    parser.add_argument("--only", action="append", help="an infrastructure; may be repeated")
    parser.add_argument("--least", default="1", help="smallest size (default: all)")
    parser.add_argument("--most", default="64MiB", help="largest size (default: 64MiB)")
    parser.add_argument("--missing", action="store_true", help="only what the table lacks")
    parser.add_argument("--write", action="store_true", help="renew tests/data/lines.csv")
    args = parser.parse_args(arguments)
    for infra in args.only or (*BOXES, *NETWORKS):
        for collective in COLLECTIVES:
            for size in SIZES:
                if not size_bytes(args.least) <= size_bytes(size) <= size_bytes(args.most):
                    continue
                key = infra, collective, size
                if args.missing and key in lines_us():
                    continue
                began = perf_counter()
                try:
                    exact = time_us(*key, coalesce=COARSE.get(size, 1))
                except InputError as error:  # what the library runs cannot be run by lines there
                    print(f"{infra} {collective} {size}: {error}", flush=True)
                    continue
                took = perf_counter() - began
                messages = time_us(*key, fidelity="congestion")
                print(
                    f"{infra:<44} {collective:<14} {format_bytes(size_bytes(size)):>7} {exact:9.2f} "
                    f"{messages:9.2f} {messages / exact - 1:+7.1%} {took:6.1f} s",
                    flush=True,
                )
                if args.write:
                    _write(lines_us() | {key: exact})


if __name__ == "__main__":
    main(sys.argv[1:])
