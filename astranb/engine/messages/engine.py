"""The message engine: what ``Simulation`` needs of a run of ASTRA-sim 2.0's workloads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np

from astranb.core.errors import InputError
from astranb.core.timesteps import NEVER
from astranb.engine.breakpoints import Breakpoint, ConditionField
from astranb.engine.edits import RECORD, REROUTE, Edit, Parameter, no_other_routes, reroute_edit
from astranb.engine.operations import TRACKS, Spans, recent, spans_of
from astranb.engine.protocol import Headline, Inputs, Installed
from astranb.engine.stops import BACK
from astranb.infragraph import ARROW, find_nodes, is_link, near_names, opposite, spelled
from astranb.net import Fabric
from astranb.workload.astrasim2 import Footprint, PlacedJob

from . import flights, flows, inspection, ready_times, traffic
from . import tables as t
from .breakpoints import EVENTS, on_event
from .build import margins
from .critical_path import critical_path
from .edits import apply_edit, check_links, parameters, read_edit, set_up, values_of
from .instances import pairs
from .library_costs import absent_of, costs_text
from .link_ends import link_count, link_title, reverse_link
from .paths import FIELDS, RunPart, field_of, resolve, unknown
from .readers import READERS, RECORDED_WORDS
from .reroute import RoutedLinks, closed_lanes, mark_again, renamed, rerouted
from .state import UNITS, MessageState
from .why import explain_wait

__all__ = ["MessageEngine"]

_MOST_NEAR = 64
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
        return {label: int(row[name]) for name, label in _CONFIG.items()}

    @property
    def longest_ps(self) -> int:
        """The longest sum of the known durations of a rank's operations."""
        rows = self.machine.operations
        return int(np.bincount(rows.npu, rows.duration_ns.astype(float)).max(initial=0.0)) * 1000

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

    def headline(self) -> Headline:
        """Return what ran on what, how much work it was, and what collectives cost."""
        routed = self.run.outline.config[0].routed
        return super().headline()._replace(costs=costs_text(self.machine) if routed else "")

    @property
    def absent(self) -> Mapping[str, str]:
        """Results that a run of messages cannot know, and why; also of a library's costs."""
        found = dict(super().absent)
        machine = self.run.outline
        if machine.config[0].routed and (machine.operations.kind == t.COLLECTIVE).any():
            found |= absent_of(machine.operations)
        return found

    def finish(self) -> bool:
        """Simulate a few NPUs for all where they do the same and nothing is recorded."""
        return not (self.recording or self.edits) and self.run.finish_folded()

    def install(self, points: Sequence[Breakpoint]) -> Installed:
        """Write breakpoints into the machine; without any, it need not be made."""
        return super().install(points) if points or self.run.made else Installed((), lambda: -1)

    def stopped(self, why: int) -> None:
        """Raise an error where no event is left before ``NEVER`` and a rank is not done."""
        if why == BACK or 0 <= self.run.next_ns < NEVER:
            return
        if self.next_ps < 0 and self.run.outline.clock[0].finished < self.ranks:
            check_links(self.about, self.machine, self.edits)
        self.run.result()

    def others(self) -> Iterable[str]:
        """Paths of links, which only runs with congestion have."""
        return (self.link_path(link) for link in range(link_count(self.about, self.machine)))

    def resolve(self, path: str) -> RunPart:
        """Find what a path names."""
        part: RunPart = super().resolve(path)
        if not part.rows:
            raise InputError("no message takes this link", where=path, hint="name another one")
        return part

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of ranks, dimensions and links."""
        links = link_count(self.about, self.machine)
        return {"rank": self.ranks, "dim": len(self.about.topology), **({"link": links} if links else {})}

    def resolve_all(self, path: str) -> Sequence[RunPart]:
        """Find every object that a name stands for; links of an infrastructure are one object."""
        if self.routed is not None:
            graph = self.routed.fabric.graph
            if is_link(graph, name := spelled(path, graph)):
                return [self._links(name, self.routed)]
        if path.strip().startswith("link[") and "link" not in self.counts:
            return [self.find(path.strip())]  # raises the error that says why there are none
        return super().resolve_all(path)

    def find(self, name: str) -> RunPart:
        """Find the object that a name with the number of its rank stands for."""
        if self.routed is None:
            return resolve(name, self.about, self.machine)
        if not name.startswith(("rank[", "dim[", "link[")):
            name = self._of_node(name, self.routed.fabric)
        return self._as_by_lines(resolve(name, self.about, self.machine), self.routed)

    def _as_by_lines(self, part: RunPart, routed: RoutedLinks) -> RunPart:
        """Return a link as its name finds it, where that is all there is to it."""
        if part.kind == "link" and ARROW in (name := self.link_path(part.rows[0])):
            same = self._links(name, routed)
            return same if (same.rows, same.shares) == (part.rows, (1.0,)) else part
        return part

    def _links(self, path: str, routed: RoutedLinks) -> RunPart:
        """Links of an infrastructure, as those that messages take: each stands for some lanes."""
        lanes = routed.lanes_of(path)
        groups = routed.fabric.by_ends(lanes)
        rows, known = routed.over(self.machine, lanes), routed.known(self.machine).lanes
        name = routed.fabric.full(lanes) if len(groups) == 1 else path
        if len(rows) == 1 and set(known[rows[0]]) == set(lanes):
            name = self.about.links[rows[0]]
        group_of = {lane: number for number, group in enumerate(groups) for lane in group}
        whole = all(group_of.keys() >= set(known[row]) for row in rows)
        counts = [Counter(group_of[lane] for lane in known[row]) for row in rows] if whole else []
        shares = tuple(sum(n / len(groups[number]) for number, n in each.items()) for each in counts)
        return RunPart("link", name, rows, shares=shares)

    def _of_node(self, name: str, fabric: Fabric) -> str:
        """Return a name that begins with a GPU's name in the infrastructure with its rank instead."""
        node, dot, part = re.fullmatch(r"(.*?)(\.(?=(?:op|dim)\[)|\Z)(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr] # it matches any text
        graph = fabric.graph
        try:
            found = find_nodes(graph, spelled(node, graph))
        except InputError as error:
            if not error.what.startswith("unknown object"):
                raise
            some = ((one, find_nodes(graph, one, allow_ambiguous=True)) for one in near_names(graph, node))
            gpus = (one for one, nodes in some if np.isin(nodes, graph.gpus).all())
            raise unknown(name, self.about, self.counts, islice(gpus, _MOST_NEAR)) from None
        ranks = np.flatnonzero(fabric.gpus == found[0]).tolist() if len(found) == 1 else []
        if not ranks:
            hint = "by messages, ranks, operations, dimensions and links are simulated"
            raise InputError(f"{node!r:.80} is not a GPU", where=name[:80], hint=hint)
        return f"rank[{ranks[0]}]{dot}{part}"

    def link_title(self, link: int) -> str:
        """Return the title of a link: its name, or its number and both ends."""
        return link_title(self.about, self.machine, link)

    def on_event(self, kind: str | None, path: str | None) -> Breakpoint:
        """Stop after an event of a kind that concerns an object."""
        return on_event(kind, [] if path is None else self.resolve_all(path), path)

    def condition_field(self, path: str, word: str) -> ConditionField:
        """Find the field that a condition's word means."""
        places = self.resolve_all(path)
        fields = [field_of(one, word) for one in places]  # each has to have it
        rows = [row for one in places for row in one.rows]
        return ConditionField(
            places[0].path if len(places) == 1 else path.strip(),
            _OWNERS.get(places[0].kind, -1),
            rows,
            fields[0],
            word,
        )

    def readers(self, place: RunPart) -> dict[str, Callable[[Any], float]]:
        """Readers of what can be watched of an object; links are simulated with congestion only."""
        if place.kind == "link" and not self.machine.config[0].congestion:
            return {}
        return {word: partial(_read, read, place) for word, read in READERS[place.kind].items()}

    def recorded(self, place: RunPart) -> frozenset[str]:
        """The words that a run knows only where it records."""
        return RECORDED_WORDS.get(place.kind, frozenset())

    def parameters(self, place: RunPart) -> list[Parameter]:
        """Return the parameters of an object with their values now."""
        return parameters(place, self.machine, self.edits)

    def _other_direction(self, path: str) -> str:
        """The same parameter of the other direction of a link."""
        link, _, word = path.rpartition(".")
        place = self.resolve_all(link)[0]
        if place.kind != "link":
            raise InputError(f"{place.path} is not a link", where="take_down", hint="write A->B")
        name = place.path if ARROW in place.path else self.link_path(place.rows[0])
        if self.routed is not None and ARROW in name:
            return f"{opposite(self.routed.fabric.graph, name, 'take_down')}.{word}"
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
        return read_edit(
            self.count("events"), self.now_ps, path, value, self.resolve_all, self.machine, self.edits,
            self.about.links.__getitem__,
        )  # fmt: skip

    def present(self, edit: Edit) -> list[float]:
        """Return the present value of each row that an edit changes, in the unit of its field."""
        return values_of(edit.kind, edit.field, edit.rows, self.machine, self.edits)

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
            if edit.field == "rate_Bpns" and self.routed is not None:
                mark_again(self.machine, self.routed.network)

    def happened(self, watch: Any) -> str:
        """Describe what was reported last."""
        what = self.about.text(int(watch.operation)) if watch.operation >= 0 else ""
        template = inspection.HAPPENED[int(watch.what)]
        return template.format(npu=int(watch.npu), other=int(watch.other), what=what)

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
            **({"links": lambda: traffic.links(self)} if self._counts_links else {}),
            **({"flows": lambda: flows.flows(self)} if self.recording else {}),
            **({"job_links": lambda: traffic.job_links(self)} if self.jobs else {}),
        }

    @property
    def _counts_links(self) -> bool:
        return self.recording and bool(self.machine.config[0].congestion)

    def inputs(self) -> Inputs:
        """Return the inputs by name, and the links of the infrastructure, if there is one."""
        links = {} if self.routed is None else {"the links of the infrastructure": [self.routed.fabric.links]}
        return super().inputs()._replace(made=links)


def _read(read: Callable[[t.MessageMachine, RunPart], int], place: RunPart, engine: MessageState) -> int:
    return read(engine.machine, place)
