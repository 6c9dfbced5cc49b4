"""Changing a run from its workbench: as methods, and as its panel is told."""

# ruff: noqa: SLF001 - this is a part of the workbench

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from astranb.core.errors import AstranbError, InputError, near
from astranb.sim import Comparison, Simulation

from ._changes import CHANGES
from ._clock import LinkedClock, report

if TYPE_CHECKING:
    from ._feed import Feed, Message
    from ._session import Session

__all__ = ["Changing", "answer_apply", "answer_difference", "answer_fork", "answer_parameters"]


class Changing:
    """What changes a run, and compares it with another; a part of :class:`Workbench`."""

    sim: Simulation
    _session: Session
    _other: Any  # trait of the widget: the view of the run beside this one
    _panels: Any

    def set(self, path: str, value: float | str | bool) -> None:
        """Change a parameter from now on (:meth:`Simulation.set`); Reset keeps it."""
        self._ask("set", path=path, value=value)

    def kill(self, link: str, *, both: bool = False) -> None:
        """Take a link down from now on (:meth:`Simulation.kill`)."""
        self._ask("kill", link=link, both=both)

    def repair(self, link: str, *, both: bool = False) -> None:
        """Bring a dead link back."""
        self._ask("repair", link=link, both=both)

    def undo(self, number: int = -1) -> None:
        """Go back to an edit, as it was before it: the last one, or the number given."""
        self._ask("undo", number=number % max(1, len(self.sim.edits)))

    def fork(self, changes: Mapping[str, Any]) -> Any:
        """Make another run with changes, and show it beside this one with the same clock.

        Parameters
        ----------
        changes : mapping of str to value
            As :meth:`Simulation.fork_with` takes them.

        Returns
        -------
        Simulation or Simulation
            The other run: with the same past where only links and GPUs are changed, else from
            the start, and taken to the time of this one.
        """
        other: Any = self.sim.fork_with(changes)
        self.compare(other)
        return other

    def compare(self, other: Any) -> Comparison:
        """Show another run beside this one, in the panel Comparison, with the same clock.

        The other run, of the same kind, is taken to the time of this one. For two whole
        workbenches beside each other show an ``anb.SideBySide(sim, other)`` in a cell.
        """
        self.part()
        mine: Any = self
        clock = self.__dict__["_clock"] = LinkedClock(mine, type(mine)(other))
        clock.together()
        clock.b._panels = {"blocks": True, "activity": False}
        self._other = f"anywidget:{clock.b.model_id}"
        self._panels = {**self._panels, "compare": True}
        self._session.publish()
        return clock.at()

    def part(self) -> None:
        """Show no other run any more; it goes on to exist, and its clock is its own."""
        clock: LinkedClock | None = self.__dict__.pop("_clock", None)
        if clock is not None:
            clock.close()
            clock.b.close()
            self._other = ""

    if TYPE_CHECKING:

        def _ask(self, command: str, **options: Any) -> None: ...


def answer_parameters(feed: Feed, content: dict[str, Any]) -> Message:
    """What can be changed of the selected object and of the run, and what has been."""
    sim, path = feed.sim, str(content.get("path", ""))
    try:
        found = sim.parameters(path) if path else []
        kind = sim.inspect(path)["kind"] if path else ""
        title = sim.inspect(path)["path"] if path else ""
    except AstranbError as error:
        found, kind, title = [], "", str(error)
    return {
        "title": title,
        "kind": kind,
        "object": [dataclasses.asdict(parameter) for parameter in found],
        "run": [dataclasses.asdict(parameter) for parameter in sim.parameters()],
        "edits": sim.edits,
        "events": sim.events,
    }, []


def answer_fork(feed: Feed, content: dict[str, Any]) -> Message:
    """Fork with changes, and show the two beside each other; what is wrong is the answer's error."""
    changes = content.get("changes")
    if not isinstance(changes, dict):
        raise InputError("a fork needs changes", where="fork")
    if feed.bench is None:
        raise InputError("nobody shows this run", where="fork")
    feed.bench.fork({str(path): value for path, value in changes.items()})
    return {"made": True}, []


def answer_apply(feed: Feed, content: dict[str, Any]) -> Message:
    """Carry out a change now; what is wrong is the answer's error, beside the control that asked."""
    verb = str(content.get("verb"))
    if verb not in CHANGES:
        raise InputError(f"no such change: {verb!r}", where="change", hint=near(verb, CHANGES))
    if feed.bench is not None:
        feed.bench.follow()
    feed.session.perform(verb, dict(content.get("options", {})))
    return {"status": feed.session.status}, []


def answer_difference(feed: Feed, content: dict[str, Any]) -> Message:
    """The difference between this run and the one beside it, at the view's cursor."""
    clock: LinkedClock | None = feed.bench.__dict__.get("_clock") if feed.bench is not None else None
    if clock is None:
        return {"other": False}, []
    if content.get("part"):
        feed.bench.part()
        return {"other": False}, []
    at_ps = None if feed.session.running else content.get("at_ps")
    return {"other": True, **report(clock.at(at_ps))}, []
