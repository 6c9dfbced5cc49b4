"""``SideBySide``: two runs beside each other in a notebook cell."""

# ruff: noqa: SLF001 - it moves the traits of two workbenches

from __future__ import annotations

from time import perf_counter

import anywidget
import traitlets

from astranb.core.errors import InputError
from astranb.core.units import time_ps
from astranb.sim import Comparison, Simulation
from astranb.widgets.views import report

from .assets import PAIR, STYLES
from .linked_clock import LinkedClock
from .plugged import module_texts
from .session import UNITS
from .workbench import Workbench

__all__ = ["SideBySide"]

_EVERY_S = 0.25


class SideBySide(anywidget.AnyWidget):
    """Two runs beside each other, with one clock, and what differs between them below.

    Whatever moves one of them moves both to the same simulated time: its buttons, its slider,
    cells. So do the cursor and the selection. Each stays at its end while the other continues.

    Parameters
    ----------
    a, b : Simulation

    Examples
    --------
    >>> import astranb as anb
    >>> a = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    >>> b = a.rebuilt(algorithm="allpairs")
    >>> both = anb.SideBySide(a, b)
    >>> both.goto("2 us")
    >>> b.now_ps <= a.now_ps <= 2_000_000 < int(a.next_ps)
    True
    >>> both.to_end()
    >>> a.finished, b.finished, both.comparison.time["ended"]
    (True, True, True)
    """

    _esm = PAIR
    _css = STYLES
    _modules = traitlets.Dict().tag(sync=True)
    _pair = traitlets.List().tag(sync=True)  # references to the two views
    _difference = traitlets.Dict().tag(sync=True)

    def __init__(self, a: Simulation, b: Simulation) -> None:
        super().__init__(_modules=module_texts())
        closed = {"blocks": True, "activity": False, "compare": False}
        views = [Workbench(sim) for sim in (a, b)]
        for view in views:
            view._panels = closed
        self.a, self.b = views
        self.clock = LinkedClock(self.a, self.b)
        self._reported_s = 0.0
        self.clock.changed = self._report
        self.clock.together()
        self._pair = [f"anywidget:{view.model_id}" for view in views]
        self._report()

    @property
    def comparison(self) -> Comparison:
        """Differences between them now."""
        return self.clock.at()

    def goto(self, when: int | str) -> None:
        """Take both to a simulated time."""
        self.a._command("goto", when=time_ps(when, where="goto"))

    def step(self, n: int = 1, unit: str = "event") -> None:
        """Step the first one; the other one follows to the same time."""
        known = [word for word in UNITS if word in self.a.sim.engine.traits.units]
        if unit not in known:
            raise InputError(f"unknown unit {unit!r}", where="step", hint=", ".join(known))
        self.a._command(unit, n=n)

    def play(self) -> None:
        """Play both, in the background; the one that ends later continues."""
        (self.a if not self.a.sim.finished else self.b).play()

    def pause(self) -> None:
        """Stop both."""
        self.a.pause()

    def reset(self) -> None:
        """Take both to their start; what was changed stays changed."""
        self.a.reset()

    def scrub(self, when: int | str) -> None:
        """Move the cursor of both; the runs stay."""
        later = max((self.a, self.b), key=lambda bench: bench.sim.now_ps)
        later.scrub(when)

    def zoom(self, start: int | str | None = None, end: int | str | None = None) -> None:
        """Have the timelines of both show a part of time; all of it without one."""
        self.a.zoom(start, end)

    def to_end(self) -> None:
        """Take both to their end."""
        for bench in (self.a, self.b):
            if not bench.sim.finished:
                bench.sim.run()

    def close(self) -> None:
        """Close the view; the two runs stay, each with its own clock."""
        if "clock" in self.__dict__:
            self.clock.close()
            self.a.close()
            self.b.close()
        super().close()

    def _report(self) -> None:
        """Show what differs: at rest at once, else four times a second."""
        playing = self.a.session.running
        if playing and perf_counter() - self._reported_s < _EVERY_S:
            return
        self._reported_s = perf_counter()
        cursor = max(float(self.a._cursor_ps), float(self.b._cursor_ps))
        self._difference = report(self.clock.at(None if playing else cursor))
