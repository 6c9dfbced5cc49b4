"""Compiled breakpoints: event kinds on objects, and conditions on fields, looked at in the loop."""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records, kernel, kernel_apart
from astranb.gpu.tables import FAULT, FENCE, HBM, HOP, ISSUE, L2, LAUNCH, NOTICE, PACE, PAUSE, WIRE
from astranb.gpu.travel import next_link
from astranb.net.port import CLASSES

__all__ = ["BREAK", "match_event", "match_fields"]

BREAK = np.dtype(
    [
        ("event", "i8"),  # event kind, or -1 for any
        ("gpu", "i8"),  # objects the event must concern, or -1
        ("sm", "i8"),
        ("block", "i8"),
        ("first_link", "i8"),  # a range of links, or -1
        ("last_link", "i8"),
        ("owner", "i8"),  # condition on a field: which table, or -1 for none
        ("place", "i8"),  # its int64 in that table
        ("relation", "i8"),  # 0 <, 1 <=, 2 ==, 3 !=, 4 >=, 5 >
        ("value", "i8"),
        ("was", "i8"),  # 1: the condition held before (it stops when it begins to hold)
    ]
)
"""One breakpoint, compiled: an event kind on objects, or a condition on a field."""


@kernel
def fits(wanted: int, found: int) -> bool:
    """Whether a number is the one wanted, or any will do (-1)."""
    return wanted < 0 or wanted == found


@kernel_apart
def match_event(
    breaks: Records,
    count: int,
    sms: Records,
    blocks: Records,
    warps: Records,
    route: Records,
    requests: Records,
    details: Records,
    faults: Records,
    flows: Records,
    kind: int,
    arg: int,
) -> int:
    """Find the first breakpoint on an event kind that the event about to be handled matches, or -1."""
    link = -1
    block = -1
    gpu = -1
    if kind == LAUNCH or kind == FENCE:
        block = arg
    elif kind == ISSUE:
        block = warps[sms[arg].ready_head].block
    elif kind == WIRE:
        link = arg
    elif kind == FAULT:
        link = faults[arg].link
    elif kind == PAUSE:
        link = arg // (2 * CLASSES)
    elif kind == PACE or kind == NOTICE:
        link = flows[arg].link
    else:
        block = warps[requests[arg].warp].block
        if kind == HOP:
            link = next_link(route, requests, details, arg)
    sm = -1
    if block >= 0:
        gpu = blocks[block].gpu
        sm = blocks[block].sm
    if kind == L2 or kind == HBM:
        gpu = requests[arg].target
    for row in range(count):
        if (
            breaks[row].owner < 0
            and fits(breaks[row].event, kind)
            and fits(breaks[row].gpu, gpu)
            and fits(breaks[row].sm, sm)
            and fits(breaks[row].block, block)
            and (breaks[row].first_link < 0 or breaks[row].first_link <= link <= breaks[row].last_link)
        ):
            return row
    return -1


@kernel_apart
def match_fields(
    breaks: Records,
    count: int,
    raw_links: Records,
    raw_gpus: Records,
    raw_sms: Records,
    raw_blocks: Records,
    raw_semaphores: Records,
) -> int:
    """Look at every condition on a field; returns the first that has begun to hold, or -1."""
    hit = -1
    for row in range(count):
        owner = breaks[row].owner
        if owner < 0:
            continue
        place = breaks[row].place
        if owner == 0:
            found = raw_links[place]
        elif owner == 1:
            found = raw_gpus[place]
        elif owner == 2:
            found = raw_sms[place]
        elif owner == 3:
            found = raw_blocks[place]
        else:
            found = raw_semaphores[place]
        value = breaks[row].value
        relation = breaks[row].relation
        holds = (
            (relation == 0 and found < value)
            or (relation == 1 and found <= value)
            or (relation == 2 and found == value)
            or (relation == 3 and found != value)
            or (relation == 4 and found >= value)
            or (relation == 5 and found > value)
        )
        if holds and breaks[row].was == 0 and hit < 0:
            hit = row
        breaks[row].was = 1 if holds else 0
    return hit
