"""Draw when each algorithm of the gallery wins, and compare its bound with simulated times.

    python -m scripts.algorithm_maps

It reads docs/algorithms/data/times.csv (``python -m scripts.algorithm_times``) and writes
docs/algorithms/pictures/map_*.svg and docs/algorithms/data/bound_*.csv.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import astranb as anb
from astranb.collectives import Collective, Program
from astranb.core.colours import LIGHT
from astranb.core.svg import Shape, SvgBox, Text, document
from astranb.core.units import size_bytes
from scripts.algorithm_pictures import style
from scripts.algorithm_times import COMPARED, DATA, MACHINES, SIZES, Timed, read

_DOCS: Final = DATA.parents[1]
_MACHINE, _RANKS = "one switch", 8  # of the bounds
_CELL_WIDTH, _CELL_HEIGHT, _LEFT, _TOP, _GAP = 50, 26, 58, 64, 44
_SHADES: Final = (
    (1.0, "#00795a", "#ffffff"),
    (1.25, "#7fcdb3", "#000000"),
    (2.0, "#d9d9d9", "#000000"),
    (4.0, "#f0c08a", "#000000"),
    (float("inf"), "#b34700", "#ffffff"),
)
"""By how many times longer than the fastest it takes at most: the cell's colour, and its text's."""


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
    work = Collective.of("send_recv", "128 B", "put", protocol=protocol)
    sim = anb.Simulation(MACHINES[_MACHINE][_RANKS], work, record=False)
    sim.run()
    return float(sim.result.time_ps / 1e6)


def bandwidth_gbps() -> float:
    """Return the gigabytes of data a second that a link of that machine carries, headers left out."""
    work = Collective.of("send_recv", "4 MiB", "put")
    sim = anb.Simulation(MACHINES[_MACHINE][_RANKS], work, record=False)
    line, header = 128, 16
    return float(sim.engine.machine.links[0]["bandwidth_Bps"]) / 1e9 * line / (line + header)


def bound(collective: str, algorithm: str, times: list[Timed], alpha: dict[str, float]) -> None:
    """Write a table: for each size the bound by hops and bytes beside the simulated time."""
    program = Collective.of(collective, "1 MiB", algorithm, channels=2).program(_RANKS)
    steps, sent = hops(program), bytes_sent(program)
    file = _DOCS / "data" / f"bound_{collective}_{algorithm}.csv"
    with file.open("w", encoding="utf-8", newline="") as to:
        table = csv.writer(to, lineterminator="\n")
        table.writerow(
            ["size", "hops", "bytes sent", "alpha x hops", "bytes / B", "bound", "simulated", "ratio"]
        )
        for size in SIZES:
            row = next((r for r in times if r[:5] == (collective, algorithm, _MACHINE, _RANKS, size)), None)
            if row is None or not row.time_ns:
                continue
            flags = 2 if row.protocol == "LL" else 1  # half of a line of LL are flags
            latency, transfer = (
                steps * alpha[row.protocol],
                flags * sent * size_bytes(size) / alpha["B"] / 1e3,
            )
            whole, real = latency + transfer, row.time_ns / 1e3
            shown = [f"{value:.2f} µs" for value in (latency, transfer, whole, real)]
            table.writerow(
                [f"{size}, {row.protocol}", steps, f"{sent:.3g} x size", *shown, f"{real / whole:.2f}"]
            )


def panels(times: list[Timed], collective: str, algorithm: str | None) -> Iterator[Shape]:
    """Draw a field of cells for each machine: how an algorithm compares, or which one is the fastest."""
    cell = _CELL_WIDTH if algorithm else 104
    x, of_cell = _LEFT, defaultdict(dict)
    for row in times:
        if row.collective == collective and row.time_ns:
            of_cell[row.machine, row.ranks, row.size][row.algorithm] = row.time_ns
    for machine, ranks in MACHINES.items():
        yield Text(x, 34, machine, 12, LIGHT.ink, bold=True)
        for column, size in enumerate(SIZES):
            yield Text(x + column * cell + cell / 2, _TOP - 8, size, 10, LIGHT.dim, "middle")
        for line, count in enumerate(ranks):
            y = _TOP + line * _CELL_HEIGHT
            yield Text(x - 6, y + 17, str(count), 11, LIGHT.dim, "end")
            for column, size in enumerate(SIZES):
                found = of_cell[machine, count, size]
                yield from _cell(x + column * cell, y, cell, found, algorithm)
        x += len(SIZES) * cell + _GAP


def _cell(x: float, y: float, width: float, found: dict[str, int], algorithm: str | None) -> Iterator[Shape]:
    if not found or (algorithm and algorithm not in found):
        yield Text(x + width / 2, y + 17, "-", 11, LIGHT.dim, "middle")
        return
    best = min(found, key=lambda name: found[name])
    ratio = found[algorithm] / found[best] if algorithm else 1.0
    _, fill, ink = next(shade for shade in _SHADES if ratio <= shade[0] + 1e-9)
    if not algorithm:
        fill, ink = "#d9d9d9", "#000000"
    yield SvgBox(x + 1, y + 1, width - 2, _CELL_HEIGHT - 2, 3, fill, "none")
    text = (
        f"{ratio:.3g}x" if algorithm and ratio > 1 else ("fastest" if algorithm else best.replace("_", " "))
    )
    yield Text(x + width / 2, y + 17, text, 10, ink, "middle", bold=ratio == 1 and algorithm is not None)


def draw(times: list[Timed], collective: str, algorithm: str | None) -> str:
    """Draw the map of an algorithm, or that of the fastest ones of a collective."""
    cell = _CELL_WIDTH if algorithm else 104
    width = _LEFT + len(MACHINES) * (len(SIZES) * cell + _GAP)
    rows = max(len(ranks) for ranks in MACHINES.values())
    height = _TOP + rows * _CELL_HEIGHT + 14
    named = collective.replace("all_reduce", "all-reduce").replace("_", "-")
    title = f"{named}, {algorithm}: time over the fastest" if algorithm else f"{named}: the fastest"
    shapes = [
        SvgBox(0, 0, width, height, 6, LIGHT.back, "none"),
        Text(_LEFT, 16, f"{title}, by GPUs and size", 12, LIGHT.ink),
        *panels(times, collective, algorithm),
    ]
    drawn = document(width, height, shapes, title=title)
    return drawn.replace("</title>", f"</title>{style()}", 1) + "\n"


def main() -> None:
    """Write all maps and bounds."""
    times = read()
    alpha = {protocol: hop_us(protocol) for protocol in ("Simple", "LL")} | {"B": bandwidth_gbps()}
    print({name: round(value, 3) for name, value in alpha.items()})
    for collective, algorithms in COMPARED.items():
        for algorithm in (None, *algorithms):
            name = f"map_{collective}" + (f"_{algorithm}" if algorithm else "")
            file = _DOCS / "pictures" / f"{name}.svg"
            file.write_text(draw(times, collective, algorithm), encoding="utf-8")
            if algorithm:
                bound(collective, algorithm, times, alpha)


if __name__ == "__main__":
    main()
