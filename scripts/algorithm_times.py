"""Time the algorithms of the gallery on three machines: docs/algorithms/data/times.csv.

    python -m scripts.algorithm_times [COLLECTIVE/ALGORITHM ...]

Without names, what is missing is timed. Every run is exact, so a row is the same wherever it is made.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Final, NamedTuple

import astranb as anb
from astranb.collectives import ALGORITHMS, Collective

DATA: Final = Path(__file__).resolve().parents[1] / "docs" / "algorithms" / "data" / "times.csv"

COMPARED: Final = {
    "all_reduce": (
        "ring", "bidirectional_ring", "chain", "tree", "double_tree", "halving_doubling",
        "recursive_doubling",
        "swing", "swing_2d", "allpairs", "allpairs_oneshot", "hierarchical", "switch", "switch_ring",
    ),
    "all_gather": ("ring", "allpairs", "bruck", "doubling", "pat", "hierarchical", "switch"),
    "reduce_scatter": ("ring", "allpairs", "halving", "pat", "hierarchical", "switch"),
    "all_to_all": ("allpairs", "pairwise", "bruck", "hierarchical"),
    "broadcast": ("ring", "chain", "double_tree", "allpairs", "switch"),
}  # fmt: skip
"""By collective, the algorithms that are compared."""

MACHINES: Final = {
    "one switch": {n: f"switch:gpus={n}" for n in (4, 8, 16)},
    "torus": {r * c: f"torus2d:rows={r},columns={c}" for r, c in ((2, 2), (2, 4), (4, 4))},
    "DGX H100 on rails": {8 * boxes: f"rails:servers={boxes}" for boxes in (1, 2)},
}
"""By machine and number of GPUs, the infrastructure."""

SIZES: Final = ("1 KiB", "16 KiB", "128 KiB", "1 MiB")
_IN_PACKETS: Final = SIZES[:2]  # in these sizes LL is the faster protocol of all that support it


class Timed(NamedTuple):
    """One run, as a row of the table."""

    collective: str
    algorithm: str
    machine: str
    ranks: int
    size: str
    protocol: str
    time_ns: int  # 0: the machine cannot run it


def read() -> list[Timed]:
    """Read the table."""
    if not DATA.exists():
        return []
    with DATA.open(encoding="utf-8", newline="") as file:
        return [Timed(*row[:3], int(row[3]), *row[4:6], int(row[6])) for row in list(csv.reader(file))[1:]]


def time(collective: str, algorithm: str, machine: str, ranks: int, size: str) -> Timed:
    """Simulate one run by cache lines."""
    packets = size in _IN_PACKETS and "LL" in ALGORITHMS[collective, algorithm].protocols
    protocol = "LL" if packets else "Simple"
    work = Collective.of(collective, size, algorithm, protocol=protocol)
    row = collective, algorithm, machine, ranks, size, protocol
    try:
        sim = anb.Simulation(MACHINES[machine][ranks], work, record=False)
    except anb.core.errors.InputError:  # no switch that adds up
        return Timed(*row, 0)
    sim.run()
    return Timed(*row, round(sim.result.time_ps / 1000))


def wanted(names: list[str]) -> list[tuple[str, str, str, int, str]]:
    """List the runs of some algorithms, or of all."""
    return [
        (collective, algorithm, machine, ranks, size)
        for collective, algorithms in COMPARED.items()
        for algorithm in algorithms
        if not names or f"{collective}/{algorithm}" in names
        for machine, of in MACHINES.items()
        for ranks in of
        for size in SIZES
    ]


def main(names: list[str]) -> None:
    """Time what is wanted and write the table, sorted as it is listed."""
    known = {row[:5]: row for row in read()}
    runs = wanted(names)
    for number, run in enumerate(runs):
        if not names and run in known:
            continue
        known[run] = time(*run)
        print(f"{number + 1}/{len(runs)}", *known[run])
        if number % 20 == 0:
            write(known)
    write(known)


def write(known: dict[tuple[str, str, str, int, str], Timed]) -> None:
    """Write the table in the order of :func:`wanted`."""
    DATA.parent.mkdir(parents=True, exist_ok=True)
    with DATA.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(Timed._fields)
        rows.writerows(known[run] for run in wanted([]) if run in known)


if __name__ == "__main__":
    main(sys.argv[1:])
