"""Reasons for which a run has stopped: numbers shared by all engines."""

from __future__ import annotations

from typing import Final

__all__ = [
    "BACK",
    "BREAK",
    "DEADLOCK",
    "ENDED",
    "EXHAUSTED",
    "GROW",
    "REACHED",
    "STEPS",
    "STRANDED",
    "TIME",
    "TOO_LATE",
]

ENDED: Final = 0  # nothing is left to happen
STEPS: Final = 1  # as many events as asked for
GROW: Final = 2  # a table has to become larger first
TIME: Final = 3  # what is next is later than asked for
REACHED: Final = 4  # as many of something else as asked for
BREAK: Final = 5  # a breakpoint
DEADLOCK: Final = 6  # what is left waits for itself
STRANDED: Final = 7  # what is left waits for links that are down
EXHAUSTED: Final = 8  # no more events can be counted
TOO_LATE: Final = 9  # what is left would happen later than time is counted
BACK: Final = 10  # time was taken back
