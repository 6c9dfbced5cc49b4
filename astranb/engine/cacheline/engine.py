"""The cache-line engine: answers what one asks of a collective or workload by cache lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Self, cast

import numpy as np

from astranb.collectives import Collective, Exchange
from astranb.core.errors import InputError
from astranb.core.queue import arg_of, kind_of
from astranb.core.units import format_time
from astranb.engine import breakpoints
from astranb.engine.breakpoints import Breakpoint
from astranb.engine.critical_path import CriticalPath
from astranb.engine.edits import RECORD, REROUTE, Edit, reroute_edit
from astranb.engine.protocol import (
    Breakdown,
    CollectiveFacts,
    Fields,
    Headline,
    Inputs,
    Installed,
    LastEvent,
    Rows,
    Traits,
)
from astranb.engine.stops import BACK, TIME
from astranb.engine.what_if import Change
from astranb.gpu import tables as t
from astranb.gpu.tables import EVENT_KINDS
from astranb.infragraph import opposite
from astranb.net import CLASSES
from astranb.workload.astrasim2 import PlacedJob

from . import result
from .aggregate import Aggregate, aggregate
from .breakpoints import ANY, find, on_event
from .buffers import buffers as fullest
from .contributions import contributions as contributions_of
from .contributions import holds, roundings
from .critical_path import LinePath, search
from .edits import apply_edit, parameters, read_edit, switch_recording
from .faults import LAST_PS
from .inspection import Inspector, numbers
from .lines import entrance_of
from .loop import RAW
from .lost_time import LOSSES
from .lost_time import lost_time as lost_columns
from .memory import memory as memory_of
from .paths import FIELDS, PARTS, SUMMED, TABLES, object_names, part_names, resolve
from .perfetto import trace_events
from .program_times import by_line, by_phase, phase_rows
from .reroute import rerouted
from .source_lines import where as lines_of
from .spans import spans as spans_of
from .state import UNITS, CacheLineState
from .time_classes import BLOCK_COLUMNS
from .tracks import Tracks
from .what_if import LineQuestion, suggest
from .why import explain_wait
from .workload import Graph

__all__ = ["CacheLineEngine"]


class CacheLineEngine(CacheLineState):
    """A collective or workload of which every line of every load and store is simulated."""

    traits: ClassVar = Traits(
        units=UNITS,
        slice_events=32_768,
        replay_bytes=32,
        quick=False,
        event_kinds=EVENT_KINDS,
        part_kinds=(*PARTS, "port", "buffer"),
        losses=LOSSES,
        lost_per=("rank", "block"),
        shown=(
            ("Phases: how long", "phases", "lasts_ps", False),
            ("Links: time busy", "links", "busy_ps", True),
            ("Links: bytes", "links", "bytes", True),
            ("Links: time queued", "links", "queued_ps", True),
            ("GPUs: end", "gpus", "end_ps", False),
            ("GPUs: semaphore", "gpus", "semaphore_ps", False),
        ),
    )
    # What is only a function of the state.
    spans = spans_of
    memory = memory_of
    contributions = contributions_of
    holds = holds
    where = lines_of
    why = explain_wait
    search_path = search
    buffers = fullest
    explain = result.explain
    tables = result.tables

    def copy(self, *, record: bool = True, show: bool = False) -> Self:
        """An independent engine in the same state, with or without its recording."""
        other = type(self)(
            self.infra,
            self.work,
            self.fabric,
            self.chosen,
            self.presets,
            self.program,
            self.network,
            self.launch,
            self.machine.copy(record=record and not show),
            self.assumed,
            self.edits,
            self.late_ps,
            self.notes,
            self.given,
        )
        if show:
            other.recorder = self.recorder
        else:
            other.recorder.most[:] = self.recorder.most
        return other

    @cached_property
    def collective(self) -> CollectiveFacts | None:
        """The only collective that runs, of a contract with its factor; how it is checked and rounded."""
        work, ranks = self.work, self.program.ranks
        if isinstance(work, Graph):
            return None
        counted = work.counted_bytes(ranks, self.fabric.shape) if isinstance(work, Exchange) else {}
        found = CollectiveFacts(work.name, work.size, ranks, work.bus_factor(ranks), counted)
        if work.unchecked:
            return found._replace(unchecked_text="timed unchecked: the result may be wrong")
        custom = isinstance(work, Collective) and work.name == "custom"
        text = "astranb does not know the result that a custom collective must have" if custom else ""
        return found._replace(unchecked_text=text, roundings=partial(roundings, self))

    @property
    def jobs(self) -> Sequence[PlacedJob]:
        """The jobs that run, where there are several."""
        return self.work.jobs if isinstance(self.work, Graph) else ()

    # Stopping and changing ---------------------------------------------------

    @property
    def owners(self) -> list[Any]:
        """The tables that conditions may name, in the order of their numbers."""
        return [self.machine.tables[name] for name in RAW]

    def install(self, points: Sequence[Breakpoint]) -> Installed:
        """Write breakpoints into the machine."""
        owners = breakpoints.install(points, self.machine.breaks, self.owners)
        self.machine.control["breaks"] = len(owners)
        return Installed(owners, lambda: int(self.machine.control[0].hit))

    def on_event(self, kind: str | None, path: str | None) -> Breakpoint:
        """Stop after an event of a kind, of an object, or both."""
        return on_event(kind, path, self.fabric, self.machine)

    def condition(self, text: str) -> Breakpoint:
        """Stop when a condition on a field becomes true."""
        names = tuple(map(str, self.program.phase_names))
        found = partial(find, fabric=self.fabric, machine=self.machine, phases=names)
        return breakpoints.condition(text, found, self.owners, ANY, "gpu[3].sm.0.waiting > 0")

    def fields(self, path: str) -> Fields:
        """Return the fields of an object: all are simulated."""
        place = resolve(path, self.fabric, self.machine)
        rows = list(place.rows)

        def reader(name: str) -> Callable[[Self], float]:
            def read(engine: Self) -> float:
                found = engine.machine.tables[TABLES[place.kind]][name][rows]
                return int(found.sum() if place.whole and name in SUMMED else found.max())

            return read

        names = FIELDS.get(place.kind, ())
        return Fields(
            place.path,
            names,
            {name: reader(name) for name in names},
            (),
            lambda: numbers(self, place),
            lambda: parameters(place, self.machine),
        )

    def read_edit(self, path: str, value: Any, *, back: bool = False) -> Edit:
        """Check a change and make an edit of it; ``back``: of the other direction of a link."""
        if path == REROUTE:
            return reroute_edit(self.events, value, self.now_ps)
        if path == RECORD:
            if not isinstance(value, bool) and value not in ("on", "off"):
                what = f"{value!r:.40} is neither on nor off"
                raise InputError(what, where=RECORD, hint="write on, or off")
            return switch_recording(self.events, self.machine, on=value in (True, "on"))
        if back:
            link, _, word = path.rpartition(".")
            path = f"{opposite(self.fabric.graph, link, 'take_down')}.{word}"
        return read_edit(self.events, path, value, self.fabric, self.machine)

    def apply(self, edit: Edit) -> None:
        """Carry an edit out: services that have started keep their times."""
        if edit.path == REROUTE:
            self.machine = rerouted(self.machine, self.fabric, int(edit.number))
        else:
            apply_edit(edit, self.machine)

    # Looking -----------------------------------------------------------------

    @cached_property
    def _objects(self) -> Sequence[str]:
        return tuple(object_names(self.fabric))

    def parts(self, path: str = "") -> Mapping[str, Iterable[str]]:
        """Paths of the parts of an object, by their kinds; of the whole run these are ``objects``."""
        return part_names(path, self.fabric, self.machine) if path else {"objects": self._objects}

    @cached_property
    def _inspector(self) -> Inspector:
        return Inspector(self)

    def inspect(self, path: str) -> dict[str, Any]:
        """Look at an object: its state now, what is in flight, its parts."""
        return self._inspector.inspect(path)

    def last_event(self, point: Breakpoint | None = None) -> LastEvent:
        """Describe the last event, and the last phase; no phase before the first one has ended."""
        phases, phase = self.machine.phases, ("", 0, 0)
        ended = np.flatnonzero((phases["left"] == 0) & (phases["ended_ps"] >= 0))
        if len(ended):
            last = int(ended[np.argmax(phases["ended_ps"][ended])])
            name = str(self.program.phase_names[last])
            phase = name, int(phases["started_ps"][last]), int(phases["ended_ps"][last])
        found = "" if point is None else breakpoints.found_at(point, self.owners)
        if point is not None and (found or point.at_ps is not None):
            return LastEvent(found, point.object or self._concerned(), phase)
        path = self._concerned() if point is None or not point.object else point.object
        return LastEvent(self._inspector.narrate(), path, phase)

    def _concerned(self) -> str:
        """Path of what the last event was about; empty at the start."""
        clock = self.machine.clock[0]
        return self._object_of(int(clock.last_kind), int(clock.last_arg)) if clock.events else ""

    def request_text(self, number: int) -> str:
        """Describe a line under way, and where it is."""
        return self._inspector.request_text(number)

    def stopped(self, why: int) -> None:
        """Raise an error where the run cannot go on, or not before ``NEVER``, or has ended wrongly.

        Where time was taken back, so are the tracks of timelines.
        """
        if why == BACK:
            for one in self._tracks.values():
                one.rewound()
            return
        if why == TIME and self.next_ps > LAST_PS:
            order = int(self.machine.event_queue.near[0].order)
            kind, where = kind_of(order), self._object_of(kind_of(order), arg_of(order))
            at = f"{EVENT_KINDS[kind]} of {where}" if where else EVENT_KINDS[kind]
            what = f"{self.title}: {at} would be after more than 26 days of simulated time"
            raise InputError(what, hint="use smaller times and sizes, or faster links")
        super().stopped(why)

    def _object_of(self, kind: int, arg: int) -> str:
        """Path of what an event is about."""
        machine, fabric = self.machine, self.fabric
        link = self._link_of(kind, arg)
        if link >= 0:
            return fabric.name(link).partition("#")[0] if link < len(fabric.links) else ""
        if kind in (t.LAUNCH, t.FENCE, t.POST):
            gpu = machine.blocks["gpu"][arg]
        elif kind == t.ISSUE:
            gpu = machine.sms["gpu"][arg]
        else:
            gpu = machine.requests["gpu" if kind == t.RETURN else "target"][arg]
        return fabric.graph.name(int(fabric.gpus[int(gpu)]))

    def _link_of(self, kind: int, arg: int) -> int:
        """The link that an event was about, -1 for none."""
        machine = self.machine
        if kind == t.HOP:
            on_fabric = machine.requests["leg"][arg] == t.ON_FABRIC
            return entrance_of(machine, arg) if on_fabric else -1
        if kind == t.WIRE:
            return arg
        if kind == t.FAULT:
            return int(machine.faults["link"][arg])
        if kind == t.PAUSE:
            return arg // (2 * CLASSES)
        return int(machine.flows["link"][arg]) if kind in (t.RATE_RELEASE, t.CNP) else -1

    @cached_property
    def _tracks(self) -> dict[str, Tracks]:
        return {}

    def tracks(self, kind: str) -> Tracks:
        """Timelines of ``"sms"`` or ``"blocks"``: made when they are first asked for, then kept up."""
        if kind not in self._tracks:
            self._tracks[kind] = Tracks(self, kind)
        return self._tracks[kind]

    def aggregate(self, start_ps: int, end_ps: int, ranks: Sequence[int] | None) -> Aggregate:
        """Add up what happened in an interval."""
        return aggregate(self, self.tracks("sms"), start_ps, end_ps, ranks)

    # Explaining --------------------------------------------------------------

    def question(self, path: str, value: Any) -> LineQuestion:
        """Read a change that is asked about."""
        return LineQuestion(self, path, value)

    def suggest(self, path: CriticalPath) -> list[Change]:
        """Return the changes that would shorten the critical path most, each twice as fast."""
        return suggest(self, cast("LinePath", path))

    # Results -----------------------------------------------------------------

    @property
    def absent(self) -> Mapping[str, str]:
        """Results that only messages have, and those of a workload's operations where one collective runs."""
        reason = "cache lines have no chunks and dimensions: fidelity='congestion' simulates messages"
        found = dict.fromkeys(("collectives", "dimensions", "layers"), reason)
        found["critical_path"] = "it takes a replay: call critical_path()"
        alone = self.collective if isinstance(self.work, Collective) else None
        if alone is not None and alone.bus_factor is None:
            found["busbw_Bps"] = "the contract gives no factor: Contract(busbw=...)"
        found["memory"] = "only steps of transformers, by messages, say what ranks hold in memory"
        if not self.program.source.known:
            found["lines"] = "the text of its program is not known: by_phase() divides it by phase"
        if not isinstance(self.work, Graph):
            found["operations"] = "one collective runs: its parts are in the table ops"
        return found

    def time_by(self, what: str, path: CriticalPath | None = None) -> Any:
        """Divide the time: by rank or thread block and loss, or by line or phase of the program."""
        if what in ("line", "phase"):
            return (by_line if what == "line" else by_phase)(self, path)
        return lost_columns(self, what)

    def breakdown(self) -> Breakdown:
        """Return the fractions of all thread blocks' time, and the busiest GPU port."""
        return Breakdown("blocks", result.breakdown(self), result.bound(self))

    def headline(self) -> Headline:
        """Return what ran on what, and how much work it was."""
        return result.headline(self)

    def trace_events(self, written: dict[str, Any], **options: Any) -> Iterator[dict[str, Any]]:
        """Events of a Perfetto trace."""
        return trace_events(self, written, **options)

    # Comparing ---------------------------------------------------------------

    def inputs(self) -> Inputs:
        """Return the inputs by name; the links of the infrastructure, and the program of what runs."""
        work, program = self.work, self.program
        found: dict[str, Any] = {"infrastructure": self.infra.name, "collective": work.name}
        found |= {name: getattr(work, name) for name in ("size", "protocol", "channels", "root")}
        found |= {"algorithm": work.algorithm_name, "launch": self.launch}
        late = np.flatnonzero(self.late_ps).tolist()
        found["start"] = {rank: format_time(int(self.late_ps[rank])) for rank in late} or "all together"
        for what, one in (("gpu", self.chosen[0]), ("network", self.network)):
            fields = (field.name for field in dataclasses.fields(one) if field.compare)
            found |= {f"{what} {name}": getattr(one, name) for name in fields}
        made = {
            "the links of the infrastructure": [self.fabric.links],
            f"the program of {work.title}": [program.ops, program.operands, program.slices],
        }
        return Inputs(found, made)

    def compared(self) -> Mapping[str, tuple[str, Callable[[], Rows], tuple[str, ...]]]:
        """Tables by name: the key of a row, the rows, and the fields that are compared."""
        return {
            "phases": ("phase", self._phases_compared, ("lasts_ps",)),
            "links": ("link", self._links_compared, ("bytes", "busy_ps", "queued_ps")),
            "gpus": (
                "rank",
                self._ranks_compared,
                ("end_ps", *BLOCK_COLUMNS.values(), "blocks_idle_ps"),
            ),
            "causes": ("cause", self._causes_compared, ("time_ps",)),
        }

    def _phases_compared(self) -> Rows:
        rows: Rows = []
        for row in phase_rows(self):
            begun, ended = row["start_ps"], row["end_ps"]
            lasts = (ended if ended >= 0 else self.now_ps) - begun if begun >= 0 else 0
            rows.append({"phase": row["phase"], "end_ps": ended, "lasts_ps": lasts})
        return rows

    def _links_compared(self) -> Rows:
        """Links with all their lanes together."""
        found: dict[str, dict[str, Any]] = {}
        for row in result.links(self):
            name = row["link"].partition("#")[0]
            empty = {"link": name, "bytes": 0, "busy_ps": 0, "queued_ps": 0, "lanes": 0}
            kept = found.setdefault(name, empty)
            for field in ("bytes", "busy_ps", "queued_ps"):
                kept[field] += row[field]
            kept["lanes"] += 1
        used = [row for row in found.values() if row["bytes"]]
        for row in used:
            row["busy_ps"] //= row.pop("lanes")
        return used

    def _ranks_compared(self) -> Rows:
        return [
            {"rank": r["rank"], **{name: value for name, value in r.items() if name.endswith("_ps")}}
            for r in result.per_rank(self)
        ]

    def _causes_compared(self) -> Rows:
        parts, total = result.breakdown(self), self.time_ps
        return [{"cause": name, "time_ps": round(part * total)} for name, part in parts.items()]
