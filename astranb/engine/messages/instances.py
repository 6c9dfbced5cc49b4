"""Matching of operations across ASTRA-sim 2.0's ranks: collectives, and sends with their receives.

Of a replay, the recorded operations: those of a collective are found by their messages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.arrays import distinct

from . import tables as t
from .state import MessageState

__all__ = ["instances", "pairs", "rows_of"]


def instances(engine: MessageState) -> np.ndarray:
    """Number of the collective that each operation takes part in; -1 for what is none or has not begun.

    The k-th collective that a rank begins in a group is the k-th of that group's other ranks.
    """
    m = engine.machine
    rows = rows_of(engine)
    some = np.flatnonzero((rows.kind == t.COLLECTIVE) & (rows.start_ns >= 0))
    order = some[np.lexsort((some, rows.start_ns[some], rows.npu[some], rows.group[some]))]
    key = rows.group[order] * len(m.npus) + rows.npu[order]
    fresh = np.diff(key, prepend=key[:1] - 1) != 0
    begun = np.arange(len(order)) - np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    among = rows.group[order].astype(np.int64) * (begun.max(initial=0) + 1) + begun
    _, number = np.unique(among, return_inverse=True)
    result = np.full(len(rows), -1, np.int64)
    result[order] = number
    parts = engine.about.parts
    if parts is None:
        return result
    result[parts.hidden] = -1
    collective = engine.about.kind == t.COLLECTIVE
    sends, receives = pairs(engine)
    one, other = parts.shown(sends), parts.shown(receives)
    some = collective[one] & collective[other]
    first = _joined(one[some], other[some], len(rows))
    mine = parts.first[collective[parts.first] & (engine.times_ps()[0][parts.first] >= 0)]
    _, named = np.unique(first[mine], return_inverse=True)
    result[mine] = named.reshape(-1) + int(result.max(initial=-1)) + 1
    return result


def rows_of(engine: MessageState) -> Any:
    """The operations that are looked at: those of the ranks, and of replays each message and computation."""
    rows = engine.machine.operations
    return rows if engine.about.parts is not None else rows[: engine.about.own]


def _joined(one: np.ndarray, other: np.ndarray, count: int) -> np.ndarray:
    """Return for each of some numbers the least of all that pairs join it with, directly or not."""
    least = np.arange(count)
    key = distinct(np.minimum(one, other) * count + np.maximum(one, other))
    low, high = key // count, key % count
    while True:
        before = least.copy()
        np.minimum.at(least, high, least[low])
        np.minimum.at(least, low, least[high])
        least = least[least]
        if (least == before).all():
            return least


def pairs(engine: MessageState) -> tuple[np.ndarray, np.ndarray]:
    """Sends and receives that belong together, rows of the table of operations: each the k-th of its kind."""
    rows = rows_of(engine)
    begun = rows.start_ns >= 0
    sends, receives = (np.flatnonzero((rows.kind == kind) & begun) for kind in (t.SEND, t.RECV))
    row = np.concatenate([sends, receives])
    if not len(row):
        return sends, receives
    side = np.repeat([0, 1], [len(sends), len(receives)])
    ends = [rows.npu[row], rows.peer[row]]
    source, target = np.where(side == 0, ends, ends[::-1])
    key = [source, target, rows.tag[row], rows.bytes[row]]
    order = np.lexsort((row, rows.start_ns[row], side, *reversed(key)))
    row, side, key = row[order], side[order], [column[order] for column in key]
    fresh = np.any([np.diff(column, prepend=column[:1] - 1) != 0 for column in key], axis=0)
    among = np.cumsum(fresh)
    first = np.flatnonzero(fresh | (np.diff(side, prepend=-1) != 0))
    nth = np.arange(len(row)) - np.repeat(first, np.diff(first, append=len(row)))
    name = among * (nth.max() + 1) + nth
    _, one, other = np.intersect1d(name[side == 0], name[side == 1], assume_unique=True, return_indices=True)
    return row[side == 0][one], row[side == 1][other]
