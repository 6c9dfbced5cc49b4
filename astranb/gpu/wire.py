"""Managed links: what a message weighs, who is asked next, and buffers that are given back."""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import Agenda, schedule
from astranb.net.port import CLASSES

from .tables import SIGNAL, STORE, WIRE

__all__ = ["carries_data", "free_buffer", "look_again", "wire_size"]


@kernel
def carries_data(requests: Records, request: int) -> bool:
    """Whether a message carries data, and is no acknowledgement and no request for data."""
    kind = requests[request].kind
    going = requests[request].returning == 0
    return bool(going if kind == STORE or kind == SIGNAL else not going)


@kernel
def wire_size(gpus: Records, requests: Records, request: int) -> int:
    """Bytes of a message on a wire."""
    if carries_data(requests, request):
        return int(requests[request].bytes)
    return int(gpus[requests[request].gpu].header_bytes)


@kernel
def look_again(clock: Records, agenda: Agenda, links: Records, queues: Records, link: int) -> None:
    """Queue a WIRE event for when the wire is free, where somebody waits."""
    if links[link].awake == 1:
        return
    first = link * CLASSES
    for queue in range(first, first + CLASSES):
        if queues[queue].waiting > 0:
            links[link].awake = 1
            schedule(clock, agenda, max(clock[0].now_ps, links[link].free_at_ps), WIRE, link)
            return


@kernel
def free_buffer(
    clock: Records, agenda: Agenda, links: Records, queues: Records, details: Records, request: int
) -> None:
    """A request leaves the buffer it was in; the link before it may send again.

    The credit's own way back is not modelled: it takes no time and no bandwidth.
    """
    held = details[request].held
    if held < 0:
        return
    details[request].held = -1
    queues[held].credits += 1
    look_again(clock, agenda, links, queues, held // CLASSES)
