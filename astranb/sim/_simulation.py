"""``Simulation``: the only thing that moves time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from astranb.collectives import Collective, Joined, check
from astranb.core.errors import AstranbError, Deadlock, InputError, near
from astranb.core.units import format_bytes, format_time, time_ps
from astranb.engine.cacheline._assumptions import presets_of
from astranb.engine.cacheline._build import Plan, build, lower_for
from astranb.engine.cacheline._dead import explain_stranded
from astranb.engine.cacheline._edits import Edit
from astranb.engine.cacheline._hash import state_hash
from astranb.engine.cacheline._inspect import Inspector
from astranb.engine.cacheline._machine import Machine
from astranb.engine.cacheline._recorder import Recorder
from astranb.engine.cacheline.workload import Graph
from astranb.gpu import Preset
from astranb.gpu.tables import EVENT_KINDS
from astranb.infragraph import Infra, resolve
from astranb.net import Fabric, Network, compile_fabric

from . import _breakpoints as breakpoints
from ._breakpoints import Breakpoint, reason
from ._changing import Changing
from ._driver import FOREVER, SLICE, Driver
from ._explain import Explained
from ._history import History
from ._looking import Looking
from ._measuring import Measuring
from ._result import Result
from ._stop import Stop
from ._stopping import Stopped
from ._watch import Watch, Watching

__all__ = ["Simulation"]

_CHECKPOINT_BYTES = 2**30
_UNITS = {"event": "events", "cycle": "instants", "instruction": "instructions", "phase": "phases"}
_FIDELITIES = ("cacheline",)


class Simulation(Changing, Watching, Looking, Explained, Measuring, Stopped):
    """One collective on one infrastructure, stopped between two events until told to go on.

    Parameters
    ----------
    infra : Infra or str or Path
        An infrastructure, the path of an InfraGraph document, or a blueprint's name.
    collective : Collective or Graph
        What runs, as :func:`astranb.collectives.all_reduce` makes it, or a whole workload
        (:class:`astranb.engine.cacheline.workload.Graph`).
    gpu : str or Path or Preset, optional
        The kind of GPU; where not given, what the infrastructure says or its name suggests.
    fidelity : str
        ``"cacheline"``: every line of every load and store.
    network : Network, optional
        How messages share the fabric: arbitration, buffers, switching, multipath, faults.
    launch : str
        What it costs to start a kernel: ``"none"``, ``"graph"`` or ``"stream"``.
    record : bool
        Whether line flights and activity are noted for views.
    checkpoint_bytes : int
        Most memory for going back.
    memory_bytes : int, optional
        Most memory for the machine; four fifths of what is free where not given.

    Raises
    ------
    InputError
        Anything of the above cannot be used, or would not fit in memory.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> sim.step(1000).events
    1000
    >>> before = sim.state_hash()
    >>> sim.step(400).events, sim.back(400).events
    (1400, 1000)
    >>> sim.state_hash() == before
    True
    """

    def __init__(
        self,
        infra: Infra | str | Path,
        collective: Collective | Graph,
        *,
        gpu: str | Path | Preset | None = None,
        fidelity: str = "cacheline",
        network: Network | None = None,
        launch: str = "none",
        record: bool = True,
        checkpoint_bytes: int = _CHECKPOINT_BYTES,
        memory_bytes: int | None = None,
    ) -> None:
        if fidelity not in _FIDELITIES:
            raise InputError(
                f"fidelity {fidelity!r} is not available for collectives on an infrastructure",
                where="fidelity",
                hint=near(fidelity, _FIDELITIES),
            )
        if not isinstance(collective, Collective | Graph):
            raise InputError(
                f"not a collective: {collective!r}",
                hint="make one with astranb.collectives.all_reduce(size) or a sibling",
            )
        self.infra = infra if isinstance(infra, Infra) else resolve(str(infra))
        self.collective = collective
        self.fabric: Fabric = compile_fabric(self.infra.expand())
        self.network = network or Network()
        self.launch = launch
        self.chosen, notes = presets_of(self.infra, self.fabric, gpu)
        self._build(notes, record, checkpoint_bytes, memory_bytes)

    def _build(self, notes: list[str], record: bool, checkpoint_bytes: int, memory_bytes: int | None) -> None:
        """Lay out a machine of what was chosen, at its start."""
        self.presets, self.program = lower_for(
            self.collective, self.chosen, self.fabric, self.network.coalesce, self.launch
        )
        plan = Plan(self.fabric, self.presets, self.program, self.network, self.launch)
        self.machine: Machine
        self.machine, more = build(plan, record=record, memory_bytes=memory_bytes)
        self.assumed: list[str] = [*self.fabric.assumed, *notes, *more]
        self._start(History(checkpoint_bytes), [])

    def _start(self, history: History, edits: list[Edit]) -> None:
        self._driver = Driver(self.machine, history, edits)
        self._points = []
        self.notes: dict[str, Any] = {}  # what views keep with a saved simulation
        self._listeners = []
        self._watches: list[Watch] = []
        self._beat_s = 0.0
        self.recorder = Recorder(self.machine, self.fabric, self.program)
        self._inspector = Inspector(self)

    # What is now -------------------------------------------------------------

    @property
    def event_kinds(self) -> tuple[str, ...]:
        """What :meth:`break_on` can stop on."""
        return EVENT_KINDS

    @property
    def now_ps(self) -> int:
        """Time of the event handled last."""
        return max(0, int(self.machine.clock[0].now_ps))

    @property
    def events(self) -> int:
        """Events handled so far."""
        return int(self.machine.clock[0].events)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to happen."""
        return int(self.machine.clock[0].queued) == 0

    @property
    def result(self) -> Result:
        """Times, bandwidths and where the time went, up to now."""
        return Result(self)

    def state_hash(self) -> str:
        """Hash everything simulated (32 hex digits); recording is no part of it."""
        return state_hash(self.machine)

    def inspect(self, path: str) -> dict[str, Any]:
        """Look at an object: its state now, what is in flight, its parts.

        Parameters
        ----------
        path : str
            As ``gpu[3]``, ``dgx.0.xpu.3.sm.0``, ``A->B#1`` or a switch.
        """
        return self._inspector.inspect(path)

    def narrate(self) -> str:
        """Say in one line what happened last."""
        return self._inspector.narrate()

    # The verbs ---------------------------------------------------------------

    def step(self, n: int = 1, unit: str = "event") -> Stop:
        """Go on by n events, cycles, instructions or phases.

        Parameters
        ----------
        n : int
            How many, at least 0.
        unit : str
            ``"event"``: one handled event; ``"cycle"``: all events of the next instant at
            which something happens; ``"instruction"``: one GPU instruction issued;
            ``"phase"``: up to the end of a phase of the collective.

        Returns
        -------
        Stop
            Earlier only at the end or at a breakpoint.

        Raises
        ------
        Deadlock, WrongResult
            The system waits for itself; the collective ended wrongly.
        """
        field = _counter(n, unit)
        if n == 0:
            return self._stop("steps")
        target = int(self.machine.clock[0][field]) + n
        if unit == "cycle" and self._driver.next_ps == int(self.machine.clock[0].now_ps):
            target -= 1
        return self._go(**{f"max_{field}": target})

    def run(self, until: int | str | None = None) -> Stop:
        """Go on to the end, to a breakpoint, or through everything up to a time.

        Parameters
        ----------
        until : int or str, optional
            Picoseconds, or text as ``"5 us"``.
        """
        return self._go(until_ps=FOREVER if until is None else time_ps(until, where="until"))

    def advance(self, until_ps: int = FOREVER, max_events: int = SLICE, max_phases: int = FOREVER) -> Stop:
        """Go on by one short slice: for a view that plays and must stay responsive."""
        return self._go(until_ps=until_ps, max_events=self.events + max_events, max_phases=max_phases)

    def back(self, n: int = 1, unit: str = "event") -> Stop:
        """Go back by n events, cycles, instructions or phases, exactly.

        The nearest checkpoint before is restored and the way from there replayed; edits
        made after the moment one goes back to are undone.
        """
        field = _counter(n, unit)
        return self._return_to(field, max(0, int(self.machine.clock[0][field]) - n))

    def goto(self, when: int | str) -> Stop:
        """Go to the moment at which everything up to a time has happened, forwards or back."""
        when_ps = time_ps(when, where="goto")
        return self._go(until_ps=when_ps) if when_ps >= self.now_ps else self._return_to("now_ps", when_ps)

    def fork(self, *, record: bool = True) -> Simulation:
        """An independent simulation with the same past, and from now on a future of its own.

        Parameters
        ----------
        record : bool
            Whether the fork keeps and goes on with the recording.
        """
        other = object.__new__(Simulation)
        for name in ("infra", "collective", "fabric", "chosen", "presets", "program", "network", "launch"):
            setattr(other, name, getattr(self, name))
        other.assumed = list(self.assumed)
        other.machine = self.machine.copy(record=record)
        other._start(self._driver.history.copy(), list(self._driver.edits))
        other.recorder.most, other.recorder.most_bursts = self.recorder.most, self.recorder.most_bursts
        return other

    def apart(self) -> Simulation:
        """A copy to look at the past in: it records nothing, and what was recorded is about its past, too."""
        copy = self.fork(record=False)
        copy.recorder = self.recorder
        return copy

    def save(self, path: str | Path) -> None:
        """Write inputs, edits and state to a file: atomically, without pickle."""
        from ._store import save

        save(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Simulation:
        """Read a saved simulation; it continues to the same hash.

        Raises
        ------
        InputError
            The file is not a saved simulation, or of another version.
        """
        from ._store import load

        return load(Path(path), lambda: object.__new__(Simulation))

    # Breakpoints -------------------------------------------------------------

    def break_on(self, kind: str | None = None, object: str | None = None) -> Breakpoint:  # noqa: A002 - the public word
        """Stop after an event of a kind (``hop``, ``hbm``, ...), of an object, or both."""
        return self._add(breakpoints.on_event(kind, object, self.fabric, self.machine))

    def break_when(self, condition: str | Callable[[Simulation], bool]) -> Breakpoint:
        """Stop when a condition begins to hold, as ``"gpu[3].sm.0.waiting > 0"``.

        A callable is asked after every single event: that is slow (some 100,000 events a
        second), a text is compiled.
        """
        if callable(condition):
            return self._add(breakpoints.called(condition))
        return self._add(breakpoints.condition(condition, self.fabric, self.machine))

    def _install(self, points: Sequence[Breakpoint]) -> None:
        breakpoints.install(list(points), self.machine)

    def _beat(self) -> None:
        self._sample()
        super()._beat()

    # Moving time -------------------------------------------------------------

    def _go(self, **limits: int) -> Stop:
        """Every verb that goes forward ends here."""
        self._beat_s = perf_counter()
        points = [p for p in self._points if p.enabled]
        why, point = self._driver.forward(self, points, self._beat, **limits)
        if why == "deadlock" or (self.finished and self.machine.clock[0].done < len(self.machine.blocks)):
            from astranb.engine.cacheline._deadlock import explain_deadlock

            raise Deadlock(explain_deadlock(self.machine, self.program, self.fabric))
        if why == "stranded":
            raise Deadlock(explain_stranded(self.machine, self.program.name, self.fabric, self._killed()))
        if why == "exhausted":
            raise AstranbError(f"a run of {self.events:,} events: no more can be counted, make it smaller")
        if self.finished:
            self._check()
        words = {"time": "time", "phases": "phase", "end": "end", "breakpoint": "breakpoint"}
        return self._stop(words.get(why, "steps"), point)

    def _return_to(self, field: str, target: int) -> Stop:
        self.recorder.mark()
        self._driver.back_to(field, target)
        return self._stop("back")

    def _check(self) -> None:
        tables = (self.machine.ops, self.machine.operands, self.machine.pieces)
        if isinstance(self.program, Joined):
            self.program.check(*tables)
            return
        check(self.program, self.collective.name, self.collective.root, *tables)

    def _stop(self, why: str, point: Breakpoint | None = None) -> Stop:
        self._sample()
        where, because = reason(point, self) if point else ("", "")
        return self._told(Stop(why, self.now_ps, self.events, where, point, because))

    def __repr__(self) -> str:
        """One line: what runs on what, and where it stands."""
        return (
            f"<Simulation {self.collective.title} {format_bytes(self.collective.size)} on {self.infra.name}: "
            f"{len(self.fabric.gpus)} GPUs, at {format_time(self.now_ps)}, {self.events:,} events"
            f"{', finished' if self.finished else ''}>"
        )


def _counter(n: int, unit: str) -> str:
    if unit not in _UNITS:
        raise InputError(f"unknown unit {unit!r}", where="unit", hint=near(unit, _UNITS))
    if not isinstance(n, int) or n < 0:
        raise InputError(f"the number of steps must be a whole number and not negative, got {n!r}", where="n")
    return _UNITS[unit]
