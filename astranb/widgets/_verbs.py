"""What views and cells may have done to a simulation: one function a command.

The session calls them in the thread that owns the simulation, between two slices of a run.
What they return is shown: a stop's words, or a text. What goes wrong is an ``AstranbError``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astranb.core.errors import InputError
from astranb.core.units import time_ps
from astranb.engine.cacheline import spot_text
from astranb.sim import Simulation, Stop

from ._changes import CHANGES

__all__ = ["VERBS", "Verb", "count_of", "when_of"]

Verb = Callable[[Simulation, dict[str, Any]], Stop | str | None]

_MOST_STEPS = 10**12


def count_of(options: dict[str, Any]) -> int:
    """How often, from a message: a whole number, at least 0."""
    n = options.get("n", 1)
    if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= _MOST_STEPS:
        raise InputError(f"how many steps must be a whole number from 0 on, got {n!r}", where="n")
    return n


def when_of(options: dict[str, Any]) -> int:
    """When, from a message: ps, or text with a unit."""
    when = options.get("when", 0)
    return time_ps(int(when) if isinstance(when, float) else when, where="time")


def _next_line(sim: Simulation, options: dict[str, Any]) -> str:
    """A thread block's next operation, and where that stands in the program."""
    block = str(options.get("block", ""))
    stop = sim.next_line(block)
    return spot_text(sim, block) if stop.breakpoint is None else f"{stop.text}; {spot_text(sim, block)}"


def _record(sim: Simulation, on: Any) -> str:
    sim.record(bool(on))
    return "recording" if on else "not recording: what passes now is not kept for the view"


VERBS: dict[str, Verb] = {
    "reset": lambda sim, _: sim.reset(keep=True),
    "back": lambda sim, o: sim.back(count_of(o), str(o.get("unit", "event"))),
    "event": lambda sim, o: sim.step(count_of(o)),
    "cycle": lambda sim, o: sim.step(count_of(o), "cycle"),
    "phase": lambda sim, o: sim.step(count_of(o), "phase"),
    "next_line": _next_line,
    "record": lambda sim, o: _record(sim, o.get("on", True)),
    "goto": lambda sim, o: sim.goto(when_of(o)),
    **CHANGES,
}
"""By the name of the command, which is also the name of the method of ``Workbench``."""
