"""What moves a workload's simulation for its views: the session of a collective, with other verbs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from astranb.sim import Simulation, Stop
from astranb.widgets._changes import CHANGES
from astranb.widgets._pace import Pace
from astranb.widgets._session import Session
from astranb.widgets._verbs import Verb, count_of, when_of

__all__ = ["VERBS", "WorkloadSession", "session_of"]


_WATCHED_S = 15.0
_FASTEST = 1e11  # as far as the control goes


def _step(unit: str) -> Verb:
    def step(sim: Any, options: dict[str, Any]) -> Stop:
        return cast("Stop", sim.step(count_of(options), unit))

    return step


VERBS: dict[str, Verb] = {
    "reset": lambda sim, _: sim.reset(keep=True),
    "back": lambda sim, o: sim.back(count_of(o), str(o.get("unit", "event"))),
    **{unit: _step(unit) for unit in ("event", "cycle", "operation", "message", "phase", "pass")},
    "goto": lambda sim, o: sim.goto(when_of(o)),
    **CHANGES,
}
"""By the name of the command."""


class WorkloadPace(Pace):
    """How far a workload has come: of its operations, so many have ended."""

    @property
    def done(self) -> float:
        """Share of all operations that have ended, 0 to 1."""
        sim: Any = self._sim
        return 1.0 if sim.finished else float(sim.counts["operation"] / max(1, sim.engine.about.own))

    def _count(self) -> int:
        return 1  # the operations are counted anew each time


class WorkloadSession(Session):
    """The one place from which the views of a workload's simulation move it.

    Parameters
    ----------
    sim : Simulation
    """

    def __init__(self, sim: Simulation) -> None:
        self._workload = sim
        super().__init__(cast("Any", sim))
        # At first a run is watched for some seconds, as far as one can tell from what is computed.
        self.speed = float(min(max(sim.engine.longest_ps / _WATCHED_S, self.speed), _FASTEST))

    @property
    def verbs(self) -> Mapping[str, Verb]:
        """What may be done to it, by name."""
        return VERBS

    def _paced(self) -> Pace:
        return WorkloadPace(self.sim)

    def _phases(self) -> int:
        return self._workload.counts["phase"]


def session_of(sim: Simulation) -> WorkloadSession:
    """Give the session of a simulation: one, made when it is first asked for, as long-lived as it."""
    kept: dict[str, Any] = sim.__dict__
    if "_session" not in kept:
        kept["_session"] = WorkloadSession(sim)
    session: WorkloadSession = kept["_session"]
    return session
