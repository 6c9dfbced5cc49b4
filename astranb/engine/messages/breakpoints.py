"""Breakpoints on what operations, messages and phases of chunks do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from astranb.core.errors import InputError
from astranb.engine.breakpoints import Breakpoint, unknown_kind

from . import tables as t
from .paths import RunPart
from .tables import BEGINS, DELIVERED, ENDS, PHASE_BEGINS, PHASE_ENDS, SENT

__all__ = ["EVENTS", "event_breakpoint", "on_event"]

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
"""The events that one can stop on: what happens, and of which kind of operation."""


def on_event(kind: str | None, places: Sequence[RunPart], path: str | None) -> Breakpoint:
    """Stop after an event of a kind that concerns an object.

    Parameters
    ----------
    kind : str or None
        One of :data:`EVENTS`; None: any event of an operation, a message or a phase.
    places : sequence of RunPart
        A rank (a message concerns the one that sends or receives it), an operation, a dimension, or several.
    path : str or None
        The name that stands for them; None: any.

    Raises
    ------
    InputError
        Unknown kind, a link, or neither given.
    """
    unknown_kind(kind, path, tuple(EVENTS))
    found = places or [RunPart("rank", "", ())]
    if found[0].kind == "link":
        hint = "name a rank, an operation, a dim"
        raise InputError("nothing stops at a link", where=found[0].path, hint=hint)
    rows = [{"npu": one.npu, "operation": one.operation, "dim": one.dim} for one in found]
    name = found[0].path if len(found) == 1 else str(path).strip()
    return event_breakpoint(kind, name, EVENTS, rows)


def event_breakpoint(
    kind: str | None,
    path: str,
    events: Mapping[str, tuple[int, int]],
    objects: Sequence[Mapping[str, int]],
) -> Breakpoint:
    """Make a breakpoint on events of a kind, or of all kinds.

    Parameters
    ----------
    kind : str or None
    path : str
        The object's, in full; empty: any.
    events : mapping of str to (int, int)
        What happens, and of which kind of operation.
    objects : sequence of mapping of str to int
        Objects of one kind, as the compiled table describes them; ``operation`` and ``dim`` are -1 for any.

    Raises
    ------
    InputError
        No such event concerns the object.
    """
    row = objects[0]
    found = [events[kind]] if kind else [(what, -1) for what in sorted({what for what, _ in events.values()})]
    found = [
        (what, sort)
        for what, sort in found
        if (row["dim"] < 0 or what in (PHASE_BEGINS, PHASE_ENDS))
        and (row["operation"] < 0 or what not in (SENT, DELIVERED))
    ]
    if not found:
        hint = "name a rank" if row["operation"] >= 0 else "take phase_begin or phase_end"
        raise InputError(f"no {kind} is known by that", where=path, hint=hint)
    rows = [{**one, "what": what, "kind": sort} for one in objects for what, sort in found]
    text = (kind or "whatever happens").replace("_", " ")
    one = path if len(objects) == 1 else ""
    return Breakpoint(f"{text}{f' of {path}' if path else ''}", rows=rows, object=one)
