"""Verbs that change a run, or say where it is to stop and what is to be followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astranb.core.errors import InputError
from astranb.engine.breakpoints import Breakpoint
from astranb.sim import Simulation, Stop, Watch

__all__ = ["CHANGES"]


def _text(options: dict[str, Any], name: str) -> str:
    value = options.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"{value!r} is not text", where=name)
    return value.strip()


def _number(options: dict[str, Any], count: int, what: str) -> int:
    """Which one of a list, from a message."""
    number = options.get("number")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        raise InputError(f"there is no {what} {number!r}", where=what, hint=f"there are {count}")
    return number


def _set(sim: Simulation, options: dict[str, Any]) -> str:
    path, value = _text(options, "path"), options.get("value", "")
    sim.set(path, value)
    _, full, said = sim.edits[-1]
    return f"{full} = {said} from event {sim.events:,} on"


def _kill(sim: Simulation, options: dict[str, Any]) -> str:
    sim.kill(_text(options, "link"), both=bool(options.get("both", False)))
    return f"{_text(options, 'link')} is dead from event {sim.events:,} on: what comes to it waits"


def _repair(sim: Simulation, options: dict[str, Any]) -> str:
    sim.repair(_text(options, "link"), both=bool(options.get("both", False)))
    return f"{_text(options, 'link')} is back from event {sim.events:,} on"


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


CHANGES: dict[str, Callable[[Simulation, dict[str, Any]], Stop | str]] = {
    "set": _set,
    "kill": _kill,
    "repair": _repair,
    "undo": _undo,
    "breakpoint": _break,
    "enable": _enable,
    "clear": _clear,
    "watch": _watch,
    "unwatch": _unwatch,
}
"""By the name of the command."""
