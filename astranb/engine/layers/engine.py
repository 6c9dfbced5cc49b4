"""The layer engine: what ``Simulation`` needs of a run of ASTRA-sim 1.0's layer tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from astranb.core.errors import InputError
from astranb.engine.breakpoints import Breakpoint, ConditionField
from astranb.engine.edits import RECORD, Edit, Parameter
from astranb.engine.operations import Spans, spans_of
from astranb.infragraph import is_several

from . import edits, flights, inspection
from . import run_tables as result_tables
from .about import PARTS
from .breakpoints import EVENTS, on_event
from .paths import FIELDS, LayerPart, condition_field
from .state import LayerState

__all__ = ["LayerEngine"]


class LayerEngine(LayerState):
    """A run of ASTRA-sim 1.0's layer tables: passes of a training loop, chunks of collectives."""

    traits: ClassVar = LayerState.traits._replace(event_kinds=tuple(EVENTS))
    field_names = FIELDS
    inspectors = inspection.INSPECTORS
    example = "rank[0].waiting > 0"

    states = inspection.states_of
    why = inspection.why
    segments = result_tables.critical_path
    dimension = result_tables.dimension
    own_lines = result_tables.lines
    link_graph = flights.link_graph
    link_path = flights.link_path
    queues = flights.queues
    recorded_flights = flights.recorded_flights
    flights = flights.flights

    def copy(self, *, record: bool = True, show: bool = False) -> Self:
        """An independent engine in the same state."""
        del record, show  # what is recorded is small
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.run, other.edits, other.as_of_ps = self.run.copy(), list(self.edits), -1
        return other

    def go(self, *, steps: int, closely: bool, until_ps: int | None = None, **most: int) -> int:
        """Handle events up to the limits."""
        if until_ps is not None:
            most["until_ps"] = until_ps
        return self.run.go(steps=steps, closely=closely, **most)

    def stopped(self, why: int) -> None:
        """Do nothing: a training loop always ends, and its collectives do."""

    def others(self) -> Iterable[str]:
        """Paths of layers."""
        return (f"layer[{layer.name}]" for layer in self.run.inputs.table.layers)

    def parts(self, path: str = "") -> Mapping[str, Iterable[str]]:
        """Paths of the parts of the rank or of a layer, by their kinds."""
        if path.startswith("layer[") and not is_several(path):
            return {"part": (f"{path}.{word.lower()}" for word in PARTS)}
        return super().parts(path)

    def on_event(self, kind: str | None, path: str | None) -> Breakpoint:
        """Stop after an event of a kind that concerns an object."""
        return on_event(kind, path, [] if path is None else self.resolve_all(path), self.program)

    def condition_field(self, path: str, word: str) -> ConditionField:
        """Find the field that a condition's word means."""
        return condition_field(path, word, self.resolve_all(path), self.run, self.about, self.program)

    def readers(self, place: LayerPart) -> dict[str, Callable[[Any], float]]:
        """Readers of what can be watched of an object, from an engine: what conditions may name."""
        found: dict[str, Callable[[Any], float]] = {}
        for word in FIELDS[place.kind]:
            try:
                where = self.condition_field(place.path, word)
            except InputError:  # a computation has no chunks
                continue
            found[word] = partial(_read, where)
        return found

    def parameters(self, place: LayerPart) -> list[Parameter]:
        """Return the parameters of an object with their values now."""
        return edits.parameters(place, self.run, self.edits)

    def read_edit(self, path: str, value: float | str | bool, *, back: bool = False) -> Edit:
        """Check a change and make an edit of it; no link has a name: they are alike in a dimension."""
        if path == RECORD:
            raise self.no_switch(value)
        if back or path.endswith(".up"):
            hint = "change dim[N].bandwidth, or take ASTRA-sim 2.0's files"
            where = path.removesuffix(".up")[:80]
            raise InputError("a layer table's network has no single links", where=where, hint=hint)
        return edits.read_edit(path, value, self.resolve_all, self.run, self.edits)

    def present(self, edit: Edit) -> list[float]:
        """Return the present value of each row that an edit changes, in the unit of its field."""
        return edits.present(edit.kind, edit.field, edit.rows, self.edits, self.run)

    def apply(self, edit: Edit) -> None:
        """Carry an edit out, behind those that were carried out before."""
        edits.apply(edit, self.edits, self.run, self.base_ps)

    def happened(self, watch: Any) -> str:
        """Describe what was reported last."""
        what = self.about.text(int(self.program.of[int(watch.operation)]))
        dim = int(watch.queue) // int(self.machine.clock[0].queues)
        return inspection.HAPPENED[int(watch.what)].format(what=what, dim=dim)

    def concerned(self) -> str:
        """The rank, once something has happened."""
        return "rank[0]" if self.run.events and self.machine.watch[0].what >= 0 else ""

    def track_spans(self) -> Spans:
        """The operations, and after them the waits of the program."""
        spans = spans_of(self)
        row, start, end = inspection.waits_of(self)
        real = row >= 0
        row, start, end = row[real], start[real], end[real]
        return Spans(
            np.concatenate([spans.row, row]),
            np.concatenate([spans.npu, np.zeros(len(row), np.int64)]),
            np.concatenate([spans.track, np.full(len(row), 2)]),
            np.concatenate([spans.start_ps, start]),
            np.concatenate([spans.end_ps, np.where(end >= 0, end, self.now_ps)]),
        )

    def trace_tracks(self) -> tuple[Spans, np.ndarray, Sequence[str]]:
        """Spans of a trace, the track of each, and the tracks' names."""
        spans = self.track_spans()
        return spans, spans.track, self.tracks

    def arrows(self) -> tuple[np.ndarray, np.ndarray]:
        """Nothing: no single messages are simulated."""
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def ready_ps(self) -> np.ndarray:
        """At once: all ranks do the same at the same time."""
        return np.zeros(self.about.own, np.int64)

    def slow(self) -> list[tuple[int, float]]:
        """None: all ranks are alike."""
        return []

    def names(self, rows: Sequence[int]) -> dict[str, list[str]]:
        """Columns that name operations: also the layer, and which of its parts."""
        layers, slots = self.run.inputs.table.layers, [int(self.program.slot[row]) for row in rows]
        return {
            **super().names(rows),
            "layer": [layers[slot // len(PARTS)].name for slot in slots],
            "part": [PARTS[slot % len(PARTS)] for slot in slots],
        }

    def own_tables(self) -> dict[str, Callable[[], Any]]:
        """Collectives and layers."""
        return {
            "collectives": lambda: result_tables.collectives(self),
            "layers": lambda: result_tables.layers(self),
        }


def _read(where: ConditionField, engine: LayerState) -> int:
    return int(engine.owners[where.owner][where.field][list(where.rows)].sum())
