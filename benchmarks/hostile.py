"""Inputs of hostile sizes, and how soon a command ends when it is interrupted."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from astranb.engine.messages.run import Run
from astranb.engine.messages.tables import ALL_REDUCE
from astranb.infragraph import load
from astranb.workload.astrasim2 import COLLECTIVE, DimensionNetwork, Operations, System, Workload
from astranb.workload.astrasim2.kinds import INTRA


def document(edges: int) -> dict[str, Any]:
    """Make an InfraGraph document of a thousand hosts with as many kinds of links as edges."""
    ends = [{"instance": f"host[{n}]", "component": "nic"} for n in range(1000)]
    return {
        "name": "large",
        "devices": [{"name": "box", "components": [{"name": "nic", "count": 1, "choice": "xpu"}]}],
        "links": [{"name": f"l{n}", "physical": {"latency": {"ns": n}}} for n in range(edges)],
        "instances": [{"name": "host", "device": "box", "count": 1000}],
        "edges": [
            {"ep1": ends[n % 999], "ep2": ends[n % 999 + 1], "scheme": "one2one", "link": f"l{n}"}
            for n in range(edges)
        ],
    }


def many_chunks(order: str) -> Run:
    """Make a run of an all-reduce of 65,535 chunks on eight NPUs."""
    system = System.from_document({
        "all-reduce-implementation": ["ring"], "preferred-dataset-splits": 65535,
        "intra-dimension-scheduling": order,
    })  # fmt: skip
    row = {"kind": COLLECTIVE, "collective": ALL_REDUCE, "bytes": 1 << 30}
    network = DimensionNetwork(["Ring"], [8], [50.0], [500.0])
    return Run(Workload([Operations.of([row])] * 8, network, system))


def commands(folder: Path) -> dict[str, tuple[list[str], float]]:
    """Write large inputs; returns commands that read them, each with the seconds that it takes about."""
    large, lists = folder / "large.json", folder / "lists.json"
    large.write_text(json.dumps(document(20_000)))
    note = {"graph": [{"attribute": "a", "value": [[[]]] * 500_000}]}
    lists.write_text(json.dumps({"infrastructure": document(20_000), "annotations": note}))
    run = ["run", "collective", "all_reduce", "--infra", "dgx-h100"]
    step = ["gpt3-6.7b", "--dp", "8", "--tp", "8", "--pp", "4"]
    verify = ["collective", "verify", "all_reduce", "--ranks", "32"]
    return {
        "cacheline": ([*run, "--size", "64MiB", "--algorithm", "allpairs"], 4),
        "congestion": ([*run, "--size", "1GiB", "--fidelity", "congestion"], 1),
        "analytical": ([*run, "--size", "1GiB", "--fidelity", "analytical"], 1),
        "model": (["run", "model", *step], 4),
        "saved": ([*run, "--size", "4MiB", "--algorithm", "ring", "--save", str(folder / "state.npz")], 3),
        "verify": (verify, 4),
        "check": (["infra", "check", str(large)], 3),
        "lists": (["infra", "show", str(lists)], 3),
        "draw": (["infra", "draw", str(large), "-o", str(folder / "large.svg")], 4),
        "generate": (["chakra", "generate", "--model", *step, "-o", str(folder / "step")], 4),
    }


def interrupt(argv: list[str], after: float) -> tuple[int, str, float]:
    """Interrupt a command after some seconds; returns its code, its errors and the seconds it took to end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "astranb", *argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        began = perf_counter()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        return process.returncode, err, perf_counter() - began
    assert process.stderr is not None
    with process.stderr:
        return process.returncode, process.stderr.read(), 0.0


def hostile(row: Any) -> None:
    """Measure what the largest inputs take, and the longest that a command goes on after Ctrl-C."""
    text = json.dumps(document(52_000))
    began = perf_counter()
    json.loads(text)
    bare = perf_counter() - began
    began = perf_counter()
    load(text).expand()
    took = perf_counter() - began
    row(
        f"InfraGraph document of {len(text) / 1e6:.0f} MB, read and expanded",
        took,
        "s",
        "JSON alone",
        took / bare,
    )
    many_chunks("FIFO").go(steps=20_000)  # loads the machine code
    fifo = 0.0
    for order in INTRA:  # FIFO first
        run = many_chunks(order)
        began = perf_counter()
        run.go(steps=20_000)
        took = perf_counter() - began
        fifo = fifo or took
        row(f"65,535 chunks queued, order {order}", took, "s", "FIFO", took / fifo)
    draw = random.Random(17)
    with tempfile.TemporaryDirectory() as folder:
        for name, (argv, most) in commands(Path(folder)).items():
            worst = max(interrupt(argv, 0.1 + most * draw.random())[2] for _ in range(8))
            row(
                f"from Ctrl-C to the end of {name}, worst of 8",
                worst,
                "s",
                "the limit of 0.15 s",
                worst / 0.15,
            )
