"""Compiled breakpoints: event kinds on objects, and conditions on fields, looked at in the loop."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.gpu.tables import (
    CNP,
    FAULT,
    FENCE,
    HBM,
    HOP,
    ISSUE,
    L2,
    LAUNCH,
    PAUSE,
    RATE_RELEASE,
    WIRE,
    Machine,
)
from astranb.gpu.travel import next_link
from astranb.net.port import CLASSES

__all__ = ["BREAK", "Breakpoints", "match_event", "match_fields"]

# Relations of conditions, in the order of their signs in ``engine/breakpoints.py``.
LESS: Final = 0
AT_MOST: Final = 1
EQUAL: Final = 2
OTHER: Final = 3
AT_LEAST: Final = 4
MORE: Final = 5

# Tables whose fields a condition may read, in the order of ``Breakpoints``.
LINKS: Final = 0
GPUS: Final = 1
SMS: Final = 2
BLOCKS: Final = 3
SEMAPHORES: Final = 4

BREAK = np.dtype(
    [
        ("event", "i8"),  # event kind, or -1 for any
        ("gpu", "i8"),  # objects the event must concern, or -1
        ("sm", "i8"),
        ("block", "i8"),
        ("first_link", "i8"),  # a range of links, or -1
        ("last_link", "i8"),
        ("owner", "i8"),  # condition on a field: which table (LINKS to SEMAPHORES), or -1 for none
        ("place", "i8"),  # its int64 in that table
        ("relation", "i8"),  # LESS to MORE
        ("value", "i8"),
        ("was", "i8"),  # 1: the condition held before (it stops when it begins to hold)
    ]
)
"""One breakpoint, compiled: an event kind on objects, or a condition on a field."""


class Breakpoints(NamedTuple):
    """Compiled breakpoints, and the tables whose fields they may read as plain numbers."""

    breaks: Records
    links: Records
    gpus: Records
    sms: Records
    blocks: Records
    semaphores: Records


@kernel
def fits(wanted: int, found: int) -> bool:
    """Whether a number is the one wanted, or any will do (-1)."""
    return wanted < 0 or wanted == found


@kernel(inline=False)
def match_event(m: Machine, b: Breakpoints, count: int, kind: int, arg: int) -> int:
    """Find the first breakpoint on an event kind that the event about to be handled matches, or -1."""
    link = -1
    block = -1
    gpu = -1
    if kind == LAUNCH or kind == FENCE:
        block = arg
    elif kind == ISSUE:
        block = m.warps[m.sms[arg].ready_head].block
    elif kind == WIRE:
        link = arg
    elif kind == FAULT:
        link = m.faults[arg].link
    elif kind == PAUSE:
        link = arg // (2 * CLASSES)
    elif kind == RATE_RELEASE or kind == CNP:
        link = m.flows[arg].link
    else:
        block = m.warps[m.requests[arg].warp].block
        if kind == HOP:
            link = next_link(m.route_links, m.requests, m.details, arg)
    sm = -1
    if block >= 0:
        gpu = m.blocks[block].gpu
        sm = m.blocks[block].sm
    if kind == L2 or kind == HBM:
        gpu = m.requests[arg].target
    for row in range(count):
        if (
            b.breaks[row].owner < 0
            and fits(b.breaks[row].event, kind)
            and fits(b.breaks[row].gpu, gpu)
            and fits(b.breaks[row].sm, sm)
            and fits(b.breaks[row].block, block)
            and (b.breaks[row].first_link < 0 or b.breaks[row].first_link <= link <= b.breaks[row].last_link)
        ):
            return row
    return -1


@kernel(inline=False)
def match_fields(b: Breakpoints, count: int) -> int:
    """Check every condition on a field; returns the first that has become true, or -1."""
    hit = -1
    for number in range(count):
        row = b.breaks[number]
        if row.owner < 0:
            continue
        if row.owner == LINKS:
            found = b.links[row.place]
        elif row.owner == GPUS:
            found = b.gpus[row.place]
        elif row.owner == SMS:
            found = b.sms[row.place]
        elif row.owner == BLOCKS:
            found = b.blocks[row.place]
        else:
            found = b.semaphores[row.place]
        holds = (
            (row.relation == LESS and found < row.value)
            or (row.relation == AT_MOST and found <= row.value)
            or (row.relation == EQUAL and found == row.value)
            or (row.relation == OTHER and found != row.value)
            or (row.relation == AT_LEAST and found >= row.value)
            or (row.relation == MORE and found > row.value)
        )
        if holds and row.was == 0 and hit < 0:
            hit = number
        row.was = 1 if holds else 0
    return hit
