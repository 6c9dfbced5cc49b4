"""The session of a simulation: it applies commands, plays, and notifies views; no browser is needed.

One session belongs to one simulation, however many views show it. Callbacks only append
commands; they are applied by the thread that owns the session, between two slices of a
run. While a run plays, an asyncio task alternates slices of a few ms with the kernel's
other work, so that cells can run and Pause acts at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from astranb.core.errors import AstranbError, InputError, near
from astranb.core.progress import heard
from astranb.core.units import format_time
from astranb.engine.operations import OperationEngine
from astranb.sim import Replay, Simulation, Stop

from .commands import COMMANDS, UNITS, count_of, when_of
from .progress import Progress

__all__ = ["PLAYING", "Owner", "Session", "session_of"]

PLAYING = ("play", "pause", "to_breakpoint", "to_end", "set_speed")
"""Commands of the session itself; the others are in ``commands.py``."""

_LONG = frozenset(UNITS) - {"event", "cycle"}
"""Steps that may take long: they are played, so that Pause acts at once."""

_PUBLISH_S = 0.05
"""Views are notified at most 20 times a second: JupyterLab drops messages beyond 1,000 in a second."""

_FAST_PUBLISH_S = 0.1
"""In fast-forward ten times a second: Pause waits while the page uses the processor."""

_SLICE = 12_288
"""Events between two rounds of the kernel's other work: about 3 ms."""

_ROUNDS = 5
"""Rounds of the event loop after each slice: a message takes several from its socket to us."""

_LONGEST_FRAME_S = 0.25
"""A kernel that was busy with a cell does not catch up for longer than this."""

_T = TypeVar("_T")

_FOREVER = 2**62

_MOST_WORK = 4_000_000
"""Events' worth of work that going back to what was seen may take at Pause: half a second or so."""

_SPEED = 1e6  # ps a second: a microsecond is watched in a second
_SLOWEST, _FASTEST = 1.0, 1e15
_WATCHED_S = 15.0
_FASTEST_AT_FIRST = 1e11


class Owner:
    """Something that only the thread that made it may change."""

    def __init__(self) -> None:
        self._owner = threading.get_ident()
        self._loop = _running_loop()

    def hand(self, call: Callable[[], None]) -> None:
        """Have something called by the owner's thread: at once, or between two slices.

        Some versions of the kernel bring a browser's messages in other threads, while a cell
        or a slice runs.
        """
        if threading.get_ident() == self._owner:
            self._loop = _running_loop() or self._loop
            call()
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(call)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, if it has one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Session(Owner):
    """The one place from which a simulation's views move it.

    Attributes
    ----------
    playing : bool
    fast : bool
        Whether it plays as fast as it can, not at the speed.
    speed : float
        Simulated picoseconds a second of watching.
    status : str
        Why it stopped, or what went wrong.
    failed : bool
        Whether the status is an error.
    progress : Progress
        How far a long run has come.
    blocked : bool
        Whether a cell moves the simulation, so that commands of views wait.
    hit : Stop or None
        At the breakpoint that was hit last, until the simulation moves.
    twin : Session or None
        Of the run beside this one, which moves with it.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> session = session_of(sim)
    >>> session.ask("event", n=100)
    >>> sim.events
    100
    """

    def __init__(self, sim: Simulation) -> None:
        super().__init__()
        self.sim = sim
        self.playing = self.fast = self.bounded = False
        self.speed = _first_speed(sim)
        self.status = "ready"
        self.failed = self.blocked = False
        self._queue: deque[tuple[str, dict[str, Any]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._draining = False
        self._views: list[Callable[[], None]] = []
        self._silent = False
        self._published_s = 0.0
        self._replica: Replay | None = None
        self.hit: Stop | None = None
        self.twin: Session | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # an event loop alone does not keep them
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self.progress = Progress(sim)
        self.background: Any = None  # long answers (background.py)
        sim.subscribe(self._moved, self._moving)

    # Notifying views ---------------------------------------------------------

    def attach(self, view: Callable[[], None]) -> Callable[[], None]:
        """Call a view at every change; returns what ends that."""
        self._views.append(view)

        def detach() -> None:
            if view in self._views:
                self._views.remove(view)

        return detach

    def publish(self) -> None:
        """Notify every view of a change."""
        self._published_s = perf_counter()
        for view in list(self._views):
            view()

    @property
    def running(self) -> bool:
        """Whether it plays, by itself or with its twin."""
        return self.playing or (self.twin is not None and self.twin.playing)

    @property
    def fast_forward(self) -> bool:
        """Whether it plays as fast as it can."""
        return any(s.playing and s.fast for s in (self, self.twin) if s is not None)

    @contextmanager
    def silently(self) -> Iterator[None]:
        """Move the simulation without notifying the views."""
        before, self._silent = self._silent, True
        try:
            yield
        finally:
            self._silent = before

    def set_status(self, status: str, *, failed: bool = False) -> None:
        """Set the status that the next message carries."""
        self.status, self.failed = status, failed

    def _moved(self, stop: Stop) -> None:
        """Time was moved by a cell: show it."""
        if stop.why != "edit":
            self.hit = stop if stop.why == "breakpoint" else None
        if not self._silent:
            self.show(stop.text)

    def _moving(self) -> None:
        """A cell moves time; commands of views wait until it is done."""
        if not self._silent:
            self.blocked = True
            self.show("running in a cell: interrupt the kernel to pause")
            self.blocked = False

    def show(self, status: str, *, failed: bool = False) -> None:
        """Show a text as the status."""
        self.set_status(status, failed=failed)
        self.publish()

    # Looking -----------------------------------------------------------------

    def inspect(self, path: str, at_ps: float | None = None) -> dict[str, Any]:
        """Inspect an object at a view's cursor (``at_ps``; now where not given), as :meth:`at`."""
        return self.at(at_ps).inspect(path)

    def at(self, at_ps: float | None = None) -> Simulation:
        """Return the simulation at a view's cursor, to be looked at and never moved.

        The past is a private copy that records nothing, and that the next call moves.
        """
        sim = self.sim
        if at_ps is None or at_ps >= sim.now_ps:
            return sim
        if self._replica is None:
            self._replica = Replay(sim)
        self._replica.look(int(at_ps))
        past: Simulation = self._replica.sim
        return past

    def meanwhile(self, call: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Do something between the kernel's other work; false where no event loop runs."""
        if self._loop is None or not self._loop.is_running():
            return False
        self._tasks.add(task := self._loop.create_task(call()))
        task.add_done_callback(self._tasks.discard)
        return True

    # Commands ----------------------------------------------------------------

    def ask(self, command: str, **options: Any) -> None:
        """Take a command from any thread; it is applied by the owner between two slices.

        Parameters
        ----------
        command : str
            One of :data:`PLAYING`, or of :data:`.COMMANDS`.
        **options
            ``speed`` of ``set_speed`` (ps a second); else what the command takes (``commands.py``).

        Raises
        ------
        InputError
            There is no such command.
        """
        known = (*PLAYING, *COMMANDS)
        if command not in known:
            raise InputError(f"unknown command {command!r}", where="workbench", hint=near(command, known))
        self._queue.append((command, options))
        self.hand(self._drain)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something once, some time after the last request; without an event loop, now."""
        if self._loop is None or not self._loop.is_running():
            call()
            return
        before = self._timers.pop(call, None)
        if before:
            before.cancel()
        self._timers[call] = self._loop.call_later(seconds, call)

    def _drain(self) -> None:
        """Apply queued commands in order; never recursively."""
        if self._draining:
            return
        self._draining = True
        try:
            while self._queue:
                command, options = self._queue.popleft()
                self._apply(command, options)
        finally:
            self._draining = False

    def _apply(self, command: str, options: dict[str, Any]) -> None:
        if command == "set_speed":
            self.speed = min(_FASTEST, max(_SLOWEST, float(options["speed"])))
            self.publish()
        elif command == "play":
            self._play(fast=False)
        elif command in ("to_breakpoint", "to_end"):
            self._play(fast=True)
        elif command == "pause":
            self._halt()
            self.show(self._rest(options.get("at_ps")))
        elif options.pop("background", False) and command in ("goto", *_LONG & self.sim.counts.keys()):
            self._guarded(partial(self._far, command, options))
        else:
            outcome = self._guarded(partial(COMMANDS[command], self.sim, options))
            if not isinstance(outcome, str):  # it has moved time
                self._halt()
            if outcome is not None:
                self.show(outcome if isinstance(outcome, str) else outcome.text)

    def perform(self, command: str, options: dict[str, Any]) -> None:
        """Apply a command at once, in the owner's thread; what goes wrong is raised.

        Raises
        ------
        AstranbError
            The command was refused; nothing has changed.
        """
        with self.silently():
            outcome = COMMANDS[command](self.sim, options)
        if isinstance(outcome, Stop):  # it has moved time
            self._halt()
        self.show(outcome if isinstance(outcome, str) else outcome.text if outcome else "")

    def _rest(self, seen_ps: float | None) -> str:
        """Go back to what a view had shown when Pause was pressed; a change made since is kept.

        A large run stays where it is, because Pause would take seconds: the view shows the past then.
        """
        if seen_ps is None:
            return "paused"
        rest_ps = max([int(seen_ps), *(edit.at_ps for edit in self.sim.driver.edits[-1:])])
        if rest_ps >= self.sim.now_ps:
            return "paused"
        if self.sim.driver.work_back_to("now_ps", rest_ps) > _MOST_WORK:
            ahead = format_time(self.sim.now_ps - rest_ps)
            return f"paused: the run is {ahead} ahead of the view (going back takes long)"
        self._guarded(partial(self.sim.goto, rest_ps))
        return "paused"

    def _halt(self) -> None:
        """Play no longer, nor the twin."""
        self.playing = False
        if self.twin is not None:
            self.twin.playing = False

    def _far(self, command: str, options: dict[str, Any]) -> None:
        """Carry out what may take long in the background, so that Pause acts at once."""
        if command != "goto":
            count = self.sim.counts[command] + count_of(options)
            self._play(fast=True, unit=command, count=count)
            return
        when_ps = when_of(options)
        if when_ps >= self.sim.now_ps:
            self._play(fast=True, until_ps=when_ps)
        else:
            self._halt()
            self.show(self.sim.goto(when_ps).text)

    def _guarded(self, verb: Callable[[], _T]) -> _T | None:
        """Carry out a command; an error becomes the status."""
        self._silent = True
        try:
            with self._announced():
                return verb()
        except AstranbError as error:
            self.playing = False
            self.show(str(error), failed=True)
        except KeyboardInterrupt:
            self.playing = False
            self.show("interrupted between two events: the run can continue")
        except Exception as error:  # noqa: BLE001 - a breakpoint may be any function of the user's
            self.playing = False
            self.show(f"a breakpoint's function failed: {type(error).__name__}: {error}", failed=True)
        finally:
            self._silent = False
        return None

    @contextmanager
    def _announced(self) -> Iterator[None]:
        """Show what a command must wait for, as kernels that are compiled at first use."""
        status, failed = self.status, self.failed
        with heard(self.show):
            yield
        self.set_status(status, failed=failed)

    # Playing -----------------------------------------------------------------

    def _play(
        self, *, fast: bool, until_ps: int = _FOREVER, unit: str = "phase", count: int = _FOREVER
    ) -> None:
        """Start the task that plays; without an event loop there is nothing to play in, so run."""
        if self.sim.finished:
            self.playing = False
            self.show("nothing is left to happen: go back, or reset")
            return
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._halt()
        if self._loop is None or not self._loop.is_running():
            stop = self._guarded(partial(self.sim.advance, until_ps, _FOREVER, unit, count))
            if stop is not None:
                self.show(stop.text)
            return
        self.playing, self.fast = True, fast
        self.bounded = min(until_ps, count) < _FOREVER
        self.progress.start()
        self.show("running" if fast else "playing")
        self._task = self._loop.create_task(self._run(until_ps, unit, count))

    async def carry_out(self, slices: Iterator[Stop]) -> Stop | None:
        """Move time for somebody else, slice by slice: views follow as in fast-forward, and Pause ends it.

        Parameters
        ----------
        slices : iterator of Stop
            Each step moves the simulation for some ms.

        Returns
        -------
        Stop or None
            The last one.

        Raises
        ------
        AstranbError
            What a step came to; the views show it, too.
        """
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._halt()
        self.playing = self.fast = self.bounded = True
        self.progress.start()
        self.show("running")
        stop: Stop | None = None
        try:
            while self.playing:
                with self.silently():
                    following = next(slices, None)
                if following is None:
                    break
                stop = following
                if perf_counter() - self._published_s >= _FAST_PUBLISH_S:
                    self.publish()
                for _ in range(_ROUNDS):
                    await asyncio.sleep(0)
        except AstranbError as error:
            self.show(str(error), failed=True)
            raise
        finally:
            paused, self.playing = not self.playing, False
        if not paused:  # Pause has said why
            self.show("ready" if stop is None else stop.text)
        return stop

    async def _run(self, last_ps: int, unit: str, count: int) -> None:
        """Alternate slices with whatever else the kernel has to do."""
        sim = self.sim
        last_s, seen_ps, target_ps = perf_counter(), sim.now_ps, float(sim.now_ps)
        while self.playing:
            now_s = perf_counter()
            if sim.now_ps != seen_ps:  # a cell has moved it
                target_ps = float(sim.now_ps)
            target_ps += min(now_s - last_s, _LONGEST_FRAME_S) * self.speed
            last_s = now_s
            until_ps = last_ps if self.fast else int(min(target_ps, _FOREVER))
            stop = self._guarded(partial(sim.advance, max(until_ps, sim.now_ps), _SLICE, unit, count))
            if stop is None:
                return
            seen_ps = sim.now_ps
            if stop.why in ("end", "breakpoint", unit) or (self.fast and stop.why == "time"):
                self.playing = False
                self.show(stop.text)
                return
            if perf_counter() - self._published_s >= (_FAST_PUBLISH_S if self.fast else _PUBLISH_S):
                self.publish()
            if stop.why == "time":
                await asyncio.sleep(0.01)
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)


def _first_speed(sim: Simulation) -> float:
    """A run of operations is watched for some seconds at first, as far as its length can be guessed."""
    longest_ps = sim.engine.longest_ps if isinstance(sim.engine, OperationEngine) else 0
    return float(min(max(longest_ps / _WATCHED_S, _SPEED), _FASTEST_AT_FIRST))


def session_of(sim: Simulation) -> Session:
    """Return the session of a simulation, made on first use and kept as long as it."""
    kept: dict[str, Any] = sim.__dict__
    if "_session" not in kept:
        kept["_session"] = Session(sim)
    session: Session = kept["_session"]
    return session
