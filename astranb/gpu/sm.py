"""Streaming multiprocessors: ready warps, issue slots, and what they put under way."""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import push

from .tables import HOP, ISSUE, L2, POLL, SIGNAL, STORE

__all__ = ["make_ready", "release", "schedule", "send", "wake"]


@kernel
def schedule(clock: Records, heap: Records, time_ps: int, kind: int, arg: int) -> None:
    """Queue an event."""
    clock[0].queued = push(heap, clock[0].queued, time_ps, clock[0].seq, kind, arg)
    clock[0].seq += 1


@kernel
def wake(clock: Records, heap: Records, sms: Records, sm: int) -> None:
    """See to it that an SM with a ready warp has its next issue slot queued."""
    if sms[sm].scheduled == 0 and sms[sm].stalled == 0 and sms[sm].ready_head >= 0:
        sms[sm].scheduled = 1
        schedule(clock, heap, max(clock[0].now_ps, sms[sm].next_issue_ps), ISSUE, sm)


@kernel
def make_ready(clock: Records, heap: Records, sms: Records, warps: Records, warp: int, sm: int) -> None:
    """Put a warp at the end of its SM's FIFO of ready warps (loose round robin)."""
    if warps[warp].queued:
        return
    warps[warp].queued = 1
    warps[warp].next_ready = -1
    if sms[sm].ready_head < 0:
        sms[sm].ready_head = warp
    else:
        warps[sms[sm].ready_tail].next_ready = warp
    sms[sm].ready_tail = warp
    wake(clock, heap, sms, sm)


@kernel
def send(
    clock: Records,
    heap: Records,
    gpus: Records,
    sms: Records,
    ops: Records,
    operands: Records,
    ways: Records,
    requests: Records,
    kind: int,
    sm: int,
    warp: int,
    job: int,
    op: int,
    operand: int,
    line: int,
) -> None:
    """Put one line request under way: to the GPU's own L2, or to the entrance of its first link."""
    gpu = sms[sm].gpu
    request = clock[0].free_request
    clock[0].free_request = requests[request].next_free
    sms[sm].outstanding += 1
    address = operands[operand].line + line
    header = gpus[gpu].header_bytes
    payload = gpus[gpu].line_bytes
    if kind == SIGNAL or kind == POLL:
        payload = gpus[gpu].signal_bytes
    elif line == ops[op].lines - 1:
        payload = ops[op].last_bytes
    carries_out = kind == STORE or kind == SIGNAL
    requests[request].live = 1
    requests[request].returning = 0
    requests[request].kind = kind
    requests[request].line = address
    requests[request].issued_ps = clock[0].now_ps
    requests[request].seen = 0
    requests[request].link = -1
    requests[request].warp = warp
    requests[request].job = job
    requests[request].op = op
    requests[request].operand = operand
    requests[request].gpu = gpu
    requests[request].target = operands[operand].gpu
    requests[request].out_bytes = header + (payload if carries_out else 0)
    requests[request].back_bytes = header + (0 if carries_out else payload)
    at_port_ps = clock[0].now_ps + gpus[gpu].noc_ps
    if operands[operand].out_ways == 0:
        requests[request].last_back_hop = 0
        requests[request].back_hop = 0
        schedule(clock, heap, at_port_ps, L2, request)
    else:
        # Consecutive lines take the equal ways in turn, as NVLink interleaves addresses.
        out = operands[operand].out_way + address % operands[operand].out_ways
        back = operands[operand].back_way + address % operands[operand].back_ways
        requests[request].hop = ways[out].first
        requests[request].last_hop = ways[out].last
        requests[request].back_hop = ways[back].first
        requests[request].last_back_hop = ways[back].last
        schedule(clock, heap, at_port_ps, HOP, request)


@kernel
def release(clock: Records, heap: Records, sms: Records, requests: Records, sm: int, request: int) -> None:
    """A response is back: its slot is free, and an SM that stalled for one goes on."""
    requests[request].live = 0
    requests[request].next_free = clock[0].free_request
    clock[0].free_request = request
    sms[sm].outstanding -= 1
    if sms[sm].stalled:
        sms[sm].stalled = 0
        sms[sm].stalled_ps += clock[0].now_ps - sms[sm].stalled_since_ps
        wake(clock, heap, sms, sm)
