"""A simulation as Python holds it: made, moved on event by event or to its end, and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from astranb.core.errors import Deadlock, InputError
from astranb.core.state import allocate, digest, own
from astranb.workload.astrasim2._durations import Memory
from astranb.workload.astrasim2._infra import InfraNetwork
from astranb.workload.astrasim2._inputs import Network, System
from astranb.workload.astrasim2._operations import Operations
from astranb.workload.astrasim2.workload import Workload

from . import _tables as t
from ._build import build, margins, notes
from ._fold import foldable, unfold
from ._loop import ENDED, ENTRY, GROW, waiting_ns
from ._pools import enlarge
from ._stuck import stuck

__all__ = ["Inputs", "Result", "Run", "simulate"]

_NEVER = 2**62


@dataclass(frozen=True)
class Result:
    """What a simulation ended with.

    Parameters
    ----------
    end_ns : ndarray of int64
        When each NPU was done; one nanosecond is ASTRA-sim's cycle.
    compute_ns : ndarray of int64
        What each NPU's computations took, summed.
    exposed_comm_ns : ndarray of int64
        The rest of each NPU's time: ASTRA-sim 2.0's exposed communication, in which waiting,
        remote memory and operations of the CPU count too.
    events : int
        Events handled.
    messages, message_bytes : int
        What went over the network.
    """

    end_ns: np.ndarray
    compute_ns: np.ndarray
    exposed_comm_ns: np.ndarray
    events: int
    messages: int
    message_bytes: int


class Inputs(NamedTuple):
    """What a simulation is made of: as :class:`Run` takes it."""

    operations: Sequence[Operations]
    network: Network | InfraNetwork
    system: System
    memory: Memory
    groups: Mapping[int, Sequence[int]]


class Run:
    """One simulation under way.

    Parameters
    ----------
    operations : sequence of Operations
        One for each rank.
    network : Network or InfraNetwork
    system : System
    memory : Memory, optional
        None of it unless given.
    groups : mapping of int to sequence of int, optional
        Ranks of each numbered group.
    aware : bool
        Whether messages wait for one another on links.
    compat : bool
        Whether ASTRA-sim 2.0's peculiarities are kept: bandwidths in GiB/s, a whole chunk for
        what is left over, and messages that pay for one dimension only.
    record : bool
        Whether phases of chunks and traffic are noted; what is simulated does not depend on it.

    Raises
    ------
    InputError
        Something does not fit.
    """

    _folded: Run | None
    _call: Callable[[], int] | None

    def __init__(
        self,
        operations: Any,
        network: Any = None,
        system: Any = None,
        *,
        memory: Memory | None = None,
        groups: Mapping[int, Sequence[int]] | None = None,
        aware: bool = False,
        compat: bool = False,
        record: bool = False,
        congestion: bool = False,
    ) -> None:
        if isinstance(operations, Workload):
            w = operations
            operations, network, system, memory, groups = (
                w.operations,
                w.network,
                w.system,
                w.memory,
                w.groups,
            )
            compat = w.compat
        aware = aware or congestion
        inputs = Inputs(operations, network, system, memory or Memory(), groups or {})
        self.inputs = inputs
        self._hold(build(*inputs, aware=aware, compat=compat, record=record))
        if foldable(*inputs[:4], aware=aware, compat=compat):
            one = build(*inputs, aware=aware, compat=compat, folded=True)
            self._folded = Run.of_machine(one)

    def _hold(self, machine: t.Machine) -> None:
        self.machine = machine
        self._margin, self._streams = margins(machine)
        self._limits = allocate(1, t.LIMITS)
        self._folded = None

    @classmethod
    def of_machine(cls, machine: t.Machine) -> Run:
        """Go on with tables as they stand, without what they were made of."""
        run = object.__new__(cls)
        run._hold(machine)
        return run

    @property
    def machine(self) -> t.Machine:
        """The tables, to look at."""
        return self._machine

    @machine.setter
    def machine(self, machine: t.Machine) -> None:
        """Go on with other tables."""
        self._machine, self._call = machine, None

    @property
    def next_ns(self) -> int:
        """The time of the next event, -1 where none is left."""
        return waiting_ns(self._machine)

    @property
    def now_ns(self) -> int:
        """The time of the last event."""
        return int(self._machine.queue[0].now)

    @property
    def events(self) -> int:
        """How many events have been handled."""
        return int(self._machine.clock[0].steps)

    @property
    def folds(self) -> bool:
        """Whether :meth:`step` without a limit simulates one NPU for all."""
        return self.events == 0 and self._folded is not None

    def step(self, events: int = _NEVER) -> bool:
        """Handle so many events, or all; returns whether none is left.

        Parameters
        ----------
        events : int
            However a run is cut into steps, the same happens. A run from the start to the end in
            one step simulates one NPU for all where they are alike (:mod:`._fold`).
        """
        if events >= _NEVER and self.folds and self._folded is not None:
            one, self._folded = self._folded, None
            if one.go() == ENDED and one.machine.clock[0].finished == 1:
                self.machine = unfold(one.machine, self._machine)
                return True
        return self.go(steps=min(self.events + events, _NEVER)) == ENDED

    def go(self, *, steps: int = _NEVER, closely: bool = False, **most: int) -> int:
        """Handle events until there are none or a limit is met.

        Parameters
        ----------
        steps : int
            Most events, counted from the start of the run, as are the following.
        closely : bool
            Whether the following limits, and breakpoints, are looked at before each event.
        **most : int
            ``until_ns``: nothing later is handled; ``turns`` (instants), ``ended`` (operations),
            ``delivered`` (messages), ``phases`` (of chunks): no event begins beyond so many.

        Returns
        -------
        int
            Why it stopped: ``ENDED``, ``STEPS``, ``TIME``, ``REACHED`` or ``BREAK``.
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
                words = (np.asarray(table).view(t.COUNTER) for table in (m.npus, m.operations, m.queues))
                self._call = ENTRY.bind(self._limits, *m, *(w.view(np.recarray) for w in words))
            why = self._call()
            clock = self._machine.clock[0]
            if clock.lost:
                source, target = divmod(int(clock.lost) - 1, len(self._machine.npus))
                raise InputError(
                    f"rank {source} sends to rank {target}, to which no way is known",
                    hint="halvingDoubling needs 2, 4, 8, … NPUs",
                )
            if why != GROW:
                return why
            self.machine = enlarge(self._machine, self._margin, self._streams)

    def record(self, *, on: bool) -> None:
        """Note phases of chunks and traffic from now on, or no longer; what was noted is forgotten."""
        m = self._machine
        self.machine = m._replace(**notes(m.operations, m.config[0], len(m.dims), len(m.links), record=on))

    def state_hash(self) -> str:
        """Hash what is simulated: operations, NPUs, queues, time."""
        m = self._machine
        rows = {"operations": m.operations, "npus": m.npus, "queues": m.queues, "places": m.places}
        return digest([*rows.items(), ("now", np.array([self.now_ns, self.events]))])

    def copy(self) -> Run:
        """An independent run in the same state."""
        return Run.of_machine(t.Machine(*(own(table) for table in self._machine)))

    def result(self) -> Result:
        """Read the results.

        Raises
        ------
        Deadlock
            Nothing is left to happen, and an NPU is not done.
        """
        m = self._machine
        if m.clock[0].finished < len(m.npus):
            raise Deadlock(stuck(m))
        end = np.array(m.npus.end_ns, np.int64)
        compute = np.array(m.npus.compute_ns, np.int64)
        clock = m.clock[0]
        return Result(end, compute, end - compute, self.events, int(clock.messages), int(clock.bytes))


def simulate(
    operations: Sequence[Operations],
    network: Network | InfraNetwork,
    system: System,
    *,
    memory: Memory | None = None,
    groups: Mapping[int, Sequence[int]] | None = None,
    aware: bool = False,
    compat: bool = False,
) -> Result:
    """Simulate to the end; the parameters are those of :class:`Run`.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        Something does not fit.
    Deadlock
        A rank waits for something that never comes.

    Examples
    --------
    >>> from astranb.workload.astrasim2 import COLLECTIVE, Operations
    >>> ring = System.from_document(
    ...     {"all-reduce-implementation": ["ring"], "preferred-dataset-splits": 4, "local-mem-bw": 1600}
    ... )
    >>> one = Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": 65536}])
    >>> result = simulate([one] * 4, Network(["Ring"], [4], [50], [500]), ring, compat=True)
    >>> result.end_ns.tolist()
    [14176, 14176, 14176, 14176]
    """
    run = Run(operations, network, system, memory=memory, groups=groups, aware=aware, compat=compat)
    run.step()
    return run.result()
