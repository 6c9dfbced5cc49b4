"""What slices of memory hold at the start of a run and must hold at its end, for a page.

Consecutive slices with the same are one run: ``[slices, ...]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.collectives import BUFFERS, MIXED, Joined, Lowered, Promise, promise
from astranb.collectives.language.reduction import Reduction
from astranb.engine.cacheline import CacheLineEngine, sums

__all__ = ["contents"]


def contents(engine: CacheLineEngine) -> dict[str, Any]:
    """Describe contributions: what counts as one, where they are at first, and what is promised.

    Returns
    -------
    dict
        ``collective`` and ``program``: their names; ``channels``: of the program; ``columns``: how many
        contributions are counted, as many of each rank; ``repeatable``: one that is there twice does no harm;
        ``sums``: ranks hold copies of the same chunks; ``patterns``: sets of columns; ``promised``: runs of
        the number of a pattern, or -1, and of the chunk that it is. Where contributions are not the inputs of
        the ranks, ``layout`` has runs of column and item of inputs, and in ``items`` the chunk of each item.
    """
    program = engine.program
    layout = program.layout
    slices = len(program.slices)
    wanted = _promise(engine, program)
    patterns, number = np.unique(wanted.times > 0, axis=0, return_inverse=True)
    pattern, chunk = np.full(slices, -1), np.zeros(slices, np.int64)
    pattern[wanted.slices], chunk[wanted.slices] = number.reshape(-1), wanted.chunk
    found: dict[str, Any] = {
        "collective": engine.work.name,
        "program": program.name,
        "channels": program.channels,
        "columns": program.ranks if layout is None else layout.ranks * layout.most,
        "repeatable": (Reduction() if layout is None else layout.reduction).repeatable,
        "sums": sums(engine),
        "patterns": [np.flatnonzero(row).tolist() for row in patterns],
        "promised": _runs(pattern, chunk),
    }
    if layout is None:
        return found
    table = program.slices
    at = layout.find("input", table["gpu"].astype(np.int64), table["chunk"].astype(np.int64))
    known = (table["buffer"] == BUFFERS.index("input")) & (at >= 0)
    column, item = np.zeros(slices, np.int64), np.full(slices, MIXED)
    column[known], item[known] = layout.column[at[known]], layout.item[at[known]]
    return {**found, "layout": {"inputs": _runs(column, item), "items": layout.inputs[1].tolist()}}


def _promise(engine: CacheLineEngine, program: Lowered) -> Promise:
    if isinstance(program, Joined):
        return program.promise()
    return promise(program, engine.work.name, engine.work.root, program.slices)


def _runs(*columns: np.ndarray) -> list[list[int]]:
    """How many rows have the same values, and these, run by run.

    Examples
    --------
    >>> _runs(np.array([4, 4, 4]), np.array([0, 1, 1]))
    [[1, 4, 0], [2, 4, 1]]
    """
    rows = np.stack(columns, axis=1)
    if not len(rows):
        return []
    first = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]).any(axis=1)))
    lengths = np.diff(np.append(first, len(rows)))
    return [[length, *values] for length, values in zip(lengths.tolist(), rows[first].tolist(), strict=True)]
