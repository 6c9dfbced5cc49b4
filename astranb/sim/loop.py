"""The event loop: takes the state and limits, returns why it stopped.

One event is handled at a time, in the order of (time, sequence). How a run is cut into
slices or steps never changes what happens: limits are looked at only between events.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Entry, Records, kernel
from astranb.core.queue import EVENT, pop
from astranb.core.ticks import transfer_ps
from astranb.gpu import tables as t
from astranb.gpu.block import launch
from astranb.gpu.issue import issue
from astranb.gpu.memory import reach_hbm, reach_l2, spread
from astranb.gpu.response import come_back
from astranb.gpu.sm import schedule
from astranb.gpu.tables import HBM, HOP, ISSUE, L2, LAUNCH, RETURN
from astranb.net.link import LINK, cross

from .recording import FLIGHT, RECORDER, note_busy, note_flight

__all__ = ["BREAK", "CONTROL", "OWNERS", "STOPS", "run_events"]

# Why the loop returned.
END: Final = 0
EVENTS: Final = 1
TIME: Final = 2
INSTANTS: Final = 3
INSTRUCTIONS: Final = 4
PHASES: Final = 5
BROKE: Final = 6
DEADLOCK: Final = 7
STOPS: Final = ("end", "events", "time", "instants", "instructions", "phases", "breakpoint", "deadlock")

CONTROL = np.dtype(
    [
        ("until_ps", "i8"),  # handle no event later than this
        ("max_events", "i8"),  # these five count from the start of the run
        ("max_instants", "i8"),
        ("max_instructions", "i8"),
        ("max_phases", "i8"),
        ("breaks", "i8"),  # rows of the breakpoint table in use
        ("hit", "i8"),  # the row that stopped it
    ]
)
"""One row: the limits of one call."""

BREAK = np.dtype(
    [
        ("event", "i8"),  # event kind, or -1 for any
        ("gpu", "i8"),  # objects the event must concern, or -1
        ("sm", "i8"),
        ("block", "i8"),
        ("first_link", "i8"),  # a range of links, or -1
        ("last_link", "i8"),
        ("owner", "i8"),  # condition on a field: which table, or -1 for none
        ("place", "i8"),  # its int64 in that table
        ("relation", "i8"),  # 0 <, 1 <=, 2 ==, 3 !=, 4 >=, 5 >
        ("value", "i8"),
        ("was", "i8"),  # 1: the condition held before (it stops when it begins to hold)
    ]
)
"""One breakpoint, compiled: an event kind on objects, or a condition on a field."""

OWNERS: Final = (
    ("clock", t.CLOCK),
    ("heap", EVENT),
    ("gpus", t.GPU),
    ("sms", t.SM),
    ("slices", t.SERVER),
    ("channels", t.SERVER),
    ("blocks", t.BLOCK),
    ("warps", t.WARP),
    ("jobs", t.JOB),
    ("ops", t.OP),
    ("operands", t.OPERAND),
    ("pieces", t.PIECE),
    ("semaphores", t.SEMAPHORE),
    ("phases", t.PHASE),
    ("ways", t.WAY),
    ("route", np.dtype("i4")),
    ("requests", t.REQUEST),
    ("resident", np.dtype("u1")),
    ("links", LINK),
)
"""Every table of the simulated state, in the order in which the loop takes them."""


@kernel
def run_events(
    control: Records,
    breaks: Records,
    recorder: Records,
    flights: Records,
    activity: Records,
    raw_links: Records,
    raw_gpus: Records,
    raw_sms: Records,
    raw_blocks: Records,
    raw_semaphores: Records,
    clock: Records,
    heap: Records,
    gpus: Records,
    sms: Records,
    slices: Records,
    channels: Records,
    blocks: Records,
    warps: Records,
    jobs: Records,
    ops: Records,
    operands: Records,
    pieces: Records,
    semaphores: Records,
    phases: Records,
    ways: Records,
    route: Records,
    requests: Records,
    resident: Records,
    links: Records,
) -> int:
    """Handle events until a limit is reached; returns one of ``STOPS`` by number."""
    limits = control[0]
    recording = recorder[0].on == 1
    while True:
        if clock[0].queued == 0:
            return END
        if clock[0].events >= limits.max_events:
            return EVENTS
        time_ps = heap[0].time_ps
        if time_ps > limits.until_ps:
            return TIME
        if time_ps != clock[0].now_ps:
            if clock[0].instants >= limits.max_instants:
                return INSTANTS
            clock[0].instants += 1
            clock[0].now_ps = time_ps
        kind = heap[0].kind
        arg = heap[0].arg
        clock[0].queued = pop(heap, clock[0].queued)
        clock[0].events += 1
        clock[0].last_kind = kind
        clock[0].last_arg = arg
        concerned = -1
        if limits.breaks > 0:
            concerned = match_event(breaks, limits.breaks, sms, blocks, warps, route, requests, kind, arg)
        dead = 0
        if kind == HOP:
            link = route[requests[arg].hop]
            returning = requests[arg].returning
            size = requests[arg].back_bytes if returning else requests[arg].out_bytes
            arrival_ps = cross(links, link, time_ps, size)
            clock[0].hops += 1
            requests[arg].link = link
            requests[arg].arrives_ps = arrival_ps
            if recording:
                wire_ps = transfer_ps(size, links[link].bandwidth_Bps)
                start_ps = links[link].free_at_ps - wire_ps
                line = requests[arg].line - operands[requests[arg].operand].line
                what = 2 * requests[arg].kind + returning
                note_flight(
                    recorder,
                    flights,
                    clock[0].events,
                    time_ps,
                    start_ps,
                    arrival_ps,
                    link,
                    what,
                    requests[arg].op,
                    line,
                )
                note_busy(recorder, activity, link, start_ps, wire_ps)
            requests[arg].hop += 1
            if requests[arg].hop < requests[arg].last_hop:
                schedule(clock, heap, arrival_ps + links[link].forward_ps, HOP, arg)
            elif returning:
                schedule(clock, heap, arrival_ps + gpus[requests[arg].gpu].noc_ps, RETURN, arg)
            else:
                schedule(clock, heap, arrival_ps + gpus[requests[arg].target].noc_ps, L2, arg)
        elif kind == RETURN:
            dead = come_back(
                clock, heap, gpus, sms, blocks, warps, jobs, ops, phases, semaphores, requests, arg
            )  # fmt: skip
        elif kind == ISSUE:
            issued = issue(
                clock, heap, gpus, sms, blocks, warps, jobs, ops, operands, phases, ways, requests, arg
            )  # fmt: skip
            if recording and issued == 1:
                gpu = sms[arg].gpu
                note_busy(recorder, activity, len(links) + 3 * gpu, time_ps, gpus[gpu].issue_ps)
        elif kind == L2:
            reach_l2(
                clock, heap, gpus, slices, operands, pieces, ops, semaphores, requests, resident, arg
            )  # fmt: skip
            if recording:
                gpu = requests[arg].target
                server = gpus[gpu].first_slice + spread(requests[arg].line, gpus[gpu].slices)
                start_ps = slices[server].free_at_ps - gpus[gpu].slice_ps
                note_busy(recorder, activity, len(links) + 3 * gpu + 1, start_ps, gpus[gpu].slice_ps)
        elif kind == HBM:
            reach_hbm(clock, heap, gpus, channels, operands, pieces, requests, resident, arg)
            if recording:
                gpu = requests[arg].target
                server = gpus[gpu].first_channel + spread(requests[arg].line, gpus[gpu].channels)
                start_ps = channels[server].free_at_ps - gpus[gpu].channel_ps
                note_busy(recorder, activity, len(links) + 3 * gpu + 2, start_ps, gpus[gpu].channel_ps)
        elif kind == LAUNCH:
            launch(clock, heap, gpus, sms, blocks, warps, ops, phases, arg)
        if dead == 1:
            return DEADLOCK
        if limits.breaks > 0:
            hit = match_fields(
                breaks, limits.breaks, raw_links, raw_gpus, raw_sms, raw_blocks, raw_semaphores
            )  # fmt: skip
            if concerned >= 0 or hit >= 0:
                control[0].hit = concerned if concerned >= 0 else hit
                return BROKE
        if clock[0].instructions >= limits.max_instructions:
            return INSTRUCTIONS
        if clock[0].phases >= limits.max_phases:
            return PHASES


@kernel
def fits(wanted: int, found: int) -> bool:
    """Whether a number is the one wanted, or any will do (-1)."""
    return wanted < 0 or wanted == found


@kernel
def match_event(
    breaks: Records,
    count: int,
    sms: Records,
    blocks: Records,
    warps: Records,
    route: Records,
    requests: Records,
    kind: int,
    arg: int,
) -> int:
    """Find the first breakpoint on an event kind that the event about to be handled matches, or -1."""
    link = -1
    if kind == LAUNCH:
        block = arg
    elif kind == ISSUE:
        block = warps[sms[arg].ready_head].block
    else:
        block = warps[requests[arg].warp].block
        if kind == HOP:
            link = route[requests[arg].hop]
    gpu = requests[arg].target if kind == L2 or kind == HBM else blocks[block].gpu
    sm = blocks[block].sm
    for row in range(count):
        if (
            breaks[row].owner < 0
            and fits(breaks[row].event, kind)
            and fits(breaks[row].gpu, gpu)
            and fits(breaks[row].sm, sm)
            and fits(breaks[row].block, block)
            and (breaks[row].first_link < 0 or breaks[row].first_link <= link <= breaks[row].last_link)
        ):
            return row
    return -1


@kernel
def match_fields(
    breaks: Records,
    count: int,
    raw_links: Records,
    raw_gpus: Records,
    raw_sms: Records,
    raw_blocks: Records,
    raw_semaphores: Records,
) -> int:
    """Look at every condition on a field; returns the first that has begun to hold, or -1."""
    hit = -1
    for row in range(count):
        owner = breaks[row].owner
        if owner < 0:
            continue
        place = breaks[row].place
        if owner == 0:
            found = raw_links[place]
        elif owner == 1:
            found = raw_gpus[place]
        elif owner == 2:
            found = raw_sms[place]
        elif owner == 3:
            found = raw_blocks[place]
        else:
            found = raw_semaphores[place]
        value = breaks[row].value
        relation = breaks[row].relation
        holds = (
            (relation == 0 and found < value)
            or (relation == 1 and found <= value)
            or (relation == 2 and found == value)
            or (relation == 3 and found != value)
            or (relation == 4 and found >= value)
            or (relation == 5 and found > value)
        )
        if holds and breaks[row].was == 0 and hit < 0:
            hit = row
        breaks[row].was = 1 if holds else 0
    return hit


ENTRY = Entry(
    run_events,
    [CONTROL, BREAK, RECORDER, FLIGHT, *[np.dtype("i8")] * 6, *(dtype for _, dtype in OWNERS)],
)
"""The loop as Python calls it."""
