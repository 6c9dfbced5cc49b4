"""A private copy of a simulation that can be taken to any moment of its past, edits included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astranb.engine import Edit

__all__ = ["Replay"]


class Replay:
    """A copy that records nothing, and in which the edits of the original are carried out again.

    Parameters
    ----------
    sim : Simulation
        It stays where it is.

    Attributes
    ----------
    sim : Simulation
        The copy.

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb.sim import Replay
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    >>> _ = sim.step(500)
    >>> sim.set("gpu[1].l2", "1 us")
    >>> _ = sim.step(2000)
    >>> replay = Replay(sim)
    >>> replay.goto(0)
    >>> replay.goto(sim.now_ps)
    >>> replay.sim.state_hash() == sim.state_hash()
    True
    """

    def __init__(self, sim: Any) -> None:
        self._original = sim
        self.sim = sim.replica()

    def goto(self, when_ps: int) -> None:
        """Go to the moment at which everything up to a time has happened; at most to the original's."""
        original = self._original
        self.sim.engine.as_of_ps = -1  # it moves from its last event
        edits: Sequence[Edit] = original.driver.edits
        if not self._agrees(edits):
            self.sim = original.replica()
        driver = self.sim.driver
        field, target = ("now_ps", when_ps) if when_ps < original.now_ps else ("events", original.events)
        if when_ps < self.sim.now_ps:
            driver.back_to(field, target)
        driver.replay(field, target, edits[len(driver.edits) :])

    def look(self, when_ps: int) -> None:
        """Go to a time, and have every answer hold for that time, not for the last event before it."""
        self.goto(when_ps)
        self.sim.engine.as_of_ps = when_ps

    def _agrees(self, edits: Sequence[Edit]) -> bool:
        """Return whether the copy is at a moment of the original's past, including later edits to it."""
        had = self.sim.driver.edits
        due = edits[len(had) :]
        return edits[: len(had)] == had and (not due or due[0].events >= self.sim.events)
