"""The event loop: takes the state and limits, returns why it stopped.

One event is handled at a time, in the order of (time, sequence). How a run is cut into
slices or steps never changes what happens: limits are looked at only between events.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from astranb.core.entry import Entry
from astranb.core.handle import handle
from astranb.core.jit import Records, kernel
from astranb.core.queue import EVENT, LATER, SEQUENCES, SLOT, EventQueue, arg_of, kind_of, open_slot, pop
from astranb.engine.conditions import check_conditions
from astranb.engine.stops import BREAK, DEADLOCK, ENDED, EXHAUSTED, REACHED, STEPS, TIME
from astranb.gpu import (
    at_switch,
    begin,
    channel_of,
    come,
    come_back,
    end_route,
    has_buffer_deadlock,
    issue,
    launch,
    least_wire_ps,
    leave,
    look_again,
    next_link,
    offer,
    onward,
    pass_fence,
    pick,
    reach_hbm,
    reach_l2,
    release_message,
    slice_of,
    take_cnp,
    take_frame,
    wire_size,
)
from astranb.gpu import tables as t
from astranb.gpu.tables import Machine
from astranb.net import FLOW, LINK, NEVER, QUEUE, ROCE, apply_fault, cross, head_ps

from .matching import POINT, match_event
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

__all__ = ["CONTROL", "OWNERS", "RAW", "run_events"]

DEADLOCK_SEARCH_PS: Final = 20_000_000  # between two searches for buffers that wait for each other
LAST: Final = SEQUENCES - 4096  # more than one event can push

CONTROL = np.dtype(
    [
        ("until_ps", "i8"),  # handle no event later than this
        ("max_events", "i8"),  # these count from the start of the run
        ("max_timesteps", "i8"),
        ("counted", "i8"),  # 1: one of these is a limit
        ("max_instructions", "i8"),
        ("max_hops", "i8"),
        ("max_lines", "i8"),
        ("max_messages", "i8"),
        ("max_phases", "i8"),
        ("breaks", "i8"),  # rows of the breakpoint table in use
        ("hit", "i8"),  # the row that stopped it
    ]
)
"""One row: the limits of one call."""

_DTYPES: Final[dict[str, Any]] = dict(  # noqa: C408 - reads as the machine's fields
    clock=t.CLOCK,
    event_queue=EventQueue._make((t.CLOCK, EVENT, LATER, SLOT, EVENT)),
    gpus=t.GPU,
    sms=t.SM,
    l2_slices=t.SERVER,
    hbm_channels=t.SERVER,
    blocks=t.BLOCK,
    warps=t.WARP,
    jobs=t.JOB,
    ops=t.OP,
    tiles=t.TILE_WORK,
    operands=t.OPERAND,
    slices=t.SLICE,
    semaphores=t.SEMAPHORE,
    phases=t.PHASE,
    routes=t.ROUTE,
    planes=t.PLANE,
    route_links=np.dtype("i4"),
    requests=t.REQUEST,
    details=t.DETAIL,
    tags=np.dtype("i4"),
    present=np.dtype("u1"),
    flags=np.dtype("u1"),
    faults=t.FAULT_ROW,
    queues=QUEUE,
    roce=ROCE,
    flows=FLOW,
    links=LINK,
)
DTYPES: Final = Machine(**_DTYPES)
"""The dtypes of the simulated state."""

OWNERS: Final = {**DTYPES.event_queue._asdict(), **dict(zip(DTYPES._fields[2:], DTYPES[2:], strict=True))}
"""The dtype of every table of the simulated state by name, in the order of the state's hash."""

RAW: Final = (
    "links", "gpus", "sms", "blocks", "l2_slices", "hbm_channels", "semaphores", "queues", "phases",
)  # fmt: skip
"""Tables whose fields a condition may read: the loop also takes them as plain numbers."""


@kernel
def run_events(
    control: Records, breaks: Records, raw: tuple[Records, ...], recording: Recording, machine: Machine
) -> int:
    """Handle events until a limit is reached; returns why it stopped (``engine/stops.py``)."""
    m = handle(machine)
    r = handle(recording)
    limits = control[0]
    clock = m.clock[0]
    near = m.event_queue.near
    recorded = r.recorder[0].on == 1 and r.recorder[0].paused == 0
    tracing = r.recorder[0].tracing == 1
    landing = r.recorder[0].landing == 1
    managed = clock.managed
    cut_through = clock.cut_through
    while True:
        if clock.queued == 0:  # roles may wait for a semaphore that nobody raises, without a poll
            return ENDED if clock.done == len(m.blocks) else DEADLOCK
        if clock.events >= limits.max_events:
            return STEPS
        if clock.seq >= LAST:
            return EXHAUSTED
        time_ps = near[0].time_ps
        if time_ps > limits.until_ps:
            return TIME
        if time_ps != clock.now_ps:
            if clock.timesteps >= limits.max_timesteps:
                return REACHED
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
            concerned = match_event(m, breaks, limits.breaks, kind, arg)
        dead = 0
        entered = -1
        fresh = warp = job = again = -1
        issued = 1
        served_ps = time_ps
        if managed == 1:
            comes = -1  # a request to a queue
            asked = -1  # a link for who is next
            if kind == t.HOP:
                comes = come(m, arg)
            elif kind == t.WIRE:
                m.links[arg].awake = 0
                asked = arg
            elif kind == t.RATE_RELEASE:
                comes = release_message(m, arg)
            elif kind == t.PAUSE:
                take_frame(m, arg)
            elif kind == t.CNP:
                take_cnp(m, arg)
            elif kind == t.L2 or kind == t.RETURN or kind == t.SWITCH:
                end_route(m, arg, kind)
            if comes >= 0:
                asked = offer(m, comes)
            if asked >= 0:
                entered = pick(m, asked)
        elif kind == t.HOP:
            entered = arg
        if entered >= 0:
            link = next_link(m.route_links, m.requests, m.details, entered)
            returning = 1 if m.requests[entered].returning else 0
            what = m.requests[entered].kind
            size = wire_size(m.gpus, m.requests, entered)
            came_ps = m.details[entered].offered_ps if managed == 1 else time_ps
            tail_in_ps = m.requests[entered].arrives_ps if cut_through == 1 else time_ps
            least_ps = least_wire_ps(m, entered, link, size)
            tail_ps = cross(m.links, link, time_ps, size, tail_in_ps, least_ps)
            m.requests[entered].arrives_ps = tail_ps
            clock.hops += 1
            if m.requests[entered].leg == t.ON_FABRIC:
                m.requests[entered].link = link
                if recorded and tail_ps < NEVER:
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
        elif kind == t.RETURN:
            if m.requests[arg].kind == t.LOAD and m.requests[arg].returning == 1:
                clock.lines += crosses(m.requests, arg)
            dead = come_back(m, arg)
            if managed == 1 and dead == 0 and time_ps >= clock.deadlock_search_ps:
                clock.deadlock_search_ps = time_ps + DEADLOCK_SEARCH_PS
                dead = 1 if has_buffer_deadlock(m) else 0
        elif kind == t.ISSUE:
            if tracing:
                fresh = clock.free_request
                warp = m.sms[arg].ready_head
                job = m.warps[warp].ready_head
                again = m.warps[warp].retry_head
            burst = burst_of(m, arg) if recorded else -1
            issued = issue(m, arg)
            if recorded and issued == 1:
                record_burst(m, r, arg, burst)
                if m.sms[arg].engine == 0:
                    row = activity_row(r, m.sms[arg].gpu, ISSUE_ROW)
                    record_busy(r, row, time_ps, m.sms[arg].next_issue_ps - time_ps)
        elif kind == t.L2:
            if tracing:
                gpu = m.requests[arg].target
                server = m.gpus[gpu].first_l2_slice + slice_of(m.gpus, gpu, m.requests[arg].line)
                served_ps = max(time_ps, m.l2_slices[server].free_at_ps)
            if m.requests[arg].kind == t.STORE:
                clock.lines += crosses(m.requests, arg)
            reach_l2(m, arg)
            if landing and m.requests[arg].kind == t.STORE:
                record_writes(m, r, arg)
            if recorded:
                gpu = m.requests[arg].target
                server = m.gpus[gpu].first_l2_slice + slice_of(m.gpus, gpu, m.requests[arg].line)
                busy_ps = m.gpus[gpu].slice_ps
                if m.requests[arg].kind == t.SIGNAL:
                    busy_ps += m.gpus[gpu].atomic_ps
                row = activity_row(r, gpu, L2_ROW)
                record_busy(r, row, m.l2_slices[server].free_at_ps - busy_ps, busy_ps)
        elif kind == t.HBM:
            if tracing:
                gpu = m.requests[arg].target
                server = m.gpus[gpu].first_hbm_channel + channel_of(m.gpus, gpu, m.requests[arg].line)
                served_ps = max(time_ps, m.hbm_channels[server].free_at_ps)
            reach_hbm(m, arg)
            if recorded:
                gpu = m.requests[arg].target
                server = m.gpus[gpu].first_hbm_channel + channel_of(m.gpus, gpu, m.requests[arg].line)
                start_ps = m.hbm_channels[server].free_at_ps - m.gpus[gpu].channel_ps
                row = activity_row(r, gpu, HBM_ROW)
                record_busy(r, row, start_ps, m.gpus[gpu].channel_ps)
        elif kind == t.SWITCH:
            at_switch(m, arg)
        elif kind == t.FENCE:
            pass_fence(m, arg)
        elif kind == t.LAUNCH:
            launch(m, arg)
        elif kind == t.POST:
            fresh = clock.free_request
            again = leave(m, arg)
        elif kind == t.FAULT:
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
            hit = check_conditions(breaks, limits.breaks, raw)
            if concerned >= 0 or hit >= 0:
                control[0].hit = concerned if concerned >= 0 else hit
                return BREAK
        if limits.counted == 1:
            if clock.instructions >= limits.max_instructions or clock.hops >= limits.max_hops:
                return REACHED
            if clock.lines >= limits.max_lines or clock.messages >= limits.max_messages:
                return REACHED
            if clock.phases >= limits.max_phases:
                return REACHED


@kernel
def crosses(requests: Records, request: int) -> int:
    """1 if a request is about the memory of another GPU, else 0."""
    return 1 if requests[request].gpu != requests[request].target else 0


ENTRY = Entry(
    run_events,
    [
        CONTROL,
        POINT,
        (np.dtype("i8"),) * len(RAW),
        Recording._make(
            (RECORDER, FLIGHT, np.dtype("i8"), TRACE, BURST, CURRENT, np.dtype("i4"), np.dtype("i8"))
        ),
        DTYPES,
    ],
)
"""The loop as Python calls it."""
