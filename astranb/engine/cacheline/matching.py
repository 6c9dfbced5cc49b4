"""Compiled breakpoints: event kinds on objects, and conditions on fields."""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records, kernel
from astranb.gpu import channel_of, class_of, next_link, slice_of
from astranb.gpu import tables as t
from astranb.gpu.tables import Machine
from astranb.net import CLASSES

__all__ = ["CONDITION", "POINT", "match_event"]

POINT = np.dtype(
    [
        ("event", "i8"),  # event kind, or -1 for any
        ("gpu", "i8"),  # objects the event must concern, or -1
        ("sm", "i8"),
        ("block", "i8"),
        ("first_link", "i8"),  # a range of links, or -1
        ("last_link", "i8"),
        ("node", "i8"),  # that a link leaves or reaches, or -1
        ("server", "i8"),  # an L2 slice or an HBM channel, as the event kind says, or -1
        ("semaphore", "i8"),
        ("number", "i8"),  # class of a message at a link, or -1
        ("owner", "i8"),  # condition on a field: which table (RAW of ``loop.py``), or -1 for none
        ("place", "i8"),  # its int64 in that table
        ("relation", "i8"),  # < <= == != >= >
        ("value", "i8"),
        ("was", "i8"),  # 1: the condition held before (it stops when it begins to hold)
    ]
)
"""One breakpoint, compiled: an event kind on objects, or a condition on a field."""

CONDITION = ("owner", "place", "relation", "value", "was")
"""The fields that are about a condition."""


@kernel
def fits(wanted: int, found: int) -> bool:
    """Return whether a number is the one wanted, or any will do (-1)."""
    return wanted < 0 or wanted == found


@kernel
def touches(links: Records, node: int, link: int) -> bool:
    """Return whether a link leaves or reaches the node wanted, or any will do (-1)."""
    return node < 0 or (link >= 0 and (links[link].src == node or links[link].dst == node))


@kernel(inline=False)
def match_event(m: Machine, breaks: Records, count: int, kind: int, arg: int) -> int:
    """Find the first breakpoint on an event kind that the event about to be handled matches, or -1."""
    link = -1
    block = -1
    gpu = -1
    server = -1
    semaphore = -1
    number = -1
    if kind == t.LAUNCH or kind == t.FENCE or kind == t.POST:
        block = arg
        if kind == t.POST:
            semaphore = m.ops[m.blocks[arg].post].semaphore
    elif kind == t.ISSUE:
        block = m.warps[m.sms[arg].ready_head].block
    elif kind == t.WIRE:
        link = arg
    elif kind == t.FAULT:
        link = m.faults[arg].link
    elif kind == t.PAUSE:
        link = arg // (2 * CLASSES)
        number = arg // 2 % CLASSES
    elif kind == t.RATE_RELEASE or kind == t.CNP:
        link = m.flows[arg].link
    else:
        block = m.warps[m.requests[arg].warp].block
        if kind == t.HOP:
            link = next_link(m.route_links, m.requests, m.details, arg)
            number = class_of(m, arg)
        if m.requests[arg].kind == t.SIGNAL or m.requests[arg].kind == t.POLL:
            semaphore = m.ops[m.requests[arg].op].semaphore
    sm = -1
    if block >= 0:
        gpu = m.blocks[block].gpu
        sm = m.blocks[block].sm
    if kind == t.L2 or kind == t.HBM:
        gpu = m.requests[arg].target
        if kind == t.L2:
            server = m.gpus[gpu].first_l2_slice + slice_of(m.gpus, gpu, m.requests[arg].line)
        else:
            server = m.gpus[gpu].first_hbm_channel + channel_of(m.gpus, gpu, m.requests[arg].line)
    for row in range(count):
        if (
            breaks[row].owner < 0
            and fits(breaks[row].event, kind)
            and fits(breaks[row].gpu, gpu)
            and fits(breaks[row].sm, sm)
            and fits(breaks[row].block, block)
            and fits(breaks[row].server, server)
            and fits(breaks[row].semaphore, semaphore)
            and fits(breaks[row].number, number)
            and touches(m.links, breaks[row].node, link)
            and (breaks[row].first_link < 0 or breaks[row].first_link <= link <= breaks[row].last_link)
        ):
            return row
    return -1
