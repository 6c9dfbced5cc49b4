"""Floor 6: many runs. Which algorithm is best where, and what a simulated GPU measures."""

from ._best import best_algorithm
from ._microbench import microbenchmarks

__all__ = ["best_algorithm", "microbenchmarks"]
