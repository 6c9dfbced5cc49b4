"""Floor 2: the GPU. SMs, thread blocks, warps, L2 slices, HBM channels; presets as data."""

from ._presets import PRESETS, Preset, preset

__all__ = ["PRESETS", "Preset", "preset"]
