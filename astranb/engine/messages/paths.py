"""Paths of the objects of a workload's run: ranks, their operations, dimensions, links."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from astranb.core.errors import InputError, near, nearest
from astranb.engine.operations import About
from astranb.infragraph import numbers_in, typed

from . import tables as t
from .link_ends import link_count

__all__ = ["FIELDS", "RunPart", "field_of", "number_of", "operation_row", "resolve", "unknown"]

FIELDS: dict[str, dict[str, str]] = {
    "rank": {
        "waiting": "ready", "ongoing": "ongoing", "compute_ns": "compute_ns", "end_ns": "end_ns",
    },
    "op": {
        "waits": "waits", "start_ns": "start_ns", "end_ns": "end_ns", "chunks": "streams",
        "chunks_done": "streams_done",
    },
    "queue": {"running": "running"},
}  # fmt: skip
"""Fields of conditions: by kind of object, the word and the field of the table."""

_PART = re.compile(r"(?P<kind>rank|npu|op|dim|link)\[(?P<which>[^\]]*)\]\Z")


@dataclass(frozen=True)
class RunPart:
    """Something that can be looked at.

    Attributes
    ----------
    kind : str
        ``rank``, ``op``, ``queue`` (a rank's in a dimension), ``dim`` or ``link``.
    path : str
    rows : tuple of int
        Of the table of npus, operations, queues, dims or links.
    npu, operation, dim : int
        -1 where it is about all of them.
    shares : tuple of float
        Of links ``A->B`` of an infrastructure, how many of them each row stands for; empty where rows stand
        for lanes of other links, too.
    """

    kind: str
    path: str
    rows: tuple[int, ...]
    npu: int = -1
    operation: int = -1
    dim: int = -1
    shares: tuple[float, ...] = ()


def resolve(path: str, about: About, machine: t.MessageMachine) -> RunPart:
    """Find what a path names.

    Raises
    ------
    InputError
        There is no such thing.
    """
    npus, dims = len(machine.npus), int(machine.config[0].dims)
    parts = [_PART.match(part) for part in re.split(r"\.(?=(?:op|dim)\[)", typed(path))]
    found = [(part["kind"].replace("npu", "rank"), part["which"].strip()) for part in parts if part]
    kinds = tuple(kind for kind, _ in found)
    if len(found) != len(parts) or kinds not in (
        ("rank",), ("rank", "op"), ("rank", "dim"), ("dim",), ("link",),
    ):  # fmt: skip
        raise unknown(path, about, {"rank": npus, "dim": dims, "link": link_count(about, machine)})
    if kinds == ("dim",):
        dim = number_of(found[0][1], dims, "dimension", path)
        return RunPart("dim", f"dim[{dim}]", (dim,), dim=dim)
    if kinds == ("link",):
        links = link_count(about, machine)
        if not links:
            simulated = machine.config[0].congestion
            hint = "links are simulated with congestion (--fidelity congestion)"
            hint = "no message takes one" if simulated else hint
            raise InputError("this run has no links", where=path, hint=hint)
        link = number_of(found[0][1], links, "link", path)
        return RunPart("link", f"link[{link}]", (link,))
    rank = number_of(found[0][1], npus, "rank", path)
    if kinds == ("rank",):
        return RunPart("rank", f"rank[{rank}]", (rank,), npu=rank)
    if kinds == ("rank", "dim"):
        dim = number_of(found[1][1], dims, "dimension", path)
        each, lanes = int(machine.config[0].queues), int(machine.config[0].lanes)
        starts = [((rank * lanes + lane) * dims + dim) * each for lane in range(lanes)]
        rows = tuple(first + at for first in starts for at in range(each))
        return RunPart("queue", f"rank[{rank}].dim[{dim}]", rows, npu=rank, dim=dim)
    row = operation_row(found[1][1], rank, about, path)
    return RunPart("op", about.path(row), (row,), npu=rank, operation=row)


def unknown(path: str, about: About, counts: Mapping[str, int], names: Iterable[str] = ()) -> InputError:
    """Return the error for a name that is none, with those nearest to it.

    Parameters
    ----------
    path : str
    about : About
    counts : mapping of str to int
        How many there are of each kind.
    names : iterable of str
        Other names.
    """
    first, second = (*numbers_in(path), 0, 0)[:2]
    own = [f"{kind}[{min(first, count - 1)}]" for kind, count in counts.items() if count]
    rank = min(first, counts["rank"] - 1)
    parts = {"op": len(about.rows_of(rank)), "dim": counts["dim"]}
    own += [f"rank[{rank}].{kind}[{min(second, n - 1)}]" for kind, n in parts.items() if n]
    return InputError(f"unknown object {path!r:.80}", hint=nearest(path, [*own, *names]))


def field_of(place: RunPart, name: str) -> str:
    """The field of the table that a condition's word means.

    Raises
    ------
    InputError
        Such an object has none of that name.
    """
    known = FIELDS.get(place.kind, {})
    if name not in known:
        hint = near(name, known) if known else "ranks, operations and a rank's dimensions have some"
        raise InputError(f"no field {name!r}", where=place.path, hint=hint)
    return known[name]


def number_of(text: str, count: int, what: str, path: str, names: Sequence[str] = ()) -> int:
    """Read the number of an object in a path; ``names`` are what one may write instead.

    Raises
    ------
    InputError
        It is no number below the count.
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and int(text) < count):
        numbers = f"0 to {count - 1}" if count else "there are none"
        hint = nearest(text, names) if names else numbers
        raise InputError(f"no {what} {text[:40]!r}", where=path[:80], hint=hint)
    return int(text)


def operation_row(text: str, rank: int, about: About, path: str) -> int:
    """Find an operation of a rank by its number within the rank, or by its name.

    Raises
    ------
    InputError
        There is no such operation.
    """
    rows = about.rows_of(rank).tolist()
    if text.isascii() and text.isdecimal():
        return int(rows[number_of(text, len(rows), "operation", path)])
    names = [about.label(row) for row in rows]
    if text not in names:
        what = f"rank {rank} has no operation {text[:40]!r}"
        raise InputError(what, where=path[:80], hint=nearest(text, names) or "it has none")
    return int(rows[names.index(text)])
