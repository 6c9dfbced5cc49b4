"""Kernels of serving engines as measured: tables of an engine on a GPU, interpolated.

``astranb/hardware/measured/engine_kernels.csv`` has a line for each shape, with the microseconds along one
axis (tokens, sequences or bytes). Between the shapes and points that were measured, the logarithm of the time
is linear in the logarithms of sizes; beyond the largest it grows in proportion, below the smallest it stays.
What an engine has no line for is another engine's, as they share libraries (cuBLAS, CUTLASS, FlashInfer,
DeepGEMM); what nobody has, the built-in model times.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final, NamedTuple

from astranb.core.number_files import real, text_of, text_rows
from astranb.hardware import FOLDER, GPUS, Gpu

from .work import Attention, Product

__all__ = ["ENGINES_MEASURED", "EngineTable", "engine_table"]

_FILE: Final = FOLDER / "measured" / "engine_kernels.csv"
_MOST_BYTES: Final = 4 << 20
_ANY: Final = "all"
"""Products are the fastest of those of all engines, which choose among the same libraries' kernels."""

ENGINES_MEASURED: Final = ("vllm", "sglang", "trtllm")
"""Engines with tables; the lines that one of them lacks are those of the first other one that has them."""

_EXPERTS: Final = {
    "mxfp4": ("mxfp4-fp8", "mxfp4"), "nvfp4": ("nvfp4",), "fp8-block": ("fp8-block",), "": (),
}  # fmt: skip
"""Precisions of experts by the weights, the preferred one first: with MXFP8 activations where the GPU can."""
_WINDOW: Final = 128
"""The window of measured lines, which is that of gpt-oss."""


class _Line(NamedTuple):
    """Times along an axis, ascending, as logarithms."""

    at: tuple[float, ...]
    ns: tuple[float, ...]

    def time(self, at: float) -> float:
        """Return the logarithm of the time in nanoseconds."""
        if at <= self.at[0] or len(self.at) == 1:
            return self.ns[0]
        if at >= self.at[-1]:
            return self.ns[-1] + at - self.at[-1]
        after = bisect_left(self.at, at)
        return _between(at, self.at[after - 1], self.at[after], self.ns[after - 1], self.ns[after])


def _between(at: float, low: float, high: float, first: float, second: float) -> float:
    return first + (second - first) * (at - low) / (high - low) if high > low else first


_Shape = tuple[tuple[str, int], ...]
_Lines = Mapping[tuple[str, str], Mapping[_Shape, _Line]]


@dataclass(frozen=True)
class EngineTable:
    """Measured kernels of an engine on a GPU.

    Attributes
    ----------
    engine : str
    lines : mapping
        By kernel and precision, then by shape.
    """

    engine: str
    lines: _Lines

    @cached_property
    def _axes(self) -> dict[str, tuple[list[int], list[int]]]:
        """Widths and depths of the products of each precision, ascending."""
        found = {}
        for (kernel, precision), known in self.lines.items():
            if kernel == "gemm":
                wide, deep = (sorted({dict(shape)[name] for shape in known}) for name in "nk")
                found[precision] = wide, deep
        return found

    @cached_property
    def _contexts(self) -> dict[tuple[str, str, _Shape], list[int]]:
        """Lengths of the keys of each attention, ascending: the last number of its shapes."""
        found: dict[tuple[str, str, _Shape], list[int]] = defaultdict(list)
        for (kernel, precision), known in self.lines.items():
            if kernel in ("decode", "latent"):
                for *shape, (_, keys) in known:
                    found[kernel, precision, tuple(shape)].append(keys)
        return {shape: sorted(keys) for shape, keys in found.items()}

    def product_ns(self, one: Product, precision: str) -> float | None:
        """Return the time of a product in nanoseconds, with the cast of its input; None: not measured.

        Examples
        --------
        >>> table = engine_table(GPUS["h100-sxm"], "vllm")
        >>> round(table.product_ns(Product(16, 8192, 1024), "fp8"))
        8259
        """
        known = self.lines.get(("gemm", precision))
        if known is None or one.copies > 1:
            return None
        wide, deep = self._axes[precision]
        m = math.log(one.m)
        (n_low, n_high, n), (k_low, k_high, k) = _around(wide, one.n), _around(deep, one.k)

        def along(width: int) -> float:
            low, high = (known[(("n", width), ("k", depth))].time(m) for depth in (k_low, k_high))
            return _between(k, math.log(k_low), math.log(k_high), low, high)

        found = _between(n, math.log(n_low), math.log(n_high), along(n_low), along(n_high))
        return math.exp(found + max(0.0, math.log(one.n / wide[-1])) + max(0.0, math.log(one.k / deep[-1])))

    def experts_ns(
        self, tokens: int, hidden: int, width: int, experts: int, top: int, weights: str
    ) -> float | None:
        """Return the time of all experts of a layer of a rank; None: not measured."""
        shape = (("hidden", hidden), ("width", width), ("experts", experts), ("top", top))
        for precision in _EXPERTS.get(weights, ()):
            line = self.lines.get(("experts", precision), {}).get(shape)
            if line is not None:
                return math.exp(line.time(math.log(tokens)))
        return None

    def attention_ns(self, one: Attention) -> float | None:
        """Return the time of attention of a new token of each sequence; None: not measured."""
        if one.queries > 1:
            return None
        if one.kept_heads == 1 and one.key_size != one.value_size:
            kind, precision = "latent", "bf16" if one.kept_size == one.key_size else "fp8"
            shape: _Shape = (("heads", one.heads),)
        else:
            kind, precision = "decode", "fp8" if 0 < one.kept_size < one.key_size + one.value_size else "bf16"
            shape = (("heads", one.heads), ("kept", one.kept_heads), ("size", one.key_size), ("window", 0))
        if kind == "decode" and one.keys <= _WINDOW:
            windowed = (*shape[:-1], ("window", _WINDOW))
            shape = windowed if (kind, precision, windowed) in self._contexts else shape
        keys = self._contexts.get((kind, precision, shape))
        if keys is None:
            return None
        low, high, at = _around(keys, one.keys)
        batch = math.log(one.sequences)
        known = self.lines[kind, precision]
        first, second = (known[(*shape, ("keys", each))].time(batch) for each in (low, high))
        found = _between(at, math.log(low), math.log(high), first, second)
        return math.exp(found + max(0.0, math.log(one.keys / keys[-1])))

    def all_reduce_ns(self, gpus: int, size: int) -> float | None:
        """Return the time of an all-reduce of some bytes; None: not measured.

        Examples
        --------
        >>> table = engine_table(GPUS["h100-sxm"], "sglang")
        >>> [round(table.all_reduce_ns(8, size)) for size in (16 << 10, 1 << 20)]
        [3748, 13470]
        """
        line = self.lines.get(("all_reduce", "bf16"), {}).get((("gpus", gpus),))
        return None if line is None else math.exp(line.time(math.log(max(1, size))))


def _around(values: Sequence[int], one: int) -> tuple[int, int, float]:
    """Return the values on both sides of one, and its logarithm inside their range."""
    at = min(max(one, values[0]), values[-1])
    after = max(1, bisect_left(values, at)) if len(values) > 1 else 0
    return values[max(0, after - 1)], values[after], math.log(at)


def engine_table(gpu: Gpu, engine: str) -> EngineTable | None:
    """Return the measured kernels of an engine on a GPU; None: there are none, or the GPU was changed."""
    if engine not in ENGINES_MEASURED or gpu != GPUS.get(gpu.name):
        return None
    return _tables().get((gpu.name, engine))


@cache
def _tables() -> dict[tuple[str, str], EngineTable]:
    rows: dict[tuple[str, str], dict[tuple[str, str], dict[_Shape, _Line]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    where = str(_FILE)
    for here, row in text_rows(text_of(_FILE, _MOST_BYTES), where):
        if not row or row[0] == "gpu" or row[0].startswith("#"):
            continue
        gpu, engine, kernel, precision, text, points = row
        pairs = (part.partition("=") for part in text.split())
        shape = tuple((name, int(value)) for name, _, value in pairs)
        at, ns = [], []
        for point in points.split():
            axis, _, took = point.partition(":")
            at.append(math.log(int(axis)))
            ns.append(math.log(1e3 * real(took, 1e-3, 1e9, what="us", where=here)))
        rows[gpu, engine][kernel, precision][shape] = _Line(tuple(at), tuple(ns))
    found = {}
    for gpu in {gpu for gpu, _ in rows}:
        for engine in ENGINES_MEASURED:
            merged: dict[tuple[str, str], dict[_Shape, _Line]] = defaultdict(dict)
            for other in (*reversed([one for one in ENGINES_MEASURED if one != engine]), engine, _ANY):
                for key, lines in rows[gpu, other].items():
                    merged[key] |= lines
            found[gpu, engine] = EngineTable(engine, merged)
    return found
