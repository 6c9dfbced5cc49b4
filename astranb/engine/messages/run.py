"""A run of a workload at the level of its tables: made, moved on, read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from astranb.core.errors import Deadlock, InputError
from astranb.core.state import allocate, digest, own
from astranb.core.timesteps import NEVER
from astranb.engine.stops import ENDED, GROW
from astranb.workload.astrasim2 import Workload

from . import tables as t
from .build import build, margins, recording_tables
from .deadlock import explain_deadlock, explain_too_late
from .folding import foldable, unfold
from .loop import ENTRY, waiting_ns

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
        remote memory and operations of the CPU.
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

    workload: Workload
    _folded: Run | None
    _call: Callable[[], int] | None

    def __init__(self, workload: Workload, *, congestion: bool = False, record: bool = False) -> None:
        self.workload = workload
        self._hold(build(workload, congestion=congestion, record=record))
        if foldable(workload, congestion=congestion):
            self._folded = Run.of_machine(build(workload, congestion=congestion, folded=True))

    def _hold(self, machine: t.MessageMachine) -> None:
        self.machine = machine
        self._margin, self._streams = margins(machine)
        self._limits = allocate(1, t.LIMITS)
        self._folded = None

    @classmethod
    def of_machine(cls, machine: t.MessageMachine) -> Run:
        """Continue from tables, without the workload that they were built from."""
        run = object.__new__(cls)
        run._hold(machine)
        return run

    @property
    def machine(self) -> t.MessageMachine:
        """The tables."""
        return self._machine

    @machine.setter
    def machine(self, machine: t.MessageMachine) -> None:
        """Continue with other tables."""
        self._machine, self._call = machine, None

    @property
    def next_ns(self) -> int:
        """The time of the next event, -1 if none is left."""
        return waiting_ns(self._machine)

    @property
    def now_ns(self) -> int:
        """The time of the last event."""
        return int(self._machine.queue[0].now)

    @property
    def events(self) -> int:
        """The number of events handled."""
        return int(self._machine.clock[0].steps)

    @property
    def folds(self) -> bool:
        """Whether :meth:`finish` simulates one NPU for all."""
        return self.events == 0 and self._folded is not None

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
        limits = self._limits[0]
        limits.steps, limits.closely = steps, closely
        limits.margin, limits.streams = self._margin, self._streams
        for name in ("until_ns", "turns", "ended", "delivered", "phases"):
            limits[name] = most.get(name, _NEVER)
        self._machine.watch[0].hit = -1
        while True:
            if self._call is None:
                m = self._machine
                words = tuple(np.asarray(table).view(np.int64) for table in (m.npus, m.operations, m.queues))
                self._call = ENTRY.bind(self._limits, m, words)
            why = self._call()
            clock = self._machine.clock[0]
            if clock.no_route:
                source, target = divmod(int(clock.no_route) - 1, len(self._machine.npus))
                raise InputError(
                    f"rank {source} sends to rank {target}, and there is no route",
                    hint="halvingDoubling needs 2, 4, 8, … NPUs",
                )
            if why != GROW:
                return why
            self.machine = t.enlarge(self._machine, self._margin, self._streams)

    def finish(self) -> None:
        """Handle all events.

        From the start of the run, one NPU is simulated for all if they do the same (:mod:`.folding`);
        the state and the number of events are the same.
        """
        one = self._folded
        if self.folds and one is not None and one.go() == ENDED and one.machine.clock[0].finished:
            self.machine = unfold(one.machine, self._machine)
        self._folded = None
        self.go()

    def record(self, *, on: bool) -> None:
        """Start or stop recording phases of chunks and traffic; drop what has been recorded."""
        m = self._machine
        tables = recording_tables(m.operations, m.config[0], m.dims, len(m.links), len(m.messages), record=on)
        self.machine = m._replace(**tables)

    def digest(self) -> str:
        """Hash everything simulated, but nothing recorded (32 hex digits)."""
        return digest(t.simulated(self._machine).items())

    def copy(self) -> Run:
        """Give an independent run in the same state."""
        return Run.of_machine(t.MessageMachine(*(own(table) for table in self._machine)))

    def result(self) -> RunResult:
        """Read the results.

        Raises
        ------
        InputError
            An operation would end later than time is counted.
        Deadlock
            An NPU is not done.
        """
        m = self._machine
        if self.next_ns >= NEVER:
            hint = "use smaller times and sizes, or faster links"
            raise InputError(explain_too_late(m), hint=hint)
        if m.clock[0].finished < len(m.npus):
            raise Deadlock(explain_deadlock(m))
        end = np.array(m.npus.end_ns, np.int64)
        compute = np.array(m.npus.compute_ns, np.int64)
        clock = m.clock[0]
        return RunResult(end, compute, end - compute, self.events, int(clock.messages), int(clock.bytes))


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
    >>> from astranb.workload.astrasim2 import COLLECTIVE, DimensionNetwork, Operations, System
    >>> ring = System.from_document(
    ...     {"all-reduce-implementation": ["ring"], "preferred-dataset-splits": 4, "local-mem-bw": 1600}
    ... )
    >>> one = Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": 65536}])
    >>> network = DimensionNetwork(["Ring"], [4], [50], [500])
    >>> simulate(Workload([one] * 4, network, ring, compat=True)).end_ns.tolist()
    [14176, 14176, 14176, 14176]
    """
    run = Run(workload, congestion=congestion)
    run.finish()
    return run.result()
