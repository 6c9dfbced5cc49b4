"""Marks of switches, notifications of receivers, and rates of senders: Ethernet from end to end.

Only messages that carry data are marked and have rates; acknowledgements and requests for
data pass. What is marked makes the receiver notify the sender, at most once an interval for
each flow. A notification (CNP) travels back in a class of its own and does not wait: it takes
the latencies of the route, and the time of its 64 bytes on each link.
"""

from __future__ import annotations

from astranb.core.draw import draw
from astranb.core.jit import kernel
from astranb.core.queue import schedule
from astranb.core.ticks import transfer_ps
from astranb.net import MARKS, catch_up, cut, spend

from .pause import FRAME_BYTES
from .tables import CNP, ON_FABRIC, RATE_RELEASE, Machine
from .wire import carries_data, wire_size

__all__ = ["arrive", "hold_back", "mark", "release_message", "take_cnp"]


@kernel(inline=False)
def mark(m: Machine, request: int, link: int, queue: int) -> None:
    """A message joins a queue of a switch: the longer it is, the likelier a mark."""
    if m.links[link].role & MARKS == 0 or not carries_data(m.requests, request):
        return
    found = m.queues[queue].bytes
    kmin = m.roce[0].kmin
    if found <= kmin:
        return
    if found < m.roce[0].kmax:
        share = m.roce[0].pmax * (found - kmin)
        if draw(link, m.queues[queue].joined) * (m.roce[0].kmax - kmin) >= share:
            return
    m.details[request].marked = 1
    m.links[link].marked += 1


@kernel(inline=False)
def hold_back(m: Machine, request: int, link: int) -> bool:
    """A message comes to where it enters the Ethernet: whether it has to wait for its flow's rate."""
    if m.requests[request].leg != ON_FABRIC:
        return False
    flow = m.routes[m.requests[request].route].flow
    if flow < 0 or m.flows[flow].link != link or not carries_data(m.requests, request):
        return False
    now_ps = m.clock[0].now_ps
    line_Bps = m.links[link].bandwidth_Bps  # noqa: N806 - unit in the name
    catch_up(m.roce, m.flows, flow, line_Bps, now_ps)
    if m.flows[flow].waiting == 0 and m.flows[flow].next_ps <= now_ps:
        spend(m.roce, m.flows, flow, line_Bps, wire_size(m.gpus, m.requests, request), now_ps)
        return False
    m.requests[request].next_free = -1
    if m.flows[flow].waiting == 0:
        m.flows[flow].head = request
        schedule(m.event_queue, m.flows[flow].next_ps, RATE_RELEASE, flow)
    else:
        m.requests[m.flows[flow].tail].next_free = request
    m.flows[flow].tail = request
    m.flows[flow].waiting += 1
    return True


@kernel(inline=False)
def release_message(m: Machine, flow: int) -> int:
    """The RATE_RELEASE event: the first message that waits for its flow's rate enters; returns it."""
    request = int(m.flows[flow].head)
    m.flows[flow].head = m.requests[request].next_free
    m.flows[flow].waiting -= 1
    now_ps = m.clock[0].now_ps
    line_Bps = m.links[m.flows[flow].link].bandwidth_Bps  # noqa: N806
    catch_up(m.roce, m.flows, flow, line_Bps, now_ps)
    spend(m.roce, m.flows, flow, line_Bps, wire_size(m.gpus, m.requests, request), now_ps)
    if m.flows[flow].waiting > 0:
        schedule(m.event_queue, max(now_ps, m.flows[flow].next_ps), RATE_RELEASE, flow)
    return request


@kernel(inline=False)
def arrive(m: Machine, request: int) -> None:
    """A marked message has arrived: the receiver may send a CNP to the sender."""
    m.details[request].marked = 0
    route = m.requests[request].route
    if m.roce[0].dcqcn == 0 or route < 0 or m.routes[route].flow < 0:
        return
    flow = m.routes[route].flow
    now_ps = m.clock[0].now_ps
    if m.flows[flow].cnp_under_way == 1 or now_ps < m.flows[flow].next_cnp_ps:
        return
    m.flows[flow].cnp_under_way = 1
    m.flows[flow].next_cnp_ps = now_ps + m.roce[0].interval_ps
    back_ps = 0
    entered = 0  # 1: on the Ethernet or behind it
    for place in range(m.routes[route].first, m.routes[route].last):
        link = m.route_links[place]
        entered = 1 if link == m.flows[flow].link else entered
        if entered == 1:
            back_ps += m.links[link].latency_ps + m.links[link].forward_ps
            back_ps += transfer_ps(FRAME_BYTES, m.links[link].bandwidth_Bps)
    schedule(m.event_queue, now_ps + back_ps, CNP, flow)


@kernel(inline=False)
def take_cnp(m: Machine, flow: int) -> None:
    """The CNP event: a flow becomes slower, from its next message on."""
    m.flows[flow].cnp_under_way = 0
    cut(m.roce, m.flows, flow, m.links[m.flows[flow].link].bandwidth_Bps, m.clock[0].now_ps)
