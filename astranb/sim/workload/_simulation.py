"""``WorkloadSimulation``: the verbs of ``Simulation`` for whole workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from astranb.core.errors import Deadlock, InputError, near
from astranb.core.units import format_time, time_ps
from astranb.sim._editing import Edited
from astranb.sim._history import History
from astranb.sim._stop import Stop
from astranb.workload.astrasim2 import InfraNetwork, Memory, Network, Operations, Run, System, load

from ._about import About
from ._driver import FOREVER, SLICE, Driver
from ._edits import dead_links, read_edit
from ._ends import ends_of, other_way, waiting_for
from ._explain import Explained
from ._paths import resolve
from ._standing import UNITS
from ._state import State
from ._stopping import Stopping

__all__ = ["WorkloadSimulation"]

_CHECKPOINT_BYTES = 2**30


class WorkloadSimulation(Stopping, Explained, Edited):
    """One workload on its network, stopped between two events until told to go on.

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
        Whether ASTRA-sim 2.0's peculiarities are kept.
    record : bool
        Whether phases of chunks and traffic are noted. What is simulated does not depend on it.
    checkpoint_bytes : int
        Most memory for going back.

    Raises
    ------
    InputError
        Something does not fit.

    Examples
    --------
    >>> from astranb.workload.astrasim2 import COLLECTIVE, Network, Operations, System
    >>> ring = System.from_document({"all-reduce-implementation": ["ring"], "local-mem-bw": 1600})
    >>> one = Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": 65536}])
    >>> sim = WorkloadSimulation([one] * 4, Network(["Ring"], [4], [50], [500]), ring)
    >>> sim.step(3, "message").events
    15
    >>> before = sim.state_hash()
    >>> sim.step(10).events, sim.back(10).events
    (25, 15)
    >>> sim.state_hash() == before
    True
    >>> sim.run().why
    'end'
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
        record: bool = True,
        checkpoint_bytes: int = _CHECKPOINT_BYTES,
    ) -> None:
        run = Run(
            operations, network, system,
            memory=memory, groups=groups, aware=aware, compat=compat, record=record,
        )  # fmt: skip
        self._begin(State(run), About.of(run), "workload", checkpoint_bytes)

    @classmethod
    def of_files(
        cls,
        workload: str | Path,
        system: str | Path,
        network: str | Path,
        *,
        record: bool = True,
        checkpoint_bytes: int = _CHECKPOINT_BYTES,
        **options: Any,
    ) -> WorkloadSimulation:
        """Take ASTRA-sim 2.0's files, as they are.

        Parameters
        ----------
        workload, system, network : str or Path
            What the traces' names have before ``.RANK.et``, ``system.json``, ``network.yml``.
        record, checkpoint_bytes
            As for the class.
        **options
            Those of :func:`astranb.workload.astrasim2.load`: ``memory``, ``groups``, ``aware``,
            ``compat``, …

        Raises
        ------
        InputError
            A file cannot be read or used; the text names it, the place and how to mend it.
        """
        return cls.of_run(
            load(workload, system, network, **options),
            title=Path(workload).name, record=record, checkpoint_bytes=checkpoint_bytes,
        )  # fmt: skip

    @classmethod
    def of_run(
        cls,
        run: Run,
        *,
        title: str = "workload",
        record: bool = True,
        checkpoint_bytes: int = _CHECKPOINT_BYTES,
    ) -> WorkloadSimulation:
        """Take a run over, as it stands: nobody else must move it from now on.

        Parameters
        ----------
        run : Run
            As :func:`astranb.workload.astrasim2.load` gives it.
        title : str
            What it is called.
        record, checkpoint_bytes
            As for the class.
        """
        if not isinstance(run, Run):
            raise InputError(f"not a run: {run!r}", mend="astranb.workload.astrasim2.load(...) gives one")
        run.record(on=record)
        sim = object.__new__(cls)
        sim._begin(State(run), About.of(run), title, checkpoint_bytes)
        return sim

    def _begin(self, state: State, about: About, title: str, checkpoint_bytes: int) -> None:
        self.title, self.about = title, about
        base = np.array(state.machine.operations.duration_ns)
        self._start(Driver(state, History(checkpoint_bytes), [], base))

    def _start(self, driver: Driver) -> None:
        self._driver = driver
        self._points = []
        self._listeners = []
        self._watches = []
        self.notes: dict[str, Any] = {}  # what views keep with a saved simulation
        self._beat_s = 0.0

    # The verbs ---------------------------------------------------------------

    def step(self, n: int = 1, unit: str = "event") -> Stop:
        """Go on by n events, cycles, operations, messages or phases.

        Parameters
        ----------
        n : int
            How many, at least 0.
        unit : str
            ``"event"``: one handled event; ``"cycle"``: all events of the next instant at which
            something happens; ``"operation"``: up to the end of an operation of any rank;
            ``"message"``: up to a message's arrival; ``"phase"``: up to the end of a phase of a
            chunk of a collective.

        Returns
        -------
        Stop
            Earlier only at the end or at a breakpoint.

        Raises
        ------
        Deadlock
            Nothing is left to happen, and a rank is not done: the text says what it waits for.
        """
        field = _counter(n, unit)
        if n == 0:
            return self._stop("steps")
        target = self.state.count(field) + n
        if unit == "cycle" and self._driver.next_ps == self.now_ps:
            target -= 1
        return self._go(**{field: target}, why="phase" if unit == "phase" else "steps")

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
        return self._go(until_ps=until_ps, events=self.events + max_events, phases=max_phases, why="phase")

    def back(self, n: int = 1, unit: str = "event") -> Stop:
        """Go back by n events, cycles, operations, messages or phases, exactly.

        The nearest checkpoint before is restored and the way from there replayed; edits made
        after the moment one goes back to are undone.
        """
        field = _counter(n, unit)
        if n == 0:
            return self._stop("back")
        target = self.state.count(field) - n
        return self._return_to(*(("events", 0) if target < 0 else (field, target)))

    def goto(self, when: int | str) -> Stop:
        """Go to the moment at which everything up to a time has happened, forwards or back."""
        when_ps = time_ps(when, where="goto")
        return self._go(until_ps=when_ps) if when_ps >= self.now_ps else self._return_to("now_ps", when_ps)

    def fork(self) -> WorkloadSimulation:
        """An independent simulation with the same past, and from now on a future of its own."""
        other = object.__new__(WorkloadSimulation)
        other.title, other.about = self.title, self.about
        driver = self._driver
        other._start(Driver(driver.state.copy(), driver.history.copy(), list(driver.edits), driver.base_ns))
        return other

    def apart(self) -> WorkloadSimulation:
        """A copy to look at the past in."""
        return self.fork()

    def fork_with(self, changes: Mapping[str, Any]) -> WorkloadSimulation:
        """A fork with changes from now on.

        Parameters
        ----------
        changes : mapping of str to value
            As :meth:`set` takes them: ``{"rank[3].speed": 0.5, "dim[0].bandwidth": "25 GB/s"}``.
        """
        other = self.fork()
        for path, value in changes.items():
            other.set(path, value)
        return other

    def save(self, path: str | Path) -> None:
        """Write inputs, edits and state to a file: atomically, without pickle."""
        from ._store import save

        save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> WorkloadSimulation:
        """Read a saved simulation; it continues to the same hash.

        Raises
        ------
        InputError
            The file is not a saved simulation of a workload, or of another version.
        """
        from ._store import load as read

        sim = object.__new__(cls)
        read(sim, Path(path))
        return sim

    def set(self, path: str, value: float | str | bool) -> None:
        """Change something from now on; logged, so that going back undoes it.

        Parameters
        ----------
        path : str
            What :meth:`parameters` names: ``rank[3].speed`` (of computations that have not begun),
            ``dim[0].bandwidth`` or ``dim[0].latency`` (of messages that have not; all its links),
            with congestion ``link[7].bandwidth``, ``link[7].latency`` and ``link[7].up``.
        value : float or str or bool
            A speed as 0.5 (half as fast as described; ``"inf"`` takes no time), else text with a
            unit, as ``"25 GB/s"``; ``up`` takes True and False, ``"yes"`` and ``"no"``.

        Raises
        ------
        InputError
            There is no such thing, or it cannot be that.
        """
        self._driver.edit(read_edit(self.events, self.now_ps, path, value, self.about, self.state.machine))
        self._stop("edit")

    # Moving time -------------------------------------------------------------

    def _go(self, *, why: str = "steps", **limits: int) -> Stop:
        """Every verb that goes forward ends here."""
        self._beat_s = perf_counter()
        points = [p for p in self._points if p.enabled]
        found, point = self._driver.forward(self, points, self._beat, **limits)
        if self.finished:
            self._check()
        return self._stop(why if found == "reached" else found, point)

    def _return_to(self, field: str, target: int) -> Stop:
        self._driver.back_to(field, target)
        return self._stop("back")

    def _check(self) -> None:
        """A run in which nothing is left to happen has ended, or its error says why not."""
        m = self.state.machine
        if m.clock[0].finished < len(m.npus):
            for link in dead_links(m):
                if waiting := waiting_for(m, link):
                    since = max(e.at_ps for e in self._driver.edits if e.field == "up" and link in e.rows)
                    a, b = ends_of(self.about, m, link)
                    messages = "1 message waits" if waiting == 1 else f"{waiting:,} messages wait"
                    raise Deadlock(
                        f"link[{link}] ({a} to {b}) is dead since {format_time(since)}, and {messages} for it"
                    )
        self.state.run.result()  # a deadlock is an error

    def _ways(self, link: str, both: bool) -> list[str]:
        place = resolve(link, self.about, self.state.machine)
        if place.kind != "link":
            raise InputError(f"{place.path} is not a link", where="kill", mend="write link[7]")
        back = other_way(self.state.machine, place.rows[0]) if both else -1
        if both and back < 0:
            mend = "kill each of the two; links of an infrastructure are named one by one"
            raise InputError("its other direction is not known", where=place.path, mend=mend)
        return [place.path, f"link[{back}]"] if both else [place.path]


def _counter(n: int, unit: str) -> str:
    if unit not in UNITS:
        raise InputError(f"unknown unit {unit!r}", where="unit", mend=near(unit, UNITS))
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise InputError(f"the number of steps must be a whole number and not negative, got {n!r}", where="n")
    return UNITS[unit]
