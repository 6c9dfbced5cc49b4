"""Measured times of kernels and predicted ones.

``python -m scripts.kernel_times [--rows] [--write] [--by-lines] [--stream-k] [GPU …]``: ``--rows`` prints
each, ``--write`` puts the table into the page that explains it; with ``--by-lines`` products are simulated by
cache lines (minutes), with ``--stream-k`` as if libraries used Stream-K.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import astranb as anb
from astranb.workload.kernels import GPUS, KernelTimes, Product
from astranb.workload.kernels.timings import KernelTiming

from .fit_gpus import timings
from .generated import write_generated

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "kernels.md"
TABLE: Final = "python -m scripts.kernel_times --write"
TABLE_BY_LINES: Final = "python -m scripts.kernel_times --by-lines --write"
"""Commands that write the tables of the page."""
BY_LINES: Final = ("a100-sxm", "h100-sxm", "mi300x")
_LEAST_ROWS: Final = 64
"""Products of fewer rows are limited by memory alone."""
_MOST_FLOPS: Final = 4 * 10**11
"""Larger ones take long to simulate."""


class Compared(NamedTuple):
    """Measured and predicted times of a sort of kernels on a GPU."""

    gpu: str
    sort: str
    use: str
    errors: list[float]

    @property
    def mean(self) -> float:
        """Mean of the absolute relative errors."""
        return sum(map(abs, self.errors)) / len(self.errors)

    @property
    def worst(self) -> float:
        """The largest of them, with its sign."""
        return max(self.errors, key=abs)

    @property
    def bias(self) -> float:
        """Mean of the relative errors."""
        return sum(self.errors) / len(self.errors)


def errors(
    rows: Iterable[KernelTiming], *, stream_k: bool = False
) -> Iterator[tuple[KernelTiming, float, float]]:
    """Yield rows with the predicted time and the relative error.

    Short runs are not limited by power over minutes: the rates of operations are not reduced for that.
    """
    models: dict[tuple[str, str], KernelTimes] = {}
    for row in rows:
        key = row.gpu, row.precision
        if key not in models:
            models[key] = KernelTimes(GPUS[row.gpu], row.precision, sustained=1.0, stream_k=stream_k)
        predicted = row.predicted_ns(models[key])
        yield row, predicted, predicted / row.ns - 1


def errors_by_lines(
    rows: Iterable[KernelTiming], *, stream_k: bool = False
) -> Iterator[tuple[KernelTiming, float, float]]:
    """Simulate products in bfloat16 by cache lines, in bursts; the same columns."""
    for row in rows:
        if row.gpu not in BY_LINES or row.kernel != "gemm" or row.precision != "bf16":
            continue
        (one,) = row.kernels
        if not isinstance(one, Product) or one.m < _LEAST_ROWS or one.flops > _MOST_FLOPS:
            continue
        work = anb.beside([one], gpu=row.gpu, ranks=2, stream_k=stream_k)
        network = anb.Network(compute_lines=32)
        sim = anb.Simulation(
            "ring:gpus=2", work, fidelity="cacheline", gpu=row.gpu, network=network, record=False
        )
        sim.run()
        yield row, sim.now_ps / 1e3, sim.now_ps / 1e3 / row.ns - 1


def compared(found_errors: Iterable[tuple[KernelTiming, float, float]]) -> list[Compared]:
    """Summarise errors by GPU, sort of kernel and use."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row, _, error in found_errors:
        found.setdefault((row.gpu, row.sort, row.use), []).append(error)
    order = list(GPUS)
    keys = sorted(found, key=lambda key: (order.index(key[0]), key[1], key[2]))
    return [Compared(*key, found[key]) for key in keys]


def table(found: Iterable[Compared]) -> str:
    """Write summaries as a Markdown table."""
    lines = [
        "| GPU | kernels | use | rows | mean error | worst | bias |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {one.gpu} | {one.sort} | {one.use} | {len(one.errors)} | {one.mean:.0%} | {one.worst:+.0%} "
        f"| {one.bias:+.0%} |"
        for one in found
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Print the table; with --rows each row, too; with --write put it into the page."""
    only = [one for one in arguments if not one.startswith("-")]
    rows = [row for row in timings() if not only or row.gpu in only]
    by_lines, stream_k = "--by-lines" in arguments, "--stream-k" in arguments
    found = []
    for row, predicted, error in (errors_by_lines if by_lines else errors)(rows, stream_k=stream_k):
        found.append((row, predicted, error))
        if "--rows" in arguments:
            shape = " ".join(f"{key}={value}" for key, value in row.shape.items())
            took = f"{row.ns / 1e3:11.1f}{predicted / 1e3:11.1f} us {error:+.0%}"
            print(f"{row.use:7s}{row.gpu:10s}{row.sort:19s}{shape:75s}{took}", flush=True)
    text = table(compared(found))
    print(text)
    if "--write" in arguments and not stream_k:
        write_generated(TABLE_BY_LINES if by_lines else TABLE, text, PAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
