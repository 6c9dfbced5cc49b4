"""A simulation as Python holds it: made, moved on event by event or to its end, and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from astranb.core.errors import Deadlock, InputError
from astranb.core.state import allocate, digest

from . import _tables as t
from ._build import build, margins
from ._durations import Memory
from ._fold import foldable, unfold
from ._infra import InfraNetwork
from ._inputs import Network, System
from ._loop import ENDED, ENTRY, GROW
from ._operations import Operations
from ._pools import enlarge
from ._stuck import stuck

__all__ = ["Result", "Run", "simulate"]

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

    Raises
    ------
    InputError
        Something does not fit.
    """

    def __init__(
        self,
        operations: Sequence[Operations],
        network: Network | InfraNetwork,
        system: System,
        *,
        memory: Memory | None = None,
        groups: Mapping[int, Sequence[int]] | None = None,
        aware: bool = False,
        compat: bool = False,
    ) -> None:
        self.operations, self.network = operations, network
        inputs = (operations, network, system, memory or Memory(), groups or {})
        self._machine = build(*inputs, aware=aware, compat=compat)
        self._margin, self._streams = margins(self._machine)
        self._folded: t.Machine | None = None
        if foldable(*inputs[:4], aware=aware, compat=compat):
            self._folded = build(*inputs, aware=aware, compat=compat, folded=True)

    @property
    def machine(self) -> t.Machine:
        """The tables, to look at."""
        return self._machine

    @property
    def now_ns(self) -> int:
        """The time of the last event."""
        return int(self._machine.queue[0].now)

    @property
    def events(self) -> int:
        """How many events have been handled."""
        return int(self._machine.clock[0].steps)

    def step(self, events: int = _NEVER) -> bool:
        """Handle so many events, or all; returns whether none is left.

        Parameters
        ----------
        events : int
            However a run is cut into steps, the same happens. A run from the start to the end in
            one step simulates one NPU for all where they are alike (:mod:`._fold`).
        """
        if events >= _NEVER and self.events == 0 and self._folded is not None:
            folded, self._folded = self._folded, None
            ended, folded = self._handle(folded, _NEVER)
            if ended and folded.clock[0].finished == 1:
                self._machine = unfold(folded, self._machine)
                return True
        ended, self._machine = self._handle(self._machine, min(self.events + events, _NEVER))
        return ended

    def _handle(self, machine: t.Machine, until: int) -> tuple[bool, t.Machine]:
        """Handle events up to a number; whether none is left, and the machine, enlarged perhaps."""
        limits = allocate(1, t.LIMITS)
        limits.steps = until
        limits.margin, limits.streams = self._margin, self._streams
        while True:
            why = ENTRY(limits, *machine)
            if machine.clock[0].lost:
                source, target = divmod(int(machine.clock[0].lost) - 1, len(machine.npus))
                raise InputError(
                    f"rank {source} sends to rank {target}, to which no way is known",
                    mend="halvingDoubling needs 2, 4, 8, … NPUs",
                )
            if why != GROW:
                return why == ENDED, machine
            machine = enlarge(machine, self._margin, self._streams)

    def state_hash(self) -> str:
        """Hash what is simulated: operations, NPUs, queues, time."""
        m = self._machine
        rows = {"operations": m.operations, "npus": m.npus, "queues": m.queues, "places": m.places}
        return digest([*rows.items(), ("now", np.array([self.now_ns, self.events]))])

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
