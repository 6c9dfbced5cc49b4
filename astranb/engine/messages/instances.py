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
    _, number = np.unique(np.stack([rows.group[order], begun]), axis=1, return_inverse=True)
    result = np.full(len(rows), -1, np.int64)
    result[order] = number.reshape(-1)
    return result


def pairs(engine: MessageState) -> tuple[np.ndarray, np.ndarray]:
    """Sends and receives that belong together: rows of the table of operations."""
    rows: Any = engine.machine.operations[: engine.about.own]
    found = []
    for kind, source, target in ((t.SEND, "npu", "peer"), (t.RECV, "peer", "npu")):
        row = np.flatnonzero((rows.kind == kind) & (rows.start_ns >= 0))
        key = np.stack([rows[source][row], rows[target][row], rows.tag[row], rows.bytes[row]])
        found.append((row[np.lexsort((row, rows.start_ns[row]))], row, key))
    whole = np.concatenate([key for _, _, key in found], axis=1)
    if not whole.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, number = np.unique(whole, axis=1, return_inverse=True)
    number = number.reshape(-1)
    numbered = []
    for part, (ordered, row, _) in enumerate(found):
        mine = number[: len(row)] if part == 0 else number[len(found[0][1]) :]
        of = dict(zip(row.tolist(), mine.tolist(), strict=True))
        seen: dict[int, int] = {}
        keys = {}
        for one in ordered.tolist():
            nth = seen[of[one]] = seen.get(of[one], -1) + 1
            keys[(of[one], nth)] = one
        numbered.append(keys)
    both = sorted(numbered[0].keys() & numbered[1].keys())
    return (
        np.array([numbered[0][key] for key in both], np.int64),
        np.array([numbered[1][key] for key in both], np.int64),
    )
