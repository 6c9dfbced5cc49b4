"""What may stand in the tables of a layer table's run, and what its numbers have to do with each other."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from astranb.core.rules import (
    ANY,
    COUNT,
    FLAG,
    TIME,
    Rule,
    Rules,
    between,
    check_fields,
    each,
    fixed,
    lists,
    maybe,
    require,
    row,
    until,
)

from . import tables as t
from .recording import PASSED, POINT, WATCH

__all__ = ["RULES", "check"]


RULES: Final[Rules] = {
    "clock": {
        **each(TIME, "now_ps", "end_ps", "compute_ps"),
        **each(COUNT, "events", "issued", "streams_left", "puts", "turns", "ended", "phases", "under_way"),
        "at": row("operations"), "ending": between(0, 2), "heaped": until("events"),
        "within": fixed(between(t.FIFO, t.FEWEST_LEFT)), "concurrent": fixed(COUNT), "by_queue": fixed(FLAG),
        "passes": until("pass_ends"), "computing": maybe("operations"), "waiting": FLAG,
        "queues": fixed(COUNT),
    },
    "operations": {
        "kind": fixed(between(t.COMPUTE, t.END)), "slot": fixed(Rule(-1)),
        **each(TIME, "begun_ps", "ended_ps"), "time_ps": COUNT,
    },
    "slots": {
        **each(COUNT, "under_way", "compute_ps", "exposed_ps", "total_ps"), "waiting": FLAG, "since_ps": TIME,
    },
    "collectives": {
        "slot": fixed(row("slots")), "first_chunk": fixed(row("chunks")), "chunks": fixed(COUNT),
        "first_stream": fixed(until("streams")), "over": COUNT, "priority": fixed(),
        "update_ps": fixed(COUNT),
        "issued_ps": TIME, "operation": fixed(row("operations")),
    },
    "chunks": {"first_phase": fixed(until("phases")), "phases": fixed(COUNT)},
    "phases": {
        "queue": fixed(row("queues")), "collective": fixed(between(t.ALL_REDUCE, t.ALL_TO_ALL)),
        **each(COUNT, "duration_ps", "over"), "bytes": fixed(COUNT), **each(ANY, "last_ps", "message_ps"),
    },
    "streams": {
        "collective": row("collectives"), "chunk": row("chunks"), "phase": maybe("phases"), "running": FLAG,
        **each(maybe("streams"), "before", "next"), **each(TIME, "started_ps", "queued_ps"),
    },
    "queues": {
        "head": maybe("streams"), **each(COUNT, "running", "inside", "chunks", "chunk_ps", "busy_ps"),
        "since_ps": TIME,
    },
    "events": {
        "time_ps": TIME, "rank": between(t.PROGRAM, t.NO_DELAY), **each(ANY, "last_ps", "message_ps",
        "queue"),
        "sequence": COUNT, "heap": row("events"),
    },
    "pass_ends": {"time_ps": TIME},
    "watch": {**dict.fromkeys(WATCH.names or (), ANY), "recording": FLAG, "passed": COUNT},
    "points": dict.fromkeys(POINT.names or (), ANY),  # written before the loop is called
    "passed": {
        **dict.fromkeys(PASSED.names or (), TIME), "operation": row("operations"), "phase": row("phases"),
    },
}  # fmt: skip


def check(machine: Any, start: Any = None) -> None:
    """Refuse a state in which a number would lead machine code astray.

    Parameters
    ----------
    machine : LayerMachine
    start : LayerMachine, optional
        The same run at its start; where not given, ``machine`` is that start.

    Raises
    ------
    InputError
        It names the table, field and row.
    """
    m = machine
    for name in ("clock", "watch"):
        require(len(getattr(m, name)) == 1, f"the length of {name}")
    check_fields(m._asdict(), RULES, None if start is None else start._asdict())
    clock = m.clock[0]
    if start is None:
        _check_program(m)
        require(clock.events == 0, "clock.events")
    else:
        require(
            [len(one) for one in m[:10]] == np.array([len(one) for one in start[:10]]), "lengths of tables"
        )
    kinds, at = m.operations.kind, int(clock.at)
    require(int((kinds[:at] == t.PASS).sum()) == clock.passes, "clock.passes")
    issued = np.zeros(len(m.collectives), bool)
    issued[m.operations.slot[:at][kinds[:at] == t.ISSUE]] = True
    _check_streams(m, issued)
    _check_events(m, issued)


def _check_program(m: Any) -> None:
    """Refuse a program that would go beyond its tables."""
    o, c = m.operations, m.collectives
    require(len(o) > 0 and o.kind[-1] == t.END, "operations.kind")
    require(not (o.kind[:-1] == t.END).any(), "operations.kind")
    require(int((o.kind == t.PASS).sum()) <= len(m.pass_ends), "the length of pass_ends")
    issues = o.kind == t.ISSUE
    slots = np.isin(o.kind, (t.COMPUTE, t.WAIT, t.END))
    require(~slots | (o.slot >= 0) & (o.slot < len(m.slots)), "operations.slot")
    require(np.sort(o.slot[issues]) == np.arange(int(issues.sum())), "operations.slot")
    require(int(issues.sum()) <= len(c), "operations.slot")
    require(c.first_chunk + c.chunks <= len(m.chunks), "collectives.chunks")
    require(c.first_stream + c.chunks <= len(m.streams), "collectives.chunks")
    require(c.first_stream[1:] >= (c.first_stream + c.chunks)[:-1], "collectives.first_stream")
    require(m.chunks.first_phase + m.chunks.phases <= len(m.phases), "chunks.phases")
    require(len(m.events) == 1 + len(c) + len(m.streams), "the length of events")


def _check_streams(m: Any, issued: np.ndarray) -> None:
    """Each stream in a queue is of a collective that was issued, and in one queue only."""
    s, q = m.streams, m.queues
    found = lists(q.head, s.next, "lists of streams")
    inside = np.zeros(len(s), bool)
    for queue, rows in enumerate(found):
        require(len(rows) == q.inside[queue], "queues.inside")
        require(int(s.running[rows].sum()) == q.running[queue], "queues.running")
        require(s.before[rows] == np.array([-1, *rows[:-1]][: len(rows)]), "streams.before")
        require(s.next[rows[-1:]] == -1, "streams.next")
        require(s.phase[rows] >= 0, "streams.phase")
        require(m.phases.queue[s.phase[rows]] == queue, "streams.phase")
        inside[rows] = True
    in_use = np.flatnonzero(inside)
    some, chunk = m.collectives[s.collective[in_use]], m.chunks[s.chunk[in_use]]
    require(issued[s.collective[in_use]], "streams.collective")
    nth = in_use - some.first_stream
    require((nth >= 0) & (nth < some.chunks), "streams.collective")
    require(s.chunk[in_use] == some.first_chunk + nth, "streams.chunk")
    phase = s.phase[in_use] - chunk.first_phase
    require((phase >= 0) & (phase < chunk.phases), "streams.phase")
    require(inside | (s.running == 0), "streams.running")


def _check_events(m: Any, issued: np.ndarray) -> None:
    """Each event is scheduled once: of the program, of a collective that is over, of a running stream."""
    clock, count = m.clock[0], len(m.collectives)
    heap = m.events.heap[: int(clock.heaped)]
    times = np.bincount(heap, minlength=len(m.events))
    require(times <= 1, "events.heap")
    require(m.events.time_ps[heap] >= clock.now_ps, "events.time_ps")
    require(times[1 + count :] == m.streams.running, "streams.running")
    over = times[1 : 1 + count] == 1
    require(~over | issued & (m.collectives.over == m.collectives.chunks), "collectives.over")
    waits = np.flatnonzero(m.slots.waiting == 1)
    require(len(waits) <= 1, "slots.waiting")
    now = m.operations[int(clock.at)]
    if len(waits):
        require(times[t.RESUME] == 0, "slots.waiting")
        require(now.kind in (t.WAIT, t.END) and now.slot == waits[0], "slots.waiting")
    if times[t.RESUME] and clock.events:
        require(clock.at > 0, "clock.at")
        before = m.operations[int(clock.at) - 1]
        require(before.kind in (t.COMPUTE, t.STEP), "clock.at")
    if clock.ending:
        require(now.kind == t.END, "clock.ending")
        require(times[t.RESUME] == 0, "clock.ending")
