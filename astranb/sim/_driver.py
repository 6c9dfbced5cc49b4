"""Moves a machine through time: forward in short slices, back by checkpoint and replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from astranb.engine.cacheline._dead import LAST_PS, any_dead, stranded
from astranb.engine.cacheline._edits import Edit, apply_edit
from astranb.engine.cacheline._machine import Machine
from astranb.engine.cacheline.loop import STOPS

from ._breakpoints import Breakpoint, install
from ._history import History

if TYPE_CHECKING:
    from ._simulation import Simulation

__all__ = ["FOREVER", "SLICE", "Driver"]

FOREVER = 2**62
SLICE = 32_768
"""Events of one call of the loop: about 10 ms, so that Pause and Ctrl-C act at once."""

_SEARCH = 2**14
"""Where links are dead, at each so many events it is looked whether anything can still happen: at
counts from the start of the run, so that it does not depend on how the run is divided into steps."""


class Driver:
    """The owner of a machine's time.

    Parameters
    ----------
    machine : Machine
    history : History
        A checkpoint of the present moment is added to it.
    edits : list of Edit
        The edits that the machine has had.
    """

    def __init__(self, machine: Machine, history: History, edits: list[Edit]) -> None:
        self.machine, self.history, self.edits = machine, history, edits
        # A checkpoint costs about as much as replaying an event for each 100 bytes of state.
        self._interval = max(4 * SLICE, machine.state_bytes // 32)
        history.take(machine, len(edits))

    @property
    def events(self) -> int:
        """Events handled so far."""
        return int(self.machine.clock[0].events)

    @property
    def next_ps(self) -> int:
        """Time of the next event."""
        return int(self.machine.near[0].time_ps) if self.machine.clock[0].queued else FOREVER

    def forward(
        self,
        sim: Simulation,
        points: list[Breakpoint],
        beat: Callable[[], None],
        *,
        until_ps: int = FOREVER,
        **limits: int,
    ) -> tuple[str, Breakpoint | None]:
        """Handle events up to the limits or a breakpoint.

        Parameters
        ----------
        sim : Simulation
            What a callable breakpoint is given.
        points : list of Breakpoint
            Those in force.
        beat : callable
            Called after each slice, for those who watch a long run.
        until_ps : int
            Handle nothing later than this.
        **limits : int
            ``max_events``, ``max_instants``, ``max_instructions``, ``max_phases``.

        Returns
        -------
        why : str
            One of :data:`~astranb.engine.cacheline.loop.STOPS`, or ``stranded``: all that is left waits for
            dead links.
        point : Breakpoint or None
            The one that stopped it.
        """
        searching = any_dead(self.machine)
        owners = install(points, self.machine)
        callables = [p for p in points if p.call]
        times = [p for p in points if p.at_ps is not None and self.next_ps <= p.at_ps < until_ps]
        first = min(times, key=lambda p: p.at_ps or 0, default=None)
        last_event = limits.pop("max_events", FOREVER)
        self._limit(until_ps if first is None or first.at_ps is None else first.at_ps, **limits)
        while True:
            most = SLICE if not callables else 1
            why = self._slice(last_event, min(most, _SEARCH - self.events % _SEARCH) if searching else most)
            if why == "breakpoint":
                return why, owners[int(self.machine.control[0].hit)]
            hit = next((p for p in callables if p.call and p.call(sim)), None)
            if hit is None and why == "time":
                hit = first
            if hit is not None:
                return "breakpoint", hit
            if not self.machine.clock[0].queued:
                return "end", None
            if (
                searching
                and (self.events % _SEARCH == 0 or self.next_ps > LAST_PS)
                and stranded(self.machine)
            ):
                return "stranded", None
            if why != "events" or self.events >= last_event:
                return why, None
            beat()

    def back_to(self, field: str, target: int) -> None:
        """Restore the nearest checkpoint and replay, edits included.

        Parameters
        ----------
        field : str
            A field of the clock: ``events``, ``instants``, ``instructions``, ``phases`` or
            ``now_ps``.
        target : int
            Its value at the moment to go back to.
        """
        # Many events share a count of instructions or phases; the first of them is meant.
        below = target - 1 if field in ("instructions", "phases") else target
        checkpoint = self.history.before(field, below)
        later = self.edits[checkpoint.edits :]
        self.history.restore(self.machine, checkpoint)
        del self.edits[checkpoint.edits :]
        self.replay(field, target, later)

    def replay(self, field: str, target: int, edits: list[Edit]) -> None:
        """Go on to a moment, and carry out edits on the way at the events at which they were made."""
        self.machine.control["breaks"] = 0
        for edit in edits:
            if not self._replay(field, target, edit.events):
                return
            apply_edit(edit, self.machine)
            self.edits.append(edit)
        self._replay(field, target, FOREVER)

    def undo(self, number: int) -> None:
        """Go back to the moment of an edit, as it was before it; later ones are forgotten as well."""
        events = self.edits[number].events
        checkpoint = self.history.before_edit(events, number)
        kept = self.edits[checkpoint.edits : number]
        self.history.restore(self.machine, checkpoint)
        self.history.forget_edits(number)
        del self.edits[checkpoint.edits :]
        self.replay("events", events, kept)

    def edit(self, edit: Edit) -> None:
        """Carry out an edit now, and remember it."""
        self.history.take(self.machine, len(self.edits))
        apply_edit(edit, self.machine)
        self.edits.append(edit)

    def _slice(self, last_event: int, most: int) -> str:
        """Call the loop once; take a checkpoint when one is due."""
        due = self.history.checkpoints[-1].events + self._interval
        self.machine.control["max_events"] = min(last_event, self.events + most, max(due, self.events + 1))
        why = STOPS[self.machine.run()]
        if self.events >= due:
            self.history.take(self.machine, len(self.edits))
        return why

    def _limit(self, until_ps: int, **limits: int) -> None:
        control = self.machine.control
        control["until_ps"] = min(until_ps, LAST_PS)
        for name in ("max_instants", "max_instructions", "max_phases"):
            control[name] = limits.get(name, FOREVER)

    def _replay(self, field: str, target: int, edit_at: int) -> bool:
        """Handle events up to the target or to the event of an edit; true if the edit's was reached."""
        limits = {} if field in ("events", "now_ps") else {f"max_{field}": target}
        already = field in ("instructions", "phases") and int(self.machine.clock[0][field]) >= target
        last = min(target if field == "events" else FOREVER, edit_at)
        self._limit(target if field == "now_ps" else FOREVER, **limits)
        while not already and self.events < last:
            if self._slice(last, SLICE) != "events":
                break
        return self.events >= edit_at
