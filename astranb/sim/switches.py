"""Switches of the recording, and the times without one."""

from __future__ import annotations

from astranb.core.errors import InputError
from astranb.engine import RECORD, Edit, Engine

__all__ = ["check_room", "switched", "unrecorded"]


def check_room(engine: Engine) -> None:
    """Check that a run can record; a copy of it that cannot keeps the edits made before.

    Raises
    ------
    InputError
        It has no room for a recording.
    """
    if not engine.recording:
        hint = "make it with Simulation(..., record=True)"
        raise InputError("this simulation has no room for a recording", where="record", hint=hint)


def switched(engine: Engine, *, on: bool) -> Edit | None:
    """Make the edit that switches the recording, or None where it is as asked for already.

    Raises
    ------
    InputError
        It cannot be switched.
    """
    past = _past(engine)
    recording = not past[-1].number if past else engine.recording
    if recording == on:
        return None
    edit = engine.read_edit(RECORD, "on" if on else "off")
    check_room(engine)
    return edit


def unrecorded(engine: Engine) -> list[tuple[int, int]]:
    """Return the intervals of simulated time, in ps, of which nothing was recorded."""
    now_ps = engine.now_ps
    gaps = [] if engine.recording else [(0, now_ps)]
    off_ps = -1
    for edit in _past(engine):
        if edit.number:
            off_ps = edit.at_ps
        elif off_ps >= 0:
            gaps.append((off_ps, edit.at_ps))
            off_ps = -1
    if off_ps >= 0:
        gaps.append((off_ps, now_ps))
    return [(start, end) for start, end in gaps if end > start]


def _past(engine: Engine) -> list[Edit]:
    """Return the edits that have switched the recording."""
    return [edit for edit in engine.edits if edit.path == RECORD]
