"""Breakpoints: at a time, on an event of an object, when a condition becomes true."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from astranb.core.display import Displayed
from astranb.core.errors import InputError, near
from astranb.core.units import bandwidth_Bps, format_bandwidth, format_bytes, format_time, size_bytes, time_ps

__all__ = [
    "Breakpoint",
    "ConditionField",
    "at_time",
    "called",
    "condition",
    "found_at",
    "install",
    "unknown_kind",
    "with_unit",
]

_RELATIONS = ("<", "<=", "==", "!=", ">=", ">")
_CONDITION = re.compile(r"(?P<left>.+?)\s*(?P<relation><=|>=|==|!=|<|(?<!-)>)\s*(?P<value>[^<>=!]+)\Z")
_SEVERAL = re.compile(r"[<>=].*(?:\band\b|\bor\b|&&|\|\|)")


@dataclass
class Breakpoint(Displayed):
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
        Rows of the engine's compiled table; a row with an ``owner`` is a condition on a field.
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

    def __str__(self) -> str:
        """One line for a person."""
        return f"breakpoint {self.text}{'' if self.enabled else ' (off)'}"


class ConditionField(NamedTuple):
    """A field that a condition names.

    Attributes
    ----------
    path : str
        The object's, in full.
    owner : int
        Number of its table among those that conditions may name.
    rows : sequence of int
    field : str
        As the table calls it.
    word : str
        As people call it.
    """

    path: str
    owner: int
    rows: Sequence[int]
    field: str
    word: str

    @property
    def object(self) -> str:
        """The object that the condition is about; empty where it is about several."""
        return "" if "*" in self.path else self.path


def called(condition: Callable[..., bool]) -> Breakpoint:
    """Stop when a function of the simulation returns true; it is called after every event."""
    name = getattr(condition, "__name__", "callable")
    return Breakpoint(f"when {name}() (called after every event: slow)", call=condition)


def at_time(when: int | str) -> Breakpoint:
    """Stop when everything up to a time has happened."""
    at_ps = time_ps(when, where="breakpoint")
    return Breakpoint(f"at {format_time(at_ps)}", at_ps=at_ps)


def condition(
    text: str,
    find: Callable[[str], ConditionField],
    owners: Sequence[Any],
    base: Mapping[str, int],
    example: str,
) -> Breakpoint:
    """Stop when a condition on a field becomes true: ``<path>.<field> <op> <number>``.

    Parameters
    ----------
    text : str
    find : callable
        From ``<path>.<field>`` to the field.
    owners : sequence of recarray
        The tables that conditions may name; every field is an int64.
    base : mapping of str to int
        What a row of the compiled table says of a condition besides.
    example : str
        For the error message.

    Raises
    ------
    InputError
        It cannot be read, or names no object or field.
    """
    match = _CONDITION.match(text.strip())
    if match is None or _SEVERAL.search(match["left"]):
        hint = f"write <path>.<field> <op> <number>, as {example}; <op> is one of {' '.join(_RELATIONS)}"
        if _SEVERAL.search(text):
            hint = "write a breakpoint for each comparison, or give a function of the simulation"
        raise InputError(f"cannot read the condition {text!r}", hint=hint)
    found = find(match["left"])
    value = match["value"].strip()
    names = owners[found.owner].dtype.names
    column = names.index(found.field)
    rows = [
        {
            **base,
            "owner": found.owner,
            "place": row * len(names) + column,
            "relation": _RELATIONS.index(match["relation"]),
            "value": _number(value, found.field),
        }
        for row in found.rows
    ]
    return Breakpoint(
        f"{found.path}.{found.word} {match['relation']} {value}", rows=rows, object=found.object
    )


def _check(point: Breakpoint, owners: Sequence[Any]) -> None:
    """Check that a breakpoint is one, and that its conditions name fields of tables."""
    at_ps = 0 if point.at_ps is None else point.at_ps
    fine = isinstance(point.text, str) and isinstance(point.object, str) and isinstance(point.enabled, bool)
    numbers = [at_ps, *(value for row in point.rows for value in row.values())]
    if not fine or not all(type(number) is int and abs(number) < 1 << 63 for number in numbers):
        raise TypeError("a breakpoint is none")
    for row in point.rows:
        if row.get("owner", -1) < 0:
            continue
        cells = owners[row["owner"]].size * len(owners[row["owner"]].dtype.names)
        if not (0 <= row["place"] < cells and 0 <= row["relation"] < len(_RELATIONS)):
            raise ValueError("a breakpoint names no field")


def install(points: Sequence[Breakpoint], table: Any, owners: Sequence[Any]) -> list[Breakpoint]:
    """Write the enabled breakpoints into a compiled table; returns the breakpoint of each row.

    Raises
    ------
    InputError
        They do not fit.
    TypeError, ValueError
        One of them, from a file, is none, or names no field.
    """
    for point in points:
        _check(point, owners)
    enabled = [(point, row) for point in points if point.enabled for row in point.rows]
    if len(enabled) > len(table):
        what = f"{len(enabled)} compiled breakpoints, {len(table)} fit"
        raise InputError(what, where="breakpoints", hint="remove some, or name one lane of a link")
    for number, (_, row) in enumerate(enabled):
        table["owner"][number] = -1  # unless the row says which table it reads
        for name, value in row.items():
            table[name][number] = value
        table["was"][number] = _is_condition(row) and _holds(row, owners)
    return [point for point, _ in enabled]


def found_at(point: Breakpoint, owners: Sequence[Any]) -> str:
    """Describe the value of a condition's field now; empty for an event or a time."""
    if point.call is not None:
        return "the breakpoint's function returned true"
    if not point.rows or not _is_condition(point.rows[0]):
        return ""
    first = point.rows[0]
    names = owners[first["owner"]].dtype.names
    name = names[first["place"] % len(names)]
    values = sorted({_value(row, owners) for row in point.rows})
    shown = with_unit(name, values[0])
    return f"{name} is {shown}" + ("" if len(values) == 1 else f" to {with_unit(name, values[-1])}")


def with_unit(name: str, number: int) -> str:
    """Write a field's number with the unit that the end of its name says."""
    if name.endswith("_ps"):
        return format_time(number) if number >= 0 else "not yet"
    if name.endswith("_ns"):
        return format_time(number * 1000) if number >= 0 else "not yet"
    if name.endswith("_Bps"):
        return format_bandwidth(number)
    return format_bytes(number) if name == "bytes" or name.endswith("_bytes") else f"{number:,}"


def _is_condition(row: Mapping[str, int]) -> bool:
    return row.get("owner", -1) >= 0


def _value(row: Mapping[str, int], owners: Sequence[Any]) -> int:
    return int(np.asarray(owners[row["owner"]]).view(np.int64)[row["place"]])


def _holds(row: Mapping[str, int], owners: Sequence[Any]) -> bool:
    """Return whether a condition holds now: it stops the run only when it becomes true."""
    found, value = _value(row, owners), row["value"]
    relations = (found < value, found <= value, found == value, found != value, found >= value, found > value)
    return relations[row["relation"]]


def _number(text: str, name: str) -> int:
    """Read the number of a condition, with the unit that the field's name says."""
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    if name.endswith("_ps"):
        return time_ps(text, where="condition")
    if name.endswith("_ns"):
        return time_ps(text, where="condition") // 1000
    if name.endswith("_Bps"):
        return bandwidth_Bps(text, where="condition")
    if name == "bytes" or name.endswith("_bytes"):
        return size_bytes(text, where="condition")
    raise InputError(f"{text!r} is not a whole number", where="condition")


def unknown_kind(kind: str | None, path: str | None, kinds: Sequence[str]) -> None:
    """Raise InputError for a breakpoint on an event with neither a known kind nor an object.

    Raises
    ------
    InputError
        Unknown kind, or neither given.
    """
    if kind is None and path is None:
        raise InputError("a breakpoint needs an event kind or an object", where="break_on")
    if kind is not None and kind not in kinds:
        raise InputError(f"unknown event kind {kind!r}", where="break_on", hint=near(kind, kinds))
