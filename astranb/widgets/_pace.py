"""How far a run has come, how fast it goes, and how long it will still take."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from astranb.sim import Simulation

__all__ = ["Pace"]

_OFTEN_S = 0.25
_MEMORY = 0.7
"""How much of the rate so far stays in the rate: the last second or so counts."""


class Pace:
    """The pace of a simulation while it runs as fast as it can.

    Parameters
    ----------
    sim : Simulation

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> pace = Pace(sim)
    >>> pace.done
    0.0
    >>> sim.run().why
    'end'
    >>> pace.done
    1.0
    """

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._all = max(1, self._count())
        self._seen: tuple[float, int, float] | None = None  # seconds, ps, share done
        self._told: dict[str, Any] = {}

    def _count(self) -> int:
        """How much there is to do."""
        return int(self._sim.engine.machine.ops["lines"].sum())

    @property
    def done(self) -> float:
        """Share of all lines that have been issued, 0 to 1."""
        left = int(np.asarray(self._sim.engine.machine.ops["left"]).sum())
        return 1.0 if self._sim.finished else 1.0 - min(left, self._all) / self._all

    def start(self) -> None:
        """Forget the pace of the run before."""
        self._seen, self._told = None, {}

    def tell(self) -> dict[str, Any]:
        """Give the share that is done, the rate and the time left, as far as they are known.

        Returns
        -------
        dict
            ``done`` (0 to 1), and after a moment ``ps_per_s`` (simulated time a second) and
            ``left_s`` (seconds, at the rate at which lines were issued of late).
        """
        now_s = perf_counter()
        if self._seen and now_s - self._seen[0] < _OFTEN_S:
            return self._told
        done = self.done
        told: dict[str, Any] = {"done": round(done, 4)}
        if self._seen:
            seen_s, seen_ps, seen_done = self._seen
            rate = max(0, self._sim.now_ps - seen_ps) / (now_s - seen_s)
            speed = max(0.0, done - seen_done) / (now_s - seen_s)
            before = self._told
            told["ps_per_s"] = rate + _MEMORY * (before.get("ps_per_s", rate) - rate)
            if speed > 0:
                left = (1 - done) / speed
                told["left_s"] = left + _MEMORY * (before.get("left_s", left) - left)
        self._seen, self._told = (now_s, self._sim.now_ps, done), told
        return told
