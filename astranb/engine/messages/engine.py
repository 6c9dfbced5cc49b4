"""The message engine: answers what one asks of a run of ASTRA-sim 2.0's workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self, cast

import numpy as np

from astranb.core.errors import InputError
from astranb.engine import breakpoints
from astranb.engine.breakpoints import Breakpoint, ConditionField
from astranb.engine.critical_path import Segment
from astranb.engine.edits import Edit, Parameter
from astranb.engine.operations.about import ABOUT, About
from astranb.engine.operations.run import Spans
from astranb.engine.operations.spans import LANES, spans_of
from astranb.engine.why import Why

from . import tables as t
from .breakpoints import EVENTS, on_event
from .critical_path import critical_path
from .edits import apply_edit, check_links, parameters, read_edit, value_of
from .inspection import chunks_of, inspect, narrate, running_chunks, states_of
from .instances import pairs
from .link_ends import reverse_link
from .paths import FIELDS, RunPart, field_of, resolve
from .readers import NOTED, READERS
from .ready_times import ready_ps, slow_ranks
from .run import Run
from .state import MessageState
from .tables import NOTHING
from .traffic import collectives, dimension, links
from .why import explain_wait

__all__ = ["MessageEngine"]

_OWNERS = {"rank": 0, "op": 1, "queue": 2}
_CONFIG = {
    "splits": "chunks of a collective", "concurrent": "chunks at once", "congestion": "congestion",
    "endpoint_ns": "endpoint delay", "queues": "queues", "rendezvous": "rendezvous",
}  # fmt: skip
_PLACES = ("CPU", "GPU", "network", "receives")


class MessageEngine(MessageState):
    """A run of ASTRA-sim 2.0's workloads: operations, chunks of collectives, messages."""

    kinds: ClassVar[Sequence[str]] = tuple(EVENTS)

    @property
    def lanes(self) -> Sequence[str]:
        """The lanes of a rank: without that of remote memory where nothing asks for any."""
        return LANES if (self.about.kind == t.MEMORY).any() else LANES[:2]

    @property
    def stands_for(self) -> int:
        """Each for itself."""
        return 1

    @property
    def owners(self) -> Sequence[Any]:
        """NPUs, operations and queues."""
        return self.machine.npus, self.machine.operations, self.machine.queues

    def config(self) -> dict[str, int]:
        """Numbers that the run was made with."""
        row = self.machine.config[0]
        return {said: int(row[name]) for name, said in _CONFIG.items()}

    @property
    def longest_ps(self) -> int:
        """What the operations of a rank take at most, one after another, as far as it is known."""
        rows = self.machine.operations
        return int(np.bincount(rows.npu, rows.duration_ns.astype(float)).max(initial=0.0)) * 1000

    def copy(self, *, record: bool = True) -> Self:
        """An independent engine in the same state."""
        del record  # what is recorded is small
        return type(self)(self.run.copy(), self.title, self.collective, self.about, self.base_ns, self.edits)

    def go(self, *, steps: int, closely: bool, until_ps: int | None = None, **most: int) -> int:
        """Handle events up to the limits."""
        if until_ps is not None:
            most["until_ns"] = until_ps // 1000
        return int(self.run.go(steps=steps, closely=closely, **most))

    def finish(self) -> bool:
        """Simulate one NPU for all where they do the same and nothing is recorded."""
        if self.recording or self.edits or not self.run.folds:
            return False
        self.run.finish()
        return True

    def check(self, why: int) -> None:
        """Raise a Deadlock where nothing is left to happen and a rank is not done."""
        del why
        if self.next_ps >= 0:
            return
        if self.machine.clock[0].finished < self.ranks:
            check_links(self.about, self.machine, self.edits)
        self.run.result()

    def on_event(self, kind: str | None, path: str | None) -> Breakpoint:
        """Stop after an event of a kind that concerns an object."""
        return on_event(kind, path, self.about, self.machine)

    def condition(self, text: str) -> Breakpoint:
        """Stop when a condition on a field becomes true."""

        def find(name: str) -> ConditionField:
            path, _, word = name.rpartition(".")
            place = resolve(path or name, self.about, self.machine)
            return ConditionField(
                place.path, _OWNERS.get(place.kind, -1), place.rows, field_of(place, word), word
            )

        return breakpoints.condition(text, find, self.owners, {"what": NOTHING}, "rank[3].waiting > 0")

    def readers(self, path: str) -> tuple[str, dict[str, Callable[[Any], float]]]:
        """An object's full path, and what can be followed of it."""
        place = resolve(path, self.about, self.machine)
        return place.path, {word: partial(_read, read, place) for word, read in READERS[place.kind].items()}

    def fields(self, path: str) -> Sequence[str]:
        """What a condition may name of an object."""
        return tuple(FIELDS.get(resolve(path, self.about, self.machine).kind, ()))

    def recorded(self, path: str) -> frozenset[str]:
        """What of it a run knows only where it records."""
        return NOTED.get(resolve(path, self.about, self.machine).kind, frozenset())

    def parameters(self, path: str) -> list[Parameter]:
        """What can be changed of an object, as it is now."""
        return parameters(resolve(path, self.about, self.machine), self.machine, self.edits) if path else []

    def directions(self, link: str, *, both: bool) -> list[str]:
        """A link's full path, and, if wanted, that of the one the other way."""
        place = resolve(link, self.about, self.machine)
        if place.kind != "link":
            raise InputError(f"{place.path} is not a link", where="kill", hint="write link[7]")
        back = reverse_link(self.machine, place.rows[0]) if both else -1
        if both and back < 0:
            hint = "kill each of the two; links of an infrastructure are named one by one"
            raise InputError("its other direction is not known", where=place.path, hint=hint)
        return [place.path, f"link[{back}]"] if both else [place.path]

    def read_edit(self, path: str, value: float | str | bool) -> Edit:
        """Check a change and make an edit of it."""
        return read_edit(self.count("events"), self.now_ps, path, value, self.about, self.machine)

    def number(self, edit: Edit) -> float:
        """What an edit is about as it is now, in the unit of the edit's field."""
        return value_of(edit.kind, edit.field, edit.rows[0], self.machine, self.edits)

    def apply(self, edit: Edit) -> None:
        """Carry an edit out."""
        apply_edit(edit, self.machine, self.base_ns)

    def inspect(self, path: str) -> dict[str, Any]:
        """Look at an object."""
        return inspect(self, path)

    def numbers(self, path: str) -> dict[str, Any]:
        """Every number of an object that conditions and watches may name."""
        return {word: read(self.machine) for word, read in self.readers(path)[1].items()}

    def narrate(self) -> str:
        """Say in one line what happened last."""
        return narrate(self)

    def concerned(self) -> str:
        """The rank that the last event was about."""
        watch = self.machine.watch[0]
        return f"rank[{int(watch.npu)}]" if self.count("events") and watch.what >= 0 else ""

    def states(self, rows: Any) -> Any:
        """Numbers of the states of operations."""
        return states_of(self.machine, rows)

    def progress(self, row: int) -> tuple[int, int]:
        """How many chunks of an operation are done, of how many."""
        return chunks_of(self.machine, row)

    def computed_ps(self) -> np.ndarray:
        """What each rank's GPU has computed."""
        return _computed_ns(self.machine, self.about.own, self.run.now_ns) * 1000

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

    def tracks(self) -> tuple[Spans, np.ndarray, Sequence[str]]:
        """Spans of operations, the place of each, and the places' names."""
        spans = spans_of(self)
        return spans, np.asarray(self.machine.operations.place)[spans.row], _PLACES

    def lane_spans(self) -> Spans:
        """The operations: a lane is what they do."""
        return spans_of(self)

    def arrows(self) -> tuple[np.ndarray, np.ndarray]:
        """Sends and their receives."""
        return pairs(self)

    def segments(self) -> list[Segment]:
        """The operations each of which had to wait for the one before."""
        return critical_path(self)

    def ready_ps(self) -> np.ndarray:
        """From when on each operation that has begun waits for no other rank."""
        return ready_ps(self)

    def why(self, path: str) -> Why:
        """Follow the waits of a rank or an operation."""
        return explain_wait(self, path)

    def slow(self) -> list[tuple[int, float]]:
        """Ranks that compute longer than the one in the middle; the slowest first."""
        return slow_ranks(self.machine, self.about.own)

    def dimension(self, dim: int) -> dict[str, Any]:
        """What was sent in a dimension."""
        return dimension(self, dim)

    def own_tables(self) -> dict[str, Callable[[], Any]]:
        """Collectives over their ranks, and links."""
        return {"collectives": lambda: collectives(self), "links": lambda: links(self)}

    def own_lines(self) -> list[str]:
        """Nothing else."""
        return []

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What the tables do not say: names, and what depends on what."""
        about = self.about
        said = {
            "names": about.names,
            "topology": about.topology,
            "own": about.own,
            "links": about.links,
            "infra": about.infra,
            "title": self.title,
            "collective": self.collective,
        }
        return said, {
            **{f"about/{name}": getattr(about, name) for name in ABOUT},
            "base_ns": self.base_ns,
        }

    @classmethod
    def _restored(cls, said: Mapping[str, Any], data: Mapping[str, np.ndarray], machine: Any) -> Self:
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
                name_links=partial(list, said["links"]), infra=said["infra"],
            )  # fmt: skip
            collective = said["collective"] and tuple(said["collective"])
            run = Run.of_machine(cast("t.MessageMachine", machine))
            return cls(run, said["title"], collective, about, data["base_ns"])
        except KeyError as error:
            raise InputError(f"{error} is missing") from error


def _read(read: Callable[[t.MessageMachine, RunPart], int], place: RunPart, machine: t.MessageMachine) -> int:
    return read(machine, place)


def _computed_ns(m: t.MessageMachine, own: int, now_ns: int) -> np.ndarray:
    """How long each rank's GPU has computed, summed: ASTRA-sim's figure, which it books at the start."""
    rows: Any = m.operations[:own]
    running = np.flatnonzero(
        (rows.kind == t.COMPUTE) & (rows.place != t.ON_CPU) & (rows.start_ns >= 0) & (rows.end_ns < 0)
    )
    left = rows.start_ns[running] + rows.duration_ns[running] - now_ns
    result = np.array(m.npus.compute_ns, np.int64)
    np.subtract.at(result, rows.npu[running], left)
    return result
