"""Breakpoints on what operations and phases of chunks do in a layer table's run."""

from __future__ import annotations

from collections.abc import Sequence

from astranb.engine.breakpoints import Breakpoint, unknown_kind
from astranb.engine.messages import BEGINS, ENDS, PHASE_BEGINS, PHASE_ENDS, event_breakpoint

from . import tables as t
from .about import ProgramRows
from .paths import LayerPart

__all__ = ["EVENTS", "on_event"]

EVENTS: dict[str, tuple[int, int]] = {
    "operation_begin": (BEGINS, -1),
    "operation_end": (ENDS, -1),
    "compute_begin": (BEGINS, t.COMPUTE),
    "compute_end": (ENDS, t.COMPUTE),
    "collective_begin": (BEGINS, t.ISSUE),
    "collective_end": (ENDS, t.ISSUE),
    "phase_begin": (PHASE_BEGINS, -1),
    "phase_end": (PHASE_ENDS, -1),
}
"""The events that one can stop on: what happens, and in which of the program's rows."""


def on_event(
    kind: str | None, path: str | None, places: Sequence[LayerPart], program: ProgramRows
) -> Breakpoint:
    """Stop after an event of a kind that concerns an object.

    Raises
    ------
    InputError
        Unknown kind or object, neither given, or no such event concerns the object.
    """
    unknown_kind(kind, path, tuple(EVENTS))
    places = places or [LayerPart("rank", "")]
    rows = [
        {
            "operation": int(program.at[one.operation]) if one.operation >= 0 else -1,
            "layer": one.layer, "part": one.part, "dim": one.dim,
        }
        for one in places
    ]  # fmt: skip
    name = places[0].path if len(places) == 1 else str(path).strip()
    return event_breakpoint(kind, name, EVENTS, rows)
