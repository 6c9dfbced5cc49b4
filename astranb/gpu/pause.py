"""Pause frames: what waits in a node counts against the link it came over, and stops its sender.

Priority flow control (IEEE 802.1Qbb), by class: requests and responses, and control where
it has classes of its own. A frame takes the link's latency and the time of its 64 bytes,
and does not wait for messages in its direction. What is under way when it is sent still arrives, so that
a buffer holds more than ``xoff``: that much room is the headroom of a real switch.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel
from astranb.core.queue import schedule
from astranb.core.ticks import transfer_ps
from astranb.net import CLASSES, INSIDE, PAUSES

from .tables import PAUSE, Machine
from .wire import look_again

__all__ = ["FRAMES", "FRAME_BYTES", "go_on", "has_buffer_deadlock", "mark_stuck", "reach_node", "take_frame"]

FRAME_BYTES: Final = 64
"""The smallest Ethernet frame: of a pause and of a congestion notification."""
FRAMES: Final = 8
"""Pause frames of one class of a link under way at once, at most: more wait for one to come."""


@kernel(inline=False)
def reach_node(m: Machine, request: int, size: int) -> None:
    """A message is at the end of a link and wants to go on: it takes room there."""
    queue = m.details[request].came
    if queue < 0:
        return
    m.details[request].came = -1
    m.details[request].stored = queue
    m.details[request].stored_bytes = size
    m.queues[queue].stored += size
    link = queue // CLASSES
    m.links[link].most_stored = max(m.links[link].most_stored, m.queues[queue].stored)
    send_frame(m, queue)


@kernel(inline=False)
def go_on(m: Machine, request: int, link: int, number: int) -> None:
    """A message goes onto a link (-1: to where it ends), and leaves its room unless still in the switch."""
    m.details[request].came = -1
    if link >= 0:
        if m.links[link].role & INSIDE:
            return
        if m.links[link].role & PAUSES:
            m.details[request].came = link * CLASSES + number
    queue = m.details[request].stored
    if queue >= 0:
        m.details[request].stored = -1
        m.queues[queue].stored -= m.details[request].stored_bytes
        send_frame(m, queue)


@kernel(inline=False)
def send_frame(m: Machine, queue: int) -> None:
    """Send a pause frame, or one that ends the pause, where the state has changed."""
    wanted = m.queues[queue].stopped
    if m.queues[queue].stored > m.roce[0].xoff:
        wanted = 1
    elif m.queues[queue].stored < m.roce[0].xon:
        wanted = 0
    if wanted == m.queues[queue].stopped or m.queues[queue].frames == FRAMES:
        return
    link = queue // CLASSES
    m.queues[queue].stopped = wanted
    m.queues[queue].frames += 1
    m.links[link].pauses += wanted
    delay_ps = m.links[link].latency_ps + transfer_ps(FRAME_BYTES, m.links[link].bandwidth_Bps)
    schedule(m.event_queue, m.clock[0].now_ps + delay_ps, PAUSE, 2 * queue + wanted)


@kernel(inline=False)
def take_frame(m: Machine, frame: int) -> None:
    """The PAUSE event: a class of a link stops, once its wire is free, or goes on."""
    clock = m.clock[0]
    queue = frame // 2
    link = queue // CLASSES
    m.queues[queue].frames -= 1
    # The frame sent last decides, even where a change of the link let it overtake.
    paused = frame % 2 if m.queues[queue].frames > 0 else m.queues[queue].stopped
    if paused != m.queues[queue].paused:
        m.queues[queue].paused = paused
        if paused == 1:
            m.queues[queue].paused_at_ps = clock.now_ps
        else:
            m.links[link].paused_ps += clock.now_ps - m.queues[queue].paused_at_ps
            look_again(m, link)
    send_frame(m, queue)


@kernel(inline=False)
def has_buffer_deadlock(m: Machine) -> bool:
    """Return whether buffers wait for each other in a cycle, so that some message can never move again."""
    found = mark_stuck(m)
    for queue in range(len(m.queues)):
        m.queues[queue].stuck = 0
        m.queues[queue].stuck_bytes = 0
        m.queues[queue].stuck_messages = 0
    return found > 0


@kernel
def mark_stuck(m: Machine) -> int:
    """Find the queues that can never send again (``stuck``), and count them.

    At first every queue that waits for room behind its link is taken for stuck. Then those
    are taken out for which enough of what occupies that room waits in queues that are not,
    until nothing changes: the rest wait for each other.
    """
    found = 0
    for queue in range(len(m.queues)):
        paused = m.queues[queue].paused == 1 and m.queues[queue].stopped == 1 and m.queues[queue].frames == 0
        full = m.roce[0].buffers > 0 and m.queues[queue].credits == 0
        m.queues[queue].stuck = 1 if m.queues[queue].waiting > 0 and (paused or full) else 0
        found += m.queues[queue].stuck
    changed = found > 0
    while changed:
        changed = False
        for queue in range(len(m.queues)):
            m.queues[queue].stuck_bytes = 0
            m.queues[queue].stuck_messages = 0
        for queue in range(len(m.queues)):
            if m.queues[queue].stuck == 0:
                continue
            request = m.queues[queue].head
            while request >= 0:
                if m.details[request].stored >= 0:
                    m.queues[m.details[request].stored].stuck_bytes += m.details[request].stored_bytes
                if m.details[request].held >= 0:
                    m.queues[m.details[request].held].stuck_messages += 1
                request = m.requests[request].next_free
        for queue in range(len(m.queues)):
            if m.queues[queue].stuck == 0:
                continue
            paused = m.queues[queue].paused == 1 and m.queues[queue].stuck_bytes >= m.roce[0].xon
            full = m.roce[0].buffers > 0 and m.queues[queue].stuck_messages >= m.roce[0].buffers
            if not paused and not full:
                m.queues[queue].stuck = 0
                found -= 1
                changed = True
    return found
