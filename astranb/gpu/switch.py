"""In-switch reduction and multicast: one request in, one for each GPU out, and back.

As NVLink SHARP does (``multimem.ld_reduce``, ``multimem.st``; NVIDIA PTX ISA 8.1): the
request of an SM goes to the switch of its plane, which sends it to every GPU of the
operation, and answers once, when all have answered.
"""

from __future__ import annotations

import numpy as np

from astranb.core.jit import kernel

from .sm import release
from .tables import LOAD, Machine
from .travel import enter_link, plane_of

__all__ = ["at_switch"]


@kernel(inline=False)
def at_switch(m: Machine, request: int) -> None:
    """The SWITCH event: multiply a request, or count an answer to one."""
    parent = m.details[request].parent
    if parent < 0:
        multiply(m, request)
        return
    m.requests[parent].returning = max(m.requests[parent].returning, m.requests[request].returning)
    release(m, request)
    m.details[parent].children -= 1
    if m.details[parent].children > 0:
        return
    plane = plane_of(m.gpus, m.requests[parent].gpu, m.requests, m.details, parent)
    leave_switch(m, parent, m.planes[plane].down)


@kernel
def multiply(m: Machine, parent: int) -> None:
    """Send a copy of a request to the GPU of every operand."""
    clock = m.clock[0]
    op = m.requests[parent].op
    if m.requests[parent].kind == LOAD:
        first, count = m.ops[op].first_source, m.ops[op].sources
    else:
        first, count = m.ops[op].first_target, m.ops[op].targets
    m.details[parent].children = count
    line_bytes = m.gpus[m.requests[parent].gpu].line_bytes
    for operand in range(first, first + count):
        child = clock.free_request
        clock.free_request = m.requests[child].next_free
        gpu = m.operands[operand].gpu
        m.requests[child] = m.requests[parent]
        m.details[child] = m.details[parent]
        offset = np.int64(m.details[parent].index) * m.operands[operand].stride // line_bytes
        m.requests[child].operand = operand
        m.requests[child].target = gpu
        m.requests[child].line = m.operands[operand].line + offset
        m.details[child].parent = parent
        m.details[child].children = 0
        m.details[child].held = -1
        # The same plane for all: the switches of different planes do not talk to each other.
        plane = plane_of(m.gpus, gpu, m.requests, m.details, parent)
        leave_switch(m, child, m.planes[plane].down)


@kernel
def leave_switch(m: Machine, request: int, route: int) -> None:
    """Come to the entrance of the link out of the switch."""
    clock = m.clock[0]
    m.requests[request].arrives_ps = clock.now_ps
    m.requests[request].route = route
    m.requests[request].hop = m.routes[route].first
    enter_link(m, request, clock.now_ps)
