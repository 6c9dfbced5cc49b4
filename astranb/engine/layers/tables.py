"""The simulated state as tables, and the constants in them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.jit import Records

# Kinds of operations of the program.
COMPUTE: Final = 0
ISSUE: Final = 1
WAIT: Final = 2
STEP: Final = 3
PASS: Final = 4  # end of a pass
END: Final = 5

# Collectives of phases.
ALL_REDUCE: Final = 0
REDUCE_SCATTER: Final = 1
ALL_GATHER: Final = 2
ALL_TO_ALL: Final = 3

# Orders of the chunks that wait for a dimension (``WITHIN`` of the system layer).
FIFO: Final = 0
GROUPED: Final = 1
SMALLEST: Final = 2
FEWEST_LEFT: Final = 3

# Order of the events at one time.
PROGRAM: Final = 0
PHASE_OVER: Final = 1
NO_DELAY: Final = 2  # scheduled by an event at the same time

RESUME: Final = 0
"""The event that resumes the program. Behind it: one for each collective, then one for each stream."""

CLOCK = np.dtype(
    [
        ("now_ps", "i8"),
        ("events", "i8"),  # handled
        ("at", "i8"),  # next operation of the program
        ("issued", "i8"),  # collectives
        ("streams_left", "i8"),  # issued and not complete
        ("ending", "i8"),  # 1: all passes are complete, but collectives are in flight; 2: these too
        ("end_ps", "i8"),
        ("heaped", "i8"),  # scheduled events
        ("puts", "i8"),  # events scheduled so far
        ("within", "i8"),  # order within a dimension
        ("concurrent", "i8"),  # streams that a queue serves at once
        (
            "by_queue",
            "i8",
        ),  # 1: of phases that end together, the one of the lowest dimension is handled first
        ("passes", "i8"),  # complete
        ("turns", "i8"),  # timesteps after the first
        ("ended", "i8"),  # computations and collectives
        ("phases", "i8"),  # of chunks, complete
        ("computing", "i8"),  # operation, -1 for none
        ("under_way", "i8"),  # collectives in flight
        ("waiting", "i8"),  # 1: the program waits for a collective
        ("compute_ps", "i8"),  # of computations that have begun
        ("queues", "i8"),  # per dimension
    ]
)

OPERATION = np.dtype(
    [
        ("kind", "i8"),
        ("slot", "i8"),
        ("time_ps", "i8"),
        ("begun_ps", "i8"),  # -1: not yet; WAIT and END that do not have to wait keep -1
        ("ended_ps", "i8"),
    ]
)
"""An operation of the program. Its slot is a part of a layer; of ISSUE the collective's number."""

SLOT = np.dtype(
    [
        ("under_way", "i8"),  # collectives in flight
        ("waiting", "i8"),
        ("since_ps", "i8"),
        ("compute_ps", "i8"),
        ("exposed_ps", "i8"),
        ("total_ps", "i8"),  # of its collectives, from issue to update
    ]
)
"""A part of a layer: its forward pass, input gradient or weight gradient."""

COLLECTIVE = np.dtype(
    [
        ("slot", "i8"),
        ("first_chunk", "i8"),
        ("chunks", "i8"),
        ("first_stream", "i8"),
        ("over", "i8"),  # complete chunks
        ("priority", "i8"),
        ("update_ps", "i8"),
        ("issued_ps", "i8"),
        ("operation", "i8"),  # ISSUE
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
        ("over", "i8"),  # number of chunks that have completed it
    ]
)

STREAM = np.dtype(
    [
        ("collective", "i8"),
        ("chunk", "i8"),
        ("phase", "i8"),  # -1: not begun
        ("running", "i8"),
        ("before", "i8"),
        ("next", "i8"),
        ("started_ps", "i8"),
        ("queued_ps", "i8"),
    ]
)
"""A chunk of a collective in flight."""

QUEUE = np.dtype(
    [
        ("head", "i8"),
        ("running", "i8"),
        ("inside", "i8"),  # streams, waiting and served
        ("chunks", "i8"),  # served
        ("chunk_ps", "i8"),  # total service time of chunks
        ("since_ps", "i8"),  # since when it is not empty
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
        ("sequence", "i8"),
        ("heap", "i8"),  # not of this event: the event at this position of the heap
    ]
)

PASS_END = np.dtype([("time_ps", "i8")])
LIMITS = np.dtype(
    [
        ("events", "i8"),
        ("closely", "i8"),  # 1: check the following limits, and breakpoints
        ("until_ps", "i8"),  # last time to handle
        ("turns", "i8"),  # and the following: limits of the clock's counters
        ("ended", "i8"),
        ("phases", "i8"),
        ("passes", "i8"),
    ]
)

RECORDS: Final = ("watch", "points", "passed")
"""The tables that are not part of the simulated state: breakpoints and recording."""

FIXED: Final = ("chunks",)
"""The tables that never change."""


class LayerMachine(NamedTuple):
    """The simulated state, and behind it breakpoints and the recording."""

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
