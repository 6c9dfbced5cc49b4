"""The numbers of a GPU that fit the timings of its kernels.

Each number of :class:`Gpu` that some rows depend on is chosen so that the sum of the absolute logarithms of
predicted over measured times is least, which single odd rows change little: one number after another, by
golden-section search within its bounds, five times over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.hardware import GPU_FORMAT, PRECISIONS, Gpu, gpu_named, quantities

from .times import KernelTimes
from .timings import KernelTiming, read_facts, read_timings

__all__ = ["Fit", "fit_gpu", "fitted_document", "gpu_of_file", "rows_of"]

_PRODUCTS: Final = ("gemm", "linear", "experts")
_PROMPTS: Final = ("attention", "prompt")
_BOUNDS: Final[dict[str, tuple[float, float, tuple[str, ...]]]] = {
    "stream": (0.05, 1.0, ("pass",)),
    "kernel_ns": (100, 20_000, (*_PRODUCTS, "pass")),
    "feed": (0.05, 1.0, _PRODUCTS),
    "attention": (0.02, 1.0, _PROMPTS),
    "half_keys": (0, 8192, _PROMPTS),
    "attention_back": (0.02, 1.0, ("attention backward",)),
    "decode_ns": (0, 40_000, ("decode",)),
    "graph_ns": (50, 1e6, ("launch graph",)),
    "stream_ns": (50, 1e6, ("launch stream",)),
}
"""Bounds of each number, and the kernels whose rows decide it; those of ``matrices`` are per precision."""
_MOST_OFF: Final = math.log(2)
"""Largest mean of the absolute logarithms of predicted over measured times: a fit beyond has failed."""
_ROUNDS: Final = 5
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


class Fit(NamedTuple):
    """A GPU that was fitted.

    Attributes
    ----------
    gpu : Gpu
    errors : list of (KernelTiming, float)
        Every row with the relative error that is left.
    changed : tuple of str
        The numbers that the rows decide.
    """

    gpu: Gpu
    errors: list[tuple[KernelTiming, float]]
    changed: tuple[str, ...]

    @property
    def text(self) -> str:
        """Quality of the fit, in a line."""
        left = [error for _, error in self.errors]
        mean, worst = sum(map(abs, left)) / len(left), max(left, key=abs)
        return f"{plural(len(left), 'row')}, mean error {mean:.0%}, worst {worst:+.0%}"


def gpu_of_file(path: str | Path, like: Gpu) -> Fit:
    """Fit a GPU to a table of timings, such as ``benchmarks/kernel_timings.py`` writes.

    Parameters
    ----------
    path : str or Path
        Its rows are of one GPU, or those of ``like`` are used.
    like : Gpu
        Has the numbers that neither the rows nor the table's ``#`` lines decide.

    Raises
    ------
    InputError
        The file cannot be read, or has rows of several other GPUs, or no numbers within their bounds explain
        the rows: times are off by more than a factor of two on average.
    """
    rows, facts = read_timings(path), read_facts(path)
    names = list(dict.fromkeys(row.gpu for row in rows))
    if len(names) > 1:
        rows = [row for row in rows if row.gpu == like.name]
        if not rows:
            what = f"rows of {len(names)} GPUs, none of {like.name}"
            hint = f"choose one of them with --gpu, or keep the rows of one: {', '.join(names[:5])}"
            raise InputError(what, where=Path(path).name, hint=hint)
    peaks: dict[str, int] = dict(like.peaks)
    for name in PRECISIONS:
        if (same := "bf16" if name == "fp16" else name) in facts:
            peaks[name] = facts[same]
    numbers: dict[str, Any] = {name: value for name, value in facts.items() if name not in PRECISIONS}
    found = fit_gpu(rows, replace(like, peaks=peaks, **numbers))
    off = sum(abs(math.log(1 + error)) for _, error in found.errors) / len(found.errors)
    if off > _MOST_OFF:
        row, worst = max(found.errors, key=lambda one: abs(math.log(1 + one[1])))
        what = (
            f"no numbers of a GPU like {like.name} explain these times: the best are off by a factor of "
            f"{math.exp(off):.1f} on average, and a {row.kernel} of {row.ns:,.0f} ns by {1 + worst:.3g}"
        )
        raise InputError(what, where=Path(path).name, hint="check the unit of the times, and --gpu")
    fitted = f"fitted to {Path(path).name}: {found.text}"
    return found._replace(gpu=replace(found.gpu, fitted=fitted))


def fitted_document(fit: Fit, like: str, name: str, file: str) -> dict[str, Any]:
    """Return the document of a GPU's file: the numbers in which a fitted GPU differs from a shipped one.

    Parameters
    ----------
    fit : Fit
    like : str
        Name of the shipped GPU that has the other numbers.
    name : str
        Of the new one.
    file : str
        The table of timings, for the sources.
    """
    usual = gpu_named(like)
    decided = {one.partition(".")[0] for one in fit.changed}
    document: dict[str, Any] = {"format": GPU_FORMAT, "version": 1, "name": name, "like": usual.name}
    document |= {"memory": {}, "machine": {}, "kernels": {}}
    for number, what in quantities(Gpu).items():
        value = getattr(fit.gpu, number)
        if what.text or (value == getattr(usual, number) and number not in decided):
            continue
        section, _, shared = what.shared.partition(".")
        if shared.endswith("_ps") and number.endswith("_ns"):
            value *= 1000
        kind, source = ("fitted", fit.text) if number in decided else ("measured", "a # line of the table")
        entry = {"value": dict(value) if isinstance(value, Mapping) else value, "kind": kind}
        document[section or "kernels"][shared or number] = {**entry, "source": f"{file}: {source}"}
    document["kernels"]["fitted"] = fit.gpu.fitted
    return {key: value for key, value in document.items() if value != {}}


def fit_gpu(rows: Iterable[KernelTiming], like: Gpu, *, name: str | None = None) -> Fit:
    """Fit a GPU's numbers to rows.

    Numbers that no row depends on stay those of ``like``, as do the peaks and the memory. Rows in a precision
    that it has not are left out.

    Parameters
    ----------
    rows : iterable of KernelTiming
        Of one GPU.
    like : Gpu
        Where to begin.
    name : str, optional
        Of the new GPU. Default: that of ``like``.

    Returns
    -------
    Fit

    Raises
    ------
    InputError
        There is no row.

    Examples
    --------
    >>> from astranb.workload import kernels
    >>> real, shape = kernels.GPUS["b200-sxm"], {"m": 8192, "n": 8192, "k": 8192}
    >>> took = kernels.KernelTimes(real, sustained=1.0).kernel_ns(kernels.Product(8192, 8192, 8192))
    >>> row = KernelTiming("mine", "gemm", "bf16", shape, took)
    >>> from dataclasses import replace
    >>> slower = replace(real, matrices={**real.matrices, "bf16": 0.5})
    >>> round(fit_gpu([row], slower).gpu.matrices["bf16"], 2) == round(real.matrices["bf16"], 2)
    True
    """
    used = [row for row in rows if row.precision in like.peaks]
    if not used:
        raise InputError("no timings", where="kernels", hint="give a file with rows of this GPU")
    gpu = replace(like, name=name or like.name)
    numbers = _numbers(used)
    for _ in range(_ROUNDS):
        for number, deciding in numbers:
            gpu = _with(gpu, number, _best(gpu, number, deciding))
    return Fit(gpu, [(row, _ratio(row, gpu) - 1) for row in used], tuple(number for number, _ in numbers))


def _numbers(rows: Sequence[KernelTiming]) -> list[tuple[str, list[KernelTiming]]]:
    """Return the numbers that rows decide, each with those rows."""
    known = (*(f"matrices.{precision}" for precision in PRECISIONS), *_BOUNDS)
    return [(number, some) for number in known if (some := rows_of(rows, number))]


def rows_of(rows: Iterable[KernelTiming], number: str) -> list[KernelTiming]:
    """Return the rows that decide a number.

    Parameters
    ----------
    rows : iterable of KernelTiming
    number : str
        A field of :class:`Gpu`, or ``matrices.`` and a precision.
    """
    name, _, precision = number.partition(".")
    kernels = _PRODUCTS if precision else _BOUNDS[name][2]
    return [row for row in rows if row.kernel in kernels and precision in ("", row.precision)]


def _with(gpu: Gpu, number: str, value: float) -> Gpu:
    """Return a GPU with one number changed."""
    if number.startswith("matrices."):
        changed = {**gpu.matrices, number.removeprefix("matrices."): round(value, 3)}
        if number == "matrices.bf16":
            changed["fp16"] = changed["bf16"]  # unless rows in fp16, whose turn comes later, decide it
        return replace(gpu, matrices=changed)
    whole = number.endswith(("_ns", "keys"))
    one: dict[str, Any] = {number: round(value) if whole else round(value, 3)}
    return replace(gpu, **one)


def _ratio(row: KernelTiming, gpu: Gpu) -> float:
    return row.predicted_ns(KernelTimes(gpu, row.precision, sustained=1.0)) / row.ns


def _best(gpu: Gpu, number: str, rows: Sequence[KernelTiming]) -> float:
    """Return the value of a number at which its rows are predicted best."""

    def miss(value: float) -> float:
        tried = _with(gpu, number, value)
        times = {row.precision: KernelTimes(tried, row.precision, sustained=1.0) for row in rows}
        return sum(abs(math.log(row.predicted_ns(times[row.precision]) / row.ns)) for row in rows)

    low, high = (0.02, 1.0) if number.startswith("matrices.") else _BOUNDS[number][:2]
    return _golden(miss, low, high)


def _golden(miss: Callable[[float], float], low: float, high: float) -> float:
    """Return the place of the least value between two, by golden-section search."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = miss(left), miss(right)
    while high - low > 1e-4 * max(abs(low), abs(high)):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = miss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = miss(right)
    return (low + high) / 2
