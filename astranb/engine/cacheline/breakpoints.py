"""Breakpoints on events of objects, and the fields that conditions may name."""

from __future__ import annotations

from typing import Final

from astranb.core.errors import InputError, near
from astranb.engine.breakpoints import Breakpoint, ConditionField, unknown_kind
from astranb.gpu.tables import EVENT_KINDS
from astranb.net import Fabric

from .machine import CacheLineMachine
from .paths import FIELDS, resolve

__all__ = ["ANY", "find", "on_event"]

ANY: Final = {"event": -1, "gpu": -1, "sm": -1, "block": -1, "first_link": -1, "last_link": -1}
"""A row of the compiled table that matches any event."""

_KNOWN: Final = {name for names in FIELDS.values() for name in names or ()}
_KINDS: Final = ("link", "gpu", "sm", "block")


def on_event(kind: str | None, path: str | None, fabric: Fabric, machine: CacheLineMachine) -> Breakpoint:
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
    unknown_kind(kind, path, EVENT_KINDS)
    row = {**ANY, "event": EVENT_KINDS.index(kind) if kind else -1, "owner": -1}
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


def find(text: str, fabric: Fabric, machine: CacheLineMachine) -> ConditionField:
    """Find the field that ``<path>.<field>`` names.

    Raises
    ------
    InputError
        There is no such object or field.
    """
    path, dot, name = text.strip().rpartition(".")
    if not dot:
        raise InputError(f"{text!r} is not <path>.<field>", hint="for example gpu[3].sm.0.waiting")
    if name not in _KNOWN:
        raise InputError(f"{path!r} has no field {name!r}", hint=near(name, sorted(_KNOWN)))
    place = resolve(path, fabric, machine)
    names = FIELDS.get(place.kind) or ()
    if name not in names:
        hint = near(name, names) if names else "links, GPUs, SMs and thread blocks have fields"
        raise InputError(f"a {place.kind} has no field {name!r}", where=path, hint=hint)
    return ConditionField(place.path, _KINDS.index(place.kind), place.rows, name, name)
