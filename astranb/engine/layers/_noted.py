"""What is noted of a run beside its state: for breakpoints and recordings."""

from __future__ import annotations

import numpy as np

__all__ = ["PASSED", "POINT", "WATCH"]

WATCH = np.dtype(
    [
        ("noting", "i8"),  # 1: what happens is noted, for the recording or for breakpoints
        ("recording", "i8"),
        ("points", "i8"),  # breakpoints
        ("hit", "i8"),  # the first breakpoint that the event has hit, -1
        ("passed", "i8"),  # phases of chunks noted so far
        ("what", "i8"),  # what was noted last, of which operation, in which queue
        ("operation", "i8"),
        ("queue", "i8"),
        ("step", "i8"),  # at which event
    ]
)
"""The one row about what is noted: no part of the simulated state."""

POINT = np.dtype(
    [
        ("what", "i8"),  # NOTHING: a condition
        ("operation", "i8"),  # -1: any, and so on
        ("layer", "i8"),
        ("part", "i8"),
        ("kind", "i8"),  # COMPUTE or ISSUE
        ("dim", "i8"),
        ("owner", "i8"),  # of a condition: 0 clock, 1 operations, 2 slots, 3 collectives, 4 queues
        ("place", "i8"),  # the number of the word in that table
        ("relation", "i8"),  # < <= == != >= >
        ("value", "i8"),
        ("was", "i8"),  # whether it held
    ]
)
"""A breakpoint."""

PASSED = np.dtype(
    [
        ("operation", "i8"),
        ("chunk", "i8"),  # of its collective, from 0
        ("phase", "i8"),  # its row in the table of phases
        ("nth", "i8"),  # of its chunk, from 1
        ("queued_ps", "i8"),
        ("begun_ps", "i8"),
        ("end_ps", "i8"),
    ]
)
"""A phase of a chunk that is over; a ring of them."""
