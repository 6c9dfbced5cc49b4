"""One number for everything simulated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astranb.core.queue import live
from astranb.core.state import digest

from ._machine import CacheLineMachine

__all__ = ["state_hash"]


def state_hash(machine: CacheLineMachine) -> str:
    """Hash the live state: 32 hex digits.

    Free places and spare capacity are no part of it: the events to come are taken in their
    order, and of the requests only those under way.
    """
    return digest(_live(machine))


def _live(machine: CacheLineMachine) -> Iterator[tuple[str, np.ndarray]]:
    for name, table in machine.tables.items():
        rows = np.asarray(table)
        if name == "near":
            yield "event_queue", live(machine.event_queue)
        elif name in ("later", "slots", "far", "details"):
            continue
        elif name == "requests":
            under_way = np.flatnonzero(rows["live"])
            yield "under_way", under_way
            yield name, rows[under_way]
            if machine.clock[0].detailed:
                yield "details", np.asarray(machine.details)[under_way]
        else:
            yield name, rows
