"""The message engine: what ``Simulation`` needs of a run of ASTRA-sim 2.0's workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from astranb.core.errors import InputError
from astranb.core.timesteps import NEVER
from astranb.engine.breakpoints import Breakpoint, ConditionField
from astranb.engine.edits import RECORD, REROUTE, Edit, Parameter, no_other_routes, reroute_edit
from astranb.engine.operations import TRACKS, Spans, recent, spans_of
from astranb.engine.protocol import Inputs, Installed
from astranb.workload.astrasim2 import Footprint, PlacedJob

from . import flights, flows, inspection, ready_times, traffic
from . import tables as t
from .breakpoints import EVENTS, on_event
from .build import margins
from .critical_path import critical_path
from .edits import apply_edit, check_links, parameters, read_edit, set_up, value_of
from .instances import pairs
from .link_ends import link_count, reverse_link
from .paths import FIELDS, RunPart, field_of, resolve
from .readers import READERS, RECORDED_WORDS
from .reroute import closed_lanes, renamed, rerouted
from .state import UNITS, MessageState
from .why import explain_wait

__all__ = ["MessageEngine"]

_OWNERS = {"rank": 0, "op": 1, "queue": 2}
_CONFIG = {
    "splits": "chunks of a collective", "concurrent": "chunks at once", "congestion": "congestion",
    "endpoint_ns": "endpoint delay", "queues": "queues", "rendezvous": "rendezvous",
}  # fmt: skip
_PLACES = ("CPU", "GPU", "network", "network, in the background", "receives", "loads and stores")


class MessageEngine(MessageState):
    """A run of ASTRA-sim 2.0's workloads: operations, chunks of collectives, messages."""

    traits: ClassVar = MessageState.traits._replace(units=UNITS, event_kinds=tuple(EVENTS))
    stands_for: ClassVar[int] = 1
    field_names = FIELDS
    inspectors = inspection.INSPECTORS
    example = "rank[3].waiting > 0"

    arrows = pairs
    segments = critical_path
    ready_ps = ready_times.ready_ps
    slow = ready_times.slow_ranks
    why = explain_wait
    dimension = traffic.dimension
    link_graph = flights.link_graph
    link_path = flights.link_path
    queues = flights.queues
    recorded_flights = flights.recorded_flights
    flights = flights.flights
    flow_columns = flows.flow_columns

    @property
    def recorded_from(self) -> int:
        """The number of the first message (with congestion: on a link) that the recording still has."""
        return flights.kept_flights(self)[1]

    @property
    def tracks(self) -> Sequence[str]:
        """The tracks of a rank: without that of remote memory where no operation uses one."""
        return TRACKS if (self.about.kind == t.MEMORY).any() else TRACKS[:2]

    @property
    def owners(self) -> Sequence[Any]:
        """NPUs, operations and queues."""
        return self.machine.npus, self.machine.operations, self.machine.queues

    def config(self) -> dict[str, int]:
        """Numbers that the run was made with."""
        row = self.machine.config[0]
        return {words: int(row[name]) for name, words in _CONFIG.items()}

    @property
    def longest_ps(self) -> int:
        """The longest sum of the known durations of a rank's operations."""
        rows = self.machine.operations
        return int(np.bincount(rows.npu, rows.duration_ns.astype(float)).max(initial=0.0)) * 1000

    @property
    def shortcut(self) -> Self:  # type: ignore[override] # what it can do at once is what it is asked
        """Itself: a folded run goes to its end, and makes its start again."""
        return self

    def copy(self, *, record: bool = True, show: bool = False) -> Self:
        """An independent engine in the same state."""
        del record, show  # what is recorded is small
        return type(self)(
            self.run.copy(), self.title, self.only, self._about, self._base_ns, self.edits,
            None if self.routed is None else self.routed.copy(),
        )  # fmt: skip

    def go(self, *, steps: int, closely: bool, until_ps: int | None = None, **most: int) -> int:
        """Handle events up to the limits."""
        if until_ps is not None:
            most["until_ns"] = until_ps // 1000
        return int(self.run.go(steps=steps, closely=closely, **most))

    def finish(self) -> bool:
        """Simulate a few NPUs for all where they do the same and nothing is recorded."""
        return not (self.recording or self.edits) and self.run.finish_folded()

    def install(self, points: Sequence[Breakpoint]) -> Installed:
        """Write breakpoints into the machine; without any, it need not be made."""
        return super().install(points) if points or self.run.made else Installed((), lambda: -1)

    def check(self, why: int) -> None:
        """Raise an error where no event is left before ``NEVER`` and a rank is not done."""
        del why
        if 0 <= self.run.next_ns < NEVER:
            return
        if self.next_ps < 0 and self.run.outline.clock[0].finished < self.ranks:
            check_links(self.about, self.machine, self.edits)
        self.run.result()

    def others(self) -> Iterable[str]:
        """Paths of links, which only runs with congestion have."""
        return (f"link[{link}]" for link in range(link_count(self.about, self.machine)))

    def resolve(self, path: str) -> RunPart:
        """Find what a path names."""
        part = self._named(path)
        if not part.rows:
            raise InputError("no message takes this link", where=path, hint="name another one")
        return part

    def _named(self, path: str) -> RunPart:
        """Find what a path names; of an infrastructure's link those that messages take, maybe none."""
        if "->" not in path or self.routed is None:
            return resolve(path, self.about, self.machine)
        lanes = self.routed.lanes_of(path)
        return RunPart("link", self.routed.fabric.graph.full(path), self.routed.over(self.machine, lanes))

    def on_event(self, kind: str | None, path: str | None) -> Breakpoint:
        """Stop after an event of a kind that concerns an object."""
        return on_event(kind, path, self.about, self.machine)

    def condition_field(self, path: str, word: str) -> ConditionField:
        """Find the field that a condition's word means."""
        place = self.resolve(path)
        return ConditionField(
            place.path, _OWNERS.get(place.kind, -1), place.rows, field_of(place, word), word
        )

    def readers(self, path: str) -> tuple[str, dict[str, Callable[[Any], float]]]:
        """An object's full path, and what can be watched of it."""
        place = self.resolve(path)
        return place.path, {word: partial(_read, read, place) for word, read in READERS[place.kind].items()}

    def recorded(self, path: str) -> frozenset[str]:
        """The words that a run knows only where it records."""
        return RECORDED_WORDS.get(self.resolve(path).kind, frozenset())

    def parameters(self, path: str) -> list[Parameter]:
        """Return the parameters of an object with their values now."""
        return parameters(self.resolve(path), self.machine, self.edits) if path else []

    def _other_direction(self, path: str) -> str:
        """The same parameter of the other direction of a link."""
        link, _, word = path.rpartition(".")
        place = self._named(link)
        if place.kind != "link":
            raise InputError(f"{place.path} is not a link", where="take_down", hint="write link[7]")
        if "->" in place.path:
            ends, hash_, lane = place.path.partition("#")
            a, _, b = ends.partition("->")
            return f"{b}->{a}{hash_}{lane}.{word}"
        other = reverse_link(self.machine, place.rows[0])
        if other < 0:
            hint = "name both ends: A->B; or take down each of the two"
            raise InputError("its other direction is not known", where=place.path, hint=hint)
        return f"link[{other}].{word}"

    def read_edit(self, path: str, value: float | str | bool, *, back: bool = False) -> Edit:
        """Check a change and make an edit of it; ``back``: of the other direction of a link."""
        if path == RECORD:
            raise self.no_switch(value)
        if back:
            path = self._other_direction(path)
        if path == REROUTE:
            if self.routed is None:
                raise no_other_routes(REROUTE)
            return reroute_edit(self.count("events"), value, self.now_ps)
        return read_edit(self.count("events"), self.now_ps, path, value, self._named, self.machine)

    def number(self, edit: Edit) -> float:
        """The present value of what an edit changes, in the unit of its field."""
        return value_of(edit.kind, edit.field, edit.rows[0], self.machine, self.edits)

    def apply(self, edit: Edit) -> None:
        """Carry an edit out."""
        if edit.path == REROUTE:
            assert self.routed is not None  # noqa: S101 - read_edit has checked it
            closed = closed_lanes(self.routed, self.machine, self.edits)
            margin = margins(self.machine)
            self.run.machine = rerouted(self.machine, self.routed, closed, int(edit.number), margin)
            self._about = renamed(self.about, self.routed, self.machine)
        elif edit.field == "up" and "->" in edit.path and self.routed is not None:
            # A link of several lanes is up where all of them are.
            closed = closed_lanes(self.routed, self.machine, [*self.edits, edit])
            down = self.routed.down_of(self.machine, edit.rows, closed)
            set_up(self.machine, edit.rows, down, edit.at_ps)
        else:
            apply_edit(edit, self.machine, self.base_ns)

    def happened(self, watch: Any) -> str:
        """Describe what was reported last."""
        what = self.about.text(int(watch.operation)) if watch.operation >= 0 else ""
        words = inspection.HAPPENED[int(watch.what)]
        return words.format(npu=int(watch.npu), other=int(watch.other), what=what)

    def concerned(self) -> str:
        """The rank that the last event was about."""
        watch = self.machine.watch[0]
        return f"rank[{int(watch.npu)}]" if self.count("events") and watch.what >= 0 else ""

    def states(self, rows: Any) -> Any:
        """Numbers of the states of operations."""
        return inspection.states_of(self, rows)

    def progress(self, row: int) -> tuple[int, int]:
        """Return the number of chunks of an operation that are done, and of all."""
        o = self.machine.operations[row]
        return int(o.streams_done), int(o.streams)

    def computed_ps(self) -> np.ndarray:
        """Return each rank's summed computation time; ASTRA-sim adds a computation when it begins."""
        if self.represented is not None:
            few, npu = self.represented
            return np.asarray(few.computed_ps()[npu])
        m, parts = self.machine, self.about.parts
        rows: Any = m.operations[: self.about.own]
        running = np.flatnonzero(
            (rows.kind == t.COMPUTE) & (rows.place != t.ON_CPU) & (rows.start_ns >= 0) & (rows.end_ns < 0)
        )
        result = np.array(m.npus.compute_ns, np.int64)
        left = rows.start_ns[running] + rows.duration_ns[running] - self.run.now_ns
        np.subtract.at(result, rows.npu[running], left)
        if parts is not None:
            (start, end), first = self.times_ps(), parts.first[parts.kind == t.COMPUTE]
            first = first[start[first] >= 0]
            until = np.where(end[first] >= 0, end[first] // 1000, self.run.now_ns)
            np.add.at(result, self.about.npu[first], until - start[first] // 1000)
        return result * 1000

    def passed(self) -> dict[str, np.ndarray]:
        """Phases of chunks that are over, in the order of their ends, as far as they are kept."""
        rows = recent(self.machine)
        return {
            **{name: np.asarray(rows[name]) for name in ("npu", "operation", "phase", "dim", "algorithm")},
            "chunk": np.asarray(rows.tag) % t.NATIVE_TAGS,
            **{f"{name}_ps": np.asarray(rows[f"{name}_ns"]) * 1000 for name in ("queued", "begun", "end")},
        }

    def running(self) -> list[np.ndarray]:
        """Phases under way: ranks, dimensions, operations, and when they began."""
        m = self.machine
        rows = t.in_use(m, "streams")
        some: Any = m.streams[rows[m.streams.running[rows] == 1]]
        dim = some.queue // m.config[0].queues % m.config[0].dims
        return [np.asarray(column) for column in (some.npu, dim, some.operation, some.begun_ns * 1000)]

    def trace_tracks(self) -> tuple[Spans, np.ndarray, Sequence[str]]:
        """Spans of operations, the place of each, and the places' names."""
        spans = spans_of(self)
        rows = self.machine.operations
        place = np.asarray(rows.place)
        # Loads and stores that occupy nothing are done one after another all the same.
        copies = (place == t.ON_NOTHING) & (np.asarray(rows.kind) == t.MEMORY)
        return spans, np.where(copies, len(_PLACES) - 1, place)[spans.row], _PLACES

    def track_spans(self) -> Spans:
        """The operations: a track is what they do."""
        return spans_of(self)

    @property
    def jobs(self) -> Sequence[PlacedJob]:
        """The jobs that run, where there are several; of a folded run no tables are made to know."""
        workload = self.run.workload
        return self.about.jobs if workload is None else workload.jobs

    @property
    def footprint(self) -> Footprint | None:
        """Memory of the workload's ranks, if it is known."""
        workload = self.run.workload
        return self.about.footprint if workload is None else workload.footprint

    def own_tables(self) -> dict[str, Callable[[], Any]]:
        """Collectives over their ranks, and links."""
        return {
            "collectives": lambda: traffic.collectives(self),
            "links": lambda: traffic.links(self),
            **({"flows": lambda: flows.flows(self)} if self.recording else {}),
            **({"job_links": lambda: traffic.job_links(self)} if self.jobs else {}),
        }

    def inputs(self) -> Inputs:
        """Return the inputs by name, and the links of the infrastructure, if there is one."""
        links = {} if self.routed is None else {"the links of the infrastructure": [self.routed.fabric.links]}
        return super().inputs()._replace(made=links)

    def enter_tables(self, tables: Mapping[str, np.ndarray]) -> bool:
        """Continue from tables of another moment; what is known of the start is gathered before."""
        self._about, self._base_ns = self.about, self.base_ns
        return super().enter_tables(tables)


def _read(read: Callable[[t.MessageMachine, RunPart], int], place: RunPart, machine: t.MessageMachine) -> int:
    return read(machine, place)
