"""The layer engine: answers what one asks of a run of ASTRA-sim 1.0's layer tables."""

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
from astranb.engine.messages.tables import NOTHING
from astranb.engine.operations.run import Spans
from astranb.engine.operations.spans import spans_of
from astranb.engine.why import Why

from . import edits, inspection
from . import result_tables as _tables
from . import tables as t
from .paths import FIELDS, find, resolve
from .run import condition_tables
from .state import LayerState
from .store import run_of, said_of

__all__ = ["LayerEngine"]


class LayerEngine(LayerState):
    """A run of ASTRA-sim 1.0's layer tables: passes of a training loop, chunks of collectives."""

    kinds: ClassVar[Sequence[str]] = tuple(edits.EVENTS)

    def copy(self, *, record: bool = True) -> Self:
        """An independent engine in the same state."""
        del record  # what is recorded is small
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.run, other.edits = self.run.copy(), list(self.edits)
        return other

    def go(self, *, steps: int, closely: bool, until_ps: int | None = None, **most: int) -> int:
        """Handle events up to the limits."""
        if until_ps is not None:
            most["until_ps"] = until_ps
        return self.run.go(steps=steps, closely=closely, **most)

    def check(self, why: int) -> None:
        """Do nothing: a training loop always ends, and its collectives do."""

    def on_event(self, kind: str | None, path: str | None) -> Breakpoint:
        """Stop after an event of a kind that concerns an object."""
        return edits.on_event(kind, path, self.run, self.about, self.program)

    def condition(self, text: str) -> Breakpoint:
        """Stop when a condition on a field becomes true."""

        def found(name: str) -> ConditionField:
            path, _, word = name.rpartition(".")
            return find(path or name, word, self.run, self.about, self.program)

        return breakpoints.condition(text, found, self.owners, {"what": NOTHING}, "rank[0].waiting > 0")

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

    def fields(self, path: str) -> Sequence[str]:
        """What a condition may name of an object."""
        return tuple(FIELDS[resolve(path, self.run, self.about).kind])

    def recorded(self, path: str) -> frozenset[str]:
        """Nothing that can be followed is only known where a run records."""
        del path
        return frozenset()

    def parameters(self, path: str) -> list[Parameter]:
        """What can be changed of an object, as it is now."""
        return edits.parameters(resolve(path, self.run, self.about), self.run, self.edits) if path else []

    def directions(self, link: str, *, both: bool) -> list[str]:
        """Links of a layer table's network are the same everywhere in a dimension, and cannot be named."""
        del both
        hint = "change dim[N].bandwidth, or take ASTRA-sim 2.0's files"
        raise InputError("a layer table's network has no single links", where=link[:80], hint=hint)

    def read_edit(self, path: str, value: float | str | bool) -> Edit:
        """Check a change and make an edit of it."""
        return edits.read_edit(path, value, self.run, self.about)

    def number(self, edit: Edit) -> float:
        """What an edit is about as it is now, in the unit of the edit's field."""
        return edits.number(edit, self.edits, self.run)

    def apply(self, edit: Edit) -> None:
        """Carry an edit out, behind those that were carried out before."""
        edits.apply(edit, self.edits, self.run, self.base_ps)

    def inspect(self, path: str) -> dict[str, Any]:
        """Look at an object."""
        return inspection.inspect(self, path)

    def numbers(self, path: str) -> dict[str, Any]:
        """Every number of an object that conditions and watches may name."""
        return {word: read(self.machine) for word, read in self.readers(path)[1].items()}

    def narrate(self) -> str:
        """Say in one line what happened last."""
        return inspection.narrate(self)

    def concerned(self) -> str:
        """The rank, once something has happened."""
        return "rank[0]" if self.run.events and self.machine.watch[0].what >= 0 else ""

    def states(self, rows: Any) -> Any:
        """Numbers of the states of operations."""
        return inspection.states_of(self, rows)

    def lane_spans(self) -> Spans:
        """The operations, and behind them where the program waits for what."""
        spans = spans_of(self)
        row, start, end = inspection.waits_of(self)
        real = row >= 0
        row, start, end = row[real], start[real], end[real]
        return Spans(
            np.concatenate([spans.row, row]),
            np.concatenate([spans.npu, np.zeros(len(row), np.int64)]),
            np.concatenate([spans.lane, np.full(len(row), 2)]),
            np.concatenate([spans.start_ps, start]),
            np.concatenate([spans.end_ps, np.where(end >= 0, end, self.now_ps)]),
        )

    def tracks(self) -> tuple[Spans, np.ndarray, Sequence[str]]:
        """The same for a trace."""
        spans = self.lane_spans()
        return spans, spans.lane, self.lanes

    def arrows(self) -> tuple[np.ndarray, np.ndarray]:
        """Nothing: no single messages are simulated."""
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def segments(self) -> list[Segment]:
        """The operations each of which had to wait for the one before."""
        return _tables.critical_path(self)

    def ready_ps(self) -> np.ndarray:
        """At once: all ranks do the same at the same time."""
        return np.zeros(self.about.own, np.int64)

    def why(self, path: str) -> Why:
        """What the loop does or waits for."""
        return inspection.why(self, path)

    def slow(self) -> list[tuple[int, float]]:
        """None: all ranks are alike."""
        return []

    def dimension(self, dim: int) -> dict[str, Any]:
        """What was sent in a dimension."""
        bandwidth = edits.bandwidth_now(self.run, self.edits, dim)
        return _tables.dimension(self, dim, self.time_ps, bandwidth)

    def own_tables(self) -> dict[str, Callable[[], Any]]:
        """Collectives and layers."""
        return {"collectives": lambda: _tables.collectives(self), "layers": lambda: _tables.layers(self)}

    def own_lines(self) -> list[str]:
        """The layers that are waited for most."""
        return _tables.lines(self)

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The inputs, and how phases were planned: no code, so that loops of one's own are not needed."""
        columns = {"sent": self.run.built.sent, "planned": self.run.built.planned, "base_ps": self.base_ps}
        return {**said_of(self.run), "title": self.title}, columns

    @classmethod
    def _restored(cls, said: Mapping[str, Any], data: Mapping[str, np.ndarray], machine: Any) -> Self:
        """Make one of what :meth:`saved` gave and of tables."""
        run = run_of(said, data["sent"], data["planned"], cast("t.LayerMachine", machine))
        return cls(run, said["title"], data["base_ps"])


def _read(where: ConditionField, machine: t.LayerMachine) -> int:
    return int(condition_tables(machine)[where.owner][where.field][list(where.rows)].sum())
