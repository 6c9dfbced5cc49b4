"""Occupancy: which SM each thread block is resident on, at the start and with another number of SMs."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING

import numpy as np

from astranb.core.queue import EventQueue, fill, refill
from astranb.gpu import Preset, count_taken
from astranb.gpu import tables as t

from .faults import events_of
from .machine import CacheLineMachine

if TYPE_CHECKING:
    from astranb.core.jit import Records

__all__ = ["place_blocks", "use_sms"]


def place_blocks(tables: dict[str, Records], presets: Sequence[Preset], faults_ps: list[int]) -> None:
    """Place thread blocks, each on the SM of its GPU with most room; queue their launches and faults.

    Blocks that wait for others have no place until these have ended.
    """
    gpus, sms, blocks, clock = (tables[n] for n in ("gpus", "sms", "blocks", "clock"))
    blocks["next_pending"] = -1
    shares = np.array([t.ROOM // preset.blocks_on_sm for preset in presets])
    shared = blocks["held"] == t.SHARE
    blocks["held"][shared] = np.where(blocks["engine"] > 0, 0, shares[blocks["gpu"]])[shared]
    sms["free"] = t.ROOM
    ready = (blocks["after"] == 0) & (blocks["role"] == 0)
    bound = (blocks["held"] == 0) & (blocks["engine"] == 0) & ready
    blocks["sm"][bound] = gpus["first_sm"][blocks["gpu"][bound]]
    for gpu, preset in enumerate(presets):
        row = gpus[gpu]
        own = np.flatnonzero(blocks["gpu"] == gpu)
        mine = own[ready[own] & ~bound[own]]
        lists, mine = mine[blocks["engine"][mine] == t.COPY_ENGINE], mine[blocks["engine"][mine] == 0]
        mine = mine[np.argsort(-blocks["urgent"][mine], kind="stable")]
        first = int(row.first_sm)
        placed = _on_emptiest(sms, blocks["held"][mine], range(first, first + int(row.usable)))
        blocks["sm"][mine[: len(placed)]] = placed
        on_engines = lists[: preset.engines]
        blocks["sm"][on_engines] = first + preset.sms + np.arange(len(on_engines))
        pairs = own[blocks["engine"][own] == t.NIC]  # a NIC has all queue pairs at once
        blocks["sm"][pairs] = first + preset.sms + preset.engines + np.arange(len(pairs)) % preset.nics
        np.add.at(sms["resident"], blocks["sm"][np.concatenate([on_engines, pairs])], 1)
        _let_wait(row, blocks, mine[len(placed) :])
        row.list_head, row.list_tail = _chain(blocks, lists[preset.engines :])
    gpus["taken"] = np.bincount(sms["gpu"][(sms["resident"] > 0) & (sms["engine"] == 0)], minlength=len(gpus))
    gpus["blocks_left"] = np.bincount(blocks["gpu"], minlength=len(gpus))
    _follow(blocks)
    launched = np.flatnonzero((blocks["sm"] >= 0) & (blocks["after"] == 0))
    events = [(int(blocks["launch_ps"][b]), t.LAUNCH, int(b)) for b in launched]
    events += [(when, t.FAULT, number) for number, when in enumerate(faults_ps)]
    fill(EventQueue(*(tables[name] for name in EventQueue._fields)), events)
    clock[0].busy = len(launched)


def _follow(blocks: Records) -> None:
    """Place the roles of each thread block where the first one is."""
    role = np.flatnonzero(blocks["role"] > 0)
    blocks["sm"][role] = blocks["sm"][role - blocks["role"][role]]


def _on_emptiest(sms: Records, held: np.ndarray, usable: range) -> list[int]:
    """Place blocks in their order, each on the SM with most room, until one has none; returns their SMs."""
    placed: list[int] = []
    if not len(held):
        return placed
    units = slice(usable.start, usable.stop)
    room = list(zip((-sms["free"][units]).tolist(), usable, strict=True))
    heapify(room)
    for parts in held.tolist():
        free, sm = room[0]
        if -free < parts:
            break
        heapreplace(room, (free + parts, sm))
        placed.append(sm)
    np.subtract.at(sms["free"], placed, held[: len(placed)])
    np.add.at(sms["resident"], placed, 1)
    return placed


def _chain(blocks: Records, waiting: np.ndarray) -> tuple[int, int]:
    """Link blocks in their order; returns the first and the last one, -1 where there is none."""
    if not len(waiting):
        return -1, -1
    blocks["next_pending"][waiting] = np.append(waiting[1:], -1)
    return int(waiting[0]), int(waiting[-1])


def _let_wait(gpu: Records, blocks: Records, waiting: np.ndarray) -> None:
    """Queue blocks that wait for room on a GPU, the urgent ones first."""
    gpu.pending_head, gpu.pending_tail = _chain(blocks, waiting)
    urgent = waiting[blocks["urgent"][waiting] == 1]
    gpu.urgent_tail = int(urgent[-1]) if len(urgent) else -1


def _with_roles(blocks: Records, first: np.ndarray) -> np.ndarray:
    """Return rows of first roles, each followed by the other roles of its thread block."""
    roles = blocks["roles"][first]
    ends = np.cumsum(roles)
    rows: np.ndarray = np.repeat(first, roles) + np.arange(int(roles.sum())) - np.repeat(ends - roles, roles)
    return rows


def use_sms(machine: CacheLineMachine, gpu: int, count: int) -> None:
    """Restrict new thread blocks to the first ``count`` SMs of a GPU; running blocks stay where they are.

    Blocks that are resident and have not begun are placed again, as at the start of a run.
    """
    row, blocks, sms = machine.gpus[gpu], machine.blocks, machine.sms
    row.usable = count
    moved = np.flatnonzero(
        (blocks["gpu"] == gpu) & (blocks["sm"] >= 0) & (blocks["state"] == t.PENDING)
        & (blocks["engine"] == 0) & (blocks["held"] > 0) & (blocks["role"] == 0)
    )  # fmt: skip
    waiting = moved.tolist()
    block = int(row.pending_head)
    while block >= 0:
        waiting.append(block)
        block = int(blocks[block].next_pending)
    if machine.clock[0].now_ps >= 0:
        count_taken(machine, gpu)
    np.subtract.at(sms["resident"], blocks["sm"][moved], 1)
    np.add.at(sms["free"], blocks["sm"][moved], blocks["held"][moved])
    blocks["sm"][moved] = -1
    queue = np.array(waiting, np.int64)
    queue = queue[np.argsort(-blocks["urgent"][queue], kind="stable")]
    placed = _on_emptiest(sms, blocks["held"][queue], range(int(row.first_sm), int(row.first_sm) + count))
    blocks["sm"][queue[: len(placed)]] = placed
    blocks["next_pending"][queue] = -1
    _let_wait(row, blocks, queue[len(placed) :])
    units = slice(int(row.first_sm), int(row.first_sm) + int(row.sms))
    row.taken = np.count_nonzero(sms["resident"][units])
    now = max(0, int(machine.clock[0].now_ps))
    again, begin = _with_roles(blocks, moved), _with_roles(blocks, queue[: len(placed)])
    _follow(blocks)
    taken_back = set(again.tolist())
    events = [event for event in events_of(machine) if event[1] != t.LAUNCH or event[2] not in taken_back]
    events += [(max(now, int(blocks[b].launch_ps)), t.LAUNCH, b) for b in begin.tolist()]
    # Launches of one time come first, by number, as they do at the start.
    events.sort(key=lambda event: (event[0], (0, event[2]) if event[1] == t.LAUNCH else (1, 0)))
    machine.clock[0].busy += len(begin) - len(again)
    refill(machine.event_queue, events)
