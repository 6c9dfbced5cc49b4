"""What is noted for the views while time passes: outside the simulated state and its hash."""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Records, kernel, kernel_apart
from astranb.gpu.tables import COMPUTE, MOVE, NOTIFY

__all__ = [
    "BURST", "COMPUTING", "CURRENT", "FLIGHT", "ISSUING", "NO_SLOT", "RECORDER", "SIGNALS",
    "burst_of", "note_burst", "note_busy", "note_flight", "note_lines",
]  # fmt: skip

# What an SM does in a burst.
ISSUING: Final = 0  # instructions of a move, back to back
COMPUTING: Final = 1  # of a computation
SIGNALS: Final = 2
NO_SLOT: Final = 3  # nothing: a warp is ready, and every outstanding slot is taken

FLIGHT = np.dtype(
    [
        ("event", "i8"),  # number of the event that put it on the wire
        ("queued_ps", "i8"),  # when it reached the entrance of the link
        ("start_ps", "i8"),  # first bit on the wire
        ("end_ps", "i8"),  # last bit at the far end
        ("link", "i4"),
        ("kind", "i4"),  # request kind x 2 + returning, see FLIGHT_KINDS
        ("op", "i4"),
        ("line", "i4"),  # of its operation's piece
        ("wire_ps", "i8"),  # what it takes on the wire
        ("bytes", "i8"),  # on the wire, header included
    ]
)
"""One line crossing one link (64 bytes, a line of the processor's cache)."""

BURST = np.dtype([("start_ps", "i8"), ("end_ps", "i8"), ("sm", "i4"), ("state", "i4")])
"""A stretch of time in which an SM issued without a pause, or had no slot to issue with."""

CURRENT = np.dtype([("start_ps", "i8"), ("end_ps", "i8"), ("state", "i8"), ("stalled_ps", "i8")])
"""The burst that an SM is in: not noted yet, because it may go on; state -1 where there is none."""

RECORDER = np.dtype(
    [
        ("on", "i8"),  # 1: there is room to note things
        ("paused", "i8"),  # 1: nothing is noted for the time being
        ("since_ps", "i8"),  # what was before has not been noted: a loaded simulation begins here
        ("flights", "i8"),  # ever noted; the ring holds the last ones
        ("bin_ps", "i8"),  # width of a bin of activity
        ("bins", "i8"),  # bins a row
        ("rows", "i8"),
        ("links", "i8"),  # between devices: rows of activity before those of the GPUs
        ("tracing", "i8"),  # 1: every event is noted in the trace (tracing.py)
        ("traced", "i8"),  # rows of the trace in use
        ("bursts", "i8"),  # ever noted; their ring holds the last ones
        ("landing", "i8"),  # 1: for every line of memory, who wrote it last
    ]
)


@kernel_apart
def note_flight(
    recorder: Records,
    flights: Records,
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
    """Note a line crossing a link; the oldest one gives way when the ring is full."""
    place = recorder[0].flights % len(flights)
    recorder[0].flights += 1
    flights[place].event = event
    flights[place].queued_ps = queued_ps
    flights[place].start_ps = start_ps
    flights[place].end_ps = end_ps
    flights[place].link = link
    flights[place].kind = kind
    flights[place].op = op
    flights[place].line = line
    flights[place].wire_ps = wire_ps
    flights[place].bytes = size


@kernel
def burst_of(sms: Records, blocks: Records, warps: Records, ops: Records, sm: int) -> int:
    """What kind of burst the instruction that an SM is about to issue belongs to; -1: none.

    Polls, and loads that look for a packet again, are waiting.
    """
    warp = sms[sm].ready_head
    what = ops[blocks[warps[warp].block].op].kind
    if what == MOVE:
        return -1 if warps[warp].ready_head < 0 and warps[warp].retry_head >= 0 else ISSUING
    if what == COMPUTE:
        return COMPUTING
    return SIGNALS if what == NOTIFY else -1


@kernel_apart
def note_burst(
    recorder: Records, bursts: Records, current: Records, sms: Records, sm: int, state: int, now_ps: int
) -> None:
    """An SM has issued an instruction: it goes on with its burst, or begins another one.

    That it had no slot before is seen here, too: the time that it has stalled has grown.
    """
    stalled_ps = sms[sm].stalled_ps - current[sm].stalled_ps
    if current[sm].state == state and current[sm].end_ps == now_ps and stalled_ps == 0 and state >= 0:
        current[sm].end_ps = sms[sm].next_issue_ps
        return
    if current[sm].state >= 0:
        put_burst(recorder, bursts, sm, current[sm].state, current[sm].start_ps, current[sm].end_ps)
    if stalled_ps > 0:
        since_ps = sms[sm].stalled_since_ps
        put_burst(recorder, bursts, sm, NO_SLOT, since_ps, since_ps + stalled_ps)
        current[sm].stalled_ps = sms[sm].stalled_ps
    current[sm].state = state
    current[sm].start_ps = now_ps
    current[sm].end_ps = sms[sm].next_issue_ps


@kernel
def put_burst(recorder: Records, bursts: Records, sm: int, state: int, start_ps: int, end_ps: int) -> None:
    """Note a burst; the oldest one gives way when the ring is full."""
    place = recorder[0].bursts % len(bursts)
    recorder[0].bursts += 1
    bursts[place].start_ps = start_ps
    bursts[place].end_ps = end_ps
    bursts[place].sm = sm
    bursts[place].state = state


@kernel_apart
def note_lines(
    landed: Records, places: Records, pieces: Records, operands: Records, requests: Records, span: int,
    request: int,
) -> None:  # fmt: skip
    """A store has taken effect: its lines are its operation's from now on."""
    piece = operands[requests[request].operand].piece
    first = requests[request].line - pieces[piece].line
    for line in range(first, min(first + span, pieces[piece].lines)):
        landed[places[piece] + line] = requests[request].op


@kernel_apart
def note_busy(recorder: Records, activity: Records, row: int, start_ps: int, busy_ps: int) -> None:
    """Add busy time to a row of activity; when time outgrows the bins, each two become one."""
    bins = recorder[0].bins
    while start_ps >= bins * recorder[0].bin_ps:
        for one in range(recorder[0].rows):
            for b in range(bins // 2):
                activity[one * bins + b] = activity[one * bins + 2 * b] + activity[one * bins + 2 * b + 1]
            for b in range(bins // 2, bins):
                activity[one * bins + b] = 0
        recorder[0].bin_ps *= 2
    activity[row * bins + start_ps // recorder[0].bin_ps] += busy_ps
