"""Occupancy: which SM each thread block is resident on, at the start and with another number of SMs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from astranb.core.queue import EventQueue, fill, refill
from astranb.gpu import Preset
from astranb.gpu import tables as t

from .faults import events_of
from .machine import CacheLineMachine

if TYPE_CHECKING:
    from astranb.core.jit import Records

__all__ = ["place_blocks", "use_sms"]


def place_blocks(tables: dict[str, Records], presets: Sequence[Preset], faults_ps: list[int]) -> None:
    """Place the first thread blocks of each GPU on its SMs, round robin; queue launches and link faults."""
    gpus, sms, blocks, clock = (tables[n] for n in ("gpus", "sms", "blocks", "clock"))
    for gpu, preset in enumerate(presets):
        of_gpu = np.flatnonzero(blocks["gpu"] == gpu)
        count, lists, pairs = np.bincount(blocks["engine"][of_gpu], minlength=3).tolist()
        first = int(of_gpu[0]) if len(of_gpu) else 0
        resident = min(count, preset.sms * preset.blocks_on_sm)
        placed = np.arange(first, first + resident)
        blocks["sm"][placed] = gpus[gpu].first_sm + (placed - first) % preset.sms
        engines = np.arange(first + count, first + count + min(lists, preset.engines))
        blocks["sm"][engines] = gpus[gpu].first_sm + preset.sms + engines - first - count
        # A NIC has all queue pairs at once.
        queues = np.arange(first + count + lists, first + count + lists + pairs)
        blocks["sm"][queues] = (
            gpus[gpu].first_sm + preset.sms + preset.engines + np.arange(pairs) % preset.nics
        )
        np.add.at(sms["resident"], blocks["sm"][np.concatenate([placed, engines, queues])], 1)
        gpus[gpu].next_block, gpus[gpu].last_block = first + resident, first + count
        gpus[gpu].next_list = first + count + len(engines)
        gpus[gpu].last_list = first + count + lists
        gpus[gpu].blocks_left = len(of_gpu)
    launched = np.flatnonzero((blocks["sm"] >= 0) & (blocks["after"] == 0))
    events = [(int(blocks["launch_ps"][b]), t.LAUNCH, int(b)) for b in launched]
    events += [(when, t.FAULT, number) for number, when in enumerate(faults_ps)]
    fill(EventQueue(*(tables[name] for name in EventQueue._fields)), events)
    clock[0].busy = len(launched)


def use_sms(machine: CacheLineMachine, gpu: int, count: int) -> None:
    """Let only the first ``count`` SMs of a GPU take thread blocks; running blocks stay where they are.

    Blocks that are resident and have not begun are placed again, as at the start of a run: round
    robin, the emptiest SMs first.
    """
    row, blocks, sms = machine.gpus[gpu], machine.blocks, machine.sms
    row.usable = count
    end, first = int(row.last_block), int(row.next_block)
    while first > 0 and blocks[first - 1].gpu == gpu and blocks[first - 1].state == t.PENDING:
        first -= 1
    resident = range(first, int(row.next_block))
    for block in resident:
        sms[int(blocks[block].sm)].resident -= 1
        blocks[block].sm = -1
    usable = np.arange(row.first_sm, row.first_sm + count)
    most = int(row.blocks_on_sm)
    free = [(level, int(sm)) for sm in usable for level in range(int(sms[int(sm)].resident), most)]
    placed = list(zip(range(first, end), (sm for _, sm in sorted(free)), strict=False))
    now = max(0, int(machine.clock[0].now_ps))
    events = events_of(machine)
    events = [event for event in events if event[1] != t.LAUNCH or event[2] not in resident]
    for block, sm in placed:
        blocks[block].sm = sm
        sms[sm].resident += 1
        if blocks[block].after == 0:
            events.append((max(now, int(blocks[block].launch_ps)), t.LAUNCH, block))
    # Launches of one time come first, by number, as they do at the start.
    events.sort(key=lambda event: (event[0], (0, event[2]) if event[1] == t.LAUNCH else (1, 0)))
    row.next_block = first + len(placed)
    launched = sum(int(blocks[block].after) == 0 for block, _ in placed)
    machine.clock[0].busy += launched - sum(int(blocks[block].after) == 0 for block in resident)
    refill(machine.event_queue, events)
