"""A run of ASTRA-sim 1.0's layer tables as something that has a history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from astranb.core.errors import InputError
from astranb.engine.cacheline._edits import Parameter
from astranb.engine.messages import _breakpoints as breakpoints
from astranb.engine.messages._critical import Piece
from astranb.engine.messages._edits import Edit
from astranb.engine.messages._spans import Spans, spans_of
from astranb.sim._breakpoints import Breakpoint
from astranb.sim._why import Why

from . import _changes, _looking
from . import _result_tables as _tables
from . import _tables as t
from ._about import about_of
from ._loop import DTYPES
from ._paths import FIELDS, find, resolve
from ._run import Run, owners
from ._store import run_of, said_of

if TYPE_CHECKING:
    from astranb.sim.workload._standing import Standing

__all__ = ["LayerState"]

_COUNTS = ("events", "turns", "ended", "phases", "passes", "now_ps")
_NOT_KEPT = (*t.FIXED, "points", "passed")


class LayerState:
    """What moves a run of layer tables (:class:`.._engine.Engine`): one rank stands for all.

    Parameters
    ----------
    run : Run
    base_ps : ndarray, optional
        Times of the program before any edit: as they are now unless given.
    """

    dtypes: ClassVar = DTYPES
    tables_of: ClassVar = t.Machine
    units: ClassVar[Mapping[str, str]] = {
        "event": "events", "cycle": "turns", "operation": "ended", "phase": "phases", "pass": "passes",
    }  # fmt: skip
    kinds: ClassVar[Sequence[str]] = tuple(_changes.EVENTS)
    lanes: ClassVar[Sequence[str]] = ("compute", "communication", "waiting")

    def __init__(self, run: Run, base_ps: Any = None) -> None:
        self.run = run
        self.about, self.program = about_of(run)
        self.base_ps = np.array(run.machine.operations.time_ps) if base_ps is None else base_ps

    @property
    def machine(self) -> t.Machine:
        """The tables as they are now."""
        return self.run.machine

    @property
    def ranks(self) -> int:
        """One, whatever the network."""
        return 1

    @property
    def stands_for(self) -> int:
        """All ranks of the network."""
        return self.run.network.npus

    @property
    def places(self) -> Sequence[str]:
        """The layers."""
        return [f"layer[{layer.name}]" for layer in self.run.workload.layers]

    def config(self) -> dict[str, int]:
        """Numbers that the run was made with."""
        clock = self.machine.clock[0]
        return {
            "passes": len(self.machine.pass_ends),
            "chunks at once": int(clock.concurrent),
            "queues": int(clock.queues),
        }

    @property
    def longest_ps(self) -> int:
        """What the computations of the program take."""
        rows = self.machine.operations
        return int(rows.time_ps[rows.kind == t.COMPUTE].sum())

    # Time --------------------------------------------------------------------

    @property
    def now_ps(self) -> int:
        """The time of the last event."""
        return self.run.now_ps

    @property
    def next_ps(self) -> int:
        """Time of the next event; -1 where none is left."""
        return self.run.next_ps

    def count(self, name: str) -> int:
        """Events, instants, operations, phases of chunks, passes, or the time."""
        return int(self.machine.clock[0][name])

    def counts(self) -> dict[str, int]:
        """Give all of them."""
        return {name: self.count(name) for name in _COUNTS}

    def kept(self) -> dict[str, memoryview]:
        """Give what a checkpoint holds: what changes, and what is noted but not too long."""
        tables = self.machine._asdict()
        return {
            name: memoryview(np.asarray(table).view(np.uint8).reshape(-1))  # type: ignore[arg-type]
            for name, table in tables.items()
            if name not in _NOT_KEPT
        }

    def resize(self, sizes: Mapping[str, int]) -> None:
        """Do nothing: no table ever grows."""

    @property
    def state_bytes(self) -> int:
        """Bytes of the simulated state."""
        return sum(table.nbytes for name, table in self.machine._asdict().items() if name not in t.NOTES)

    def digest(self) -> str:
        """Hash all that is simulated, but nothing that is noted (32 hex digits)."""
        return self.run.state_hash()

    def copy(self) -> LayerState:
        """An independent one."""
        other = object.__new__(LayerState)
        other.run, other.about, other.program = self.run.copy(), self.about, self.program
        other.base_ps = self.base_ps
        return other

    def go(self, *, steps: int, closely: bool, until_ps: int | None = None, **most: int) -> int:
        """Handle events up to the limits."""
        if until_ps is not None:
            most["until_ps"] = until_ps
        return self.run.go(steps=steps, closely=closely, **most)

    def check(self, edits: Sequence[Edit]) -> None:
        """Do nothing: a loop ends, and its collectives do."""

    # Stopping and changing ---------------------------------------------------

    def install(self, points: Sequence[Breakpoint]) -> list[Breakpoint]:
        """Write breakpoints into the machine; returns the breakpoint of each row."""
        return breakpoints.install(points, self.machine, owners(self.machine))

    def on_event(self, kind: str | None, path: str | None) -> Breakpoint:
        """Stop after an event of a kind that concerns an object."""
        return _changes.on_event(kind, path, self.run, self.about, self.program)

    def condition(self, text: str) -> Breakpoint:
        """Stop when a condition on a field begins to hold."""

        def found(path: str, name: str) -> breakpoints.Found:
            return find(path, name, self.run, self.about, self.program)

        return breakpoints.condition(text, found, owners(self.machine))

    def reason(self, point: Breakpoint) -> str:
        """What was found at a condition, in words; empty for an event."""
        return breakpoints.reason(point, self.machine, owners(self.machine))

    def fields(self, path: str) -> Sequence[str]:
        """What a condition may name of an object."""
        return tuple(FIELDS[resolve(path, self.run, self.about).kind])

    def readers(self, path: str) -> tuple[str, dict[str, Callable[[Any], float]]]:
        """An object's full path, and what can be followed of it: what conditions may name."""
        place = resolve(path, self.run, self.about)
        found: dict[str, Callable[[Any], float]] = {}
        for word in FIELDS[place.kind]:
            try:
                where = find(path, word, self.run, self.about, self.program)
            except InputError:  # a computation has no chunks
                continue
            found[word] = partial(_read, where)
        return place.path, found

    def recorded(self, path: str) -> frozenset[str]:
        """Nothing that can be followed is only known where a run records."""
        del path
        return frozenset()

    def ways(self, link: str, *, both: bool) -> list[str]:
        """Links of a layer table's network are the same everywhere in a dimension, and cannot be named."""
        del both
        hint = "change dim[N].bandwidth, or take ASTRA-sim 2.0's files"
        raise InputError("a layer table's network has no single links", where=link[:80], hint=hint)

    def parameters(self, path: str, edits: Sequence[Edit]) -> list[Parameter]:
        """What can be changed of an object, as it stands now."""
        return _changes.parameters(resolve(path, self.run, self.about), self.run, edits)

    def read_edit(self, path: str, value: float | str | bool) -> Edit:
        """Check a change and make an edit of it."""
        return _changes.read_edit(path, value, self.run, self.about)

    def number(self, edit: Edit, edits: Sequence[Edit]) -> float:
        """What an edit is about as it is now, in the unit of the edit's field."""
        return _changes.number(edit, edits, self.run)

    def apply(self, edit: Edit, edits: Sequence[Edit]) -> None:
        """Carry an edit out, behind those that were carried out before."""
        _changes.apply(edit, edits, self.run, self.base_ps)

    # Looking -----------------------------------------------------------------

    @property
    def recording(self) -> bool:
        """Whether phases of chunks are noted."""
        return bool(self.machine.watch[0].recording)

    def inspect(self, sim: Standing, path: str) -> dict[str, Any]:
        """Look at an object."""
        return _looking.inspect(sim, self, path)

    def narrate(self, sim: Standing) -> str:
        """Say in one line what happened last."""
        del sim
        return _looking.narrate(self)

    def changed(self) -> str:
        """The rank, once something has happened."""
        return "rank[0]" if self.run.events and self.machine.watch[0].what >= 0 else ""

    def times_ps(self) -> tuple[np.ndarray, np.ndarray]:
        """When each operation began and ended."""
        rows: Any = self.machine.operations
        return np.asarray(rows.begun_ps)[self.program.at], np.asarray(rows.ended_ps)[self.program.at]

    def states(self, rows: Any) -> Any:
        """Numbers of the states of operations."""
        return _looking.states_of(self, rows)

    def progress(self, row: int) -> tuple[int, int]:
        """How many chunks of an operation are done, of how many."""
        if self.about.kind[row] == 0:
            return 0, 0
        c = self.machine.collectives[int(self.machine.operations.slot[int(self.program.at[row])])]
        return int(c.over), int(c.chunks)

    def ends_ps(self) -> np.ndarray:
        """When the run was over."""
        clock = self.machine.clock[0]
        return np.array([int(clock.end_ps) if clock.ending == 2 else -1], np.int64)

    def computed_ps(self) -> np.ndarray:
        """What has been computed, summed."""
        m, row = self.machine, int(self.machine.clock[0].computing)
        left = int(m.operations.begun_ps[row] + m.operations.time_ps[row]) - self.now_ps if row >= 0 else 0
        return np.array([int(m.clock[0].compute_ps) - left], np.int64)

    def passed(self) -> dict[str, np.ndarray]:
        """Phases of chunks that are over, in the order of their ends, as far as they are kept."""
        m = self.machine
        count, most = int(m.watch[0].passed), len(m.passed)
        rows: Any = m.passed[:count]
        if count > most:
            rows = m.passed[np.arange(count - most, count) % most]
        phase = np.asarray(rows.phase)
        return {
            "npu": np.zeros(len(rows), np.int64),
            "operation": self.program.of[np.asarray(rows.operation)],
            "chunk": np.asarray(rows.chunk),
            "phase": np.asarray(rows.nth),
            "dim": np.asarray(m.phases.queue)[phase] // int(m.clock[0].queues),
            "algorithm": self.run.planned["algorithm"][phase],
            **{name: np.asarray(rows[name]) for name in ("queued_ps", "begun_ps", "end_ps")},
        }

    def running(self) -> list[np.ndarray]:
        """Phases under way: ranks, dimensions, operations, and when they began."""
        m = self.machine
        rows: Any = m.streams[np.flatnonzero(m.streams.running == 1)]
        operation = self.program.of[np.asarray(m.collectives.operation)[rows.collective]]
        dim = np.asarray(m.phases.queue)[rows.phase] // int(m.clock[0].queues)
        return [np.zeros(len(rows), np.int64), dim, operation, np.asarray(rows.started_ps)]

    def lane_spans(self, sim: Standing) -> Spans:
        """The operations, and behind them where the program waits for what."""
        spans = spans_of(sim)
        row, start, end = _looking.waits_of(self)
        real = row >= 0
        row, start, end = row[real], start[real], end[real]
        return Spans(
            np.concatenate([spans.row, row]),
            np.concatenate([spans.npu, np.zeros(len(row), np.int64)]),
            np.concatenate([spans.lane, np.full(len(row), 2)]),
            np.concatenate([spans.start_ps, start]),
            np.concatenate([spans.end_ps, np.where(end >= 0, end, self.now_ps)]),
        )

    def tracks(self, sim: Standing) -> tuple[Spans, np.ndarray, Sequence[str]]:
        """The same for a trace."""
        spans = self.lane_spans(sim)
        return spans, spans.lane, self.lanes

    def arrows(self, sim: Standing) -> tuple[np.ndarray, np.ndarray]:
        """Nothing: no single messages are simulated."""
        del sim
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def critical_path(self, sim: Standing) -> list[Piece]:
        """The operations each of which had to wait for the one before."""
        del sim
        return _tables.critical_path(self)

    def ready_ps(self, sim: Standing) -> np.ndarray:
        """At once: all ranks do the same at the same time."""
        del sim
        return np.zeros(self.about.own, np.int64)

    def why(self, sim: Standing, path: str) -> Why:
        """What the loop does or waits for."""
        return _looking.why(sim, self, path)

    def slow(self) -> list[tuple[int, float]]:
        """None: all ranks are alike."""
        return []

    def dimension(self, sim: Standing, dim: int) -> dict[str, Any]:
        """What was sent in a dimension."""
        edits = sim._driver.edits  # noqa: SLF001 - the engine of that driver
        bandwidth = _changes.bandwidth_now(self.run, edits, dim)
        return _tables.dimension(self, dim, sim.result.time_ps, bandwidth)

    def tables(self, sim: Standing) -> dict[str, Callable[[], Any]]:
        """Collectives and layers."""
        del sim
        return {"collectives": lambda: _tables.collectives(self), "layers": lambda: _tables.layers(self)}

    def lines(self, sim: Standing) -> list[str]:
        """The layers that are waited for most."""
        del sim
        return _tables.lines(self)

    # Files -------------------------------------------------------------------

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The inputs, and how phases were planned: no code, so that loops of one's own are not needed."""
        columns = {"sent": self.run.sent, "planned": self.run.planned, "base_ps": self.base_ps}
        return said_of(self.run), columns

    @classmethod
    def loaded(cls, said: Mapping[str, Any], data: Mapping[str, np.ndarray], machine: Any) -> LayerState:
        """Make one of what :meth:`saved` gave and of tables."""
        run = run_of(said, data["sent"], data["planned"], cast("t.Machine", machine))
        return cls(run, data["base_ps"])


def _read(where: breakpoints.Found, machine: t.Machine) -> int:
    return int(owners(machine)[where.owner][where.field][list(where.rows)].sum())
