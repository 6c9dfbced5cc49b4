"""Who sends how much to whom: bytes from rank to rank, of all time so far or of a window."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.gpu import tables as t
from astranb.sim import Simulation
from astranb.widgets.feed import LineFeed, Message, View, pack

from .aggregates import window_of

__all__ = ["MOST_CELLS", "VIEW", "traffic"]

MOST_CELLS = 256
"""Rows of a matrix that is sent; of more ranks several are one row."""


def traffic(sim: Simulation, start_ps: float = 0.0, end_ps: float | None = None) -> np.ndarray:
    """Bytes that each rank has sent to each.

    Parameters
    ----------
    sim : Simulation
    start_ps, end_ps : float, optional
        Only what falls in this window; an operation that it cuts counts by the part of its
        time that is in it, as if its lines were spread evenly. All time so far without.

    Returns
    -------
    ndarray of float64, shape (ranks, ranks)
        Data without headers, from row to column: what a rank stores at another one, and what
        it loads from there. What stays on a GPU is not counted.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_gather("64 KiB", "allpairs"), record=False)
    >>> _ = sim.run()
    >>> matrix = traffic(sim)
    >>> int(matrix[0, 1]), int(matrix[0, 0]), int(matrix.sum())  # 8 KiB to each of the others
    (8192, 0, 458752)
    """
    machine = sim.engine.machine
    ops, operands = machine.ops, machine.operands
    moves = np.flatnonzero((ops["kind"] == t.MOVE) & (ops["started_ps"] >= 0))
    rank = machine.blocks["gpu"][ops["block"][moves]].astype(np.int64)
    lines = ops["lines"][moves].astype(np.float64)
    whole = np.maximum(0, (lines - 1) * ops["payload"][moves] + ops["last_bytes"][moves])
    done = np.where(lines > 0, 1 - ops["left"][moves] / np.maximum(1, lines), 0.0)
    if end_ps is not None:
        begun = ops["started_ps"][moves].astype(np.float64)
        ended = np.where(ops["ended_ps"][moves] > 0, ops["ended_ps"][moves], max(sim.now_ps, 1))
        length = np.maximum(ended - begun, 1)
        inside = np.minimum(ended, end_ps) - np.maximum(begun, start_ps)
        done = done * np.clip(inside / length, 0, 1)
    moved = whole * done
    n = len(sim.engine.fabric.gpus)
    matrix = np.zeros(n * n)
    for side, outward in (("source", False), ("target", True)):
        count = ops[f"{side}s"][moves].astype(np.int64)
        place = np.repeat(ops[f"first_{side}"][moves].astype(np.int64), count)
        place += np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
        other = operands["gpu"][place].astype(np.int64)
        here, amount = np.repeat(rank, count), np.repeat(moved, count)
        cell = here * n + other if outward else other * n + here
        matrix += np.bincount(cell[other != here], amount[other != here], n * n)
    return matrix.reshape(n, n)


def answer(feed: LineFeed, content: dict[str, Any]) -> Message:
    """The matrix as float32, row by row; of many ranks several are one row and column."""
    sim = feed.sim
    window = content.get("window")
    matrix = traffic(sim, *window_of(feed, content)) if window else traffic(sim)
    n = len(matrix)
    each = -(-n // MOST_CELLS)
    if each > 1 and n % feed.units.gpus[0] == 0 and feed.units.gpus[0] > 1:
        whole = feed.units.gpus[0]  # of an instance, rather than across two of them
        each = -(-each // whole) * whole if whole < each else whole
    rows = -(-n // each)
    padded = np.zeros((rows * each, rows * each))
    padded[:n, :n] = matrix
    cells = padded.reshape(rows, each, rows, each).sum(axis=(1, 3))
    meta = {
        "ranks": n,
        "each": each,
        "rows": rows,
        "total": float(matrix.sum()),
        "now_ps": sim.now_ps,
        "window": list(window) if window else None,
    }
    return meta, pack("traffic", cells=cells)


VIEW = View(
    LineFeed,
    {"traffic": answer},
    offline={"traffic": ({},)},
)
