"""The way of a request: out of its SM, link by link to the memory it is for, and back."""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.core.queue import schedule

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
    STORE,
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
def pick_way(clock: Records, warps: Records, requests: Records, request: int, ways: int) -> int:
    """Choose among equal ways."""
    if ways == 1:
        return 0
    how = clock[0].multipath
    if how == INTERLEAVED:
        return requests[request].line % ways
    if how == STATIC:
        return (requests[request].gpu + requests[request].target) % ways
    if how == FLOW_HASH:
        return spread(warps[requests[request].warp].block * 64 + requests[request].target + 1, ways)
    clock[0].sprayed += 1
    return clock[0].sprayed % ways


@kernel
def prepare(
    clock: Records, gpus: Records, sms: Records, warps: Records, ops: Records, operands: Records,
    ways: Records, planes: Records, requests: Records, kind: int, sm: int, warp: int, job: int, op: int,
    operand: int, index: int, in_switch: int,
) -> int:  # fmt: skip
    """Make a request: what it is, how large, and which way it takes; returns its number."""
    gpu = sms[sm].gpu
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
    requests[request].live = 1
    requests[request].kind = kind
    requests[request].index = index
    stride = operands[operand].stride
    offset = index if stride == line_bytes else index * stride // line_bytes
    requests[request].line = operands[operand].line + offset
    requests[request].span = 1 if payload <= line_bytes else (payload + line_bytes - 1) // line_bytes
    requests[request].warp = warp
    requests[request].job = job
    requests[request].op = op
    requests[request].operand = operand
    requests[request].gpu = gpu
    requests[request].sm = sm
    requests[request].target = operands[operand].gpu
    requests[request].held = -1
    requests[request].parent = -1
    requests[request].children = 0
    requests[request].way = -1
    carried = wire_bytes(gpus, gpu, payload)
    bare = gpus[gpu].header_bytes
    out = kind == STORE or kind == SIGNAL
    requests[request].out_bytes = carried if out else bare
    requests[request].back_bytes = bare if out else carried
    requests[request].hop = 0
    requests[request].last_hop = 0
    requests[request].back_hop = 0
    requests[request].last_back_hop = 0
    if in_switch == 1:
        requests[request].children = 1  # the switch counts them when it multiplies
        plane = gpus[gpu].first_plane + requests[request].line % gpus[gpu].planes
        requests[request].hop = planes[plane].up
        requests[request].last_hop = planes[plane].up + 1
        requests[request].back_hop = planes[plane].down
        requests[request].last_back_hop = planes[plane].down + 1
    elif operands[operand].out_ways > 0:
        picked = pick_way(clock, warps, requests, request, operands[operand].out_ways)
        back_ways = operands[operand].back_ways
        back = operands[operand].back_way + (picked if picked < back_ways else picked % back_ways)
        requests[request].way = operands[operand].out_way + picked
        requests[request].back_hop = ways[back].first
        requests[request].last_back_hop = ways[back].last
    return request


@kernel
def depart(
    clock: Records, heap: Records, gpus: Records, sms: Records, links: Records, ways: Records,
    route: Records, requests: Records, request: int,
) -> None:  # fmt: skip
    """Leave the SM: for the GPU's own memory, or for the entrance of the first link."""
    gpu = requests[request].gpu
    way = requests[request].way
    if way >= 0:
        requests[request].hop = ways[way].first
        requests[request].last_hop = ways[way].last
    requests[request].returning = 0
    requests[request].seen = 1
    requests[request].link = -1
    requests[request].issued_ps = clock[0].now_ps
    sms[requests[request].sm].outstanding += 1
    now_ps = clock[0].now_ps
    local = requests[request].hop == requests[request].last_hop
    requests[request].arrives_ps = now_ps
    if gpus[gpu].mesh:
        channel = channel_of(gpus, gpu, requests[request].line)
        port = -1 if local else links[route[requests[request].hop]].lane % gpus[gpu].ports
        enter_from_sm(clock, heap, gpus, requests, request, channel, port, now_ps)
        return
    at_port_ps = now_ps + gpus[gpu].noc_ps
    requests[request].arrives_ps = at_port_ps
    if local:
        schedule(clock, heap, at_port_ps, L2, request)
    else:
        enter_link(clock, heap, route, requests, request, at_port_ps)


@kernel
def enter_link(
    clock: Records, heap: Records, route: Records, requests: Records, request: int, time_ps: int
) -> None:
    """Come to the entrance of the next link of the route."""
    requests[request].leg = ON_FABRIC
    requests[request].next_link = route[requests[request].hop]
    schedule(clock, heap, time_ps, HOP, request)


@kernel
def onward(
    clock: Records, heap: Records, gpus: Records, links: Records, route: Records, requests: Records,
    request: int, link: int, head_ps: int, tail_ps: int,
) -> None:  # fmt: skip
    """A request is on a link: queue what happens at its far end.

    Its head arrives at ``head_ps`` and may go on then where nodes cut through; memory and
    SMs take it in when its last bit is there.
    """
    returning = requests[request].returning
    if requests[request].leg == ON_CHIP:
        if link != requests[request].exit_link:
            here = requests[request].gpu if returning else requests[request].target
            if requests[request].hop < requests[request].last_hop:
                here = requests[request].target if returning else requests[request].gpu
            requests[request].next_link = next_in_mesh(gpus, here, requests, request)
            schedule(clock, heap, head_ps, HOP, request)
        elif requests[request].hop < requests[request].last_hop:
            enter_link(clock, heap, route, requests, request, head_ps)
        else:
            schedule(clock, heap, tail_ps, RETURN if returning else L2, request)
        return
    requests[request].hop += 1
    if requests[request].hop < requests[request].last_hop:
        enter_link(clock, heap, route, requests, request, head_ps + links[link].forward_ps)
        return
    if returning:
        at_switch = requests[request].parent >= 0
        here = requests[request].gpu
    else:
        at_switch = requests[request].children > 0
        here = requests[request].target
    if at_switch:
        schedule(clock, heap, tail_ps + links[link].forward_ps, SWITCH, request)
    elif gpus[here].mesh:
        port = links[link].lane % gpus[here].ports
        channel = -1 if returning else channel_of(gpus, here, requests[request].line)
        enter_from_port(clock, heap, gpus, requests, request, here, port, channel, head_ps)
    else:
        schedule(clock, heap, tail_ps + gpus[here].noc_ps, RETURN if returning else L2, request)


@kernel
def respond(
    clock: Records, heap: Records, gpus: Records, links: Records, route: Records, requests: Records,
    request: int, ready_ps: int,
) -> None:  # fmt: skip
    """Send the response or acknowledgement on its way back."""
    gpu = requests[request].target
    requests[request].returning = 1
    requests[request].hop = requests[request].back_hop
    requests[request].last_hop = requests[request].last_back_hop
    local = requests[request].hop == requests[request].last_hop
    requests[request].arrives_ps = ready_ps
    if gpus[gpu].mesh:
        channel = channel_of(gpus, gpu, requests[request].line)
        port = -1 if local else links[route[requests[request].hop]].lane % gpus[gpu].ports
        enter_from_channel(clock, heap, gpus, requests, request, channel, port, ready_ps)
        return
    at_port_ps = ready_ps + gpus[gpu].noc_ps
    if local:
        if gpus[gpu].far_ps > 0:
            # The two halves of the SMs and of the slices are near each other.
            sm_side = 2 * (requests[request].sm - gpus[gpu].first_sm) // gpus[gpu].sms
            if sm_side != 2 * slice_of(gpus, gpu, requests[request].line) // gpus[gpu].slices:
                at_port_ps += 2 * gpus[gpu].far_ps
        schedule(clock, heap, at_port_ps, RETURN, request)
    else:
        requests[request].arrives_ps = at_port_ps
        enter_link(clock, heap, route, requests, request, at_port_ps)
