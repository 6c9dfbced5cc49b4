"""A run of ASTRA-sim 2.0's workloads as something that has a history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from astranb.core.errors import InputError
from astranb.core.state import allocate, digest
from astranb.engine.cacheline._edits import Parameter
from astranb.sim._breakpoints import Breakpoint
from astranb.sim._why import Why

from . import _breakpoints as breakpoints
from . import _tables as t
from ._about import ABOUT, About
from ._critical import Piece, critical_path
from ._edits import Edit, apply_edit, check_links, parameters_of, read_edit, value_of
from ._ends import other_way
from ._inspect import chunks_of, inspect, narrate, running_chunks, states_of
from ._loop import DTYPES
from ._paths import FIELDS, Place, field_of, resolve
from ._readers import NOTED, READERS
from ._ready import ready_ps, slow_ranks
from ._run import Run
from ._spans import LANES, Spans, computed_ns, pairs, spans_of
from ._traffic import collectives, dimension, links
from ._why import explain_wait

if TYPE_CHECKING:
    from astranb.sim.workload._standing import Standing

__all__ = ["COUNTS", "UNITS", "State"]

UNITS = {"event": "events", "cycle": "turns", "operation": "ended", "message": "delivered", "phase": "phases"}
"""The steps there are, and what counts them."""

COUNTS = ("events", "turns", "ended", "delivered", "phases", "now_ps")
"""What moments are named by: events, instants, operations, messages, phases of chunks, time."""

_NOT_KEPT = (*t.FIXED, "points", "passed")
_OWNERS = {"rank": 0, "op": 1, "queue": 2}
_CONFIG = {
    "splits": "chunks of a collective", "concurrent": "chunks at once", "aware": "congestion",
    "endpoint_ns": "endpoint delay", "queues": "queues", "rendezvous": "rendezvous",
}  # fmt: skip
_PLACES = ("CPU", "GPU", "network", "receives")


class State:
    """What moves a run of ASTRA-sim 2.0's workloads (:class:`._engine.Engine`).

    Parameters
    ----------
    run : Run
    about : About, optional
        Gathered from the run unless given.
    base_ns : ndarray, optional
        Durations of operations before any edit: as they are now unless given.
    """

    dtypes: ClassVar = DTYPES
    tables_of: ClassVar = t.Machine
    units: ClassVar[Mapping[str, str]] = UNITS
    kinds: ClassVar[Sequence[str]] = tuple(breakpoints.EVENTS)
    places: ClassVar[Sequence[str]] = ()

    def __init__(self, run: Run, about: About | None = None, base_ns: Any = None) -> None:
        self.run = run
        self.about = About.of(run) if about is None else about
        self.base_ns = np.array(run.machine.operations.duration_ns) if base_ns is None else base_ns

    @property
    def machine(self) -> t.Machine:
        """The tables as they are now; a table that grows is another one."""
        return self.run.machine

    @property
    def lanes(self) -> Sequence[str]:
        """The lanes of a rank: without that of remote memory where nothing asks for any."""
        return LANES if (self.about.kind == t.MEMORY).any() else LANES[:2]

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.machine.npus)

    @property
    def stands_for(self) -> int:
        """Each for itself."""
        return 1

    def config(self) -> dict[str, int]:
        """Numbers that the run was made with."""
        row = self.machine.config[0]
        return {said: int(row[name]) for name, said in _CONFIG.items()}

    @property
    def longest_ps(self) -> int:
        """What the operations of a rank take at most, one after another, as far as it is known."""
        rows = self.machine.operations
        return int(np.bincount(rows.npu, rows.duration_ns.astype(float)).max(initial=0.0)) * 1000

    # Time --------------------------------------------------------------------

    @property
    def now_ps(self) -> int:
        """The time of the last event."""
        return self.run.now_ns * 1000

    @property
    def next_ps(self) -> int:
        """Time of the next event; -1 where none is left."""
        following = self.run.next_ns
        return following * 1000 if following >= 0 else -1

    def count(self, name: str) -> int:
        """Give one of :data:`COUNTS`."""
        m = self.machine
        if name == "now_ps":
            return self.now_ps
        if name == "turns":
            return int(m.queue[0].turns)
        return int(m.clock[0]["steps" if name == "events" else name])

    def counts(self) -> dict[str, int]:
        """Give all of :data:`COUNTS`."""
        return {name: self.count(name) for name in COUNTS}

    def kept(self) -> dict[str, memoryview]:
        """Give what a checkpoint holds: what changes, and what is noted but not too long."""
        tables = self.machine._asdict()
        return {
            name: memoryview(np.asarray(table).view(np.uint8).reshape(-1))  # type: ignore[arg-type]
            for name, table in tables.items()
            if name not in _NOT_KEPT
        }

    def resize(self, sizes: Mapping[str, int]) -> None:
        """Make the tables as long as they were at a checkpoint."""
        changed = {}
        for name, size in sizes.items():
            table = getattr(self.machine, name)
            if table.nbytes != size:
                changed[name] = allocate(size // table.itemsize, table.dtype)
        if changed:
            self.run.machine = self.machine._replace(**changed)

    @property
    def state_bytes(self) -> int:
        """Bytes of the simulated state."""
        return sum(table.nbytes for name, table in self.machine._asdict().items() if name not in t.NOTES)

    def digest(self) -> str:
        """Hash all that is simulated, but nothing that is noted (32 hex digits)."""
        return digest((n, table) for n, table in self.machine._asdict().items() if n not in t.NOTES)

    def copy(self) -> State:
        """An independent one."""
        return State(self.run.copy(), self.about, self.base_ns)

    def go(self, *, steps: int, closely: bool, until_ps: int | None = None, **most: int) -> int:
        """Handle events up to the limits."""
        if until_ps is not None:
            most["until_ns"] = until_ps // 1000
        return self.run.go(steps=steps, closely=closely, **most)

    def check(self, edits: Sequence[Edit]) -> None:
        """Nothing is left to happen: a rank that is not done is an error, which names a dead link."""
        if self.machine.clock[0].finished < self.ranks:
            check_links(self.about, self.machine, edits)
        self.run.result()

    # Stopping and changing ---------------------------------------------------

    @property
    def _owners(self) -> tuple[Any, ...]:
        return self.machine.npus, self.machine.operations, self.machine.queues

    def install(self, points: Sequence[Breakpoint]) -> list[Breakpoint]:
        """Write breakpoints into the machine; returns the breakpoint of each row."""
        return breakpoints.install(points, self.machine, self._owners)

    def on_event(self, kind: str | None, path: str | None) -> Breakpoint:
        """Stop after an event of a kind that concerns an object."""
        return breakpoints.on_event(kind, path, self.about, self.machine)

    def condition(self, text: str) -> Breakpoint:
        """Stop when a condition on a field begins to hold."""

        def find(path: str, name: str) -> breakpoints.Found:
            place = resolve(path, self.about, self.machine)
            return breakpoints.Found(
                place.path, _OWNERS.get(place.kind, -1), place.rows, field_of(place, name)
            )

        return breakpoints.condition(text, find, self._owners)

    def reason(self, point: Breakpoint) -> str:
        """What was found at a condition, in words; empty for an event."""
        return breakpoints.reason(point, self.machine, self._owners)

    def fields(self, path: str) -> Sequence[str]:
        """What a condition may name of an object."""
        return tuple(FIELDS.get(resolve(path, self.about, self.machine).kind, ()))

    def readers(self, path: str) -> tuple[str, dict[str, Callable[[Any], float]]]:
        """An object's full path, and what can be followed of it."""
        place = resolve(path, self.about, self.machine)
        return place.path, {word: partial(_read, read, place) for word, read in READERS[place.kind].items()}

    def recorded(self, path: str) -> frozenset[str]:
        """What of it a run knows only where it records."""
        return NOTED.get(resolve(path, self.about, self.machine).kind, frozenset())

    def parameters(self, path: str, edits: Sequence[Edit]) -> list[Parameter]:
        """What can be changed of an object, as it stands now."""
        place = resolve(path, self.about, self.machine)
        return parameters_of(place, self.machine, edits)

    def ways(self, link: str, *, both: bool) -> list[str]:
        """A link's full path, and, if wanted, that of the one the other way."""
        place = resolve(link, self.about, self.machine)
        if place.kind != "link":
            raise InputError(f"{place.path} is not a link", where="kill", hint="write link[7]")
        back = other_way(self.machine, place.rows[0]) if both else -1
        if both and back < 0:
            hint = "kill each of the two; links of an infrastructure are named one by one"
            raise InputError("its other direction is not known", where=place.path, hint=hint)
        return [place.path, f"link[{back}]"] if both else [place.path]

    def read_edit(self, path: str, value: float | str | bool) -> Edit:
        """Check a change and make an edit of it."""
        return read_edit(self.count("events"), self.now_ps, path, value, self.about, self.machine)

    def number(self, edit: Edit, edits: Sequence[Edit]) -> float:
        """What an edit is about as it is now, in the unit of the edit's field."""
        return value_of(edit.kind, edit.field, edit.rows[0], self.machine, edits)

    def apply(self, edit: Edit, edits: Sequence[Edit]) -> None:
        """Carry an edit out."""
        del edits  # each stands for itself
        apply_edit(edit, self.machine, self.base_ns)

    # Looking -----------------------------------------------------------------

    @property
    def recording(self) -> bool:
        """Whether phases of chunks and traffic are noted."""
        return bool(self.machine.watch[0].recording)

    def inspect(self, sim: Standing, path: str) -> dict[str, Any]:
        """Look at an object."""
        return inspect(sim, path)

    def narrate(self, sim: Standing) -> str:
        """Say in one line what happened last."""
        return narrate(sim)

    def changed(self) -> str:
        """The rank that the last event was about."""
        watch = self.machine.watch[0]
        return f"rank[{int(watch.npu)}]" if self.count("events") and watch.what >= 0 else ""

    def times_ps(self) -> tuple[np.ndarray, np.ndarray]:
        """When each of the ranks' operations began and ended."""
        rows: Any = self.machine.operations[: self.about.own]
        start, end = np.asarray(rows.start_ns), np.asarray(rows.end_ns)
        return np.where(start >= 0, start * 1000, -1), np.where(end >= 0, end * 1000, -1)

    def states(self, rows: Any) -> Any:
        """Numbers of the states of operations."""
        return states_of(self.machine, rows)

    def progress(self, row: int) -> tuple[int, int]:
        """How many chunks of an operation are done, of how many."""
        return chunks_of(self.machine, row)

    def ends_ps(self) -> np.ndarray:
        """When each rank was done."""
        end = np.asarray(self.machine.npus.end_ns)
        return np.where(end >= 0, end * 1000, -1)

    def computed_ps(self) -> np.ndarray:
        """What each rank's GPU has computed."""
        return computed_ns(self.machine, self.about.own, self.run.now_ns) * 1000

    def passed(self) -> dict[str, np.ndarray]:
        """Phases of chunks that are over, in the order of their ends, as far as they are kept."""
        m = self.machine
        count, most = int(m.watch[0].passed), len(m.passed)
        rows: Any = m.passed[:count]
        if count > most:
            rows = m.passed[np.arange(count - most, count) % most]
        return {
            **{name: np.asarray(rows[name]) for name in ("npu", "operation", "phase", "dim", "algorithm")},
            "chunk": np.asarray(rows.tag) % t.NATIVE_TAGS,
            **{f"{name}_ps": np.asarray(rows[f"{name}_ns"]) * 1000 for name in ("queued", "begun", "end")},
        }

    def running(self) -> list[np.ndarray]:
        """Phases under way: ranks, dimensions, operations, and when they began."""
        npu, dim, operation, begun = running_chunks(self.machine)
        return [npu, dim, operation, begun * 1000]

    def tracks(self, sim: Standing) -> tuple[Spans, np.ndarray, Sequence[str]]:
        """Spans of operations, the place of each, and the places' names."""
        spans = spans_of(sim)
        return spans, np.asarray(self.machine.operations.place)[spans.row], _PLACES

    def lane_spans(self, sim: Standing) -> Spans:
        """The operations: a lane is what they do."""
        return spans_of(sim)

    def arrows(self, sim: Standing) -> tuple[np.ndarray, np.ndarray]:
        """Sends and their receives."""
        return pairs(sim)

    def critical_path(self, sim: Standing) -> list[Piece]:
        """The operations each of which had to wait for the one before."""
        return critical_path(sim)

    def ready_ps(self, sim: Standing) -> np.ndarray:
        """From when on each operation that has begun waits for no other rank."""
        return ready_ps(sim)

    def why(self, sim: Standing, path: str) -> Why:
        """Follow the waits of a rank or an operation."""
        return explain_wait(sim, path)

    def slow(self) -> list[tuple[int, float]]:
        """Ranks that compute longer than the one in the middle; the slowest first."""
        return slow_ranks(self.machine, self.about.own)

    def dimension(self, sim: Standing, dim: int) -> dict[str, Any]:
        """What was sent in a dimension."""
        return dimension(sim, dim)

    def tables(self, sim: Standing) -> dict[str, Callable[[], Any]]:
        """Collectives over their ranks, and links."""
        return {"collectives": lambda: collectives(sim), "links": lambda: links(sim)}

    def lines(self, sim: Standing) -> list[str]:
        """Nothing else."""
        del sim
        return []

    # Files -------------------------------------------------------------------

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What the tables do not say: names, and what depends on what."""
        about = self.about
        said = {"names": about.names, "topology": about.topology, "own": about.own, "links": about.links}
        return said, {
            **{f"about/{name}": getattr(about, name) for name in ABOUT},
            "base_ns": self.base_ns,
        }

    @classmethod
    def loaded(cls, said: Mapping[str, Any], data: Mapping[str, np.ndarray], machine: Any) -> State:
        """Make one of what :meth:`saved` gave and of tables.

        Raises
        ------
        InputError
            Something is missing.
        """
        try:
            about = About(
                **{name: data[f"about/{name}"] for name in ABOUT},
                names=said["names"], topology=said["topology"], own=said["own"],
                name_links=partial(list, said["links"]),
            )  # fmt: skip
            return cls(Run.of_machine(cast("t.Machine", machine)), about, data["base_ns"])
        except KeyError as error:
            raise InputError(f"{error} is missing") from error


def _read(read: Callable[[t.Machine, Place], int], place: Place, machine: t.Machine) -> int:
    return read(machine, place)
