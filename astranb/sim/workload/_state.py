"""A run of a workload as something that has a history."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from astranb.core.state import allocate, digest
from astranb.workload.astrasim2 import Run
from astranb.workload.astrasim2 import _tables as t

__all__ = ["COUNTS", "State"]

COUNTS = ("events", "turns", "ended", "delivered", "phases", "now_ps")
"""What moments are named by: events, instants, operations, messages, phases of chunks, time."""

_NOT_KEPT = (*t.FIXED, "points", "passed")


class State:
    """What :class:`astranb.sim._history.History` keeps of a run.

    Parameters
    ----------
    run : Run
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def machine(self) -> t.Machine:
        """The tables as they are now; a table that grows is another one."""
        return self.run.machine

    @property
    def now_ps(self) -> int:
        """The time of the last event."""
        return self.run.now_ns * 1000

    def count(self, name: str) -> int:
        """Give one of :data:`COUNTS`."""
        m = self.machine
        if name == "now_ps":
            return self.now_ps
        if name == "turns":
            return int(m.queue[0].turns)
        return int(m.clock[0]["steps" if name == "events" else name])

    def counts(self) -> dict[str, int]:
        """Give all of :data:`COUNTS`."""
        return {name: self.count(name) for name in COUNTS}

    def kept(self) -> dict[str, memoryview]:
        """Give what a checkpoint holds: what changes, and what is noted but not too long."""
        tables = self.machine._asdict()
        return {
            name: memoryview(np.asarray(table).view(np.uint8).reshape(-1))  # type: ignore[arg-type]
            for name, table in tables.items()
            if name not in _NOT_KEPT
        }

    def resize(self, sizes: Mapping[str, int]) -> None:
        """Make the tables as long as they were at a checkpoint."""
        changed = {}
        for name, size in sizes.items():
            table = getattr(self.machine, name)
            if table.nbytes != size:
                changed[name] = allocate(size // table.itemsize, table.dtype)
        if changed:
            self.run.machine = self.machine._replace(**changed)

    @property
    def state_bytes(self) -> int:
        """Bytes of the simulated state."""
        return sum(table.nbytes for name, table in self.machine._asdict().items() if name not in t.NOTES)

    def digest(self) -> str:
        """Hash all that is simulated, but nothing that is noted (32 hex digits)."""
        return digest((n, table) for n, table in self.machine._asdict().items() if n not in t.NOTES)

    def copy(self) -> State:
        """An independent one."""
        return State(self.run.copy())
