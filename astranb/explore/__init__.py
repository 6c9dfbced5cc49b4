"""Floor 6: many runs. Which algorithm is best where, what a simulated GPU measures, and fits of presets."""

from ._best import best_algorithm
from ._fit import held_against, preset_from
from ._microbench import microbenchmarks

__all__ = ["best_algorithm", "held_against", "microbenchmarks", "preset_from"]
