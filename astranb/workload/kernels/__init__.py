"""Kernels: what a computation launches on its GPU, and how long each of them takes.

A model's computation is a list of kernels with shapes (:mod:`.work`). The times of a GPU follow from
its peaks and from what kernels achieve of them (:class:`astranb.hardware.Gpu`), by :class:`KernelTimes`;
timings of a real GPU (:mod:`.timings`) can replace what they achieve (:mod:`.fit`).
"""

from __future__ import annotations

from astranb.hardware import DEFAULT_GPU, GPUS, PRECISIONS, Gpu, Host, Interconnect, gpu_named

from .fit import Fit, fit_gpu, fitted_document, gpu_of_file
from .grids import Grid, grids, kernel_of, tile_of
from .hybrid import PLACEMENTS, STREAMINGS, HybridMemory, MemorySplit, MemoryTier
from .recorded import Launch, ShapedKernel, shaped_kernel
from .times import EFFICIENCIES, LAUNCHES, KernelTimes, read_efficiency
from .timings import KernelTiming, read_timings
from .work import (
    SORTS,
    Attention,
    HostUpdate,
    Kernel,
    Product,
    Stream,
    TimedKernel,
    expert_kernels,
    experts_used,
)

__all__ = [
    "DEFAULT_GPU",
    "EFFICIENCIES",
    "GPUS",
    "LAUNCHES",
    "PLACEMENTS",
    "PRECISIONS",
    "SORTS",
    "STREAMINGS",
    "Attention",
    "Fit",
    "Gpu",
    "Grid",
    "Host",
    "HostUpdate",
    "HybridMemory",
    "Interconnect",
    "Kernel",
    "KernelTimes",
    "KernelTiming",
    "Launch",
    "MemorySplit",
    "MemoryTier",
    "Product",
    "ShapedKernel",
    "Stream",
    "TimedKernel",
    "expert_kernels",
    "experts_used",
    "fit_gpu",
    "fitted_document",
    "gpu_named",
    "gpu_of_file",
    "grids",
    "kernel_of",
    "read_efficiency",
    "read_timings",
    "shaped_kernel",
    "tile_of",
]
