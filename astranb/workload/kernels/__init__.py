"""Kernels: what a computation launches on its GPU, and how long each of them takes.

A model's computation is a list of kernels with shapes (:mod:`.work`). The times of a GPU follow from
its peaks and from what kernels achieve of them (:class:`astranb.hardware.Gpu`), by :class:`KernelTimes`;
timings of a real GPU (:mod:`.timings`) can replace what they achieve (:mod:`.fit`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy
from astranb.hardware import DEFAULT_GPU as DEFAULT_GPU
from astranb.hardware import GPUS as GPUS
from astranb.hardware import PRECISIONS as PRECISIONS
from astranb.hardware import Gpu as Gpu
from astranb.hardware import Host as Host
from astranb.hardware import Interconnect as Interconnect
from astranb.hardware import gpu_named as gpu_named

if TYPE_CHECKING:
    from .engine_tables import ENGINES_MEASURED as ENGINES_MEASURED
    from .engine_tables import EngineTable as EngineTable
    from .engine_tables import engine_table as engine_table
    from .fit import Fit as Fit
    from .fit import fit_gpu as fit_gpu
    from .fit import fitted_document as fitted_document
    from .fit import gpu_of_file as gpu_of_file
    from .hybrid import PLACEMENTS as PLACEMENTS
    from .hybrid import STREAMINGS as STREAMINGS
    from .hybrid import HybridMemory as HybridMemory
    from .hybrid import MemorySplit as MemorySplit
    from .hybrid import MemoryTier as MemoryTier
    from .kernel_grids import Grid as Grid
    from .kernel_grids import grids as grids
    from .kernel_grids import kernel_of as kernel_of
    from .kernel_grids import tile_of as tile_of
    from .recorded import OPERATORS as OPERATORS
    from .recorded import Launch as Launch
    from .recorded import ShapedKernel as ShapedKernel
    from .recorded import shaped_kernel as shaped_kernel
    from .times import COSTS as COSTS
    from .times import EFFICIENCIES as EFFICIENCIES
    from .times import LAUNCHES as LAUNCHES
    from .times import NUMBER_BYTES as NUMBER_BYTES
    from .times import WEIGHTS as WEIGHTS
    from .times import CostModel as CostModel
    from .times import KernelTimes as KernelTimes
    from .times import checkpoint_precision as checkpoint_precision
    from .times import power_part as power_part
    from .times import read_efficiency as read_efficiency
    from .timings import KernelTiming as KernelTiming
    from .timings import read_timings as read_timings
    from .work import SORTS as SORTS
    from .work import Attention as Attention
    from .work import HostUpdate as HostUpdate
    from .work import Kernel as Kernel
    from .work import Product as Product
    from .work import Stream as Stream
    from .work import TimedKernel as TimedKernel
    from .work import expert_kernels as expert_kernels
    from .work import experts_used as experts_used

__getattr__, __dir__ = lazy(__name__)
