"""A run: its inputs and tables, and the methods that handle events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.state import allocate, digest, own
from astranb.workload.astrasim1 import LayerWorkload

from . import tables as t
from .build import Built, build
from .loop import ENTRY
from .recording import recording_tables
from .result import LayerResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from astranb.core.jit import Records
    from astranb.workload.astrasim1 import Loop

__all__ = ["LayerRun", "condition_tables"]

_NEVER = 2**62
_LIMITS = ("until_ps", "turns", "ended", "phases", "passes")


def condition_tables(m: t.LayerMachine) -> tuple[Records, ...]:
    """Return the tables that a condition may name, in the order of their numbers."""
    return m.clock, m.operations, m.slots, m.collectives, m.queues


def _numbers(m: t.LayerMachine) -> tuple[Any, ...]:
    """Return the same tables as plain numbers, as the loop takes them."""
    return tuple(np.asarray(table).view(np.int64) for table in condition_tables(m))


class LayerRun:
    """The state of a simulation.

    Parameters
    ----------
    inputs : LayerWorkload
    built : Built, optional
        Tables to continue with; by default they are built.
    record : bool
        Record phases of chunks.
    loop : Loop, optional
        The training loop; the one that the table names where not given.

    Raises
    ------
    InputError
        The inputs do not fit together.

    Examples
    --------
    >>> from astranb.workload.astrasim1 import HierarchicalNetwork, Layer, LayerSystem, LayerTable, Part
    >>> ring = HierarchicalNetwork("Ring", units=8, links=2, latency_ns=500, bandwidth=50, compat=True)
    >>> layer = Layer("a", weight_gradient=Part(1, "ALLREDUCE", "1 MiB"), update_ns=1)
    >>> run = LayerRun(LayerWorkload(LayerTable("MICRO", [layer]), LayerSystem("ring", splits=4), ring))
    >>> _ = run.go(steps=2)
    >>> run.now_ps
    11420000
    >>> _ = run.go()
    >>> run.result().time_ns
    45681
    """

    def __init__(
        self,
        inputs: LayerWorkload,
        built: Built | None = None,
        *,
        record: bool = False,
        loop: Loop | None = None,
    ) -> None:
        self.inputs, self.loop = inputs, loop
        self.built = build(inputs, loop) if built is None else built
        self._limits = allocate(1, t.LIMITS)
        self._call: Callable[[], int] | None = None
        if record:
            self.record(on=True)

    @property
    def machine(self) -> t.LayerMachine:
        """The tables."""
        return self.built.machine

    @machine.setter
    def machine(self, machine: t.LayerMachine) -> None:
        """Continue with other tables."""
        self.built = self.built._replace(machine=machine)
        self._call = None

    @property
    def now_ps(self) -> int:
        """Time of the last event."""
        return int(self.machine.clock[0].now_ps)

    @property
    def next_ps(self) -> int:
        """Time of the next event, -1 if none is left."""
        m = self.machine
        return int(m.events[int(m.events[0].heap)].time_ps) if m.clock[0].heaped else -1

    @property
    def events(self) -> int:
        """Number of events handled."""
        return int(self.machine.clock[0].events)

    def go(self, *, steps: int = _NEVER, closely: bool = False, **most: int) -> int:
        """Handle events until none is left or a limit is reached.

        Parameters
        ----------
        steps : int
            Limit of the number of events, counted from the start of the run like the following ones.
        closely : bool
            Check the following limits, and breakpoints, before each event.
        **most : int
            Limits: ``until_ps`` (last time to handle), ``turns`` (timesteps), ``ended`` (computations
            and collectives), ``phases`` (of chunks), ``passes``.

        Returns
        -------
        int
            Why it stopped: a number of :mod:`astranb.engine.stops`.
        """
        limits = self._limits[0]
        limits.events, limits.closely = steps, closely
        for name in _LIMITS:
            limits[name] = most.get(name, _NEVER)
        m = self.machine
        m.watch[0].hit = -1
        if self._call is None:
            self._call = ENTRY.bind(self._limits, m, _numbers(m))
        return self._call()

    def record(self, *, on: bool) -> None:
        """Turn the recording of chunks' phases on or off; what was recorded is dropped."""
        m = self.machine
        phases = int((m.chunks.phases[m.collectives.first_chunk] * m.collectives.chunks).sum())
        self.machine = m._replace(**recording_tables(phases, record=on))

    def copy(self) -> LayerRun:
        """Return an independent run in the same state."""
        machine = t.LayerMachine(*(own(table) for table in self.machine))
        return LayerRun(self.inputs, self.built._replace(machine=machine), loop=self.loop)

    def digest(self) -> str:
        """Return a hash of the simulated state."""
        tables = self.machine._asdict()
        return digest((name, table) for name, table in tables.items() if name not in t.RECORDS)

    def result(self) -> LayerResult:
        """Return the results so far."""
        return LayerResult.of(self.machine, self.built.sent, self.inputs)
