"""One number for everything simulated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astranb.core.state import digest

from ._machine import Machine

__all__ = ["state_hash"]


def state_hash(machine: Machine) -> str:
    """Hash the live state: 32 hex digits.

    Free slots, spare capacity and the order of the heap's array are no part of it: the
    queued events are taken in their order, and of the requests only those under way.
    """
    return digest(_live(machine))


def _live(machine: Machine) -> Iterator[tuple[str, np.ndarray]]:
    for name, table in machine.tables.items():
        rows = np.asarray(table)
        if name == "heap":
            queued = rows[: int(machine.clock[0].queued)]
            yield name, queued[np.lexsort((queued["order"], queued["time_ps"]))]
        elif name == "requests":
            slots = np.flatnonzero(rows["live"])
            yield "slots", slots
            yield name, rows[slots]
        else:
            yield name, rows
