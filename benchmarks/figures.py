"""ASTRA-sim 3.0's figures on its generic GPU: full grids, and what each assumption moves.

``python -m benchmarks.figures [4 10 11 12 13 14]`` runs the figures named (about half an hour
for all), line by line, and writes them to tests/data/figures.json. ``python -m benchmarks.figures
assumptions [NAME ...]`` changes one assumption at a time of those that the paper leaves open, compares
figures 4, 10 and 11 with what it says (half a minute each), prints the table and writes it to
tests/data/figure_assumptions.json; without names it runs all. The notebooks show both and run smaller
points again, which checks that the recorded results are current.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import astranb as anb
from astranb.collectives import Block, Collective, Program

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "figures.json"
ASSUMPTIONS = DATA.with_name("figure_assumptions.json")
_KIB, _MIB = 2**10, 2**20
SETTING = {"warps_per_block": 16, "unroll": 16, "max_outstanding": 4096, "fence_ps": 1_800_000}
"""Numbers of the GPU with which figures 4, 10 and 11 come out together; the paper gives none of them.

A workgroup has 1,024 threads, as MSCCL++'s plans say (``num_threads_per_block``): 16 wavefronts of 64. The
others are *fitted*, to figure 4 (the fence, outstanding requests) and figure 11 (unroll).
"""


def _meet(p: Program, blocks: Sequence[Block], phase: str, *, relaxed: bool) -> None:
    """Signal a block of every rank, and wait for all."""
    met = [p.semaphore(r) for r in range(p.ranks)]
    for block in blocks:
        block.phase(phase)
        for step in range(p.ranks):
            block.signal(met[(block.rank + 1 + step) % p.ranks], relaxed=relaxed)
        block.wait(met[block.rank], p.ranks)


def reduce_scatter_get(*, first: bool, last: bool) -> Callable[[Program], None]:
    """Return the library's *get*, with or without the signals before and after what is read.

    A rank that has read has stored nothing that others wait for: its last signals need no fence.
    """

    def get(p: Program) -> None:
        blocks = [me.block() for me in p.everyone]
        if first:
            _meet(p, blocks, "start", relaxed=True)
        for me, block in zip(p.everyone, blocks, strict=True):
            block.phase("reduce")
            block.reduce([you.input[me.number] for you in (me, *me.others)], me.output[0])
        if last:
            _meet(p, blocks, "end", relaxed=True)

    return get


def all_gather_get(*, first: bool, last: bool, own: str = "before") -> Callable[[Program], None]:
    """Return the library's *get*, with or without the signals before and after what is read.

    A rank's own chunk is copied before the first signals, which then wait for a fence, as in the library,
    or after what is read.
    """

    def get(p: Program) -> None:
        ready, over = ([[p.semaphore(r) for _ in range(p.ranks)] for r in range(p.ranks)] for _ in range(2))
        for me in p.everyone:
            for place, you in enumerate(me.others):
                block = me.block()
                block.phase("all-gather")
                if place == 0 and own == "before":
                    block.copy(me.input[0], me.output[me.number])
                if first:
                    block.signal(ready[you.number][me.number])
                    block.wait(ready[me.number][you.number])
                block.get(you.input[0], me.output[you.number])
                if place == 0 and own == "after":
                    block.copy(me.input[0], me.output[me.number])
                if last:
                    block.signal(over[you.number][me.number], relaxed=True)
                    block.wait(over[me.number][you.number])

    return get


def send_and_receive(p: Program) -> None:
    """Send and receive in thread blocks of their own, where the library's *put* does both in one."""
    arrived = [p.semaphore(r) for r in range(p.ranks)]
    for me in p.everyone:
        sender, receiver = me.block(), me.block()
        sender.phase("exchange")
        sender.put(me.input[0], me.right.output[0])
        sender.signal(arrived[me.right.number])
        receiver.wait(arrived[me.number])


PROGRAMS: dict[tuple[str, str], Callable[[Program], None]] = {
    ("send_recv", "two blocks"): send_and_receive,
    ("reduce_scatter", "get, own chunk last"): reduce_scatter_get(first=True, last=True),
    ("all_gather", "get, own chunk last"): all_gather_get(first=True, last=True, own="after"),
    **{
        (kind, name): write(first=first, last=last)
        for kind, write in (("reduce_scatter", reduce_scatter_get), ("all_gather", all_gather_get))
        for name, first, last in (
            ("get, no fence", True, True),
            ("get, no last signals", True, False),
            ("get, no signals", False, False),
        )
    },
}
"""Programs that the library has in another form, by collective and name."""


@dataclass(frozen=True)
class Point:
    """One run on the paper's GPUs.

    Attributes
    ----------
    size : int
        Bytes of a rank's larger buffer.
    channels : int
        Channels; with put and get, each has one thread block per peer.
    ports, latency : int
        Ports of 32 GiB/s each; latency in ns from GPU to GPU.
    changes : dict
        Changed numbers of the GPU preset.
    """

    figure: str
    gpus: int
    kind: str
    algorithm: str
    size: int
    channels: int
    protocol: str = "Simple"
    ports: int = 32
    latency: int = 1000
    arbitration: str = "fifo"
    changes: dict[str, int] = field(default_factory=dict)

    def simulate(self) -> anb.Simulation:
        """Run the point and return its simulation."""
        algorithm = PROGRAMS.get((self.kind, self.algorithm), self.algorithm)
        sim = anb.Simulation(
            f"generic:gpus={self.gpus},ports={self.ports},latency={self.latency}",
            Collective.of(self.kind, self.size, algorithm, channels=self.channels, protocol=self.protocol),
            gpu=anb.gpu.preset("generic").but(**self.changes),
            network=anb.Network(arbitration=self.arbitration),
            record=False,
            checkpoint_bytes=0,
        )
        sim.run()
        return sim


def powers(first: int, last: int) -> list[int]:
    """Return the powers of two times ``first`` up to ``last``."""
    return [first << k for k in range((last // first).bit_length())]


def grid() -> Iterator[Point]:
    """Yield every point of every figure, small ones first."""
    for ports in (8, 32):
        for latency in (500, 5000):
            for size in powers(128 * _KIB, 16 * _MIB):
                for protocol in ("LL", "Simple"):
                    yield Point(
                        "4", 2, "send_recv", "put", size, 64, protocol, ports, latency,
                        changes={"unroll": 64},
                    )  # fmt: skip
    for size in powers(64 * _KIB, 16 * _MIB):
        for algorithm in ("allpairs", "get"):
            yield Point("10", 32, "reduce_scatter", algorithm, size, 32)
    for size in powers(64 * _KIB, 8 * _MIB):
        for algorithm in ("put", "get"):
            for arbitration in ("fifo", "fair"):
                yield Point(
                    "11", 16, "all_gather", algorithm, size, 4, arbitration=arbitration,
                    changes={"unroll": 128},
                )  # fmt: skip
    for size in (64 * _KIB, 256 * _KIB, _MIB, 4 * _MIB):
        for unroll in powers(1, 128):
            yield Point(
                "12", 16, "all_to_all", "put", size, 4, changes={"unroll": unroll, "max_outstanding": 64}
            )
    for size in (32 * _KIB, 256 * _KIB, _MIB, 4 * _MIB):
        for limit in powers(8, 1024):
            yield Point("13", 32, "all_gather", "allpairs", size, 32, changes={"max_outstanding": limit})
    for gpus in powers(2, 128):
        for size in powers(256 * _KIB, 128 * _MIB // gpus):
            yield Point("14", gpus, "all_gather", "allpairs", size, 60)


@dataclass(frozen=True)
class Assumption:
    """The setting with one thing changed that the paper leaves open.

    Attributes
    ----------
    changes : dict
        Numbers of the GPU that differ from those of `SETTING`.
    send, get : str
        Programs of figure 4, and of the gets of figures 10 and 11.
    blocks : int
        Thread blocks of figure 4; the paper says how many figures 10 and 11 have.
    figures : tuple of str
        What the change can move.
    large : tuple of int
        Sizes of figures 10 and 11 that are run besides `SIZES`.
    """

    name: str
    changes: dict[str, int] = field(default_factory=dict)
    send: str = "put"
    get: str = "get, no fence"
    blocks: int = 64
    figures: tuple[str, ...] = ("4", "10", "11")
    large: tuple[int, ...] = ()

    def points(self, figure: str) -> list[Point]:
        """Return the points that are run for figure 10 or 11: put and get, and both arbitrations."""
        changes = {**SETTING, **self.changes}
        if figure == "10":
            return [
                Point("10", 32, "reduce_scatter", algorithm, size, 32, changes=changes)
                for size in SIZES["10"] + self.large
                for algorithm in ("allpairs", self.get)
            ]
        return [
            Point("11", 16, "all_gather", algorithm, size, 4, arbitration=arbitration, changes=changes)
            for size in SIZES["11"] + self.large
            for arbitration in ("fifo", "fair")
            for algorithm in ("put", self.get)
        ]

    def crossover(self, ports: int, latency: int) -> int:
        """Bytes from which Simple is faster than LL in figure 4; between two sizes on a straight line."""

        def behind(size: int) -> int:
            """Time by which Simple is behind LL, in ps."""
            point = Point(
                "4", 2, "send_recv", self.send, size, self.blocks, "LL", ports, latency,
                changes={**SETTING, **self.changes},
            )  # fmt: skip
            simple, packets = replace(point, protocol="Simple").simulate(), point.simulate()
            return simple.result.time_ps - packets.result.time_ps

        size = FIRST[ports, latency]
        known = {size: behind(size)}
        while True:
            below = [size for size, ahead in known.items() if ahead > 0]
            above = [size for size, ahead in known.items() if ahead <= 0]
            if below and above:
                low, high = max(below), min(above)
                return low + (high - low) * known[low] // (known[low] - known[high])
            size = max(below) * 5 // 4 if below else min(above) * 4 // 5
            size -= size % (_KIB * 16)
            known[size] = behind(size)

    def figure(self, number: str) -> dict[str, float]:
        """Return how a figure comes out, as ratios."""
        if number == "4":
            return {
                f"{ports * 32} GiB/s, {latency} ns": round(self.crossover(ports, latency) / size, 2)
                for (ports, latency), size in PAPER.items()
                if latency == 500
            }
        times = [point.simulate().result.time_ps for point in self.points(number)]
        pairs = zip(self.points(number)[::2], times[::2], times[1::2], strict=True)
        return {
            f"{anb.units.format_bytes(point.size)}, {point.arbitration}": round(put / get, 3)
            for point, put, get in pairs
        }


PAPER = {(8, 500): 512 * _KIB, (8, 5000): 2 * _MIB, (32, 500): 4 * _MIB, (32, 5000): 16 * _MIB}
"""Figure 4's crossovers in bytes, by ports of 32 GiB/s and latency in ns."""
FIRST = {(8, 500): 640 * _KIB, (8, 5000): 2560 * _KIB, (32, 500): 2 * _MIB, (32, 5000): 8 * _MIB}
"""Sizes with which the search for them begins."""
SIZES = {"10": (64 * _KIB, _MIB), "11": (2 * _MIB,)}
"""Sizes of figures 10 and 11 that are run for each assumption."""
ALL = (
    Assumption("the setting", large=(4 * _MIB,)),
    Assumption(
        "the preset's numbers and the library's get",
        {"warps_per_block": 4, "max_outstanding": 1024, "fence_ps": 600_000},
        get="get",
    ),
    Assumption("last signals of gets with a fence", get="get", figures=("10", "11")),
    Assumption("gets without last signals", get="get, no last signals", figures=("10", "11")),
    Assumption("gets without signals", get="get, no signals", figures=("10", "11")),
    Assumption("own chunk copied last", get="get, own chunk last", figures=("11",)),
    Assumption("fence 600 ns (the preset's)", {"fence_ps": 600_000}),
    Assumption("no fence", {"fence_ps": 0}),
    Assumption("1024 requests outstanding (the preset's)", {"max_outstanding": 1024}),
    Assumption("4 wavefronts a workgroup (the preset's)", {"warps_per_block": 4}),
    Assumption("unroll 4", {"unroll": 4}),
    Assumption("unroll 64", {"unroll": 64}),
    Assumption("memory latency 0", {"hbm_ps": 0}),
    Assumption("no headers", {"header_bytes": 0}),
    Assumption("send and receive in two blocks", send="two blocks", figures=("4",)),
    Assumption("32 thread blocks", blocks=32, figures=("4",)),
    Assumption("128 thread blocks", blocks=128, figures=("4",)),
)


def table(rows: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the assumptions as text: figure 4's crossovers over the paper's, else put's time over get's."""
    columns = [(figure, column) for figure in ("4", "10", "11") for column in rows["the setting"][figure]]
    width = max(map(len, rows))
    lines = []
    for figure in ("4", "10", "11"):
        lines.append(f"figure {figure}: " + "; ".join(column for of, column in columns if of == figure))
        for name, row in rows.items():
            if figure in row:
                lines.append(f"  {name:<{width}}" + "".join(f"{x:7.2f}" for x in row[figure].values()))
    return "\n".join(lines)


def vary(names: Sequence[str]) -> None:
    """Run assumptions, each written when it is complete, and print the table."""
    for one in ALL:
        if not names or one.name in names:
            found: dict[str, Any] = {one.name: {figure: one.figure(figure) for figure in one.figures}}
            if ASSUMPTIONS.exists():
                found = json.loads(ASSUMPTIONS.read_text(encoding="utf-8")) | found
            rows = {known.name: found[known.name] for known in ALL if known.name in found}
            lines = (f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
            ASSUMPTIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
            print(one.name, found[one.name], flush=True)
    print(table(json.loads(ASSUMPTIONS.read_text(encoding="utf-8"))))


def main(figures: list[str]) -> None:
    """Run some figures, or assumptions, and write each one when it is complete."""
    Point("", 2, "all_gather", "allpairs", 1024, 1).simulate()  # compiles outside the first point
    if figures[:1] == ["assumptions"]:
        vary(figures[1:])
        return
    found = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    for figure in figures or ["4", "10", "11", "12", "13", "14"]:
        rows = []
        for point in (p for p in grid() if p.figure == figure):
            began = perf_counter()
            sim = point.simulate()
            seconds = perf_counter() - began
            result = {"time_ps": sim.result.time_ps, "events": sim.events, "seconds": round(seconds, 2)}
            rows.append({**asdict(point), **result})
            print(figure, asdict(point), result, flush=True)
        found[figure] = rows
        lines = ",\n".join(
            f' "{name}": [\n  ' + ",\n  ".join(json.dumps(row) for row in found[name]) + "\n ]"
            for name in sorted(found, key=int)
        )
        DATA.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
