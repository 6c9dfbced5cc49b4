"""NCCL's choice for buffers in symmetric memory, which a program registers as windows: kernels of their own.

Source of all numbers and rules: NVIDIA/nccl @5067397c (2.30.7), ``src/sym_kernels.cc`` (``queryModel_lsa``,
``ncclSymkMask``), with its defaults: no TMA, all GPUs in one NVLink domain. A kernel has no base latency:
what its cost model counts for one orders the kernels, and a launch is the GPU's.
"""

from __future__ import annotations

from math import ceil, exp, log1p
from typing import Final, NamedTuple

from astranb.core.errors import InputError
from astranb.core.plural import plural

from .candidate import LibraryCandidate, LibraryChoice
from .topology import LibraryView

__all__ = ["choose_nccl_symmetric"]

_SOURCE: Final = "NVIDIA/nccl @5067397c (2.30.7), src/sym_kernels.cc and src/device/symmetric"
_MOST_BLOCKS: Final = 64
_THREADS: Final = 512
_LL_FACTOR: Final = 9  # of the bytes: twice as many, and some processing
_GBPS: Final = (1 << 30) / 1e6  # bytes in a microsecond, as the model has them
_WITHIN: Final = 1.025  # of the time with all blocks that one with fewer may take


class _Kernel(NamedTuple):
    """A kernel, and what simulates it."""

    name: str
    simulated: str
    protocol: str = "Simple"
    difference: str = ""

    @property
    def packets(self) -> bool:
        """Whether lines carry flags."""
        return "LL" in self.name

    @property
    def in_switch(self) -> bool:
        """Whether a switch adds or copies."""
        return "MC" in self.name


_KERNELS: Final = {
    "all_reduce": (
        _Kernel("AllReduce_AGxLL_R", "allpairs_oneshot", "LL"),
        _Kernel("AllReduce_AGxLLMC_R", "oneshot_packets_mc"),
        _Kernel("AllReduce_RSxLD_AGxST", "allpairs_load_store"),
        _Kernel("AllReduce_RSxLDMC_AGxSTMC", "switch"),
    ),
    "all_gather": (
        _Kernel("AllGather_LL", "allpairs", "LL"),
        _Kernel("AllGather_LLMC", "packets_mc"),
        _Kernel("AllGather_ST", "allpairs", difference="without the barrier before"),
        _Kernel("AllGather_STMC", "store_mc"),
    ),
    "reduce_scatter": (
        _Kernel("ReduceScatter_LL", "allpairs", "LL"),
        _Kernel("ReduceScatter_LD", "get"),
        _Kernel("ReduceScatter_LDMC", "switch"),
    ),
}


def choose_nccl_symmetric(view: LibraryView, collective: str, size_bytes: int) -> LibraryChoice:
    """Return what NCCL runs where all buffers are in symmetric memory.

    Raises
    ------
    InputError
        NCCL has no such kernel for this collective, or the GPUs do not share NVSwitches or links.

    Examples
    --------
    >>> h100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
    >>> choice = choose_nccl_symmetric(h100, "all_gather", 2048)
    >>> choice.algorithm, choice.simulated, choice.launch
    ('AllGather_LLMC', 'packets_mc', 'stream')
    """
    if collective not in _KERNELS:
        what = f"NCCL has no kernel of its own for {collective} in symmetric memory"
        raise InputError(what, where="library", hint="use nccl, or give an algorithm such as allpairs_poison")
    if view.nodes > 1 or view.pcie_GBps:
        where = "over PCIe" if view.pcie_GBps else "between nodes"
        what = f"no model of NCCL's kernels in symmetric memory {where}"
        raise InputError(what, where="library", hint="use nccl")
    multicast = view.multicast and view.ranks > 2
    size = size_bytes if collective == "all_reduce" else ceil(size_bytes / view.ranks)
    found = []
    for kernel in _KERNELS[collective]:
        if multicast or not kernel.in_switch:
            blocks, time_us, rate = _predicted(view, kernel, size)
            found.append((time_us, blocks, rate, kernel))
    time_us, blocks, _, best = min(found, key=lambda one: one[0])
    candidates = sorted(
        (
            LibraryCandidate(
                kernel.name, "LL" if kernel.packets else "Simple", _base_us(view, kernel), rate, time
            )
            for time, _, rate, kernel in found
        ),
        key=lambda one: one.time_us,
    )
    return LibraryChoice(
        library="nccl-symmetric",
        collective=collective,
        size_bytes=size_bytes,
        algorithm=best.name,
        protocol="LL" if best.packets else "Simple",
        blocks=blocks,
        threads=_THREADS,
        chunk_bytes=0,
        simulated=best.simulated,
        simulated_protocol=best.protocol,
        channels=blocks,
        why=(
            "buffers are in symmetric memory" + (", a switch adds and copies" if multicast else ""),
            f"least of {len(found)} predicted times: {time_us:.1f} us",
            f"{plural(blocks, 'block')}: the fewest that take {_WITHIN - 1:.1%} longer than all at most",
        ),
        source=_SOURCE,
        candidates=tuple(candidates),
        difference=best.difference,
    )


def _base_us(view: LibraryView, kernel: _Kernel) -> float:
    """Return the base latency of the model."""
    if view.capability < 100:
        return 4.5 if kernel.packets else 7.8
    if kernel.packets:
        return 8.5 if kernel.name.startswith("AllGather") else 11.0
    return 19.5 if kernel.name.startswith("AllReduce") else 13.0


def _predicted(view: LibraryView, kernel: _Kernel, size: int) -> tuple[int, float, float]:
    """Return the thread blocks of a kernel, its predicted time in microseconds, and GB/s of the bus."""
    ranks, whole = view.ranks, kernel.name.startswith("AllReduce")
    most, factor = _MOST_BLOCKS, 1.0
    bus = (ranks - 1) * size
    if kernel.packets:
        bus, factor = ranks * size * _LL_FACTOR, 1.1 if kernel.in_switch else 1.0
    elif kernel.in_switch:
        most = ceil((16 if view.capability < 100 else 32) / ranks)
        bus, factor = (size // ranks + size, ranks) if whole else (bus, 0.55 * ranks)
    elif whole:
        bus = 2 * size * (ranks - 1) // ranks
    if view.capability < 100:
        of_block, peak = (65 if whole else 44) * _GBPS, 320 * _GBPS
        peak = 480 * _GBPS if whole and kernel.in_switch and not kernel.packets else peak
    else:
        of_block, peak = 55 * _GBPS, 600 * _GBPS
        peak = 1000 * _GBPS if whole and kernel.in_switch and not kernel.packets else peak

    def rate(blocks: int) -> float:
        return peak - of_block * log1p((exp(peak / of_block) - 1) * exp(-blocks * factor))

    def time_us(blocks: int) -> float:
        over = bus / rate(blocks) - 1
        return _base_us(view, kernel) + (over if over >= 100 else log1p(exp(over)))

    least = time_us(most)
    blocks = next((few for few in range(1, most) if time_us(few) <= _WITHIN * least), most)
    return blocks, time_us(blocks), rate(blocks) / 1e3
