"""Pause frames: what waits in a node counts against the link it came over, and stops its sender.

Priority flow control (IEEE 802.1Qbb), by class: requests and responses, and control where
it has classes of its own. A frame takes the link's latency and the time of its 64 bytes,
whatever else is on the way back. What is under way when it is sent still arrives, so that
a buffer holds more than ``xoff``: that much room is the headroom of a real switch.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import Records, kernel, kernel_apart
from astranb.core.queue import Agenda, schedule
from astranb.core.ticks import transfer_ps
from astranb.net.link import INSIDE, PAUSES
from astranb.net.port import CLASSES

from .tables import PAUSE
from .wire import look_again

__all__ = ["FRAMES", "FRAME_BYTES", "go_on", "jammed", "mark_stuck", "reach_node", "take_frame"]

FRAME_BYTES: Final = 64
"""The smallest Ethernet frame: of a pause and of a congestion notification."""
FRAMES: Final = 8
"""Pause frames of one class of a link under way at once, at most: more wait for one to come."""


@kernel_apart
def reach_node(
    clock: Records, agenda: Agenda, roce: Records, links: Records, queues: Records, details: Records,
    request: int, size: int,
) -> None:  # fmt: skip
    """A message is at the end of a link and wants to go on: it takes room there."""
    queue = details[request].came
    if queue < 0:
        return
    details[request].came = -1
    details[request].stored = queue
    details[request].stored_bytes = size
    queues[queue].stored += size
    link = queue // CLASSES
    links[link].most_stored = max(links[link].most_stored, queues[queue].stored)
    tell(clock, agenda, roce, links, queues, queue)


@kernel_apart
def go_on(
    clock: Records, agenda: Agenda, roce: Records, links: Records, queues: Records, details: Records,
    request: int, link: int, number: int,
) -> None:  # fmt: skip
    """A message goes onto a link (-1: to where it ends), and leaves its room unless still in the switch."""
    details[request].came = -1
    if link >= 0:
        if links[link].role & INSIDE:
            return
        if links[link].role & PAUSES:
            details[request].came = link * CLASSES + number
    queue = details[request].stored
    if queue >= 0:
        details[request].stored = -1
        queues[queue].stored -= details[request].stored_bytes
        tell(clock, agenda, roce, links, queues, queue)


@kernel_apart
def tell(clock: Records, agenda: Agenda, roce: Records, links: Records, queues: Records, queue: int) -> None:
    """Send a pause frame, or one that ends the pause, where there is something new to say."""
    wanted = queues[queue].stopped
    if queues[queue].stored > roce[0].xoff:
        wanted = 1
    elif queues[queue].stored < roce[0].xon:
        wanted = 0
    if wanted == queues[queue].stopped or queues[queue].frames == FRAMES:
        return
    link = queue // CLASSES
    queues[queue].stopped = wanted
    queues[queue].frames += 1
    links[link].pauses += wanted
    way_ps = links[link].latency_ps + transfer_ps(FRAME_BYTES, links[link].bandwidth_Bps)
    schedule(clock, agenda, clock[0].now_ps + way_ps, PAUSE, 2 * queue + wanted)


@kernel_apart
def take_frame(
    clock: Records, agenda: Agenda, roce: Records, links: Records, queues: Records, frame: int
) -> None:
    """The PAUSE event: a class of a link stops, once its wire is free, or goes on."""
    queue = frame // 2
    link = queue // CLASSES
    queues[queue].frames -= 1
    # The last frame has the last word, even where a change of the link let it overtake.
    paused = frame % 2 if queues[queue].frames > 0 else queues[queue].stopped
    if paused != queues[queue].paused:
        queues[queue].paused = paused
        if paused == 1:
            queues[queue].paused_at_ps = clock[0].now_ps
        else:
            links[link].paused_ps += clock[0].now_ps - queues[queue].paused_at_ps
            look_again(clock, agenda, links, queues, link)
    tell(clock, agenda, roce, links, queues, queue)


@kernel_apart
def jammed(roce: Records, queues: Records, requests: Records, details: Records) -> bool:
    """Whether buffers wait for each other, so that some message will never move again."""
    found = mark_stuck(roce, queues, requests, details)
    for queue in range(len(queues)):
        queues[queue].stuck = 0
        queues[queue].stuck_bytes = 0
        queues[queue].stuck_messages = 0
    return found > 0


@kernel
def mark_stuck(roce: Records, queues: Records, requests: Records, details: Records) -> int:
    """Find the queues that can never send again (``stuck``), and count them.

    At first every queue that waits for room behind its link is taken for stuck. Then those
    are taken out for which enough of what occupies that room waits in queues that are not,
    until nothing changes: the rest wait for each other.
    """
    found = 0
    for queue in range(len(queues)):
        paused = queues[queue].paused == 1 and queues[queue].stopped == 1 and queues[queue].frames == 0
        full = roce[0].buffers > 0 and queues[queue].credits == 0
        queues[queue].stuck = 1 if queues[queue].waiting > 0 and (paused or full) else 0
        found += queues[queue].stuck
    changed = found > 0
    while changed:
        changed = False
        for queue in range(len(queues)):
            queues[queue].stuck_bytes = 0
            queues[queue].stuck_messages = 0
        for queue in range(len(queues)):
            if queues[queue].stuck == 0:
                continue
            request = queues[queue].head
            while request >= 0:
                if details[request].stored >= 0:
                    queues[details[request].stored].stuck_bytes += details[request].stored_bytes
                if details[request].held >= 0:
                    queues[details[request].held].stuck_messages += 1
                request = requests[request].next_free
        for queue in range(len(queues)):
            if queues[queue].stuck == 0:
                continue
            paused = queues[queue].paused == 1 and queues[queue].stuck_bytes >= roce[0].xon
            full = roce[0].buffers > 0 and queues[queue].stuck_messages >= roce[0].buffers
            if not paused and not full:
                queues[queue].stuck = 0
                found -= 1
                changed = True
    return found
