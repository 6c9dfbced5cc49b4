"""Breakpoints of a workload: on what operations, messages and phases do, and on conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.units import format_time, time_ps
from astranb.sim._breakpoints import Breakpoint

from . import _tables as t
from ._about import About
from ._noted import BEGINS, DELIVERED, ENDS, NOTHING, PHASE_BEGINS, PHASE_ENDS, SENT
from ._paths import resolve, words

__all__ = ["EVENTS", "Found", "condition", "install", "on_event", "reason"]

EVENTS: dict[str, tuple[int, int]] = {
    "operation_begin": (BEGINS, -1),
    "operation_end": (ENDS, -1),
    "compute_begin": (BEGINS, t.COMPUTE),
    "compute_end": (ENDS, t.COMPUTE),
    "collective_begin": (BEGINS, t.COLLECTIVE),
    "collective_end": (ENDS, t.COLLECTIVE),
    "send": (SENT, -1),
    "message": (DELIVERED, -1),
    "phase_begin": (PHASE_BEGINS, -1),
    "phase_end": (PHASE_ENDS, -1),
}
"""What one can stop on, and how the table says it: what happens, of which kind of operation."""

_RELATIONS = ("<", "<=", "==", "!=", ">=", ">")
_UNITS_PS = {"_ns": 1000, "_ps": 1}
_CONDITION = re.compile(
    r"(?P<path>.+)\.(?P<field>\w+)\s*(?P<relation><=|>=|==|!=|<|>)\s*(?P<value>[^<>=!]+)\Z"
)
_ANY = {"what": NOTHING, "npu": -1, "operation": -1, "kind": -1, "dim": -1}


class Found(NamedTuple):
    """A field that a condition names.

    Attributes
    ----------
    path : str
        The object's, in full.
    owner : int
        The number of its table among those that conditions may name.
    rows : sequence of int
    field : str
        As the table calls it.
    """

    path: str
    owner: int
    rows: Sequence[int]
    field: str


def on_event(kind: str | None, path: str | None, about: About, machine: t.Machine) -> Breakpoint:
    """Stop after an event of a kind that concerns an object.

    Parameters
    ----------
    kind : str or None
        One of :data:`EVENTS`; where None, whatever an operation or a phase does.
    path : str or None
        A rank (a message concerns the one that sends or receives it), an operation, a dimension.

    Raises
    ------
    InputError
        Unknown kind or object, or neither given.
    """
    if kind is None and path is None:
        raise InputError("a breakpoint needs an event kind or an object", where="break_on")
    if kind is not None and kind not in EVENTS:
        raise InputError(f"unknown event kind {kind!r}", where="break_on", hint=near(kind, EVENTS))
    found = [EVENTS[kind]] if kind else [(what, -1) for what in range(PHASE_ENDS + 1)]
    place = resolve(path, about, machine) if path is not None else None
    if place is not None and place.kind == "link":
        raise InputError("nothing stops at a link", where=place.path, hint="name a rank, an operation, a dim")
    if place is not None:
        about_phases = (PHASE_BEGINS, PHASE_ENDS)
        found = [
            (what, sort)
            for what, sort in found
            if (place.dim < 0 or what in about_phases)
            and (place.operation < 0 or what not in (SENT, DELIVERED))
        ]
        if not found:
            hint = "name a rank" if place.operation >= 0 else "take phase_begin or phase_end"
            raise InputError(f"no {kind} is known by that", where=place.path, hint=hint)
    rows = [
        {
            **_ANY, "what": what, "kind": sort,
            "npu": place.npu if place else -1,
            "operation": place.operation if place else -1,
            "dim": place.dim if place else -1,
        }
        for what, sort in found
    ]  # fmt: skip
    full = place.path if place else ""
    said = (kind or "whatever happens").replace("_", " ")
    return Breakpoint(f"{said}{f' of {full}' if full else ''}", rows=rows, object=full)


def condition(text: str, find: Callable[[str, str], Found], owners: Sequence[Any]) -> Breakpoint:
    """Stop when a condition on a field begins to hold: ``<path>.<field> <op> <number>``.

    Parameters
    ----------
    text : str
    find : callable
        From a path and a field's word to the field.
    owners : sequence of Records
        The tables that conditions may name.

    Raises
    ------
    InputError
        It cannot be read, or names no object or field.
    """
    match = _CONDITION.match(text.strip())
    if match is None:
        hint = "write <path>.<field> <op> <number>, as rank[3].waiting > 0"
        raise InputError(f"cannot read the condition {text!r}", hint=hint)
    found = find(match["path"], match["field"])
    number = _number(match["value"].strip(), found.field)
    rows = [
        {
            "what": NOTHING, "owner": found.owner, "place": words(owners[found.owner], row, found.field),
            "relation": _RELATIONS.index(match["relation"]), "value": number,
        }
        for row in found.rows
    ]  # fmt: skip
    said = f"{found.path}.{match['field']} {match['relation']} {match['value'].strip()}"
    return Breakpoint(said, rows=rows, object=found.path)


def install(points: Sequence[Breakpoint], machine: Any, owners: Sequence[Any]) -> list[Breakpoint]:
    """Write the breakpoints into the machine; returns the breakpoint of each row."""
    points_of = [p for p in points if p.enabled for _ in p.rows]
    rows = [row for p in points if p.enabled for row in p.rows]
    if len(rows) > len(machine.points):
        what = f"{len(rows)} compiled breakpoints, {len(machine.points)} fit"
        raise InputError(what, where="breakpoints", hint="remove some")
    for number, row in enumerate(rows):
        for name, value in row.items():
            machine.points[name][number] = value
        machine.points["was"][number] = row["what"] == NOTHING and _holds(row, owners)
    watch = machine.watch[0]
    watch.points = len(rows)
    watch.noting = watch.recording or len(rows) > 0
    return points_of


def reason(point: Breakpoint, machine: Any, owners: Sequence[Any]) -> str:
    """What was found at a condition, in words; empty for an event."""
    if point.call is not None:
        return "the function said yes"
    if not point.rows or point.rows[0]["what"] != NOTHING:
        return ""
    said = machine.points[int(machine.watch[0].hit)]
    table = owners[int(said.owner)]
    names = table.dtype.names or ()
    field = names[int(said.place) % len(names)]
    found = _found(table, int(said.place))
    unit_ps = _UNITS_PS.get(field[-3:], 0)
    return f"{field} is {format_time(found * unit_ps) if unit_ps and found >= 0 else found}"


def _found(table: Any, place: int) -> int:
    return int(np.asarray(table).view(np.int64)[place])


def _holds(row: dict[str, int], owners: Sequence[Any]) -> bool:
    """Whether a condition holds now: it stops the run only when it begins to hold."""
    found, value = _found(owners[row["owner"]], row["place"]), row["value"]
    relations = (found < value, found <= value, found == value, found != value, found >= value, found > value)
    return relations[row["relation"]]


def _number(text: str, field: str) -> int:
    """Read the number of a condition; times have a unit, or are in ns as the field is."""
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    if field[-3:] in _UNITS_PS:
        return time_ps(text, where="condition") // _UNITS_PS[field[-3:]]
    raise InputError(f"{text!r} is not a whole number", where="condition")
