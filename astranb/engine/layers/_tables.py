"""The state of a run as tables, and the numbers that stand in them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.jit import Records

# What the program says.
COMPUTE: Final = 0
ISSUE: Final = 1
WAIT: Final = 2
STEP: Final = 3
PASS: Final = 4  # a pass is over
END: Final = 5

# What a phase does.
ALL_REDUCE: Final = 0
REDUCE_SCATTER: Final = 1
ALL_GATHER: Final = 2
ALL_TO_ALL: Final = 3

# Orders of the chunks that wait for a dimension.
FIFO: Final = 0
GROUPED: Final = 1
SMALLEST: Final = 2
FEWEST_LEFT: Final = 3

# Which events of one instant come first.
PROGRAM: Final = 0
PHASE_OVER: Final = 1
AT_ONCE: Final = 2  # what an event puts into its own instant

RESUME: Final = 0
"""The event that goes on with the program; then one for each collective, then one for each stream."""

CLOCK = np.dtype(
    [
        ("now_ps", "i8"),
        ("events", "i8"),  # handled
        ("at", "i8"),  # the next operation of the program
        ("issued", "i8"),  # collectives begun
        ("streams_left", "i8"),  # begun and not over
        ("ending", "i8"),  # 1: all passes are over, collectives may be under way; 2: so are those
        ("end_ps", "i8"),
        ("heaped", "i8"),  # events to come
        ("puts", "i8"),  # events ever put in
        ("within", "i8"),  # the order inside a dimension
        ("concurrent", "i8"),  # streams under way in one queue
        ("by_queue", "i8"),  # of phases that end together, that of the first dimension is over first
        ("passes", "i8"),  # over
        ("turns", "i8"),  # instants after the first
        ("ended", "i8"),  # computations and collectives
        ("phases", "i8"),  # of chunks, that are over
        ("computing", "i8"),  # the operation under way, -1
        ("under_way", "i8"),  # collectives
        ("waiting", "i8"),  # 1: the program waits for a collective
        ("compute_ps", "i8"),  # of what has begun
        ("queues", "i8"),  # of one dimension
    ]
)

OPERATION = np.dtype(
    [
        ("kind", "i8"),
        ("slot", "i8"),
        ("time_ps", "i8"),
        ("begun_ps", "i8"),  # -1: not yet; of WAIT and END: never, where nothing is waited for
        ("ended_ps", "i8"),
    ]
)
"""One of the program: a slot is a part of a layer; of ISSUE the collective's number."""

SLOT = np.dtype(
    [
        ("under_way", "i8"),  # collectives
        ("waiting", "i8"),
        ("since_ps", "i8"),
        ("compute_ps", "i8"),
        ("exposed_ps", "i8"),
        ("total_ps", "i8"),  # of its collectives, from issue to update
    ]
)
"""Forward pass, input gradient and weight gradient of each layer."""

COLLECTIVE = np.dtype(
    [
        ("slot", "i8"),
        ("first_chunk", "i8"),
        ("chunks", "i8"),
        ("first_stream", "i8"),
        ("over", "i8"),  # of its chunks
        ("priority", "i8"),
        ("update_ps", "i8"),
        ("issued_ps", "i8"),
        ("operation", "i8"),  # that issues it
    ]
)

CHUNK = np.dtype([("first_phase", "i8"), ("phases", "i8")])

PHASE = np.dtype(
    [
        ("queue", "i8"),
        ("collective", "i8"),
        ("bytes", "i8"),
        ("duration_ps", "i8"),
        ("last_ps", "i8"),
        ("message_ps", "i8"),
        ("over", "i8"),  # how often it has been gone through
    ]
)

STREAM = np.dtype(
    [
        ("collective", "i8"),
        ("chunk", "i8"),
        ("phase", "i8"),  # -1: none yet
        ("running", "i8"),
        ("before", "i8"),
        ("next", "i8"),
        ("started_ps", "i8"),
        ("queued_ps", "i8"),
    ]
)
"""One chunk of a collective under way."""

QUEUE = np.dtype(
    [
        ("head", "i8"),
        ("running", "i8"),
        ("inside", "i8"),  # streams
        ("chunks", "i8"),  # that have been through
        ("chunk_ps", "i8"),  # what they took, summed
        ("since_ps", "i8"),  # when the first of those inside came
        ("busy_ps", "i8"),
    ]
)

EVENT = np.dtype(
    [
        ("time_ps", "i8"),
        ("rank", "i8"),
        ("last_ps", "i8"),
        ("message_ps", "i8"),
        ("queue", "i8"),
        ("turn", "i8"),
        ("heap", "i8"),  # not of this event: the heap's element of this number is this event
    ]
)

PASS_END = np.dtype([("time_ps", "i8")])
LIMITS = np.dtype(
    [
        ("events", "i8"),
        ("closely", "i8"),  # 1: the following are looked at, and breakpoints are
        ("until_ps", "i8"),  # nothing later is handled
        ("turns", "i8"),  # the others: no more than so many of the clock's counts
        ("ended", "i8"),
        ("phases", "i8"),
        ("passes", "i8"),
    ]
)

NUMBER = np.dtype([("value", "i8")])
"""A table as plain numbers, for conditions."""

NOTES: Final = ("watch", "points", "passed")
"""The tables that are no part of the simulated state."""

FIXED: Final = ("chunks",)
"""Those that never change."""


class Machine(NamedTuple):
    """Everything simulated, and behind it what is noted of it."""

    clock: Records
    operations: Records
    slots: Records
    collectives: Records
    chunks: Records
    phases: Records
    streams: Records
    queues: Records
    events: Records
    pass_ends: Records
    watch: Records
    points: Records
    passed: Records
