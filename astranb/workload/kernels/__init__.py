"""Kernels: what a computation launches on its GPU, and how long each of them takes.

A model's computation is a list of kernels with shapes (:mod:`.work`). The times of a GPU follow from
its peaks and from what kernels achieve of them (:mod:`.gpus`), by :class:`KernelTimes`.
"""

from __future__ import annotations

from .gpus import DEFAULT_GPU, GPUS, PRECISIONS, Gpu, gpu_named
from .host import HOSTS, Host
from .times import EFFICIENCIES, LAUNCHES, KernelTimes, read_efficiency
from .work import SORTS, Attention, HostUpdate, Kernel, Product, Stream

__all__ = [
    "DEFAULT_GPU",
    "EFFICIENCIES",
    "GPUS",
    "HOSTS",
    "LAUNCHES",
    "PRECISIONS",
    "SORTS",
    "Attention",
    "Gpu",
    "Host",
    "HostUpdate",
    "Kernel",
    "KernelTimes",
    "Product",
    "Stream",
    "gpu_named",
    "read_efficiency",
]
