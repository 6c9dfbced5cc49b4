"""A run as Python holds it: made, moved on event by event or to its end, and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.errors import InputError
from astranb.core.state import allocate, digest

from . import _tables as t
from ._build import build
from ._layers import Workload
from ._loop import ENDED, ENTRY
from ._network import HierarchicalNetwork
from ._result import Result
from ._system import System

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

__all__ = ["Run"]

_NEVER = 2**62


class Run:
    """One simulation under way.

    Parameters
    ----------
    workload : Workload
    system : System
    network : HierarchicalNetwork
    passes : int
        How often the training loop is gone through.

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
        self, workload: Workload, system: System, network: HierarchicalNetwork, passes: int = 1
    ) -> None:
        self.workload, self.system, self.network = workload, system, network
        self._machine, self._sent = build(workload, system, network, passes)

    @property
    def machine(self) -> t.Machine:
        """The tables, to look at."""
        return self._machine

    @property
    def now_ps(self) -> int:
        """The time of the last event."""
        return int(self._machine.clock[0].now_ps)

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
            raise InputError(f"{events} events", where="step", mend="take 0 or more")
        limits = allocate(1, t.LIMITS)
        limits.events = min(self.events + events, _NEVER)
        return ENTRY(limits, *self._machine) == ENDED or int(self._machine.clock[0].heaped) == 0

    def state_hash(self) -> str:
        """Hash what is simulated: the program's place, collectives, chunks, queues, time."""
        m = self._machine
        tables: Mapping[str, np.ndarray] = {
            name: getattr(m, name) for name in ("clock", "slots", "collectives", "streams", "queues")
        }
        return digest(tables.items())

    def result(self) -> Result:
        """Read the results, of the end or of what has been simulated so far."""
        return Result.of(self._machine, self._sent, self.workload, self.network)
