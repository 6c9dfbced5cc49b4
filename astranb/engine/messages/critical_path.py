"""The critical path of a workload: operations each of which had to wait for the previous one."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from astranb.core.jit import Records
from astranb.engine.critical_path import Segment
from astranb.engine.operations import segment

from . import tables as t
from .instances import instances, pairs, rows_of
from .state import MessageState

__all__ = ["critical_path"]

_OF_KIND = {
    t.COMPUTE: "compute", t.COLLECTIVE: "collective", t.SEND: "message", t.RECV: "message",
    t.MEMORY: "memory", t.REPLAY: "broadcast", t.DELAY: "delay",
}  # fmt: skip


def critical_path(engine: MessageState) -> list[Segment]:
    """Follow the time back from the operation that ended last.

    Each segment begins where the previous one ends, so that they add up to the whole time. An
    operation begins when the last of those it depends on has ended, or else when its place (the GPU,
    the network) is free. A collective's segment begins when the last rank has begun it, and the path
    continues on that rank; a receive's begins when the message is sent, and continues on the sender.

    Of a replay the path goes from message to message; what belongs to one recorded collective is one segment.

    Returns
    -------
    list of Segment
        In the order of time; empty before an operation has ended.
    """
    about = engine.about
    rows: Records = cast("Records", rows_of(engine))
    parts = about.parts
    over = rows.end_ns >= 0
    if parts is not None:
        over[parts.owner] = False
    ended = np.flatnonzero(over)
    if not len(ended):
        return []
    last = int(ended[np.argmax(rows.end_ns[ended])])
    number = instances(engine)
    joined = about.shown(np.arange(len(rows)))
    together = number if parts is None else np.where(number[joined] >= 0, number[joined], -1 - joined)
    if parts is not None:
        number = np.where(np.arange(len(rows)) < parts.own, number, -1)
    latest = _latest(rows, number)
    sends, receives = pairs(engine)
    sender = dict(zip(receives.tolist(), sends.tolist(), strict=True))
    before = _before(cast("Records", rows[: about.own]))
    path: list[Segment] = []
    same_as: int | None = None
    row, until, because = last, int(rows.end_ns[last]), "the last to end"
    steps = 0
    while True:
        kind = int(about.kind[joined[row]])
        own = int(rows.start_ns[row])
        other = row
        if number[row] >= 0:
            other = int(latest[number[row]])
        elif rows.kind[row] == t.RECV and until > own:
            other = sender.get(row, row)
        start = min(int(rows.start_ns[other]), until)
        cause = _OF_KIND[kind]
        if kind == t.DELAY and start == 0 and not len(about.waited_for(row)):
            cause = "started late"
        if path and row >= about.own and together[row] == same_as:
            path[-1] = replace(path[-1], start_ps=start * 1000)
        else:
            path.append(segment(about, int(joined[row]), start * 1000, until * 1000, cause, because))
        same_as = together[row]
        last_row = row
        if other != row:
            because = f"rank {int(rows.npu[row])} needs it in {about.label(int(joined[row]))}"
        row, until = other, start
        following = _reason(engine, row, until, before)
        steps += 1
        if following < 0 or steps > len(rows):
            break
        same = int(rows.npu[following]) == int(rows.npu[row]) and following in about.waited_for(row)
        if other == last_row:
            because = f"{about.label(int(joined[row]))} {'depends on it' if same else 'needs its place'}"
        row = following
    if until > 0:
        path.append(segment(about, row, 0, until * 1000, "start", "nothing before it"))
    return path[::-1]


def _latest(rows: Records, number: np.ndarray) -> np.ndarray:
    """For each collective the operation that began last."""
    some = np.flatnonzero(number >= 0)
    order = some[np.lexsort((some, rows.start_ns[some], number[some]))]
    result = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
    result[number[order]] = order  # the last one written is the latest
    return result


def _before(rows: Records) -> dict[tuple[int, int, int], int]:
    """The operation that left each place at each time: by rank, place and time."""
    some = np.flatnonzero((rows.end_ns >= 0) & (rows.place != t.ON_NOTHING))
    keys = zip(rows.npu[some].tolist(), rows.place[some].tolist(), rows.end_ns[some].tolist(), strict=True)
    return dict(zip(keys, some.tolist(), strict=True))


def _reason(engine: MessageState, row: int, at_ns: int, before: dict[tuple[int, int, int], int]) -> int:
    """Return the operation that one which began at a time had to wait for; -1: none."""
    rows = engine.machine.operations
    parents = engine.about.waited_for(row)
    if len(parents):
        last = int(parents[np.argmax(rows.end_ns[parents])])
        if int(rows.end_ns[last]) == at_ns:
            return last
    found = before.get((int(rows.npu[row]), int(rows.place[row]), at_ns), -1)
    if found >= 0 and found != row:
        return found
    return int(parents[np.argmax(rows.end_ns[parents])]) if len(parents) else -1
