"""ASTRA-sim 2.0's files: whole processes, with the ratio to the C++ program's recorded medians."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

from astranb.chakra import TraceBuilder, write
from astranb.engine.messages import Run
from astranb.infragraph import blueprint
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
    Workload,
)
from astranb.workload.models import MODELS, Parallelism, Transformer, machine
from astranb.workload.models import workload as model_step

from .resident import most_of_command

__all__ = ["astrasim2"]

Row = Callable[..., None]

# NPUs of each dimension, splits, chunks at once, network, the peer's median (s; three runs of each,
# two cores, x86-64, recorded 2026), limit (s)
_CASES = [
    ([8], 4, 1, "analytical", 0.01, 1.0),
    ([256], 16, 16, "analytical", 3.6, 0.8),
    ([256], 16, 16, "congestion", 4.8, 1.2),
    ([1024], 4, 1, "analytical", 14.5, 1.5),
    ([1024], 4, 1, "congestion", 20.0, 3.0),
    ([16384], 4, 1, "analytical", None, 60.0),
    ([16, 16, 16], 4, 1, "analytical", None, 60.0),
]


def _files(folder: Path, dims: list[int], splits: int, active: int) -> list[str]:
    """Write the inputs of a 1 MiB all-reduce; returns the options."""
    builder = TraceBuilder()
    builder.collective("all_reduce", "1 MiB")
    trace = builder.build()
    npus = 1
    for size in dims:
        npus *= size
    for rank in range(npus):
        write(trace, folder / f"w.{rank}.et")
    (folder / "s.json").write_text(json.dumps(_system(len(dims), splits, active)))
    lists = {"topology": ["Ring"], "npus_count": [], "bandwidth": ["50.0"], "latency": ["500.0"]}
    lines = [f"{k}: [ {', '.join(v * len(dims) or map(str, dims))} ]" for k, v in lists.items()]
    (folder / "n.yml").write_text("\n".join(lines) + "\n")
    return [str(folder / "w"), f"--system={folder / 's.json'}", f"--network={folder / 'n.yml'}"]


def _system(dims: int, splits: int, active: int) -> dict[str, object]:
    return {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": active,
        "preferred-dataset-splits": splits,
        "all-reduce-implementation": ["ring"] * dims,
        "local-mem-bw": 1600,
        "collective-optimization": "localBWAware",
    }


def astrasim2(row: Row) -> None:
    """Measure whole processes and the engine event by event."""
    for dims, splits, active, fidelity, peer, limit in _CASES:
        with tempfile.TemporaryDirectory() as folder:
            options = _files(Path(folder), dims, splits, active)
            command = [sys.executable, "-m", "astranb", "run", "trace", *options, "--compat=astrasim2"]
            times = []
            for _ in range(5):
                begun = perf_counter()
                subprocess.run([*command, f"--fidelity={fidelity}"], check=True, stdout=subprocess.DEVNULL)
                times.append(perf_counter() - begun)
        took = median(times)
        shape = "x".join(map(str, dims))
        what = f"{shape} NPUs, 1 MiB all-reduce, {splits}/{active}, {fidelity}, process"
        note = f"(limit {limit} s)"
        if peer is not None:
            row(what, took, "s", f"faster than ASTRA-sim 2.0: {peer} s {note}", peer / took)
        else:
            row(what, took, "s", f"ASTRA-sim 2.0 was not recorded {note}")
    one = Operations.of([{"kind": COLLECTIVE, "bytes": 1 << 20}])
    for npus, name, peer in ((8, "analytical", None), (1024, "analytical", 14.5), (1024, "congestion", 20.0)):
        network = DimensionNetwork(["Ring"], [npus], [50.0], [500.0])
        workload = Workload([one] * npus, network, System.from_document(_system(1, 4, 1)), compat=True)
        times = []
        for _ in range(3):
            begun = perf_counter()
            run = Run(workload, congestion=name == "congestion")
            run.go()  # nothing is folded
            times.append(perf_counter() - begun)
        took = median(times)
        what = f"{npus} NPUs ring 4/1, {name}, event by event, warm"
        if peer is None:
            row(what, took * 1e3, "ms", "(limit 5 ms)")
        else:
            row(what, run.events / took, "events/s", f"faster than ASTRA-sim 2.0: {peer} s", peer / took)
    model(row)
    wafer(row)
    routing(row)


def model(row: Row) -> None:
    """Measure a training step of GPT-3 on 1,024 ranks: the process, its memory, folded or not."""
    command = ["run", "model", "gpt3-175b", "--dp=8", "--tp=8", "--pp=16", "--json"]
    times = []
    for _ in range(3):
        begun = perf_counter()
        printed, resident = most_of_command(*command)
        times.append(perf_counter() - begun)
    took, operations = median(times), json.loads(printed)["operations"]
    row("GPT-3 175B, 8 x 8 x 16 ranks, a step, process", took, "s", f"{operations:,} operations")
    row("GPT-3 175B, 8 x 8 x 16 ranks, a step", operations / took, "operations/s", "(whole process)")
    row("the same: most resident", resident / 1e6, "MB", "the limit of 2 GiB", resident / 2**31)
    many = ["model", "llama3-405b", "--tp=8", "--sp", "--pp=16", "--dp=512", "--zero=1"]
    begun = perf_counter()
    _, resident = most_of_command("run", *many, "--batch=8192", "--microbatches=16", "--json")
    row("Llama 3 405B, 65,536 ranks, a step, process", perf_counter() - begun, "s")
    row("the same: most resident", resident / 1e9, "GB", "the limit of 4 GB", resident / 4e9)
    step = model_step("gpt3-175b", Parallelism(tensor=8, pipeline=16), gpu="h100-sxm")
    cluster = machine(step)
    work = Workload(step.operations(), cluster.network, cluster.system, groups=step.groups)
    times = []
    for folded in (True, False):
        run = Run(work)
        begun = perf_counter()
        if folded:
            run.finish()
        else:
            run.go()
        times.append(perf_counter() - begun)
    what = "GPT-3 175B, 1 x 8 x 16 ranks, a step, folded, warm"
    row(what, times[0], "s", "faster than all ranks", times[1] / times[0])


def wafer(row: Row) -> None:
    """Measure four layers of Transformer-1T (with heads for 128 ranks) on 512 NPUs in four dimensions."""
    whole = MODELS["transformer-1t"]
    assert isinstance(whole, Transformer)
    layers = replace(whole, layers=4, heads=128, kv_heads=128, head_size=200)
    step = model_step(layers, Parallelism(tensor=128, data=4), gpu="a100-sxm", uneven=True)
    shapes = ["Ring", "FullyConnected", "Ring", "Switch"]
    network = DimensionNetwork(shapes, [2, 8, 8, 4], [250.0, 200 / 7, 100.0, 50.0], [500.0] * 4)
    each = ["ring", "direct", "ring", "halvingDoubling"]
    for groups, all_too in (("dimensions", True), ("ring", False)):
        document = {
            **{f"{name}-implementation": each for name in ("all-reduce", "all-gather", "reduce-scatter")},
            "preferred-dataset-splits": 32,
            "active-chunks-per-dimension": 32 if groups == "dimensions" else 1,
            "collective-optimization": "localBWAware",
            "group-implementation": groups,
        }
        work = Workload(step.operations(), network, System.from_document(document), groups=step.groups)
        run = Run(work)
        begun = perf_counter()
        run.finish()
        took = perf_counter() - begun
        what = f"Transformer-1T, 4 layers, 512 NPUs in 4 dimensions, groups: {groups}"
        if all_too:
            run = Run(work)
            begun = perf_counter()
            run.go()
            row(what, took, "s", "faster than all ranks (limit 5 s)", (perf_counter() - begun) / took)
        else:
            row(what, took, "s", f"{run.events:,} events (limit 5 s)")
    document |= {"group-implementation": "dimensions", "active-chunks-per-dimension": 4}
    for chunks, inter, intra in ((4, "themis", "SCF"), (32, "baseline", "FIFO")):
        document |= {"inter-dimension-scheduling": inter, "intra-dimension-scheduling": intra}
        system = System.from_document(document | {"preferred-dataset-splits": chunks})
        run = Run(Workload(step.operations(), network, system, groups=step.groups))
        begun = perf_counter()
        run.finish()
        what = f"the same, {chunks} chunks, {inter}, 4 at once"
        row(what, perf_counter() - begun, "s", f"{run.events:,} events (limit 5 s)")
    uneven = model_step(
        replace(whole, layers=4), Parallelism(tensor=128, data=4), gpu="a100-sxm", uneven=True
    )
    for inter, intra in (("baseline", "FIFO"), ("themis", "SCF")):
        document |= {"inter-dimension-scheduling": inter, "intra-dimension-scheduling": intra}
        system = System.from_document(document | {"preferred-dataset-splits": 4})
        run = Run(Workload(uneven.operations(), network, system, groups=uneven.groups))
        begun = perf_counter()
        run.finish()
        what = f"the same, with its {whole.heads} heads, 4 chunks, {inter}, 4 at once"
        row(what, perf_counter() - begun, "s", f"{run.events:,} events (limit 5 s)")


def routing(row: Row) -> None:
    """Measure finding the routes of 1,024 GPUs under a Clos, for rings in a server and between servers."""
    clos = InfraNetwork(blueprint("clos:servers=128"))
    one = Operations.of([{"kind": COLLECTIVE, "bytes": 1 << 20}])
    system = System.from_document(_system(2, 4, 1))
    len(clos.fabric.links)  # not part of the measured time
    begun = perf_counter()
    Run(Workload([one] * clos.npus, clos, system))
    took = perf_counter() - begun
    row("1,024 GPUs under a Clos: routes of rings found, run built", took, "s", "35 s at first", 35 / took)
