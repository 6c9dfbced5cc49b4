"""Why the loop of a workload stopped: numbers that both loops give."""

from __future__ import annotations

from typing import Final

__all__ = ["BREAK", "ENDED", "GROW", "REACHED", "STEPS", "TIME"]

ENDED: Final = 0  # nothing is left to happen
STEPS: Final = 1  # as many events as asked for
GROW: Final = 2  # a table has to become larger first
TIME: Final = 3  # what is next is later than asked for
REACHED: Final = 4  # as many of something else as asked for
BREAK: Final = 5  # a breakpoint
