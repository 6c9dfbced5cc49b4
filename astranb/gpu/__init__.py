"""Floor 2: the GPU. SMs, thread blocks, warps, L2 slices, HBM channels."""

from astranb.hardware import PRESETS, SHORT_NAMES, Preset, preset, write_preset

from .measured import Measured, read_measured
from .named import named_gpus

__all__ = [
    "PRESETS",
    "SHORT_NAMES",
    "Measured",
    "Preset",
    "named_gpus",
    "preset",
    "read_measured",
    "write_preset",
]
