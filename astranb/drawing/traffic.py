"""Traffic matrix of a run by cache lines, from its operations."""

from __future__ import annotations

import numpy as np

from astranb.core.arrays import numbered
from astranb.engine.cacheline import CacheLineEngine
from astranb.gpu import tables as t

__all__ = ["traffic_of"]


def traffic_of(engine: CacheLineEngine, share: np.ndarray | None = None) -> np.ndarray:
    """Return the payload that operations have moved so far, from row to column, as float64.

    A load counts as sent by the GPU that is read, and a line when it is issued. What stays on a GPU is
    not counted. ``share`` is the part of each operation that counts; all of it by default.
    """
    ops, operands, ranks = engine.machine.ops, engine.machine.operands, len(engine.machine.gpus)
    moves = np.flatnonzero((ops["kind"] == t.MOVE) & (ops["started_ps"] >= 0))
    row = ops[moves]
    payload = row["payload"].astype(np.int64)
    whole = np.maximum(0, (row["lines"] - 1) * payload + row["last_bytes"])
    moved = np.minimum((row["lines"] - row["left"]) * payload, whole)
    moved = moved if share is None else moved * share[moves]
    rank = engine.machine.blocks["gpu"][row["block"]].astype(np.int64)
    found = np.zeros(ranks * ranks)
    for side in ("source", "target"):
        count = row[f"{side}s"].astype(np.int64)
        place = np.repeat(row[f"first_{side}"].astype(np.int64), count)
        place += numbered(count)
        other = operands["gpu"][place].astype(np.int64)
        here, amount = np.repeat(rank, count), np.repeat(moved, count)
        cell = here * ranks + other if side == "target" else other * ranks + here
        found += np.bincount(cell[other != here], amount[other != here], ranks * ranks)
    return found.reshape(ranks, ranks)
