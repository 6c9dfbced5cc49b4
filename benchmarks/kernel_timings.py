"""Time the kernels of a real GPU's libraries, for ``astranb run model … --kernels FILE.csv``.

``python kernel_timings.py --output my-gpu.csv`` on a machine with an NVIDIA or AMD GPU; it needs Python 3.10
and PyTorch 2.4, and nothing of astranb. ``--list`` prints the rows that it would measure, without PyTorch.
It complements ``gpu_microbench.py``, which measures the machine below the libraries.

It was written on a machine without a GPU and **has not been run on hardware there**: it runs there on the
processor (``--device cpu --sizes tiny``), where every row is taken, and its file is read back.

How each row is measured: the kernel is launched as many times as take 20 ms, as one CUDA graph where that
can be captured, on inputs that change in turn so that together they do not fit in the L2; the median of the
repetitions counts. Inputs are random normal numbers: zeros and ones run faster within a GPU's power.

- ``gemm``: ``torch.mm``; in fp8 ``torch._scaled_mm`` with one scale a matrix; with ``copies`` equal products
  in one kernel, ``torch.bmm``.
- ``linear``: the cast of the input to fp8 and the product.
- ``attention`` and ``attention backward``: causal ``scaled_dot_product_attention`` by FlashAttention or
  cuDNN, the faster of the two; ``decode``: one query of each sequence.
- ``pass``: a product with a number, from one array to another.
- ``launch graph``, ``launch stream``: 1,000 empty kernels (an addition to one number).
"""

from __future__ import annotations

import argparse
import functools
import importlib
import math
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

COLUMNS = "gpu,kernel,precision,shape,ns"
Row = tuple[str, str, dict[str, int]]
"""Kernel, precision and shape."""

_LAUNCHES = 1000
_ENOUGH_S = 0.02
_MOST_RUNS = 2000
_L2_BYTES = 256 << 20  # more than any has

SIZES: dict[str, dict[str, Any]] = {
    "full": {
        "m": (1, 16, 64, 256, 1024, 4096, 8192),
        "nk": ((6144, 4096), (4096, 4096), (8192, 8192), (28672, 4096), (4096, 14336), (1024, 8192)),
        "grouped": ((8, 16, 28672, 4096), (8, 512, 28672, 4096), (64, 64, 2816, 2048), (64, 512, 2816, 2048)),
        "prompts": ((16, 512), (8, 1024), (4, 2048), (2, 4096), (1, 8192), (1, 16384)),
        "decode": ((1, 1024), (8, 2048), (64, 2048), (16, 8192), (128, 4096)),
        "heads": (32, 8, 128),
        "bytes": tuple(1 << n for n in range(22, 32)),
    },
    "quick": {
        "m": (16, 512, 8192),
        "nk": ((4096, 4096), (8192, 8192)),
        "grouped": ((8, 512, 14336, 4096),),
        "prompts": ((4, 2048), (1, 8192)),
        "decode": ((8, 2048), (64, 4096)),
        "heads": (32, 8, 128),
        "bytes": (1 << 24, 1 << 28, 1 << 30),
    },
    "tiny": {
        "m": (1, 64),
        "nk": ((64, 128),),
        "grouped": ((2, 16, 32, 64),),
        "prompts": ((1, 32),),
        "decode": ((2, 64),),
        "heads": (4, 2, 16),
        "bytes": (1 << 16,),
    },
}
"""Measured shapes: of public models (Llama, Mixtral, Qwen), or few of them, or very small ones."""


class Unusable(Exception):
    """Something is missing: one line, exit code 2."""


def rows(sizes: str) -> list[Row]:
    """Return what is to be measured."""
    some = SIZES[sizes]
    heads, kept, size = some["heads"]
    found: list[Row] = []
    for precision, kernel in (("bf16", "gemm"), ("fp16", "gemm"), ("fp8", "gemm"), ("fp8", "linear")):
        # fp16 runs as bf16 does: one column of shapes shows it.
        shapes = some["nk"] if precision != "fp16" else some["nk"][:1]
        found += [(kernel, precision, {"m": m, "n": n, "k": k}) for n, k in shapes for m in some["m"]]
    for copies, m, n, k in some["grouped"]:
        found.append(("gemm", "bf16", {"m": m, "n": n, "k": k, "copies": copies}))
    for batch, length in some["prompts"]:
        for kernel in ("attention", "attention backward"):
            shape = {"sequences": batch, "queries": length, "keys": length, "heads": heads}
            found.append((kernel, "bf16", {**shape, "kept_heads": heads, "size": size}))
    for batch, length in some["decode"]:
        shape = {"sequences": batch, "queries": 1, "keys": length, "heads": heads}
        found.append(("decode", "bf16", {**shape, "kept_heads": kept, "size": size}))
    found += [("pass", "bf16", {"bytes": size}) for size in some["bytes"]]
    found += [(kernel, "bf16", {"kernels": _LAUNCHES}) for kernel in ("launch graph", "launch stream")]
    return found


class Bench:
    """Times calls on one device."""

    def __init__(self, torch: Any, device: str, repeats: int) -> None:
        self.torch, self.device, self.repeats = torch, device, repeats
        self.on_gpu = device.startswith("cuda")

    def sync(self) -> None:
        """Wait for everything launched."""
        if self.on_gpu:
            self.torch.cuda.synchronize(self.device)

    def random(self, *shape: int, precision: str = "bf16") -> Any:
        """Return an array of random normal numbers."""
        kind = self.torch.bfloat16 if self.on_gpu else self.torch.float32
        made = self.torch.randn(*shape, device=self.device, dtype=kind)
        return made.to(self.type_of(precision))

    def type_of(self, precision: str) -> Any:
        """Return PyTorch's type of a precision; AMD's first fp8 is another one."""
        torch = self.torch
        if precision == "fp8":
            old = bool(torch.version.hip) and "gfx94" in self.architecture
            return torch.float8_e4m3fnuz if old else torch.float8_e4m3fn
        return {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]

    @property
    def architecture(self) -> str:
        """AMD's name of the GPU's generation; empty on others."""
        if not self.on_gpu:
            return ""
        return str(getattr(self.torch.cuda.get_device_properties(self.device), "gcnArchName", ""))

    def ns(self, calls: list[Callable[[], Any]], *, runs: int | None = None, graph: bool = True) -> float:
        """Return the nanoseconds of a call: of several in turn, each on inputs of its own."""
        for call in calls:
            call()
        self.sync()
        once = self._seconds(calls, len(calls)) / len(calls)
        count = runs or max(len(calls), min(_MOST_RUNS, math.ceil(_ENOUGH_S / max(once, 1e-9))))
        replay = self._captured(calls, count) if graph and self.on_gpu else None
        found = []
        for _ in range(self.repeats):
            took = self._seconds([replay], 1) if replay else self._seconds(calls, count)
            found.append(took / count * 1e9)
        return statistics.median(found)

    def _seconds(self, calls: list[Callable[[], Any]], count: int) -> float:
        if not self.on_gpu:
            began = time.perf_counter()
            for n in range(count):
                calls[n % len(calls)]()
            return time.perf_counter() - began
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for n in range(count):
            calls[n % len(calls)]()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def _captured(self, calls: list[Callable[[], Any]], count: int) -> Callable[[], Any] | None:
        """Capture calls as a CUDA graph; None where that cannot be."""
        graph = self.torch.cuda.CUDAGraph()
        try:
            with self.torch.cuda.graph(graph):
                for n in range(count):
                    calls[n % len(calls)]()
        except RuntimeError:
            self.sync()
            return None
        graph.replay()
        self.sync()
        return graph.replay  # type: ignore[no-any-return]


def copies_of(size: int) -> int:
    """Return how many inputs of a size do not fit in the L2 together, at most 16."""
    return max(1, min(16, math.ceil(_L2_BYTES / max(1, size))))


def products(bench: Bench, precision: str, shape: dict[str, int], *, cast: bool) -> list[Callable[[], Any]]:
    """Prepare products of matrices."""
    m, n, k, torch = shape["m"], shape["n"], shape["k"], bench.torch
    each = 1 if precision == "fp8" else 2
    count = copies_of(each * (m * k + n * k) * shape.get("copies", 1)) if bench.on_gpu else 1
    made: list[Callable[[], Any]] = []
    for _ in range(count):
        if "copies" in shape:
            x = bench.random(shape["copies"], m, k, precision=precision)
            w = bench.random(shape["copies"], n, k, precision=precision).transpose(1, 2)
            made.append(lambda x=x, w=w: torch.bmm(x, w))  # type: ignore[misc]
            continue
        if precision != "fp8":
            x, w = bench.random(m, k, precision=precision), bench.random(n, k, precision=precision).t()
            made.append(lambda x=x, w=w: torch.mm(x, w))  # type: ignore[misc]
            continue
        scale = torch.ones((), device=bench.device)
        # Rows of fp8 are padded to 16, as libraries want.
        x, w = bench.random(-(-m // 16) * 16, k, precision="fp8"), bench.random(n, k, precision="fp8").t()
        made.append(functools.partial(_in_fp8, torch, x, w, scale, bench.random(m, k) if cast else None))
    return made


def _in_fp8(torch: Any, x: Any, w: Any, scale: Any, wide: Any) -> Any:
    """Multiply in fp8, the first rows cast from wider numbers where these are given."""
    if wide is not None:
        x[: wide.shape[0]].copy_(wide)
    multiply = torch._scaled_mm  # noqa: SLF001 - PyTorch has no public name for it
    return multiply(x, w, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)


def attention(bench: Bench, kernel: str, shape: dict[str, int], backend: Any) -> list[Callable[[], Any]]:
    """Prepare attention by one of PyTorch's kernels."""
    torch, one = bench.torch, shape
    query = bench.random(one["sequences"], one["heads"], one["queries"], one["size"])
    made: list[Callable[[], Any]] = []
    size = 4 * one["sequences"] * one["kept_heads"] * one["keys"] * one["size"]
    for _ in range(copies_of(size) if bench.on_gpu and kernel == "decode" else 1):
        keys, values = (
            bench.random(one["sequences"], one["kept_heads"], one["keys"], one["size"]) for _ in range(2)
        )
        given: dict[str, Any] = {"is_causal": one["queries"] > 1}
        if one["heads"] != one["kept_heads"]:
            given["enable_gqa"] = True

        def forward(keys: Any = keys, values: Any = values, given: dict[str, Any] = given) -> Any:
            with backend():
                return torch.nn.functional.scaled_dot_product_attention(query, keys, values, **given)

        if kernel != "attention backward":
            made.append(forward)
            continue
        inputs = [each.requires_grad_() for each in (query, keys, values)]
        out = forward(*inputs[1:])
        slope = torch.randn_like(out)
        made.append(functools.partial(torch.autograd.grad, out, inputs, slope, retain_graph=True))
    return made


def backends(bench: Bench) -> list[Callable[[], Any]]:
    """Return contexts that choose PyTorch's attention kernel: FlashAttention, cuDNN; on a processor none."""
    if not bench.on_gpu:
        return [nullcontext]
    attention_module = importlib.import_module("torch.nn.attention")
    kinds = attention_module.SDPBackend
    names = [name for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION") if hasattr(kinds, name)]
    return [functools.partial(attention_module.sdpa_kernel, getattr(kinds, name)) for name in names]


def measure_one(bench: Bench, row: Row) -> float:
    """Return the nanoseconds of one row."""
    kernel, precision, shape = row
    if kernel in ("gemm", "linear"):
        return bench.ns(products(bench, precision, shape, cast=kernel == "linear"))
    if kernel == "pass":
        numbers = shape["bytes"] // 4
        count = copies_of(shape["bytes"]) if bench.on_gpu else 1
        pairs = [(bench.random(numbers), bench.random(numbers)) for _ in range(count)]
        return bench.ns([functools.partial(bench.torch.mul, x, 2, out=y) for x, y in pairs])
    if kernel.startswith("launch"):
        one = bench.random(1)
        graph = kernel == "launch graph"
        if graph and not bench.on_gpu:
            raise Unusable("no CUDA graphs on a processor")
        return bench.ns([lambda: one.add_(1)], runs=_LAUNCHES, graph=graph) * _LAUNCHES
    found: list[float] = []
    reason: Exception | None = None
    for backend in backends(bench):
        try:
            # A graph of the backward pass needs the streams of the forward pass: it is timed without.
            calls = attention(bench, kernel, shape, backend)
            found.append(bench.ns(calls, graph=kernel != "attention backward"))
        except RuntimeError as error:
            reason = error
    if not found:
        raise reason or Unusable("no kernel of attention")
    return min(found)


def measure(bench: Bench, name: str, wanted: list[Row]) -> Iterator[str]:
    """Yield the file's lines; what fails is left out, and says so."""
    for row in wanted:
        kernel, precision, shape = row
        text = " ".join(f"{key}={value}" for key, value in shape.items())
        try:
            took = measure_one(bench, row)
        except Exception as error:  # noqa: BLE001 - whatever a driver says, the other rows still count
            reason = " ".join(str(error).split())[:120] or type(error).__name__
            print(f"{kernel} {precision} {text}: left out: {reason}", file=sys.stderr)
            continue
        if bench.on_gpu:
            bench.torch.cuda.empty_cache()
        print(f"{kernel} {precision} {text}: {took / 1e3:.2f} us", flush=True)
        yield f"{name},{kernel},{precision},{text},{took:.0f}"


def about(bench: Bench, sizes: str) -> list[str]:
    """Return the lines that say where the rows are from, and what the device reports."""
    torch = bench.torch
    if not bench.on_gpu:
        return [f"# source: a processor, PyTorch {torch.__version__}, {sizes} sizes", "# use: choose"]
    said = torch.cuda.get_device_properties(bench.device)
    return [
        f"# source: {said.name}, PyTorch {torch.__version__}, CUDA {torch.version.cuda or torch.version.hip}",
        "# use: choose",
        f"# sms: {said.multi_processor_count}",
        f"# memory_bytes: {said.total_memory}",
    ]


def write(path: Path, lines: list[str]) -> None:
    """Write the file, whole or not at all."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise Unusable(f"{path} cannot be written: {error.strerror or error}") from None


def find_torch(device: str) -> Any:
    """Import PyTorch, and see that it has the device."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise Unusable(f"PyTorch is missing ({str(error).splitlines()[0]}); see pytorch.org") from None
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise Unusable("there is no GPU that PyTorch can use here; run this on a machine with one")
    return torch


def _run(options: argparse.Namespace) -> None:
    wanted = [row for row in rows(options.sizes) if not options.only or row[0] in options.only]
    if not wanted:
        raise Unusable(f"--only: no row of {', '.join(options.only)}")
    if options.list:
        for kernel, precision, shape in wanted:
            print(f"{kernel},{precision},{' '.join(f'{key}={value}' for key, value in shape.items())}")
        return
    if options.output is None:
        raise Unusable("--output: name the file to write")
    if not options.output.parent.is_dir():
        raise Unusable(f"--output: there is no folder {options.output.parent}")
    if options.repeats < 3:
        raise Unusable("--repeats: at least 3")
    torch = find_torch(options.device)
    if not options.device.startswith("cuda"):
        torch.set_num_threads(1)  # threads that wait for each other on a busy machine take longer
    bench = Bench(torch, options.device, options.repeats)
    device = torch.cuda.get_device_name(options.device) if bench.on_gpu else "processor"
    name = options.name or re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    lines = list(measure(bench, name, wanted))
    if not lines:
        raise Unusable("nothing could be measured")
    write(options.output, [*about(bench, options.sizes), COLUMNS, *lines])
    print(f"{options.output}: now `astranb run model llama3-8b --gpu LIKE --kernels {options.output}`")


def main(arguments: list[str]) -> int:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description="Time a GPU's kernels, for astranb's models.")
    parser.add_argument("-o", "--output", metavar="FILE.csv", type=Path, help="where to write the timings")
    parser.add_argument("--name", help="of the GPU in the file (what the driver says)")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, … or cpu (cuda)")
    parser.add_argument("--sizes", choices=tuple(SIZES), default="full", help="how much is measured (full)")
    parser.add_argument("--only", nargs="+", metavar="KERNEL", default=[], help="such as gemm attention")
    parser.add_argument("--repeats", type=int, default=5, help="of each measurement (5)")
    parser.add_argument("--list", action="store_true", help="print the rows that would be measured")
    options = parser.parse_args(arguments)
    try:
        _run(options)
    except Unusable as error:
        print(f"kernel_timings: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
