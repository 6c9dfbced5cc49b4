"""Entrance of a managed link: arrival of a message, its queue, and arbitration."""

from __future__ import annotations

from astranb.core.jit import kernel
from astranb.net import CLASSES, FAIR, choose, join, leave

from .flow import arrive, hold_back, mark
from .pause import go_on, reach_node
from .tables import POLL, SIGNAL, SWITCH, Machine
from .travel import next_link
from .wire import free_buffer, look_again, wire_size

__all__ = ["class_of", "come", "end_route", "offer", "pick"]


@kernel(inline=False)
def come(m: Machine, request: int) -> int:
    """The HOP event: a message is at the entrance of a link; returns it, or -1 where its rate holds it."""
    if m.roce[0].on == 0:
        return request
    if m.roce[0].pfc == 1:
        size = wire_size(m.gpus, m.requests, request)
        reach_node(m, request, size)
    if m.roce[0].dcqcn == 1:
        link = next_link(m.route_links, m.requests, m.details, request)
        if hold_back(m, request, link):
            return -1
    return request


@kernel
def class_of(m: Machine, request: int) -> int:
    """The class of a message, by which links queue it: request or response, data or control."""
    number = 1 if m.requests[request].returning else 0
    kind = m.requests[request].kind
    if m.clock[0].arbitration == FAIR and (kind == SIGNAL or kind == POLL):
        number += 2
    return number


@kernel(inline=False)
def offer(m: Machine, request: int) -> int:
    """A message joins the queue of its class; returns the link."""
    clock = m.clock[0]
    link = next_link(m.route_links, m.requests, m.details, request)
    number = class_of(m, request)
    m.details[request].offered_ps = clock.now_ps
    queue = link * CLASSES + number
    join(m.queues, m.requests, request, queue)
    if m.roce[0].on == 1:
        m.queues[queue].joined += 1
        if m.roce[0].ecn == 1:
            mark(m, request, link, queue)
        m.queues[queue].bytes += wire_size(m.gpus, m.requests, request)
        m.links[link].most_queued = max(m.links[link].most_queued, m.queues[queue].bytes)
    return link


@kernel(inline=False)
def pick(m: Machine, link: int) -> int:
    """Pick the message that takes the wire now, or -1; see to it that the next one is asked for."""
    clock = m.clock[0]
    now_ps = clock.now_ps
    if m.links[link].free_at_ps > now_ps:
        look_again(m, link)
        return -1
    finite = clock.finite
    number = choose(m.links, m.queues, m.details, link, clock.arbitration, finite)
    if number < 0:
        return -1
    request = leave(m.links, m.queues, m.requests, link, number, finite)
    free_buffer(m, request)
    if finite == 1:
        m.details[request].held = link * CLASSES + number
    if m.roce[0].on == 1:
        m.queues[link * CLASSES + number].bytes -= wire_size(m.gpus, m.requests, request)
        if m.roce[0].pfc == 1:
            go_on(m, request, link, number)
    return request


@kernel(inline=False)
def end_route(m: Machine, request: int, kind: int) -> None:
    """A message has reached the end of its route: free its buffers, and read its mark."""
    free_buffer(m, request)
    if m.roce[0].on == 0:
        return
    if m.roce[0].pfc == 1:
        go_on(m, request, -1, 0)
    if m.details[request].marked == 1 and kind != SWITCH:
        arrive(m, request)
