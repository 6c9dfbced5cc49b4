"""The full grids of ASTRA-sim 3.0's figures on its generic GPU, recorded as data.

``python -m benchmarks.figures [4 10 11 12 13 14]`` runs the figures named (about half an hour
for all), line by line, and writes them to tests/data/figures.json. The notebooks show them
and run the smaller points again, which checks that the recorded results are current.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter

import astranb as anb
from astranb.collectives import Collective

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "figures.json"
_KIB, _MIB = 2**10, 2**20


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
        sim = anb.Simulation(
            f"generic:gpus={self.gpus},ports={self.ports},latency={self.latency}",
            Collective.of(
                self.kind, self.size, self.algorithm, channels=self.channels, protocol=self.protocol
            ),
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


def main(figures: list[str]) -> None:
    """Run some figures and write each one when it is complete."""
    Point("", 2, "all_gather", "allpairs", 1024, 1).simulate()  # compiles outside the first point
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
