"""Memory in two tiers: a GPU's own, and an expansion behind it (CXL, the host's memory, a pool).

What a rank holds is divided between them (:class:`HybridMemory`): a part ``f`` of each sort of data lies in
the expansion. A kernel that moves ``V`` bytes then takes, of memory,

* ``serial``: ``(1 - f) V / local bandwidth + f V / expanded bandwidth + latency``: it reads one tier
  after the other;
* ``concurrent``: the longer of the two, as if both were read at the same time, with as many requests under
  way as each needs.

The latency is that of the first bytes, once for each kernel. ``serial`` is the default: it is never too
fast, and no part of the data needs to be spread over both tiers for it. Which of the two COMET (Kadiyala et
al. 2022, arXiv 2211.16648) takes is not known to us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from astranb.core.errors import InputError, near
from astranb.core.units import bandwidth_Bps, size_bytes, time_ps

__all__ = ["PLACEMENTS", "STREAMINGS", "HybridMemory", "MemorySplit", "MemoryTier"]

STREAMINGS: Final = ("serial", "concurrent")
"""Orders in which a kernel streams from both tiers."""

PLACEMENTS: Final = ("evenly", "coldest")
"""Content of the expansion: the same part of everything, or what is moved least often in a step first."""

_COLDEST: Final = ("optimizer", "activations", "gradients", "weights", "cache", "buffers")
"""Data of a rank, by how often each of its bytes is moved in a step of ``m`` microbatches: the optimizer's
state twice; activations twice for each microbatch that used their place; gradients at least ``2 m``
times, and parameters ``2 m``; keys and values at every generated token; buffers by every kernel."""


@dataclass(frozen=True)
class MemoryTier:
    """A memory: its size, and how fast it is.

    Parameters
    ----------
    capacity_bytes, bandwidth_Bps : int
    latency_ps : int
        Of the first bytes.

    Examples
    --------
    >>> MemoryTier.of("480 GB, 500 GB/s, 500 ns")
    MemoryTier(capacity_bytes=480000000000, bandwidth_Bps=500000000000, latency_ps=500000)
    """

    capacity_bytes: int
    bandwidth_Bps: int  # noqa: N815 - unit in the name
    latency_ps: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.capacity_bytes < 1 or self.bandwidth_Bps < 1 or self.latency_ps < 0:
            what = "a memory without capacity or bandwidth, or with a negative latency"
            raise InputError(what, where="expanded memory", hint="write '480 GB, 500 GB/s, 500 ns'")

    @classmethod
    def of(cls, text: str, where: str = "expanded memory") -> MemoryTier:
        """Read a capacity, a bandwidth and perhaps a latency.

        Parameters
        ----------
        text : str
            Separated by commas.
        where : str
            For messages.

        Raises
        ------
        InputError
            It is something else.
        """
        parts = [part.strip() for part in text.split(",")]
        if len(parts) not in (2, 3):
            what = f"{text[:60]!r} is not a capacity, a bandwidth and a latency"
            raise InputError(what, where=where, hint="write '480 GB, 500 GB/s, 500 ns'")
        latency = time_ps(parts[2], where=where) if len(parts) == 3 else 0
        return cls(size_bytes(parts[0], where=where), bandwidth_Bps(parts[1], where=where), latency)


@dataclass(frozen=True)
class HybridMemory:
    """An expansion of the GPUs' memory.

    Parameters
    ----------
    expanded : MemoryTier
    local_bytes : int
        The part of a GPU's own memory that is used; 0: all of it.
    streaming : str
        One of :data:`STREAMINGS`.
    placement : str
        One of :data:`PLACEMENTS`.
    shared_by : int
        GPUs that share the expansion; all stream at the same time, so each has its part of capacity and
        bandwidth.

    Raises
    ------
    InputError
        A value is unknown or out of range.

    Examples
    --------
    >>> memory = HybridMemory(MemoryTier(400, 50))
    >>> memory.split({"weights": 60, "optimizer": 100}, 80).fractions
    {'weights': 0.5, 'optimizer': 0.5}
    >>> coldest = HybridMemory(MemoryTier(400, 50), placement="coldest")
    >>> coldest.split({"weights": 60, "optimizer": 100}, 80).fractions
    {'weights': 0.0, 'optimizer': 0.8}
    """

    expanded: MemoryTier
    local_bytes: int = 0
    streaming: str = "serial"
    placement: str = "evenly"
    shared_by: int = 1

    def __post_init__(self) -> None:
        """Check the values."""
        for name, known in (("streaming", STREAMINGS), ("placement", PLACEMENTS)):
            value = str(getattr(self, name))
            if value not in known:
                raise InputError(f"unknown {name} {value[:40]!r}", where=name, hint=near(value, known))
        if self.shared_by < 1 or self.local_bytes < 0:
            what = f"{self.shared_by} GPUs with {self.local_bytes} bytes share an expansion"
            raise InputError(what, where="shared_by", hint="take 1 or more, and bytes from 0")

    @property
    def capacity_bytes(self) -> int:
        """Capacity of a GPU's part of the expansion."""
        return self.expanded.capacity_bytes // self.shared_by

    @property
    def bandwidth_Bps(self) -> float:  # noqa: N802 - unit in the name
        """Bandwidth of a GPU's part of the expansion."""
        return self.expanded.bandwidth_Bps / self.shared_by

    def split(self, held: Mapping[str, int], memory_bytes: int, offloaded: int = 0) -> MemorySplit | None:
        """Divide what a rank holds; None if its own memory is enough.

        Parameters
        ----------
        held : mapping of str to int
            Bytes by what they are for.
        memory_bytes : int
            A GPU's own memory.
        offloaded : int
            Bytes in the expansion besides, which kernels do not stream from.

        Raises
        ------
        InputError
            It does not fit in both.
        """
        local, total = self.local_bytes or memory_bytes, sum(held.values())
        out, room = max(0, total - local), self.capacity_bytes - offloaded
        if out > room:
            needed, own, more, missing = (
                f"{size / 1e9:,.1f}" for size in (total + offloaded, local, self.capacity_bytes, out - room)
            )
            what = f"a rank needs {needed} GB: {own} of the GPU and {more} expanded are {missing} too few"
            raise InputError(
                what, where="GPU memory", hint="take more expanded memory, or divide the model more"
            )
        if not out:
            return None
        if self.placement == "evenly":
            return MemorySplit(self, dict.fromkeys(held, out / total), total, out)
        left, fractions = out, {}
        for name in sorted(held, key=_COLDEST.index):
            moved = min(left, held[name])
            left -= moved
            fractions[name] = moved / held[name] if held[name] else 0.0
        return MemorySplit(self, {name: fractions[name] for name in held}, total, out)


@dataclass(frozen=True)
class MemorySplit:
    """Division of a rank's data between the GPU's memory and the expansion.

    Attributes
    ----------
    memory : HybridMemory
    fractions : dict of str to float
        The part of each sort of data.
    total_bytes, expanded_bytes : int
        All of it, and what lies in the expansion.
    """

    memory: HybridMemory
    fractions: Mapping[str, float]
    total_bytes: int
    expanded_bytes: int

    @property
    def fraction(self) -> float:
        """The part of all data that lies in the expansion."""
        return self.expanded_bytes / self.total_bytes

    def expanded_of(self, moved: Mapping[str, float]) -> float:
        """Return how many bytes of those that are moved lie in the expansion."""
        return sum(size * self.fractions.get(name, self.fraction) for name, size in moved.items())

    def streamed_ns(self, moved: Mapping[str, float], local_Bps: float, part: float = 1.0) -> float:  # noqa: N803
        """Return the time to move bytes of each sort of data.

        Parameters
        ----------
        moved : mapping of str to float
        local_Bps : float
            Bandwidth of the GPU's own memory.
        part : float
            What kernels achieve of both bandwidths.
        """
        far = self.expanded_of(moved)
        near_ns = (sum(moved.values()) - far) * 1e9 / (local_Bps * part)
        far_ns = 0.0
        if far > 0:
            far_ns = far * 1e9 / (self.memory.bandwidth_Bps * part) + self.memory.expanded.latency_ps / 1000
        return max(near_ns, far_ns) if self.memory.streaming == "concurrent" else near_ns + far_ns

    def bandwidth_of(self, local_Bps: float) -> float:  # noqa: N803
        """Return the bandwidth of a long pass over all of a rank's data."""
        return 1e21 / (self.streamed_ns({"everything": 1e12}, local_Bps))
