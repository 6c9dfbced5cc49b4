"""How many SMs of a GPU take thread blocks: changed in the middle of a run, for blocks not begun."""

from __future__ import annotations

import numpy as np

from astranb.core.queue import refill
from astranb.gpu import tables as t

from ._dead import agenda_of, events_of
from ._machine import Machine

__all__ = ["use_sms"]


def use_sms(machine: Machine, gpu: int, count: int) -> None:
    """Let only the first ``count`` SMs of a GPU take blocks; those that have begun stay where they are.

    Blocks that have a seat and have not begun are seated anew, as at the start of a run: round
    robin, the emptiest SMs first.
    """
    row, blocks, sms = machine.gpus[gpu], machine.blocks, machine.sms
    row.usable = count
    end, first = int(row.last_block), int(row.next_block)
    while first > 0 and blocks[first - 1].gpu == gpu and blocks[first - 1].state == t.PENDING:
        first -= 1
    seated = range(first, int(row.next_block))
    for block in seated:
        sms[int(blocks[block].sm)].resident -= 1
        blocks[block].sm = -1
    usable = np.arange(row.first_sm, row.first_sm + count)
    free = [(level, int(sm)) for sm in usable for level in range(int(sms[int(sm)].resident), int(row.seats))]
    placed = list(zip(range(first, end), (sm for _, sm in sorted(free)), strict=False))
    now = max(0, int(machine.clock[0].now_ps))
    events = events_of(machine)
    events = [event for event in events if event[1] != t.LAUNCH or event[2] not in seated]
    for block, sm in placed:
        blocks[block].sm = sm
        sms[sm].resident += 1
        events.append((max(now, int(blocks[block].launch_ps)), t.LAUNCH, block))
    # Launches of one time come first, by number, as they do at the start.
    events.sort(key=lambda event: (event[0], (0, event[2]) if event[1] == t.LAUNCH else (1, 0)))
    row.next_block = first + len(placed)
    machine.clock[0].busy += len(placed) - len(seated)
    refill(machine.clock, agenda_of(machine), events)
