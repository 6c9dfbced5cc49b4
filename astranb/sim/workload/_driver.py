"""Moves a workload through time: forward in short slices, back by checkpoint and replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from astranb.engine.messages._edits import Edit
from astranb.engine.protocol import Engine
from astranb.engine.stops import BREAK, ENDED, REACHED, TIME
from astranb.sim._breakpoints import Breakpoint
from astranb.sim._history import History

__all__ = ["FOREVER", "SLICE", "Driver"]

FOREVER = 2**62
SLICE = 131_072
"""Events of one call of the loop: some ms, so that Pause and Ctrl-C act at once."""


class Driver:
    """The owner of a run's time.

    Parameters
    ----------
    state : Engine
    history : History
        A checkpoint of the present moment is added to it when that is first left.
    edits : list of Edit
        The edits that the run has had.
    """

    def __init__(self, state: Engine, history: History, edits: list[Edit]) -> None:
        self.state, self.history, self.edits = state, history, edits
        self._interval = max(4 * SLICE, state.state_bytes // 8)

    @property
    def events(self) -> int:
        """Events handled so far."""
        return self.state.count("events")

    @property
    def next_ps(self) -> int:
        """Time of the next event; for ever where there is none."""
        following = self.state.next_ps
        return following if following >= 0 else FOREVER

    def keep(self) -> None:
        """See to it that one can go back to the first moment: who only looks pays for no copy."""
        if not self.history.checkpoints:
            self.history.take(self.state, len(self.edits))

    def forward(
        self,
        sim: Any,
        points: Sequence[Breakpoint],
        beat: Callable[[], None],
        *,
        until_ps: int = FOREVER,
        **limits: int,
    ) -> tuple[str, Breakpoint | None]:
        """Handle events up to the limits or a breakpoint.

        Parameters
        ----------
        sim : WorkloadSimulation
            What a callable breakpoint is given.
        points : list of Breakpoint
            Those in force.
        beat : callable
            Called after each slice, for those who watch a long run.
        until_ps : int
            Handle nothing later than this.
        **limits : int
            Most ``events``, ``turns``, or others of the engine's counts.

        Returns
        -------
        why : str
            ``steps``, ``reached`` (as many of something else), ``time``, ``breakpoint`` or ``end``.
        point : Breakpoint or None
            The one that stopped it.
        """
        self.keep()
        owners = self.state.install(points)
        callables = [p for p in points if p.call]
        following = self.next_ps
        times = [p for p in points if p.at_ps is not None and following <= p.at_ps < until_ps]
        first = min(times, key=lambda p: p.at_ps or 0, default=None)
        most = {"until_ps": until_ps if first is None or first.at_ps is None else first.at_ps, **limits}
        last = most.pop("events", FOREVER)
        while True:
            why = self._slice(last, 1 if callables else SLICE, closely=bool(owners), **most)
            if why == BREAK:
                return "breakpoint", owners[int(self.state.machine.watch[0].hit)]
            hit = next((p for p in callables if p.call and p.call(sim)), None)
            if hit is None and why == TIME:
                hit = first
            if hit is not None:
                return "breakpoint", hit
            if self.state.next_ps < 0:
                return "end", None
            if why == REACHED:
                return "reached", None
            if self.events >= last:
                return "steps", None
            if why == TIME:
                return "time", None
            beat()

    def back_to(self, field: str, target: int) -> None:
        """Restore the nearest checkpoint and replay, edits included.

        Parameters
        ----------
        field : str
            One of the engine's counts.
        target : int
            Its value at the moment to go back to.
        """
        self.keep()
        # Many events share a count of operations; the first of them is meant.
        below = target if field in ("events", "turns", "now_ps") else target - 1
        checkpoint = self.history.before(field, below)
        later = self.edits[checkpoint.edits :]
        self.history.restore(self.state, checkpoint)
        del self.edits[checkpoint.edits :]
        self.replay(field, target, later)

    def replay(self, field: str, target: int, edits: Sequence[Edit]) -> None:
        """Go on to a moment, and carry out edits on the way at the events at which they were made."""
        self.keep()
        self.state.install([])
        for edit in edits:
            if not self._replay(field, target, edit.events):
                return
            self.state.apply(edit, self.edits)
            self.edits.append(edit)
        self._replay(field, target, FOREVER)

    def undo(self, number: int) -> None:
        """Go back to the moment of an edit, as it was before it; later ones are forgotten as well."""
        events = self.edits[number].events
        checkpoint = self.history.before_edit(events, number)
        kept = self.edits[checkpoint.edits : number]
        self.history.restore(self.state, checkpoint)
        self.history.forget_edits(number)
        del self.edits[checkpoint.edits :]
        self.replay("events", events, kept)

    def edit(self, edit: Edit) -> None:
        """Carry out an edit now, and remember it."""
        self.history.take(self.state, len(self.edits))
        self.state.apply(edit, self.edits)
        self.edits.append(edit)

    def _slice(self, last: int, most: int, *, closely: bool, until_ps: int = FOREVER, **limits: int) -> int:
        """Call the loop once; take a checkpoint when one is due."""
        due = self.history.checkpoints[-1].events + self._interval
        steps = min(last, self.events + most, max(due, self.events + 1))
        limits = {name: value for name, value in limits.items() if value < FOREVER}
        closely = closely or until_ps < FOREVER or bool(limits)
        last_ps = until_ps if until_ps < FOREVER else None
        why = self.state.go(steps=steps, closely=closely, until_ps=last_ps, **limits)
        if self.events >= due:
            self.history.take(self.state, len(self.edits))
        return why

    def _replay(self, field: str, target: int, edit_at: int) -> bool:
        """Handle events up to the target or to the event of an edit; true if the edit's was reached."""
        last = min(target if field == "events" else FOREVER, edit_at)
        limits = {} if field == "events" else {"until_ps" if field == "now_ps" else field: target}
        while self.events < last:
            why = self._slice(last, SLICE, closely=False, **limits)
            if why in (ENDED, TIME, REACHED):
                break
        return self.events >= edit_at
