"""The event loop: takes the state and limits, returns why it stopped.

One event is handled at a time, in the order of (time, sequence). How a run is cut into
slices or steps never changes what happens: limits are looked at only between events.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.entry import Entry
from astranb.core.jit import Records, kernel
from astranb.core.queue import EVENT, LATER, SEQUENCES, SLOT, Agenda, arg_of, kind_of, open_slot, pop
from astranb.gpu import tables as t
from astranb.gpu.block import begin, launch, pass_fence
from astranb.gpu.entrance import come, end_way, offer, pick
from astranb.gpu.flow import let_in, take_notice
from astranb.gpu.issue import issue
from astranb.gpu.memory import reach_hbm, reach_l2
from astranb.gpu.pause import jammed, take_frame
from astranb.gpu.response import come_back
from astranb.gpu.switch import at_switch
from astranb.gpu.tables import (
    FAULT,
    FENCE,
    HBM,
    HOP,
    ISSUE,
    L2,
    LAUNCH,
    NOTICE,
    ON_FABRIC,
    PACE,
    PAUSE,
    RETURN,
    SIGNAL,
    STORE,
    SWITCH,
    WIRE,
)
from astranb.gpu.travel import channel_of, next_link, onward, slice_of
from astranb.gpu.wire import look_again, slot_ps, wire_size
from astranb.net.link import LINK, NEVER, cross, head_ps, strike
from astranb.net.port import QUEUE
from astranb.net.rate import FLOW, ROCE

from .matching import BREAK, match_event, match_fields
from .recording import (
    BURST,
    CURRENT,
    FLIGHT,
    RECORDER,
    burst_of,
    note_burst,
    note_busy,
    note_flight,
    note_lines,
)
from .tracing import TRACE, note_crossing, note_event

__all__ = ["CONTROL", "OWNERS", "STOPS", "run_events"]

# Why the loop returned.
END: Final = 0
EVENTS: Final = 1
TIME: Final = 2
INSTANTS: Final = 3
INSTRUCTIONS: Final = 4
PHASES: Final = 5
BROKE: Final = 6
DEADLOCK: Final = 7
EXHAUSTED: Final = 8
STOPS: Final = (
    "end", "events", "time", "instants", "instructions", "phases", "breakpoint", "deadlock", "exhausted",
)  # fmt: skip
JAM_PS: Final = 20_000_000  # between two searches for buffers that wait for each other
LAST: Final = SEQUENCES - 4096  # more than one event can push

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

OWNERS: Final = (
    ("clock", t.CLOCK),
    ("near", EVENT),
    ("later", LATER),
    ("slots", SLOT),
    ("far", EVENT),
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
    ("planes", t.PLANE),
    ("route", np.dtype("i4")),
    ("requests", t.REQUEST),
    ("details", t.DETAIL),
    ("tags", np.dtype("i4")),
    ("present", np.dtype("u1")),
    ("flags", np.dtype("u1")),
    ("faults", t.FAULT_ROW),
    ("queues", QUEUE),
    ("roce", ROCE),
    ("flows", FLOW),
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
    trace: Records,
    bursts: Records,
    current: Records,
    landed: Records,
    places: Records,
    raw_links: Records,
    raw_gpus: Records,
    raw_sms: Records,
    raw_blocks: Records,
    raw_semaphores: Records,
    clock: Records,
    near: Records,
    later: Records,
    slots: Records,
    far: Records,
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
    planes: Records,
    route: Records,
    requests: Records,
    details: Records,
    tags: Records,
    present: Records,
    flags: Records,
    faults: Records,
    queues: Records,
    roce: Records,
    flows: Records,
    links: Records,
) -> int:
    """Handle events until a limit is reached; returns one of ``STOPS`` by number."""
    limits = control[0]
    recording = recorder[0].on == 1 and recorder[0].paused == 0
    tracing = recorder[0].tracing == 1
    landing = recorder[0].landing == 1
    managed = clock[0].managed
    cut_through = clock[0].cut_through
    agenda = Agenda(near, later, slots, far)
    while True:
        if clock[0].queued == 0:
            return END
        if clock[0].events >= limits.max_events:
            return EVENTS
        if clock[0].seq >= LAST:
            return EXHAUSTED
        time_ps = near[0].time_ps
        if time_ps > limits.until_ps:
            return TIME
        if time_ps != clock[0].now_ps:
            if clock[0].instants >= limits.max_instants:
                return INSTANTS
            clock[0].instants += 1
            clock[0].now_ps = time_ps
        kind = kind_of(near[0].order)
        arg = arg_of(near[0].order)
        clock[0].near = pop(near, clock[0].near)
        clock[0].queued -= 1
        clock[0].events += 1
        clock[0].last_kind = kind
        clock[0].last_arg = arg
        concerned = -1
        if limits.breaks > 0:
            concerned = match_event(
                breaks, limits.breaks, sms, blocks, warps, route, requests, details, faults, flows, kind,
                arg,
            )  # fmt: skip
        dead = 0
        entered = -1
        fresh = warp = job = again = -1
        issued = 1
        served_ps = time_ps
        if managed == 1:
            comes = -1  # a request to a queue
            asked = -1  # a link for who is next
            if kind == HOP:
                comes = come(
                    clock, agenda, gpus, roce, flows, ways, route, links, queues, requests, details, arg
                )  # fmt: skip
            elif kind == WIRE:
                links[arg].awake = 0
                asked = arg
            elif kind == PACE:
                comes = let_in(clock, agenda, gpus, roce, flows, links, requests, arg)
            elif kind == PAUSE:
                take_frame(clock, agenda, roce, links, queues, arg)
            elif kind == NOTICE:
                take_notice(clock, roce, flows, links, arg)
            elif kind == L2 or kind == RETURN or kind == SWITCH:
                end_way(
                    clock, agenda, roce, flows, ways, route, links, queues, requests, details, arg, kind
                )  # fmt: skip
            if comes >= 0:
                asked = offer(clock, gpus, roce, route, links, queues, requests, details, comes)
            if asked >= 0:
                entered = pick(clock, agenda, gpus, roce, links, queues, requests, details, asked)
        elif kind == HOP:
            entered = arg
        if entered >= 0:
            link = next_link(route, requests, details, entered)
            returning = 1 if requests[entered].returning else 0
            what = requests[entered].kind
            size = wire_size(gpus, requests, entered)
            came_ps = details[entered].offered_ps if managed == 1 else time_ps
            tail_in_ps = requests[entered].arrives_ps if cut_through == 1 else time_ps
            gap_ps = links[link].gap_ps
            if gap_ps > 0:
                gap_ps = slot_ps(gpus, ops, operands, requests, entered, gap_ps)
            tail_ps = cross(links, link, time_ps, size, tail_in_ps, gap_ps)
            requests[entered].arrives_ps = tail_ps
            clock[0].hops += 1
            if requests[entered].leg == ON_FABRIC:
                requests[entered].link = link
                if recording and tail_ps < NEVER:
                    start_ps = tail_ps - links[link].latency_ps - links[link].wire_ps
                    line = requests[entered].line - operands[requests[entered].operand].line
                    note_flight(
                        recorder,
                        flights,
                        clock[0].events,
                        came_ps,
                        start_ps,
                        tail_ps,
                        link,
                        2 * what + returning,
                        requests[entered].op,
                        line,
                        links[link].wire_ps,
                        size,
                    )
                    note_busy(recorder, activity, link, start_ps, links[link].wire_ps)
            ahead_ps = tail_ps
            if cut_through == 1:
                ahead_ps = head_ps(links, link, tail_ps, gpus[requests[entered].gpu].header_bytes)
            if tracing:
                sent_ps = ahead_ps - links[link].latency_ps
                start_ps = tail_ps - links[link].latency_ps - links[link].wire_ps
                note_crossing(
                    recorder, trace, clock, warps, requests, details, entered, link, came_ps, start_ps,
                    sent_ps, ahead_ps,
                )  # fmt: skip
            onward(
                clock, agenda, gpus, blocks, warps, links, ways, requests, details, entered, link,
                ahead_ps, tail_ps,
            )  # fmt: skip
            if managed == 1:
                links[link].queued_ps += time_ps - came_ps
                look_again(clock, agenda, links, queues, link)
        elif kind == RETURN:
            dead = come_back(
                clock, agenda, sms, blocks, warps, jobs, ops, operands, flags, phases, semaphores, requests,
                details, arg,
            )  # fmt: skip
            if managed == 1 and dead == 0 and time_ps >= clock[0].jam_ps:
                clock[0].jam_ps = time_ps + JAM_PS
                dead = 1 if jammed(roce, queues, requests, details) else 0
        elif kind == ISSUE:
            if tracing:
                fresh = clock[0].free_request
                warp = sms[arg].ready_head
                job = warps[warp].ready_head
                again = warps[warp].retry_head
            burst = burst_of(sms, blocks, warps, ops, arg) if recording else -1
            issued = issue(
                clock, agenda, gpus, sms, blocks, warps, jobs, ops, operands, phases, links, ways, route,
                planes, requests, details, arg,
            )  # fmt: skip
            if recording and issued == 1:
                note_burst(recorder, bursts, current, sms, arg, burst, time_ps)
                if sms[arg].engine == 0:
                    row = recorder[0].links + 3 * sms[arg].gpu
                    note_busy(recorder, activity, row, time_ps, sms[arg].next_issue_ps - time_ps)
        elif kind == L2:
            if tracing:
                gpu = requests[arg].target
                server = gpus[gpu].first_slice + slice_of(gpus, gpu, requests[arg].line)
                served_ps = max(time_ps, slices[server].free_at_ps)
            reach_l2(
                clock, agenda, gpus, slices, channels, tags, present, flags, blocks, warps, operands, pieces,
                ops, semaphores, links, ways, route, planes, requests, details, arg,
            )  # fmt: skip
            if landing and requests[arg].kind == STORE:
                note_lines(
                    landed, places, pieces, operands, requests, details[arg].span if clock[0].detailed else 1,
                    arg,
                )  # fmt: skip
            if recording:
                gpu = requests[arg].target
                server = gpus[gpu].first_slice + slice_of(gpus, gpu, requests[arg].line)
                busy_ps = gpus[gpu].slice_ps
                if requests[arg].kind == SIGNAL:
                    busy_ps += gpus[gpu].atomic_ps
                row = recorder[0].links + 3 * gpu + 1
                note_busy(recorder, activity, row, slices[server].free_at_ps - busy_ps, busy_ps)
        elif kind == HBM:
            if tracing:
                gpu = requests[arg].target
                server = gpus[gpu].first_channel + channel_of(gpus, gpu, requests[arg].line)
                served_ps = max(time_ps, channels[server].free_at_ps)
            reach_hbm(
                clock, agenda, gpus, channels, tags, present, flags, blocks, warps, operands, pieces, links,
                ways, route, planes, requests, details, arg,
            )  # fmt: skip
            if recording:
                gpu = requests[arg].target
                server = gpus[gpu].first_channel + channel_of(gpus, gpu, requests[arg].line)
                start_ps = channels[server].free_at_ps - gpus[gpu].channel_ps
                row = recorder[0].links + 3 * gpu + 2
                note_busy(recorder, activity, row, start_ps, gpus[gpu].channel_ps)
        elif kind == SWITCH:
            at_switch(clock, agenda, gpus, operands, ops, ways, planes, requests, details, arg)
        elif kind == FENCE:
            pass_fence(clock, blocks, arg)
        elif kind == LAUNCH:
            launch(clock, sms, blocks, arg)
        elif kind == FAULT:
            strike(links, faults, arg, time_ps)
        if tracing and entered < 0:
            note_event(
                recorder, trace, clock, blocks, warps, ops, semaphores, requests, details, kind, arg, warp,
                job, again, fresh, issued, served_ps,
            )  # fmt: skip
        if clock[0].resumes >= 0:
            block = clock[0].resumes
            clock[0].resumes = -1
            begin(clock, agenda, gpus, sms, blocks, warps, ops, phases, block)
        if clock[0].near == 0 and clock[0].queued > 0:
            open_slot(clock, agenda, requests, details)
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


ENTRY = Entry(
    run_events,
    [
        *(CONTROL, BREAK, RECORDER, FLIGHT, np.dtype("i8"), TRACE, BURST, CURRENT, np.dtype("i4")),
        *[np.dtype("i8")] * 6,
        *(dtype for _, dtype in OWNERS),
    ],
)
"""The loop as Python calls it."""
