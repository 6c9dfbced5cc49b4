"""The route of a request: out of its SM, link by link to the memory it is for, and back."""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.core.queue import schedule

from . import tables as t
from .mesh import CHANNEL, PORT, UNIT, cross_mesh, next_in_mesh
from .tables import Machine

__all__ = ["channel_of", "depart", "onward", "pick_route", "respond", "slice_of", "spread", "wire_bytes"]


@kernel
def spread(line: int, count: int) -> int:
    """Spread line addresses over slices so that no stride hits only some.

    Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4); real GPUs hash
    addresses likewise, by functions that are not published.
    """
    return int(((np.int64(line) * 2654435769) & 0xFFFFFFFF) * count >> 32)


@kernel
def slice_of(gpus: Records, gpu: int, line: int) -> int:
    """The t.L2 slice of a line, within its GPU."""
    return spread(line, gpus[gpu].l2_slices)


@kernel
def channel_of(gpus: Records, gpu: int, line: int) -> int:
    """The memory channel of a line, within its GPU: the one behind its slice."""
    return slice_of(gpus, gpu, line) * gpus[gpu].hbm_channels // gpus[gpu].l2_slices


@kernel
def wire_bytes(gpus: Records, gpu: int, payload: int) -> int:
    """Bytes on a wire: payload, and a header for each ``max_payload`` of it, at least one."""
    most = gpus[gpu].max_payload
    if payload <= most:  # divisions are slow, and this is the rule
        return payload + gpus[gpu].header_bytes
    return payload + (payload + most - 1) // most * gpus[gpu].header_bytes


@kernel
def pick_route(m: Machine, request: int, routes: int) -> int:
    """Choose among equal routes."""
    clock = m.clock[0]
    if routes == 1:
        return 0
    how = clock.multipath
    if how == t.INTERLEAVED:
        if clock.detailed:
            return m.requests[request].line // m.details[request].span % routes
        return m.requests[request].line % routes
    if how == t.STATIC:
        return (m.requests[request].gpu + m.requests[request].target) % routes
    if how == t.FLOW_HASH:
        return spread(m.warps[m.requests[request].warp].block * 64 + m.requests[request].target + 1, routes)
    clock.sprayed += 1
    return clock.sprayed % routes


@kernel
def prepare(
    m: Machine, kind: int, gpu: int, warp: int, job: int, op: int, operand: int, index: int, in_switch: int
) -> int:
    """Make a request: what it is, and how large; returns its number."""
    clock = m.clock[0]
    request = clock.free_request
    clock.free_request = m.requests[request].next_free
    line_bytes = m.gpus[gpu].line_bytes
    if kind == t.SIGNAL or kind == t.POLL:
        payload = m.gpus[gpu].signal_bytes
    elif m.operands[operand].flag >= 0:
        payload = line_bytes
    elif index == m.ops[op].lines - 1:
        payload = m.ops[op].last_bytes
    else:
        payload = m.ops[op].payload
    stride = m.operands[operand].stride
    offset = index if stride == line_bytes else index * stride // line_bytes
    m.requests[request].line = m.operands[operand].line + offset
    m.requests[request].warp = warp
    m.requests[request].job = job
    m.requests[request].op = op
    m.requests[request].operand = operand
    m.requests[request].bytes = wire_bytes(m.gpus, gpu, payload)
    if payload > line_bytes and m.blocks[m.warps[warp].block].engine == t.NIC:
        m.requests[request].bytes = payload + m.gpus[gpu].nic_header_bytes
    m.requests[request].gpu = gpu
    m.requests[request].target = m.operands[operand].gpu
    m.requests[request].kind = kind
    m.requests[request].live = 1
    if clock.detailed:
        m.details[request].index = index
        m.details[request].span = 1 if payload <= line_bytes else (payload + line_bytes - 1) // line_bytes
        m.details[request].held = -1
        m.details[request].came = -1
        m.details[request].stored = -1
        m.details[request].marked = 0
        m.details[request].found = 0
        m.details[request].parent = -1
        m.details[request].children = in_switch  # the switch counts them when it multiplies
    return request


@kernel
def depart(m: Machine, request: int, sm: int, delay_ps: int) -> None:
    """Leave the SM after a delay: for the GPU's own memory, or for the entrance of the first link."""
    clock = m.clock[0]
    gpu = m.requests[request].gpu
    operand = m.requests[request].operand
    now_ps = clock.now_ps + delay_ps
    m.requests[request].returning = 0
    m.requests[request].link = -1
    m.requests[request].issued_ps = clock.now_ps
    m.sms[sm].outstanding += 1
    route = -1
    if clock.detailed and m.details[request].children > 0:
        route = m.planes[plane_of(m.gpus, gpu, m.requests, m.details, request)].up
    elif m.operands[operand].out_routes > 0:
        picked = pick_route(m, request, m.operands[operand].out_routes)
        route = m.operands[operand].out_route + picked
    m.requests[request].route = route
    if route >= 0:
        m.requests[request].hop = m.routes[route].first
    if m.gpus[gpu].mesh:
        m.requests[request].arrives_ps = now_ps
        leave_chip(m, request, gpu, UNIT, sm - m.gpus[gpu].first_sm, now_ps)
        return
    at_port_ps = now_ps + m.gpus[gpu].noc_ps
    m.requests[request].arrives_ps = at_port_ps
    if route < 0:
        schedule(m.event_queue, at_port_ps, t.L2, request)
    else:
        enter_link(m, request, at_port_ps)


@kernel
def plane_of(gpus: Records, gpu: int, requests: Records, details: Records, parent: int) -> int:
    """The plane of a GPU for a request that a switch multiplies."""
    return int(gpus[gpu].first_plane + requests[parent].line // details[parent].span % gpus[gpu].planes)


@kernel
def return_route(m: Machine, request: int) -> int:
    """Return the route of a response, -1 for none: the one beside its request's route."""
    route = m.requests[request].route
    if route < 0:
        return -1
    if m.clock[0].detailed and m.details[request].parent >= 0:
        parent = m.details[request].parent
        return int(m.planes[plane_of(m.gpus, m.requests[request].target, m.requests, m.details, parent)].up)
    operand = m.requests[request].operand
    picked = route - m.operands[operand].out_route
    most = m.operands[operand].back_routes
    return int(m.operands[operand].back_route + (picked if picked < most else picked % most))


@kernel
def unit_of(m: Machine, request: int, gpu: int) -> int:
    """Number of the SM or copy engine that waits for a request, within its GPU."""
    return int(m.blocks[m.warps[m.requests[request].warp].block].sm - m.gpus[gpu].first_sm)


@kernel
def leave_chip(m: Machine, request: int, gpu: int, kind: int, number: int, time_ps: int) -> None:
    """Cross the mesh from an SM or channel: to the port of the route, or to the other end on this GPU."""
    route = m.requests[request].route
    if route >= 0:
        port = m.links[m.route_links[m.routes[route].first]].lane % m.gpus[gpu].ports
        cross_mesh(m, request, gpu, kind, number, PORT, port, time_ps)
    elif kind == UNIT:
        channel = channel_of(m.gpus, gpu, m.requests[request].line)
        cross_mesh(m, request, gpu, kind, number, CHANNEL, channel, time_ps)
    else:
        cross_mesh(m, request, gpu, kind, number, UNIT, unit_of(m, request, gpu), time_ps)


@kernel
def enter_link(m: Machine, request: int, time_ps: int) -> None:
    """Come to the entrance of the next link of the route."""
    m.requests[request].leg = t.ON_FABRIC
    schedule(m.event_queue, time_ps, t.HOP, request)


@kernel
def next_link(route_links: Records, requests: Records, details: Records, request: int) -> int:
    """The link that a request is about to enter."""
    if requests[request].leg == t.ON_CHIP:
        return details[request].next_link
    return route_links[requests[request].hop]


@kernel
def onward(m: Machine, request: int, link: int, head_ps: int, tail_ps: int) -> None:
    """A request is on a link: queue what happens at its far end.

    Its head arrives at ``head_ps`` and may go on then where nodes cut through; memory and
    SMs take it in when its last bit is there.
    """
    returning = m.requests[request].returning > 0
    route = m.requests[request].route
    if m.requests[request].leg == t.ON_CHIP:
        if link != m.details[request].exit_link:
            # On the mesh it comes from before it has crossed a link of its route.
            leaving = route >= 0 and m.requests[request].hop < m.routes[route].last
            here = m.requests[request].target if returning == leaving else m.requests[request].gpu
            m.details[request].next_link = next_in_mesh(m.gpus, here, m.details, request)
            schedule(m.event_queue, head_ps, t.HOP, request)
        elif route >= 0 and m.requests[request].hop < m.routes[route].last:
            enter_link(m, request, head_ps)
        else:
            schedule(m.event_queue, tail_ps, t.RETURN if returning else t.L2, request)
        return
    m.requests[request].hop += 1
    if m.requests[request].hop < m.routes[route].last:
        posted_ps = 0 if returning else m.links[link].post_ps
        enter_link(m, request, head_ps + m.links[link].forward_ps + posted_ps)
        return
    here = m.requests[request].gpu if returning else m.requests[request].target
    if m.clock[0].detailed:
        asked = m.details[request].parent >= 0 if returning else m.details[request].children > 0
        if asked:
            schedule(m.event_queue, tail_ps + m.links[link].forward_ps, t.SWITCH, request)
            return
    if m.gpus[here].mesh:
        port = m.links[link].lane % m.gpus[here].ports
        if returning:
            cross_mesh(m, request, here, PORT, port, UNIT, unit_of(m, request, here), head_ps)
        else:
            channel = channel_of(m.gpus, here, m.requests[request].line)
            cross_mesh(m, request, here, PORT, port, CHANNEL, channel, head_ps)
    else:
        schedule(m.event_queue, tail_ps + m.gpus[here].noc_ps, t.RETURN if returning else t.L2, request)


@kernel
def farther_ps(m: Machine, request: int) -> int:
    """Return how much longer the answer to a request takes whose slice may be in the other half of the L2.

    The two halves of the SMs and of the slices are near each other. What another GPU may write is read in
    its own half: a packet by its slice; a semaphore is in either half, so that it takes the mean.
    """
    gpu, kind = m.requests[request].target, m.requests[request].kind
    longer_ps = 2 * m.gpus[gpu].far_ps
    packet = kind == t.LOAD and m.operands[m.requests[request].operand].flag >= 0
    if kind == t.POLL or packet:
        longer_ps = max(longer_ps, m.gpus[gpu].poll_ps)
    if kind == t.POLL or longer_ps == 0:
        return longer_ps // 2
    sm_side = 2 * unit_of(m, request, gpu) // m.gpus[gpu].sms
    slice_side = 2 * slice_of(m.gpus, gpu, m.requests[request].line) // m.gpus[gpu].l2_slices
    return longer_ps if sm_side != slice_side else 0


@kernel
def respond(m: Machine, request: int, answer: int, ready_ps: int) -> None:
    """Send the response or acknowledgement back; ``answer`` is 1, or IN_VAIN."""
    gpu = m.requests[request].target
    route = return_route(m, request)
    m.requests[request].returning = answer
    m.requests[request].route = route
    if route >= 0:
        m.requests[request].hop = m.routes[route].first
    m.requests[request].arrives_ps = ready_ps
    if m.gpus[gpu].mesh:
        channel = channel_of(m.gpus, gpu, m.requests[request].line)
        leave_chip(m, request, gpu, CHANNEL, channel, ready_ps)
        return
    at_port_ps = ready_ps + m.gpus[gpu].noc_ps
    if route < 0:
        at_port_ps += farther_ps(m, request)
        schedule(m.event_queue, at_port_ps, t.RETURN, request)
    else:
        m.requests[request].arrives_ps = at_port_ps
        enter_link(m, request, at_port_ps)
