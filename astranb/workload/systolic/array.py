"""Compute times of matrix products: on a systolic array by its dataflow, and by the roofline.

Sources: A. Samajdar et al., "SCALE-Sim" (ISPASS 2020) and SCALE-Sim v2 (MIT licence); the cycle
counts are theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from astranb.core.errors import InputError
from astranb.workload.astrasim1 import Roofline

__all__ = ["DATAFLOWS", "GOOGLE_TPU", "Array", "Gemm", "convolution", "roofline_ns"]

DATAFLOWS: Final = ("os", "ws", "is")
"""Output, weight or input stationary."""


class Gemm(NamedTuple):
    """A matrix product: inputs of m by k with weights of k by n."""

    m: int
    k: int
    n: int

    @property
    def macs(self) -> int:
        """Number of multiply-accumulate operations."""
        return self.m * self.k * self.n


def convolution(
    height: int,
    width: int,
    channels: int,
    filters: int,
    *,
    filter_height: int = 1,
    filter_width: int = 1,
    stride: int = 1,
    padding: int = 0,
    batch: int = 1,
) -> Gemm:
    """Return a convolution as a matrix product with a row for each output pixel.

    Parameters
    ----------
    height, width, channels : int
        Of the input.
    filters : int
    filter_height, filter_width, stride, padding, batch : int

    Raises
    ------
    InputError
        The filter is larger than the input.

    Examples
    --------
    >>> convolution(224, 224, 3, 64, filter_height=3, filter_width=3, padding=1)
    Gemm(m=50176, k=27, n=64)
    """
    rows = (height + 2 * padding - filter_height) // stride + 1
    columns = (width + 2 * padding - filter_width) // stride + 1
    if min(rows, columns, channels, filters, batch) < 1:
        raise InputError("the convolution has no output", hint="use a filter that fits the input")
    return Gemm(batch * rows * columns, filter_height * filter_width * channels, filters)


@dataclass(frozen=True)
class Array:
    """A systolic array.

    Parameters
    ----------
    rows, columns : int
    dataflow : str
        ``os``, ``ws`` or ``is``: output, weight or input stationary.
    clock_GHz : float

    Examples
    --------
    >>> GOOGLE_TPU.cycles(Gemm(m=1024, k=512, n=128))
    3580
    >>> round(GOOGLE_TPU.utilisation(Gemm(m=1024, k=512, n=128)), 3)
    0.286
    """

    rows: int
    columns: int
    dataflow: str = "ws"
    clock_GHz: float = 1.0  # noqa: N815 - unit in the name

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.dataflow not in DATAFLOWS:
            raise InputError(f"unknown dataflow {self.dataflow[:40]!r}", hint="use os, ws or is")
        if self.rows < 1 or self.columns < 1 or not self.clock_GHz > 0:
            raise InputError("rows, columns and clock must be above 0", hint="give numbers above 0")

    def _mapped(self, gemm: Gemm) -> tuple[int, int, int]:
        """Return what is mapped to rows, to columns and to time."""
        if min(gemm) < 1:
            raise InputError(f"{gemm} is empty", hint="give m, k and n of 1 or more")
        m, k, n = gemm
        return {"os": (m, n, k), "ws": (k, n, m), "is": (k, m, n)}[self.dataflow]

    def folds(self, gemm: Gemm) -> int:
        """Return how often the array is loaded."""
        along_rows, along_columns, _ = self._mapped(gemm)
        return -(-along_rows // self.rows) * -(-along_columns // self.columns)

    def cycles(self, gemm: Gemm) -> int:
        """Return the cycles of a product if memory is not the bottleneck.

        Each fold takes ``rows + columns + T - 2``, and ``rows`` more to load stationary weights or
        inputs (SCALE-Sim v2, ``systolic_compute_os/ws/is``).
        """
        time = self._mapped(gemm)[2]
        load = 0 if self.dataflow == "os" else self.rows
        return (load + self.rows + self.columns + time - 2) * self.folds(gemm)

    def time_ns(self, gemm: Gemm) -> int:
        """Return the nanoseconds of a product, rounded up."""
        return math.ceil(self.cycles(gemm) / self.clock_GHz)

    def mapping_efficiency(self, gemm: Gemm) -> float:
        """Return the share of the array that is used, averaged over folds."""
        along_rows, along_columns, _ = self._mapped(gemm)
        return along_rows * along_columns / (self.folds(gemm) * self.rows * self.columns)

    def utilisation(self, gemm: Gemm) -> float:
        """Return the share of the array's peak operations that a product uses."""
        return gemm.macs / (self.rows * self.columns * self.cycles(gemm))


GOOGLE_TPU: Final = Array(256, 256, "ws", 1.0)
"""SCALE-Sim's ``google.cfg``, which ASTRA-sim 1.0's workload generator uses: 256 by 256."""


def roofline_ns(
    gemm: Gemm,
    peak_TFLOPS: float,  # noqa: N803 - unit in the name
    memory_GBps: float,  # noqa: N803 - the same
    *,
    element_bytes: int = 2,
    intercept_TFLOPS: float = 0.0,  # noqa: N803 - the same
) -> int:
    """Return a product's time by the roofline, in nanoseconds, rounded down.

    The rate is ``min(memory * intensity - intercept, peak)``; the intensity is ``2mkn`` operations
    divided by the bytes of the three matrices.

    Parameters
    ----------
    gemm : Gemm
    peak_TFLOPS : float
        10^12 operations per second; a multiply-accumulate counts as two.
    memory_GBps : float
        10^9 bytes per second.
    element_bytes : int
    intercept_TFLOPS : float
        By how much the slanted part is lowered.

    Raises
    ------
    InputError
        The rate is not above 0.

    Examples
    --------
    >>> roofline_ns(Gemm(4096, 4096, 4096), 100, 1000)
    1374389
    >>> roofline_ns(Gemm(1, 4096, 4096), 100, 1000)
    33570
    """
    m, k, n = gemm
    roofline = Roofline(memory_GBps, peak_TFLOPS * 1e3, intercept_TFLOPS * 1e3)
    return int(roofline.time_ns(2.0 * gemm.macs, float(element_bytes * (m * k + k * n + m * n))))
