"""Classes of time of an SM or a thread block: one vocabulary for all summaries, timelines and tables.

A name that is more precise begins with its class: ``fence: stores`` is of the class ``fence``.
"""

from __future__ import annotations

from typing import Final

from astranb.gpu.tables import BLOCK_STATES

__all__ = ["BLOCK_CLASSES", "BLOCK_COLUMNS", "STARTED_LATE", "TIME_CLASSES", "class_of", "doing"]

TIME_CLASSES: Final = {
    "issue": "instructions of moves take the SM's issue slots",
    "compute": "instructions of a computation do",
    "data": "waits for loads: all it may load is under way, or the SM's slots for requests are taken",
    "fence": "waits at a fence until stores are acknowledged, or is in a system-wide fence",
    "semaphore": "polls a semaphore that another thread block or a copy engine has yet to raise",
    "signal": "issues a signal, or is about to",
    "idle": "has not begun, or has ended",
    "started late": "its rank has not started",
    "issue or data": "one of the two: thread blocks share issue slots, so their tracks cannot tell",
}
"""The classes, and what an SM or a thread block does in each."""

STARTED_LATE: Final = "started late"

BLOCK_CLASSES: Final = {
    "moving": "issue or data", "waiting": "semaphore", "draining": "fence", "signalling": "signal",
}  # fmt: skip
"""The class of each state that a thread block's times are counted in (``moving_ps`` of its record, …)."""

BLOCK_COLUMNS: Final = {part: f"{name.replace(' ', '_')}_ps" for part, name in BLOCK_CLASSES.items()}
"""The column of the same in the tables ``ranks`` and ``blocks``."""


def doing(state: int) -> str:
    """Return the activity of a thread block in a state: a class of time, or pending, or done.

    Examples
    --------
    >>> from astranb.gpu.tables import DRAINING, PENDING
    >>> doing(DRAINING), doing(PENDING)
    ('fence', 'pending')
    """
    name = BLOCK_STATES[state]
    return BLOCK_CLASSES.get(name, name)


def class_of(name: str) -> str:
    """Return the class of a name.

    Examples
    --------
    >>> class_of("fence: stores"), class_of("idle")
    ('fence', 'idle')
    """
    return name.partition(":")[0]
