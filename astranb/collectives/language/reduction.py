"""Reduction of an output's contributions: the operator, and the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError, near

__all__ = ["NUMBER_BYTES", "REDUCTIONS", "Reduction"]

REDUCTIONS: Final = ("sum", "prod", "max", "min", "average")
"""The operators."""

_FLOATS: Final = {"fp64": 53, "fp32": 24, "fp16": 11, "bf16": 8, "fp8_e4m3": 4, "fp8_e5m2": 3}
"""Bits of the significand of the formats of floating-point numbers, the implied one included."""

NUMBER_BYTES: Final = {
    "fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1,
}  # fmt: skip
"""Bytes of a number of each format."""


@dataclass(frozen=True)
class Reduction:
    """Reduction of contributions to one: an operator, and the numbers that it is applied to.

    A move loads its sources, reduces them in ``accumulate`` and stores the result in ``dtype``: what it
    stores is rounded once where ``accumulate`` has more bits, otherwise once for each operation.

    Attributes
    ----------
    operator : str
        One of :data:`REDUCTIONS`. An average is a sum that is scaled once, in the move that completes it.
    dtype : str, optional
        The numbers in memory, one of :data:`NUMBER_BYTES`; None: not given, roundings are not counted.
    accumulate : str, optional
        The numbers in which a move reduces; those in memory where not given.

    Examples
    --------
    >>> Reduction("sum", "bf16", "fp32").roundings(np.array([1, 2, 8])).tolist()
    [0, 1, 1]
    >>> Reduction("sum", "bf16").roundings(np.array([1, 2, 8])).tolist()
    [0, 1, 7]
    """

    operator: str = "sum"
    dtype: str | None = None
    accumulate: str | None = None

    def __post_init__(self) -> None:
        """Check the operator and the numbers."""
        if self.operator not in REDUCTIONS:
            hint = near(str(self.operator), REDUCTIONS)
            raise InputError(f"unknown reduction {self.operator!r:.80}", where="reduce", hint=hint)
        for where in ("dtype", "accumulate"):
            given = getattr(self, where)
            if given is not None and given not in NUMBER_BYTES:
                hint = near(str(given), NUMBER_BYTES)
                raise InputError(f"unknown numbers {given!r:.80}", where=where, hint=hint)
        if self.accumulate is None:
            return
        if self.dtype is None:
            raise InputError("accumulate needs a dtype", where="accumulate", hint="for example dtype='bf16'")
        kinds = self.dtype in _FLOATS, self.accumulate in _FLOATS
        narrower = self._bits(self.accumulate) < self._bits(self.dtype)
        if kinds[0] != kinds[1] or narrower:
            raise InputError(
                f"{self.dtype} cannot be accumulated in {self.accumulate}",
                where="accumulate",
                hint="use numbers of the same kind with at least as many bits",
            )

    @staticmethod
    def _bits(name: str) -> int:
        return _FLOATS.get(name, 8 * NUMBER_BYTES[name])

    @property
    def repeatable(self) -> bool:
        """Whether a contribution that is there twice does no harm: of a maximum or minimum."""
        return self.operator in ("max", "min")

    @property
    def rounds(self) -> bool:
        """Whether results are rounded: sums, products and averages of floating-point numbers."""
        return self.dtype in _FLOATS and not self.repeatable

    @property
    def _wider(self) -> bool:
        return self.accumulate is not None and self.accumulate != self.dtype

    def roundings(self, sources: Any) -> Any:
        """Return how often moves of so many sources round what they store, at most."""
        added = np.maximum(0, np.asarray(sources) - 1)
        if not self.rounds:
            return np.zeros_like(added)
        return np.minimum(added, 1) if self._wider else added

    def of_output(self, roundings: int, contributions: int) -> int:
        """Return the roundings of an output: an average is scaled once, by an operation of its own."""
        scaled = self.operator == "average" and self.rounds and not self._wider and contributions > 1
        return roundings + int(scaled)

    def text(self, roundings: int) -> str:
        """Describe the roundings: ``outputs are rounded at most 3 times (bf16, sums in fp32)``."""
        if not self.rounds:
            return ""
        numbers = f"{self.dtype}, accumulated in {self.accumulate or self.dtype}"
        if not roundings:
            return f"outputs are not rounded ({numbers})"
        times = "once" if roundings == 1 else f"{roundings} times"
        return f"outputs are rounded at most {times} ({numbers})"
