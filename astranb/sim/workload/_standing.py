"""Where a workload's run stands: what one can ask without moving it."""

from __future__ import annotations

from typing import Any

from astranb.core.units import format_time
from astranb.sim._edits import Parameter

from ._about import About
from ._driver import FOREVER, Driver
from ._edits import parameters_of
from ._inspect import inspect, narrate
from ._paths import resolve
from ._result import WorkloadResult
from ._state import State

__all__ = ["UNITS", "Standing"]

UNITS = {"event": "events", "cycle": "turns", "operation": "ended", "message": "delivered", "phase": "phases"}
"""The steps there are, and what counts them."""


class Standing:
    """What is now."""

    title: str
    about: About
    _driver: Driver

    @property
    def state(self) -> State:
        """The tables of the run, to look at."""
        return self._driver.state

    @property
    def now_ps(self) -> int:
        """Time of the event handled last."""
        return self.state.now_ps

    @property
    def next_ps(self) -> int | None:
        """Time of the next event; None where there is none."""
        return self._driver.next_ps if self._driver.next_ps < FOREVER else None

    @property
    def events(self) -> int:
        """Events handled so far."""
        return self.state.count("events")

    @property
    def counts(self) -> dict[str, int]:
        """How many of each unit of steps there have been: ``{"event": …, "operation": …}``."""
        return {unit: self.state.count(field) for unit, field in UNITS.items()}

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.state.machine.npus)

    @property
    def recording(self) -> bool:
        """Whether phases of chunks and traffic are noted."""
        return bool(self.state.machine.watch[0].recording)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to happen."""
        return self.state.run.next_ns < 0

    @property
    def result(self) -> WorkloadResult:
        """Times, breakdowns and traffic, up to now."""
        return WorkloadResult(self)

    def state_hash(self) -> str:
        """Hash everything simulated (32 hex digits); recording is no part of it."""
        return self.state.digest()

    def inspect(self, path: str) -> dict[str, Any]:
        """Look at an object: its state now, what is under way, what one can go on to.

        Parameters
        ----------
        path : str
            As ``rank[3]``, ``rank[3].op[5]`` (or an operation's name), ``rank[3].dim[0]``,
            ``dim[0]`` or ``link[7]``.
        """
        return inspect(self, path)

    def narrate(self) -> str:
        """Say in one line what happened last."""
        return narrate(self)

    def parameters(self, path: str = "") -> list[Parameter]:
        """What can be changed of an object with :meth:`set`: its value now, unit, limits, and when it acts.

        Parameters
        ----------
        path : str
            A rank, a dimension or a link; where empty the whole run, of which nothing can be.
        """
        if not path:
            return []
        place = resolve(path, self.about, self.state.machine)
        return parameters_of(place, self.state.machine, self._speed(place.npu))

    def _speed(self, rank: int) -> float:
        """How fast a rank computes, of what was described."""
        speeds = [e.number for e in self._driver.edits if e.kind == "rank" and rank in e.rows]
        return speeds[-1] if speeds else 1.0

    def __repr__(self) -> str:
        """One line: what runs on what, and where it stands."""
        shape = " x ".join(self.about.topology)
        return (
            f"<WorkloadSimulation {self.title} on {shape}: {self.ranks} ranks, "
            f"at {format_time(self.now_ps)}, "
            f"{self.events:,} events{', finished' if self.finished else ''}>"
        )
