"""Breakpoints on what operations, messages and phases of chunks do."""

from __future__ import annotations

from astranb.core.errors import InputError
from astranb.engine.breakpoints import Breakpoint, unknown_kind
from astranb.engine.operations.about import About

from . import tables as t
from .paths import resolve
from .tables import BEGINS, DELIVERED, ENDS, NOTHING, PHASE_BEGINS, PHASE_ENDS, SENT

__all__ = ["EVENTS", "on_event"]

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

_ANY = {"what": NOTHING, "npu": -1, "operation": -1, "kind": -1, "dim": -1}


def on_event(kind: str | None, path: str | None, about: About, machine: t.MessageMachine) -> Breakpoint:
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
    unknown_kind(kind, path, tuple(EVENTS))
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
