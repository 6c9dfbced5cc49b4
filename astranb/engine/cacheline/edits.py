"""Changing something in the middle of a run: logged, so that going back undoes it."""

from __future__ import annotations

from collections.abc import Callable

from astranb.core.errors import InputError, near
from astranb.core.ticks import MAX_RATE_BPS
from astranb.core.units import bandwidth_Bps, format_bandwidth, format_time, time_ps
from astranb.engine.edits import RECORD, Edit, Parameter, yes_or_no
from astranb.net import Fabric

from .faults import bring_up, is_dead, take_down
from .machine import CacheLineMachine
from .occupancy import use_sms
from .paths import MachinePart, resolve

__all__ = ["apply_edit", "parameters_of", "read_edit", "switch_recording"]

# What a person may change: field, unit, limits, meaning. To add one, see docs/architecture.md.
_CHANGEABLE = {
    "link": {
        "bandwidth": ("bandwidth_Bps", "bytes/s", "up to 9 TB/s", "of one lane"),
        "latency": ("latency_ps", "ps", "from 0", "first bit out to first bit in"),
        "up": ("up", "", "yes or no", "no: dead, and what comes waits"),
    },
    "gpu": {
        "noc": ("noc_ps", "ps", "from 0", "SM to L2 or port, one way"),
        "l2": ("l2_ps", "ps", "from 0", "L2 latency"),
        "hbm": ("hbm_ps", "ps", "from 0", "memory latency, on top of the L2's"),
        "issue": ("issue_ps", "ps", "more than 0", "between two instructions of an SM"),
        "fence": ("fence_ps", "ps", "from 0", "a system-wide fence"),
        "atomic": ("atomic_ps", "ps", "from 0", "what a signal costs its slice more"),
        "sms": ("usable", "", "1 to {sms}", "SMs that thread blocks may use"),
    },
}


def parameters_of(place: MachinePart, machine: CacheLineMachine) -> list[Parameter]:
    """What can be changed of an object, as it stands now; nothing of SMs, blocks and switches."""
    found = []
    for name, (field, unit, limits, meaning) in _CHANGEABLE.get(place.kind, {}).items():
        if field == "up":
            dead = [is_dead(machine, link) for link in place.rows]
            value = "no" if all(dead) else f"{dead.count(False)} of {len(dead)} lanes" if any(dead) else "yes"
        else:
            number = int(machine.tables[_TABLES[place.kind]][field][place.row])
            value = _written(field, number)
        most = int(machine.gpus[place.row].sms) if field == "usable" else 0
        effect = _EFFECTS.get(field, "now, for what has not started")
        choices = ("yes", "no") if field == "up" else ()
        path = f"{place.path}.{name}"
        found.append(Parameter(path, value, unit, limits.format(sms=most), effect, meaning, choices))
    return found


_EFFECTS = {"up": "now, for what has not been taken in", "usable": "now, for blocks that have not begun"}
_TABLES = {"link": "links", "gpu": "gpus"}


def _written(field: str, number: int) -> str:
    if field.endswith("_Bps"):
        return format_bandwidth(number)
    return format_time(number) if field.endswith("_ps") else str(number)


def read_edit(
    events: int, path: str, value: int | str | bool, fabric: Fabric, machine: CacheLineMachine
) -> Edit:
    """Check a change and make an edit of it.

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """
    head, _, name = path.strip().rpartition(".")
    place = resolve(head or path, fabric, machine)
    fields = _CHANGEABLE.get(place.kind, {})
    if name not in fields:
        hint = near(name, fields) if fields else "links and GPUs can be changed"
        raise InputError(f"{name!r} of a {place.kind} cannot be changed", where=path, hint=hint)
    field = fields[name][0]
    text = ("yes" if value else "no") if field == "up" and isinstance(value, bool) else str(value)
    number = _read(field, value, place, machine, path)
    table = _TABLES[place.kind]
    at_ps = max(0, int(machine.clock[0].now_ps))
    return Edit(events, f"{place.path}.{name}", text, table, field, place.rows, number, at_ps)


def switch_recording(events: int, machine: CacheLineMachine, *, on: bool) -> Edit:
    """Make an edit of switching the recording: replayed as others are, so that it is the same each time."""
    at_ps = max(0, int(machine.clock[0].now_ps))
    return Edit(events, RECORD, "on" if on else "off", "recorder", "paused", (0,), int(not on), at_ps)


def _read(
    field: str, value: int | str | bool, place: MachinePart, machine: CacheLineMachine, where: str
) -> int:
    """Read a value in the unit of its field, within its limits."""
    if field == "up":
        return yes_or_no(value, where)
    if isinstance(value, bool):
        raise InputError(f"{value!r} is not a value with a unit", where=where)
    if field == "usable":
        most, text = int(machine.gpus[place.row].sms), str(value).strip()
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise InputError(f"a number of SMs must be 1 to {most}, got {value!r}", where=where)
        return int(text)
    if field.endswith("_Bps"):
        number = bandwidth_Bps(value, where=where)
        if number > MAX_RATE_BPS:
            raise InputError(f"{value!r} is too fast", where=where, hint="at most 9 TB/s a lane")
        if number == 0:
            raise InputError("a link of no bandwidth", where=where, hint="kill it: set('<link>.up', False)")
        return number
    number = time_ps(value, where=where)
    if field == "issue_ps" and number == 0:
        raise InputError("an SM needs some time for an instruction", where=where)
    return number


def _pause(machine: CacheLineMachine, paused: int) -> None:
    if machine.recorder[0].on:  # a copy without a recording has none to pause
        machine.recorder[0].paused = paused


def apply_edit(edit: Edit, machine: CacheLineMachine) -> None:
    """Carry an edit out: services that have started keep their times."""
    special: dict[str, Callable[[], None]] = {
        "up": lambda: (bring_up if edit.number else take_down)(machine, edit.rows),
        "paused": lambda: _pause(machine, int(edit.number)),
        "usable": lambda: use_sms(machine, edit.rows[0], int(edit.number)),
    }
    if edit.field in special:
        special[edit.field]()
        return
    machine.tables[edit.kind][edit.field][list(edit.rows)] = edit.number
    if edit.kind == "links":
        machine.links["last_size"][list(edit.rows)] = 0
