"""Traffic: recording a job of 1,024 and of 16,384 ranks, and translating messages for each target.

Each is compared with a bare loop: a line of text for each message, written by Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from astranb.traffic import TARGETS, MessageGraph, record, translate
from astranb.workload.astrasim2 import COLLECTIVE, DimensionNetwork, Operations, System, Workload

__all__ = ["traffic"]

_JOB = """
import json
from time import perf_counter
from astranb.traffic import profile_model, record
from astranb.workload.models import Parallelism
from benchmarks.resident import most_resident
data = {data}
began = perf_counter()
degrees = Parallelism(tensor=8, sequence=True, pipeline=16, data=data, zero=1)
job = profile_model("llama3-405b", degrees, batch=16 * data, microbatches=16, memory_limit_bytes=1 << 60)
profiled = perf_counter() - began
pattern = record(job.workload())
print(json.dumps({{
    "profiled": profiled, "took": perf_counter() - began, "messages": pattern.messages,
    "bytes": most_resident(),
}}))
"""
"""A whole process, so that its memory is that of the job alone."""

_LIMITS = {1024: (30, None), 16384: (300, 8 << 30)}
_ASKED = 500_000


def traffic(row: Any, _bare: float) -> None:
    """Measure profiling and recording of llama3-405b, unfolding, and each target's messages a second."""
    subprocess.run([sys.executable, "-c", _JOB.format(data=1)], check=True, capture_output=True)  # compiles
    for ranks, (seconds, most) in _LIMITS.items():
        code = _JOB.format(data=ranks // 128)
        printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
        found = json.loads(printed)
        what = f"llama3-405b on {ranks:,} ranks"
        row(
            f"{what}: profile",
            found["profiled"],
            "s",
            f"the limit of {seconds} s",
            found["profiled"] / seconds,
        )
        row(
            f"{what}: profile and record",
            found["took"],
            "s",
            f"the limit of {seconds} s",
            found["took"] / seconds,
        )
        row(f"{what}: messages of the folded pattern", found["messages"], "")
        if most:
            row(f"{what}: memory", found["bytes"] / 1e9, "GB", "the limit of 8 GiB", found["bytes"] / most)
    graph, took = _graph()
    with tempfile.TemporaryDirectory() as folder:
        bare = _plain(graph, Path(folder, "plain.txt"))
        row("a line of text a message, in a Python loop", bare, "messages/s")
        row(
            f"unfold {graph.messages:,} messages",
            graph.messages / took,
            "messages/s",
            "the loop",
            graph.messages / took / bare,
        )
        for name in TARGETS:
            times: list[float] = []
            for _ in range(2):  # the first one imports packages and loads machine code
                began = perf_counter()
                done = translate(graph, name, Path(folder, "out" + (TARGETS[name].suffix or "")))
                times.append(perf_counter() - began)
            rate = done.messages / min(times)
            row(f"translate to {name} (asked: {_ASKED:,})", rate, "messages/s", "the loop", rate / bare)


def _graph() -> tuple[MessageGraph, float]:
    """Unfold the traffic of 75 all-to-alls of 64 ranks, 1 KiB a message, one after another."""
    rows = [{"kind": COLLECTIVE, "collective": 3, "bytes": 1 << 16}] * 75
    one = Operations.of(rows, [[], *([number] for number in range(74))])
    system = System.from_document({"all-to-all-implementation": ["direct"], "preferred-dataset-splits": 1})
    network = DimensionNetwork(["Switch"], [64], [50], [500])
    pattern = record(Workload([one] * 64, network, system, title="all-to-alls"))
    began = perf_counter()
    graph = pattern.unfold()
    return graph, perf_counter() - began


def _plain(graph: MessageGraph, path: Path) -> float:
    sends = graph.nodes[graph.sends]
    began = perf_counter()
    with path.open("w") as file:
        for source, target, size in zip(
            *(sends[name].tolist() for name in ("rank", "peer", "bytes")), strict=True
        ):
            file.write(f"{source} {target} {size}\n")
    return graph.messages / (perf_counter() - began)
