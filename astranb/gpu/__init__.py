"""Floor 2: the GPU. SMs, thread blocks, warps, L2 slices, HBM channels; presets as data."""

from ._measured import Measured, read_measured
from ._preset import Preset
from ._preset_file import read_preset, write_preset
from ._presets import PRESETS, preset

__all__ = ["PRESETS", "Measured", "Preset", "preset", "read_measured", "read_preset", "write_preset"]
