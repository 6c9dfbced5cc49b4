"""Moves an engine through time: forward in short slices, back by checkpoint and replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from astranb.engine import (
    BREAK,
    DEADLOCK,
    ENDED,
    EXHAUSTED,
    REACHED,
    STEPS,
    STRANDED,
    TIME,
    TOO_LATE,
    Breakpoint,
    Edit,
    Engine,
)

from .history import Checkpoint, History, counts_of

__all__ = ["FOREVER", "Driver"]

FOREVER = 2**62

_FAR, _NEAR = 8, 32  # parts of the interval between checkpoints
_READING_BYTES = 2**28  # least memory for checkpoints while a run is read backwards


def _nothing() -> None:
    """Do nothing: the default of ``beat``."""


class Driver:
    """The owner of a run's time.

    Parameters
    ----------
    engine : Engine
    history : History
        A checkpoint of the present moment is added to it when that is first left.
    plugins : sequence of str
        The plug-ins that the engine was built with: distribution, version, kind and name of each.
    """

    def __init__(self, engine: Engine, history: History, plugins: Sequence[str] = ()) -> None:
        self.engine, self.history, self.plugins = engine, history, tuple(plugins)
        self._interval = max(4 * engine.traits.slice_events, engine.state_bytes // engine.traits.replay_bytes)
        self._soon = FOREVER  # events at which a replay takes a checkpoint, too
        # Counts of which many events share a value: the first of them is meant.
        units = engine.traits.units
        self._shared = set(units.values()) - {units["event"], units["cycle"]}

    def copy(self, *, record: bool = True) -> Driver:
        """A private copy with the same past."""
        return Driver(self.engine.copy(record=record), self.history.copy(), self.plugins)

    def read_backwards(self, events: int) -> None:
        """Prepare for going back again and again by so many events.

        A replay takes checkpoints as close to each other, and has memory for them whatever the budget: so
        that reading a whole run backwards takes time in proportion to its length.
        """
        self._interval = events
        self.history.budget_bytes = max(self.history.budget_bytes, _READING_BYTES)

    @property
    def edits(self) -> list[Edit]:
        """The edits so far."""
        return self.engine.edits

    @property
    def events(self) -> int:
        """Events handled so far."""
        return self.engine.count("events")

    @property
    def next_ps(self) -> int:
        """Time of the next event; ``FOREVER`` where there is none."""
        following = self.engine.next_ps
        return following if following >= 0 else FOREVER

    def keep(self) -> None:
        """Take the first checkpoint, so that one can go back to it: who only looks pays for no copy."""
        if not self.history.checkpoints:
            self._take()

    def forward(
        self,
        points: Sequence[Breakpoint] = (),
        beat: Callable[[], None] = _nothing,
        sim: Any = None,
        *,
        until_ps: int = FOREVER,
        **limits: int,
    ) -> tuple[int, Breakpoint | None]:
        """Handle events up to the limits or a breakpoint.

        Parameters
        ----------
        points : list of Breakpoint
            Those in force.
        beat : callable
            Called after each slice, for those who watch a long run.
        sim : Simulation
            What a callable breakpoint is given.
        until_ps : int
            Handle nothing later than this.
        **limits : int
            Most ``events``, or others of the engine's counts.

        Returns
        -------
        why : int
            One of :mod:`astranb.engine.stops`.
        point : Breakpoint or None
            The one that stopped it.
        """
        self.keep()
        installed = self.engine.install(points)
        unlimited = not points and until_ps == FOREVER and not limits
        if unlimited and self.engine.finish():
            return ENDED, None
        callables = [p for p in points if p.call]
        following = self.next_ps
        times = [p for p in points if p.at_ps is not None and following <= p.at_ps < until_ps]
        first = min(times, key=lambda p: p.at_ps or 0, default=None)
        last_ps = until_ps if first is None or first.at_ps is None else first.at_ps
        last = limits.pop("events", FOREVER)
        slice_events = 1 if callables else self.engine.traits.slice_events
        while True:
            why = self._slice(last, slice_events, closely=bool(installed.points), until_ps=last_ps, **limits)
            if why == BREAK:
                return why, installed.points[installed.row()]
            hit = next((p for p in callables if p.call and p.call(sim)), None)
            if hit is None and why == TIME:
                hit = first
            if hit is not None:
                return BREAK, hit
            if self.engine.next_ps < 0:
                return ENDED, None
            if why in (REACHED, DEADLOCK, STRANDED, EXHAUSTED, TOO_LATE):
                return why, None
            if self.events >= last:
                return STEPS, None
            if why == TIME:
                return why, None
            beat()

    def forward_to(self, events: int) -> None:
        """Handle events until there have been so many."""
        self.forward(events=events)

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
        checkpoint = self.history.before(field, target - 1 if field in self._shared else target)
        later = self.edits[checkpoint.edits :]
        self._soon = self._shortly_before(field, target, checkpoint)
        self.history.restore(self.engine, checkpoint)
        del self.edits[checkpoint.edits :]
        self.replay(field, target, later)
        self._soon = FOREVER

    def _shortly_before(self, field: str, target: int, checkpoint: Checkpoint) -> int:
        """Events shortly before a moment to go back to, where the replay is long; else ``FOREVER``.

        Who goes back once often goes back again. As many events are assumed in all parts of the replay.
        """
        past, now = checkpoint.counts, counts_of(self.engine)
        share = (target - past[field]) / max(1, now[field] - past[field])
        length = int(share * (now["events"] - past["events"]))
        if length < self._interval // _FAR:
            return FOREVER
        return past["events"] + length - self._interval // _NEAR

    def work_back_to(self, field: str, target: int) -> int:
        """Return the most work of going back, in events handled: restoring the state, and the replay."""
        restoring = self.engine.state_bytes // self.engine.traits.replay_bytes
        return restoring + self.events - self.history.before(field, target).events

    def replay(
        self, field: str, target: int, edits: Sequence[Edit], beat: Callable[[], None] = _nothing
    ) -> None:
        """Run to a moment; carry out edits at the events at which they were made.

        ``beat`` is called after each slice, for those who watch a long replay.
        """
        self.keep()
        self.engine.install([])
        for edit in edits:
            if not self._replay(field, target, edit.events, beat):
                return
            self._apply(edit)
        self._replay(field, target, FOREVER, beat)

    def undo(self, number: int) -> None:
        """Go back to the moment of an edit, as it was before it; later ones are forgotten as well."""
        events = self.edits[number].events
        checkpoint = self.history.before_edit(events, number)
        kept = self.edits[checkpoint.edits : number]
        self.history.restore(self.engine, checkpoint)
        self.history.forget_edits(number)
        del self.edits[checkpoint.edits :]
        self.replay("events", events, kept)

    def restart(self) -> None:
        """Go back to the start as it was before every edit; all edits are forgotten."""
        self.keep()
        self.history.restore(self.engine, self.history.checkpoints[0])
        self.history.forget_edits(0)
        self.edits.clear()

    def edit(self, edit: Edit) -> None:
        """Carry out an edit now, and remember it."""
        self._take()
        self._apply(edit)

    def _apply(self, edit: Edit) -> None:
        self.engine.apply(edit)
        self.edits.append(edit)

    def _take(self) -> None:
        self.history.take(self.engine, len(self.edits))

    def _slice(self, last: int, most: int, *, closely: bool, until_ps: int = FOREVER, **limits: int) -> int:
        """Call the loop once; take a checkpoint when one is due."""
        due = self.history.checkpoints[-1].events + self._interval
        if self.events < self._soon:
            due = min(due, self._soon)
        steps = min(last, self.events + most, max(due, self.events + 1))
        limits = {name: value for name, value in limits.items() if value < FOREVER}
        last_ps = until_ps if until_ps < FOREVER else None
        closely = closely or last_ps is not None or bool(limits)
        why = self.engine.go(steps=steps, closely=closely, until_ps=last_ps, **limits)
        if self.events >= due:
            self._take()
        return why

    def _replay(self, field: str, target: int, edit_at: int, beat: Callable[[], None]) -> bool:
        """Handle events up to the target or to the event of an edit; true if the edit's was reached."""
        last = min(target if field == "events" else FOREVER, edit_at)
        limits = {} if field == "events" else {"until_ps" if field == "now_ps" else field: target}
        while self.events < last:
            before = self.events
            why = self._slice(last, self.engine.traits.slice_events, closely=False, **limits)
            # A run whose links are down was simulated on behind the error, too: as long as anything happens.
            if why not in (STEPS, STRANDED, DEADLOCK) or self.events == before:
                break
            beat()
        return self.events >= edit_at
