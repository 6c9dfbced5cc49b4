"""Edits in the middle of a workload's run: logged, so that going back undoes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from astranb.core.errors import Deadlock, InputError, near
from astranb.core.units import format_time
from astranb.engine.edits import Edit, Parameter
from astranb.engine.operations.about import About
from astranb.engine.operations.changes import CHANGEABLE, read_value, written
from astranb.net.astrasim2 import DEAD, FULLY_CONNECTED, ROUTED

from . import tables as t
from .link_ends import ends_of, waiting_for
from .paths import RunPart, resolve
from .transport import free_link

__all__ = ["apply_edit", "check_links", "dead_links", "parameters_of", "read_edit", "value_of"]

_EFFECTS = {
    "speed": "now, for computations that have not begun",
    "up": "now, for what has not been taken in",
}


def read_edit(
    events: int, now_ps: int, path: str, value: float | str | bool, about: About, machine: t.MessageMachine
) -> Edit:
    """Check a change and make an edit of it.

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """
    head, _, name = path.strip().rpartition(".")
    place = resolve(head or path, about, machine)
    known = CHANGEABLE.get(place.kind, {})
    if name not in known:
        hint = near(name, known) if known else "change rank[N].speed, dim[N].bandwidth or dim[N].latency"
        raise InputError(f"{name!r} of {place.path} cannot be changed", where=path, hint=hint)
    if place.kind == "dim" and machine.dims[place.dim].kind == ROUTED:
        hint = "change link[N], which exists with congestion (--fidelity congestion)"
        raise InputError("the links of an infrastructure have no dimension", where=path, hint=hint)
    field = known[name][0]
    text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    number = read_value(field, value, path)
    return Edit(events, f"{place.path}.{name}", text, place.kind, field, place.rows, number, now_ps)


def apply_edit(edit: Edit, machine: t.MessageMachine, base_ns: Any) -> None:
    """Carry an edit out: what has begun keeps its times."""
    rows = list(edit.rows)
    if edit.kind == "rank":
        table = machine.operations
        mine = np.flatnonzero(np.isin(table.npu, rows) & (table.kind == t.COMPUTE) & (table.start_ns < 0))
        table["duration_ns"][mine] = np.floor(base_ns[mine] / edit.number).astype(np.int64)
    elif edit.field == "up":
        for row in rows:
            (_bring_up if edit.number else _take_down)(machine, row)
    elif edit.kind == "link":
        machine.wires[edit.field][rows] = edit.number
    else:
        for row in rows:
            _set_dimension(machine, row, edit.field, edit.number)


def _set_dimension(machine: t.MessageMachine, dim: int, field: str, number: float) -> None:
    """Set a number of a dimension, of all its links, and of the table that schedules chunks."""
    machine.dims[field][dim] = number
    if machine.config[0].congestion:
        first = machine.dims.first_link
        last = int(first[dim + 1]) if dim + 1 < len(first) else len(machine.wires)
        machine.wires[field][int(first[dim]) : last] = number
    if field == "rate_Bpns":
        row = machine.dims[dim]
        whole = max(1, int(row.nodes) - 1) if row.kind == FULLY_CONNECTED else 1  # all links of an NPU
        machine.schedule["rate"][machine.schedule.links == dim] = number * whole


def _take_down(machine: t.MessageMachine, link: int) -> None:
    machine.links[link].busy |= DEAD


def _bring_up(machine: t.MessageMachine, link: int) -> None:
    """Bring a link up: waiting messages continue, at once where the link sends nothing."""
    one = machine.links[link]
    if one.busy & DEAD:
        one.busy &= ~DEAD
        if one.busy == 0:
            free_link(machine, link)


def dead_links(machine: t.MessageMachine) -> list[int]:
    """Links that are down."""
    return np.flatnonzero(machine.links.busy & DEAD).tolist()


def check_links(about: About, machine: t.MessageMachine, edits: Sequence[Edit]) -> None:
    """Explain a deadlock that a link that is down has caused.

    Raises
    ------
    Deadlock
        Messages wait for a link that is down.
    """
    for link in dead_links(machine):
        if waiting := waiting_for(machine, link):
            since = max(e.at_ps for e in edits if e.field == "up" and link in e.rows)
            a, b = ends_of(about, machine, link)
            messages = "1 message waits" if waiting == 1 else f"{waiting:,} messages wait"
            raise Deadlock(
                f"link[{link}] ({a} to {b}) is down since {format_time(since)}, and {messages} for it"
            )


def parameters_of(place: RunPart, machine: t.MessageMachine, edits: Sequence[Edit]) -> list[Parameter]:
    """What can be changed of an object, with its values after the edits."""
    if place.kind == "dim" and machine.dims[place.dim].kind == ROUTED:
        return []
    found = []
    for name, (field, unit, limits, meaning) in CHANGEABLE.get(place.kind, {}).items():
        value = written(field, value_of(place.kind, field, place.rows[0], machine, edits))
        effect = _EFFECTS.get(field, "now, for messages that have not been sent over it")
        choices = ("yes", "no") if field == "up" else ()
        found.append(Parameter(f"{place.path}.{name}", value, unit, limits, effect, meaning, choices))
    return found


def value_of(kind: str, field: str, row: int, machine: t.MessageMachine, edits: Sequence[Edit]) -> float:
    """The present value of something that can be changed."""
    if field == "speed":
        speeds = [edit.number for edit in edits if edit.kind == "rank" and row in edit.rows]
        return speeds[-1] if speeds else 1.0
    if field == "up":
        return float(not machine.links[row].busy & DEAD)
    return float((machine.dims if kind == "dim" else machine.wires)[field][row])
