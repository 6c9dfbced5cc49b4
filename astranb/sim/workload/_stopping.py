"""Where a workload's run stops, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from astranb.sim import _breakpoints as common
from astranb.sim._breakpoints import Breakpoint
from astranb.sim._stop import Stop

from . import _breakpoints as breakpoints
from ._standing import Standing

if TYPE_CHECKING:
    from ._simulation import WorkloadSimulation

__all__ = ["Stopping"]

_BEAT_S = 0.5


class Stopping(Standing):
    """Breakpoints and listeners."""

    _points: list[Breakpoint]
    _listeners: list[tuple[Callable[[Stop], None], Callable[[], None]]]
    _beat_s: float

    @property
    def breakpoints(self) -> list[Breakpoint]:
        """The breakpoints; remove one with ``clear``."""
        return list(self._points)

    def break_at(self, time: int | str) -> Breakpoint:
        """Stop when everything up to a time has happened."""
        return self._add(common.at_time(time))

    def break_on(self, kind: str | None = None, object: str | None = None) -> Breakpoint:  # noqa: A002 - the public word
        """Stop after an event of a kind (``collective_end``, ``message``, …), of an object, or both."""
        return self._add(breakpoints.on_event(kind, object, self.about, self.state.machine))

    def break_when(self, condition: str | Callable[[WorkloadSimulation], bool]) -> Breakpoint:
        """Stop when a condition begins to hold, as ``"rank[3].waiting > 0"``.

        A callable is asked after every single event: that is slow, a text is compiled.
        """
        if callable(condition):
            name = getattr(condition, "__name__", "callable")
            return self._add(Breakpoint(f"when {name}() (asked after every event: slow)", call=condition))
        return self._add(breakpoints.condition(condition, self.about, self.state.machine))

    def clear(self, point: Breakpoint | None = None) -> None:
        """Remove a breakpoint, or all of them."""
        self._points = [p for p in self._points if point is not None and p is not point]

    def _add(self, point: Breakpoint) -> Breakpoint:
        breakpoints.install([*self._points, point], self.state.machine)  # refuses what does not fit
        self._points.append(point)
        return point

    def subscribe(
        self, moved: Callable[[Stop], None], moving: Callable[[], None] = lambda: None
    ) -> Callable[[], None]:
        """Have functions called when time has moved, whoever moved it; returns what ends that.

        Parameters
        ----------
        moved : callable
            Called after each verb, with its stop.
        moving : callable
            Called twice a second while a long verb is under way; must not move time.
        """
        pair = (moved, moving)
        self._listeners.append(pair)

        def end() -> None:
            if pair in self._listeners:
                self._listeners.remove(pair)

        return end

    def _beat(self) -> None:
        if perf_counter() - self._beat_s < _BEAT_S:
            return
        for _, moving in list(self._listeners):
            moving()
        self._beat_s = perf_counter()

    def _stop(self, why: str, point: Breakpoint | None = None) -> Stop:
        where = because = ""
        if point is not None:
            m = self.state.machine
            because = breakpoints.reason(point, int(m.watch[0].hit), m) or (
                self.narrate() if point.at_ps is None else ""
            )
            where = point.object
        stop = Stop(why, self.now_ps, self.events, where, point, because)
        for moved, _ in list(self._listeners):
            moved(stop)
        return stop
