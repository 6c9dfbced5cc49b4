"""Floor 6: many runs. Which algorithm is best where."""

from ._best import best_algorithm

__all__ = ["best_algorithm"]
