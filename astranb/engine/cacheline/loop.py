"""The event loop: takes the state and limits, returns why it stopped.

One event is handled at a time, in the order of (time, sequence). How a run is cut into
slices or steps never changes what happens: limits are looked at only between events.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.entry import Entry
from astranb.core.handle import handle
from astranb.core.jit import Records, kernel
from astranb.core.queue import EVENT, LATER, SEQUENCES, SLOT, EventQueue, arg_of, kind_of, open_slot, pop
from astranb.gpu import tables as t
from astranb.gpu.block import begin, launch, pass_fence
from astranb.gpu.entrance import come, end_route, offer, pick
from astranb.gpu.flow import release_message, take_cnp
from astranb.gpu.issue import issue
from astranb.gpu.memory import reach_hbm, reach_l2
from astranb.gpu.pause import has_buffer_deadlock, take_frame
from astranb.gpu.response import come_back
from astranb.gpu.switch import at_switch
from astranb.gpu.tables import (
    CNP,
    FAULT,
    FENCE,
    HBM,
    HOP,
    ISSUE,
    L2,
    LAUNCH,
    ON_FABRIC,
    PAUSE,
    RATE_RELEASE,
    RETURN,
    SIGNAL,
    STORE,
    SWITCH,
    WIRE,
    Machine,
)
from astranb.gpu.travel import channel_of, next_link, onward, slice_of
from astranb.gpu.wire import look_again, slot_ps, wire_size
from astranb.net.link import LINK, NEVER, apply_fault, cross, head_ps
from astranb.net.port import QUEUE
from astranb.net.rate import FLOW, ROCE

from .matching import BREAK, Breakpoints, match_event, match_fields
from .recording import (
    BURST,
    CURRENT,
    FLIGHT,
    HBM_ROW,
    ISSUE_ROW,
    L2_ROW,
    RECORDER,
    Recording,
    activity_row,
    burst_of,
    record_burst,
    record_busy,
    record_flight,
    record_writes,
)
from .tracing import TRACE, trace_crossing, trace_event

__all__ = ["CONTROL", "OWNERS", "STOPS", "run_events"]

# Why the loop returned.
END: Final = 0
EVENTS: Final = 1
TIME: Final = 2
TIMESTEPS: Final = 3
INSTRUCTIONS: Final = 4
PHASES: Final = 5
BROKE: Final = 6
DEADLOCK: Final = 7
EXHAUSTED: Final = 8
STOPS: Final = (
    "end",
    "events",
    "time",
    "timesteps",
    "instructions",
    "phases",
    "breakpoint",
    "deadlock",
    "exhausted",
)
DEADLOCK_SEARCH_PS: Final = 20_000_000  # between two searches for buffers that wait for each other
LAST: Final = SEQUENCES - 4096  # more than one event can push

CONTROL = np.dtype(
    [
        ("until_ps", "i8"),  # handle no event later than this
        ("max_events", "i8"),  # these five count from the start of the run
        ("max_timesteps", "i8"),
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
    ("routes", t.ROUTE),
    ("planes", t.PLANE),
    ("route_links", np.dtype("i4")),
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

RAW: Final = ("links", "gpus", "sms", "blocks", "semaphores")
"""Owners whose fields a breakpoint may read: the loop takes them as plain numbers, too."""


@kernel
def handle_events(m: Machine, r: Recording, b: Breakpoints, control: Records) -> int:
    """Handle events until a limit is reached; returns one of ``STOPS`` by number."""
    limits = control[0]
    clock = m.clock[0]
    near = m.event_queue.near
    recording = r.recorder[0].on == 1 and r.recorder[0].paused == 0
    tracing = r.recorder[0].tracing == 1
    landing = r.recorder[0].landing == 1
    managed = clock.managed
    cut_through = clock.cut_through
    while True:
        if clock.queued == 0:
            return END
        if clock.events >= limits.max_events:
            return EVENTS
        if clock.seq >= LAST:
            return EXHAUSTED
        time_ps = near[0].time_ps
        if time_ps > limits.until_ps:
            return TIME
        if time_ps != clock.now_ps:
            if clock.timesteps >= limits.max_timesteps:
                return TIMESTEPS
            clock.timesteps += 1
            clock.now_ps = time_ps
        kind = kind_of(near[0].order)
        arg = arg_of(near[0].order)
        clock.near = pop(near, clock.near)
        clock.queued -= 1
        clock.events += 1
        clock.last_kind = kind
        clock.last_arg = arg
        concerned = -1
        if limits.breaks > 0:
            concerned = match_event(m, b, limits.breaks, kind, arg)
        dead = 0
        entered = -1
        fresh = warp = job = again = -1
        issued = 1
        served_ps = time_ps
        if managed == 1:
            comes = -1  # a request to a queue
            asked = -1  # a link for who is next
            if kind == HOP:
                comes = come(m, arg)
            elif kind == WIRE:
                m.links[arg].awake = 0
                asked = arg
            elif kind == RATE_RELEASE:
                comes = release_message(m, arg)
            elif kind == PAUSE:
                take_frame(m, arg)
            elif kind == CNP:
                take_cnp(m, arg)
            elif kind == L2 or kind == RETURN or kind == SWITCH:
                end_route(m, arg, kind)
            if comes >= 0:
                asked = offer(m, comes)
            if asked >= 0:
                entered = pick(m, asked)
        elif kind == HOP:
            entered = arg
        if entered >= 0:
            link = next_link(m.route_links, m.requests, m.details, entered)
            returning = 1 if m.requests[entered].returning else 0
            what = m.requests[entered].kind
            size = wire_size(m.gpus, m.requests, entered)
            came_ps = m.details[entered].offered_ps if managed == 1 else time_ps
            tail_in_ps = m.requests[entered].arrives_ps if cut_through == 1 else time_ps
            gap_ps = m.links[link].gap_ps
            if gap_ps > 0:
                gap_ps = slot_ps(m, entered, gap_ps)
            tail_ps = cross(m.links, link, time_ps, size, tail_in_ps, gap_ps)
            m.requests[entered].arrives_ps = tail_ps
            clock.hops += 1
            if m.requests[entered].leg == ON_FABRIC:
                m.requests[entered].link = link
                if recording and tail_ps < NEVER:
                    start_ps = tail_ps - m.links[link].latency_ps - m.links[link].wire_ps
                    line = m.requests[entered].line - m.operands[m.requests[entered].operand].line
                    record_flight(
                        r,
                        clock.events,
                        came_ps,
                        start_ps,
                        tail_ps,
                        link,
                        2 * what + returning,
                        m.requests[entered].op,
                        line,
                        m.links[link].wire_ps,
                        size,
                    )
                    record_busy(r, link, start_ps, m.links[link].wire_ps)
            ahead_ps = tail_ps
            if cut_through == 1:
                ahead_ps = head_ps(m.links, link, tail_ps, m.gpus[m.requests[entered].gpu].header_bytes)
            if tracing:
                sent_ps = ahead_ps - m.links[link].latency_ps
                start_ps = tail_ps - m.links[link].latency_ps - m.links[link].wire_ps
                trace_crossing(m, r, entered, link, came_ps, start_ps, sent_ps, ahead_ps)
            onward(m, entered, link, ahead_ps, tail_ps)
            if managed == 1:
                m.links[link].queued_ps += time_ps - came_ps
                look_again(m, link)
        elif kind == RETURN:
            dead = come_back(m, arg)
            if managed == 1 and dead == 0 and time_ps >= clock.deadlock_search_ps:
                clock.deadlock_search_ps = time_ps + DEADLOCK_SEARCH_PS
                dead = 1 if has_buffer_deadlock(m) else 0
        elif kind == ISSUE:
            if tracing:
                fresh = clock.free_request
                warp = m.sms[arg].ready_head
                job = m.warps[warp].ready_head
                again = m.warps[warp].retry_head
            burst = burst_of(m, arg) if recording else -1
            issued = issue(m, arg)
            if recording and issued == 1:
                record_burst(m, r, arg, burst)
                if m.sms[arg].engine == 0:
                    row = activity_row(r, m.sms[arg].gpu, ISSUE_ROW)
                    record_busy(r, row, time_ps, m.sms[arg].next_issue_ps - time_ps)
        elif kind == L2:
            if tracing:
                gpu = m.requests[arg].target
                server = m.gpus[gpu].first_slice + slice_of(m.gpus, gpu, m.requests[arg].line)
                served_ps = max(time_ps, m.slices[server].free_at_ps)
            reach_l2(m, arg)
            if landing and m.requests[arg].kind == STORE:
                record_writes(m, r, arg)
            if recording:
                gpu = m.requests[arg].target
                server = m.gpus[gpu].first_slice + slice_of(m.gpus, gpu, m.requests[arg].line)
                busy_ps = m.gpus[gpu].slice_ps
                if m.requests[arg].kind == SIGNAL:
                    busy_ps += m.gpus[gpu].atomic_ps
                row = activity_row(r, gpu, L2_ROW)
                record_busy(r, row, m.slices[server].free_at_ps - busy_ps, busy_ps)
        elif kind == HBM:
            if tracing:
                gpu = m.requests[arg].target
                server = m.gpus[gpu].first_channel + channel_of(m.gpus, gpu, m.requests[arg].line)
                served_ps = max(time_ps, m.channels[server].free_at_ps)
            reach_hbm(m, arg)
            if recording:
                gpu = m.requests[arg].target
                server = m.gpus[gpu].first_channel + channel_of(m.gpus, gpu, m.requests[arg].line)
                start_ps = m.channels[server].free_at_ps - m.gpus[gpu].channel_ps
                row = activity_row(r, gpu, HBM_ROW)
                record_busy(r, row, start_ps, m.gpus[gpu].channel_ps)
        elif kind == SWITCH:
            at_switch(m, arg)
        elif kind == FENCE:
            pass_fence(m, arg)
        elif kind == LAUNCH:
            launch(m, arg)
        elif kind == FAULT:
            apply_fault(m.links, m.faults, arg, time_ps)
        if tracing and entered < 0:
            trace_event(m, r, kind, arg, warp, job, again, fresh, issued, served_ps)
        if clock.resumes >= 0:
            block = clock.resumes
            clock.resumes = -1
            begin(m, block)
        if clock.near == 0 and clock.queued > 0:
            open_slot(m.event_queue, m.requests, m.details)
        if dead == 1:
            return DEADLOCK
        if limits.breaks > 0:
            hit = match_fields(b, limits.breaks)
            if concerned >= 0 or hit >= 0:
                control[0].hit = concerned if concerned >= 0 else hit
                return BROKE
        if clock.instructions >= limits.max_instructions:
            return INSTRUCTIONS
        if clock.phases >= limits.max_phases:
            return PHASES


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
    routes: Records,
    planes: Records,
    route_links: Records,
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
    """Handle events: :func:`handle_events` with tables as Python hands them over."""
    m = handle(
        Machine(
            clock,
            EventQueue(clock, near, later, slots, far),
            gpus,
            sms,
            slices,
            channels,
            blocks,
            warps,
            jobs,
            ops,
            operands,
            pieces,
            semaphores,
            phases,
            routes,
            planes,
            route_links,
            requests,
            details,
            tags,
            present,
            flags,
            faults,
            queues,
            roce,
            flows,
            links,
        )
    )
    r = handle(Recording(recorder, flights, activity, trace, bursts, current, landed, places))
    b = handle(Breakpoints(breaks, raw_links, raw_gpus, raw_sms, raw_blocks, raw_semaphores))
    return handle_events(m, r, b, control)


ENTRY = Entry(
    run_events,
    [
        *(CONTROL, BREAK, RECORDER, FLIGHT, np.dtype("i8"), TRACE, BURST, CURRENT, np.dtype("i4")),
        *[np.dtype("i8")] * 6,
        *(dtype for _, dtype in OWNERS),
    ],
)
"""The loop as Python calls it."""
