"""Floor 1: devices as data. One readable file for each, with a source and a kind for every number."""

from .gpu import PRECISIONS, Gpu, GpuCosts, GpuLibrary, GpuMemory, Host, Interconnect
from .gpu_files import (
    DEFAULT_GPU,
    GPUS,
    PRESETS,
    SHORT_NAMES,
    GpuDevice,
    gpu_named,
    preset,
    read_gpu,
    suggested_gpu,
    write_preset,
)
from .preset import Preset
from .reader import KINDS, Provenance

__all__ = [
    "DEFAULT_GPU",
    "GPUS",
    "KINDS",
    "PRECISIONS",
    "PRESETS",
    "SHORT_NAMES",
    "Gpu",
    "GpuCosts",
    "GpuDevice",
    "GpuLibrary",
    "GpuMemory",
    "Host",
    "Interconnect",
    "Preset",
    "Provenance",
    "gpu_named",
    "preset",
    "read_gpu",
    "suggested_gpu",
    "write_preset",
]
