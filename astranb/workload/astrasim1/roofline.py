"""Compute times by a roofline: as COMET's fork of ASTRA-sim 1.0 gives them to the passes of layers.

Source: github.com/TaekyungHeo/astra-sim-roofline, 2649cd3 (products of matrices, in local or remote memory)
and 9ba56f2 (operations and bytes).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from astranb.core.errors import InputError

__all__ = ["CountedWork", "ProductWork", "Roofline", "Rooflines"]

_NO_TRAFFIC = 1e-30
"""Operations per byte that COMET's fork takes for passes that move no bytes."""


@dataclass(frozen=True)
class Roofline:
    """Roofline of a device: ``min(bandwidth * operations per byte - intercept, peak)``.

    Parameters
    ----------
    bandwidth_GBps, peak_GFLOPS : float
        10^9 bytes, and 10^9 operations, per second.
    intercept_GFLOPS : float
        By how much the slanted part is lowered.

    Examples
    --------
    >>> Roofline(900, 125_000).time_ns(2 * 4096**3, 6 * 4096**2)
    1099511.627776
    """

    bandwidth_GBps: float = 0.0  # noqa: N815 - unit in the name
    peak_GFLOPS: float = 0.0  # noqa: N815 - the same
    intercept_GFLOPS: float = 0.0  # noqa: N815 - the same

    def time_ns(self, operations: float, moved_bytes: float) -> float:
        """Return the nanoseconds of so many operations on so many bytes.

        Raises
        ------
        InputError
            The rate is not above 0.
        """
        intensity = operations / moved_bytes if moved_bytes else math.inf
        return self._time_ns(operations, min(self._slope(intensity), self.peak_GFLOPS))

    def compat_ns(self, operations: float, moved_bytes: float, *, products: bool) -> int:
        """Return the nanoseconds in the arithmetic of COMET's fork.

        Parameters
        ----------
        operations, moved_bytes : float
        products : bool
            As its version for products of matrices: whole rates, and 32-bit floats.
        """
        intensity = operations / moved_bytes if moved_bytes else _NO_TRAFFIC
        if not products:
            return int(self._time_ns(operations, min(self._slope(intensity), self.peak_GFLOPS)))
        slanted = math.floor(self.bandwidth_GBps * intensity) - self.intercept_GFLOPS
        rate = math.floor(min(slanted, self.peak_GFLOPS))
        if not rate > 0:
            return int(self._time_ns(operations, rate))  # raises, or nothing is computed
        return int(np.float32(operations) / np.float32(rate))

    def _slope(self, intensity: float) -> float:
        return self.bandwidth_GBps * intensity - self.intercept_GFLOPS

    def _time_ns(self, operations: float, rate: float) -> float:
        if not operations:
            return 0.0
        if not rate > 0:
            raise InputError(
                "the roofline must be greater than zero",
                hint="increase the peak or the bandwidth, or decrease the intercept",
            )
        return operations / rate


class Rooflines(NamedTuple):
    """The rooflines of a system: of work in local memory, and in remote (expanded) memory."""

    local: Roofline
    remote: Roofline
    number_bytes: int = 2


class ProductWork(NamedTuple):
    """Work of a pass of a layer: a product of matrices of m by k and k by n, in one of two memories."""

    m: int
    k: int
    n: int
    remote: bool = False

    def time_ns(self, rooflines: Rooflines, *, compat: bool) -> int:
        """Return the nanoseconds that it takes."""
        operations = 2 * self.m * self.k * self.n
        numbers = self.m * self.k + self.k * self.n + self.m * self.n
        roofline, moved = (
            rooflines.remote if self.remote else rooflines.local,
            numbers * rooflines.number_bytes,
        )
        if compat:
            return roofline.compat_ns(operations, moved, products=True)
        return round(roofline.time_ns(operations, moved))


class CountedWork(NamedTuple):
    """Work of a pass of a layer: operations, and the bytes that they move."""

    operations: float
    moved_bytes: float

    def time_ns(self, rooflines: Rooflines, *, compat: bool) -> int:
        """Return the nanoseconds that it takes."""
        if compat:
            return rooflines.local.compat_ns(*self, products=False)
        return round(rooflines.local.time_ns(*self))
