"""Breakpoints and the recording: their tables, and the kernels that fill them.

Nothing simulated depends on them. A caller checks ``watch[0].noting`` first.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.core.state import allocate
from astranb.engine.messages import BEGINS, ENDS, PHASE_BEGINS

from .tables import ISSUE, LayerMachine

__all__ = [
    "PASSED",
    "POINT",
    "WATCH",
    "begin",
    "end",
    "record_phase",
    "recording_tables",
]

_MOST_POINTS: Final = 1024
_MOST_PASSED: Final = 262_144

WATCH = np.dtype(
    [
        ("noting", "i8"),  # 1: there are breakpoints or a recording
        ("recording", "i8"),
        ("points", "i8"),  # number of breakpoints
        ("hit", "i8"),  # first breakpoint that the event has hit, -1 for none
        ("passed", "i8"),  # phases of chunks recorded so far
        ("what", "i8"),  # the last occurrence: its kind, operation and queue
        ("operation", "i8"),
        ("queue", "i8"),
        ("step", "i8"),  # and its event number
    ]
)
"""State of breakpoints and recording, one row."""

POINT = np.dtype(
    [
        ("what", "i8"),  # NOTHING: a condition
        ("operation", "i8"),  # -1: any; as in the following four
        ("layer", "i8"),
        ("part", "i8"),
        ("kind", "i8"),  # COMPUTE or ISSUE
        ("dim", "i8"),
        ("owner", "i8"),  # table of a condition: 0 clock, 1 operations, 2 slots, 3 collectives, 4 queues
        ("place", "i8"),  # position in that table seen as plain numbers
        ("relation", "i8"),  # < <= == != >= >
        ("value", "i8"),
        ("was", "i8"),  # 1: the condition was true after the last event
    ]
)
"""A breakpoint."""

PASSED = np.dtype(
    [
        ("operation", "i8"),
        ("chunk", "i8"),  # of its collective, from 0
        ("phase", "i8"),  # row in the table of phases
        ("nth", "i8"),  # of its chunk, from 1
        ("queued_ps", "i8"),
        ("begun_ps", "i8"),
        ("end_ps", "i8"),
    ]
)
"""A completed phase of a chunk; the table is a ring buffer."""


def recording_tables(phases: int, *, record: bool) -> dict[str, Records]:
    """Return empty tables of breakpoints and of the recording.

    Parameters
    ----------
    phases : int
        Number of phases that can be recorded.
    record : bool
        Record phases of chunks.
    """
    watch = allocate(1, WATCH)
    watch.hit = watch.what = -1
    watch.recording = watch.noting = record
    passed = allocate(max(1, min(phases, _MOST_PASSED)) if record else 1, PASSED)
    return {"watch": watch, "points": allocate(_MOST_POINTS, POINT), "passed": passed}


@kernel(inline=False)
def _report(m: LayerMachine, what: int, operation: int, queue: int) -> None:
    """Record an occurrence, and check the breakpoints on it."""
    watch = m.watch[0]
    if watch.hit >= 0:
        return  # keep the occurrence that has hit a breakpoint
    o = m.operations[operation]
    slot = o.slot
    if o.kind == ISSUE:
        slot = m.collectives[o.slot].slot
    for number in range(watch.points):
        point = m.points[number]
        if (
            point.what == what
            and watch.hit < 0
            and (point.operation < 0 or point.operation == operation)
            and (point.layer < 0 or point.layer == slot // 3)
            and (point.part < 0 or point.part == slot % 3)
            and (point.kind < 0 or point.kind == o.kind)
            and (point.dim < 0 or (queue >= 0 and point.dim == queue // m.clock[0].queues))
        ):
            watch.hit = number
    # Keep the first occurrence of an event: the others follow from it.
    step = m.clock[0].events - 1
    if watch.hit >= 0 or watch.what < 0 or watch.step != step:
        watch.what = what
        watch.operation = operation
        watch.queue = queue
        watch.step = step


@kernel
def begin(m: LayerMachine, operation: int) -> None:
    """Mark the begin of an operation."""
    m.operations[operation].begun_ps = m.clock[0].now_ps
    if m.watch[0].noting == 1:
        _report(m, BEGINS, operation, -1)


@kernel
def end(m: LayerMachine, operation: int) -> None:
    """Mark the end of an operation."""
    m.operations[operation].ended_ps = m.clock[0].now_ps
    m.clock[0].ended += 1
    if m.watch[0].noting == 1:
        _report(m, ENDS, operation, -1)


@kernel(inline=False)
def record_phase(m: LayerMachine, stream: int, what: int) -> None:
    """Record the begin or the end of a chunk's phase."""
    s = m.streams[stream]
    c = m.collectives[s.collective]
    _report(m, what, c.operation, m.phases[s.phase].queue)
    if what == PHASE_BEGINS or m.watch[0].recording == 0:
        return
    row = m.passed[m.watch[0].passed % len(m.passed)]
    m.watch[0].passed += 1
    row.operation = c.operation
    row.chunk = s.chunk - c.first_chunk
    row.phase = s.phase
    row.nth = 1 + s.phase - m.chunks[s.chunk].first_phase
    row.queued_ps = s.queued_ps
    row.begun_ps = s.started_ps
    row.end_ps = m.clock[0].now_ps
