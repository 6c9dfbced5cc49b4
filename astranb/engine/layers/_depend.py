"""A program as a graph: its computations and collectives, and what each of them waits for."""

from __future__ import annotations

import numpy as np

from . import _tables as t

__all__ = ["dependencies", "slots_of"]


def slots_of(m: t.Machine) -> tuple[np.ndarray, np.ndarray]:
    """Give the program's rows that compute or begin a collective, and the part of a layer of each."""
    kind = np.asarray(m.operations.kind)
    at = np.flatnonzero((kind == t.COMPUTE) | (kind == t.ISSUE))
    collective = kind[at] == t.ISSUE
    slot = np.array(m.operations.slot)[at]
    slot[collective] = m.collectives.slot[slot[collective]]
    return at, slot


def dependencies(m: t.Machine, at: np.ndarray, slot: np.ndarray) -> tuple[np.ndarray, ...]:
    """Say what each operation has to wait for.

    A computation waits for the one before it, and for the collectives that the program has waited for
    between them; a collective waits for the same.

    Parameters
    ----------
    m : Machine
    at, slot : ndarray of int64
        As :func:`slots_of` gives them.

    Returns
    -------
    of : ndarray of int64
        The operation of each of the program's rows: of a wait what is waited for; -1: none.
    first, parents : ndarray of int64
        What each waits for: ``parents[first[row]:first[row + 1]]``.
    """
    of = np.full(len(m.operations), -1, np.int64)
    of[at] = np.arange(len(at))
    kinds, slots, rows = m.operations.kind.tolist(), m.operations.slot.tolist(), of.tolist()
    slot_of = slot.tolist()
    issued: dict[int, list[int]] = {}  # collectives not waited for yet
    waited: dict[int, int] = {}
    gate: list[int] = []
    last = -1
    counts, parents = [], []
    for place, (kind, row) in enumerate(zip(kinds, rows, strict=True)):
        if kind == t.WAIT:
            found = issued.pop(slots[place], [])
            gate += [one for one in found if one not in gate]
            if found:
                waited[slots[place]] = found[-1]
            of[place] = waited.get(slots[place], -1)
        elif kind == t.END:
            of[place] = last
        elif row >= 0:
            counts.append(len(gate))
            parents += gate
            if kind == t.COMPUTE:
                gate = [row]
            else:
                issued.setdefault(slot_of[row], []).append(row)
                last = row
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return of, first, np.array(parents, np.int64)
