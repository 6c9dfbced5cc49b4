"""A row for each event that moved a line or a thread block: what a critical path is made of.

Written only in a private copy that replays a stretch of a run (``event_trace.py``): it is no part
of the simulated state, and costs a run that is not traced nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import kernel
from astranb.gpu.tables import (
    FENCE,
    HOP,
    IN_SHARED,
    ISSUE,
    L2,
    LAUNCH,
    NOTIFY,
    POLL,
    POST,
    SIGNAL,
    TILE,
    WIRE,
    Machine,
)

from .recording import Recording

__all__ = ["STALLED", "TRACE", "trace_crossing", "trace_event"]

STALLED: Final = 3
"""Value of ``returning`` for an instruction that found no slot free."""

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
        ("line", "i4"),  # in that memory; of a tile: steps computed
        ("place", "i4"),  # crossing: the link; instruction: the SM; else -1
        ("semaphore", "i4"),  # that a signal or poll reaches, else -1
        ("value", "i8"),  # of the semaphore after it
        ("resumes", "i4"),  # block that goes on because of it, -1: none
    ]
)


@kernel(inline=False)
def trace_request(m: Machine, r: Recording, kind: int, request: int) -> int:
    """Begin a row about a request (or about none); returns its place, -1 where there is no room."""
    clock = m.clock[0]
    place = r.recorder[0].traced
    if place >= len(r.trace):
        return -1
    r.recorder[0].traced = place + 1
    row = r.trace[place]
    row.event = clock.events
    row.time_ps = clock.now_ps
    row.came_ps = clock.now_ps
    row.start_ps = clock.now_ps
    row.sent_ps = clock.now_ps
    row.ahead_ps = clock.now_ps
    row.kind = kind
    row.request = request
    row.parent = -1
    row.what = -1
    row.returning = 0
    row.block = -1
    row.warp = -1
    row.job = -1
    row.op = -1
    row.operand = -1
    row.target = -1
    row.line = -1
    row.place = -1
    row.semaphore = -1
    row.value = 0
    row.resumes = clock.resumes
    if request >= 0:
        if clock.detailed:
            row.parent = m.details[request].parent
        row.what = m.requests[request].kind
        row.returning = m.requests[request].returning
        row.warp = m.requests[request].warp
        row.block = m.warps[m.requests[request].warp].block
        row.job = m.requests[request].job
        row.op = m.requests[request].op
        row.operand = m.requests[request].operand
        row.target = m.requests[request].target
        row.line = m.requests[request].line
    return int(place)


@kernel(inline=False)
def trace_crossing(
    m: Machine,
    r: Recording,
    request: int,
    link: int,
    came_ps: int,
    start_ps: int,
    sent_ps: int,
    ahead_ps: int,
) -> None:
    """A line is put on a link."""
    place = trace_request(m, r, HOP, request)
    if place >= 0:
        row = r.trace[place]
        row.place = link
        row.came_ps = came_ps
        row.start_ps = start_ps
        row.sent_ps = sent_ps
        row.ahead_ps = ahead_ps


@kernel
def trace_shared(m: Machine, r: Recording, place: int, op: int) -> None:
    """Complete the row of an event that raises a semaphore in shared memory."""
    if m.ops[op].kind != NOTIFY or m.semaphores[m.ops[op].semaphore].line != IN_SHARED:
        return
    if m.ops[op].issued_ps == m.clock[0].now_ps and m.ops[op].block == r.trace[place].block:
        r.trace[place].op = op
        r.trace[place].semaphore = m.ops[op].semaphore
        r.trace[place].value = m.semaphores[m.ops[op].semaphore].value


@kernel(inline=False)
def trace_event(
    m: Machine,
    r: Recording,
    kind: int,
    arg: int,
    warp: int,
    job: int,
    again: int,
    fresh: int,
    issued: int,
    start_ps: int,
) -> None:
    """Any other event of a line or a thread block.

    Parameters
    ----------
    kind, arg : int
        The event.
    warp, job, again, fresh : int
        Of an instruction: the warp that issues, its line whose data was there, its load that
        was to be issued again, and the record for a new request, before it was issued. Of a signal
        behind stores: ``again`` is the signal.
    issued : int
        0: the SM stalled.
    start_ps : int
        When the memory began with the line.
    """
    clock = m.clock[0]
    if kind == HOP or kind == WIRE or (kind > FENCE and kind != POST):
        return
    request = arg
    if kind == ISSUE:
        request = -1
        if issued == 0:
            job = -1
        elif clock.free_request != fresh:
            request = fresh
        elif job < 0 and again >= 0 and m.requests[again].issued_ps == clock.now_ps:
            request = again
    elif kind == POST:
        request = fresh if clock.free_request != fresh else -1
    elif kind == LAUNCH or kind == FENCE:
        request = -1
    place = trace_request(m, r, kind, request)
    if place < 0:
        return
    row = r.trace[place]
    row.start_ps = start_ps
    if kind == L2 and (m.requests[arg].kind == SIGNAL or m.requests[arg].kind == POLL):
        semaphore = m.ops[m.requests[arg].op].semaphore
        row.semaphore = semaphore
        row.value = m.semaphores[semaphore].value
    elif kind == ISSUE:
        row.place = arg
        row.warp = warp
        row.job = job
        row.returning = 0 if issued == 1 else STALLED
        row.block = m.warps[warp].block if warp >= 0 else -1
        if request < 0 and warp >= 0:
            row.op = m.blocks[m.warps[warp].block].op
            if issued == 1 and row.op > 0:
                trace_shared(m, r, place, row.op - 1)
    elif kind == POST:
        row.block = arg
        row.op = again
        trace_shared(m, r, place, again)
    elif kind == LAUNCH or kind == FENCE:
        row.block = arg
        row.op = m.blocks[arg].op
        if kind == FENCE and row.op < len(m.ops) and m.ops[row.op].kind == TILE:
            row.line = m.tiles[m.ops[row.op].value].computed
