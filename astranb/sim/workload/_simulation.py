"""``WorkloadSimulation``: the verbs of ``Simulation`` for whole workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from astranb.core.errors import InputError, near
from astranb.core.units import time_ps
from astranb.engine import layers
from astranb.engine.layers import LayerState
from astranb.engine.messages import Run, load
from astranb.engine.messages._state import State
from astranb.engine.protocol import Engine
from astranb.sim._editing import Edited
from astranb.sim._history import History
from astranb.sim._stop import Stop
from astranb.workload import astrasim1
from astranb.workload.astrasim2 import InfraNetwork, Memory, Network, Operations, System

from ._driver import FOREVER, SLICE, Driver
from ._explain import Explained
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
        self._begin(State(run), "workload", checkpoint_bytes)

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
        """Take ASTRA-sim 2.0's or 1.0's files, as they are.

        Parameters
        ----------
        workload, system, network : str or Path
            What the traces' names have before ``.RANK.et``, ``system.json``, ``network.yml``; or
            1.0's layer table, the system's text and the network's JSON, told by their content.
        record, checkpoint_bytes
            As for the class.
        **options
            Those of :func:`astranb.engine.messages.load`: ``memory``, ``groups``, ``aware``,
            ``compat``, …; of 1.0's files those of :func:`astranb.engine.layers.load`:
            ``passes``, ``congested``, ``compat``, ``comm_scale``, …

        Raises
        ------
        InputError
            A file cannot be read or used; the text names it, the place and how to fix it.
        """
        layered = not Path(f"{workload}.0.et").exists() and astrasim1.is_layer_table(workload)
        read: Any = layers.load if layered else load
        return cls.of_run(
            read(workload, system, network, **options),
            title=Path(workload).name, record=record, checkpoint_bytes=checkpoint_bytes,
        )  # fmt: skip

    @classmethod
    def of_run(
        cls,
        run: Run | layers.Run,
        *,
        title: str = "workload",
        record: bool = True,
        checkpoint_bytes: int = _CHECKPOINT_BYTES,
    ) -> WorkloadSimulation:
        """Take a run over, as it stands: nobody else must move it from now on.

        Parameters
        ----------
        run : Run
            As :func:`astranb.engine.messages.load` or :func:`astranb.engine.layers.load`
            gives it.
        title : str
            What it is called.
        record, checkpoint_bytes
            As for the class.
        """
        if not isinstance(run, Run | layers.Run):
            raise InputError(f"not a run: {run!r}", hint="astranb.workload.astrasim2.load(...) gives one")
        run.record(on=record)
        sim = object.__new__(cls)
        state: Engine = State(run) if isinstance(run, Run) else LayerState(run)
        sim._begin(state, title, checkpoint_bytes)
        return sim

    def _begin(self, state: Engine, title: str, checkpoint_bytes: int) -> None:
        self.title = title
        self._start(Driver(state, History(checkpoint_bytes), []))

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
            chunk of a collective; of ASTRA-sim 1.0's files ``"pass"``: up to the end of a pass of
            the training loop, and no messages.

        Returns
        -------
        Stop
            Earlier only at the end or at a breakpoint.

        Raises
        ------
        Deadlock
            Nothing is left to happen, and a rank is not done: the text says what it waits for.
        """
        field = self._counter(n, unit)
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
        field = self._counter(n, unit)
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
        other.title = self.title
        driver = self._driver
        other._start(Driver(driver.state.copy(), driver.history.copy(), list(driver.edits)))
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
        self._driver.edit(self.state.read_edit(path, value))
        self._stop("edit")

    # Moving time -------------------------------------------------------------

    def _go(self, *, why: str = "steps", **limits: int) -> Stop:
        """Every verb that goes forward ends here."""
        self._beat_s = perf_counter()
        points = [p for p in self._points if p.enabled]
        found, point = self._driver.forward(self, points, self._beat, **limits)
        if self.finished:
            self.state.check(self._driver.edits)  # a deadlock is an error
        return self._stop(why if found == "reached" else found, point)

    def _return_to(self, field: str, target: int) -> Stop:
        self._driver.back_to(field, target)
        return self._stop("back")

    def _ways(self, link: str, both: bool) -> list[str]:
        return self.state.ways(link, both=both)

    def _counter(self, n: int, unit: str) -> str:
        units = self.state.units
        if unit not in units:
            raise InputError(f"unknown unit {unit!r}", where="unit", hint=near(unit, units))
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            what = f"the number of steps must be a whole number and not negative, got {n!r}"
            raise InputError(what, where="n")
        return units[unit]
