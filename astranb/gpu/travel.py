"""The way of a request: out of its SM, link by link to the memory it is for, and back."""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.core.queue import Agenda, schedule

from .mesh import enter_from_channel, enter_from_port, enter_from_sm, next_in_mesh
from .tables import (
    FLOW_HASH,
    HOP,
    INTERLEAVED,
    L2,
    ON_CHIP,
    ON_FABRIC,
    POLL,
    RETURN,
    SIGNAL,
    STATIC,
    SWITCH,
)

__all__ = [
    "channel_of",
    "depart",
    "onward",
    "pick_way",
    "respond",
    "slice_of",
    "spread",
    "wire_bytes",
]


@kernel
def spread(line: int, ways: int) -> int:
    """Spread line addresses over slices so that no stride hits only some.

    Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4); real GPUs hash
    addresses likewise, by functions that are not published.
    """
    return int(((np.int64(line) * 2654435769) & 0xFFFFFFFF) * ways >> 32)


@kernel
def slice_of(gpus: Records, gpu: int, line: int) -> int:
    """The L2 slice of a line, within its GPU."""
    return spread(line, gpus[gpu].slices)


@kernel
def channel_of(gpus: Records, gpu: int, line: int) -> int:
    """The memory channel of a line, within its GPU: the one behind its slice."""
    return slice_of(gpus, gpu, line) * gpus[gpu].channels // gpus[gpu].slices


@kernel
def wire_bytes(gpus: Records, gpu: int, payload: int) -> int:
    """Bytes on a wire: payload, and a header for each ``max_payload`` of it, at least one."""
    most = gpus[gpu].max_payload
    if payload <= most:  # divisions are slow, and this is the rule
        return payload + gpus[gpu].header_bytes
    return payload + (payload + most - 1) // most * gpus[gpu].header_bytes


@kernel
def pick_way(
    clock: Records, warps: Records, requests: Records, details: Records, request: int, ways: int
) -> int:
    """Choose among equal ways."""
    if ways == 1:
        return 0
    how = clock[0].multipath
    if how == INTERLEAVED:
        if clock[0].detailed:
            return requests[request].line // details[request].span % ways
        return requests[request].line % ways
    if how == STATIC:
        return (requests[request].gpu + requests[request].target) % ways
    if how == FLOW_HASH:
        return spread(warps[requests[request].warp].block * 64 + requests[request].target + 1, ways)
    clock[0].sprayed += 1
    return clock[0].sprayed % ways


@kernel
def prepare(
    clock: Records, gpus: Records, ops: Records, operands: Records, requests: Records, details: Records,
    kind: int, gpu: int, warp: int, job: int, op: int, operand: int, index: int, in_switch: int,
) -> int:  # fmt: skip
    """Make a request: what it is, and how large; returns its number."""
    request = clock[0].free_request
    clock[0].free_request = requests[request].next_free
    line_bytes = gpus[gpu].line_bytes
    if kind == SIGNAL or kind == POLL:
        payload = gpus[gpu].signal_bytes
    elif operands[operand].flag >= 0:
        payload = line_bytes
    elif index == ops[op].lines - 1:
        payload = ops[op].last_bytes
    else:
        payload = ops[op].payload
    stride = operands[operand].stride
    offset = index if stride == line_bytes else index * stride // line_bytes
    requests[request].line = operands[operand].line + offset
    requests[request].warp = warp
    requests[request].job = job
    requests[request].op = op
    requests[request].operand = operand
    requests[request].bytes = wire_bytes(gpus, gpu, payload)
    requests[request].gpu = gpu
    requests[request].target = operands[operand].gpu
    requests[request].kind = kind
    requests[request].live = 1
    if clock[0].detailed:
        details[request].index = index
        details[request].span = 1 if payload <= line_bytes else (payload + line_bytes - 1) // line_bytes
        details[request].held = -1
        details[request].came = -1
        details[request].stored = -1
        details[request].marked = 0
        details[request].parent = -1
        details[request].children = in_switch  # the switch counts them when it multiplies
    return request


@kernel
def depart(
    clock: Records, agenda: Agenda, gpus: Records, sms: Records, warps: Records, operands: Records,
    links: Records, ways: Records, route: Records, planes: Records, requests: Records, details: Records,
    request: int, sm: int,
) -> None:  # fmt: skip
    """Leave the SM: for the GPU's own memory, or for the entrance of the first link."""
    gpu = requests[request].gpu
    operand = requests[request].operand
    now_ps = clock[0].now_ps
    requests[request].returning = 0
    requests[request].link = -1
    requests[request].issued_ps = now_ps
    sms[sm].outstanding += 1
    way = -1
    if clock[0].detailed and details[request].children > 0:
        way = planes[plane_of(gpus, gpu, requests, details, request)].up
    elif operands[operand].out_ways > 0:
        picked = pick_way(clock, warps, requests, details, request, operands[operand].out_ways)
        way = operands[operand].out_way + picked
    requests[request].way = way
    if way >= 0:
        requests[request].hop = ways[way].first
    if gpus[gpu].mesh:
        requests[request].arrives_ps = now_ps
        channel = channel_of(gpus, gpu, requests[request].line)
        port = -1 if way < 0 else links[route[ways[way].first]].lane % gpus[gpu].ports
        unit = sm - gpus[gpu].first_sm
        enter_from_sm(clock, agenda, gpus, requests, details, request, unit, channel, port, now_ps)
        return
    at_port_ps = now_ps + gpus[gpu].noc_ps
    requests[request].arrives_ps = at_port_ps
    if way < 0:
        schedule(clock, agenda, at_port_ps, L2, request)
    else:
        enter_link(clock, agenda, requests, request, at_port_ps)


@kernel
def plane_of(gpus: Records, gpu: int, requests: Records, details: Records, parent: int) -> int:
    """The plane of a GPU for a request that a switch multiplies."""
    return int(gpus[gpu].first_plane + requests[parent].line // details[parent].span % gpus[gpu].planes)


@kernel
def way_back(
    clock: Records, gpus: Records, operands: Records, planes: Records, requests: Records,
    details: Records, request: int,
) -> int:  # fmt: skip
    """The way of a response, -1 for none: the one beside the way that its request took."""
    way = requests[request].way
    if way < 0:
        return -1
    if clock[0].detailed and details[request].parent >= 0:
        parent = details[request].parent
        return int(planes[plane_of(gpus, requests[request].target, requests, details, parent)].up)
    operand = requests[request].operand
    picked = way - operands[operand].out_way
    most = operands[operand].back_ways
    return int(operands[operand].back_way + (picked if picked < most else picked % most))


@kernel
def enter_link(clock: Records, agenda: Agenda, requests: Records, request: int, time_ps: int) -> None:
    """Come to the entrance of the next link of the route."""
    requests[request].leg = ON_FABRIC
    schedule(clock, agenda, time_ps, HOP, request)


@kernel
def next_link(route: Records, requests: Records, details: Records, request: int) -> int:
    """The link that a request is about to enter."""
    if requests[request].leg == ON_CHIP:
        return details[request].next_link
    return route[requests[request].hop]


@kernel
def onward(
    clock: Records, agenda: Agenda, gpus: Records, blocks: Records, warps: Records, links: Records,
    ways: Records, requests: Records, details: Records, request: int, link: int,
    head_ps: int, tail_ps: int,
) -> None:  # fmt: skip
    """A request is on a link: queue what happens at its far end.

    Its head arrives at ``head_ps`` and may go on then where nodes cut through; memory and
    SMs take it in when its last bit is there.
    """
    returning = requests[request].returning > 0
    way = requests[request].way
    if requests[request].leg == ON_CHIP:
        if link != details[request].exit_link:
            # On the mesh it comes from before it has crossed a link of its way.
            leaving = way >= 0 and requests[request].hop < ways[way].last
            here = requests[request].target if returning == leaving else requests[request].gpu
            details[request].next_link = next_in_mesh(gpus, here, details, request)
            schedule(clock, agenda, head_ps, HOP, request)
        elif way >= 0 and requests[request].hop < ways[way].last:
            enter_link(clock, agenda, requests, request, head_ps)
        else:
            schedule(clock, agenda, tail_ps, RETURN if returning else L2, request)
        return
    requests[request].hop += 1
    if requests[request].hop < ways[way].last:
        enter_link(clock, agenda, requests, request, head_ps + links[link].forward_ps)
        return
    here = requests[request].gpu if returning else requests[request].target
    if clock[0].detailed:
        asked = details[request].parent >= 0 if returning else details[request].children > 0
        if asked:
            schedule(clock, agenda, tail_ps + links[link].forward_ps, SWITCH, request)
            return
    if gpus[here].mesh:
        port = links[link].lane % gpus[here].ports
        if returning:
            unit = blocks[warps[requests[request].warp].block].sm - gpus[here].first_sm
            channel = -1
        else:
            unit = -1
            channel = channel_of(gpus, here, requests[request].line)
        enter_from_port(clock, agenda, gpus, requests, details, request, here, port, unit, channel, head_ps)
    else:
        schedule(clock, agenda, tail_ps + gpus[here].noc_ps, RETURN if returning else L2, request)


@kernel
def respond(
    clock: Records, agenda: Agenda, gpus: Records, blocks: Records, warps: Records, operands: Records,
    links: Records, ways: Records, route: Records, planes: Records, requests: Records, details: Records,
    request: int, answer: int, ready_ps: int,
) -> None:  # fmt: skip
    """Send the response or acknowledgement on its way back; ``answer`` is 1, or IN_VAIN."""
    gpu = requests[request].target
    way = way_back(clock, gpus, operands, planes, requests, details, request)
    requests[request].returning = answer
    requests[request].way = way
    if way >= 0:
        requests[request].hop = ways[way].first
    requests[request].arrives_ps = ready_ps
    if gpus[gpu].mesh:
        channel = channel_of(gpus, gpu, requests[request].line)
        port = -1 if way < 0 else links[route[ways[way].first]].lane % gpus[gpu].ports
        unit = blocks[warps[requests[request].warp].block].sm - gpus[gpu].first_sm
        enter_from_channel(clock, agenda, gpus, requests, details, request, unit, channel, port, ready_ps)
        return
    at_port_ps = ready_ps + gpus[gpu].noc_ps
    if way < 0:
        if gpus[gpu].far_ps > 0:
            # The two halves of the SMs and of the slices are near each other.
            sm = blocks[warps[requests[request].warp].block].sm
            sm_side = 2 * (sm - gpus[gpu].first_sm) // gpus[gpu].sms
            if sm_side != 2 * slice_of(gpus, gpu, requests[request].line) // gpus[gpu].slices:
                at_port_ps += 2 * gpus[gpu].far_ps
        schedule(clock, agenda, at_port_ps, RETURN, request)
    else:
        requests[request].arrives_ps = at_port_ps
        enter_link(clock, agenda, requests, request, at_port_ps)
