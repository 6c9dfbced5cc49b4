"""``Simulation``: the only thing that moves time, whatever runs at whatever fidelity."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

from astranb.core.display import Displayed
from astranb.core.errors import Deadlock, InputError, near
from astranb.core.keywords import hinted
from astranb.core.plugins import recorded
from astranb.core.plural import plural
from astranb.core.progress import bar
from astranb.core.units import format_time, time_ps
from astranb.engine import (
    BACK,
    BREAK,
    ENDED,
    REACHED,
    RECORD,
    REROUTE,
    TIME,
    Breakpoint,
    Change,
    Parameter,
    WhatIf,
    Why,
    at_time,
    called,
    complete,
    last_of_each,
    left_of,
)
from astranb.infragraph import is_several
from astranb.net import Network

from . import variants
from .driver import FOREVER, Driver
from .engines import open_engine, read_files
from .history import History
from .result import Result
from .stop import Stop
from .switches import check_room, switched, unrecorded
from .view import ObjectView
from .watch import Watch

if TYPE_CHECKING:
    import pandas as pd

    from astranb.collectives import ProgramSource
    from astranb.core.jit import Records
    from astranb.engine import CriticalPath, Engine
    from astranb.engine.cacheline import Aggregate, CacheLineEngine, Contributions
    from astranb.gpu import GpuChoice
    from astranb.workload.jobs import ClusterJob, Start

    from .position import Position
    from .recipe import Saved

__all__ = ["CHECKPOINT_BYTES", "Simulation"]

CHECKPOINT_BYTES = 2**30
"""Most memory for going back, where nothing else is given."""

_ALGORITHMS = ", astranb.algorithms "  # in the text of a plug-in
_BEAT_S = 0.5
_PERCENT = 100
_STOPS = {TIME: "time", BREAK: "breakpoint", ENDED: "end"}
_T = TypeVar("_T")


_GUESSED: Final = {
    **dict.fromkeys(("draw", "plot", "show", "topology"), "write anb.Workbench(sim)"),
    **dict.fromkeys(("clone", "copy"), "write fork()"),
    **dict.fromkeys(("forward", "next"), "write step()"),
    **dict.fromkeys(("gpu", "gpus"), "write at('gpu[3]')"),
    "hash": "write state_hash()",
    "links": "write sim.result.to_dataframe('links')",
    "play": "write run(), or press Play in anb.Workbench(sim)",
    "restart": "write reset()",
    "time": "write now_us",
}
"""Hints for attributes that people guess."""
_OF_A_LINK: Final = {
    name: f"the property is part of the path: 'gpu[0]->gpu[1].{name}'"
    for name in ("bandwidth", "latency", "up")
}


class Simulation(Displayed):
    """A run on a machine, stopped between two events until a verb moves it.

    Parameters
    ----------
    infra : Infra or str or Path or Network
        An infrastructure, the path of an InfraGraph document, or a blueprint's name; for ASTRA-sim's
        workloads also a network of dimensions. A workload that has its own network may stand here alone:
        ``Simulation(workload)``.
    what : Collective or workload
        What runs: a collective, as :func:`astranb.collectives.all_reduce` makes it, a model with its plan,
        or operations of ranks (:mod:`astranb.workload`).
    jobs : sequence of Job, optional
        Instead of ``what``: several jobs that share the infrastructure, each on GPUs of its own.
    fidelity : str, optional
        ``"cacheline"``: every line of every load and store. ``"congestion"``: whole messages that wait
        for one another on links. ``"analytical"``: whole messages that do not wait. Where not given,
        by cache lines for a collective, analytical for a workload.
    gpu : str or Path or Preset or mapping, optional
        The kind of GPU; where not given, what the infrastructure says or its name suggests. Numbers of that
        one are given as ``{"unroll": 8}``, of another one as ``{"preset": "h200-sxm", "unroll": 8}``.
    network : Network, optional
        By cache lines, how messages share the fabric: arbitration, buffers, switching, multipath, faults.
    launch : str
        What it costs to start a kernel: ``"none"``, ``"graph"``, ``"stream"``, a time, or both
        (``"stream + 6.6 us"``).
    start : mapping or sequence, optional
        How late ranks start: ``{3: "20 us"}``, or a time for every rank. Explanations call what passes
        until then ``started late``.
    cost : str, optional
        By messages over an infrastructure of GPUs, what collectives cost: ``"wire"``, bare messages by the
        algorithm given, ``"library"``, what the GPUs' library runs, with the time of its software, or
        ``"graph"``, the same in a graph, whose launch is shorter.
    unchecked : bool
        Whether a collective whose result is wrong ends with its time: by default that is an error.
    record : bool
        Whether what views show is recorded. What is simulated does not depend on it.
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

    @hinted(
        "Simulation",
        {
            "down": "take an infrastructure without the link: infra.without('gpu[0]->gpu[1]')",
            "gpus": "give the infrastructure its number: 'ring:gpus=8'",
            "size": "give the size to the collective: anb.all_reduce('1 MiB')",
            "algorithm": "give the algorithm to the collective: anb.all_reduce('1 MiB', 'ring')",
        },
    )
    def __init__(
        self,
        infra: Any = None,
        what: Any = None,
        *,
        jobs: Sequence[ClusterJob] | None = None,
        fidelity: str | None = None,
        gpu: GpuChoice | None = None,
        network: Network | None = None,
        launch: str = "none",
        start: Start | None = None,
        cost: str | None = None,
        unchecked: bool = False,
        record: bool = True,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        memory_bytes: int | None = None,
    ) -> None:
        if what is None and jobs is None and hasattr(infra, "subject"):
            infra, what = None, infra
        if jobs is not None:
            if what is not None:
                raise InputError("jobs and something else to run", where="jobs", hint="leave one of them out")
            from astranb.workload.jobs import Jobs

            what = Jobs(jobs)
        options: dict[str, Any] = {
            "gpu": gpu, "network": network, "launch": launch, "start": start, "cost": cost,
            "unchecked": unchecked, "memory_bytes": memory_bytes,
        }  # fmt: skip
        with recorded() as used:
            engine = open_engine(infra, what, fidelity, record=record, **options)

        def opened_alone(job: str) -> Engine:
            return open_engine(infra, what.only(job), engine.fidelity, record=False, **options)

        driver = Driver(engine, History(checkpoint_bytes), tuple(map(str, used)))
        self._start(driver, opened_alone if hasattr(what, "only") else None)

    @classmethod
    def of_files(
        cls,
        workload: str | Path,
        system: str | Path,
        network: Any,
        *,
        fidelity: str | None = None,
        record: bool = True,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        **options: Any,
    ) -> Simulation:
        """Take ASTRA-sim 2.0's or 1.0's files, unmodified.

        Parameters
        ----------
        workload, system, network : str or Path
            2.0's traces by what their names have before ``.RANK.et``, ``system.json``, ``network.yml`` (or
            an infrastructure); or 1.0's layer table, the system's text and the network's JSON, recognised
            by their content.
        fidelity, record, checkpoint_bytes
            As for the class.
        **options
            Those of :func:`astranb.workload.astrasim2.load`: ``memory``, ``groups``, ``compat``, ...; of
            1.0's files those of :func:`astranb.workload.astrasim1.load`: ``passes``, ``compat``,
            ``comm_scale``, ...

        Raises
        ------
        InputError
            A file cannot be read or used; the text names it, the place and a remedy.
        """
        what = read_files(workload, system, network, **options)
        return cls(None, what, fidelity=fidelity, record=record, checkpoint_bytes=checkpoint_bytes)

    @classmethod
    def _of(cls, driver: Driver, opened_alone: Callable[[str], Engine] | None = None) -> Simulation:
        sim = object.__new__(cls)
        sim._start(driver, opened_alone)
        return sim

    def _start(self, driver: Driver, opened_alone: Callable[[str], Engine] | None = None) -> None:
        self.driver = driver
        self._opened_alone = opened_alone
        self.notes: dict[str, Any] = {}  # what views keep with a saved simulation
        self._points: list[Breakpoint] = []
        self._watches: list[Watch] = []
        self._listeners: list[tuple[Callable[[Stop], None], Callable[[], None]]] = []
        self._beat_s = 0.0
        self._path: tuple[Any, CriticalPath] | None = None

    # What is now -------------------------------------------------------------

    @property
    def engine(self) -> Any:
        """The engine, to look at; its ``machine`` is tables."""
        return self.driver.engine

    @property
    def fidelity(self) -> str:
        """``"analytical"``, ``"congestion"`` or ``"cacheline"``."""
        return self.driver.engine.fidelity

    @property
    def title(self) -> str:
        """Title of the run."""
        return self.driver.engine.title

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plug-ins that the run was made with: distribution, version, kind and name of each."""
        return self.driver.plugins

    @property
    def event_kinds(self) -> Collection[str]:
        """Kinds of events that :meth:`break_on` accepts."""
        return self.driver.engine.traits.event_kinds

    @property
    def now_ps(self) -> int:
        """Time of the last event."""
        return self.driver.engine.now_ps

    @property
    def now_ns(self) -> float:
        """:attr:`now_ps` in nanoseconds."""
        return self.now_ps / 1e3

    @property
    def now_us(self) -> float:
        """:attr:`now_ps` in microseconds."""
        return self.now_ps / 1e6

    @property
    def now_ms(self) -> float:
        """:attr:`now_ps` in milliseconds."""
        return self.now_ps / 1e9

    @property
    def next_ps(self) -> int | None:
        """Time of the next event; None where there is none."""
        following = self.driver.engine.next_ps
        return following if following >= 0 else None

    @property
    def events(self) -> int:
        """Events handled so far."""
        return self.driver.events

    @property
    def counts(self) -> dict[str, int]:
        """Count of each unit of steps so far: ``{"event": …, "phase": …}``."""
        engine = self.driver.engine
        return {unit: engine.count(field) for unit, field in engine.traits.units.items()}

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.driver.engine.ranks

    @property
    def recording(self) -> bool:
        """Whether what views show is recorded."""
        return self.driver.engine.recording

    @property
    def finished(self) -> bool:
        """Whether nothing is left to happen."""
        return self.driver.engine.next_ps < 0

    @property
    def result(self) -> Result:
        """Times, bandwidths and where the time went, up to now."""
        return Result(self.driver.engine, self.critical_path, self._job_alone)

    def _job_alone(self, job: str) -> int:
        """Run one of several jobs without the others; returns how long it takes, in ps."""
        if self._opened_alone is None:
            hint = "make the simulation with Simulation(infra, jobs=[...])"
            raise InputError("the jobs of a saved simulation cannot be run alone", where="jobs", hint=hint)
        other = self._of(Driver(self._opened_alone(job), History(0)))
        other.run()
        return next(int(row["duration_ps"]) for row in other.result.table("jobs") if row["job"] == job)

    def state_hash(self) -> str:
        """Hash everything simulated (32 hex digits); the recording is no part of it."""
        return self.driver.engine.digest()

    def inspect(self, path: str) -> dict[str, Any]:
        """Look at an object: its state now, what is in flight, its parts.

        Parameters
        ----------
        path : str
            By cache lines ``gpu[3]``, ``dgx.0.xpu.3.sm.0``, ``A->B#1`` or a switch; by messages
            ``rank[3]``, ``rank[3].op[5]`` (or an operation's name), ``rank[3].dim[0]``, ``dim[0]`` or a
            link: ``A->B``, or ``link[7]`` of a network of dimensions; of layer tables also ``layer[NAME]``.
        """
        return self.driver.engine.inspect(path)

    def at(self, path: str) -> ObjectView:
        """An object as it is now, to go on with in Python.

        Parameters
        ----------
        path : str
            As for :meth:`inspect`.

        Returns
        -------
        ObjectView
            Its ``state`` holds numbers, with units in their names.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> sim.at("gpu[3]").state["max_outstanding"] > 0
        True
        """
        return ObjectView(self.driver.engine, path)

    def narrate(self) -> str:
        """Describe the last event in one line."""
        return self.driver.engine.last_event().text

    def _elsewhere(self, name: str) -> str:
        return f"write sim.result.{name}" if hasattr(Result, name) else _GUESSED.get(name, "")

    def __str__(self) -> str:
        """One line: what runs on what, time and events."""
        ended = ", finished" if self.finished else ""
        what = self.driver.engine.headline().what
        return f"{what}: at {format_time(self.now_ps)}, {plural(self.events, 'event')}{ended}"

    def __repr__(self) -> str:
        """The same, with its class."""
        return f"<Simulation {self}>"

    # Moving time -------------------------------------------------------------

    @hinted("step", {"kind": "write step(1, 'line') or step('line')", "until": "write run('5 us')"})
    def step(self, n: int | str = 1, unit: str = "event") -> Stop:
        """Go on by n events, cycles, phases, or other units of the engine.

        Parameters
        ----------
        n : int or str
            How many, at least 0; a unit alone is one of it: ``step("phase")``.
        unit : str
            ``"event"``: one handled event; ``"cycle"``: all events of the next timestep at which
            something happens; ``"phase"``: up to the end of a phase of a collective (by messages, of
            one of its chunks). By cache lines also ``"instruction"``: one GPU instruction issued;
            ``"hop"``: a request enters a link; ``"line"``: data arrive at another GPU's memory, or come
            back from it; ``"message"``: a move of data between GPUs has taken effect. By messages also
            ``"operation"``: up to the end of an operation of any rank, and ``"message"``: up to a
            message's arrival; of ASTRA-sim 1.0's files ``"operation"`` and ``"pass"``: up to the end
            of a pass of the training loop.

        Returns
        -------
        Stop
            Earlier only at the end or at a breakpoint.

        Raises
        ------
        Deadlock, WrongResult
            The system waits for itself; the collective ended wrongly.
        """
        n, unit, field = self._counted(n, unit)
        if n == 0:
            return self._stop("steps")
        target = self.driver.engine.count(field) + n
        if unit == "cycle" and self.driver.next_ps == self.driver.engine.count("now_ps"):
            target -= 1
        return self._go("steps" if unit in ("event", "cycle") else unit, **{field: target})

    def run(self, until: int | str | None = None) -> Stop:
        """Go on to the end, to a breakpoint, or through everything up to a time.

        Parameters
        ----------
        until : int or str, optional
            Picoseconds, or text as ``"5 us"``.
        """
        return self._go(until_ps=FOREVER if until is None else time_ps(until, where="until"))

    def advance(
        self,
        until_ps: int = FOREVER,
        max_events: int | None = None,
        unit: str = "phase",
        count: int = FOREVER,
    ) -> Stop:
        """Go on by one short slice: for a view that plays and must stay responsive.

        It stops early where a count of :attr:`counts` is reached, with ``unit`` as the reason.
        """
        most = self.driver.engine.traits.slice_events if max_events is None else max_events
        field = self.driver.engine.traits.units[unit]
        return self._go(unit, until_ps=until_ps, events=self.events + most, **{field: count})

    def back(self, n: int | str = 1, unit: str = "event") -> Stop:
        """Go back by n units of :meth:`step`, exactly.

        The nearest checkpoint before is restored and the run replayed from there; edits
        made after the moment one goes back to are undone.
        """
        n, unit, field = self._counted(n, unit)
        if n == 0:
            return self._stop("back")
        target = self.driver.engine.count(field) - n
        return self._return_to(*(("events", 0) if target < 0 else (field, target)))

    def goto(self, when: int | str) -> Stop:
        """Go to the moment at which everything up to a time has happened, forwards or back."""
        when_ps = time_ps(when, where="goto")
        return self._go(until_ps=when_ps) if when_ps >= self.now_ps else self._return_to("now_ps", when_ps)

    def reset(self, *, keep: bool = False) -> Stop:
        """Go back to the start; breakpoints and watches stay.

        Parameters
        ----------
        keep : bool
            Whether what was changed stays changed, from the start on (the last value of each
            parameter: a Reset of a view keeps its parameters). Otherwise edits made after the
            start are undone; those made at the start are a part of it.
        """
        if not keep:
            return self._return_to("events", 0)
        last = last_of_each(self.driver.edits)

        def restart() -> None:
            self.driver.restart()
            for edit in last:
                self.driver.edit(dataclasses.replace(edit, events=0, at_ps=0))

        return self._rewound(restart)

    def _go(self, reached: str = "steps", **limits: int) -> Stop:
        """Every verb that goes forward ends here."""
        self._beat_s = perf_counter()
        points = [p for p in self._points if p.enabled]
        why, point = self.driver.forward(points, self._beat, self, **limits)
        self.driver.engine.stopped(why)
        return self._stop(reached if why == REACHED else _STOPS.get(why, "steps"), point)

    def _rewound(self, move: Callable[[], None]) -> Stop:
        """Every verb that goes back ends here."""
        move()
        self.driver.engine.stopped(BACK)
        return self._stop("back")

    def _return_to(self, field: str, target: int) -> Stop:
        return self._rewound(lambda: self.driver.back_to(field, target))

    def _stop(self, why: str, point: Breakpoint | None = None) -> Stop:
        """Report the stop to the caller and to the listeners."""
        because, where, _ = ("", "", None) if point is None else self.driver.engine.last_event(point)
        self._sample()
        phase = self.driver.engine.last_event().phase[0] if why == "phase" else ""
        stop = Stop(why, self.now_ps, self.events, where, point, because, phase)
        for moved, _ in list(self._listeners):
            moved(stop)
        return stop

    def _counted(self, n: int | str, unit: str) -> tuple[int, str, str]:
        """Return how many steps of which unit are meant, and the count that the unit is of."""
        if isinstance(n, str):
            if unit != "event":
                raise InputError(
                    f"two units: {n!r:.40} and {unit!r:.40}", where="unit", hint="write step(1, unit)"
                )
            unit, n = n, 1
        units = self.driver.engine.traits.units
        if unit not in units:
            hint = f"this run counts {', '.join(units)}"
            if (meant := near(unit, units)).startswith("did"):
                hint = f"{meant} {hint}"
            raise InputError(f"unknown unit {unit!r:.40}", where="unit", hint=hint)
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            what = f"the number of steps must be a whole number and not negative, got {n!r}"
            raise InputError(what, where="n")
        return n, unit, units[unit]

    # Copies and files --------------------------------------------------------

    def fork(self, *, record: bool = True) -> Simulation:
        """An independent simulation with the same past, and from now on a future of its own.

        Parameters
        ----------
        record : bool
            Whether the fork keeps and goes on with the recording.
        """
        return self._of(self.driver.copy(record=record), self._opened_alone)

    def replica(self) -> Simulation:
        """A copy to look at the past in: it records nothing, and shows what this one has recorded."""
        driver = Driver(
            self.driver.engine.copy(record=False, show=True), self.driver.history.copy(), self.plugins
        )
        return self._of(driver, self._opened_alone)

    def fork_with(self, changes: Mapping[str, Any]) -> Simulation:
        """Return another simulation with changed :meth:`parameters` of the run and of objects.

        Where only objects are changed it has the same past as this one; else it is at its start.

        Parameters
        ----------
        changes : mapping of str to value
            As ``{"algorithm": "ring", "gpu.sms": 64}``, ``{"A->B.bandwidth": "1 GB/s"}`` or
            ``{"rank[3].speed": 0.5}``.
        """
        named = {p.path for p in self.parameters()}
        whole = {path: value for path, value in changes.items() if "." not in path or path in named}
        unknown = sorted(set(whole) - named)
        if unknown:
            raise InputError(f"{unknown[0]!r} cannot be changed", where="fork", hint=near(unknown[0], named))
        other = self.rebuilt(**variants.options(whole)) if whole else self.fork()
        for path, value in changes.items():
            if path not in whole:
                other.set(path, value)
        return other

    def rebuilt(self, *, keep: bool = True, **changes: Any) -> Simulation:
        """A new simulation at its start, like this one but for what is changed.

        Parameters
        ----------
        keep : bool
            Whether what :meth:`set` has changed holds there from the start.
        **changes
            Of a collective by cache lines: ``collective``, or ``algorithm``, ``size``, ``protocol``,
            ``channels`` and ``params`` of the present one; ``gpu`` (another kind of GPU, or numbers of
            the present one: ``{"sms": 64}``); ``network`` (other options, or some of them:
            ``{"arbitration": "fair"}``); ``launch``; ``start``.

        Raises
        ------
        InputError
            Something cannot be changed, or does not fit together.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> other = sim.rebuilt(algorithm="allpairs", gpu={"unroll": 8})
        >>> other.title, other.events
        ('all_reduce/allpairs, 8 KiB, on dgx_h100-infra', 0)
        """
        with recorded() as used:
            engine = variants.rebuilt(self._by_cache_lines("rebuilt"), **changes)
        # Formats and presets are not read again; the plug-in of an algorithm is, where that is lowered again.
        kept = [one for one in self.plugins if engine.given is not None or _ALGORITHMS not in one]
        plugins = tuple(dict.fromkeys((*kept, *map(str, used))))
        other = self._of(Driver(engine, History(self.driver.history.budget_bytes), plugins))
        if keep:
            for edit in last_of_each(self.driver.edits):
                if edit.path != RECORD:
                    other.set(edit.path, edit.value)
                elif engine.recording:
                    other.record(not edit.number)
        return other

    def save(self, path: str | Path) -> None:
        """Write inputs, edits and position to a file, whole or not at all.

        The file holds no state and no code: whoever loads it simulates up to the same moment, and compares
        the hash. Of a run that takes long to simulate, the state is kept in this user's cache as well, so
        that loading it here takes no time.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        InputError
            It cannot be written there, or the inputs hold something that no file can.
        """
        from .recipe import save

        save(self._saved(), Path(path))

    def recipe(self) -> bytes:
        """Return the contents of the file that :meth:`save` writes.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> sim.step(1000).events
        1000
        >>> again = anb.Simulation.of_saved_bytes(sim.recipe())
        >>> again.events, again.state_hash() == sim.state_hash()
        (1000, True)
        """
        from .recipe import recipe_of

        return recipe_of(self._saved())

    def _saved(self) -> Saved:
        from .recipe import Saved

        watches = [watch.text for watch in self._watches if watch.field]
        return Saved(self.driver, self._points, watches, self.notes)

    @classmethod
    def of_saved_bytes(cls, data: bytes, where: str = "a file", *, unequal: bool = False) -> Simulation:
        """Open the contents of a file of :meth:`save`; ``where`` is what errors call it.

        Raises
        ------
        InputError
            As for :meth:`load`.
        """
        from .recipe import open_recipe

        return cls._of_saved(open_recipe(data, where, unequal=unequal), unequal=unequal)

    @classmethod
    def load(cls, path: str | Path, *, unequal: bool = False) -> Simulation:
        """Open a saved simulation: simulate up to the moment at which it was saved, and compare the hash.

        Parameters
        ----------
        path : str or Path
        unequal : bool
            Whether a run that does not reach the saved state is opened all the same, as far as it got: one
            of another version of astranb, for example.

        Raises
        ------
        InputError
            The file is not a saved simulation, or this version does not reach the saved state; the text
            says which version saved it, and which input differs.
        """
        from .recipe import open_recipe

        return cls._of_saved(open_recipe(Path(path), str(path), unequal=unequal), unequal=unequal)

    @classmethod
    def _of_saved(cls, opened: Saved, *, unequal: bool) -> Simulation:
        sim = cls._of(opened.driver)
        sim._points = list(opened.points)  # noqa: SLF001 - its own class
        for text in opened.watches:
            with suppress(*((InputError,) if unequal else ())):
                sim.watch(text)
        sim.notes = opened.notes
        return sim

    def position(self) -> dict[str, Any]:
        """Return the position for JSON: edits, events, breakpoints, watches, and the hash of the state.

        Whoever has the same run goes there with :meth:`enter`.
        """
        from .position import position_of

        return position_of(self.driver, self._points, [watch.text for watch in self._watches if watch.field])

    def enter(self, position: Position) -> Stop:
        """Go to a position of this run, from its start on; breakpoints and watches become those of it.

        Raises
        ------
        InputError
            The run ends before, a change is not possible there, or the state is another one. The run stays
            where it has come to.
        """
        from .position import go, points_of

        self.clear()
        self.unwatch()
        try:
            go(self.driver, position)
        finally:
            self.driver.engine.stopped(BACK)
        self._points = points_of(self.driver, position.breakpoints)
        for text in position.watches:
            self.watch(text)
        return self._stop("back")

    def start_hash(self) -> str:
        """Hash the start of the run, before every change: runs with the same one go on alike."""
        from .position import start_hash

        return start_hash(self.driver)

    # Changing ----------------------------------------------------------------

    @hinted("set", _OF_A_LINK)
    def set(self, path: str, value: float | str | bool) -> None:
        """Change something for what has not started yet; ``back`` past now undoes it.

        Parameters
        ----------
        path : str
            What :meth:`parameters` names. By cache lines: ``A->B.bandwidth`` (of all lanes
            together, which get equal parts), ``A->B#k.bandwidth`` (of lane k), ``A->B#k.latency``,
            ``A->B.up``, ``gpu[3].sms`` (that may take blocks not begun), ``gpu[3].l2`` (latency), ...
            By messages: ``rank[3].speed`` (of computations that have not begun), ``dim[0].bandwidth``
            or ``dim[0].latency`` (of messages that have not; all its links), and of a link (``A->B``, or
            ``link[7]`` of a network of dimensions with congestion) ``bandwidth``, ``latency``, ``up`` and
            ``outage`` (for how long messages that have not entered it wait from now on).
        value : float or str or bool
            With a unit, as ``"25 GB/s"``; a speed as 0.5 (half as fast; ``"inf"`` takes no time);
            ``up`` takes True and False, ``"yes"`` and ``"no"``.

        Raises
        ------
        InputError
            There is no such thing to change, or the value is not possible.
        """
        edit = self.driver.engine.read_edit(path, value)
        if edit.path == RECORD:
            check_room(self.driver.engine)
        self.driver.edit(edit)
        self._stop("edit")

    def take_down(self, link: str, *, both: bool = False, at: int | str | None = None) -> Stop:
        """Take a link down: ``set("<link>.up", False)``.

        What it has taken in still arrives; what comes later waits until the link is brought
        back (:meth:`repair`) or the routes change (:meth:`reroute`); they do not by themselves,
        as in ASTRA-sim, whose networks do not change while a run lasts. When nothing
        else can happen any more, verbs raise :class:`~astranb.core.errors.Deadlock`, which
        names the link and how much waits for it.

        Parameters
        ----------
        link : str
            ``A->B`` (all lanes) or ``A->B#k``; of a network of dimensions ``link[7]``.
        both : bool
            The other direction as well, as when a cable is cut.
        at : int or str, optional
            When: the run goes on until then; now where not given.

        Returns
        -------
        Stop
            Earlier at a breakpoint or at the end; the link is as it was then.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> sim.take_down("gpu[0]->dgx_h100.0.nvsw.0").why
        'edit'
        >>> try:
        ...     sim.run()
        ... except anb.core.errors.Deadlock as error:
        ...     print("is down since 0 ps" in str(error))
        True
        """
        return self._set_up(link, "no", both, at)

    def repair(self, link: str, *, both: bool = False, at: int | str | None = None) -> Stop:
        """Bring a link back up: what waited goes on, in the order in which it came.

        Parameters
        ----------
        link, both, at
            As for :meth:`take_down`; the run may hang until then.

        Returns
        -------
        Stop
            As of :meth:`take_down`.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> sim.take_down("gpu[0]->dgx_h100.0.nvsw.0", at="2 us").why
        'edit'
        >>> sim.repair("gpu[0]->dgx_h100.0.nvsw.0", at="3 ms").why
        'edit'
        >>> sim.run().now_ps > 3_000_000_000
        True
        """
        return self._set_up(link, "yes", both, at)

    def _set_up(self, link: str, up: str, both: bool, at: int | str | None) -> Stop:
        """Take a link down or bring it up, now or at a time."""
        ways = (False, True) if both else (False,)
        for back in reversed(ways):
            self.driver.engine.read_edit(f"{link}.up", up, back=back)  # refuses no link before time moves
        when_ps, stop = self._wait(at, link)
        if stop is not None:
            return stop
        for back in ways:
            edit = self.driver.engine.read_edit(f"{link}.up", up, back=back)
            self.driver.edit(dataclasses.replace(edit, at_ps=max(edit.at_ps, when_ps)))
        return self._stop("edit")

    def _wait(self, at: int | str | None, where: str) -> tuple[int, Stop | None]:
        """Go on until a time, to change something then; give it, and where the run has stopped before.

        Where everything waits for a link, nothing happens until that time.
        """
        when_ps = self.now_ps if at is None else time_ps(at, where=where)
        if when_ps > self.now_ps:
            with suppress(Deadlock):
                stop = self.run(until=when_ps)
                if stop.why != "time":
                    return when_ps, stop
        return max(when_ps, self.now_ps), None

    def reroute(self, at: int | str | None = None) -> Stop:
        """Change the routes: what is sent from now on, and what waits, avoids the links that are down.

        It is what a subnet manager or a routing protocol does some time after a failure; until then
        messages wait. Routes never change by themselves. ``back`` past it undoes it; where a link
        has come up again, another ``reroute`` uses it again. See ``docs/how-to/survive.md``.

        Parameters
        ----------
        at : int or str, optional
            When: the run goes on until then; now where not given.

        Returns
        -------
        Stop
            Earlier at a breakpoint or at the end; the routes are as they were then.

        Raises
        ------
        InputError
            Routes cannot change: links of a network of dimensions have no others.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> _ = sim.take_down("gpu[0]->dgx_h100.0.nvsw.0", both=True)
        >>> sim.reroute(at="20 us").why
        'edit'
        >>> sim.run().why, sim.now_ps > 20_000_000
        ('end', True)
        """
        self.driver.engine.read_edit(REROUTE, 0)  # refuses what has no routes before time moves
        when_ps, stop = self._wait(at, REROUTE)
        if stop is not None:
            return stop
        self.driver.edit(self.driver.engine.read_edit(REROUTE, f"{when_ps} ps"))
        return self._stop("edit")

    def record(self, on: bool = True) -> None:
        """Record line flights and activity from now on, or stop recording.

        What passes unrecorded happens as it would have; :attr:`unrecorded` says when that was.
        Going back past the switch undoes it, as with every edit.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> sim.record(False)
        >>> _ = sim.run("2 us")
        >>> sim.record()
        >>> _ = sim.run()
        >>> [(start, round(end / anb.units.us)) for start, end in sim.unrecorded]
        [(0, 2)]
        """
        edit = switched(self.driver.engine, on=on)
        if edit is not None:
            self.driver.edit(edit)
            self._stop("edit")

    @property
    def unrecorded(self) -> list[tuple[int, int]]:
        """Intervals of simulated time, in ps, of which nothing was recorded."""
        return unrecorded(self.driver.engine)

    def parameters(self, path: str = "") -> list[Parameter]:
        """Return what can be changed, with its value now, its unit and limits, and when it takes effect.

        Parameters
        ----------
        path : str
            An object, whose parameters :meth:`set` changes; where empty the whole run, whose
            parameters :meth:`rebuilt` changes.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> [(p.path, p.value) for p in sim.parameters("gpu[3]")][-1]
        ('dgx_h100.0.xpu.3.sms', '132')
        >>> [p.path for p in sim.parameters()][:3]
        ['algorithm', 'size', 'protocol']
        """
        engine = self.driver.engine
        return engine.fields(path).parameters() if path else variants.parameters(engine)

    @property
    def edits(self) -> list[tuple[int, str, str]]:
        """The edits so far: (events handled before it, path, value)."""
        return [(e.events, e.path, e.value) for e in self.driver.edits]

    def undo(self, number: int = -1) -> Stop:
        """Go back to the moment of an edit, as it was before it; later edits are undone, too.

        Parameters
        ----------
        number : int
            Which one of :attr:`edits`; the last where not given.
        """
        count = len(self.driver.edits)
        if not -count <= number < count:
            raise InputError(f"unknown edit {number}", where="undo", hint=f"there are {count}")
        return self._rewound(lambda: self.driver.undo(number % count))

    # Breakpoints and listeners -----------------------------------------------

    def break_on(self, kind: str | None = None, object: str | None = None) -> Breakpoint:  # noqa: A002 - the public word
        """Stop after an event of a kind (:attr:`event_kinds`), of an object, or both."""
        return self._add(self.driver.engine.on_event(kind, object))

    def break_when(self, condition: str | Callable[[Simulation], bool]) -> Breakpoint:
        """Stop when a condition becomes true.

        Parameters
        ----------
        condition : str or callable
            ``<object>.<field> <relation> <number>``: ``"gpu[3].sm.0.waiting > 0"``,
            ``"gpu[*].hbm[*].busy_ps > 1 us"`` (of any of them), ``"rank[3].waiting > 0"``,
            ``"GPU2 → nvsw.0.messages >= 10"``, ``"phase[reduce-scatter 1/7].ended_ps >= 0"``; or a time:
            ``"time >= 5 us"``. A callable is called after every single event with the simulation: that is
            slow (some 100,000 events a second), a text is compiled.

        Raises
        ------
        InputError
            The condition cannot be read, or names no object or field.
        """
        if callable(condition):
            return self._add(called(condition))
        if not isinstance(condition, str):
            hint = 'write a text, as "gpu[3].sm.0.waiting > 0", or give a function of the simulation'
            raise InputError(f"{condition!r:.60} is not a condition", where="break_when", hint=hint)
        if when := re.fullmatch(r"\s*(?:time|now|now_ps)\s*>=?\s*(.+)", condition):
            return self.break_at(when[1])
        return self._add(self.driver.engine.condition(condition))

    def break_at(self, time: int | str) -> Breakpoint:
        """Stop when everything up to a time has happened."""
        return self._add(at_time(time))

    @property
    def breakpoints(self) -> list[Breakpoint]:
        """The breakpoints; remove one with :meth:`clear`."""
        return list(self._points)

    def clear(self, point: Breakpoint | None = None) -> None:
        """Remove a breakpoint, or all of them."""
        self._points = [p for p in self._points if point is not None and p is not point]

    def _add(self, point: Breakpoint) -> Breakpoint:
        self.driver.engine.install([*self._points, point])  # refuses what does not fit
        self._points.append(point)
        return point

    def subscribe(
        self, moved: Callable[[Stop], None], moving: Callable[[], None] = lambda: None
    ) -> Callable[[], None]:
        """Call functions whenever time has moved; returns a function that ends this.

        Parameters
        ----------
        moved : callable
            Called after each verb, with its stop.
        moving : callable
            Called twice a second during a long verb; must not move time.
        """
        pair = (moved, moving)
        self._listeners.append(pair)

        def end() -> None:
            if pair in self._listeners:
                self._listeners.remove(pair)

        return end

    def _beat(self) -> None:
        self._sample()
        if perf_counter() - self._beat_s < _BEAT_S:
            return
        for _, moving in list(self._listeners):
            moving()
        self._beat_s = perf_counter()

    # Watches -----------------------------------------------------------------

    def watch(self, what: str | Callable[[Any], float]) -> Watch:
        """Follow a value: ``"gpu[3].sm.0.waiting"``, ``"rank[3].waiting"``, or a function of the simulation.

        It is sampled whenever time has moved; :meth:`Watch.series` gives exact values between.

        Parameters
        ----------
        what : str or callable
            ``<path>.<field>`` as in a condition (of a link all lanes together, see
            :meth:`watchable`), or a function that gives a number and changes nothing.

        Raises
        ------
        InputError
            There is no such object or field, or the function gives no number.
        """
        found = Watch.of(self, what)
        found.sample(self.now_ps)
        self._watches.append(found)
        return found

    def unwatch(self, watch: Watch | None = None) -> None:
        """Stop following a value, or all of them."""
        self._watches = [w for w in self._watches if watch is not None and w is not watch]

    @property
    def watches(self) -> list[Watch]:
        """The watched fields."""
        return list(self._watches)

    def watchable(self, path: str) -> list[str]:
        """Fields of an object that conditions and watches may name.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> "outstanding" in sim.watchable("gpu[3].sm.0")
        True
        """
        engine = self.driver.engine
        found = engine.fields(path)
        unknown = () if engine.recording else found.recorded
        return [name for name in found.readers if name not in unknown]

    def paths(self, text: str = "", most: int = 50) -> list[str]:
        """Paths of objects that a text may stand for: a name, the beginning of one, or a part of it.

        Of a name with a ``*`` all that it stands for: ``gpu[0]->*``.

        Every one of them can be inspected and, but for links of runs by messages, be the object of a
        breakpoint.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> sim.paths("GPU5.hbm", most=3)
        ['gpu[5].hbm.0', 'gpu[5].hbm.1', 'gpu[5].hbm.2']
        >>> sim.paths("GPU2 → nvsw.0", most=1)
        ['dgx_h100.0.xpu.2->dgx_h100.0.nvsw.0']
        """
        engine = self.driver.engine
        if is_several(text):
            with suppress(InputError):
                return list(islice(engine.parts(text)["objects"], most))
            return []
        objects = tuple(engine.parts()["objects"])
        found = list(islice(complete(text, objects, engine.traits.part_kinds, engine.parts), most))
        if not found:
            with suppress(InputError):  # a whole name in another spelling, as GPU2 → nvsw.0
                found.append(engine.inspect(text)["path"])
        return found

    def fields(self, path: str) -> list[str]:
        """Return the fields of an object that :meth:`break_when` accepts; empty where there are none."""
        try:
            return list(self.driver.engine.fields(path).named)
        except InputError:
            return []

    def _sample(self) -> None:
        """Record every watch's value; a function that fails must not stop the run."""
        for watch in self._watches:
            watch.sample(self.now_ps)

    # Explaining --------------------------------------------------------------

    def why(self, path: str = "") -> Why:
        """Explain why an object waits now: the chain of waits, up to the resource at its end.

        Parameters
        ----------
        path : str
            A GPU, an SM, a thread block, a link or a line under way; by messages a rank or an
            operation. Where not given, whatever has waited longest.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "allpairs"))
        >>> sim.run(until="2 us").why
        'time'
        >>> why = sim.why("gpu[3]")
        >>> len(why.links) > 1
        True
        """
        return self.driver.engine.why(path)

    def critical_path(self) -> CriticalPath:
        """Find what the time consists of, from the start to the end (up to now, while it runs).

        By cache lines a private copy replays the run and records every event: that takes about as
        long as running it, and nothing need have been recorded.
        """
        key = (self.events, tuple(self.driver.edits))
        if self._path is None or self._path[0] != key:
            self._path = (key, _with_bar(self._search_path(), "critical path"))
        return self._path[1]

    def _search_path(self) -> Generator[float, None, CriticalPath]:
        driver = self.driver
        return driver.engine.search_path(lambda: driver.copy(record=False))

    def lost_time(self, per: str = "") -> pd.DataFrame:
        """Return a breakdown of the time up to now.

        Parameters
        ----------
        per : str
            ``"rank"``, or by cache lines also ``"block"``; per rank where not given.

        Returns
        -------
        pandas.DataFrame
            A column in ps for each cause (``engine.traits.losses`` says what each means). A row's causes add
            up to its ``time_ps``: the time of the run, for a GPU by cache lines that times its number of
            thread blocks.
        """
        import pandas as pd

        engine = self.driver.engine
        chosen = per or engine.traits.lost_per[0]
        if chosen not in engine.traits.lost_per:
            hint = " or ".join(f"per {name}" for name in engine.traits.lost_per)
            raise InputError(f"lost time per {per!r}", where="lost_time", hint=hint)
        return pd.DataFrame(engine.time_by(chosen))

    def buffers(self, most: int = 32) -> pd.DataFrame:
        """List the fullest buffers and the longest queues, now.

        Parameters
        ----------
        most : int
            How many rows to give.

        Returns
        -------
        pandas.DataFrame
            Fullest first: ``path``, how much is ``taken`` of the ``capacity`` (0: unlimited), their
            ``unit`` (``"lines"`` or ``"bytes"`` behind a link by cache lines, else ``"messages"``), how
            many are ``waiting`` in front, and ``wait_ps``, how long a server (a link without buffers of
            its own, an L2 slice, an HBM channel) will take for what it holds. What is empty has no row.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("1 MiB", "allpairs"))
        >>> _ = sim.goto("2 us")
        >>> sim.buffers(1).path[0]
        'box.0.gpu.0->box.0.gpu.1'
        """
        import pandas as pd

        columns = self.driver.engine.buffers(most)
        return pd.DataFrame({name: column for name, column in columns.items() if name != "all"})

    @overload
    def what_if(self) -> WhatIf: ...

    @overload
    def what_if(self, path: str, value: float | str = "") -> Change: ...

    @hinted("what_if", _OF_A_LINK)
    def what_if(self, path: str = "", value: float | str = "") -> WhatIf | Change:
        """Ask what a change would do to the time of the run.

        Parameters
        ----------
        path : str
            What to change. By cache lines: ``A->B.bandwidth`` (all lanes), ``gpu[3].hbm``, ``*->*.latency``
            (every link) or ``gpu[*].noc`` (every GPU). By messages: ``dim[0].bandwidth``,
            ``rank[3].speed`` or ``A->B.latency`` (of a network of dimensions ``link[7].latency``);
            ``rank[*]``, ``dim[*]`` and ``*->*`` (``link[*]``) mean all. Where not given: the changes that
            matter most, by cache lines each with an ESTIMATE from the critical path, by messages each run,
            and exact.
        value : float or str
            ``"x2"`` (twice as much), ``"x0.5"``, or a value as :meth:`set` takes it.

        Returns
        -------
        WhatIf or Change
            With a path a fork runs from the start with the change: its time is EXACT, and shown
            beside the estimate, or beside what the time consists of without and with it.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("4 KiB", "allpairs"))
        >>> sim.run().why
        'end'
        >>> change = sim.what_if("*->*.latency", "x0.5")
        >>> change.at_least_ps <= change.exact_ps < change.before_ps
        True
        """
        if path:
            return _with_bar(self.asked(path, value), "what if")
        if value != "":
            hint = "give the path of what has it, as '*->*.latency'"
            raise InputError(f"the value {str(value)[:40]!r} has no path", where="what_if", hint=hint)
        engine = self.driver.engine
        if not engine.traits.quick:
            return WhatIf(engine.suggest(self.critical_path()))
        whole = self
        if not self.finished:
            whole = self.fork()
            whole.run()
        changes = whole.driver.engine.suggest(whole.critical_path())
        rows = [self.what_if(change.path, change.value) for change in changes]
        return WhatIf(sorted(rows, key=lambda row: row.exact_ps or 0))

    def asked(self, path: str, value: float | str = "") -> Generator[float, None, Change]:
        """Begin to work out :meth:`what_if` in a copy: each step gives the part that is done.

        Edits made since the start are carried out on both sides, at their times; the changed
        parameter has its new value throughout.

        Raises
        ------
        InputError
            At once: there is no such thing to change.
        Deadlock, WrongResult
            What the changed run comes to.
        """
        engine = self.driver.engine
        usual = "x2" if path.endswith(("bandwidth", "speed")) else "x0.5"
        question = engine.question(path, value if value != "" else usual)

        def work() -> Generator[float, None, Change]:
            copy = self.fork(record=engine.traits.quick)  # the simulation may go on meanwhile
            yield 0.0
            base = copy
            if not copy.finished:
                base = copy.fork(record=engine.traits.quick)
                yield from base._to_the_end(0.0, 0.3, self.events)  # noqa: SLF001 - its own class
            search, path_of_base = base._search_path(), None  # noqa: SLF001 - its own class
            while path_of_base is None:
                try:
                    yield 0.3 + 0.3 * next(search)
                except StopIteration as found:
                    path_of_base = found.value
            fork = copy.fork(record=engine.traits.quick)
            fork.reset()
            fork.driver.edit(question.edit)
            for edit in copy.driver.edits:
                rest = left_of(edit, question.edit)
                if edit.events and rest is not None:
                    yield from fork._to_the_end(0.6, 0.4, base.events, edit.at_ps)  # noqa: SLF001
                    fork.driver.edit(dataclasses.replace(rest, events=fork.events, at_ps=fork.now_ps))
            yield from fork._to_the_end(0.6, 0.4, base.events)  # noqa: SLF001 - its own class
            change = dataclasses.replace(question.about(path_of_base), exact_ps=fork.result.time_ps)
            if not engine.traits.quick:
                return change
            was, now = path_of_base.by_cause(), fork.critical_path().by_cause()
            causes = tuple((name, was.get(name, 0), now.get(name, 0)) for name in {**was, **now})
            return dataclasses.replace(change, causes=causes)

        return work()

    def _to_the_end(
        self, done: float, share: float, expected: int, until_ps: int = FOREVER
    ) -> Iterator[float]:
        while self.driver.next_ps <= until_ps and not self.finished:
            self.advance(until_ps)
            yield done + share * self.events / max(1, self.events, expected)

    # What only cache lines show ----------------------------------------------

    def _by_cache_lines(self, what: str) -> CacheLineEngine:
        if self.fidelity != "cacheline":
            reason = f"{what} is known by cache lines only, and this is {self.fidelity}"
            raise InputError(reason, where=what, hint="make it with Simulation(..., fidelity='cacheline')")
        return cast("CacheLineEngine", self.engine)

    def spans(self, start_ps: int = 0, end_ps: int | None = None) -> Any:
        """Return the states of thread blocks, by cache lines: a recarray of spans in a window of time."""
        return self._by_cache_lines("spans").spans(start_ps, end_ps)

    def aggregate(
        self, start: int | str = 0, end: int | str | None = None, *, ranks: Sequence[int] | None = None
    ) -> Aggregate:
        """Add up what happened in an interval of simulated time, by cache lines.

        Parameters
        ----------
        start, end : int or str
            Picoseconds, or text as ``"2 us"``; up to now where no end is given.
        ranks : sequence of int, optional
            Only these GPUs, and links that leave or reach them.

        Returns
        -------
        Aggregate
            Time in states, lines and bytes by type of link and by link, phases.

        Raises
        ------
        InputError
            The interval ends before it begins, or there is no such rank.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> sim.run().why
        'end'
        >>> part = sim.aggregate("1 us", "3 us", ranks=[0])
        >>> round(sum(part.shares().values()), 9), part.classes[0]["kind"]
        (1.0, 'store data')
        """
        last = self.now_ps if end is None else time_ps(end, where="end")
        return self._by_cache_lines("aggregate").aggregate(time_ps(start, where="start"), last, ranks)

    def memory(self, rank: int, buffer: str = "output") -> Records:
        """Return what a buffer of a rank holds now, slice by slice, by cache lines.

        Parameters
        ----------
        rank : int
        buffer : str
            ``"input"``, ``"output"``, ``"scratch"`` or ``"packets"``.

        Returns
        -------
        recarray, shape (slices,)
            By address: ``chunk``, ``channel``; ``lines``, and how many of them have ``arrived``
            (during a write, of that write; also where nothing was recorded, as before a run was loaded
            from a file); the ``source``, the rank whose SM or
            copy engine wrote them (-1: none yet); ``final``, whether nothing will be written
            there any more; ``contributions`` (ranks,), how often each rank's data is in it.

        Raises
        ------
        InputError
            There is no such rank or buffer.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> int(sim.memory(3).arrived.sum()), sim.memory(3, "input").contributions[0].tolist()
        (0, [0, 0, 0, 1, 0, 0, 0, 0])
        >>> sim.run().why
        'end'
        >>> bool(sim.memory(3).final.all()), sim.memory(3).contributions[0].tolist()
        (True, [1, 1, 1, 1, 1, 1, 1, 1])
        """
        found: Records = self._by_cache_lines("memory").memory(rank, buffer)
        return found

    def contributions(self, buffer: str | None = None) -> Contributions:
        """Return the contributions in each chunk now, by cache lines: who has summed whom.

        Parameters
        ----------
        buffer : str, optional
            ``input``, ``output``, ``scratch`` or ``packets``; all where not given; ``fullest``: of
            each rank and chunk of the data the copy, in whatever buffer, with the most in it.

        Returns
        -------
        Contributions
            One cell a chunk of a rank, with how often each rank is in it.

        Raises
        ------
        InputError
            There is no such buffer, or (``fullest``) ranks do not hold the same chunks.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("1 KiB", "ring"))
        >>> sim.contributions("input").text(0)
        'GPU0 input[0]: 0'
        >>> sim.run().why
        'end'
        >>> sim.contributions("output").text(0)
        'GPU0 output[0]: 0+1+2+3 of 4, final'
        """
        return self._by_cache_lines("contributions").contributions(buffer)

    def holds(self, buffer: str) -> list[Any]:
        """Return the ranks whose data a buffer holds now, by cache lines.

        Parameters
        ----------
        buffer : str
            ``"gpu[0].output"``: a list for each of its chunks; ``"gpu[0].output[3]"``: that of one chunk.
            Each rank as often as its data is in all of the chunk.

        Raises
        ------
        InputError
            There is no such buffer or chunk.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("1 KiB", "ring"))
        >>> sim.holds("gpu[0].input[2]"), sim.holds("gpu[0].output[2]")
        ([0], [])
        >>> sim.run().why
        'end'
        >>> sim.holds("gpu[0].output[2]")
        [0, 1, 2, 3]
        """
        return self._by_cache_lines("holds").holds(buffer)

    @property
    def source(self) -> ProgramSource:
        """The text of the program, and the line of every operation, by cache lines.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("1 KiB", "ring"))
        >>> sim.source.text_of(0)
        'right.send(block, [*got, inp[chunk]])'
        """
        return self._by_cache_lines("source").program.source

    def where(self) -> Records:
        """Return the program line of each thread block now, by cache lines.

        Returns
        -------
        recarray of SPOT, shape (thread blocks,)
            ``gpu``, ``block`` (of the GPU), ``state``, ``op`` of ``ops`` operations, ``part`` (of
            ``source.parts``, -1: not known, or it has ended) and ``line``.
        """
        found: Records = self._by_cache_lines("where").where()
        return found

    def next_line(self, block: str) -> Stop:
        """Run until a thread block reaches its next operation, by cache lines.

        Parameters
        ----------
        block : str
            As ``gpu[3].block.0``. One that has not begun yet goes on to its first operation.

        Returns
        -------
        Stop
            Earlier at another breakpoint.

        Raises
        ------
        InputError
            There is no such thread block, or it has ended.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("1 KiB", "ring"))
        >>> for _ in range(3):
        ...     stop = sim.next_line("gpu[2].block.0")
        >>> int(sim.where()[2].op)
        2
        """
        from astranb.engine.cacheline import next_operation

        point = self.break_when(next_operation(self._by_cache_lines("next_line"), block))
        try:
            stop = self.run()
        finally:
            self.clear(point)
        return (
            stop if stop.breakpoint is not point else dataclasses.replace(stop, why="steps", breakpoint=None)
        )


def _with_bar(work: Generator[float, None, _T], what: str) -> _T:
    """Carry out some work at once, with a bar of its progress."""
    with bar(_PERCENT, what=what, unit="%") as progress:
        while True:
            try:
                progress.update(int(_PERCENT * next(work)) - progress.n)
            except StopIteration as end:
                progress.update(_PERCENT - progress.n)
                found: _T = end.value
                return found
