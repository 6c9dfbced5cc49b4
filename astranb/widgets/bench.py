"""The workbench without a browser: every verb, and the state of its view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from astranb.core.errors import AstranbError, InputError, near
from astranb.core.units import time_ps
from astranb.engine import Breakpoint, Change, WhatIf, Why
from astranb.sim import Comparison, ObjectView, Simulation, Stop, Watch

from .connection import BrowserConnection
from .feed import feed_of
from .linked_clock import LinkedClock
from .panels import PANELS
from .session import session_of
from .shared_link import Linked, link_of, linked_state, read_link, shown_of
from .views import answers_of

if TYPE_CHECKING:
    import pandas as pd

    from astranb.engine import CriticalPath

__all__ = ["SHOWN", "Bench"]

_NOTES = "workbench"  # of our part of a saved simulation
SHOWN = {name: f"_{name}" for name in ("selection", "cursor_ps", "window_ps", "panels", "sizes", "redraw_hz")}
"""Saved fields of a view, and the attribute that holds each."""
_PAUSE_S = 1.0
"""Seconds at rest before the file is written: many steps in a row are written once."""

_T = TypeVar("_T")


class Bench:
    """A simulation, and what is shown of it: what a notebook's workbench and a page's have in common.

    Whoever shows it holds the attributes below, calls the functions of :meth:`observe` when one changes,
    and calls :meth:`_begin`.

    Parameters
    ----------
    sim : Simulation
    """

    _selection: Any
    _cursor_ps: Any  # negative: at the simulation
    _window_ps: Any  # from and to, of the timelines; empty: all time
    _panels: Any  # which views are open (static/panels.js)
    _sizes: Any  # of panels that were resized, in pixels
    _redraw_hz: Any
    _other: Any  # reference to the view of the run beside this one
    _beside: Any  # of two runs: which this is, what differs

    sim: Simulation

    if TYPE_CHECKING:

        def observe(self, handler: Callable[[Any], None], names: Any = ...) -> None:
            """Call something when an attribute changes."""

    def _send_message(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        """Send a message to whatever shows it."""
        raise NotImplementedError

    @property
    def _reference(self) -> str:
        """Reference of this workbench in its view."""
        raise NotImplementedError

    def _alike(self, sim: Simulation) -> Self:
        """Show another simulation in the same way."""
        return type(self)(sim)  # type: ignore[call-arg]  # of a workbench

    @staticmethod
    def _checked(sim: Simulation) -> Simulation:
        """Check that it is a simulation."""
        if not isinstance(sim, Simulation):
            hint = "Workbench(Simulation(...))"
            raise InputError(f"not a simulation: {sim!r}", where="Workbench", hint=hint)
        return sim

    def _begin(self, sim: Simulation) -> None:
        """Begin to answer views, and to follow the simulation."""
        self.sim = sim
        self.session = session_of(sim)
        self.feed = feed_of(self.session)
        self.linked: LinkedClock[Any] | None = None  # with the run beside this one
        self._file: Path | None = None  # where the session is written
        self._written = (-1, 0)  # events and edits that there were when it was
        self._seen_hit: Stop | None = None
        self.feed.workbench = self
        self.connection = BrowserConnection(
            self.feed, answers_of(self.feed), self._command, self._send_message
        )
        self._detach = self.session.attach(self._changed)

    def close(self) -> None:
        """Close the view; the simulation and its other views stay."""
        if "session" in self.__dict__:  # else it was refused before it showed anything
            self._detach()
            self.part()

    def __repr__(self) -> str:
        """One line: what it shows."""
        return f"<Workbench of {self.sim!r}>"

    def _changed(self) -> None:
        """Follow a change: select the object of a breakpoint, write the file, update the browser."""
        hit = self.session.hit
        if hit is not self._seen_hit:
            self._seen_hit = hit
            if hit is not None and hit.where:
                self._selection = hit.where
        if self._file is not None and not self.session.playing and self._written != self._position:
            self.session.later(_PAUSE_S, self._write_file)
        self.connection.changed()

    def _shown(self) -> dict[str, Any]:
        return {name: getattr(self, trait) for name, trait in SHOWN.items()}

    def _command(self, command: str, **options: Any) -> None:
        """Pass a command on; what moves time brings the cursor to the simulation first."""
        if command not in {"pause", "set_speed"}:
            self.follow()
        self.session.ask(command, **options)

    def _published(self, call: Callable[[], _T]) -> _T:
        """Do something, and have every view look again."""
        outcome = call()
        self.session.publish()
        return outcome

    # Moving time -------------------------------------------------------------

    def reset(self) -> None:
        """Go back to the start."""
        self._command("reset")

    def back(self, n: int = 1, unit: str = "event") -> None:
        """Go back by n units of steps, as :meth:`Simulation.back`."""
        self._command("back", n=n, unit=unit)

    def play(self) -> None:
        """Play at the present speed, in the background: other cells can run."""
        self._command("play")

    def pause(self) -> None:
        """Stop playing, between two events."""
        self._command("pause")

    def event(self, n: int = 1) -> None:
        """Step forward by n events."""
        self._command("event", n=n)

    def cycle(self, n: int = 1) -> None:
        """Step forward by n timesteps: all events at each."""
        self._command("cycle", n=n)

    def instruction(self, n: int = 1) -> None:
        """Run to the issue of a GPU instruction (by cache lines)."""
        self._command("instruction", n=n)

    def hop(self, n: int = 1) -> None:
        """Run until a request enters a link (by cache lines)."""
        self._command("hop", n=n)

    def line(self, n: int = 1) -> None:
        """Run until data arrive from another GPU (by cache lines)."""
        self._command("line", n=n)

    def message(self, n: int = 1) -> None:
        """Run until a message has arrived; by cache lines, until a move between GPUs has taken effect."""
        self._command("message", n=n)

    def operation(self, n: int = 1) -> None:
        """Run to the end of an operation of any rank (runs of operations)."""
        self._command("operation", n=n)

    def phase(self, n: int = 1) -> None:
        """Run to the end of a phase of a collective."""
        self._command("phase", n=n)

    def loop_pass(self, n: int = 1) -> None:
        """Run to the end of a pass of the training loop (ASTRA-sim 1.0's files)."""
        self._command("pass", n=n)

    def next_line(self, block: str) -> None:
        """Run until a thread block, as ``gpu[3].block.0``, reaches its next operation (by cache lines)."""
        self._command("next_line", block=block)

    def goto(self, when: int | str) -> None:
        """Go to the moment at which everything up to a time has happened, forwards or back."""
        self._command("goto", when=when)

    def to_breakpoint(self) -> None:
        """Run in the background, as fast as possible, to a breakpoint or the end."""
        self._command("to_breakpoint")

    def to_end(self) -> None:
        """Run in the background, as fast as possible, to the end or a breakpoint."""
        self._command("to_end")

    def set_speed(self, speed: float | str) -> None:
        """Set how much simulated time a second of watching shows, as ``"1 us"`` or in ps."""
        ps = time_ps(speed, where="speed") if isinstance(speed, str) else float(speed)
        if not ps > 0:
            raise InputError(f"the speed must be positive, got {speed!r}", where="speed")
        self._command("set_speed", speed=ps)

    def record(self, on: bool = True) -> None:
        """Record lines in flight and activity from now on, or stop recording (:meth:`Simulation.record`)."""
        self._command("record", on=on)

    # Looking -----------------------------------------------------------------

    def set_redraw(self, hz: float) -> None:
        """Set how often the picture is drawn, times a second, 1 to 60; the simulation keeps its speed."""
        if not 1 <= hz <= 60:
            raise InputError(f"pictures are drawn 1 to 60 times a second, got {hz!r}", where="set_redraw")
        self._redraw_hz = float(hz)

    def scrub(self, when: int | str) -> None:
        """Move only the view's cursor, within what has been simulated; the simulation stays."""
        at = time_ps(when, where="scrub")
        self._cursor_ps = float(at) if at < self.sim.now_ps else -1.0

    def follow(self) -> None:
        """Have the cursor stay with the simulation."""
        self._cursor_ps = -1.0

    def zoom(self, start: int | str | None = None, end: int | str | None = None) -> None:
        """Have the timelines show a part of time, ``zoom("2 us", "3 us")``; all of it without one."""
        if (start is None) != (end is None):
            raise InputError("one end of a window", where="zoom", hint='zoom("2 us", "3 us"), or zoom()')
        window = [] if start is None or end is None else [time_ps(at, where="zoom") for at in (start, end)]
        if window and window[0] >= window[1]:
            raise InputError(f"a window from {start} to {end}", where="zoom", hint="the earlier end first")
        self._window_ps = [float(at) for at in window]

    def show_panel(self, name: str) -> None:
        """Show a view, as ``"topology"``, ``"graph"``, ``"explain"``, ``"blocks"`` or ``"tracks"``."""
        known = PANELS[self.feed.engine]
        if name not in known:
            raise InputError(f"unknown view {name!r}", where="show_panel", hint=near(name, known))
        below = known[name] == "below"
        self._panels = {**self._panels, **({name: True} if below else {known[name]: name})}

    def select(self, path: str) -> None:
        """Select an object, as ``gpu[3].sm.0`` or ``rank[3].op[5]``; an empty path selects nothing."""
        self._selection = self.sim.inspect(path)["path"] if path else ""

    @property
    def selected(self) -> ObjectView | None:
        """The selected object at the cursor: ``selected.state``, ``selected["title"]``."""
        return self._at_cursor().at(self._selection) if self._selection else None

    @property
    def cursor_ps(self) -> int:
        """The moment that the view shows."""
        return int(self._cursor_ps) if self._cursor_ps >= 0 else self.sim.now_ps

    def _at_cursor(self) -> Simulation:
        return self.session.at(self._cursor_ps if self._cursor_ps >= 0 else None)

    # Breakpoints and watches -------------------------------------------------

    def break_at(self, time: int | str) -> Breakpoint:
        """Stop when everything up to a time has happened (:meth:`Simulation.break_at`)."""
        return self._published(lambda: self.sim.break_at(time))

    def break_on(self, kind: str | None = None, object: str | None = None) -> Breakpoint:  # noqa: A002 - the public word
        """Stop after an event of a kind, of an object, or both (:meth:`Simulation.break_on`)."""
        return self._published(lambda: self.sim.break_on(kind, object))

    def break_when(self, condition: str | Callable[[Simulation], bool]) -> Breakpoint:
        """Stop when a condition becomes true (:meth:`Simulation.break_when`)."""
        return self._published(lambda: self.sim.break_when(condition))

    def clear(self, point: Breakpoint | None = None) -> None:
        """Remove a breakpoint, or all of them."""
        self._published(lambda: self.sim.clear(point))

    def watch(self, what: str | Callable[[Any], float]) -> Watch:
        """Plot a value as a sparkline (:meth:`Simulation.watch`)."""
        return self._published(lambda: self.sim.watch(what))

    def unwatch(self, watch: Watch | None = None) -> None:
        """Remove a watch, or all of them."""
        self._published(lambda: self.sim.unwatch(watch))

    # Changing and comparing --------------------------------------------------

    def set(self, path: str, value: float | str | bool) -> None:
        """Change a parameter from now on (:meth:`Simulation.set`); Reset keeps it."""
        self._command("set", path=path, value=value)

    def take_down(self, link: str, *, both: bool = False) -> None:
        """Take a link down from now on (:meth:`Simulation.take_down`)."""
        self._command("take_down", link=link, both=both)

    def repair(self, link: str, *, both: bool = False) -> None:
        """Bring a link back up (:meth:`Simulation.repair`)."""
        self._command("repair", link=link, both=both)

    def reroute(self) -> None:
        """Change the routes, so that they avoid what is down (:meth:`Simulation.reroute`)."""
        self._command("reroute")

    def undo(self, number: int = -1) -> None:
        """Go back to an edit, as it was before it: the last one, or the number given."""
        self._command("undo", number=number % max(1, len(self.sim.edits)))

    def fork(self, changes: Mapping[str, Any]) -> Simulation:
        """Make another run with changes, and show it beside this one with the same clock.

        Parameters
        ----------
        changes : mapping of str to value
            As :meth:`Simulation.fork_with` takes them.

        Returns
        -------
        Simulation
            The other run: with the same past where only objects are changed, else from the start,
            and taken to the time of this one.
        """
        other = self.sim.fork_with(changes)
        self.compare(other)
        return other

    def compare(self, other: Simulation) -> Comparison:
        """Show another run beside this one with the same clock, and how they differ in the panel Comparison.

        The other run is taken to the time of this one. For two whole workbenches beside each other
        show an ``anb.SideBySide(sim, other)`` in a cell.
        """
        self.part()
        clock = self.linked = LinkedClock[Any](self, self._alike(other))
        clock.together()
        clock.b._panels = {"blocks": True, "activity": False}  # noqa: SLF001 - a Bench, too
        self._other = clock.b._reference  # noqa: SLF001 - a Bench, too
        self._panels = {**self._panels, "compare": True}
        self.session.publish()
        return clock.at()

    def part(self) -> None:
        """Close the other run's view; the run itself stays, with its own clock."""
        clock, self.linked = self.linked, None
        if clock is not None:
            clock.close()
            clock.b.close()
            self._other = ""

    # Explaining --------------------------------------------------------------

    def why(self, path: str | None = None) -> Why:
        """Explain why an object (the selected one) waits at the cursor (:meth:`Simulation.why`)."""
        return self._at_cursor().why(self._selection if path is None else path)

    def critical_path(self) -> CriticalPath:
        """Find what the time up to the cursor consists of (:meth:`Simulation.critical_path`)."""
        return self._at_cursor().critical_path()

    def lost_time(self, per: str = "") -> pd.DataFrame:
        """Return a breakdown of the time up to the cursor (:meth:`Simulation.lost_time`)."""
        return self._at_cursor().lost_time(per)

    def buffers(self, most: int = 32) -> pd.DataFrame:
        """List the fullest buffers and the longest queues at the cursor (:meth:`Simulation.buffers`)."""
        return self._at_cursor().buffers(most)

    @overload
    def what_if(self) -> WhatIf: ...

    @overload
    def what_if(self, path: str, value: float | str = "") -> Change: ...

    def what_if(self, path: str = "", value: float | str = "") -> WhatIf | Change:
        """Ask what a change would do (:meth:`Simulation.what_if`)."""
        sim = self._at_cursor()
        return sim.what_if(path, value) if path else sim.what_if()

    # Saving and loading ------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the simulation as it is now, its breakpoints and watches, and the view, to one file.

        Breakpoints and watches that are functions are not in it: a file holds no code.

        Raises
        ------
        InputError
            It cannot be written there.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import astranb as anb
        >>> path = Path(tempfile.mkdtemp()) / "session.anb"
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> workbench = anb.Workbench(sim)
        >>> workbench.event(1000)
        >>> workbench.select("gpu[3]")
        >>> workbench.save(path)
        >>> again = anb.Workbench.load(path)
        >>> again.sim.events, again.selected["title"]
        (1000, 'dgx_h100.0.xpu.3 (GPU3)')
        """
        self._note()
        self.sim.save(path)

    def _note(self) -> None:
        """Have what is saved of the simulation hold the view."""
        self.sim.notes[_NOTES] = {**self._shown(), "speed": self.session.speed}

    @classmethod
    def load(cls, path: str | Path, *, unequal: bool = False) -> Self:
        """Show again what was saved, at the same moment, and go on to the same end.

        Parameters
        ----------
        path : str or Path
        unequal : bool
            As for :meth:`.Simulation.load`.

        Raises
        ------
        InputError
            As for :meth:`.Simulation.load`.
        """
        workbench = cls(Simulation.load(path, unequal=unequal))  # type: ignore[call-arg]  # of a workbench
        workbench._look_as_saved()
        workbench.session.show(f"loaded from {path}")
        return workbench

    def _look_as_saved(self) -> None:
        """Show what a saved simulation was shown as."""
        view = self.sim.notes.get(_NOTES)
        if isinstance(view, dict) and view:
            self._look(shown_of(view))

    def _look(self, view: Mapping[str, Any]) -> None:
        for name, trait in SHOWN.items():
            setattr(self, trait, view[name])
        self.session.ask("set_speed", speed=float(view["speed"]))

    def link(self) -> str:
        """Return a link to this moment, for a page of this run and for :meth:`enter`.

        It holds what was changed when, how far the run is, where it stops, and what is shown; not the run
        itself.

        Returns
        -------
        str
            What stands behind the address of a page: ``#state=…``.

        Raises
        ------
        InputError
            It would be too long.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> start = sim.fork()
        >>> workbench = anb.Workbench(sim)
        >>> workbench.event(1000)
        >>> workbench.set("gpu[3].l2", "300 ns")
        >>> workbench.event(500)
        >>> other = anb.Workbench(start)
        >>> other.enter(workbench.link())
        >>> other.sim.events, other.sim.state_hash() == sim.state_hash()
        (1500, True)
        """
        return link_of(self.sim, {**self._shown(), "speed": self.session.speed})

    def enter(self, link: str) -> None:
        """Go to the moment of a link, made by :meth:`link` or by a page; the view becomes that of the link.

        Raises
        ------
        InputError
            It is damaged, of another run, or of another version of astranb.
        """
        self.enter_found(read_link(link))

    def enter_found(self, found: Linked) -> None:
        """Go to the moment of a link that was read."""
        self.session.ask("pause")
        self._cursor_ps = -1.0  # what is asked on the way is not about a time that is not simulated yet
        try:
            with self.session.silently():
                linked_state(self.sim, found)
        finally:
            self.session.publish()
        self._look(found.shown)
        self.session.show("the state of the link")

    @classmethod
    def kept(cls, path: str | Path, make: Callable[[], Simulation]) -> Self:
        """Continue from a file if it exists, else with a new simulation; and keep the file up to date.

        A cell with this survives a restart of the kernel: run it again.

        Parameters
        ----------
        path : str or Path
        make : callable
            Makes the simulation where there is no file yet.
        """
        workbench = cls.load(path) if Path(path).exists() else cls(make())  # type: ignore[call-arg]  # of a workbench
        workbench.keep(path)
        return workbench

    def keep(self, path: str | Path | None) -> None:
        """Write the session to a file now and whenever it has come to rest; None ends that."""
        self._file = None if path is None else Path(path)
        if path is not None:
            self.save(path)
            self._written = self._position

    @property
    def _position(self) -> tuple[int, int]:
        return self.sim.events, len(self.sim.edits)

    def _write_file(self) -> None:
        """Write the file once the run has come to rest; an error is shown, and ends autosave."""
        if self._file is None or self.session.playing or self._written == self._position:
            return
        self._written = self._position
        try:
            self.save(self._file)
        except (AstranbError, OSError) as error:
            self._file = None
            self.session.show(f"autosave stopped: {error}")
