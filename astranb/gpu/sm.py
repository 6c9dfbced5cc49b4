"""Streaming multiprocessors: ready warps and issue slots. A copy engine is one with one warp a list."""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import Agenda, schedule

from .tables import ISSUE, MOVE

__all__ = ["free_slot", "has_slot", "issue_gap_ps", "make_ready", "release", "wake"]


@kernel
def issue_gap_ps(gpus: Records, sms: Records, sm: int, what: int) -> int:
    """Time from an instruction of an operation to the next one of the SM or copy engine."""
    gpu = sms[sm].gpu
    if sms[sm].engine:
        return int(gpus[gpu].engine_issue_ps)
    return int(gpus[gpu].issue_ps * gpus[gpu].issue_lines) if what == MOVE else int(gpus[gpu].issue_ps)


@kernel
def has_slot(gpus: Records, sms: Records, sm: int) -> bool:
    """Whether an SM or copy engine may have another request under way."""
    gpu = sms[sm].gpu
    most = gpus[gpu].engine_outstanding if sms[sm].engine else gpus[gpu].max_outstanding
    return sms[sm].outstanding < most


@kernel
def wake(clock: Records, agenda: Agenda, sms: Records, sm: int) -> None:
    """See to it that an SM with a ready warp has its next issue slot queued."""
    if sms[sm].scheduled == 0 and sms[sm].stalled == 0 and sms[sm].ready_head >= 0:
        sms[sm].scheduled = 1
        schedule(clock, agenda, max(clock[0].now_ps, sms[sm].next_issue_ps), ISSUE, sm)


@kernel
def make_ready(clock: Records, agenda: Agenda, sms: Records, warps: Records, warp: int, sm: int) -> None:
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
    wake(clock, agenda, sms, sm)


@kernel
def free_slot(clock: Records, agenda: Agenda, sms: Records, sm: int) -> None:
    """A response is back: an SM that stalled for its slot goes on."""
    sms[sm].outstanding -= 1
    if sms[sm].stalled:
        sms[sm].stalled = 0
        sms[sm].stalled_ps += clock[0].now_ps - sms[sm].stalled_since_ps
        wake(clock, agenda, sms, sm)


@kernel
def release(clock: Records, requests: Records, request: int) -> None:
    """Give a request's record back."""
    requests[request].live = 0
    requests[request].next_free = clock[0].free_request
    clock[0].free_request = request
