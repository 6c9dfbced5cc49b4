"""Memory of ranks over time, of runs whose workload has a :class:`Footprint`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from astranb.core.errors import InputError
from astranb.core.perfetto import Event, counter
from astranb.workload.astrasim2 import Footprint

from .run import OperationRun

__all__ = [
    "footprint_of",
    "fullest_in",
    "fullest_rank",
    "held_by",
    "memory_counters",
    "memory_table",
]


def footprint_of(engine: OperationRun, where: str) -> Footprint:
    """Return the footprint of a run.

    Raises
    ------
    InputError
        It has none.
    """
    found = engine.about.footprint
    if found is None:
        what = f"it is not known what {engine.title} holds in memory"
        hint = "simulate a step of a transformer: Simulation(workload(model, ...))"
        raise InputError(what, where=where, hint=hint)
    return found


def fullest_rank(engine: OperationRun, ranks: int | None = None) -> int:
    """Return the first rank, of all or of so many, that ever holds most; 0 where nothing is known."""
    found = engine.about.footprint
    return 0 if found is None else int(np.argmax(found.peaks().sum(axis=1)[found.table[:ranks]]))


def held_by(engine: OperationRun, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what a rank has held so far: times in ps, and from each on the bytes by parts."""
    found = footprint_of(engine, "memory")
    first, until = engine.about.start[rank : rank + 2].tolist()
    return found.over_time(rank, *engine.times_ps(slice(first, until)))


def fullest_in(times: np.ndarray, held: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the rows of what is held in each column of time when it is most.

    Parameters
    ----------
    times : ndarray of int64, shape (n,)
    held : ndarray of int64, shape (n, parts)
        As :func:`held_by` gives them.
    edges : ndarray of int64, shape (columns + 1,)
        Ascending times in ps.

    Returns
    -------
    ndarray of int64, shape (columns,)

    Examples
    --------
    >>> times, held = np.array([0, 10, 20]), np.array([[1], [5], [2]])
    >>> fullest_in(times, held, np.array([0, 5, 12, 30])).tolist()
    [0, 1, 1]
    """
    total = held.sum(axis=1)
    first = np.maximum(0, np.searchsorted(times, edges[:-1], "right") - 1)
    until = np.maximum(first + 1, np.searchsorted(times, edges[1:], "left"))
    rows = [a + int(np.argmax(total[a:b])) for a, b in zip(first.tolist(), until.tolist(), strict=True)]
    return np.array(rows, np.int64)


def memory_table(engine: OperationRun) -> dict[str, Any]:
    """Return columns of what one rank of each stage has held: a row for each change."""
    found = footprint_of(engine, "memory")
    ranks = found.ranks_of_tables()
    each = [held_by(engine, rank) for rank in ranks]
    counts = [len(times) for times, _ in each]
    held = np.concatenate([rows for _, rows in each])
    return {
        "rank": np.repeat(ranks, counts),
        "stage": np.repeat(found.table[ranks], counts),
        "time_ps": np.concatenate([times for times, _ in each]),
        **{name: held[:, number] for number, name in enumerate(found.parts)},
        "total": held.sum(axis=1),
    }


def memory_counters(engine: OperationRun) -> Iterator[Event]:
    """Yield counters of a Perfetto trace: bytes by parts, of one rank of each stage."""
    found = engine.about.footprint
    if found is None:
        return
    for rank in found.ranks_of_tables():
        times, held = held_by(engine, rank)
        for at_ps, row in zip(times.tolist(), held.tolist(), strict=True):
            yield counter("memory (bytes)", rank + 1, at_ps, **dict(zip(found.parts, row, strict=True)))
