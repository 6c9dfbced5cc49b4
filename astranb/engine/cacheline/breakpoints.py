"""Breakpoints on events of objects, and the fields that conditions may name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from astranb.core.errors import InputError, near
from astranb.engine.breakpoints import Breakpoint, ConditionField, unknown_kind
from astranb.gpu.tables import EVENT_KINDS
from astranb.infragraph import spelled
from astranb.net import CLASSES, Fabric

from .loop import RAW
from .machine import CacheLineMachine
from .matching import CONDITION, POINT
from .paths import FIELDS, TABLES, MachinePart, resolve, resolve_all

__all__ = ["ANY", "find", "on_event"]

ANY: Final = dict.fromkeys((name for name in POINT.names or () if name not in CONDITION), -1)
"""A row of the compiled table that matches any event."""

_KNOWN: Final = {name for names in FIELDS.values() for name in names}
_ONLY: Final = {"l2": "l2", "hbm": "hbm"}
"""Parts of a GPU that only one kind of event concerns."""


def on_event(kind: str | None, path: str | None, fabric: Fabric, machine: CacheLineMachine) -> Breakpoint:
    """Stop after an event of a kind that concerns an object.

    Parameters
    ----------
    kind : str or None
        One of ``launch, issue, hop, l2, hbm, return``; any where None.
    path : str or None
        Any object but a line under way, or all that a name with a ``*`` stands for; any where None.

    Raises
    ------
    InputError
        Unknown kind or object, or neither given.
    """
    unknown_kind(kind, path, EVENT_KINDS)
    row = {**ANY, "event": EVENT_KINDS.index(kind) if kind else -1, "owner": -1}
    if path is None:
        return Breakpoint(str(kind), rows=[row])
    places = resolve_all(path, fabric, machine) if "*" in path else [resolve(path, fabric, machine)]
    place = places[0]
    only = _ONLY.get(place.kind)
    if only and kind not in (None, only):
        raise InputError(f"{place.path} has no {kind} events", where="break_on", hint=f"it has {only} events")
    if only:
        row["event"] = EVENT_KINDS.index(only)
    rows = [row | match for one in places for match in _matches(one, fabric)]
    one = len(places) == 1
    name = place.path if one else spelled(path)
    return Breakpoint(f"{kind or 'any event'} on {name}", rows=rows, object=name if one else "")


def _matches(place: MachinePart, fabric: Fabric) -> list[dict[str, int]]:
    """Return the rows of the compiled table for an object: one of them has to match."""
    if place.kind in ("link", "port"):
        return [{"first_link": lane, "last_link": lane} for lane in place.rows]
    if place.kind == "buffer":
        found = [divmod(queue, CLASSES) for queue in place.rows]
        return [{"first_link": lane, "last_link": lane, "number": number} for lane, number in found]
    if place.kind == "node":
        return [{"node": place.row}]
    if place.kind == "instance":
        ranks = np.flatnonzero(np.isin(fabric.gpus, place.rows)).tolist()
        return [*({"gpu": rank} for rank in ranks), *({"node": node} for node in place.rows)]
    if place.kind == "line":
        hint = "name its thread block, or a link of its route"
        raise InputError(f"{place.path} is only one line under way", where="break_on", hint=hint)
    column = {"engine": "sm", "nic": "sm", "l2": "server", "hbm": "server"}.get(place.kind, place.kind)
    return [{column: place.row}]


def find(text: str, fabric: Fabric, machine: CacheLineMachine, phases: Sequence[str]) -> ConditionField:
    """Find the field that ``<path>.<field>`` names.

    The path is that of one object or of all that a name with a ``*`` stands for, or ``phase[NAME]``.

    Raises
    ------
    InputError
        There is no such object or field.
    """
    path, dot, name = text.strip().rpartition(".")
    if not dot:
        raise InputError(f"{text!r:.80} is not <path>.<field>", hint="for example gpu[3].sm.0.waiting")
    if name not in _KNOWN:
        raise InputError(f"{path!r:.80} has no field {name!r:.40}", hint=near(name, sorted(_KNOWN)))
    phase = re.fullmatch(r"phase\[(.+)\]", path)
    places = [_phase(phase[1].strip(), phases)] if phase else resolve_all(path, fabric, machine)
    for place in places:
        names = FIELDS.get(place.kind, ())
        if name not in names:
            owners = "links, ports, buffers, phases, GPUs and their parts have fields"
            hint = near(name, names) if names else owners
            raise InputError(f"no field {name!r}", where=place.path, hint=hint)
    rows = [row for place in places for row in place.rows]
    full = places[0].path if len(places) == 1 else spelled(path)
    return ConditionField(full, RAW.index(TABLES[places[0].kind]), rows, name, name)


def _phase(name: str, phases: Sequence[str]) -> MachinePart:
    """Find a phase of the program by its name, or by its number."""
    numbered = re.fullmatch(r"\d{1,9}", name) is not None and int(name) < len(phases)
    if name not in phases and not numbered:
        raise InputError(f"unknown phase {name!r:.80}", where="condition", hint=near(name, phases))
    row = phases.index(name) if name in phases else int(name)
    return MachinePart("phase", (row,), f"phase[{phases[row]}]")
