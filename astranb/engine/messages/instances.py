"""Which operations of ASTRA-sim 2.0's ranks belong together: collectives, and sends with their receives."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import tables as t
from .state import MessageState

__all__ = ["instances", "pairs"]


def instances(engine: MessageState) -> np.ndarray:
    """Number of the collective that each operation takes part in; -1 for what is none or has not begun.

    The k-th collective that a rank begins in a group is the k-th of that group's other ranks.
    """
    m, about = engine.machine, engine.about
    rows: Any = m.operations[: about.own]
    some = np.flatnonzero((rows.kind == t.COLLECTIVE) & (rows.start_ns >= 0))
    order = some[np.lexsort((some, rows.start_ns[some], rows.npu[some], rows.group[some]))]
    key = rows.group[order] * len(m.npus) + rows.npu[order]
    fresh = np.diff(key, prepend=key[:1] - 1) != 0
    begun = np.arange(len(order)) - np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    among = rows.group[order].astype(np.int64) * (begun.max(initial=0) + 1) + begun
    _, number = np.unique(among, return_inverse=True)
    result = np.full(len(rows), -1, np.int64)
    result[order] = number
    return result


def pairs(engine: MessageState) -> tuple[np.ndarray, np.ndarray]:
    """Sends and receives that belong together, rows of the table of operations: each the k-th of its kind."""
    rows: Any = engine.machine.operations[: engine.about.own]
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
