"""Rooflines of GPUs: peak and memory bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from astranb.core.errors import InputError, near

__all__ = ["DEFAULT_GPU", "GPUS", "Roofline", "roofline"]


@dataclass(frozen=True)
class Roofline:
    """The roofline of a GPU: its peak and memory bandwidth.

    Parameters
    ----------
    name : str
    peak_flops : int
        Dense bfloat16 operations on matrices per second.
    memory_Bps : int
        Bytes per second of its memory.
    source : str

    Examples
    --------
    >>> GPUS["h100-sxm"].microseconds(10**12, 10**9)
    1012
    """

    name: str
    peak_flops: int
    memory_Bps: int  # noqa: N815 - unit in the name
    source: str = ""

    def microseconds(self, flops: int, touched: int) -> int:
        """Give the duration of a computation in microseconds, rounded up."""
        return max(-(-flops * 10**6 // self.peak_flops), -(-touched * 10**6 // self.memory_Bps))


_ALL = (
    Roofline("a100-sxm", 312 * 10**12, 2039 * 10**9, "NVIDIA A100 80 GB data sheet"),
    Roofline("h100-sxm", 989 * 10**12, 3350 * 10**9, "NVIDIA H100 data sheet: 1,979 with sparsity, halved"),
    Roofline("h200-sxm", 989 * 10**12, 4800 * 10**9, "NVIDIA H200 data sheet: 1,979 with sparsity, halved"),
    Roofline(
        "b200", 2250 * 10**12, 8000 * 10**9, "NVIDIA DGX B200 data sheet: 36 PFLOPS sparse of 8, halved"
    ),
    Roofline("mi300x", 1307 * 10**12, 5300 * 10**9, "AMD Instinct MI300X data sheet"),
)

GPUS: Final = {one.name: one for one in _ALL}
"""By the names of the presets of :mod:`astranb.gpu`, with the same bandwidths."""

DEFAULT_GPU: Final = "h100-sxm"
"""The default GPU of a model's ranks."""


def roofline(name: str) -> Roofline:
    """Find a GPU by its name.

    Raises
    ------
    InputError
        There is no such GPU.
    """
    if name not in GPUS:
        raise InputError(f"no roofline of a GPU {name[:40]!r}", where="gpu", hint=near(name, GPUS))
    return GPUS[name]
