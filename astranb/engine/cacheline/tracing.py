"""A row for each event that moved a line or a thread block: what a critical path is made of.

Written only in a private copy that replays a stretch of a run (``_trace.py``): it is no part
of the simulated state, and costs a run that is not traced nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Records, kernel_apart
from astranb.gpu.tables import FENCE, HOP, ISSUE, L2, LAUNCH, POLL, SIGNAL, WIRE

__all__ = ["STALLED", "TRACE", "note_crossing", "note_event"]

STALLED: Final = 3
"""Where ``returning`` stands for an instruction that found no slot free."""

TRACE = np.dtype(
    [
        ("event", "i8"),  # its number
        ("time_ps", "i8"),
        ("came_ps", "i8"),  # crossing: when it came to the link, which is before where it queued
        ("start_ps", "i8"),  # crossing: first bit on the wire; memory: its service begins
        ("sent_ps", "i8"),  # crossing: as much is out as the far end needs to go on
        ("ahead_ps", "i8"),  # crossing: and is there
        ("kind", "i4"),  # event kind; HOP: a line crosses a link
        ("request", "i4"),  # that it is about, or that was issued; -1: none
        ("parent", "i4"),  # the request that a switch multiplied, -1: none
        ("what", "i4"),  # request kind, -1: none
        ("returning", "i4"),  # 0, 1, IN_VAIN or STALLED
        ("block", "i4"),
        ("warp", "i4"),
        ("job", "i4"),
        ("op", "i4"),
        ("operand", "i4"),
        ("target", "i4"),  # GPU whose memory the request is for
        ("line", "i4"),  # in that memory
        ("place", "i4"),  # crossing: the link; instruction: the SM; else -1
        ("semaphore", "i4"),  # that a signal or poll reaches, else -1
        ("value", "i8"),  # of the semaphore after it
        ("resumes", "i4"),  # block that goes on because of it, -1: none
    ]
)


@kernel_apart
def note_request(
    recorder: Records, trace: Records, clock: Records, warps: Records, requests: Records, details: Records,
    kind: int, request: int,
) -> int:  # fmt: skip
    """Begin a row about a request (or about none); returns its place, -1 where there is no room."""
    place = recorder[0].traced
    if place >= len(trace):
        return -1
    recorder[0].traced = place + 1
    trace[place].event = clock[0].events
    trace[place].time_ps = clock[0].now_ps
    trace[place].came_ps = clock[0].now_ps
    trace[place].start_ps = clock[0].now_ps
    trace[place].sent_ps = clock[0].now_ps
    trace[place].ahead_ps = clock[0].now_ps
    trace[place].kind = kind
    trace[place].request = request
    trace[place].parent = -1
    trace[place].what = -1
    trace[place].returning = 0
    trace[place].block = -1
    trace[place].warp = -1
    trace[place].job = -1
    trace[place].op = -1
    trace[place].operand = -1
    trace[place].target = -1
    trace[place].line = -1
    trace[place].place = -1
    trace[place].semaphore = -1
    trace[place].value = 0
    trace[place].resumes = clock[0].resumes
    if request >= 0:
        if clock[0].detailed:
            trace[place].parent = details[request].parent
        trace[place].what = requests[request].kind
        trace[place].returning = requests[request].returning
        trace[place].warp = requests[request].warp
        trace[place].block = warps[requests[request].warp].block
        trace[place].job = requests[request].job
        trace[place].op = requests[request].op
        trace[place].operand = requests[request].operand
        trace[place].target = requests[request].target
        trace[place].line = requests[request].line
    return int(place)


@kernel_apart
def note_crossing(
    recorder: Records, trace: Records, clock: Records, warps: Records, requests: Records, details: Records,
    request: int, link: int, came_ps: int, start_ps: int, sent_ps: int, ahead_ps: int,
) -> None:  # fmt: skip
    """A line is put on a link."""
    place = note_request(recorder, trace, clock, warps, requests, details, HOP, request)
    if place >= 0:
        trace[place].place = link
        trace[place].came_ps = came_ps
        trace[place].start_ps = start_ps
        trace[place].sent_ps = sent_ps
        trace[place].ahead_ps = ahead_ps


@kernel_apart
def note_event(
    recorder: Records, trace: Records, clock: Records, blocks: Records, warps: Records,
    ops: Records, semaphores: Records, requests: Records, details: Records, kind: int, arg: int, warp: int,
    job: int, again: int, fresh: int, issued: int, start_ps: int,
) -> None:  # fmt: skip
    """Any other event of a line or a thread block.

    Parameters
    ----------
    kind, arg : int
        The event.
    warp, job, again, fresh : int
        Of an instruction: whose turn it was, its line whose data was there, its load that
        was to be issued again, and the record for a new request, before it was issued.
    issued : int
        0: the SM stalled.
    start_ps : int
        When the memory began with the line.
    """
    if kind == HOP or kind == WIRE or kind > FENCE:
        return
    request = arg
    if kind == ISSUE:
        request = -1
        if issued == 0:
            job = -1
        elif clock[0].free_request != fresh:
            request = fresh
        elif job < 0 and again >= 0 and requests[again].issued_ps == clock[0].now_ps:
            request = again
    elif kind == LAUNCH or kind == FENCE:
        request = -1
    place = note_request(recorder, trace, clock, warps, requests, details, kind, request)
    if place < 0:
        return
    trace[place].start_ps = start_ps
    if kind == L2 and (requests[arg].kind == SIGNAL or requests[arg].kind == POLL):
        semaphore = ops[requests[arg].op].semaphore
        trace[place].semaphore = semaphore
        trace[place].value = semaphores[semaphore].value
    elif kind == ISSUE:
        trace[place].place = arg
        trace[place].warp = warp
        trace[place].job = job
        trace[place].returning = 0 if issued == 1 else STALLED
        trace[place].block = warps[warp].block if warp >= 0 else -1
        if request < 0 and warp >= 0:
            trace[place].op = blocks[warps[warp].block].op
    elif kind == LAUNCH or kind == FENCE:
        trace[place].block = arg
        trace[place].op = blocks[arg].op
