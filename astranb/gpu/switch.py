"""In-switch reduction and multicast: one request in, one for each GPU out, and back.

As NVLink SHARP does (``multimem.ld_reduce``, ``multimem.st``; NVIDIA PTX ISA 8.1): the
request of an SM goes to the switch of its plane, which asks (or tells) every GPU of the
operation, and answers once, when all have answered.
"""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.core.queue import schedule

from .sm import release
from .tables import HOP, LOAD, ON_FABRIC

__all__ = ["at_switch"]


@kernel
def at_switch(
    clock: Records, heap: Records, gpus: Records, operands: Records, ops: Records, planes: Records,
    route: Records, requests: Records, request: int,
) -> None:  # fmt: skip
    """The SWITCH event: multiply a request, or count an answer to one."""
    if requests[request].parent < 0:
        multiply(clock, heap, gpus, operands, ops, planes, route, requests, request)
        return
    parent = requests[request].parent
    if requests[request].seen == 0:
        requests[parent].seen = 0
    release(clock, requests, request)
    requests[parent].children -= 1
    if requests[parent].children > 0:
        return
    requests[parent].returning = 1
    requests[parent].hop = requests[parent].back_hop
    requests[parent].last_hop = requests[parent].last_back_hop
    leave_switch(clock, heap, route, requests, parent)


@kernel
def multiply(
    clock: Records, heap: Records, gpus: Records, operands: Records, ops: Records, planes: Records,
    route: Records, requests: Records, parent: int,
) -> None:  # fmt: skip
    """Send a copy of a request to the GPU of every operand."""
    op = requests[parent].op
    if requests[parent].kind == LOAD:
        first, count = ops[op].first_source, ops[op].sources
    else:
        first, count = ops[op].first_target, ops[op].targets
    requests[parent].children = count
    line_bytes = gpus[requests[parent].gpu].line_bytes
    lane = requests[parent].line
    for operand in range(first, first + count):
        child = clock[0].free_request
        clock[0].free_request = requests[child].next_free
        gpu = operands[operand].gpu
        requests[child] = requests[parent]
        requests[child].operand = operand
        requests[child].target = gpu
        offset = np.int64(requests[parent].index) * operands[operand].stride // line_bytes
        requests[child].line = operands[operand].line + offset
        requests[child].parent = parent
        requests[child].children = 0
        requests[child].seen = 1
        requests[child].held = -1
        # The same plane for all: the switches of different planes do not talk to each other.
        plane = gpus[gpu].first_plane + lane % gpus[gpu].planes
        requests[child].hop = planes[plane].down
        requests[child].last_hop = planes[plane].down + 1
        requests[child].back_hop = planes[plane].up
        requests[child].last_back_hop = planes[plane].up + 1
        leave_switch(clock, heap, route, requests, child)


@kernel
def leave_switch(clock: Records, heap: Records, route: Records, requests: Records, request: int) -> None:
    """Come to the entrance of the link out of the switch."""
    requests[request].leg = ON_FABRIC
    requests[request].arrives_ps = clock[0].now_ps
    requests[request].next_link = route[requests[request].hop]
    schedule(clock, heap, clock[0].now_ps, HOP, request)
