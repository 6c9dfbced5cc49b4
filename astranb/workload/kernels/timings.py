"""Timings of kernels on real GPUs: tables that ``benchmarks/kernel_timings.py`` and publications fill.

A table is a CSV file of the columns of :data:`COLUMNS`, a row for each kernel. Lines that begin with
``#`` say where all rows are from (``# source: …``) and what they were used for: ``# use: choose`` (to choose
numbers of :mod:`.gpus` or how they are used), ``seen`` (looked at while choosing) or ``blind``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from astranb.core.errors import InputError, near
from astranb.core.number_files import real, text_of, whole
from astranb.hardware import PRECISIONS

from .times import KernelTimes
from .work import Attention, Kernel, Product, Stream, expert_kernels, experts_used

__all__ = ["COLUMNS", "FACTS", "KERNELS", "KernelTiming", "read_facts", "read_timings"]

COLUMNS: Final = ("gpu", "kernel", "precision", "shape", "ns")
"""The columns: a GPU's name, one of :data:`KERNELS`, one of the precisions, the shape as ``m=8 n=16 k=32``,
and the nanoseconds that the kernel took."""

_ATTENTION: Final = ("sequences", "queries", "keys", "heads", "kept_heads", "size")
KERNELS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "gemm": (("m", "n", "k"), ("copies",)),
    "linear": (("m", "n", "k"), ("copies",)),
    "experts": (("tokens", "hidden", "width", "experts", "top"), ("gated", "random")),
    "attention": (_ATTENTION, ("causal",)),
    "attention backward": (_ATTENTION, ("causal",)),
    "prompt": (_ATTENTION, ()),
    "decode": (_ATTENTION, ()),
    "pass": (("bytes",), ()),
    "launch graph": (("kernels",), ()),
    "launch stream": (("kernels",), ()),
}
"""Kernels of rows: the numbers of a shape, and those that may be left out (they are 1).

``gemm`` is a product of matrices alone, ``linear`` in fp8 with the cast of its input, ``experts`` all that
the experts of a rank do, ``prompt`` attention with what comes before it in serving (positions rotated, keys
and values stored), ``decode`` attention of one token of each sequence, ``pass`` a pass over memory,
and a launch that of a number of empty kernels one after another. Tokens are spread over experts evenly, or
with ``random=1`` at random."""

FACTS: Final[Mapping[str, tuple[str, float, float, float]]] = {
    "sms": ("sms", 1, 1, 4096),
    "memory_bytes": ("memory_bytes", 1, 1 << 20, 1 << 50),
    "memory_GBps": ("memory_Bps", 1e9, 1, 1e6),
    "bf16_TFLOPs": ("bf16", 1e12, 0.1, 1e6),
    "fp8_TFLOPs": ("fp8", 1e12, 0.1, 1e6),
}
"""Facts about the GPU that ``#`` lines may state, such as ``# sms: 132``: the number of :class:`Gpu`
(or the peak's precision) that it replaces, its unit, and its bounds. A data sheet has the peaks; they
cannot be measured."""

USES: Final = ("choose", "seen", "blind")
_MOST_ROWS: Final = 100_000
_MOST: Final = 1 << 50
_TIMES_NS: Final = (1e-3, 1e15)


@dataclass(frozen=True)
class KernelTiming:
    """Measured time of a kernel on a GPU.

    Parameters
    ----------
    gpu, kernel, precision : str
    shape : mapping of str to int
    ns : float
    source : str
    use : str
        One of :data:`USES`.

    Examples
    --------
    >>> shape = {"m": 4096, "n": 4096, "k": 4096}
    >>> KernelTiming("h100-sxm", "gemm", "bf16", shape, 200_000.0).kernels[0].flops
    137438953472
    """

    gpu: str
    kernel: str
    precision: str
    shape: Mapping[str, int]
    ns: float
    source: str = ""
    use: str = "choose"

    @property
    def sort(self) -> str:
        """Sort in comparisons: the kernel, and the precision where there are several."""
        several = self.kernel in ("gemm", "linear", "experts")
        return f"{self.kernel} {self.precision}" if several else self.kernel

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that the row is about; none for launches."""
        one, has = self.shape, self.shape.get
        if self.kernel in ("gemm", "linear"):
            cast = self.kernel == "linear"
            return (Product(one["m"], one["n"], one["k"], has("copies", 1), cast=cast),)
        if self.kernel == "experts":
            tokens, gated = one["tokens"] * one["top"], bool(has("gated", 1))
            used = (
                experts_used(one["tokens"], one["top"], one["experts"]) if has("random") else one["experts"]
            )
            return expert_kernels(tokens, one["hidden"], one["width"], used, gated=gated)
        if self.kernel == "pass":
            return (Stream(one["bytes"]),)
        if self.kernel in ("attention", "attention backward", "prompt", "decode"):
            size = one["size"]
            whole = Attention(
                one["sequences"], one["queries"], one["keys"], one["heads"], one["kept_heads"], size, size,
                causal=bool(has("causal", 1)), is_backward=self.kernel == "attention backward",
            )  # fmt: skip
            wide = (one["heads"] + 2 * one["kept_heads"]) * size
            before = Stream(4 * one["sequences"] * one["queries"] * wide)
            return (before, whole) if self.kernel == "prompt" else (whole,)
        return ()

    def predicted_ns(self, times: KernelTimes) -> float:
        """Return the time that a model of the GPU's kernels predicts."""
        if not self.kernels:
            each = times.gpu.graph_ns if self.kernel == "launch graph" else times.gpu.stream_ns
            return float(self.shape["kernels"] * each)
        return float(sum(map(times.kernel_ns, self.kernels)))


def read_timings(path: str | Path) -> list[KernelTiming]:
    r"""Read a table of timings.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    list of KernelTiming

    Raises
    ------
    InputError
        The file cannot be read, or a row is not a timing.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mine.csv"
    ...     _ = file.write_text("gpu,kernel,precision,shape,ns\nmine,gemm,bf16,m=1 n=2 k=3,4000\n")
    ...     [(one.kernel, one.ns) for one in read_timings(file)]
    [('gemm', 4000.0)]
    """
    name, lines = Path(path).name, text_of(path).splitlines()
    about = {"source": name, "use": "choose"} | _notes(lines)
    if about["use"] not in USES:
        raise InputError(f"unknown use {about['use'][:40]!r}", where=name, hint=near(about["use"], USES))
    numbered = [(at, one) for at, one in enumerate(lines, 1) if one.strip() and not one.startswith("#")]
    header = numbered[0][1].strip() if numbered else ""
    if tuple(header.split(",")) != COLUMNS:
        raise InputError(
            f"the columns are {header[:60]!r}", where=name, hint=f"begin with the line {','.join(COLUMNS)}"
        )
    if len(numbered) > _MOST_ROWS:
        raise InputError(f"more than {_MOST_ROWS:,} rows", where=name, hint="divide the file")
    return [_row(line.split(","), f"{name}:{at}", about["source"], about["use"]) for at, line in numbered[1:]]


def read_facts(path: str | Path) -> dict[str, int]:
    """Read what a table says of its GPU.

    Returns
    -------
    dict of str to int
        Numbers of :class:`Gpu`; peaks by their precision.

    Raises
    ------
    InputError
        The file cannot be read, or a number is out of bounds.
    """
    name, found = Path(path).name, {}
    for key, text in _notes(text_of(path).splitlines()).items():
        if key not in FACTS:
            continue
        number, unit, low, high = FACTS[key]
        found[number] = round(real(text, low, high, what=key, where=name) * unit)
    return found


def _notes(lines: list[str]) -> dict[str, str]:
    """Return what the lines that begin with # say."""
    pairs = (line[1:].partition(":") for line in lines if line.startswith("#"))
    return {key.strip(): value.strip()[:500] for key, _, value in pairs}


def _row(row: list[str], where: str, source: str, use: str) -> KernelTiming:
    if len(row) != len(COLUMNS):
        raise InputError(f"{len(row)} values", where=where, hint=f"give {', '.join(COLUMNS)}")
    gpu, kernel, precision, text, took = (one.strip() for one in row)
    if not gpu or len(gpu) > 80:
        raise InputError(
            "the GPU's name is missing or too long", where=where, hint="give one, of at most 80 characters"
        )
    if kernel not in KERNELS:
        raise InputError(f"unknown kernel {kernel[:40]!r}", where=where, hint=near(kernel, KERNELS))
    if precision not in PRECISIONS:
        raise InputError(
            f"unknown precision {precision[:40]!r}", where=where, hint=near(precision, PRECISIONS)
        )
    needed, optional = KERNELS[kernel]
    shape: dict[str, int] = {}
    for one in text.split():
        key, _, value = one.partition("=")
        if key not in needed + optional or key in shape:
            what = f"unknown or duplicate number {key[:40]!r} of {kernel}"
            raise InputError(what, where=where, hint=f"give {' '.join(needed)}")
        least = 0 if key in ("causal", "gated") else 1
        shape[key] = whole(value, least, _MOST, what=key, where=where)
    missing = [key for key in needed if key not in shape]
    if missing:
        raise InputError(f"{missing[0]} is missing", where=where, hint=f"give {' '.join(needed)}")
    ns = real(took, *_TIMES_NS, what="ns", where=where)
    return KernelTiming(gpu, kernel, precision, shape, ns, source, use)
