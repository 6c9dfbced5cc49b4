"""In-switch reduction and multicast: one request in, one for each GPU out, and back.

As NVLink SHARP does (``multimem.ld_reduce``, ``multimem.st``; NVIDIA PTX ISA 8.1): the
request of an SM goes to the switch of its plane, which asks (or tells) every GPU of the
operation, and answers once, when all have answered.
"""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records, kernel, kernel_apart
from astranb.core.queue import Agenda

from .sm import release
from .tables import LOAD
from .travel import enter_link, plane_of

__all__ = ["at_switch"]


@kernel_apart
def at_switch(
    clock: Records, agenda: Agenda, gpus: Records, operands: Records, ops: Records, ways: Records,
    planes: Records, requests: Records, details: Records, request: int,
) -> None:  # fmt: skip
    """The SWITCH event: multiply a request, or count an answer to one."""
    parent = details[request].parent
    if parent < 0:
        multiply(clock, agenda, gpus, operands, ops, ways, planes, requests, details, request)
        return
    requests[parent].returning = max(requests[parent].returning, requests[request].returning)
    release(clock, requests, request)
    details[parent].children -= 1
    if details[parent].children > 0:
        return
    plane = plane_of(gpus, requests[parent].gpu, requests, details, parent)
    leave_switch(clock, agenda, ways, requests, parent, planes[plane].down)


@kernel
def multiply(
    clock: Records, agenda: Agenda, gpus: Records, operands: Records, ops: Records, ways: Records,
    planes: Records, requests: Records, details: Records, parent: int,
) -> None:  # fmt: skip
    """Send a copy of a request to the GPU of every operand."""
    op = requests[parent].op
    if requests[parent].kind == LOAD:
        first, count = ops[op].first_source, ops[op].sources
    else:
        first, count = ops[op].first_target, ops[op].targets
    details[parent].children = count
    line_bytes = gpus[requests[parent].gpu].line_bytes
    for operand in range(first, first + count):
        child = clock[0].free_request
        clock[0].free_request = requests[child].next_free
        gpu = operands[operand].gpu
        requests[child] = requests[parent]
        details[child] = details[parent]
        offset = np.int64(details[parent].index) * operands[operand].stride // line_bytes
        requests[child].operand = operand
        requests[child].target = gpu
        requests[child].line = operands[operand].line + offset
        details[child].parent = parent
        details[child].children = 0
        details[child].held = -1
        # The same plane for all: the switches of different planes do not talk to each other.
        plane = plane_of(gpus, gpu, requests, details, parent)
        leave_switch(clock, agenda, ways, requests, child, planes[plane].down)


@kernel
def leave_switch(
    clock: Records, agenda: Agenda, ways: Records, requests: Records, request: int, way: int
) -> None:
    """Come to the entrance of the link out of the switch."""
    requests[request].arrives_ps = clock[0].now_ps
    requests[request].way = way
    requests[request].hop = ways[way].first
    enter_link(clock, agenda, requests, request, clock[0].now_ps)
