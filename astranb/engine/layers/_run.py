"""A run as Python holds it: made, moved on event by event or to its end, and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.errors import InputError
from astranb.core.state import allocate, digest, own
from astranb.engine.stops import ENDED
from astranb.workload.astrasim1._layers import Workload
from astranb.workload.astrasim1._network import HierarchicalNetwork
from astranb.workload.astrasim1._system import System
from astranb.workload.astrasim1.inputs import LayerWorkload

from . import _tables as t
from ._build import Built, build, notes
from ._loop import ENTRY
from ._result import Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from astranb.core.jit import Records

__all__ = ["Run", "owners", "words"]

_NEVER = 2**62
_LIMITS = ("until_ps", "turns", "ended", "phases", "passes")


def owners(m: t.Machine) -> tuple[Records, ...]:
    """Give the tables that a condition may name, in the order of their numbers."""
    return m.clock, m.operations, m.slots, m.collectives, m.queues


def words(m: t.Machine) -> tuple[Records, ...]:
    """Give the same as plain numbers, as the loop takes them."""
    return tuple(np.asarray(table).view(t.NUMBER).view(np.recarray) for table in owners(m))


class Run:
    """One simulation under way.

    Parameters
    ----------
    workload : Workload
    system : System
    network : HierarchicalNetwork
    passes : int
        How often the training loop is gone through.
    congested : bool
        Whether messages wait for one another on links.

    Raises
    ------
    InputError
        Something does not fit.

    Examples
    --------
    >>> from astranb.workload.astrasim1 import Algorithm, Layer, Part
    >>> ring = HierarchicalNetwork(("Ring",), (8,), (2,), (500,), (50,), compat=True)
    >>> system = System({"all-reduce": (Algorithm("ring"),)}, splits=4)
    >>> layer = Layer("a", weight_gradient=Part(1, "ALLREDUCE", 1 << 20), update_ns=1)
    >>> run = Run(Workload("MICRO", (layer,)), system, ring)
    >>> run.step(2), run.now_ps
    (False, 11420000)
    >>> run.step()
    True
    >>> run.result().time_ns
    45681
    """

    def __init__(
        self,
        workload: Any,
        system: Any = None,
        network: Any = None,
        passes: int = 1,
        *,
        congested: bool = False,
        record: bool = False,
    ) -> None:
        if isinstance(workload, LayerWorkload):
            w = workload
            workload, system, network, passes, congested = (
                w.table,
                w.system,
                w.network,
                w.passes,
                w.congestion,
            )
        built = build(workload, system, network, passes, congested=congested)
        self._hold(workload, system, network, built, congested=congested)
        if record:
            self.record(on=True)

    def _hold(
        self,
        workload: Workload,
        system: System,
        network: HierarchicalNetwork,
        built: Built,
        *,
        congested: bool,
    ) -> None:
        self.workload, self.system, self.network, self.congested = workload, system, network, congested
        self.sent, self.planned, self.levels = built[1:]
        self.machine = built.machine
        self._limits = allocate(1, t.LIMITS)

    @classmethod
    def of_built(
        cls,
        workload: Workload,
        system: System,
        network: HierarchicalNetwork,
        built: Built,
        *,
        congested: bool,
    ) -> Run:
        """Go on with tables as they stand: nothing is built anew."""
        run = object.__new__(cls)
        run._hold(workload, system, network, built, congested=congested)
        return run

    @property
    def built(self) -> Built:
        """The tables, and what they were made of."""
        return Built(self.machine, self.sent, self.planned, self.levels)

    @property
    def machine(self) -> t.Machine:
        """The tables, to look at."""
        return self._machine

    @machine.setter
    def machine(self, machine: t.Machine) -> None:
        """Go on with other tables."""
        self._machine = machine
        self._call: Callable[[], int] | None = None

    @property
    def now_ps(self) -> int:
        """The time of the last event."""
        return int(self._machine.clock[0].now_ps)

    @property
    def next_ps(self) -> int:
        """The time of the next event, -1 where none is left."""
        m = self._machine
        return int(m.events[int(m.events[0].heap)].time_ps) if m.clock[0].heaped else -1

    @property
    def events(self) -> int:
        """How many events have been handled."""
        return int(self._machine.clock[0].events)

    def step(self, events: int = _NEVER) -> bool:
        """Handle so many events, or all; returns whether none is left.

        Parameters
        ----------
        events : int
            However a run is cut into steps, the same happens.
        """
        if events < 0:
            raise InputError(f"{events} events", where="step", hint="take 0 or more")
        why = self.go(steps=min(self.events + events, _NEVER))
        return why == ENDED or int(self._machine.clock[0].heaped) == 0

    def go(self, *, steps: int = _NEVER, closely: bool = False, **most: int) -> int:
        """Handle events until there are none or a limit is met.

        Parameters
        ----------
        steps : int
            Most events, counted from the start of the run, as are the following.
        closely : bool
            Whether the following limits, and breakpoints, are looked at before each event.
        **most : int
            ``until_ps``: nothing later is handled; ``turns`` (instants), ``ended`` (computations
            and collectives), ``phases`` (of chunks), ``passes``: no event begins beyond so many.

        Returns
        -------
        int
            Why it stopped: a number of :mod:`astranb.engine.stops`.
        """
        limits = self._limits[0]
        limits.events, limits.closely = steps, closely
        for name in _LIMITS:
            limits[name] = most.get(name, _NEVER)
        m = self._machine
        m.watch[0].hit = -1
        if self._call is None:
            self._call = ENTRY.bind(self._limits, *m, *words(m))
        return self._call()

    def record(self, *, on: bool) -> None:
        """Note phases of chunks from now on, or no longer; what was noted is forgotten."""
        m = self._machine
        phases = int((m.chunks.phases[m.collectives.first_chunk] * m.collectives.chunks).sum())
        self.machine = m._replace(**notes(phases, record=on))

    def copy(self) -> Run:
        """An independent run in the same state."""
        machine = t.Machine(*(own(table) for table in self._machine))
        built = self.built._replace(machine=machine)
        return Run.of_built(self.workload, self.system, self.network, built, congested=self.congested)

    def state_hash(self) -> str:
        """Hash what is simulated: the program's place, collectives, chunks, queues, time."""
        tables = self._machine._asdict()
        return digest((name, table) for name, table in tables.items() if name not in t.NOTES)

    def result(self) -> Result:
        """Read the results, of the end or of what has been simulated so far."""
        return Result.of(self._machine, self.sent, self.workload, self.network)
