"""Streaming multiprocessors: ready warps and issue slots.

A copy engine is one with one warp a list, and so is a NIC, with one warp a queue pair.
"""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import schedule

from .tables import ISSUE, MOVE, NIC, TILE, Machine

__all__ = ["free_slot", "has_slot", "issue_gap_ps", "make_ready", "release", "wake"]


@kernel
def issue_gap_ps(m: Machine, sm: int, op: int) -> int:
    """Time from an instruction of an operation to the next one of the SM or copy engine."""
    gpu = m.sms[sm].gpu
    if m.sms[sm].engine:
        return int(m.gpus[gpu].nic_issue_ps if m.sms[sm].engine == NIC else m.gpus[gpu].engine_issue_ps)
    if m.ops[op].kind == MOVE:
        return int(m.gpus[gpu].issue_ps * m.gpus[gpu].issue_lines)
    if m.ops[op].kind == TILE:
        return int(m.gpus[gpu].issue_ps * m.tiles[m.ops[op].value].issue_lines)
    return int(m.gpus[gpu].issue_ps)


@kernel
def has_slot(gpus: Records, sms: Records, sm: int) -> bool:
    """Return whether an SM, copy engine or NIC may have another request under way.

    The polls of a NIC's queue pairs stand for doorbells, which take no place of its requests.
    """
    gpu = sms[sm].gpu
    if sms[sm].engine == NIC:
        return sms[sm].outstanding < gpus[gpu].nic_outstanding + sms[sm].resident
    most = gpus[gpu].engine_outstanding if sms[sm].engine else gpus[gpu].max_outstanding
    return sms[sm].outstanding < most


@kernel
def wake(m: Machine, sm: int) -> None:
    """See to it that an SM with a ready warp has its next issue slot queued."""
    if m.sms[sm].scheduled == 0 and m.sms[sm].stalled == 0 and m.sms[sm].ready_head >= 0:
        m.sms[sm].scheduled = 1
        schedule(m.event_queue, max(m.clock[0].now_ps, m.sms[sm].next_issue_ps), ISSUE, sm)


@kernel
def make_ready(m: Machine, warp: int, sm: int) -> None:
    """Put a warp at the end of its SM's FIFO of ready warps (loose round robin)."""
    if m.warps[warp].queued:
        return
    m.warps[warp].queued = 1
    m.warps[warp].next_ready = -1
    if m.sms[sm].ready_head < 0:
        m.sms[sm].ready_head = warp
    else:
        m.warps[m.sms[sm].ready_tail].next_ready = warp
    m.sms[sm].ready_tail = warp
    wake(m, sm)


@kernel
def free_slot(m: Machine, sm: int) -> None:
    """A response is back: an SM that stalled for its slot goes on."""
    m.sms[sm].outstanding -= 1
    if m.sms[sm].stalled:
        m.sms[sm].stalled = 0
        m.sms[sm].stalled_ps += m.clock[0].now_ps - m.sms[sm].stalled_since_ps
        wake(m, sm)


@kernel
def release(m: Machine, request: int) -> None:
    """Release a request's record."""
    clock = m.clock[0]
    m.requests[request].live = 0
    m.requests[request].next_free = clock.free_request
    clock.free_request = request
