"""Edits: changes in the middle of a run, logged so that going back undoes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from astranb.core.errors import InputError, near
from astranb.core.units import time_ps

__all__ = [
    "RECORD", "REROUTE", "Edit", "Parameter", "checked_edit", "is_rerouted", "last_of_each", "left_of",
    "no_other_routes", "parameters_of", "reroute_edit", "yes_or_no",
]  # fmt: skip

RECORD: Final = "record"
"""Path of the edit that switches the recording."""


REROUTE: Final = "reroute"
"""Path of the edit that changes the routes, so that they avoid what is down."""


@dataclass(frozen=True)
class Edit:
    """One change.

    Attributes
    ----------
    events : int
        Events handled before it.
    path, value : str
        As given; the path in full.
    kind : str
        What kind of object is changed: ``rank``, ``layer``, ``dim``, ``link``, ``gpu``, ``routes`` or
        ``recorder``.
    field : str
        What is changed of it; the unit is in the name.
    rows : tuple of int
        Which objects of that kind.
    number : int or float
        The new value, in the unit of the field.
    at_ps : int
        When.
    """

    events: int
    path: str
    value: str
    kind: str
    field: str
    rows: tuple[int, ...]
    number: float
    at_ps: int = 0


@dataclass(frozen=True)
class Parameter:
    """Something that can be changed.

    Attributes
    ----------
    path : str
        What ``Simulation.set`` takes, or ``Simulation.rebuilt`` for those of the whole run.
    value : str
        What it is now, with its unit.
    unit : str
        Of a bare number; empty for none.
    limits : str
        What it may be.
    effect : str
        When a change takes effect: now, or from the start of a new run.
    meaning : str
    choices : tuple of str
        Where it is one of these.
    """

    path: str
    value: str
    unit: str
    limits: str
    effect: str
    meaning: str
    choices: tuple[str, ...] = ()


class _EditablePart(Protocol):
    """An object of a run."""

    @property
    def kind(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def rows(self) -> tuple[int, ...]: ...


_P = TypeVar("_P", bound=_EditablePart)
_Changeable = Mapping[str, Mapping[str, tuple[str, str, str, str]]]


def last_of_each(edits: Iterable[Edit]) -> list[Edit]:
    """Return the last edit of each parameter, in the order in which they were made.

    The order counts: a change of a dimension changes the links that were changed before it.
    """
    last: dict[str, Edit] = {}
    for edit in edits:
        last.pop(edit.path, None)
        last[edit.path] = edit
    return list(last.values())


def left_of(edit: Edit, others: Iterable[Edit]) -> Edit | None:
    """Return what of an edit changes parameters that none of the others changes; None: nothing."""
    taken = {row for one in others if (one.kind, one.field) == (edit.kind, edit.field) for row in one.rows}
    rows = tuple(row for row in edit.rows if row not in taken)
    return replace(edit, rows=rows) if rows else None


def checked_edit(
    path: str,
    value: object,
    changeable: _Changeable,
    resolve: Callable[[str], _P],
    read: Callable[[str, _P], float],
    *,
    hint: str,
    events: int,
    at_ps: int,
) -> Edit:
    """Check a change and make an edit of it.

    Parameters
    ----------
    path, value
        As given.
    changeable : mapping
        For each kind of object and each name the field, unit of a bare number, limits and meaning.
    resolve : callable
        Finds an object by its path.
    read : callable
        Reads the value for a field of an object.
    hint : str
        What can be changed.
    events, at_ps : int

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """
    head, _, name = path.strip().rpartition(".")
    part = resolve(head or path)
    known = changeable.get(part.kind, {})
    if name not in known:
        remedy = near(name, known) if known else hint
        raise InputError(f"{name!r} of {part.path} cannot be changed", where=path, hint=remedy)
    field = known[name][0]
    text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    return Edit(events, f"{part.path}.{name}", text, part.kind, field, part.rows, read(field, part), at_ps)


def no_other_routes(where: str) -> InputError:
    """The error where links are of a network of dimensions."""
    hint = "take an infrastructure (infragraph.dimensions makes one of them), or fidelity 'cacheline'"
    return InputError(
        "links of a network of dimensions have no names, and no other routes", where=where, hint=hint
    )


def is_rerouted(edits: Iterable[Edit]) -> bool:
    """Return whether routes have changed: tables have grown, and a file's state is worked out again."""
    return any(edit.path == REROUTE for edit in edits)


def reroute_edit(events: int, value: object, at_ps: int) -> Edit:
    """Make an edit of changing the routes; the value is when what waits goes on, if that is later."""
    until_ps = time_ps(value, where=REROUTE)  # type: ignore[arg-type]  # checked there
    return Edit(events, REROUTE, str(value), "routes", REROUTE, (0,), until_ps, at_ps)


def parameters_of(
    part: _EditablePart, changeable: _Changeable, written: Callable[[str], str], effects: Mapping[str, str]
) -> list[Parameter]:
    """List what can be changed of an object, with its present values.

    Parameters
    ----------
    part
        The object.
    changeable : mapping
        As for :func:`checked_edit`.
    written : callable
        Writes the present value of a field.
    effects : mapping of str to str
        When a change of each field takes effect; ``""`` for all others.
    """
    return [
        Parameter(
            f"{part.path}.{name}",
            written(field),
            unit,
            limits,
            effects.get(field, effects[""]),
            meaning,
            ("yes", "no") if field == "up" else (),
        )
        for name, (field, unit, limits, meaning) in changeable.get(part.kind, {}).items()
    ]


def yes_or_no(value: object, where: str) -> int:
    """Read whether something is up: 1 or 0.

    Raises
    ------
    InputError
        It is neither.
    """
    word = str(value).strip().lower()
    if word not in _WORDS:
        raise InputError(f"{value!r} is neither yes nor no", where=where, hint="write up = yes, or no")
    return _WORDS[word]


_WORDS = {"yes": 1, "true": 1, "up": 1, "1": 1, "on": 1, "no": 0, "false": 0, "down": 0, "0": 0, "off": 0}
