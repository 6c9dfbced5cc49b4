"""What stops a simulation, of whichever kind, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from time import perf_counter

from . import _breakpoints as breakpoints
from ._breakpoints import Breakpoint
from ._stop import Stop

__all__ = ["Stopped"]

_BEAT_S = 0.5


class Stopped:
    """Breakpoints and listeners; a part of the simulation."""

    _points: list[Breakpoint]
    _listeners: list[tuple[Callable[[Stop], None], Callable[[], None]]]
    _beat_s: float

    @property
    def event_kinds(self) -> Collection[str]:
        """What :meth:`break_on` can stop on."""
        raise NotImplementedError

    def _install(self, points: Sequence[Breakpoint]) -> None:
        """Write breakpoints into the machine; refuses what does not fit."""
        raise NotImplementedError

    @property
    def breakpoints(self) -> list[Breakpoint]:
        """The breakpoints; remove one with ``clear``."""
        return list(self._points)

    def break_at(self, time: int | str) -> Breakpoint:
        """Stop when everything up to a time has happened."""
        return self._add(breakpoints.at_time(time))

    def clear(self, point: Breakpoint | None = None) -> None:
        """Remove a breakpoint, or all of them."""
        self._points = [p for p in self._points if point is not None and p is not point]

    def _add(self, point: Breakpoint) -> Breakpoint:
        self._install([*self._points, point])
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

    def _told(self, stop: Stop) -> Stop:
        """Tell the listeners of a stop."""
        for moved, _ in list(self._listeners):
            moved(stop)
        return stop
