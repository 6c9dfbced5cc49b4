"""Paths of the objects of a layer table's run: the rank, operations, layers, their parts, dimensions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from astranb.core.errors import InputError, near
from astranb.engine.breakpoints import ConditionField
from astranb.engine.messages import number_of, operation_row, unknown
from astranb.engine.operations import About
from astranb.infragraph import typed

from .about import PARTS, ProgramRows
from .run import LayerRun

__all__ = ["FIELDS", "LayerPart", "condition_field", "resolve"]

_CLOCK, _OPERATIONS, _SLOTS, _COLLECTIVES, _QUEUES = range(5)  # owners, as the loop knows them

FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "rank": {
        "waiting": (_CLOCK, "waiting"), "ongoing": (_CLOCK, "under_way"),
        "chunks": (_CLOCK, "streams_left"), "passes": (_CLOCK, "passes"),
        "compute_ps": (_CLOCK, "compute_ps"), "end_ps": (_CLOCK, "end_ps"),
    },
    "op": {
        "start_ps": (_OPERATIONS, "begun_ps"), "end_ps": (_OPERATIONS, "ended_ps"),
        "chunks": (_COLLECTIVES, "chunks"), "chunks_done": (_COLLECTIVES, "over"),
    },
    "layer": {
        "ongoing": (_SLOTS, "under_way"), "waiting": (_SLOTS, "waiting"),
        "compute_ps": (_SLOTS, "compute_ps"), "exposed_ps": (_SLOTS, "exposed_ps"),
        "total_ps": (_SLOTS, "total_ps"),
    },
    "dim": {
        "running": (_QUEUES, "running"), "inside": (_QUEUES, "inside"), "chunks_done": (_QUEUES, "chunks"),
    },
}  # fmt: skip
"""Fields of conditions: by kind of object, the word, its table and the table's field."""

_PATH = re.compile(r"(?:rank|npu)\[(?P<rank>[^\]]*)\](?:\.(?P<kind>op|dim)\[(?P<which>.*)\])?\Z")
_DIM = re.compile(r"dim\[(?P<which>[^\]]*)\]\Z")
_LAYER = re.compile(r"layer\[(?P<which>.*)\](?:\.(?P<part>\w+))?\Z")


@dataclass(frozen=True)
class LayerPart:
    """Something that can be looked at.

    Attributes
    ----------
    kind : str
        ``rank``, ``op``, ``layer`` (or a part of one) or ``dim``.
    path : str
    operation, layer, part, dim : int
        -1 where it is about all of them.
    """

    kind: str
    path: str
    operation: int = -1
    layer: int = -1
    part: int = -1
    dim: int = -1

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows that an edit changes: the parts of a layer, or a dimension."""
        return self.slots or (self.dim,)

    @property
    def slots(self) -> tuple[int, ...]:
        """The parts of a layer that it is about."""
        parts = range(3) if self.part < 0 else (self.part,)
        return tuple(3 * self.layer + part for part in parts) if self.layer >= 0 else ()


def resolve(path: str, run: LayerRun, about: About) -> LayerPart:
    """Find what a path names; a layer's name alone names the layer.

    Raises
    ------
    InputError
        There is no such thing.
    """
    text = typed(path)
    names = [layer.name for layer in run.inputs.table.layers]
    if text in names:
        return _layer(names.index(text), names, None, path)
    if found := _LAYER.match(text):
        which = found["which"].strip()
        number = names.index(which) if which in names else number_of(which, len(names), "layer", path, names)
        return _layer(number, names, found["part"], path)
    dims = len(about.topology)
    if found := _DIM.match(text):
        dim = number_of(found["which"], dims, "dimension", path)
        return LayerPart("dim", f"dim[{dim}]", dim=dim)
    if not (found := _PATH.match(text)):
        counts = {"rank": 1, "dim": dims}
        raise unknown(text, about, counts, [f"layer[{name}]" for name in names])
    rank = number_of(found["rank"], run.inputs.network.npus, "rank", path)
    if rank:
        hint = f"write rank[0], which stands for all {run.inputs.network.npus}"
        raise InputError(f"rank {rank} does what rank 0 does, at the same time", where=path[:80], hint=hint)
    if found["kind"] == "dim":
        dim = number_of(found["which"], dims, "dimension", path)
        return LayerPart("dim", f"dim[{dim}]", dim=dim)
    if found["kind"] == "op":
        row = operation_row(found["which"].strip(), 0, about, path)
        return LayerPart("op", about.path(row), operation=row)
    return LayerPart("rank", "rank[0]")


def condition_field(
    path: str, name: str, places: Sequence[LayerPart], run: LayerRun, about: About, program: ProgramRows
) -> ConditionField:
    """Find the field of some objects that a condition's word means.

    Raises
    ------
    InputError
        There is no such field.
    """
    rows: list[int] = []
    for place in places:
        known = FIELDS[place.kind]
        if name not in known:
            raise InputError(f"no field {name!r}", where=place.path, hint=near(name, known))
        owner, field = known[name]
        rows += _rows_of(place, name, owner, run, about, program)
    full = places[0].path if len(places) == 1 else path.strip()
    return ConditionField(full, owner, rows, field, name)


def _rows_of(
    place: LayerPart, name: str, owner: int, run: LayerRun, about: About, program: ProgramRows
) -> Sequence[int]:
    """Return the rows of the table that has a field of an object."""
    m = run.machine
    if place.kind == "op":
        row = int(program.at[place.operation])
        if owner != _COLLECTIVES:
            return (row,)
        if about.kind[place.operation] == 0:
            raise InputError(f"a computation has no {name}", where=place.path, hint="name a collective")
        return (int(m.operations.slot[row]),)
    if place.kind == "layer":
        return place.slots
    if place.kind == "dim":
        each = int(m.clock[0].queues)
        return range(place.dim * each, (place.dim + 1) * each)
    return (0,)


def _layer(number: int, names: list[str], part: str | None, path: str) -> LayerPart:
    parts = [word.lower() for word in PARTS]
    full = f"layer[{names[number]}]"
    if part is None:
        return LayerPart("layer", full, layer=number)
    if part.lower() not in parts:
        raise InputError(f"a layer has no {part[:40]!r}", where=path[:80], hint=near(part, parts))
    return LayerPart("layer", f"{full}.{part.lower()}", layer=number, part=parts.index(part.lower()))
