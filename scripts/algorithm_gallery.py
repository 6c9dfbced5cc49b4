"""Compute what docs/algorithms shows: times on three machines, maps of who wins, and bounds.

    python -m scripts.algorithm_gallery [--draw]

Times are written to docs/algorithms/data/COLLECTIVE.csv; ``--draw`` takes them as they are. From them come
docs/algorithms/pictures/map_*.svg and docs/algorithms/data/bound_*.csv. Pictures of runs are drawn by
scripts/algorithm_pictures.py. Every run is exact: the same files come out wherever this is run.
"""

from __future__ import annotations

import csv
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

import pandas as pd

import astranb as anb
from astranb.collectives import Collective, Program
from astranb.core.units import size_bytes
from scripts.algorithm_pictures import style

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "algorithms"

COMPARED: Final = {
    "all_reduce": [
        "ring", "bidirectional_ring", "chain", "tree", "double_tree", "halving_doubling",
        "recursive_doubling", "swing", "swing_2d", "allpairs", "allpairs_oneshot", "hierarchical", "switch",
        "switch_ring",
    ],
    "all_gather": ["ring", "allpairs", "bruck", "doubling", "pat", "hierarchical", "switch"],
    "reduce_scatter": ["ring", "allpairs", "halving", "pat", "hierarchical", "switch"],
    "all_to_all": ["allpairs", "pairwise", "bruck", "hierarchical"],
    "broadcast": ["ring", "chain", "double_tree", "allpairs", "switch"],
}  # fmt: skip
"""By collective, the algorithms that are compared."""

MACHINES: Final = (
    "switch:gpus=8", "switch:gpus=16", "torus2d:rows=2,columns=4", "torus2d:rows=4,columns=4",
    "rails:servers=1", "rails:servers=2",
)  # fmt: skip
SIZES: Final = ("1 KiB", "32 KiB", "512 KiB")
_RANKS: Final = 8  # of the bounds, on the first machine
_COLUMNS: Final = ["infra", "ranks", "size_bytes", "algorithm", "protocol", "time_ps"]
_MARGIN: Final = 3.0  # what took so many times the fastest's time at a smaller size is not run


def timed(collective: str) -> pd.DataFrame:
    """Run a collective on all machines."""
    began = time.monotonic()
    found = anb.explore.algorithm_map(
        MACHINES, collective, COMPARED[collective], sizes=SIZES, protocols=("Simple", "LL"), margin=_MARGIN
    )
    print(f"{collective}: {time.monotonic() - began:.0f} s")
    return found.frame()[_COLUMNS].dropna(subset=["time_ps"])


def hops(program: Program) -> int:
    """Return how many signals and loads between ranks follow one another, at most."""
    depth, at = [0] * len(program.blocks), [0] * len(program.blocks)
    loads = [False] * len(program.blocks)  # those that follow one another are under way at once
    came: dict[object, list[int]] = defaultdict(list)
    moving = True
    while moving:
        moving = False
        for b, block in enumerate(program.blocks):
            operations = block.operations
            while at[b] < len(operations):
                operation = operations[at[b]]
                if operation.kind == "wait":
                    signals = sorted(came[operation.semaphore])
                    if len(signals) < operation.value:
                        break
                    depth[b], loads[b] = max(depth[b], signals[operation.value - 1]), False
                elif operation.kind == "signal" and operation.semaphore:
                    away = operation.semaphore.rank != block.rank
                    came[operation.semaphore] += [depth[b] + away] * operation.value
                elif not loads[b] and any(chunk.rank != block.rank for chunk in operation.sources):
                    depth[b], loads[b] = depth[b] + 1, True
                at[b], moving = at[b] + 1, True
    return max(depth)


def bytes_sent(program: Program) -> float:
    """Return the bytes that leave the busiest rank, as a part of the size of the collective."""
    parts = max(program.input_chunks, program.output_chunks) * program.channels
    weights = program.weights or (1.0,) * program.cut.of_channel
    of_slice = [weight / sum(weights) / parts for weight in weights]
    sent = [0.0] * program.ranks
    for block in program.blocks:
        for operation in (one for one in block.operations if one.kind == "move"):
            chunk = (*operation.sources, *operation.targets)[0]
            share = of_slice[chunk.channel % len(of_slice)]
            if operation.in_switch & 2:
                sent[block.rank] += share
            else:
                sent[block.rank] += share * sum(chunk.rank != block.rank for chunk in operation.targets)
            for source in operation.sources:
                if operation.in_switch & 1 or source.rank != block.rank:
                    sent[source.rank] += share
    return max(sent)


def hop_us(protocol: str) -> float:
    """Simulate one hop on the machine of the bounds: a line to the next rank, and its signal."""
    sim = anb.Simulation(MACHINES[0], Collective.of("send_recv", "128 B", "put", protocol=protocol))
    sim.run()
    return float(sim.result.time_ps / 1e6)


def bandwidth_gbps() -> float:
    """Return the gigabytes of data a second that a link of that machine carries, headers left out."""
    sim = anb.Simulation(MACHINES[0], Collective.of("send_recv", "128 B", "put"))
    line, header = 128, 16
    return float(sim.engine.machine.links[0]["bandwidth_Bps"]) / 1e9 * line / (line + header)


def bound(collective: str, algorithm: str, alpha: dict[str, float], bandwidth: float) -> None:
    """Write a table: for each size the bound by hops and bytes beside the simulated time."""
    program = Collective.of(collective, "1 MiB", algorithm, channels=2).program(_RANKS)
    steps, sent = hops(program), bytes_sent(program)
    packets = "LL" in anb.collectives.ALGORITHMS[collective, algorithm].protocols
    file = FOLDER / "data" / f"bound_{collective}_{algorithm}.csv"
    with file.open("w", encoding="utf-8", newline="") as to:
        table = csv.writer(to, lineterminator="\n")
        table.writerow(
            ["size", "hops", "bytes sent", "alpha x hops", "bytes / B", "bound", "simulated", "of it"]
        )
        for size in SIZES:
            protocol = "LL" if packets and size == SIZES[0] else "Simple"
            work = Collective.of(collective, size, algorithm, protocol=protocol)
            sim = anb.Simulation(MACHINES[0], work, record=False)
            sim.run()
            real = sim.result.time_ps / 1e6
            flags = 2 if protocol == "LL" else 1  # half of a line of LL are flags
            latency = steps * alpha[protocol]
            transfer = flags * sent * size_bytes(size) / bandwidth / 1e3
            whole = latency + transfer
            shown = [f"{value:.2f} µs" for value in (latency, transfer, whole, real)]
            table.writerow(
                [f"{size}, {protocol}", steps, f"{sent:.3g} x size", *shown, f"{whole / real:.0%}"]
            )


def main(*, draw_only: bool) -> None:
    """Write all tables and maps."""
    (FOLDER / "data").mkdir(exist_ok=True)
    for collective, algorithms in COMPARED.items():
        file = FOLDER / "data" / f"{collective}.csv"
        if not draw_only:
            timed(collective).to_csv(file, index=False, lineterminator="\n")
        found = anb.explore.AlgorithmMap(collective, pd.read_csv(file))
        for algorithm in ("", *algorithms):
            name = f"map_{collective}" + (f"_{algorithm}" if algorithm else "")
            if algorithm and algorithm not in set(found.table["algorithm"]):
                continue
            drawn = str(found.figure(algorithm=algorithm).data)
            text = drawn.replace("</title>", f"</title>{style()}", 1)
            (FOLDER / "pictures" / f"{name}.svg").write_text(text + "\n", encoding="utf-8")
    if not draw_only:
        alpha, bandwidth = {protocol: hop_us(protocol) for protocol in ("Simple", "LL")}, bandwidth_gbps()
        print({protocol: f"{of:.2f} µs" for protocol, of in alpha.items()}, f"{bandwidth:.1f} GB/s")
        for collective, algorithms in COMPARED.items():
            for algorithm in algorithms:
                bound(collective, algorithm, alpha, bandwidth)


if __name__ == "__main__":
    main(draw_only="--draw" in sys.argv)
