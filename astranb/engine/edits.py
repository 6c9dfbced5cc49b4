"""Edits: changes in the middle of a run, logged so that going back undoes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from astranb.core.errors import InputError

__all__ = ["RECORD", "Edit", "Parameter", "yes_or_no"]

RECORD: Final = "record"
"""Path of the edit that switches the recording."""


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
        What kind of object is changed: for the cache-line engine the name of its table, else
        ``rank``, ``layer``, ``dim`` or ``link``.
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
