"""Shared part of the message and the layer engine: runs that consist of operations of ranks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.state import digest
from astranb.core.units import format_bytes, format_time
from astranb.engine import breakpoints
from astranb.engine.breakpoints import Breakpoint, ConditionField
from astranb.engine.critical_path import CriticalPath
from astranb.engine.edits import RECORD, Parameter
from astranb.engine.jobs import job_rows
from astranb.engine.protocol import (
    Bound,
    Breakdown,
    CollectiveFacts,
    Fields,
    Headline,
    Inputs,
    Installed,
    LastEvent,
    Replica,
    Rows,
    Traits,
)
from astranb.engine.what_if import Change
from astranb.infragraph import ARROW, each_named, is_several, spelled_rank, the_only
from astranb.workload.astrasim2 import Footprint, PlacedJob

from .about import ALGORITHMS
from .footprint import memory_table
from .lost_time import LOSSES, lost_times
from .perfetto import trace_events
from .run import OperationRun
from .spans import TRACKS, late_ps, rank_columns, shares, spans_of, time_ps
from .what_if import OperationQuestion, suggest

__all__ = ["CAUSES", "OperationEngine"]

CAUSES = {
    "compute": "computations",
    "collective": "collectives, from when the last rank has begun them",
    "message": "messages, from when they are sent",
    "memory": "remote memory",
    "broadcast": "operations that take their recorded duration",
    "started late": "its rank, or its job, had not started",
    "delay": "between the messages of a job",
    "step": "from one step of a training loop to the next, a nanosecond each",
    "start": "before the first operation",
}
"""Causes of the critical path, and what each means."""

TABLES = (
    "ranks", "operations", "collectives", "phases", "dimensions", "links", "layers", "memory",
    "flows", "critical_path", "jobs", "job_links",
)  # fmt: skip
_OF_RANKS = ("end_ps", "compute_ps", "exposed_comm_ps", "memory_ps", "idle_ps")
_MOST = 8
_MOST_LINKS = 4


class OperationEngine(OperationRun):
    """Base of both engines of operations; see :class:`~.protocol.Engine`.

    Attributes
    ----------
    only : tuple of (str, int, int) or None
        The only collective that runs: its kind, size in bytes, and ranks.
    """

    fidelity: str = "analytical"
    only: tuple[str, int, int] | None = None
    traits: ClassVar[Traits] = Traits(
        units={},  # each of them has its own
        slice_events=131_072,
        replay_bytes=8,
        quick=True,
        event_kinds=(),
        part_kinds=("op", "dim"),
        losses=LOSSES,
        lost_per=("rank",),
        shown=(
            ("Ranks: end", "ranks", "end_ps", True),
            ("Ranks: compute", "ranks", "compute_ps", True),
            ("Ranks: exposed communication", "ranks", "exposed_comm_ps", True),
            ("Ranks: idle", "ranks", "idle_ps", True),
            ("Operations: how long", "operations", "lasts_ps", True),
            ("Collectives: how long", "collectives", "lasts_ps", True),
            ("Phases of chunks: under way", "dimensions", "phases_ps", False),
            ("Phases of chunks: queued", "dimensions", "queued_ps", False),
            ("Dimensions: bytes", "dimensions", "bytes", False),
            ("Links: time busy", "links", "busy_ps", True),
        ),
    )
    field_names: ClassVar[Mapping[str, Mapping[str, Any]]]
    inspectors: ClassVar[Mapping[str, Callable[..., dict[str, Any]]]]
    example: ClassVar[str]
    not_kept: ClassVar[Sequence[str]]
    not_simulated: ClassVar[Sequence[str]]

    # Moving ------------------------------------------------------------------

    @property
    def collective(self) -> CollectiveFacts | None:
        """The only collective that runs, and the factor of its bus bandwidth."""
        from astranb.collectives import COLLECTIVES

        if self.only is None:
            return None
        kind, size, ranks = self.only
        return CollectiveFacts(kind, size, ranks, COLLECTIVES[kind].busbw(ranks))

    @abstractmethod
    def copy(self, *, record: bool = True, show: bool = False) -> Self:
        """An independent engine in the same state."""

    @abstractmethod
    def resize(self, sizes: Mapping[str, int]) -> None:
        """Make the tables as long, in bytes, as they were at a checkpoint."""

    def kept(self, sizes: Mapping[str, int] | None = None, *, whole: bool = False) -> dict[str, memoryview]:
        """Return the contents of a checkpoint: what changes, and what is recorded but not too long."""
        if sizes is not None:
            self.resize(sizes)
        return {
            name: memoryview(np.asarray(table).view(np.uint8).reshape(-1))  # type: ignore[arg-type]
            for name, table in self.machine._asdict().items()
            if whole or name not in self.not_kept
        }

    @property
    def layout(self) -> dict[str, np.dtype[Any]]:
        """Names and types of the fields of each table that a snapshot may hold."""
        return {name: np.asarray(table).dtype for name, table in self.machine._asdict().items()}

    def _simulated(self) -> Iterator[tuple[str, Any]]:
        tables = self.machine._asdict().items()
        return ((name, table) for name, table in tables if name not in self.not_simulated)

    @property
    def state_bytes(self) -> int:
        """Bytes of the simulated state."""
        return sum(table.nbytes for _, table in self._simulated())

    def digest(self) -> str:
        """Hash everything simulated, and nothing that is only recorded (32 hex digits)."""
        return digest(self._simulated())

    def no_switch(self, value: Any) -> InputError:
        """Make the error for an edit of the recording: it lasts from the start on, or there is none."""
        hint = f"make it with Simulation(..., record={value != 'off'})"
        what = "the recording of a run of operations cannot be switched"
        return InputError(what, where=RECORD, hint=hint)

    def finish(self) -> bool:
        """Do nothing: every event is handled."""
        return False

    # Stopping ----------------------------------------------------------------

    def install(self, points: Sequence[Breakpoint]) -> Installed:
        """Write breakpoints into the machine."""
        owners = breakpoints.install(points, self.machine.points, self.owners)
        watch = self.machine.watch[0]
        watch.points = len(owners)
        watch.noting = watch.recording or len(owners) > 0
        return Installed(owners, lambda: int(self.machine.watch[0].hit))

    def condition(self, text: str) -> Breakpoint:
        """Stop when a condition on a field becomes true."""

        def find(name: str) -> ConditionField:
            path, _, word = name.rpartition(".")
            return self.condition_field(path or name, word)

        return breakpoints.condition(text, find, self.owners, {"what": -1}, self.example)

    # Inspecting --------------------------------------------------------------

    @property
    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """Number of objects of each kind that has numbers."""

    @abstractmethod
    def find(self, name: str) -> Any:
        """Find the object of a name that :func:`spelled_rank` returns; it has a ``kind`` and its ``path``."""

    def resolve(self, path: str) -> Any:
        """Find the object that a name stands for."""
        return the_only(path, self.resolve_all(path))

    def resolve_all(self, path: str) -> Sequence[Any]:
        """Find every object that a name stands for: several where it has a ``*`` or a range."""
        return [self.find(one) for one in each_named(spelled_rank(path.strip(), "rank"), self.counts)]

    @abstractmethod
    def condition_field(self, path: str, word: str) -> ConditionField:
        """Find the field that a condition's word means."""

    @abstractmethod
    def readers(self, place: Any) -> dict[str, Callable[[Any], float]]:
        """Readers of what can be watched of an object, from an engine."""

    def recorded(self, place: Any) -> Collection[str]:
        """None: whatever can be watched is known without a recording."""
        del place
        return ()

    @abstractmethod
    def parameters(self, place: Any) -> list[Parameter]:
        """Return the parameters of an object with their values now."""

    @abstractmethod
    def concerned(self) -> str:
        """The rank that the last event was about; empty where it is not known."""

    @abstractmethod
    def happened(self, watch: Any) -> str:
        """Describe what was reported last."""

    @cached_property
    def _objects(self) -> Sequence[str]:
        ranks = (f"rank[{rank}]" for rank in range(self.ranks))
        return *ranks, *(f"dim[{dim}]" for dim in range(len(self.about.topology))), *self.others()

    @abstractmethod
    def others(self) -> Iterable[str]:
        """Paths of the objects beside ranks and dimensions that are no part of another one."""

    def parts(self, path: str = "") -> Mapping[str, Iterable[str]]:
        """Paths of the parts of an object, by their kinds; of the whole run these are ``objects``."""
        if not path:
            return {"objects": self._objects}
        if is_several(path):
            return {"objects": [part.path for part in self.resolve_all(path)]}
        if not path.startswith("rank["):
            return {}
        rank = int(path[5:-1])
        rows = self.about.rows_of(rank).tolist()
        dims = range(len(self.about.topology))
        return {"op": (self.about.path(row) for row in rows), "dim": (f"{path}.dim[{d}]" for d in dims)}

    def fields(self, path: str) -> Fields:
        """Return the fields of an object; its numbers are what can be watched."""
        place = self.resolve(path)
        readers = self.readers(place)
        return Fields(
            place.path,
            tuple(self.field_names.get(place.kind, ())),
            readers,
            self.recorded(place),
            lambda: {word: read(self) for word, read in readers.items()},
            lambda: self.parameters(place),
        )

    def inspect(self, path: str) -> dict[str, Any]:
        """Look at an object.

        Returns
        -------
        dict
            ``title``, ``kind``, ``path``, ``state`` (pairs of words), ``in_flight`` (texts),
            ``in_flight_count``, ``children`` (``path`` and ``text`` of each).
        """
        place = self.resolve(path)
        found = {"title": place.path, "kind": place.kind, "path": place.path, "in_flight": [], "children": []}
        found |= self.inspectors[place.kind](self, place)
        found.setdefault("in_flight_count", len(found["in_flight"]))
        return found

    def last_event(self, point: Breakpoint | None = None) -> LastEvent:
        """Describe the last event; without a phase, because those of chunks overlap."""
        if point is None:
            return LastEvent(self._narrate(), self.concerned(), ("", 0, 0))
        found = breakpoints.found_at(point, self.owners)
        text = found or ("" if point.at_ps is not None else self._narrate())
        return LastEvent(text, point.object or (self.concerned() if found else ""), ("", 0, 0))

    def _narrate(self) -> str:
        """Describe in one line what happened last."""
        events, watch = self.count("events"), self.machine.watch[0]
        if not events:
            return "nothing has happened yet"
        reported = watch.what >= 0 and watch.step == events - 1
        return f"{format_time(self.now_ps)}: {self.happened(watch) if reported else f'event {events:,}'}"

    # Results -----------------------------------------------------------------

    @property
    def time_ps(self) -> int:
        """Completion time of the last rank; the current time while it runs."""
        return time_ps(self)

    @property
    def absent(self) -> Mapping[str, str]:
        """Results that a run of operations cannot know, and why."""
        reason = "messages are simulated whole: fidelity='cacheline' simulates GPUs and lines"
        names = ("lines", "blocks", "ops", "spans", "signals", "flights", "activity", "events")
        parts = ("issue_or_data_ps", "semaphore_ps", "fence_ps", "signal_ps", "blocks_idle_ps")
        found = dict.fromkeys((*names, *parts), reason)
        if self.footprint is None:
            found["memory"] = "only steps of transformers, by messages, say what ranks hold in memory"
        if not self.recording:
            reason = "the run does not record its messages: make it with Simulation(..., record=True)"
            found |= dict.fromkeys(("flows", "links"), reason)
        if "layers" in self.own_tables():
            found["links"] = "a layer table's network has dimensions and no single links"
        else:
            found["layers"] = "only ASTRA-sim 1.0's layer tables have layers"
            if self.recording and "links" not in self.own_tables():
                found["links"] = "messages do not queue at links: fidelity='congestion' simulates that"
        return found

    def time_by(self, what: str, path: CriticalPath | None = None) -> dict[str, Any]:
        """Return columns: ``rank``, ``time_ps`` and a column in ps for each of the losses.

        Raises
        ------
        InputError
            By ``"line"`` or ``"phase"``: operations have no lines of a program, and their phases overlap.
        """
        del path
        if what == "line":
            raise InputError(self.absent["lines"], where="by_line")
        if what == "phase":
            hint = "to_dataframe('phases') has each of them, critical_path() what took the time"
            raise InputError("phases of chunks pass at the same time", where="by_phase", hint=hint)
        times = lost_times(self)
        columns: dict[str, Any] = {
            "rank": np.arange(len(times)),
            "time_ps": np.full(len(times), self.time_ps),
        }
        names = [f"{name.replace(' ', '_')}_ps" for name in LOSSES]
        return columns | dict(zip(names, times.T, strict=True))

    @property
    def jobs(self) -> Sequence[PlacedJob]:
        """The jobs that run, where there are several."""
        return self.about.jobs

    @property
    def footprint(self) -> Footprint | None:
        """Memory of the workload's ranks, if it is known."""
        return self.about.footprint

    def per_rank(self) -> Rows:
        """A row a rank: its end and how its time divides.

        ``compute_ps``, ``exposed_comm_ps``, ``memory_ps`` and ``idle_ps`` add up to ``end_ps``.
        """
        columns = {"done": (self.ends_ps() >= 0).tolist(), **rank_columns(shares(self), self.computed_ps())}
        names = list(columns)
        rows = zip(*columns.values(), strict=True)
        return [{"rank": rank, **dict(zip(names, row, strict=True))} for rank, row in enumerate(rows)]

    def breakdown(self) -> Breakdown:
        """Return the fractions of all ranks' time, and the busiest dimension."""
        parts = shares(self)
        total = max(1, int(parts["end"].sum()))
        sums = {name: int(parts[name].sum()) for name in ("compute", "exposed_comm", "memory", "idle")}
        late = int(late_ps(self).sum())
        if late:  # a part of the idle time that has a name of its own
            sums |= {"idle": sums["idle"] - late, "started late": late}
        return Breakdown("ranks", {name: value / total for name, value in sums.items()}, self._bound())

    @property
    def crowd(self) -> str:
        """The number of ranks in words; of ASTRA-sim 1.0's files one represents all."""
        alike = self.stands_for
        count = self.ranks * alike
        return plural(count, "rank") + (" (all alike)" if alike > 1 else "")

    def _bound(self) -> Bound | None:
        """The dimension whose bytes would take longest at its links' bandwidth."""
        if not self.recording:
            return None
        rows = [self.dimension(dim) for dim in range(len(self.about.topology))]
        most = max(rows, key=lambda row: row["utilisation"], default=None)
        if most is None or not most["bytes"]:
            return None
        dim = most["dimension"]
        return Bound(f"dim {dim} ({most['shape']})", f"dim[{dim}]", int(most["utilisation"] * self.time_ps))

    def headline(self) -> Headline:
        """Return what ran on what, and how much work it was."""
        counts = {unit: self.count(field) for unit, field in self.traits.units.items()}
        last = "message" if "message" in counts else "phase"
        work = ", ".join(plural(counts[one], one) for one in ("event", "operation", last))
        return Headline(f"{self.title}: {self.crowd} on {self.about.network}", work)

    def explain(self, path: CriticalPath | None) -> list[str]:
        """Explain where the time went: per rank, per dimension, and what had to wait for what."""
        rows, lines = self.per_rank(), []
        if rows:
            last = max(rows, key=lambda r: (r["end_ps"], -r["rank"]))
            most = max(rows, key=lambda r: (r["exposed_comm_ps"], -r["rank"]))
            own, peers = (format_time(most[f"{of}exposed_comm_ps"]) for of in ("", "astrasim_"))
            lines += [
                f"Rank {last['rank']} ends last, at {format_time(last['end_ps'])}.",
                f"Rank {most['rank']} has most exposed communication, {own} (ASTRA-sim's: {peers}).",
            ]
        if self.recording:
            used = [(self.dimension(dim), dim) for dim in range(len(self.about.topology))]
            lines += ["", "Dimensions (of their links' bandwidth, over the whole time):"]
            lines += [
                f"  {row['utilisation']:>6.1%}  dim {dim} ({row['shape']}): {format_bytes(row['bytes'])}"
                for row, dim in used
            ]
        busiest = sorted(self.links(), key=lambda row: -row["busy_ps"])[:_MOST_LINKS]
        if busiest:
            lines += ["", "Busiest links:"]
            lines += [f"  {row['utilisation']:>6.1%}  {_link_text(row)}" for row in busiest]
        if path is not None and len(path):
            lines += ["", "What the time consists of (critical path):", *path.cause_lines()]
            longest = sorted(path, key=lambda s: -s.length_ps)[:_MOST]
            lines += ["", "Its longest segments, in order:"]
            for s in sorted(longest, key=lambda s: s.start_ps):
                span = f"{format_time(s.start_ps)} to {format_time(s.end_ps)}"
                lines.append(f"  {span}  rank {s.rank}: {s.name}; {s.because}")
        return [*lines, *self.own_lines()]

    def links(self) -> Rows:
        """The rows of the table of links; none where the engine has no such table."""
        return list(self.own_tables().get("links", list)())

    def rank_title(self, rank: int) -> str:
        """Return the title of a rank."""
        return f"rank[{rank}]"

    def link_title(self, link: int) -> str:
        """Return the title of a link."""
        return f"link[{link}]"

    def own_lines(self) -> list[str]:
        """Return further lines of an explanation; none unless an engine has some."""
        return []

    def tables(self) -> Mapping[str, Callable[[], Any]]:
        """Tables of results by name: lists of rows, or columns."""
        makers: dict[str, Callable[[], Any]] = {
            "ranks": self.per_rank,
            "operations": self._operations,
            "phases": self._phases,
            "dimensions": lambda: [self.dimension(dim) for dim in range(len(self.about.topology))],
            "critical_path": lambda: self.critical_path().rows(),
            **({"jobs": lambda: job_rows(self.jobs, self.per_rank())} if self.jobs else {}),
            **({"memory": lambda: memory_table(self)} if self.footprint else {}),
            **self.own_tables(),
        }
        return {name: makers[name] for name in TABLES if name in makers}

    def names(self, rows: Sequence[int]) -> dict[str, list[str]]:
        """Columns that name operations."""
        return {"name": [self.about.label(row) for row in rows]}

    def _operations(self) -> dict[str, Any]:
        spans, about = spans_of(self), self.about
        over = self.times_ps()[1][spans.row] >= 0
        rows = spans.row.tolist()
        return {
            "rank": spans.npu,
            "operation": [about.number(row) for row in rows],
            **self.names(rows),
            "what": [about.what(row) for row in rows],
            "track": np.array(TRACKS, object)[spans.track],
            "bytes": about.size[spans.row],
            "start_ps": spans.start_ps,
            "end_ps": spans.end_ps,
            "duration_ps": spans.end_ps - spans.start_ps,
            "done": over,
        }

    def _phases(self) -> dict[str, Any]:
        rows = self.passed()
        return {
            "rank": rows["npu"],
            **self.names(rows["operation"].tolist()),
            "chunk": rows["chunk"],
            "phase": rows["phase"],
            "dimension": rows["dim"],
            "algorithm": np.array(ALGORITHMS, object)[rows["algorithm"]],
            "queued_ps": rows["queued_ps"],
            "start_ps": rows["begun_ps"],
            "end_ps": rows["end_ps"],
        }

    def trace_events(self, written: dict[str, Any], **options: Any) -> Iterator[dict[str, Any]]:
        """Events of a Perfetto trace: a process is a rank, its threads what an operation occupies."""
        if options:
            unknown = next(iter(options))
            raise InputError(f"a trace of operations has no option {unknown!r}", where="to_perfetto")
        return trace_events(self, written)

    # Explaining --------------------------------------------------------------

    def critical_path(self) -> CriticalPath:
        """Return the critical path."""
        return CriticalPath(f"{self.title} on {self.about.network}", self.segments(), CAUSES)

    def search_path(self, replica: Callable[[], Replica]) -> Generator[float, None, CriticalPath]:
        """Find the critical path: at once, from the tables."""
        del replica
        yield 0.0
        return self.critical_path()

    def buffers(self, most: int) -> dict[str, Any]:
        """Columns of the links for which most messages wait now; ``all`` is how many have any."""
        waiting, _ = self.queues(np.arange(len(self.link_graph().src)))
        order = np.argsort(-waiting, kind="stable")
        order = order[waiting[order] > 0]
        top = order[:most]
        none = np.zeros(len(top), np.int64)
        return {
            "path": [self.link_path(int(link)) for link in top],
            "taken": none,
            "capacity": none,
            "unit": ["messages"] * len(top),
            "waiting": waiting[top],
            "wait_ps": none,
            "all": len(order),
        }

    def question(self, path: str, value: Any) -> OperationQuestion:
        """Read a change that is asked about."""
        return OperationQuestion(self, path, value)

    def suggest(self, path: CriticalPath) -> list[Change]:
        """Changes that the critical path suggests, the most likely first."""
        return suggest(self, path)

    # Comparing ---------------------------------------------------------------

    def inputs(self) -> Inputs:
        """Return the inputs by name."""
        given = {"workload": self.title, "ranks": self.ranks, "network": self.about.network}
        return Inputs({**given, **self.config()})

    def compared(self) -> Mapping[str, tuple[str, Callable[[], Rows], tuple[str, ...]]]:
        """Tables by name: the key of a row, the rows, and the fields that are compared."""
        return {
            "ranks": ("rank", self._ranks_compared, _OF_RANKS),
            "operations": ("operation", self._operations_compared, ("lasts_ps",)),
            "collectives": ("collective", self._collectives_compared, ("lasts_ps",)),
            "dimensions": ("dimension", self._dimensions_compared, ("bytes", "phases_ps", "queued_ps")),
            "links": ("link", self._links_compared, ("bytes", "busy_ps")),
            "causes": ("cause", self._causes_compared, ("time_ps",)),
        }

    def _ranks_compared(self) -> Rows:
        return [{"rank": row["rank"], **{name: row[name] for name in _OF_RANKS}} for row in self.per_rank()]

    def _causes_compared(self) -> Rows:
        return [{"cause": name, "time_ps": ps} for name, ps in self.critical_path().by_cause().items()]

    def _operations_compared(self) -> Rows:
        spans, about = spans_of(self), self.about
        return [
            {
                "operation": f"{about.path(row)} {about.label(row)}",
                "start_ps": start,
                "end_ps": end,
                "lasts_ps": end - start,
            }
            for row, start, end in zip(
                spans.row.tolist(), spans.start_ps.tolist(), spans.end_ps.tolist(), strict=True
            )
        ]

    def _collectives_compared(self) -> Rows:
        return [
            {"collective": f"{number}: {row['name']}", "lasts_ps": row["end_ps"] - row["start_ps"]}
            for number, row in enumerate(self.own_tables()["collectives"]())
            if row["done"]
        ]

    def _dimensions_compared(self) -> Rows:
        phases = self.passed()
        rows: Rows = []
        for dim, shape in enumerate(self.about.topology):
            mine = phases["dim"] == dim
            rows.append(
                {
                    "dimension": f"dim {dim} ({shape})",
                    "bytes": self.dimension(dim)["bytes"],
                    "phases_ps": int((phases["end_ps"] - phases["begun_ps"])[mine].sum()),
                    "queued_ps": int((phases["begun_ps"] - phases["queued_ps"])[mine].sum()),
                }
            )
        return rows

    def _links_compared(self) -> Rows:
        return [
            {
                "link": _link_text(row),
                "bytes": row["bytes"],
                "busy_ps": row["busy_ps"],
            }
            for row in self.links()
        ]

    def __repr__(self) -> str:
        """One line: what runs on what."""
        return f"<{type(self).__name__} {self.headline().what}>"


def _link_text(row: Mapping[str, Any]) -> str:
    """Return the name of a link, with its ends where that is a number."""
    return row["link"] if ARROW in row["link"] else f"{row['link']}, {row['source']} to {row['target']}"
