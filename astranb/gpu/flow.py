"""Marks of switches, notifications of receivers, and rates of senders: Ethernet from end to end.

Only messages that carry data are marked and have rates; acknowledgements and requests for
data pass. What is marked makes the receiver notify the sender, at most once an interval for
each flow. A notification has the way back to itself, as in a class of its own: it takes the
latencies of the way, and its 64 bytes on each link.
"""

from __future__ import annotations

from astranb.core.jit import Records, kernel, kernel_apart
from astranb.core.queue import Agenda, schedule
from astranb.core.ticks import transfer_ps
from astranb.net.link import MARKS
from astranb.net.rate import catch_up, cut, spend

from .pause import FRAME_BYTES
from .tables import NOTICE, ON_FABRIC, PACE
from .wire import carries_data, wire_size

__all__ = ["arrive", "hold_back", "let_in", "mark", "take_notice"]


@kernel
def draw(link: int, number: int) -> int:
    """32 bits that look random: a function of a link and the number of the message (after lowbias32)."""
    bits = (int(link) * 0x9E3779B1 + int(number) * 0x85EBCA6B) & 0xFFFFFFFF
    bits ^= bits >> 16
    bits = (bits * 0x7FEB352D) & 0xFFFFFFFF
    bits ^= bits >> 15
    bits = (bits * 0x846CA68B) & 0xFFFFFFFF
    return bits ^ (bits >> 16)


@kernel_apart
def mark(
    roce: Records, links: Records, queues: Records, requests: Records, details: Records, request: int,
    link: int, queue: int,
) -> None:  # fmt: skip
    """A message joins a queue of a switch: the longer it is, the likelier a mark."""
    if links[link].role & MARKS == 0 or not carries_data(requests, request):
        return
    found = queues[queue].bytes
    kmin = roce[0].kmin
    if found <= kmin:
        return
    if found < roce[0].kmax:
        share = roce[0].pmax * (found - kmin)
        if draw(link, queues[queue].joined) * (roce[0].kmax - kmin) >= share:
            return
    details[request].marked = 1
    links[link].marked += 1


@kernel_apart
def hold_back(
    clock: Records, agenda: Agenda, gpus: Records, roce: Records, flows: Records, ways: Records,
    links: Records, requests: Records, request: int, link: int,
) -> bool:  # fmt: skip
    """A message comes to where it enters the Ethernet: whether it has to wait for its flow's rate."""
    if requests[request].leg != ON_FABRIC:
        return False
    flow = ways[requests[request].way].flow
    if flow < 0 or flows[flow].link != link or not carries_data(requests, request):
        return False
    now_ps = clock[0].now_ps
    line_Bps = links[link].bandwidth_Bps  # noqa: N806 - unit in the name
    catch_up(roce, flows, flow, line_Bps, now_ps)
    if flows[flow].waiting == 0 and flows[flow].next_ps <= now_ps:
        spend(roce, flows, flow, line_Bps, wire_size(gpus, requests, request), now_ps)
        return False
    requests[request].next_free = -1
    if flows[flow].waiting == 0:
        flows[flow].head = request
        schedule(clock, agenda, flows[flow].next_ps, PACE, flow)
    else:
        requests[flows[flow].tail].next_free = request
    flows[flow].tail = request
    flows[flow].waiting += 1
    return True


@kernel_apart
def let_in(
    clock: Records, agenda: Agenda, gpus: Records, roce: Records, flows: Records, links: Records,
    requests: Records, flow: int,
) -> int:  # fmt: skip
    """The PACE event: the first message that waits for its flow's rate enters; returns it."""
    request = int(flows[flow].head)
    flows[flow].head = requests[request].next_free
    flows[flow].waiting -= 1
    now_ps = clock[0].now_ps
    line_Bps = links[flows[flow].link].bandwidth_Bps  # noqa: N806
    catch_up(roce, flows, flow, line_Bps, now_ps)
    spend(roce, flows, flow, line_Bps, wire_size(gpus, requests, request), now_ps)
    if flows[flow].waiting > 0:
        schedule(clock, agenda, max(now_ps, flows[flow].next_ps), PACE, flow)
    return request


@kernel_apart
def arrive(
    clock: Records, agenda: Agenda, roce: Records, flows: Records, ways: Records, route: Records,
    links: Records, requests: Records, details: Records, request: int,
) -> None:  # fmt: skip
    """A marked message is where it goes to: the receiver may notify the sender."""
    details[request].marked = 0
    way = requests[request].way
    if roce[0].dcqcn == 0 or way < 0 or ways[way].flow < 0:
        return
    flow = ways[way].flow
    now_ps = clock[0].now_ps
    if flows[flow].noticed == 1 or now_ps < flows[flow].next_notice_ps:
        return
    flows[flow].noticed = 1
    flows[flow].next_notice_ps = now_ps + roce[0].interval_ps
    back_ps = 0
    entered = 0  # 1: on the Ethernet or behind it
    for place in range(ways[way].first, ways[way].last):
        link = route[place]
        entered = 1 if link == flows[flow].link else entered
        if entered == 1:
            back_ps += links[link].latency_ps + links[link].forward_ps
            back_ps += transfer_ps(FRAME_BYTES, links[link].bandwidth_Bps)
    schedule(clock, agenda, now_ps + back_ps, NOTICE, flow)


@kernel_apart
def take_notice(clock: Records, roce: Records, flows: Records, links: Records, flow: int) -> None:
    """The NOTICE event: a flow becomes slower, from its next message on."""
    flows[flow].noticed = 0
    cut(roce, flows, flow, links[flows[flow].link].bandwidth_Bps, clock[0].now_ps)
