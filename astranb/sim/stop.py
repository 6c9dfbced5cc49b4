"""Reason, time and place of a simulation's stop."""

from __future__ import annotations

from dataclasses import dataclass

from astranb.core.display import Displayed
from astranb.core.units import format_time
from astranb.engine import Breakpoint

__all__ = ["Stop"]

_WORDS = {
    "steps": "stepped",
    "time": "reached the given time",
    "instruction": "an instruction is issued",
    "hop": "a line enters a link",
    "line": "a line has arrived",
    "message": "a message has arrived",
    "operation": "an operation has ended",
    "phase": "a phase has ended",
    "pass": "a pass has ended",
    "breakpoint": "stopped at a breakpoint",
    "end": "nothing is left to happen",
    "back": "went back",
    "edit": "changed",
}


@dataclass(frozen=True)
class Stop(Displayed):
    """Result of a verb: why, when and where it stopped.

    Attributes
    ----------
    why : str
        ``steps``, ``time``, ``breakpoint``, ``end``, ``back``, ``edit``, or the unit of the step
        where it is longer than a cycle.
    now_ps : int
        When.
    events : int
        Events handled so far.
    where : str
        Path of the object that a breakpoint is about or was hit at, or empty.
    breakpoint : Breakpoint or None
    because : str
        What was found there, as ``waiting is 1``, or what the event was.
    phase : str
        Name of the phase that has ended, of a step by phases; empty where phases have no names.
    """

    why: str
    now_ps: int
    events: int
    where: str = ""
    breakpoint: Breakpoint | None = None
    because: str = ""
    phase: str = ""

    @property
    def text(self) -> str:
        """One line for a person."""
        what = f"{self.phase} has ended" if self.phase else _WORDS[self.why]
        what += f" ({self.breakpoint.text})" if self.breakpoint else ""
        found = f": {self.because}" if self.because else ""
        to = "to" if self.why == "back" else "at"
        return f"{what} {to} {format_time(self.now_ps)}, event {self.events:,}{found}"

    def __str__(self) -> str:
        """The same line."""
        return self.text
