"""Breakpoints of a workload: on what operations, messages and phases do, and on conditions."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.units import format_time, time_ps
from astranb.sim._breakpoints import Breakpoint
from astranb.workload.astrasim2 import _tables as t

from ._about import About
from ._paths import field_of, resolve, words

__all__ = ["EVENTS", "condition", "install", "on_event", "reason"]

EVENTS: dict[str, tuple[int, int]] = {
    "operation_begin": (t.BEGINS, -1),
    "operation_end": (t.ENDS, -1),
    "compute_begin": (t.BEGINS, t.COMPUTE),
    "compute_end": (t.ENDS, t.COMPUTE),
    "collective_begin": (t.BEGINS, t.COLLECTIVE),
    "collective_end": (t.ENDS, t.COLLECTIVE),
    "send": (t.SENT, -1),
    "message": (t.DELIVERED, -1),
    "phase_begin": (t.PHASE_BEGINS, -1),
    "phase_end": (t.PHASE_ENDS, -1),
}
"""What one can stop on, and how the table says it: what happens, of which kind of operation."""

_RELATIONS = ("<", "<=", "==", "!=", ">=", ">")
_CONDITION = re.compile(
    r"(?P<path>.+)\.(?P<field>\w+)\s*(?P<relation><=|>=|==|!=|<|>)\s*(?P<value>[^<>=!]+)\Z"
)
_OWNERS = {"rank": 0, "op": 1, "queue": 2}
_ANY = {"what": t.NOTHING, "npu": -1, "operation": -1, "sort": -1, "dim": -1}


def _table(machine: t.Machine, owner: int) -> np.ndarray:
    return (machine.npus, machine.operations, machine.queues)[owner]


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
        raise InputError(f"unknown event kind {kind!r}", where="break_on", mend=near(kind, EVENTS))
    found = [EVENTS[kind]] if kind else [(what, -1) for what in range(t.PHASE_ENDS + 1)]
    place = resolve(path, about, machine) if path is not None else None
    if place is not None and place.kind == "link":
        raise InputError("nothing stops at a link", where=place.path, mend="name a rank, an operation, a dim")
    if place is not None:
        about_phases = (t.PHASE_BEGINS, t.PHASE_ENDS)
        found = [
            (what, sort)
            for what, sort in found
            if (place.dim < 0 or what in about_phases)
            and (place.operation < 0 or what not in (t.SENT, t.DELIVERED))
        ]
        if not found:
            mend = "name a rank" if place.operation >= 0 else "take phase_begin or phase_end"
            raise InputError(f"no {kind} is known by that", where=place.path, mend=mend)
    rows = [
        {
            **_ANY, "what": what, "sort": sort,
            "npu": place.npu if place else -1,
            "operation": place.operation if place else -1,
            "dim": place.dim if place else -1,
        }
        for what, sort in found
    ]  # fmt: skip
    full = place.path if place else ""
    said = (kind or "whatever happens").replace("_", " ")
    return Breakpoint(f"{said}{f' of {full}' if full else ''}", rows=rows, object=full)


def condition(text: str, about: About, machine: t.Machine) -> Breakpoint:
    """Stop when a condition on a field begins to hold: ``<path>.<field> <op> <number>``.

    Raises
    ------
    InputError
        It cannot be read, or names no object or field.
    """
    match = _CONDITION.match(text.strip())
    if match is None:
        mend = "write <path>.<field> <op> <number>, as rank[3].waiting > 0"
        raise InputError(f"cannot read the condition {text!r}", mend=mend)
    place = resolve(match["path"], about, machine)
    field = field_of(place, match["field"])
    number = _number(match["value"].strip(), field)
    owner = _OWNERS[place.kind]
    rows = [
        {
            **_ANY, "owner": owner, "place": words(_table(machine, owner), row, field),
            "relation": _RELATIONS.index(match["relation"]), "value": number,
        }
        for row in place.rows
    ]  # fmt: skip
    said = f"{place.path}.{match['field']} {match['relation']} {match['value'].strip()}"
    return Breakpoint(said, rows=rows, object=place.path)


def install(points: Sequence[Breakpoint], machine: t.Machine) -> list[Breakpoint]:
    """Write the breakpoints into the machine; returns the breakpoint of each row."""
    owners = [p for p in points if p.enabled for _ in p.rows]
    rows = [row for p in points if p.enabled for row in p.rows]
    if len(rows) > len(machine.points):
        what = f"{len(rows)} compiled breakpoints, {len(machine.points)} fit"
        raise InputError(what, where="breakpoints", mend="remove some")
    for number, row in enumerate(rows):
        for name, value in row.items():
            machine.points[name][number] = value
        machine.points["was"][number] = row["what"] == t.NOTHING and _holds(row, machine)
    watch = machine.watch[0]
    watch.points = len(rows)
    watch.noting = watch.recording or len(rows) > 0
    return owners


def reason(point: Breakpoint, row: int, machine: t.Machine) -> str:
    """What was found at a condition, in words; empty for an event."""
    if point.call is not None:
        return "the function said yes"
    if not point.rows or point.rows[0]["what"] != t.NOTHING:
        return ""
    said = machine.points[row]
    names = _table(machine, int(said.owner)).dtype.names or ()
    field = names[int(said.place) % len(names)]
    found = _found(int(said.owner), int(said.place), machine)
    return f"{field} is {format_time(found * 1000) if field.endswith('_ns') and found >= 0 else found}"


def _found(owner: int, place: int, machine: t.Machine) -> int:
    return int(np.asarray(_table(machine, owner)).view(np.int64)[place])


def _holds(row: dict[str, int], machine: t.Machine) -> bool:
    """Whether a condition holds now: it stops the run only when it begins to hold."""
    found, value = _found(row["owner"], row["place"], machine), row["value"]
    relations = (found < value, found <= value, found == value, found != value, found >= value, found > value)
    return relations[row["relation"]]


def _number(text: str, field: str) -> int:
    """Read the number of a condition; times have a unit, or are in ns as the field is."""
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    if field.endswith("_ns"):
        return time_ps(text, where="condition") // 1000
    raise InputError(f"{text!r} is not a whole number", where="condition")
