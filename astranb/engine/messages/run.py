"""A run of a workload at the level of its tables: made, moved on, read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np

from astranb.core.errors import Deadlock, InputError, NoRoute
from astranb.core.state import allocate, digest, own
from astranb.core.timesteps import NEVER
from astranb.engine.stops import ENDED, GROW
from astranb.workload.astrasim2 import Workload, along_dimensions

from . import tables as t
from .build import build, margins, recording_tables
from .deadlock import explain_deadlock, explain_too_late
from .fold import Fold
from .loop import ENTRY, waiting_ns
from .symmetry import find_fold

__all__ = ["Run", "RunResult", "simulate"]

_NEVER = 2**62


@dataclass(frozen=True)
class RunResult:
    """The results of a run.

    Parameters
    ----------
    end_ns : ndarray of int64
        End time of each NPU; one nanosecond is ASTRA-sim's cycle.
    compute_ns : ndarray of int64
        Sum of the durations of each NPU's computations.
    exposed_comm_ns : ndarray of int64
        The rest of each NPU's time: ASTRA-sim 2.0's exposed communication, which includes waiting,
        remote memory and operations of the CPU; 0 where computations overlap for longer.
    events : int
        Events handled.
    messages, message_bytes : int
        Sent over the network.
    """

    end_ns: np.ndarray
    compute_ns: np.ndarray
    exposed_comm_ns: np.ndarray
    events: int
    messages: int
    message_bytes: int


class Run:
    """A run in progress: what the engine moves for a simulation.

    Parameters
    ----------
    workload : Workload
    congestion : bool
        Whether messages queue on links.
    record : bool
        Whether to record phases of chunks and traffic; what is simulated does not depend on it.

    Raises
    ------
    InputError
        The inputs do not fit together.
    """

    workload: Workload | None
    congestion: bool
    _fold: Fold | None
    _few: Run | None
    _machine: t.MessageMachine | None
    _outline: t.MessageMachine | None
    _call: Callable[[], int] | None

    def __init__(self, workload: Workload, *, congestion: bool = False, record: bool = False) -> None:
        if workload.system.group_dimensions:
            workload = along_dimensions(workload)
        self._begin(workload, congestion=congestion)
        if not record:
            with suppress(InputError):  # which the tables of all ranks raise, too
                self._fold = find_fold(workload, congestion=congestion)
                self.restart()
                return
        self._fold = self._few = None
        self.machine = build(workload, congestion=congestion, record=record)

    def _begin(self, workload: Workload | None, *, congestion: bool) -> None:
        self.workload, self.congestion = workload, congestion
        self._limits = allocate(1, t.LIMITS)
        self._fold = self._few = self._machine = self._outline = self._call = None

    @classmethod
    def of_machine(cls, machine: t.MessageMachine) -> Run:
        """Continue from tables, without the workload that they were built from."""
        run = object.__new__(cls)
        run._begin(None, congestion=bool(machine.config[0].congestion))
        run.machine = machine
        return run

    def restart(self) -> None:
        """Go back to the start of a run that has its workload."""
        assert self.workload is not None  # noqa: S101 - of others the caller has a copy
        self._machine = self._outline = self._call = None
        if self._fold is None:
            self.machine = build(self.workload, congestion=self.congestion)
        else:
            self._few = Run.of_machine(build(self.workload, congestion=self.congestion, fold=self._fold))

    @property
    def machine(self) -> t.MessageMachine:
        """The tables of all ranks; of a folded run they are made when somebody looks at them."""
        if self._machine is None:
            assert self.workload is not None  # noqa: S101 - without tables there is what they are made of
            represented = self.represented
            if represented is None:
                self.machine = build(self.workload, congestion=self.congestion)
            else:
                few, fold = represented
                self.machine = fold.whole(few.machine, self.outline)
        return cast("t.MessageMachine", self._machine)

    @machine.setter
    def machine(self, machine: t.MessageMachine) -> None:
        """Continue with other tables."""
        self._machine, self._call, self._outline = machine, None, None
        self._margin, self._streams = margins(machine)

    @property
    def outline(self) -> t.MessageMachine:
        """The tables of all ranks, without those of operations where nobody has looked at these."""
        if self._machine is not None:
            return self._machine
        if self._outline is None:
            assert self.workload is not None  # noqa: S101 - without tables there is what they are made of
            self._outline = build(self.workload, congestion=self.congestion, fold=self._fold, frame=True)
        return self._outline

    @property
    def represented(self) -> tuple[Run, Fold] | None:
        """The run of the ranks that represent all, if it has ended and the tables of all are not made."""
        if self._machine is not None or self._few is None or self._fold is None or self._few.events == 0:
            return None
        return self._few, self._fold

    @property
    def made(self) -> bool:
        """Whether the tables of all ranks are made."""
        return self._machine is not None

    @property
    def next_ns(self) -> int:
        """The time of the next event, -1 if none is left."""
        return waiting_ns(self.outline)

    @property
    def now_ns(self) -> int:
        """The time of the last event."""
        return int(self.outline.queue[0].now)

    @property
    def events(self) -> int:
        """The number of events handled."""
        return int(self.outline.clock[0].steps)

    @property
    def folds(self) -> bool:
        """Whether :meth:`finish` simulates a few NPUs for all."""
        return self._fold is not None and self.events == 0

    def go(self, *, steps: int = _NEVER, closely: bool = False, **most: int) -> int:
        """Handle events until none is left or a limit is reached.

        Parameters
        ----------
        steps : int
            Events, counted from the start of the run, as are the following limits.
        closely : bool
            Whether to check the following limits, and breakpoints, at each event.
        **most : int
            ``until_ns``: the last time that is handled; ``turns`` (timesteps), ``ended`` (operations),
            ``delivered`` (messages), ``phases`` (of chunks): no event begins after this number.

        Returns
        -------
        int
            Why it stopped: a number of :mod:`astranb.engine.stops`.
        """
        m, limits = self.machine, self._limits[0]
        limits.steps, limits.closely = steps, closely
        limits.margin, limits.streams = self._margin, self._streams
        for name in ("until_ns", "turns", "ended", "delivered", "phases"):
            limits[name] = most.get(name, _NEVER)
        m.watch[0].hit = -1
        while True:
            m = self.machine
            if self._call is None:
                words = tuple(np.asarray(table).view(np.int64) for table in (m.npus, m.operations, m.queues))
                self._call = ENTRY.bind(self._limits, m, words)
            why = self._call()
            clock = m.clock[0]
            if clock.no_route:
                source, target = divmod(int(clock.no_route) - 1, len(m.npus))
                raise NoRoute(
                    f"rank {source} sends to rank {target}, and there is no route",
                    hint="halvingDoubling needs 2, 4, 8, … NPUs",
                )
            if why != GROW:
                return why
            self.machine = t.enlarge(m, self._margin, self._streams)

    def finish(self) -> None:
        """Handle all events: see :meth:`finish_folded`, and :meth:`go`."""
        if not self.finish_folded():
            self.go()

    def finish_folded(self) -> bool:
        """From the start of a run, simulate a few NPUs for all if they do the same (:mod:`.symmetry`).

        The state and the number of events are those of handling all events.

        Returns
        -------
        bool
            False: nothing was done.
        """
        few, fold = self._few, self._fold
        if not self.folds or few is None or fold is None:
            return False
        if few.go() == ENDED and _is_over(few.machine):
            self._machine = None
            self._outline = fold.end(few.machine, self.outline)
            return True
        self._fold = self._few = None
        return False

    def record(self, *, on: bool) -> None:
        """Start or stop recording phases of chunks and traffic; drop what has been recorded."""
        m = self.machine
        tables = recording_tables(m.operations, m.config[0], m.dims, len(m.links), len(m.messages), record=on)
        self.machine = m._replace(**tables)

    def digest(self) -> str:
        """Hash everything simulated, but nothing recorded (32 hex digits)."""
        represented = self.represented
        if represented is None:
            return digest(t.simulated(self.machine).items())
        few, fold = represented
        return digest({**t.simulated(self.outline), **fold.parts(few.machine)}.items())

    def copy(self) -> Run:
        """Return an independent run in the same state."""
        other = object.__new__(Run)
        other._begin(self.workload, congestion=self.congestion)
        other._fold = self._fold
        other._few = None if self._few is None else self._few.copy()
        if self._machine is not None:
            other.machine = _copied(self._machine)
        elif self._outline is not None:
            other._outline = _copied(self._outline)
        return other

    def result(self) -> RunResult:
        """Read the results.

        Raises
        ------
        InputError
            An operation would end later than time is counted.
        Deadlock
            An NPU is not done.
        """
        m = self.outline
        if self.next_ns >= NEVER:
            hint = "use smaller times and sizes, or faster links"
            raise InputError(explain_too_late(m), hint=hint)
        if m.clock[0].finished < len(m.npus):
            raise Deadlock(explain_deadlock(m))
        end = np.array(m.npus.end_ns, np.int64)
        compute = np.array(m.npus.compute_ns, np.int64)
        clock = m.clock[0]
        exposed = np.maximum(end - compute, 0)  # replayed computations overlap
        return RunResult(end, compute, exposed, self.events, int(clock.messages), int(clock.bytes))


def _is_over(m: t.MessageMachine) -> bool:
    """Return whether all NPUs are done, nothing is left over, and no order was chance."""
    clock = m.clock[0]
    free = all(
        int(clock[f"{name}_left"]) == len(getattr(m, name)) for name in ("timers", "messages", "streams")
    )
    return free and int(clock.finished) == len(m.npus) and not m.fold.tied.any()


def _copied(machine: t.MessageMachine) -> t.MessageMachine:
    return t.MessageMachine(*(own(table) for table in machine))


def simulate(workload: Workload, *, congestion: bool = False) -> RunResult:
    """Simulate a workload to its end; the parameters are those of :class:`Run`.

    Raises
    ------
    InputError
        The inputs do not fit together.
    Deadlock
        A rank waits for something that never happens.

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb.workload.astrasim2 import DimensionNetwork, System
    >>> chunks = System(splits=4, memory_Bps=1600e9)
    >>> what = anb.workload([anb.all_reduce("64 KiB", "ring")], system=chunks, compat=True)
    >>> simulate(what.on(DimensionNetwork("Ring", 4, bandwidth=50, latency=500))).end_ns.tolist()
    [14176, 14176, 14176, 14176]
    """
    run = Run(workload, congestion=congestion)
    run.finish()
    return run.result()
