"""Changing something in the middle of a run: logged, so that going back undoes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from astranb.core.errors import InputError
from astranb.core.units import format_bandwidth, time_ps
from astranb.engine.breakpoints import with_unit
from astranb.engine.edits import RECORD, Edit, Parameter, checked_edit, parameters_of, yes_or_no
from astranb.gpu import tables as t
from astranb.infragraph import LINK_PROPERTIES, LinkProperty
from astranb.net import Fabric

from .faults import LAST_PS, bring_up, is_down, take_down
from .machine import CacheLineMachine
from .occupancy import use_sms
from .paths import SUMMED, TABLES, MachinePart, resolve_all

__all__ = [
    "CHANGEABLE",
    "EFFECTS",
    "LINKS",
    "apply_edit",
    "lanes_of",
    "parameters",
    "read_edit",
    "switch_recording",
]

LINKS = {one.column: one for one in LINK_PROPERTIES if one.changeable}
"""Properties of links that can be changed, by their columns."""

CHANGEABLE = {
    "link": {
        **{one.name: (one.column, one.unit, one.limits, one.meaning) for one in LINKS.values()},
        "up": ("up", "", "yes or no", "no: messages wait until the link is up"),
    },
    "gpu": {
        "noc": ("noc_ps", "ps", "from 0", "SM to L2 or port, one way"),
        "l2": ("l2_ps", "ps", "from 0", "L2 latency"),
        "hbm": ("hbm_ps", "ps", "from 0", "memory latency, on top of the L2's"),
        "issue": ("issue_ps", "ps", "more than 0", "between two instructions of an SM"),
        "fence": ("fence_ps", "ps", "from 0", "a system-wide fence"),
        "atomic": ("atomic_ps", "ps", "from 0", "what a signal costs its slice more"),
        "sms": ("usable", "SMs", "1 to {sms}", "SMs that thread blocks may use"),
    },
}
"""Fields that a person may change: field, unit, limits, meaning."""

EFFECTS = {
    "up": "now, for messages that have not entered it",
    "usable": "now, for blocks that have not begun",
    "": "now, for what has not started",
}
"""Time at which a change of each field takes effect; ``""`` stands for all others."""


def parameters(part: MachinePart, machine: CacheLineMachine) -> list[Parameter]:
    """Return the parameters of an object with their values now; only links and GPUs have any."""

    def written(field: str) -> str:
        if field == "up":
            down = [is_down(machine, link) for link in part.rows]
            return "no" if all(down) else f"{down.count(False)} of {len(down)} lanes" if any(down) else "yes"
        values = machine.tables[TABLES[part.kind]][field][list(part.rows)]
        number = int(values.sum() if field in SUMMED else values[0])
        return LINKS[field].text(number) if part.kind == "link" else with_unit(field, number)

    most = {"sms": int(machine.gpus[part.row].sms) if part.kind == "gpu" else 0}
    found = parameters_of(part, CHANGEABLE, written, EFFECTS)
    found = [replace(one, limits=one.limits.format(**most)) for one in found]
    if part.kind == "link" and len(part.rows) > 1:
        meant = f"from one end to the other: {lanes_of(machine.links[list(part.rows)])}"
        found = [replace(one, meaning=meant) if one.path.endswith(".bandwidth") else one for one in found]
    return found


def lanes_of(lanes: np.ndarray) -> str:
    """Write the lanes of a link and what each carries: ``5 lanes x 25 GB/s``."""
    rates = lanes["bandwidth_Bps"]
    each = format_bandwidth(int(rates.min()))
    if rates.min() != rates.max():
        each += f" to {format_bandwidth(int(rates.max()))}"
    return f"{len(lanes)} lanes x {each}"


def read_edit(
    events: int, path: str, value: int | str | bool, fabric: Fabric, machine: CacheLineMachine
) -> Edit:
    """Check a change and make an edit of it.

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """
    return checked_edit(
        path,
        value,
        CHANGEABLE,
        lambda name: resolve_all(name, fabric, machine),
        lambda field, part: [_read(field, value, part, machine, path)] * len(part.rows),
        lambda field, part, factor: _scaled(field, part, factor, machine, path),
        hint="links and GPUs can be changed",
        events=events,
        at_ps=max(0, int(machine.clock[0].now_ps)),
    )


def switch_recording(events: int, machine: CacheLineMachine, *, on: bool) -> Edit:
    """Make an edit of switching the recording: replayed as others are, so that it is the same each time."""
    at_ps = max(0, int(machine.clock[0].now_ps))
    return Edit(events, RECORD, "on" if on else "off", "recorder", "paused", (0,), (int(not on),), at_ps)


def _read(
    field: str, value: int | str | bool, place: MachinePart, machine: CacheLineMachine, where: str
) -> int:
    """Read a value in the unit of its field, within its limits."""
    if field == "up":
        return yes_or_no(value, where)
    if isinstance(value, bool):
        raise InputError(f"{value!r} is not a value with a unit", where=where)
    if field == "usable":
        text = str(value).strip()
        return _sms(int(text) if text.isdecimal() else -1, value, place, machine, where)
    if place.kind == "link":
        return _of_lane(LINKS[field], value, len(place.rows), where)
    return _time(field, time_ps(value, where=where), value, where)


def _scaled(
    field: str, place: MachinePart, factor: float, machine: CacheLineMachine, where: str
) -> list[int]:
    """Return the numbers that a factor makes of the present ones, within the limits of their field."""
    if field == "up":
        raise InputError("a link is up or not", where=where, hint="write yes or no")
    text = f"x{factor:g}"
    found = []
    for was in machine.tables[TABLES[place.kind]][field][list(place.rows)].tolist():
        number = max(1, round(was * factor)) if was else 0
        if field == "usable":
            number = _sms(number, text, place, machine, where)
        elif place.kind == "link":
            LINKS[field].check(number, text, where)
        else:
            number = _time(field, number, text, where)
        found.append(number)
    return found


def _sms(number: int, value: object, place: MachinePart, machine: CacheLineMachine, where: str) -> int:
    most = int(machine.gpus[place.row].sms)
    if not 1 <= number <= most:
        raise InputError(f"a number of SMs must be 1 to {most}, got {value!r}", where=where)
    return number


def _time(field: str, number_ps: int, value: object, where: str) -> int:
    if number_ps > LAST_PS:
        raise InputError(f"{value!r} is more than 26 days", where=where, hint="use a smaller time")
    if field == "issue_ps" and number_ps == 0:
        raise InputError("the issue time must be greater than zero", where=where)
    return number_ps


def _of_lane(one: LinkProperty, value: int | str, lanes: int, where: str) -> int:
    """Read a link property for each lane; a number is in the property's own unit."""
    number = int(one.read(value, where))
    if one.summed:
        if number < lanes * one.least:
            hint = "take the link down: set('<link>.up', False)"
            raise InputError(f"link {one.words} must be greater than zero", where=where, hint=hint)
        number //= lanes
    one.check(number, value, where)
    return number


def _pause(machine: CacheLineMachine, paused: int) -> None:
    if machine.recording.recorder[0].on:  # a copy without a recording has none to pause
        machine.recording.recorder[0].paused = paused


def apply_edit(edit: Edit, machine: CacheLineMachine) -> None:
    """Carry an edit out: services that have started keep their times."""
    special: dict[str, Callable[[], None]] = {
        "up": lambda: (
            bring_up(machine, edit.rows, edit.at_ps) if edit.number else take_down(machine, edit.rows)
        ),
        "paused": lambda: _pause(machine, int(edit.number)),
    }
    if edit.field in special:
        special[edit.field]()
        return
    if edit.field == "usable":
        for gpu, number in zip(edit.rows, edit.numbers, strict=True):
            use_sms(machine, gpu, int(number))
        return
    rows, numbers = list(edit.rows), np.array(edit.numbers, np.int64)
    if edit.field == "latency_ps" and (machine.blocks["engine"] == t.NIC).any():
        # A NIC's signal does not overtake the data that it announces and that is on the wire.
        links, now_ps = machine.links, max(0, int(machine.clock[0].now_ps))
        sooner = links["latency_ps"][rows] - numbers
        later = np.maximum(links["free_at_ps"][rows], now_ps) + sooner
        links["free_at_ps"][rows] = np.where(sooner > 0, later, links["free_at_ps"][rows])
    machine.tables[f"{edit.kind}s"][edit.field][rows] = numbers
    if edit.kind == "link":
        machine.links["last_size"][rows] = 0
