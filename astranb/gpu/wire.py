"""Managed links: a request joins a queue, the wire takes one, and a buffer behind it is given back."""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import Agenda, schedule
from astranb.net.port import CLASSES, FAIR, choose, join, leave

from .tables import POLL, SIGNAL, WIRE
from .travel import next_link

__all__ = ["free_buffer", "offer", "pick"]


@kernel
def offer(
    clock: Records, queues: Records, route: Records, requests: Records, details: Records, request: int
) -> int:
    """A request comes to the entrance of a link; returns the link."""
    link = next_link(route, requests, details, request)
    number = 1 if requests[request].returning else 0
    kind = requests[request].kind
    if clock[0].arbitration == FAIR and (kind == SIGNAL or kind == POLL):
        number += 2
    details[request].offered_ps = clock[0].now_ps
    join(queues, requests, request, link * CLASSES + number)
    return link


@kernel
def pick(
    clock: Records, agenda: Agenda, links: Records, queues: Records, requests: Records, details: Records,
    link: int,
) -> int:  # fmt: skip
    """Pick the request that takes the wire now, or -1; see to it that the next one is asked for."""
    now_ps = clock[0].now_ps
    if links[link].free_at_ps > now_ps:
        look_again(clock, agenda, links, queues, link)
        return -1
    finite = clock[0].finite
    number = choose(links, queues, details, link, clock[0].arbitration, finite)
    if number < 0:
        return -1
    request = leave(links, queues, requests, link, number, finite)
    free_buffer(clock, agenda, links, queues, details, request)
    if finite == 1:
        details[request].held = link * CLASSES + number
    return request


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
