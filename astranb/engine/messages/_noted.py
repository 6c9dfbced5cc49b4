"""What is noted of a run beside its state: for breakpoints and recordings."""

from __future__ import annotations

from typing import Final

import numpy as np

__all__ = [
    "BEGINS",
    "DELIVERED",
    "ENDS",
    "NOTHING",
    "PASSED",
    "PHASE_BEGINS",
    "PHASE_ENDS",
    "POINT",
    "SENT",
    "TRAFFIC",
    "USED",
    "WATCH",
]

# What breakpoints and recordings are about.
NOTHING: Final = -1
BEGINS: Final = 0  # an operation
ENDS: Final = 1
SENT: Final = 2  # a message
DELIVERED: Final = 3
PHASE_BEGINS: Final = 4  # of a chunk
PHASE_ENDS: Final = 5

WATCH = np.dtype(
    [
        ("noting", "i8"),  # 1: what happens is noted, for the recording or for breakpoints
        ("recording", "i8"),
        ("points", "i8"),  # breakpoints
        ("hit", "i8"),  # the first breakpoint that the event has hit, -1
        ("passed", "i8"),  # phases of chunks noted so far
        ("what", "i8"),  # what was noted last, of which NPU and operation, with which other NPU
        ("npu", "i8"),
        ("operation", "i8"),
        ("other", "i8"),
        ("step", "i8"),  # at which event
    ]
)
"""The one row about what is noted: no part of the simulated state."""

POINT = np.dtype(
    [
        ("what", "i8"),  # NOTHING: a condition
        ("npu", "i8"),  # -1: any, and so on
        ("operation", "i8"),
        ("kind", "i8"),  # of the operation
        ("dim", "i8"),
        ("owner", "i8"),  # of a condition: 0 npus, 1 operations, 2 queues
        ("place", "i8"),  # the number of the word in that table
        ("relation", "i8"),  # < <= == != >= >
        ("value", "i8"),
        ("was", "i8"),  # whether it held
    ]
)
"""A breakpoint."""

PASSED = np.dtype(
    [
        ("npu", "i8"),
        ("operation", "i8"),
        ("tag", "i8"),
        ("phase", "i8"),  # from 1
        ("dim", "i8"),
        ("algorithm", "i8"),
        ("collective", "i8"),
        ("queued_ns", "i8"),
        ("begun_ns", "i8"),
        ("end_ns", "i8"),
    ]
)
"""A phase of a chunk that is over; a ring of them."""

TRAFFIC = np.dtype([("messages", "i8"), ("bytes", "i8"), ("crossed", "i8")])
"""What an NPU has sent in a dimension; ``crossed`` counts bytes once for every link."""

USED = np.dtype([("messages", "i8"), ("bytes", "i8"), ("busy_ns", "i8")])
"""What has crossed a link, in a network with congestion."""
