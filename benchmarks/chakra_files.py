"""Chakra files: nodes read and written a second, 100,000 events converted, modules, scaling 8 ranks to 1,024.

Reading and writing are compared with a bare loop over the same nodes as JSON, a line each.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from astranb.chakra import ModuleTree, TraceBuilder, link, pytorch_trace, read, scale, write
from astranb.core.document import DocumentNode, DocumentSource
from astranb.workload.models import Parallelism, workload

__all__ = ["chakra_files"]

_NODES: Final = 400_000
_EVENTS: Final = 100_000
_LEAST_PER_S: Final = 200_000
_CONVERT_S: Final = 20
_NODES_OF_MODULES: Final = 100_000
_MODULES_MS: Final = 1000


def chakra_files(row: Any, _bare: float) -> None:
    """Measure reading, writing and converting."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [
            json.dumps({"id": n, "name": f"layer {n % 40}", "num_ops": n, "deps": [n - 1]})
            for n in range(_NODES)
        ]
        began = perf_counter()
        for line in lines:
            json.loads(line)
        bare = _NODES / (perf_counter() - began)
        began = perf_counter()
        step = TraceBuilder()
        for n in range(_NODES):
            step.compute(f"layer {n % 40}", num_ops=n, after=max(n - 1, 0) if n else ())
        write(step.build(), folder / "t.et")
        built = _NODES / (perf_counter() - began)
        read(folder / "t.et")  # its kernel is loaded
        began = perf_counter()
        trace = read(folder / "t.et")
        assert len(trace.parents.flat) == _NODES - 1
        rate = _NODES / (perf_counter() - began)
        began = perf_counter()
        write(trace, folder / "u.et")
        written = _NODES / (perf_counter() - began)
        for what, value in (("read", rate), ("write", written), ("build and write", built)):
            row(
                f"Chakra trace of {_NODES:,} nodes: {what}",
                value,
                "nodes/s",
                "a bare loop over JSON",
                value / bare,
            )
        least = min(rate, written, built)
        row("the slowest of them", least, "nodes/s", "the limit", least / _LEAST_PER_S)
        _modules(row, folder)
        _profile(folder)
        began = perf_counter()
        found = link(folder / "host.json", folder / "device.json")
        pytorch_trace(DocumentNode(found.document, DocumentSource("linked")))
        took = perf_counter() - began
        what = f"PyTorch profile of {_EVENTS:,} events: link and convert"
        row(what, took, "s", f"the limit of {_CONVERT_S} s", took / _CONVERT_S)
        _scaled(folder, row)


def _scaled(folder: Path, row: Any) -> None:
    """Measure scaling a step of GPT-3 125M, against generating it for as many ranks."""
    small = Parallelism(data=2, tensor=2, pipeline=2)
    workload("gpt3-125m", small, batch=16, microbatches=8, gpu="h100-sxm").write(folder / "few")
    began = perf_counter()
    job = scale(folder / "few", 1024)
    job.write(folder / "many")
    took = perf_counter() - began
    began = perf_counter()
    many = workload("gpt3-125m", job.plan, batch=8 * job.plan.data, microbatches=8, gpu="h100-sxm")
    many.write(folder / "same")
    direct = perf_counter() - began
    row(f"8 ranks scaled to 1,024, {job.nodes:,} nodes", took, "s", "generating them", took / direct)


def _modules(row: Any, folder: Path) -> None:
    """Measure the hierarchy of a trace, with its sums and folded dependencies."""
    step = TraceBuilder()
    done: list[int] = []
    for n in range(_NODES_OF_MODULES):
        micro, layer, half = n // 200, n // 2 % 100, n % 2
        done = [step.compute(f"L{layer} fwd {micro} {'mlp' if half else 'attn'}", num_ops=n, after=done)]
    write(step.build(), folder / "m.et")
    trace = read(folder / "m.et")
    began = perf_counter()
    tree = ModuleTree(trace)
    assert len(tree.edges(0).data)
    took_ms = 1000 * (perf_counter() - began)
    what = f"modules of a trace of {_NODES_OF_MODULES:,} nodes"
    row(what, took_ms, "ms", f"the limit of {_MODULES_MS} ms", took_ms / _MODULES_MS)


def _profile(folder: Path) -> None:
    """Write a host's and a device's trace: operators with a launch and a kernel each."""
    nothing: dict[str, list[Any]] = {"values": [], "shapes": [], "types": []}
    frame = "[pytorch|profiler|execution_trace|"
    nodes: list[dict[str, Any]] = [
        {
            "id": n,
            "name": f"{frame}{kind}]",
            "ctrl_deps": 1,
            "inputs": nothing,
            "outputs": nothing,
            "attrs": [],
        }
        for n, kind in ((1, "process"), (2, "thread"))
    ]
    events = []
    for n in range(_EVENTS // 3):
        attrs = [
            {"name": "rf_id", "type": "uint64", "value": n},
            {"name": "tid", "type": "uint64", "value": 1},
        ]
        name = f"aten::op_{n % 300}"
        nodes.append(
            {"id": n + 3, "name": name, "ctrl_deps": 2, "inputs": nothing, "outputs": nothing, "attrs": attrs}
        )
        begun = 10.0 * n
        own = {"External id": n, "Record function id": n}
        events += [
            {"ph": "X", "cat": "cpu_op", "name": name, "tid": 1, "ts": begun, "dur": 8, "args": own},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": begun + 1,
             "dur": 2, "args": {"External id": n, "correlation": n}},
            {"ph": "X", "cat": "kernel", "name": f"kernel_{n % 90}", "tid": 7, "ts": begun + 4, "dur": 5,
             "args": {"External id": n, "correlation": n, "stream": 7}},
        ]  # fmt: skip
    host = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": nodes}
    (folder / "host.json").write_text(json.dumps(host))
    (folder / "device.json").write_text(json.dumps({"traceEvents": events}))
