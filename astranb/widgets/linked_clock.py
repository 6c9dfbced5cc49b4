"""Two runs beside each other: one clock for both, and what differs at it."""

# ruff: noqa: SLF001 - it moves the traits of two workbenches

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from astranb.core.errors import AstranbError, InputError
from astranb.sim import Comparison, Replay, Simulation, Stop, compare

from .session import Session

__all__ = ["Clocked", "LinkedClock"]

_MOST_REPLAYED = 2_000_000  # events of a run that is looked at in its past


class Clocked(Protocol):
    """A view that can have a common clock: a workbench."""

    sim: Simulation
    session: Session
    _cursor_ps: Any  # traits
    _window_ps: Any
    _beside: Any

    def select(self, path: str) -> None:
        """Select an object."""
        ...

    def observe(self, handler: Callable[[Any], None], names: str) -> None:
        """Call something when a trait changes."""
        ...


_W = TypeVar("_W", bound=Clocked)


class LinkedClock(Generic[_W]):
    """Keeps two workbenches at the same simulated time, cursor, zoom and selection: moving one moves both.

    Each stays at its own end while the other continues.
    """

    def __init__(self, a: _W, b: _W) -> None:
        if a.sim is b.sim:
            raise InputError("a run beside itself", where="compare", hint="give a fork of it")
        self.a, self.b = a, b
        self.changed: Callable[[], None] = lambda: None
        self._moving = False
        self._marked: Any = None  # the edits that the marks are of
        self._replays: dict[int, tuple[Any, Replay]] = {}
        one, other = a.session, b.session
        one.twin, other.twin = other, one
        self._ends = [
            a.sim.subscribe(lambda stop: self._moved(a, b, stop)),
            b.sim.subscribe(lambda stop: self._moved(b, a, stop)),
            one.attach(lambda: self._published(b)),
            other.attach(lambda: self._published(a)),
        ]
        for bench, twin in ((a, b), (b, a)):
            bench.observe(partial(self._scrubbed, twin), "_cursor_ps")
            bench.observe(partial(self._zoomed, twin), "_window_ps")
            bench.observe(partial(self._selected, twin), "_selection")
        self._mark()

    def close(self) -> None:
        """Return to a clock for each."""
        for end in self._ends:
            end()
        self._ends = []
        for bench in (self.a, self.b):
            bench.session.twin = None
            bench._beside = {}

    def together(self) -> None:
        """Take b to where a is."""
        self._follow(self.a, self.b)
        self.b.session.publish()

    def at(self, cursor_ps: Any = None) -> Comparison:
        """Compare the runs at a time, or now; long runs are not replayed to look into their past."""
        names = compare(self.a.sim, self.b.sim).names
        return compare(self._then(self.a.sim, cursor_ps), self._then(self.b.sim, cursor_ps), names)

    def _mark(self) -> None:
        """Have each workbench show which of the two it is, and what differs in what they were given."""
        edits = (tuple(self.a.sim.edits), tuple(self.b.sim.edits))
        if edits == self._marked:
            return
        self._marked = edits
        inputs, differing = compare(self.a.sim, self.b.sim).inputs, sorted(self._differing())
        changes = {"A": [(name, a, b) for name, a, b in inputs], "B": [(name, b, a) for name, a, b in inputs]}
        for bench, letter in ((self.a, "A"), (self.b, "B")):
            bench._beside = {"letter": letter, "changes": changes[letter], "differing": differing}

    def _differing(self) -> set[str]:
        """Boxes and links that were changed in one of the two runs only."""
        found: set[str] = set()
        for sim, other in ((self.a.sim, self.b.sim), (self.b.sim, self.a.sim)):
            for path in {edit[1] for edit in sim.edits if edit not in other.edits}:
                with suppress(AstranbError):  # of the whole run
                    found.add(str(sim.inspect(path.rpartition(".")[0])["path"]).partition("#")[0])
        return found

    def _then(self, sim: Any, cursor_ps: Any) -> Any:
        late = not isinstance(cursor_ps, int | float) or cursor_ps < 0 or cursor_ps >= sim.now_ps
        if late or sim.events > _MOST_REPLAYED:
            return sim
        key = (sim.events, tuple(sim.edits))
        kept = self._replays.get(id(sim))
        if kept is None or kept[0] != key:
            kept = self._replays[id(sim)] = (key, Replay(sim))
        kept[1].goto(int(cursor_ps))
        return kept[1].sim

    def _moved(self, bench: Clocked, twin: Clocked, stop: Stop) -> None:
        if self._moving or not self._ends or stop.why == "edit":
            return
        session = bench.session
        at_its_end = bench.sim.finished and twin.sim.now_ps >= bench.sim.now_ps
        if at_its_end and stop.why != "back":  # the other one has continued
            return
        stopped = self._follow(bench, twin)
        if stopped is not None and stopped.why == "breakpoint":  # both stop where the first one was hit
            session.playing = False
            self._follow(twin, bench)
        elif stop.why == "end" and session.playing and not (session.bounded or twin.sim.finished):
            twin.session.speed = session.speed
            twin.session.ask("to_end" if session.fast else "play")
        if not session.playing:
            twin.session.publish()

    def _follow(self, bench: Clocked, twin: Clocked) -> Stop | None:
        """Take the twin to the time of a workbench, without notifying its views."""
        sim, session = twin.sim, twin.session
        if sim.finished and sim.now_ps <= bench.sim.now_ps:  # it stays at its end
            return None
        self._moving = True
        try:
            with session.silently():
                stop = sim.reset(keep=True) if bench.sim.events == 0 else sim.goto(bench.sim.now_ps)
            session.set_status(stop.text)
        except AstranbError as error:
            session.set_status(str(error), failed=True)
            return None
        finally:
            self._moving = False
        return stop

    def _published(self, twin: Clocked) -> None:
        """A workbench notifies its views: so does the other one, which moved with it."""
        if self._moving or not self._ends:
            return
        self._moving = True
        try:
            twin.session.publish()
        finally:
            self._moving = False
        self._mark()
        self.changed()

    def _scrubbed(self, twin: Clocked, change: Mapping[str, Any]) -> None:
        cursor_ps = change["new"]
        if self._ends:
            twin._cursor_ps = cursor_ps if 0 <= cursor_ps < twin.sim.now_ps else -1.0
            self.changed()

    def _zoomed(self, twin: Clocked, change: Mapping[str, Any]) -> None:
        if self._ends:
            twin._window_ps = change["new"]

    def _selected(self, twin: Clocked, change: Mapping[str, Any]) -> None:
        if not self._ends:
            return
        try:
            twin.select(change["new"])
        except AstranbError:
            return  # it has no such object
