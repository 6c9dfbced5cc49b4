"""One directed link: a FIFO server that puts a message's bytes on a wire."""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.core.ticks import transfer_ps

__all__ = ["LINK", "cross"]

LINK = np.dtype(
    [
        ("src", "i8"),  # node the link leaves
        ("dst", "i8"),  # node it reaches
        ("bandwidth_Bps", "i8"),  # of this one lane, in this direction
        ("latency_ps", "i8"),  # propagation: first bit out to first bit in
        ("forward_ps", "i8"),  # what the node at the far end takes to pass a message on
        ("free_at_ps", "i8"),  # when the last bit of the last accepted message is out
        ("busy_ps", "i8"),  # time the wire carried bits, summed
        ("queued_ps", "i8"),  # time messages waited for the wire, summed
        ("messages", "i8"),  # messages put on the wire
        ("bytes", "i8"),  # bytes put on the wire, headers included
    ]
)
"""One directed lane. To add a property, follow docs/architecture.md ("Add a link property")."""


@kernel
def cross(links: Records, link: int, now_ps: int, size: int) -> int:
    """Accept a message at the entrance of a link; returns when its last bit arrives.

    Parameters
    ----------
    links : recarray of LINK
        All links.
    link : int
        Which one.
    now_ps : int
        When the message reaches the entrance. Events are handled in time order, so that
        ``free_at_ps`` alone is an exact FIFO queue of unlimited length.
    size : int
        Bytes on the wire: header and payload.

    Returns
    -------
    int
        Arrival of the last bit at the far end (store and forward), in ps.
    """
    start_ps = max(now_ps, links[link].free_at_ps)
    wire_ps = transfer_ps(size, links[link].bandwidth_Bps)
    links[link].free_at_ps = start_ps + wire_ps
    links[link].busy_ps += wire_ps
    links[link].queued_ps += start_ps - now_ps
    links[link].messages += 1
    links[link].bytes += size
    return start_ps + wire_ps + links[link].latency_ps
