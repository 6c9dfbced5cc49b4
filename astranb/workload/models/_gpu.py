"""How fast a GPU computes, for the roofline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from astranb.core.errors import InputError, near

__all__ = ["DEFAULT_GPU", "GPUS", "Roofline", "roofline"]


@dataclass(frozen=True)
class Roofline:
    """A GPU as a roofline: a peak and a bandwidth.

    Parameters
    ----------
    name : str
    peak_flops : int
        Dense operations on matrices in bfloat16, a second.
    memory_Bps : int
        Bytes a second of its memory.
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
        """What a computation takes, rounded up to whole microseconds."""
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
"""By the names of the presets of :mod:`astranb.gpu`, whose bandwidths these are too."""

DEFAULT_GPU: Final = "h100-sxm"
"""The GPU of a model's ranks, unless another one is given."""


def roofline(name: str) -> Roofline:
    """Find a GPU by its name.

    Raises
    ------
    InputError
        There is none.
    """
    if name not in GPUS:
        raise InputError(f"no peak of a GPU {name[:40]!r}", where="gpu", hint=near(name, GPUS))
    return GPUS[name]
