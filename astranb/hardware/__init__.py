"""Floor 1: devices as data. One readable file for each, with a source and a kind for every number."""

from .gpu import PRECISIONS, Gpu, Preset
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
from .parts import GpuCosts, GpuLibrary, GpuMemory, Host, Interconnect
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
