"""Edits: changes in the middle of a run, logged so that going back undoes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol, TypeVar

from astranb.core.errors import InputError, near
from astranb.core.units import time_ps

__all__ = [
    "RECORD", "REROUTE", "Edit", "Parameter", "checked_edit", "is_factor", "is_rerouted", "last_of_each",
    "left_of", "no_other_routes", "parameters_of", "reroute_edit", "yes_or_no",
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
    numbers : tuple of float
        The new value of each row, in the unit of the field; one value where no row is changed.
    at_ps : int
        When.
    """

    events: int
    path: str
    value: str
    kind: str
    field: str
    rows: tuple[int, ...]
    numbers: tuple[float, ...]
    at_ps: int = 0

    @property
    def number(self) -> float:
        """The new value of the first row; of all, where they have one."""
        return self.numbers[0]

    @cached_property
    def of_row(self) -> dict[int, float]:
        """The new value by row."""
        return dict(zip(self.rows, self.numbers, strict=False))


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


_MOST_FACTOR: Final = 1e6

_P = TypeVar("_P", bound=_EditablePart)
_Changeable = Mapping[str, Mapping[str, tuple[str, str, str, str]]]


def is_factor(value: str) -> bool:
    """Return whether a value is a factor of what there is: ``x2``, ``x0.5``."""
    return value.strip().lower().startswith("x")


def last_of_each(edits: Iterable[Edit]) -> list[Edit]:
    """Return the edits that decide what each parameter is now, in the order in which they were made.

    The order counts: a change of a dimension changes the links that were changed before it, and a factor
    is of what there was.
    """
    last: dict[tuple[str, int], Edit] = {}
    for number, edit in enumerate(edits):
        if not is_factor(edit.value):
            last = {key: one for key, one in last.items() if key[0] != edit.path}
        last[edit.path, number] = edit
    return list(last.values())


def left_of(edit: Edit, other: Edit) -> Edit | None:
    """Return what of an edit changes parameters that another one does not; None: nothing."""
    taken = set(other.rows) if (other.kind, other.field) == (edit.kind, edit.field) else set()
    left = [at for at, row in enumerate(edit.rows) if row not in taken]
    if not left:
        return None
    rows, numbers = edit.rows, edit.numbers
    return replace(edit, rows=tuple(rows[at] for at in left), numbers=tuple(numbers[at] for at in left))


def checked_edit(
    path: str,
    value: object,
    changeable: _Changeable,
    find: Callable[[str], Sequence[_P]],
    read: Callable[[str, _P], Sequence[float]],
    scaled: Callable[[str, _P, float], Sequence[float]],
    *,
    hint: str,
    events: int,
    at_ps: int,
) -> Edit:
    """Check a change and make an edit of it.

    Parameters
    ----------
    path, value
        As given: of one object, or of all that a name with a ``*`` stands for; a value, or a factor of the
        present one (``x0.5``).
    changeable : mapping
        For each kind of object and each name the field, unit of a bare number, limits and meaning.
    find : callable
        Finds objects by their name.
    read : callable
        Reads the value for a field of an object: the number of each of its rows.
    scaled : callable
        The same from a factor.
    hint : str
        What can be changed.
    events, at_ps : int

    Raises
    ------
    InputError
        Unknown object or property, or a value that cannot be read.
    """
    head, _, name = path.strip().rpartition(".")
    parts, where = find(head or path), f"{path:.80}"
    for part in parts:
        known = changeable.get(part.kind, {})
        if name not in known:
            remedy = near(name, known) if known else hint
            raise InputError(f"{name!r:.40} of {part.path} cannot be changed", where=where, hint=remedy)
    part = parts[0]
    field = changeable[part.kind][name][0]
    text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    factor = _factor(text, where) if is_factor(text) else None
    if field != "speed" and (times := re.fullmatch(r"\s*([\d.]+)\s*[xX*]\s*", text)):
        raise InputError(f"{text!r} is not a factor", where=where, hint=f"write x{times[1]}")
    numbers: list[float] = []
    for one in parts:
        numbers += read(field, one) if factor is None else scaled(field, one, factor)
    rows = tuple(row for one in parts for row in one.rows)
    full = part.path if len(parts) == 1 else head
    return Edit(events, f"{full}.{name}", text, part.kind, field, rows, tuple(numbers), at_ps)


def _factor(text: str, where: str) -> float:
    """Read ``x2`` or ``x0.5``."""
    factor = 0.0
    with suppress(ValueError):
        factor = float(text.strip()[1:])
    if not 0 < factor < _MOST_FACTOR:
        raise InputError(f"{text!r:.40} is not a factor", where=where, hint="for example x2 or x0.5")
    return factor


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
    return Edit(events, REROUTE, str(value), "routes", REROUTE, (0,), (until_ps,), at_ps)


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
        Time at which a change of each field takes effect; ``""`` stands for all others.
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
