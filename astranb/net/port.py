"""The entrance of a managed link: queues by class, an arbiter, and buffers at the far end.

A link without limits is a FIFO server that needs no queue (``link.py``). Where buffers are
finite, or classes of messages are distinguished, messages wait here until the wire is
free, the arbiter picks their class and there is a buffer for them behind the link.

Requests and responses have buffers of their own (virtual channels): a response never
waits for a request, so that the two cannot wait for each other. Under ``fair`` arbitration
control messages (signals, polls) have channels of their own too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.core.jit import Records, kernel

__all__ = ["ARBITRATIONS", "CLASSES", "FAIR", "FIFO", "QUEUE", "ROUND_ROBIN", "choose", "join", "leave"]

CLASSES: Final = 4
"""Queues a link: request or response, data or control."""

FIFO: Final = 0  # of the classes' first messages the one that came first
ROUND_ROBIN: Final = 1  # requests and responses in turn
FAIR: Final = 2  # requests and responses, data and control in turn
ARBITRATIONS: Final = ("fifo", "round_robin", "fair")

QUEUE = np.dtype(
    [
        ("head", "i8"),  # who waits: a list through ``requests.next_free``
        ("tail", "i8"),
        ("waiting", "i8"),
        ("credits", "i8"),  # free buffers behind the link
        ("joined", "i8"),  # messages that ever waited here (Ethernet)
        ("bytes", "i8"),  # of those that wait
        ("stored", "i8"),  # bytes that came over the link and wait behind it
        ("stopped", "i8"),  # what the far end sent last, 1: pause
        ("paused", "i8"),  # what has taken effect, 1: nothing is sent
        ("paused_at_ps", "i8"),
        ("frames", "i8"),  # pause frames under way
        ("stuck", "i8"),  # scratch of the search for a deadlock, else 0
        ("stuck_bytes", "i8"),
        ("stuck_messages", "i8"),
    ]
)
"""One class at one link: what waits before it, and what has come over it and waits behind it."""


@kernel
def join(queues: Records, requests: Records, request: int, queue: int) -> None:
    """Put a request at the end of a queue."""
    requests[request].next_free = -1
    if queues[queue].head < 0:
        queues[queue].head = request
    else:
        requests[queues[queue].tail].next_free = request
    queues[queue].tail = request
    queues[queue].waiting += 1


@kernel
def choose(
    links: Records, queues: Records, details: Records, link: int, arbitration: int, finite: int
) -> int:
    """Pick the class whose first message may go now; -1 where none can."""
    best = -1
    best_ps = 0
    for step in range(CLASSES):
        # In turn: the class after the one served last comes first.
        number = (links[link].last_class + 1 + step) % CLASSES
        queue = link * CLASSES + number
        head = queues[queue].head
        if head < 0 or queues[queue].paused == 1 or (finite == 1 and queues[queue].credits == 0):
            continue
        if arbitration != FIFO:
            return number
        if best < 0 or details[head].offered_ps < best_ps:
            best = number
            best_ps = details[head].offered_ps
    return best


@kernel
def leave(links: Records, queues: Records, requests: Records, link: int, number: int, finite: int) -> int:
    """Take the first request of a class out of its queue, with a buffer at the far end."""
    queue = link * CLASSES + number
    request = queues[queue].head
    queues[queue].head = requests[request].next_free
    queues[queue].waiting -= 1
    if finite == 1:
        queues[queue].credits -= 1
    links[link].last_class = number
    return request
