"""Progress of a run, its rate, and the time that it still takes."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from astranb.engine.cacheline import CacheLineEngine
from astranb.sim import Simulation

__all__ = ["Progress"]

_OFTEN_S = 0.25
_MEMORY = 0.7
"""Weight of the rate so far in the rate: the last second or so counts."""


class Progress:
    """The progress of a simulation while it runs as fast as it can.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> progress = Progress(sim)
    >>> progress.done
    0.0
    >>> sim.run().why
    'end'
    >>> progress.done
    1.0
    """

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._seen: tuple[float, int, float] | None = None  # seconds, ps, share done
        self._last: dict[str, Any] = {}

    @property
    def done(self) -> float:
        """Share of all lines that have been issued, or of all operations that have ended; 0 to 1."""
        return 1.0 if self._sim.finished else _done(self._sim.engine)

    def start(self) -> None:
        """Forget the run before."""
        self._seen, self._last = None, {}

    def report(self) -> dict[str, Any]:
        """Return the share that is done, the rate and the time left, as far as they are known.

        Returns
        -------
        dict
            ``done`` (0 to 1), and after a moment ``ps_per_s`` (simulated time a second) and
            ``left_s`` (seconds, at the rate at which lines were issued of late).
        """
        now_s = perf_counter()
        if self._seen and now_s - self._seen[0] < _OFTEN_S:
            return self._last
        done = self.done
        report: dict[str, Any] = {"done": round(done, 4)}
        if self._seen:
            seen_s, seen_ps, seen_done = self._seen
            rate = max(0, self._sim.now_ps - seen_ps) / (now_s - seen_s)
            speed = max(0.0, done - seen_done) / (now_s - seen_s)
            before = self._last
            report["ps_per_s"] = rate + _MEMORY * (before.get("ps_per_s", rate) - rate)
            if speed > 0:
                left = (1 - done) / speed
                report["left_s"] = left + _MEMORY * (before.get("left_s", left) - left)
        self._seen, self._last = (now_s, self._sim.now_ps, done), report
        return report


def _done(engine: Any) -> float:
    if isinstance(engine, CacheLineEngine):
        ops = engine.machine.ops
        lines = max(1, int(ops["lines"].sum()))
        return 1.0 - min(int(ops["left"].sum()), lines) / lines
    return float(engine.count(engine.traits.units["operation"]) / max(1, engine.about.own))
