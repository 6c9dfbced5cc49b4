"""What is noted for the views while time passes: outside the simulated state and its hash."""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records, kernel_apart

__all__ = ["FLIGHT", "RECORDER", "note_busy", "note_flight"]

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
    ]
)
"""One line crossing one link (48 bytes)."""

RECORDER = np.dtype(
    [
        ("on", "i8"),
        ("flights", "i8"),  # ever noted; the ring holds the last ones
        ("bin_ps", "i8"),  # width of a bin of activity
        ("bins", "i8"),  # bins a row
        ("rows", "i8"),
        ("links", "i8"),  # between devices: rows of activity before those of the GPUs
        ("tracing", "i8"),  # 1: every event is noted in the trace (tracing.py)
        ("traced", "i8"),  # rows of the trace in use
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
