"""Floor 2: the GPU. SMs, thread blocks, warps, L2 slices, HBM channels; presets as data."""

from .measured import Measured, read_measured
from .named import named_gpus
from .presets import PRESETS, SHORT_NAMES, Preset, preset, read_preset, write_preset

__all__ = [
    "PRESETS",
    "SHORT_NAMES",
    "Measured",
    "Preset",
    "named_gpus",
    "preset",
    "read_measured",
    "read_preset",
    "write_preset",
]
