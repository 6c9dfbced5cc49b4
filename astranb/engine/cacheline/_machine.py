"""All tables of one simulated machine, and the loop bound to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from astranb.core.jit import Records
from astranb.core.state import own

from .loop import ENTRY

__all__ = ["Machine"]


@dataclass
class Machine:
    """All tables of one simulated machine, and the loop bound to them.

    Attributes
    ----------
    tables : dict of str to recarray
        The simulated state: every owner of :data:`~astranb.engine.cacheline.loop.OWNERS`.
    control, breaks, recorder, flights, activity, trace, bursts, current : recarray
        Limits, breakpoints, recording and tracing: not simulated.
    landed : ndarray of int32
        For every line of every piece the operation that wrote it last, as ``pieces["writer"]``.
    places : ndarray of int64
        Where the lines of each piece begin in it.
    """

    tables: dict[str, Records]
    control: Records
    breaks: Records
    recorder: Records
    flights: Records
    activity: Records
    trace: Records
    bursts: Records
    current: Records
    landed: Records
    places: Records
    _call: Callable[[], int] | None = None

    def __getattr__(self, name: str) -> Records:
        """Give a table by its name: ``machine.links``."""
        try:
            return self.__dict__["tables"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None

    def run(self) -> int:
        """Call the loop once, up to the limits in ``control``."""
        if self._call is None:
            raw = [
                np.asarray(self.tables[n]).view(np.int64)
                for n in ("links", "gpus", "sms", "blocks", "semaphores")
            ]
            self._call = ENTRY.bind(
                self.control,
                self.breaks,
                self.recorder,
                self.flights,
                self.activity,
                self.trace,
                self.bursts,
                self.current,
                self.landed,
                self.places,
                *raw,
                *self.tables.values(),
            )
        return self._call()

    def counts(self) -> dict[str, int]:
        """Give the clock's counts: what moments of the past are named by."""
        names = ("events", "instants", "instructions", "phases", "now_ps")
        return {name: int(self.clock[0][name]) for name in names}

    def kept(self) -> dict[str, memoryview]:
        """Give what a checkpoint holds, as writable bytes: the state, and what goes back with it."""
        tables = {n: t for n, t in self.tables.items() if n not in ("ways", "route")}
        if self.recorder[0].on:
            tables |= {"recorder": self.recorder, "activity": self.activity, "current": self.current}
        if self.recorder[0].landing:
            tables["landed"] = self.landed
        return {name: memoryview(np.asarray(t).view(np.uint8).reshape(-1)) for name, t in tables.items()}  # type: ignore[arg-type]

    def resize(self, sizes: Mapping[str, int]) -> None:
        """Do nothing: the tables never grow."""

    def copy(self, *, record: bool = True) -> Machine:
        """An independent machine in the same state; without its recording where not wanted."""
        recorder = own(self.recorder)
        recorder["on"] &= int(record)
        return Machine(
            {name: own(table) for name, table in self.tables.items()},
            own(self.control),
            own(self.breaks),
            recorder,
            own(self.flights if record else self.flights[:1]),
            own(self.activity if record else self.activity[:1]),
            own(self.trace[:1]),
            own(self.bursts if record else self.bursts[:1]),
            own(self.current if record else self.current[:1]),
            own(self.landed),
            self.places,
        )

    @property
    def state_bytes(self) -> int:
        """Bytes of the simulated state."""
        return sum(table.nbytes for table in self.tables.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        noted = (self.flights, self.activity, self.bursts, self.current, self.landed)
        return sum(table.nbytes for table in (*self.tables.values(), *noted))
