"""Floor 2: the GPU. SMs, thread blocks, warps, L2 slices, HBM channels; presets as data."""

from ._preset import Preset
from ._presets import PRESETS, preset

__all__ = ["PRESETS", "Preset", "preset"]
