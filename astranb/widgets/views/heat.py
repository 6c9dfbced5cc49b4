"""Traffic matrix: bytes from rank to rank, of all time so far or of a window.

Of runs by messages those that are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from astranb.drawing import traffic_of
from astranb.sim import Simulation
from astranb.widgets.feed import NOW, Feed, LineFeed, Message, OperationFeed, Options, View, pack

from .aggregates import window_of
from .flows import absent_of, columns_of

__all__ = ["MOST_CELLS", "VIEW", "traffic"]

MOST_CELLS = 256
"""Rows of a matrix that is sent; of more ranks several are one row."""


def traffic(sim: Simulation, start_ps: float = 0.0, end_ps: float | None = None) -> np.ndarray:
    """Bytes that each rank has sent to each, without headers, from row to column; see :func:`traffic_of`.

    Of a window only what falls in it: an operation that it cuts counts by the part of its time that is
    in it, as if its lines were spread evenly.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_gather("64 KiB", "allpairs"), record=False)
    >>> _ = sim.run()
    >>> matrix = traffic(sim)
    >>> int(matrix[0, 1]), int(matrix[0, 0]), int(matrix.sum())  # 8 KiB to each of the others
    (8192, 0, 458752)
    """
    if end_ps is None:
        return traffic_of(sim.engine)
    ops = sim.engine.machine.ops
    begun = ops["started_ps"].astype(np.float64)
    ended = np.where(ops["ended_ps"] > 0, ops["ended_ps"], max(sim.now_ps, 1))
    inside = np.minimum(ended, end_ps) - np.maximum(begun, start_ps)
    return traffic_of(sim.engine, np.clip(inside / np.maximum(ended - begun, 1), 0, 1))


def _of_messages(feed: OperationFeed, each: int, start_ps: float, end_ps: float) -> np.ndarray:
    """Bytes of recorded messages that were sent in a window, its end included: each counts at its start."""
    found = columns_of(feed)
    rows = -(-feed.sim.ranks // each)
    sent = (found["start_ps"] >= start_ps) & (found["start_ps"] <= end_ps)
    cell = found["source"][sent] // each * rows + found["target"][sent] // each
    return np.bincount(cell, found["bytes"][sent], rows * rows).reshape(rows, rows)


def answer(feed: Feed, content: dict[str, Any]) -> Message:
    """The matrix at the cursor (``at_ps``) as float32, row by row; of many ranks several are one row."""
    window = window_of(feed, content) if content.get("window") else None
    if isinstance(feed, OperationFeed):
        n = feed.sim.ranks
        each = -(-n // MOST_CELLS)
        cells = _of_messages(feed, each, *(window or window_of(feed, content)))
        absent = absent_of(feed)
        partly = not absent and feed.sim.engine.recorded_from > 0
        return _message(n, each, cells, window, partly=partly, absent=absent)
    assert isinstance(feed, LineFeed)  # noqa: S101 - there is no other
    sim = feed.session.at(content.get("at_ps"))
    matrix = traffic(sim, *window) if window else traffic(sim)
    n = len(matrix)
    each = -(-n // MOST_CELLS)
    if each > 1 and n % feed.units.gpus[0] == 0 and feed.units.gpus[0] > 1:
        whole = feed.units.gpus[0]  # of an instance, rather than across two of them
        each = -(-each // whole) * whole if whole < each else whole
    rows = -(-n // each)
    padded = np.zeros((rows * each, rows * each))
    padded[:n, :n] = matrix
    return _message(n, each, padded.reshape(rows, each, rows, each).sum(axis=(1, 3)), window)


def _message(
    ranks: int,
    each: int,
    cells: np.ndarray,
    window: tuple[float, float] | None,
    *,
    partly: bool = False,
    absent: str = "",
) -> Message:
    meta = {
        "ranks": ranks,
        "each": each,
        "rows": len(cells),
        "total": float(cells.sum()),
        "window": list(window) if window else None,
        "partly": partly,
        "absent": absent,
    }
    return meta, pack("traffic", cells=cells)


def _offline(feed: Feed) -> Mapping[str, Sequence[Options]]:
    return {} if isinstance(feed, OperationFeed) and absent_of(feed) else {"traffic": (NOW,)}


VIEW = View(Feed, {"traffic": answer}, offline=_offline)
