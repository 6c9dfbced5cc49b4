"""One directed link: a FIFO server that puts a message's bytes on a wire."""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.core.ticks import transfer_ps
from astranb.infragraph import LINK_COLUMNS

__all__ = [
    "INJECTS",
    "INSIDE",
    "LINK",
    "MARKS",
    "NEVER",
    "PACKET_BYTES",
    "PAUSES",
    "apply_fault",
    "cross",
    "head_ps",
]

# Bits of a link's ``role`` on Ethernet.
PAUSES: Final = 1  # the node at its end has buffers of a size, and pauses it
MARKS: Final = 2  # it leaves a switch, which marks what finds a long queue
INJECTS: Final = 4  # it leaves a NIC or a GPU: here flows have their rates
INSIDE: Final = 8  # it is a part of a switch: what waits for it waits where it was

NEVER: Final = 2**61
"""A time later than any event: when the wire of a link that is down is free. A power of two."""

PACKET_BYTES: Final = 4096
"""Data of one packet of RDMA: the largest MTU of InfiniBand and RoCE."""

_ORDER: Final = (
    # What every message touches comes first, and a row is three lines of the cache.
    ("free_at_ps", "i8"),  # when the last bit of the last accepted message is out
    ("latency_ps", "i8"),  # propagation: first bit out to first bit in
    ("gap_ps", "i8"),  # least time between two packets of RDMA, as of a NIC
    ("last_size", "i8"),  # a size, 0 where the link has changed since ...
    ("usual_ps", "i8"),  # ... and what it takes: divisions are slow
    ("wire_ps", "i8"),  # what the last accepted message takes on the wire
    ("busy_ps", "i8"),  # time the wire carried bits, summed
    ("queued_ps", "i8"),  # time messages waited for the wire, summed
    ("messages", "i8"),  # messages put on the wire
    ("bytes", "i8"),  # bytes put on the wire, headers included
    ("forward_ps", "i8"),  # what the node at the far end takes to pass a message on
    ("post_ps", "i8"),  # what software takes besides until a NIC at the far end sends a request
    ("src", "i8"),  # node the link leaves
    ("dst", "i8"),  # node it reaches
    ("bandwidth_Bps", "i8"),  # of this one lane, in this direction
    ("lane", "i8"),  # number among its parallel ones
    ("marked", "i8"),  # messages that found a long queue and were marked (Ethernet)
    ("role", "i8"),  # PAUSES, MARKS, INJECTS, INSIDE
    ("pauses", "i8"),  # pause frames sent for it
    ("paused_ps", "i8"),  # time for which a class was paused, summed, without pauses that last
    ("most_queued", "i8"),  # most bytes of a class that waited for it
    ("most_stored", "i8"),  # most bytes of a class that had come over it and waited behind it
    ("awake", "i8"),  # 1: a WIRE event is queued (managed links)
    ("last_class", "i8"),  # class that was served last (managed links)
    ("resumes_ps", "i8"),  # of a link that is down: when its wire would be free if it came up
)

LINK = np.dtype([*_ORDER, *((name, "i8") for name in LINK_COLUMNS.names or () if name not in dict(_ORDER))])
"""One directed lane: its state and its properties (`LINK_PROPERTIES`), of which new ones come last."""


@kernel
def cross(links: Records, link: int, now_ps: int, size: int, tail_ps: int, least_ps: int) -> int:
    """Accept a message at the entrance of a link; returns when its last bit arrives.

    Parameters
    ----------
    links : recarray of LINK
        All links.
    link : int
        Which one.
    now_ps : int
        When the message's head reaches the entrance. Events are handled in time order, so
        that ``free_at_ps`` alone is an exact FIFO queue of unlimited length.
    size : int
        Bytes on the wire: header and payload.
    tail_ps : int
        When its last bit reaches the entrance: later than the head where nodes cut
        through. A message leaves without gaps, so that it starts late enough for its last
        bit to be there in time.
    least_ps : int
        What it occupies the link for at least, as its share of the slots of a NIC.

    Returns
    -------
    int
        Arrival of the last bit at the far end, in ps.
    """
    if size == links[link].last_size:
        wire_ps = links[link].usual_ps
    else:
        wire_ps = transfer_ps(size, links[link].bandwidth_Bps)
        links[link].last_size = size
        links[link].usual_ps = wire_ps
    wire_ps = max(wire_ps, least_ps)
    start_ps = max(now_ps, links[link].free_at_ps, tail_ps - wire_ps)
    links[link].free_at_ps = start_ps + wire_ps
    links[link].wire_ps = wire_ps
    links[link].busy_ps += wire_ps
    # What enters a link that is down waits: the rest of its time is added when the link comes up.
    links[link].queued_ps += (start_ps & (NEVER - 1)) - now_ps
    links[link].messages += 1
    links[link].bytes += size
    return start_ps + wire_ps + links[link].latency_ps


@kernel
def head_ps(links: Records, link: int, tail_ps: int, header_bytes: int) -> int:
    """Return the time at which the header of the message accepted last arrives: it may go on then."""
    header = transfer_ps(header_bytes, links[link].bandwidth_Bps)
    return tail_ps - max(0, links[link].wire_ps - header)


@kernel
def apply_fault(links: Records, faults: Records, fault: int, now_ps: int) -> None:
    """Apply a link fault: the link becomes slower or faster, or is down for a while.

    What is on the wire arrives; while the link is down what comes to it waits.
    """
    link = faults[fault].link
    links[link].bandwidth_Bps = faults[fault].bandwidth_Bps
    links[link].last_size = 0
    links[link].latency_ps = faults[fault].latency_ps
    if faults[fault].down_until_ps > now_ps:
        links[link].free_at_ps = max(links[link].free_at_ps, faults[fault].down_until_ps)
