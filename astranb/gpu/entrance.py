"""The entrance of a managed link: a message comes, joins a queue, and the wire takes one."""

from __future__ import annotations

from astranb.core.jit import Records, kernel_apart
from astranb.core.queue import Agenda
from astranb.net.port import CLASSES, FAIR, choose, join, leave

from .flow import arrive, hold_back, mark
from .pause import go_on, reach_node
from .tables import POLL, SIGNAL, SWITCH
from .travel import next_link
from .wire import free_buffer, look_again, wire_size

__all__ = ["come", "end_way", "offer", "pick"]


@kernel_apart
def come(
    clock: Records, agenda: Agenda, gpus: Records, roce: Records, flows: Records, ways: Records,
    route: Records, links: Records, queues: Records, requests: Records, details: Records, request: int,
) -> int:  # fmt: skip
    """The HOP event: a message is at the entrance of a link; returns it, or -1 where its rate holds it."""
    if roce[0].on == 0:
        return request
    if roce[0].pfc == 1:
        size = wire_size(gpus, requests, request)
        reach_node(clock, agenda, roce, links, queues, details, request, size)
    if roce[0].dcqcn == 1:
        link = next_link(route, requests, details, request)
        if hold_back(clock, agenda, gpus, roce, flows, ways, links, requests, request, link):
            return -1
    return request


@kernel_apart
def offer(
    clock: Records, gpus: Records, roce: Records, route: Records, links: Records, queues: Records,
    requests: Records, details: Records, request: int,
) -> int:  # fmt: skip
    """A message joins the queue of its class; returns the link."""
    link = next_link(route, requests, details, request)
    number = 1 if requests[request].returning else 0
    kind = requests[request].kind
    if clock[0].arbitration == FAIR and (kind == SIGNAL or kind == POLL):
        number += 2
    details[request].offered_ps = clock[0].now_ps
    queue = link * CLASSES + number
    join(queues, requests, request, queue)
    if roce[0].on == 1:
        queues[queue].joined += 1
        if roce[0].ecn == 1:
            mark(roce, links, queues, requests, details, request, link, queue)
        queues[queue].bytes += wire_size(gpus, requests, request)
        links[link].most_queued = max(links[link].most_queued, queues[queue].bytes)
    return link


@kernel_apart
def pick(
    clock: Records, agenda: Agenda, gpus: Records, roce: Records, links: Records, queues: Records,
    requests: Records, details: Records, link: int,
) -> int:  # fmt: skip
    """Pick the message that takes the wire now, or -1; see to it that the next one is asked for."""
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
    if roce[0].on == 1:
        queues[link * CLASSES + number].bytes -= wire_size(gpus, requests, request)
        if roce[0].pfc == 1:
            go_on(clock, agenda, roce, links, queues, details, request, link, number)
    return request


@kernel_apart
def end_way(
    clock: Records, agenda: Agenda, roce: Records, flows: Records, ways: Records, route: Records,
    links: Records, queues: Records, requests: Records, details: Records, request: int, kind: int,
) -> None:  # fmt: skip
    """A message is where it goes to: it leaves its buffers, and a mark on it is read."""
    free_buffer(clock, agenda, links, queues, details, request)
    if roce[0].on == 0:
        return
    if roce[0].pfc == 1:
        go_on(clock, agenda, roce, links, queues, details, request, -1, 0)
    if details[request].marked == 1 and kind != SWITCH:
        arrive(clock, agenda, roce, flows, ways, route, links, requests, details, request)
