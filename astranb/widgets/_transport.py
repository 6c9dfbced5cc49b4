"""The controls of a workbench as methods: each button's, and what has no button."""

from __future__ import annotations

from typing import Any

from astranb.core.errors import InputError
from astranb.core.units import time_ps
from astranb.sim import ObjectView, Simulation

from ._session import Session

__all__ = ["Transport"]


class Transport:
    """What moves time, the cursor and the selection; a part of :class:`Workbench`."""

    sim: Simulation
    _session: Session
    _selection: Any  # traits of the widget
    _cursor_ps: Any
    _window_ps: Any
    _redraw_hz: Any

    def reset(self) -> None:
        """Go back to the start."""
        self._ask("reset")

    def back(self, n: int = 1, unit: str = "event") -> None:
        """Go back by n events, cycles, instructions or phases."""
        self._ask("back", n=n, unit=unit)

    def play(self) -> None:
        """Go on at the present speed, in the background: other cells can run."""
        self._ask("play")

    def pause(self) -> None:
        """Stop playing, between two events."""
        self._ask("pause")

    def event(self, n: int = 1) -> None:
        """Go on by n events."""
        self._ask("event", n=n)

    def cycle(self, n: int = 1) -> None:
        """Go on by n instants at which something happens."""
        self._ask("cycle", n=n)

    def phase(self, n: int = 1) -> None:
        """Go on to the end of a phase of the collective."""
        self._ask("phase", n=n)

    def goto(self, when: int | str) -> None:
        """Go to the moment at which everything up to a time has happened, forwards or back."""
        self._ask("goto", when=when)

    def to_breakpoint(self) -> None:
        """Go on, as fast as possible and in the background, to a breakpoint or the end."""
        self._ask("to_breakpoint")

    def to_end(self) -> None:
        """Go on, as fast as possible and in the background, to the end or a breakpoint."""
        self._ask("to_end")

    def set_speed(self, speed: float | str) -> None:
        """Set how much simulated time a second of watching shows, as ``"1 us"`` or in ps."""
        ps = time_ps(speed, where="speed") if isinstance(speed, str) else float(speed)
        if not ps > 0:
            raise InputError(f"the speed must be positive, got {speed!r}", where="speed")
        self._ask("set_speed", speed=ps)

    def record(self, on: bool = True) -> None:
        """Note lines in flight and activity from now on, or no longer (see :meth:`Simulation.record`)."""
        self._ask("record", on=on)

    def set_redraw(self, hz: float) -> None:
        """Set how often the picture is drawn, times a second, 1 to 60; the simulation keeps its speed."""
        if not 1 <= hz <= 60:
            raise InputError(f"pictures are drawn 1 to 60 times a second, got {hz!r}", where="set_redraw")
        self._redraw_hz = float(hz)

    def scrub(self, when: int | str) -> None:
        """Move only the view's cursor, within what has been simulated; the simulation stays."""
        at = time_ps(when, where="scrub")
        self._cursor_ps = float(at) if at < self.sim.now_ps else -1.0

    def follow(self) -> None:
        """Have the cursor stay with the simulation."""
        self._cursor_ps = -1.0

    def zoom(self, start: int | str | None = None, end: int | str | None = None) -> None:
        """Have the timelines show a part of time, ``zoom("2 us", "3 us")``; all of it without one."""
        if (start is None) != (end is None):
            raise InputError("one end of a window", where="zoom", hint='zoom("2 us", "3 us"), or zoom()')
        window = [] if start is None or end is None else [time_ps(at, where="zoom") for at in (start, end)]
        if window and window[0] >= window[1]:
            raise InputError(f"a window from {start} to {end}", where="zoom", hint="the earlier end first")
        self._window_ps = [float(at) for at in window]

    def select(self, path: str) -> None:
        """Select an object, as ``gpu[3].sm.0``; an empty path selects nothing."""
        self._selection = self.sim.inspect(path)["path"] if path else ""

    @property
    def selected(self) -> ObjectView | None:
        """The selected object at the cursor, to go on with: ``selected.state``, ``selected["title"]``."""
        return ObjectView(self._session.at(self._at()), self._selection) if self._selection else None

    @property
    def cursor_ps(self) -> int:
        """The moment that the view shows."""
        at = self._at()
        return self.sim.now_ps if at is None else int(at)

    def _ask(self, command: str, **options: Any) -> None:
        """Pass a command on; what moves time brings the cursor to the simulation first."""
        if command not in {"pause", "set_speed"}:
            self.follow()
        self._session.ask(command, **options)

    def _at(self) -> float | None:
        return self._cursor_ps if self._cursor_ps >= 0 else None
