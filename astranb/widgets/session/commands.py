"""The commands of buttons and cells: one function each.

The session calls them in the thread that owns the simulation, between two slices of a run.
They return what the status line shows: a stop, or a text. Errors are ``AstranbError``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astranb.core.errors import InputError
from astranb.core.units import time_ps
from astranb.engine import Breakpoint
from astranb.engine.cacheline import spot_text
from astranb.sim import Simulation, Stop, Watch

__all__ = ["CHANGES", "COMMANDS", "UNITS", "Command", "count_of", "when_of"]

Command = Callable[[Simulation, dict[str, Any]], Stop | str | None]

UNITS = ("event", "cycle", "instruction", "hop", "line", "message", "operation", "phase", "pass")
"""Units of steps; engines refuse those that they do not count."""

_MOST_STEPS = 10**12


def count_of(options: dict[str, Any]) -> int:
    """Return the count of a message: a whole number, at least 0."""
    n = options.get("n", 1)
    if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= _MOST_STEPS:
        raise InputError(f"how many steps must be a whole number from 0 on, got {n!r}", where="n")
    return n


def when_of(options: dict[str, Any]) -> int:
    """Read a time from a message: ps, or text with a unit."""
    when = options.get("when", 0)
    return time_ps(int(when) if isinstance(when, float) else when, where="time")


def _next_line(sim: Simulation, options: dict[str, Any]) -> str:
    """A thread block's next operation, and its place in the program."""
    block = str(options.get("block", ""))
    stop = sim.next_line(block)
    where = spot_text(sim.engine, block)
    return where if stop.breakpoint is None else f"{stop.text}; {where}"


def _record(sim: Simulation, options: dict[str, Any]) -> str:
    on = bool(options.get("on", True))
    sim.record(on)
    return "recording" if on else "not recording: this interval cannot be shown later"


def _text(options: dict[str, Any], name: str) -> str:
    value = options.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"{value!r} is not text", where=name)
    return value.strip()


def _number(options: dict[str, Any], count: int, what: str) -> int:
    """Read an index into a list from a message."""
    number = options.get("number")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        raise InputError(f"unknown {what} {number!r}", where=what, hint=f"there are {count}")
    return number


def _set(sim: Simulation, options: dict[str, Any]) -> str:
    sim.set(_text(options, "path"), options.get("value", ""))
    _, path, value = sim.edits[-1]
    return f"{path} = {value} from event {sim.events:,} on"


def _take_down(sim: Simulation, options: dict[str, Any]) -> str:
    sim.take_down(_text(options, "link"), both=bool(options.get("both", False)))
    return f"{_text(options, 'link')} is down from event {sim.events:,} on: messages wait in front of it"


def _repair(sim: Simulation, options: dict[str, Any]) -> str:
    sim.repair(_text(options, "link"), both=bool(options.get("both", False)))
    return f"{_text(options, 'link')} is up again from event {sim.events:,} on"


def _reroute(sim: Simulation, options: dict[str, Any]) -> str:
    del options
    sim.reroute()
    return f"routes avoid what is down from event {sim.events:,} on"


def _undo(sim: Simulation, options: dict[str, Any]) -> Stop:
    return sim.undo(_number(options, len(sim.edits), "edit") if "number" in options else -1)


def _point(sim: Simulation, options: dict[str, Any]) -> Breakpoint:
    return sim.breakpoints[_number(options, len(sim.breakpoints), "breakpoint")]


def _break(sim: Simulation, options: dict[str, Any]) -> str:
    """Add a breakpoint: at a time, on a kind and an object, or when a condition holds."""
    how = _text(options, "how")
    if how == "at":
        point = sim.break_at(_text(options, "time"))
    elif how == "on":
        point = sim.break_on(_text(options, "kind") or None, _text(options, "object") or None)
    elif how == "when":
        point = sim.break_when(_text(options, "condition"))
    else:
        raise InputError(f"no such breakpoint: {how!r}", where="breakpoint", hint="at, on or when")
    return f"a breakpoint {point.text}"


def _enable(sim: Simulation, options: dict[str, Any]) -> str:
    point = _point(sim, options)
    point.enabled = bool(options.get("enabled", True))
    return f"the breakpoint {point.text} is {'on' if point.enabled else 'off'}"


def _clear(sim: Simulation, options: dict[str, Any]) -> str:
    if "number" not in options:
        sim.clear()
        return "no breakpoints"
    point = _point(sim, options)
    sim.clear(point)
    return f"removed the breakpoint {point.text}"


def _watch(sim: Simulation, options: dict[str, Any]) -> str:
    return f"watching {sim.watch(_text(options, 'what')).text}"


def _unwatch(sim: Simulation, options: dict[str, Any]) -> str:
    if "number" not in options:
        sim.unwatch()
        return "nothing is watched"
    watch: Watch = sim.watches[_number(options, len(sim.watches), "watch")]
    sim.unwatch(watch)
    return f"no longer watching {watch.text}"


CHANGES: dict[str, Command] = {
    "set": _set,
    "take_down": _take_down,
    "repair": _repair,
    "reroute": _reroute,
    "undo": _undo,
    "breakpoint": _break,
    "enable": _enable,
    "clear": _clear,
    "watch": _watch,
    "unwatch": _unwatch,
}
"""Commands that change a run, its breakpoints or its watches, by name."""


def _step(unit: str) -> Command:
    return lambda sim, options: sim.step(count_of(options), unit)


COMMANDS: dict[str, Command] = {
    "reset": lambda sim, _: sim.reset(keep=True),
    "back": lambda sim, o: sim.back(count_of(o), str(o.get("unit", "event"))),
    "goto": lambda sim, o: sim.goto(when_of(o)),
    "next_line": _next_line,
    "record": _record,
    **{unit: _step(unit) for unit in UNITS},
    **CHANGES,
}
"""All commands, by the name of the method of ``Workbench``."""
