"""One number for everything simulated."""

from __future__ import annotations

import hashlib

import numpy as np

from ._machine import Machine

__all__ = ["state_hash"]


def state_hash(machine: Machine) -> str:
    """Hash the live state: 32 hex digits.

    Free slots, spare capacity and the order of the heap's array are no part of it: the
    queued events are taken in their order, and of the requests only those under way.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, table in machine.tables.items():
        if name == "heap":
            live = np.asarray(table[: int(machine.clock[0].queued)])
            live = live[np.lexsort((live["seq"], live["time_ps"]))]
        elif name == "requests":
            number = np.flatnonzero(table["live"])
            digest.update(number.tobytes())
            live = np.asarray(table[number])
        else:
            live = np.asarray(table)
        digest.update(f"{name}:{len(live)}:".encode())
        digest.update(np.ascontiguousarray(live).tobytes())
    return digest.hexdigest()
