"""States of thread blocks over time, from the times in the table of operations."""

from __future__ import annotations

import numpy as np

from astranb.core.jit import Records
from astranb.gpu import tables as t

from .machine import CacheLineMachine
from .state import CacheLineState
from .time_classes import BLOCK_CLASSES, STARTED_LATE

__all__ = ["LATE", "SPAN", "SPAN_STATES", "operation_spans", "spans"]

SPAN = np.dtype(
    [
        ("gpu", "i4"),
        ("sm", "i4"),  # within its GPU
        ("block", "i4"),
        ("op", "i4"),  # -1: of none, its rank has not started
        ("state", "i4"),  # number in SPAN_STATES
        ("phase", "i4"),
        ("start_ps", "i8"),
        ("end_ps", "i8"),
    ]
)
"""A stretch of time in which a thread block did one thing."""

SPAN_STATES = (
    *(BLOCK_CLASSES[state] for state in ("moving", "signalling", "waiting", "draining")),
    STARTED_LATE,
)
LATE = SPAN_STATES.index(STARTED_LATE)


def spans(engine: CacheLineState, start_ps: int = 0, end_ps: int | None = None) -> Records:
    """Return the states of thread blocks in a window of time; a rank that starts late has not started.

    Parameters
    ----------
    engine : CacheLineState
    start_ps, end_ps : int
        The window; up to now where no end is given.

    Returns
    -------
    recarray of SPAN
        In the order of blocks and times; a run without a recording has them too.
    """
    found = operation_spans(engine, start_ps, end_ps)
    blocks = engine.machine.blocks
    late_ps = np.minimum(engine.late_ps[blocks["gpu"]], engine.now_ps)
    late = np.flatnonzero((late_ps > 0) & (late_ps >= start_ps))
    rows = np.zeros(len(late), SPAN)
    rows["gpu"], rows["block"], rows["state"] = blocks["gpu"][late], late, LATE
    # Thread blocks that have not begun need not have an SM yet.
    on_sm = blocks["sm"][late] - engine.machine.gpus["first_sm"][rows["gpu"]]
    rows["sm"] = np.where(blocks["sm"][late] >= 0, on_sm, -1)
    rows["op"] = rows["phase"] = -1
    rows["end_ps"] = late_ps[late]
    both = np.concatenate([found, rows])
    return both[np.lexsort((both["start_ps"], both["block"]))].view(np.recarray)


def operation_spans(
    engine: CacheLineState, start_ps: int = 0, end_ps: int | None = None, *, since: np.ndarray | None = None
) -> Records:
    """Return the states of thread blocks in a window of time, from their first operation on.

    Parameters
    ----------
    engine : CacheLineState
    start_ps, end_ps : int
        The window; up to now where no end is given.
    since : ndarray of int, optional
        The operation that each thread block was at when the window began (``blocks["op"]``): earlier ones
        are not looked at. Spans that begin before the window may then begin too late.

    Returns
    -------
    recarray of SPAN
        In the order of blocks and operations; a run without a recording has them too.
    """
    until_ps = engine.now_ps if end_ps is None else end_ps
    ops, blocks, gpus = engine.machine.ops, engine.machine.blocks, engine.machine.gpus
    if since is None:
        begun = np.flatnonzero(ops["started_ps"] >= 0)
    else:
        begun = _reached(engine.machine, since)
        begun = begun[ops["started_ps"][begun] >= 0]
    block = ops["block"][begun]
    # A signal behind stores is issued later: its block has gone on at once.
    posted = (ops["kind"][begun] == t.NOTIFY) & (ops["before"][begun] > 0)
    left = np.where(posted, ops["started_ps"][begun], ops["issued_ps"][begun])
    issued = np.where(left >= 0, left, engine.now_ps)
    # Warps run ahead into the next move; a block is at one operation at a time.
    era = ops["block"][begun].astype(np.int64) * (engine.now_ps + 1)
    issued = np.maximum.accumulate(issued + era) - era
    started = np.array(ops["started_ps"][begun])
    same = block[1:] == block[:-1]  # warps may have begun the next move but one, and not the next one
    follows = np.flatnonzero(np.append(False, same))
    started[follows] = np.maximum(started[follows], issued[follows - 1])
    state = np.array([0, 1, 2, 3, 0, 0, 1, 0], np.int32)[ops["kind"][begun]]
    work = _rows(engine.machine, begun, block, state, started, issued)
    # A fence shows as the gap between an operation's last issue and the next one's start.
    is_last = begun + 1 >= blocks["last_op"][block]
    following = np.where(np.append(same, False), np.append(started[1:], -1), -1) if len(begun) else started
    next_start = np.where(is_last, blocks["ended_ps"][block], following)
    open_end = np.where(next_start >= 0, next_start, engine.now_ps)
    drained = (left >= 0) & (open_end > issued)
    draining = np.full(int(drained.sum()), 3)
    waits = _rows(
        engine.machine, begun[drained], block[drained], draining, issued[drained], open_end[drained]
    )
    spans = np.concatenate([work, waits])
    begin, end = spans["start_ps"], spans["end_ps"]
    spans = spans[(end >= start_ps) & (begin <= until_ps) & (end > begin)]
    spans = spans[np.lexsort((spans["start_ps"], spans["block"]))]
    spans["sm"] -= gpus["first_sm"][spans["gpu"]].astype(np.int32)
    return spans.view(np.recarray)


def _reached(machine: CacheLineMachine, since: np.ndarray) -> np.ndarray:
    """Operations that blocks may have been at since: the one before included, whose fence may last still.

    Warps run ahead into moves marked so, which follow each other.
    """
    blocks, ahead = machine.blocks, machine.ops["ahead"]
    first = np.maximum(since - 1, blocks["first_op"]).astype(np.int64)
    last = np.minimum(blocks["op"] + 1, blocks["last_op"]).astype(np.int64)
    further = np.flatnonzero(last < blocks["last_op"])
    while len(further):
        further = further[ahead[last[further]] != 0]
        last[further] += 1
        further = further[last[further] < blocks["last_op"][further]]
    sizes = last - first
    return np.repeat(last - np.cumsum(sizes), sizes) + np.arange(int(sizes.sum()))


def _rows(
    machine: CacheLineMachine,
    ops: np.ndarray,
    block: np.ndarray,
    state: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
) -> np.ndarray:
    rows = np.zeros(len(ops), SPAN)
    blocks = machine.blocks
    rows["gpu"], rows["sm"] = blocks["gpu"][block], blocks["sm"][block]
    rows["block"], rows["op"], rows["state"] = block, ops, state
    rows["phase"] = machine.ops["phase"][ops]
    rows["start_ps"], rows["end_ps"] = start, end
    return rows
