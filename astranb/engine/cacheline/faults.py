"""Links that are down: messages wait until the link is up again, or the run cannot continue.

The wire of a link that is down is free at ``NEVER``, so that messages that enter it wait there
without another rule. What entered it before still arrives: taking a link down and bringing it up
again is the same as a :class:`~astranb.net.Fault` from the one time to the other.
"""

from __future__ import annotations

import numpy as np

from astranb.core.plural import plural
from astranb.core.queue import ARGUMENTS, live, refill
from astranb.core.units import format_time
from astranb.gpu import tables as t
from astranb.gpu import wire_size
from astranb.net import CLASSES, NEVER, Fabric

from .machine import CacheLineMachine
from .recording import record_busy, record_flight

__all__ = [
    "LAST_PS", "any_down", "bring_up", "entered",
    "events_of", "explain_stranded", "is_down", "queued_ps", "starts_of", "stranded",
    "take_down", "waiting_at",
]  # fmt: skip

LAST_PS = NEVER - 1
"""No event is handled later than this."""

_OF_A_REQUEST = (t.HOP, t.L2, t.HBM, t.RETURN, t.SWITCH)
_MOST_NAMED = 3


def is_down(machine: CacheLineMachine, link: int) -> bool:
    """Return whether a link is down."""
    return bool(machine.links["free_at_ps"][link] >= NEVER)


def any_down(machine: CacheLineMachine) -> bool:
    """Return whether any link is down."""
    return bool((machine.links["free_at_ps"] >= NEVER).any())


def events_of(machine: CacheLineMachine) -> list[tuple[int, int, int]]:
    """The events to come in their order: time in ps, kind and argument of each."""
    found = live(machine.event_queue)
    return [(when, *divmod(what, ARGUMENTS)) for when, what in found.tolist()]


def take_down(machine: CacheLineMachine, links: tuple[int, ...]) -> None:
    """Take links down: messages that enter them from now on wait."""
    now = max(0, int(machine.clock[0].now_ps))
    for link in links:
        row = machine.links[link]
        if row.free_at_ps < NEVER:
            row.resumes_ps = max(now, int(row.free_at_ps))
            row.free_at_ps = NEVER


def bring_up(machine: CacheLineMachine, links: tuple[int, ...], at_ps: int) -> None:
    """Bring links up: waiting messages are sent in the order in which they arrived.

    Parameters
    ----------
    machine : CacheLineMachine
    links : tuple of int
    at_ps : int
        When: now, or later where nothing that matters happens until then.
    """
    now = max(0, at_ps, int(machine.clock[0].now_ps))
    events = events_of(machine)
    for link in links:
        row = machine.links[link]
        if row.free_at_ps < NEVER:
            continue
        starts_ps = max(now, int(row.resumes_ps))
        earlier_ps = NEVER - starts_ps
        waiting = entered(machine, link)
        mine = set(waiting.tolist())
        events = [
            (
                when - earlier_ps if when >= NEVER and _about(kind, arg, link, mine) else when,
                kind,
                arg,
            )
            for when, kind, arg in events
        ]
        row.free_at_ps -= earlier_ps
        row.resumes_ps = 0
        row.queued_ps += starts_ps * len(waiting)
        machine.requests["arrives_ps"][waiting] -= earlier_ps
        _record_waited(machine, link, waiting, starts_ps)
    events.sort(key=lambda event: event[0])
    refill(machine.event_queue, events)


def _about(kind: int, arg: int, link: int, waiting: set[int]) -> bool:
    """Return whether an event is delayed by a link that is down."""
    return arg in waiting if kind in _OF_A_REQUEST else kind == t.WIRE and arg == link


def entered(machine: CacheLineMachine, link: int) -> np.ndarray:
    """Requests that have entered a link that is down, in their order; none where links have queues."""
    requests = machine.requests
    held = np.flatnonzero(
        (requests["live"] == 1) & (requests["link"] == link) & (requests["arrives_ps"] >= NEVER)
    )
    return held[np.argsort(requests["arrives_ps"][held], kind="stable")]


def starts_of(machine: CacheLineMachine, link: int, waiting: np.ndarray, first_ps: int) -> np.ndarray:
    """Return start times of messages that have entered a link: each starts when the previous one ends."""
    ends = machine.requests["arrives_ps"][waiting].astype(np.int64) - int(machine.links[link].latency_ps)
    return np.append(first_ps, ends)[: len(ends)]


def _record_waited(machine: CacheLineMachine, link: int, waiting: np.ndarray, first_ps: int) -> None:
    """Record the flights of waiting messages, which were not recorded when they entered the link."""
    if not machine.recording.recorder[0].on:
        return
    starts = starts_of(machine, link, waiting, first_ps).tolist()
    ends = [*starts[1:], int(machine.links[link].free_at_ps)]
    for number, start, end in zip(waiting.tolist(), starts, ends, strict=False):
        request = machine.requests[number]
        record_flight(
            machine.recording, int(machine.clock[0].events), start, start,
            int(request.arrives_ps), link, 2 * int(request.kind) + (1 if request.returning else 0),
            int(request.op), int(request.line) - int(machine.operands[int(request.operand)].line),
            max(0, end - start), wire_size(machine.gpus, machine.requests, number),
        )  # fmt: skip
        record_busy(machine.recording, link, start, max(0, end - start))


def waiting_at(machine: CacheLineMachine, link: int) -> np.ndarray:
    """Requests that wait for a link that is down, in it or in its queues."""
    found = entered(machine, link).tolist()
    if machine.clock[0].managed:
        for queue in range(link * CLASSES, (link + 1) * CLASSES):
            found += machine.waiting(queue)
    return np.array(found, np.int64)


def queued_ps(machine: CacheLineMachine, now_ps: int) -> np.ndarray:
    """Time that messages have waited for each link, those before links that are down up to now."""
    queued = machine.links["queued_ps"].astype(np.int64)
    for link in np.flatnonzero(machine.links["free_at_ps"] >= NEVER):
        taken = entered(machine, int(link))
        # Each has counted as if the wire began at 0 (``net/link.py: cross``).
        begins = starts_of(machine, int(link), taken, NEVER) - NEVER
        queued[link] += now_ps * len(taken) - int(begins.sum())
    return queued


def stranded(machine: CacheLineMachine) -> bool:
    """Return whether only polls that find nothing can still happen, because links are down.

    Every event to come is checked: one that is not delayed by a link that is down, and does not
    read what has been read before, may still change something.
    """
    near = machine.event_queue.near[0].time_ps
    if not machine.clock[0].queued or near >= NEVER:
        return bool(machine.clock[0].queued)
    requests, operands, flags = machine.requests, machine.operands, machine.flags
    events = live(machine.event_queue)
    events = events[events[:, 0] < NEVER]
    kinds, args = events[:, 1] // ARGUMENTS, events[:, 1] % ARGUMENTS
    if np.isin(kinds, (t.LAUNCH, t.FENCE, t.POST, t.RATE_RELEASE, t.CNP, t.PAUSE)).any():
        return False
    travelling = args[np.isin(kinds, _OF_A_REQUEST)]
    others = travelling[requests["kind"][travelling] != t.POLL]
    flag = operands["flag"][requests["operand"][others]]
    if (requests["kind"][others] != t.LOAD).any() or (flag < 0).any():
        return False
    if len(others) and flags[flag + machine.details["index"][others]].any():
        return False
    if any(_moves(machine, int(link)) for link in args[kinds == t.WIRE]):
        return False
    return not any(_issues(machine, int(sm)) for sm in args[kinds == t.ISSUE]) and _hopeless(machine)


def _moves(machine: CacheLineMachine, link: int) -> bool:
    """Return whether anything but a poll waits for a link that is about to send."""
    held = waiting_at(machine, link)
    return bool((machine.requests["kind"][held] != t.POLL).any())


def _issues(machine: CacheLineMachine, sm: int) -> bool:
    """Return whether an SM that is about to issue has anything to issue but polls."""
    warp = int(machine.sms[sm].ready_head)
    while warp >= 0:
        row = machine.warps[warp]
        block = machine.blocks[int(row.block)]
        if block.state != t.WAITING:
            more = row.free_job >= 0 and row.next_line < machine.ops[int(row.op)].lines
            more = more or machine.ops[int(block.op)].kind == t.COMPUTE
            if block.state != t.MOVING or row.ready_head >= 0 or row.loading >= 0 or more:
                return True
            retried = int(row.retry_head)
            while retried >= 0:
                flag = int(machine.operands[int(machine.requests[retried].operand)].flag)
                if machine.flags[flag + int(machine.details[retried].index)]:
                    return True
                retried = int(machine.requests[retried].next_free)
        warp = int(row.next_ready)
    return False


def _hopeless(machine: CacheLineMachine) -> bool:
    """Return whether no block that polls will ever see its semaphore high enough."""
    blocks = machine.blocks
    waiting = blocks[(blocks["state"] == t.WAITING)]
    waiting = waiting[machine.sms["stalled"][waiting["sm"]] == 0]
    ops = machine.ops[waiting["op"]]
    return not (machine.semaphores["value"][ops["semaphore"]] >= ops["value"]).any()


def explain_stranded(machine: CacheLineMachine, name: str, fabric: Fabric, since: dict[int, int]) -> str:
    """Describe in one line which links are down, what waits for them, and what to do.

    Parameters
    ----------
    machine : CacheLineMachine
    name : str
        Of what runs.
    fabric : Fabric
    since : dict of int to int
        When each link went down, in ps, where that is known.
    """
    lanes: dict[str, list[int]] = {}
    for link in np.flatnonzero(machine.links["free_at_ps"] >= NEVER).tolist():
        lanes.setdefault(fabric.name(link).partition("#")[0], []).append(link)
    found = []
    for path, links in lanes.items():
        count = sum(len(waiting_at(machine, link)) for link in links)
        every = len(fabric.find(path))
        which = "" if len(links) == every else f" ({len(links)} of {every} lanes)"
        when = f" since {format_time(since[links[0]])}" if links[0] in since else ""
        found.append(
            (count, f"{path}{which} is down{when}, and {plural(count, 'line waits', 'lines wait')} for it")
        )
    found.sort(key=lambda item: -item[0])
    listed = "; ".join(text for _, text in found[:_MOST_NAMED])
    more = (
        f"; {plural(len(found) - _MOST_NAMED, 'more link is down', 'more links are down')}"
        if len(found) > _MOST_NAMED
        else ""
    )
    return (
        f"{name}: the run cannot continue: {listed}{more}. Reroute (`reroute()`), bring the link "
        "up again (`set('<link>.up', True)`), or undo the change (`undo()`)"
    )
