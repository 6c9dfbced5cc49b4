"""Breakpoints: at a time, on an event of an object, when a condition begins to hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from astranb.core.errors import InputError, near
from astranb.core.units import bandwidth_Bps, format_bandwidth, format_bytes, format_time, size_bytes, time_ps
from astranb.engine.cacheline._machine import Machine
from astranb.engine.cacheline._paths import FIELDS, resolve, split_field
from astranb.gpu.tables import EVENT_KINDS
from astranb.net import Fabric

if TYPE_CHECKING:
    from ._simulation import Simulation

__all__ = ["Breakpoint", "at_time", "called", "condition", "install", "on_event", "reason", "with_unit"]

_RELATIONS = ("<", "<=", "==", "!=", ">=", ">")
_CONDITION = re.compile(r"(?P<left>.+?)\s*(?P<relation><=|>=|==|!=|<|>)\s*(?P<value>[^<>=!]+)\Z")
_OWNERS = {"link": ("links", 0), "gpu": ("gpus", 1), "sm": ("sms", 2), "block": ("blocks", 3)}


@dataclass
class Breakpoint:
    """One breakpoint.

    Attributes
    ----------
    text : str
        As a person reads it.
    at_ps : int or None
        A time.
    call : callable or None
        Called with the simulation after every event; true stops it.
    rows : list of dict
        Rows of the compiled table.
    object : str
        Path of the object it is about.
    enabled : bool
    """

    text: str
    at_ps: int | None = None
    call: Callable[[Any], bool] | None = None
    rows: list[dict[str, int]] = field(default_factory=list)
    object: str = ""
    enabled: bool = True


def called(condition: Callable[..., bool]) -> Breakpoint:
    """A breakpoint where a function says so."""
    name = getattr(condition, "__name__", "callable")
    return Breakpoint(f"when {name}() (asked after every event: slow)", call=condition)


def at_time(when: int | str) -> Breakpoint:
    """Stop when everything up to a time has happened."""
    at_ps = time_ps(when, where="breakpoint")
    return Breakpoint(f"at {format_time(at_ps)}", at_ps=at_ps)


def on_event(kind: str | None, path: str | None, fabric: Fabric, machine: Machine) -> Breakpoint:
    """Stop after an event of a kind that concerns an object.

    Parameters
    ----------
    kind : str or None
        One of ``launch, issue, hop, l2, hbm, return``; any where None.
    path : str or None
        A GPU, SM, block or link; any where None.

    Raises
    ------
    InputError
        Unknown kind or object, or neither given.
    """
    if kind is None and path is None:
        raise InputError("a breakpoint needs an event kind or an object", where="break_on")
    if kind is not None and kind not in EVENT_KINDS:
        raise InputError(f"unknown event kind {kind!r}", where="break_on", hint=near(kind, EVENT_KINDS))
    row = {"event": EVENT_KINDS.index(kind) if kind else -1, "gpu": -1, "sm": -1, "block": -1}
    row |= {"first_link": -1, "last_link": -1, "owner": -1}
    rows = [row]
    full = ""
    if path is not None:
        place = resolve(path, fabric, machine)
        full = place.path
        if place.kind == "link":
            rows = [row | {"first_link": link, "last_link": link} for link in place.rows]
        elif place.kind == "node":
            touching = ((machine.links["src"] == place.row) | (machine.links["dst"] == place.row)).nonzero()[
                0
            ]
            rows = [row | {"first_link": int(link), "last_link": int(link)} for link in touching]
        else:
            row[place.kind] = place.row
    return Breakpoint(f"{kind or 'any event'}{f' on {full}' if full else ''}", rows=rows, object=full)


def condition(text: str, fabric: Fabric, machine: Machine) -> Breakpoint:
    """Stop when a condition on a field begins to hold: ``<path>.<field> <op> <number>``.

    Raises
    ------
    InputError
        It cannot be read, or names no object or field.
    """
    match = _CONDITION.match(text.strip())
    if match is None:
        raise InputError(
            f"cannot read the condition {text!r}",
            hint="write <path>.<field> <op> <number>, as gpu[3].sm.0.waiting > 0",
        )
    known = sorted({name for names in FIELDS.values() for name in names or ()})
    path, name = split_field(match["left"], known)
    place = resolve(path, fabric, machine)
    names = FIELDS.get(place.kind) or ()
    if name not in names:
        raise InputError(f"a {place.kind} has no field {name!r}", where=path, hint=near(name, names))
    table, owner = _OWNERS[place.kind]
    width = len(machine.tables[table].dtype)
    number = _number(match["value"].strip(), name)
    relation = _RELATIONS.index(match["relation"])
    rows = [
        {
            "event": -1, "gpu": -1, "sm": -1, "block": -1, "first_link": -1, "last_link": -1, "owner": owner,
            "place": row * width + names.index(name), "relation": relation, "value": number,
        }
        for row in place.rows
    ]  # fmt: skip
    return Breakpoint(
        f"{place.path}.{name} {match['relation']} {match['value'].strip()}", rows=rows, object=place.path
    )


def install(points: list[Breakpoint], machine: Machine) -> list[Breakpoint]:
    """Write the compiled breakpoints into the machine; returns the breakpoint of each row."""
    owner = [p for p in points if p.enabled for _ in p.rows]
    rows = [row for p in points if p.enabled for row in p.rows]
    if len(rows) > len(machine.breaks):
        raise InputError(
            f"{len(rows)} compiled breakpoints, {len(machine.breaks)} fit",
            hint="remove some, or name one lane of a link",
        )
    for number, row in enumerate(rows):
        for name, value in row.items():
            machine.breaks[name][number] = value
        machine.breaks["was"][number] = _holds(row, machine)
    machine.control["breaks"] = len(rows)
    return owner


def reason(point: Breakpoint, sim: Simulation) -> tuple[str, str]:
    """Where a breakpoint was hit, and what was found there: object and words."""
    if point.call is not None:
        return "", "the function said yes"
    if point.at_ps is not None:
        return "", ""
    row = point.rows[0]
    if row["owner"] < 0:
        return point.object or sim.concerned(), sim.narrate()
    name = next(kind for kind, (_, owner) in _OWNERS.items() if owner == row["owner"])
    table = _OWNERS[name][0]
    values = [int(sim.machine.tables[table].view("i8")[r["place"]]) for r in point.rows]
    fields = FIELDS[name] or ()
    label = fields[row["place"] % len(fields)]
    shown = sorted(set(values))
    text = with_unit(label, shown[0]) + ("" if len(shown) == 1 else f" to {with_unit(label, shown[-1])}")
    return point.object, f"{label} is {text}"


def with_unit(name: str, number: int) -> str:
    """A field's number as a person reads it."""
    if name.endswith("_ps"):
        return format_time(number) if number >= 0 else "not yet"
    if name.endswith("_ns"):
        return format_time(number * 1000) if number >= 0 else "not yet"
    if name.endswith("_Bps"):
        return format_bandwidth(number)
    return format_bytes(number) if name == "bytes" or name.endswith("_bytes") else f"{number:,}"


def _holds(row: dict[str, int], machine: Machine) -> int:
    """Whether a condition holds now: it stops the run only when it begins to hold."""
    if row["owner"] < 0:
        return 0
    table = next(name for name, owner in _OWNERS.values() if owner == row["owner"])
    found = int(machine.tables[table].view("i8")[row["place"]])
    value = row["value"]
    return int(
        (found < value, found <= value, found == value, found != value, found >= value, found > value)[
            row["relation"]
        ]
    )


def _number(text: str, name: str) -> int:
    """Read the number of a condition, with the unit that the field's name says."""
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if name.endswith("_ps"):
        return time_ps(text, where="condition")
    if name.endswith("_Bps"):
        return bandwidth_Bps(text, where="condition")
    if name == "bytes" or name.endswith("_bytes"):
        return size_bytes(text, where="condition")
    raise InputError(f"{text!r} is not a whole number", where="condition")
