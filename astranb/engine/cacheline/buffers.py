"""The fullest buffers and longest queues: at links, L2 slices and HBM channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.net import CLASSES

from .paths import BUFFERS
from .state import CacheLineState

__all__ = ["buffers"]


def buffers(engine: CacheLineState, most: int) -> dict[str, Any]:
    """Return the columns of :meth:`.Simulation.buffers`; ``all`` is how many hold anything."""
    parts = [_of_links(engine), *(_of_servers(engine, kind) for kind in ("l2", "hbm"))]
    where, taken, capacity, waiting, wait_ps = (np.concatenate(column) for column in zip(*parts, strict=True))
    full = np.where(capacity > 0, taken / np.maximum(1, capacity), 0)
    order = np.lexsort((-waiting, -wait_ps, -full))
    order = order[((taken > 0) | (waiting > 0) | (wait_ps > 0))[order]]
    top = order[:most]
    unit = "bytes" if not engine.machine.clock[0].finite and engine.machine.roce[0].on else "lines"
    return {
        "path": [_path(engine, int(one)) for one in where[top]],
        "taken": taken[top],
        "capacity": capacity[top],
        "unit": [unit] * len(top),
        "waiting": waiting[top],
        "wait_ps": wait_ps[top],
        "all": len(order),
    }


_Part = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Place (:func:`_path`), bytes taken, capacity (0: unlimited), waiting, time until it is empty."""
_LINK, _L2, _HBM = 0, 1, 2
_OF = 2**40  # numbers of one kind


def _of_links(engine: CacheLineState) -> _Part:
    """Queues of links; without queues of their own the time until a link is free of what it has taken."""
    m, links = engine.machine, len(engine.fabric.links)
    if not m.clock[0].managed:
        none = np.zeros(links, np.int64)
        wait_ps = np.maximum(0, np.asarray(m.links["free_at_ps"])[:links] - engine.now_ps)
        return np.arange(links) * CLASSES, none, none, none, wait_ps
    rows = m.queues[: links * CLASSES]
    none = np.zeros(len(rows), np.int64)
    taken, capacity = none, none
    if m.clock[0].finite:
        capacity = none + engine.network.buffers
        taken = capacity - np.asarray(rows["credits"])
    elif m.roce[0].on:
        taken = np.asarray(rows["stored"])
        capacity = none + int(m.roce[0].xoff)
    return np.arange(len(rows)), taken, capacity, np.asarray(rows["waiting"]), none


def _of_servers(engine: CacheLineState, kind: str) -> _Part:
    """L2 slices or HBM channels: the time until they have served what waits."""
    m = engine.machine
    rows = m.l2_slices if kind == "l2" else m.hbm_channels
    none = np.zeros(len(rows), np.int64)
    where = np.arange(len(rows)) + _OF * (_L2 if kind == "l2" else _HBM)
    return where, none, none, none, np.maximum(0, np.asarray(rows["free_at_ps"]) - engine.now_ps)


def _path(engine: CacheLineState, where: int) -> str:
    """The path of a row of the columns."""
    kind, number = divmod(where, _OF)
    if kind == _LINK:
        link = engine.fabric.name(number // CLASSES)
        return f"{link}.buffer.{BUFFERS[number % CLASSES]}" if engine.machine.clock[0].managed else link
    first = np.asarray(engine.machine.gpus["first_l2_slice" if kind == _L2 else "first_hbm_channel"])
    rank = int(np.searchsorted(first, number, side="right")) - 1
    return f"gpu[{rank}].{'l2' if kind == _L2 else 'hbm'}.{number - int(first[rank])}"
