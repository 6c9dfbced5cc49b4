"""Recording for the views while time passes: outside the simulated state and its hash."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.gpu.tables import COMPUTE, MOVE, NOTIFY, TILE, Machine

__all__ = [
    "BURST",
    "COMPUTING",
    "CURRENT",
    "FLIGHT",
    "GPU_ROWS",
    "HBM_ROW",
    "ISSUE_ROW",
    "ISSUING",
    "L2_ROW",
    "NO_SLOT",
    "RECORDER",
    "SIGNALS",
    "Recording",
    "activity_row",
    "burst_of",
    "record_burst",
    "record_busy",
    "record_flight",
    "record_writes",
]

# What an SM does in a burst.
ISSUING: Final = 0  # instructions of a move, back to back
COMPUTING: Final = 1  # of a computation
SIGNALS: Final = 2
NO_SLOT: Final = 3  # nothing: a warp is ready, and every outstanding slot is taken

# Rows of activity of a GPU, after those of the links.
ISSUE_ROW: Final = 0  # its SMs
L2_ROW: Final = 1
HBM_ROW: Final = 2
GPU_ROWS: Final = 3

FLIGHT = np.dtype(
    [
        ("event", "i8"),  # number of the event that put it on the wire
        ("queued_ps", "i8"),  # when it reached the entrance of the link
        ("start_ps", "i8"),  # first bit on the wire
        ("end_ps", "i8"),  # last bit at the far end
        ("link", "i4"),
        ("kind", "i4"),  # request kind x 2 + returning, see FLIGHT_KINDS
        ("op", "i4"),
        ("line", "i4"),  # of its operation's slice
        ("wire_ps", "i8"),  # what it takes on the wire
        ("bytes", "i8"),  # on the wire, header included
    ]
)
"""One line crossing one link (64 bytes, a line of the processor's cache)."""

BURST = np.dtype([("start_ps", "i8"), ("end_ps", "i8"), ("sm", "i4"), ("state", "i4")])
"""A stretch of time in which an SM issued without a pause, or had no slot to issue with."""

CURRENT = np.dtype([("start_ps", "i8"), ("end_ps", "i8"), ("state", "i8"), ("stalled_ps", "i8")])
"""The burst that an SM is in: not in the ring yet, because it may go on; state -1 where there is none."""

RECORDER = np.dtype(
    [
        ("on", "i8"),  # 1: the run is recorded
        ("paused", "i8"),  # 1: recording is switched off for now
        ("flights", "i8"),  # ever recorded; the ring holds the last ones
        ("bin_ps", "i8"),  # width of a bin of activity
        ("bins", "i8"),  # bins a row
        ("rows", "i8"),
        ("links", "i8"),  # between devices: rows of activity before those of the GPUs
        ("tracing", "i8"),  # 1: every event is recorded in the trace (tracing.py)
        ("traced", "i8"),  # rows of the trace in use
        ("bursts", "i8"),  # ever recorded; their ring holds the last ones
        ("landing", "i8"),  # 1: for every line of memory, who wrote it last
    ]
)


class Recording(NamedTuple):
    """The tables that a run is recorded in.

    Attributes
    ----------
    recorder : recarray of RECORDER
        One row.
    flights : recarray of FLIGHT
        A ring: the lines that crossed links last.
    activity : ndarray of int64
        Busy time by row and bin: a row for each link, then ``GPU_ROWS`` for each GPU.
    trace : recarray of TRACE
        Every event, where a copy replays a part of the run to explain it (``tracing.py``).
    bursts : recarray of BURST
        A ring.
    current : recarray of CURRENT
        One row for each SM.
    landed : ndarray of int32
        For every line of every slice the operation that wrote it last, as ``slices["writer"]``.
    places : ndarray of int64
        Where the lines of each slice begin in it.
    """

    recorder: Records
    flights: Records
    activity: Records
    trace: Records
    bursts: Records
    current: Records
    landed: Records
    places: Records


@kernel(inline=False)
def record_flight(
    r: Recording,
    event: int,
    queued_ps: int,
    start_ps: int,
    end_ps: int,
    link: int,
    kind: int,
    op: int,
    line: int,
    wire_ps: int,
    size: int,
) -> None:
    """Record a line crossing a link, over the oldest one when the ring is full."""
    place = r.recorder[0].flights % len(r.flights)
    r.recorder[0].flights += 1
    flight = r.flights[place]
    flight.event = event
    flight.queued_ps = queued_ps
    flight.start_ps = start_ps
    flight.end_ps = end_ps
    flight.link = link
    flight.kind = kind
    flight.op = op
    flight.line = line
    flight.wire_ps = wire_ps
    flight.bytes = size


@kernel
def burst_of(m: Machine, sm: int) -> int:
    """Return the kind of burst of the instruction that an SM is about to issue; -1: none.

    Polls, and loads that look for a packet again, are waiting.
    """
    warp = m.sms[sm].ready_head
    what = m.ops[m.blocks[m.warps[warp].block].op].kind
    if what == MOVE:
        return -1 if m.warps[warp].ready_head < 0 and m.warps[warp].retry_head >= 0 else ISSUING
    if what == COMPUTE or what == TILE:
        return COMPUTING
    return SIGNALS if what == NOTIFY else -1


@kernel(inline=False)
def record_burst(m: Machine, r: Recording, sm: int, state: int) -> None:
    """An SM has issued an instruction: extend its burst, or begin another one.

    A time without a free slot before it is recorded too: the stalled time of the SM has grown.
    """
    unit = m.sms[sm]
    current = r.current[sm]
    now_ps = m.clock[0].now_ps
    stalled_ps = unit.stalled_ps - current.stalled_ps
    if current.state == state and current.end_ps == now_ps and stalled_ps == 0 and state >= 0:
        current.end_ps = unit.next_issue_ps
        return
    if current.state >= 0:
        append_burst(r, sm, current.state, current.start_ps, current.end_ps)
    if stalled_ps > 0:
        since_ps = unit.stalled_since_ps
        append_burst(r, sm, NO_SLOT, since_ps, since_ps + stalled_ps)
        current.stalled_ps = unit.stalled_ps
    current.state = state
    current.start_ps = now_ps
    current.end_ps = unit.next_issue_ps


@kernel
def append_burst(r: Recording, sm: int, state: int, start_ps: int, end_ps: int) -> None:
    """Append a burst to the ring, over the oldest one when it is full."""
    burst = r.bursts[r.recorder[0].bursts % len(r.bursts)]
    r.recorder[0].bursts += 1
    burst.start_ps = start_ps
    burst.end_ps = end_ps
    burst.sm = sm
    burst.state = state


@kernel(inline=False)
def record_writes(m: Machine, r: Recording, request: int) -> None:
    """A store has taken effect: record its operation as the writer of its lines."""
    slice_ = m.operands[m.requests[request].operand].slice
    first = m.requests[request].line - m.slices[slice_].line
    span = m.details[request].span if m.clock[0].detailed else 1
    for line in range(first, min(first + span, m.slices[slice_].lines)):
        r.landed[r.places[slice_] + line] = m.requests[request].op


@kernel
def activity_row(r: Recording, gpu: int, row: int) -> int:
    """Return the row of activity of a GPU: ``ISSUE_ROW``, ``L2_ROW`` or ``HBM_ROW``."""
    return int(r.recorder[0].links + GPU_ROWS * gpu + row)


@kernel(inline=False)
def record_busy(r: Recording, row: int, start_ps: int, busy_ps: int) -> None:
    """Add busy time to a row of activity; when time exceeds the bins, merge each two into one."""
    recorder = r.recorder[0]
    activity = r.activity
    bins = recorder.bins
    while start_ps >= bins * recorder.bin_ps:
        for one in range(recorder.rows):
            for b in range(bins // 2):
                activity[one * bins + b] = activity[one * bins + 2 * b] + activity[one * bins + 2 * b + 1]
            for b in range(bins // 2, bins):
                activity[one * bins + b] = 0
        recorder.bin_ps *= 2
    activity[row * bins + start_ps // recorder.bin_ps] += busy_ps
