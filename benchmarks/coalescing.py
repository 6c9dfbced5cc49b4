"""Error of a run with several lines a request, against the exact one, for each algorithm.

``python -m benchmarks.coalescing [--most 32MiB] [--write]`` prints the table: all-reduces and others on
8 x H100, with the channels of the fidelity table, exact and with 2, 4, 8 and 16 lines a request; NVLSTree on
two boxes.
"""

from __future__ import annotations

import sys
from time import perf_counter

import astranb as anb
from astranb.collectives import Collective
from astranb.core.units import size_bytes
from scripts.generated import write_generated

TABLE = "python -m benchmarks.coalescing --write"
LINES = (2, 4, 8, 16)
CASES = (
    ("all_reduce", "ring", 24, ("1 MiB", "8 MiB", "32 MiB")),
    ("all_gather", "ring", 24, ("8 MiB", "32 MiB")),
    ("all_reduce", "allpairs_get", 36, ("8 MiB", "32 MiB")),
    ("all_reduce", "allpairs", 24, ("8 MiB", "32 MiB")),
    ("all_reduce", "switch", 24, ("8 MiB", "32 MiB")),
    ("all_to_all", "put", 24, ("8 MiB",)),
    ("all_reduce", "nvls_tree", 16, ("4 MiB", "16 MiB")),
)
"""Collective, algorithm, channels and sizes."""
INFRAS = {"nvls_tree": "single-tier:servers=2,server=dgx-h100"}
"""Infrastructures of algorithms for several boxes; the others run on a DGX H100."""


def time_us(collective: str, algorithm: str, size: str, channels: int, lines: int) -> float:
    """Return the simulated time with so many lines a request."""
    wanted = Collective.of(collective, size, algorithm, channels=channels)
    network = anb.Network(coalesce=lines)
    sim = anb.Simulation(
        INFRAS.get(algorithm, "dgx-h100"), wanted, record=False, checkpoint_bytes=0, network=network
    )
    sim.run()
    return sim.result.time_ps / 1e6


def main(arguments: list[str]) -> None:
    """Print the table; with --write put it into docs/fidelity.md."""
    most = arguments[arguments.index("--most") + 1] if "--most" in arguments else "32MiB"
    rows = [
        "| collective | size | exact µs | " + " | ".join(f"{n} lines" for n in LINES) + " |",
        "|---|---|---|" + "---|" * len(LINES),
    ]
    print("\n".join(rows))
    for collective, algorithm, channels, sizes in CASES:
        for size in sizes:
            if size_bytes(size) > size_bytes(most):
                continue
            began = perf_counter()
            exact = time_us(collective, algorithm, size, channels, 1)
            off = [time_us(collective, algorithm, size, channels, n) / exact - 1 for n in LINES]
            row = " | ".join(f"{error:+.1%}" for error in off)
            rows.append(f"| {collective}/{algorithm} | {size} | {exact:.1f} | {row} |")
            print(rows[-1], flush=True)
            print(f"{size}: {perf_counter() - began:.0f} s", file=sys.stderr)
    if "--write" in arguments:
        write_generated(TABLE, "\n".join(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
