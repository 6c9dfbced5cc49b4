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
from astranb.collectives import Collective, Program, lower
from astranb.collectives.language.listing import in_order
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
    return found.to_dataframe()[_COLUMNS].dropna(subset=["time_ps"])


def hops(program: Program, size: int, *, load: int = 1, fence: int = 0) -> int:
    """Return how many signals, packets and loads between ranks follow one another, at most.

    ``load`` and ``fence`` say what a load counts, and the wait of a signal for stores before it: with 2 for
    each, the result is how often a line crosses the network, one after another.
    """
    order = in_order(program)
    kind = program.name.partition("/")[0]
    lines = iter(lower(program, kind=kind, size=size).ops["lines"].tolist())
    moved = [[next(lines) > 0 for _ in program.blocks[b].operations] for b in order]
    at, began, moves = ([0] * len(order) for _ in range(3))
    stores = [False] * len(order)  # not acknowledged yet
    came: dict[object, list[int]] = defaultdict(list)  # by semaphore, or chunk of packets
    moving = True
    while moving:
        moving = False
        for b, number in enumerate(order):
            block = program.blocks[number]
            operations = block.operations
            while at[b] < len(operations):
                operation = operations[at[b]]
                packets = [chunk for chunk in operation.sources if chunk.buffer == "packets"]
                signals = sorted(came[operation.semaphore])
                if operation.kind == "wait" and len(signals) < operation.value:
                    break
                if any(chunk not in came for chunk in packets) and moved[b][at[b]]:
                    break
                if operation.kind == "wait":
                    began[b] = max(began[b], signals[operation.value - 1])
                elif operation.kind == "signal" and operation.semaphore:
                    if not operation.relaxed:
                        began[b] = max(began[b], moves[b]) + fence * stores[b]
                        stores[b] = False
                    away = operation.semaphore.rank != block.rank
                    came[operation.semaphore] += [began[b] + away] * operation.value
                elif moved[b][at[b]]:  # moves have no order among themselves: a loop over lines
                    loaded = load * any(chunk.rank != block.rank for chunk in operation.sources)
                    depth = max([began[b], *(came[chunk][0] for chunk in packets)]) + loaded
                    moves[b] = max(moves[b], depth)
                    for chunk in operation.targets:
                        stores[b] |= chunk.rank != block.rank
                        if chunk.buffer == "packets":
                            came[chunk] = [depth + (chunk.rank != block.rank)]
                at[b], moving = at[b] + 1, True
    return max(*began, *moves)


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


def crossing_us() -> float:
    """Simulate how long a line takes to another GPU of the machine of the bounds."""
    sim = anb.Simulation(MACHINES[0], Collective.of("send_recv", "128 B", "put"))
    sim.run()
    flights = sim.result.to_dataframe("flights")
    data = flights[flights["kind"] == "store data"]
    first = data[data["op"] == data["op"].iloc[0]]  # over each link of its route
    return float((first["end_ps"].max() - first["start_ps"].min()) / 1e6)


def bandwidth_gbps() -> float:
    """Return the gigabytes of data a second that a link of that machine carries, headers left out."""
    sim = anb.Simulation(MACHINES[0], Collective.of("send_recv", "128 B", "put"))
    line, header = 128, 16
    return float(sim.engine.machine.links[0]["bandwidth_Bps"]) / 1e9 * line / (line + header)


def bound(collective: str, algorithm: str, crossing: float, bandwidth: float) -> None:
    """Write a table: for each size the bounds by latency and by bytes beside the simulated time."""
    able = "LL" in anb.collectives.ALGORITHMS[collective, algorithm].protocols
    file = FOLDER / "data" / f"bound_{collective}_{algorithm}.csv"
    with file.open("w", encoding="utf-8", newline="") as to:
        table = csv.writer(to, lineterminator="\n")
        heads = ["size", "crossings", "bytes sent", "latency", "bytes / B", "bound", "simulated", "of it"]
        table.writerow(heads)
        for size in SIZES:
            packets = able and size == SIZES[0]
            protocol = "LL" if packets else "Simple"
            work = Collective.of(collective, size, algorithm, protocol=protocol)
            sim = anb.Simulation(MACHINES[0], work, record=False)
            sim.run()
            real = sim.result.time_ps / 1e6
            program = sim.engine.work.program(_RANKS, sim.engine.fabric.shape)
            sent = bytes_sent(Collective.of(collective, size, algorithm, channels=2).program(_RANKS))
            steps = hops(program, size_bytes(size), load=2, fence=2)
            latency = steps * crossing
            # Half of a line of LL are flags.
            transfer = (2 if packets else 1) * sent * size_bytes(size) / bandwidth / 1e3
            shown = [f"{value:.2f} µs" for value in (latency, transfer, max(latency, transfer), real)]
            share = f"{max(latency, transfer) / real:.0%}"
            table.writerow([f"{size}, {protocol}", steps, f"{sent:.3g} x size", *shown, share])


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
        crossing, bandwidth = crossing_us(), bandwidth_gbps()
        print(f"{crossing:.2f} µs, {bandwidth:.1f} GB/s")
        for collective, algorithms in COMPARED.items():
            for algorithm in algorithms:
                bound(collective, algorithm, crossing, bandwidth)


if __name__ == "__main__":
    main(draw_only="--draw" in sys.argv)
