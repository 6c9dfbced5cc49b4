"""The program as a graph: its computations and collectives, and their dependencies."""

from __future__ import annotations

import numpy as np

from . import tables as t

__all__ = ["dependencies", "slots_of"]


def slots_of(m: t.LayerMachine) -> tuple[np.ndarray, np.ndarray]:
    """Return the program's rows that compute or issue a collective, and the slot of each."""
    kind = np.asarray(m.operations.kind)
    at = np.flatnonzero((kind == t.COMPUTE) | (kind == t.ISSUE))
    collective = kind[at] == t.ISSUE
    slot = np.array(m.operations.slot)[at]
    slot[collective] = m.collectives.slot[slot[collective]]
    return at, slot


def dependencies(m: t.LayerMachine, at: np.ndarray, slot: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the dependencies of each operation.

    A computation depends on the one before it, and on the collectives that the program waits for
    between them; a collective depends on the same.

    Parameters
    ----------
    m : Machine
    at, slot : ndarray of int64
        The results of :func:`slots_of`.

    Returns
    -------
    of : ndarray of int64
        The operation of each row of the program, of a wait the one that it waits for; -1 for none.
    first, parents : ndarray of int64
        What each depends on: ``parents[first[row]:first[row + 1]]``.
    """
    of = np.full(len(m.operations), -1, np.int64)
    of[at] = np.arange(len(at))
    kinds, slots, rows = m.operations.kind.tolist(), m.operations.slot.tolist(), of.tolist()
    slot_of = slot.tolist()
    issued: dict[int, list[int]] = {}  # collectives that the program has not waited for
    waited: dict[int, int] = {}
    pending: list[int] = []
    last = -1
    counts, parents = [], []
    for place, (kind, row) in enumerate(zip(kinds, rows, strict=True)):
        if kind == t.WAIT:
            found = issued.pop(slots[place], [])
            pending += [one for one in found if one not in pending]
            if found:
                waited[slots[place]] = found[-1]
            of[place] = waited.get(slots[place], -1)
        elif kind == t.END:
            of[place] = last
        elif row >= 0:
            counts.append(len(pending))
            parents += pending
            if kind == t.COMPUTE:
                pending = [row]
            else:
                issued.setdefault(slot_of[row], []).append(row)
                last = row
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return of, first, np.array(parents, np.int64)
