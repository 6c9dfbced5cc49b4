"""Annotations of nodes, edges and links: properties that the InfraGraph schema lacks.

Keys that begin with ``astranb.`` are checked; others are kept unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - Blocks is shown by help()

from astranb.core.document import DocumentSource, Place
from astranb.core.errors import InputError, near
from astranb.core.units import time_ps

from .link_properties import LINK_PROPERTIES, LinkProperty, count, plain
from .link_types import link_type
from .plan import Component, Device, ExpansionPlan, Selection, pick

__all__ = [
    "ALL_LANES",
    "Annotations",
    "Blocks",
    "locate",
    "read_annotations",
]

_MOST_SELECTED = 10**8
_MOST_TIMES = 16
"""Nodes that all annotations together select at most: so many, and so many times those that there are."""

ALL_LANES = 2**31
"""More lanes than a link can have: the whole link is down."""

_PART = re.compile(r"([^\[\]]+)(?:\[([^\[\]]*)\])?")


def _read_down(value: object, where: str) -> int:
    """Read the number of lanes that are down: a number, or all."""
    return ALL_LANES if str(value).strip() == "all" else count(value, where, 1)


def _read_yes(value: object, where: str) -> bool:
    text = str(value).strip().lower()
    if text not in ("yes", "no", "true", "false"):
        raise InputError(f"{value!r} is neither yes nor no", where=where)
    return text in ("yes", "true")


def _read_text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{value!r} is not text", where=where)
    return value


def _of_property(one: LinkProperty, value: object, _where: str) -> Any:
    return one.of_annotation(value)


_Readers = dict[str, Callable[[Any, str], Any]]


_OF_LINKS: _Readers = {
    **{key: partial(_of_property, one) for one in LINK_PROPERTIES for key in one.annotations},
    "astranb.lanes": lambda v, w: count(v, w, 1),
}
_READERS: dict[str, _Readers] = {
    "node": {
        "astranb.profile": _read_text,
        "astranb.latency": lambda v, w: time_ps(plain(v), where=w),
        "astranb.rank": count,
        "rank": count,
    },
    "edge": {**_OF_LINKS, "astranb.down": _read_down},
    "link": {**_OF_LINKS, "astranb.link_type": lambda v, w: link_type(_read_text(v, w), where=w)},
    "graph": {"astranb.pxn": _read_yes},
}


@dataclass(frozen=True, slots=True)
class Blocks:
    """Nodes by identifier: everything inside the selected units."""

    first: Selection  # first node of every selected unit
    length: int  # nodes in each of them
    leaf: bool  # the units are nodes

    def nodes(self) -> NDArray[np.int64]:
        """All of them: int64."""
        return (self.first.nodes()[:, None] + np.arange(self.length)[None, :]).ravel()


@dataclass(frozen=True, slots=True)
class Note:
    """One annotation: its nodes, its attributes, and the parsed ones of our own."""

    about: tuple[Blocks, ...]
    attributes: dict[str, Any]
    read: dict[str, Any]
    place: Place


@dataclass(slots=True)
class Annotations:
    """All annotations of a document, resolved against its plan."""

    nodes: list[Note] = field(default_factory=list)
    edges: list[Note] = field(default_factory=list)
    links: dict[str, Note] = field(default_factory=dict)
    graph: dict[str, Any] = field(default_factory=dict)
    pxn: bool = False
    source: DocumentSource = field(default_factory=lambda: DocumentSource("annotations"))


def locate(plan: ExpansionPlan, identifier: str) -> Blocks:
    """Find the nodes that an identifier names; a ValueError gives the reason if there are none.

    It is dotted (``host.0.gpu.3``), a prefix of that (``host.0``, ``host``: everything inside), or has
    slices (``host[0:4]gpu[0:8]``, with or without a dot between).
    """
    path: list[tuple[str, str | None]] = []
    for word in identifier.split("."):
        if path and path[-1][1] is None and re.fullmatch(r"[0-9]{1,18}", word):
            path[-1] = (path[-1][0], word)
            continue
        parts = list(_PART.finditer(word))
        if not word or sum(len(p[0]) for p in parts) != len(word):
            raise ValueError("write host.0.gpu.3, host.0 or host[0:4]gpu[0:8]")
        path += [(p[1], p[2]) for p in parts]
    name, inside = path[0]
    instance = plan.instance(name)
    device = instance.device
    level = (instance.base, device.size, pick(inside, instance.count))
    if len(path) == 1:
        return Blocks(Selection((level,)), device.size, leaf=False)
    selection, reached = plan.descend(device, path[1:])
    length = reached.size if isinstance(reached, Device) else 1
    return Blocks(Selection((level, *selection.levels)), length, isinstance(reached, Component))


def read_annotations(
    document: dict[str, Any], plan: ExpansionPlan, source: DocumentSource, at: Place = ()
) -> Annotations:
    """Resolve a checked annotation document."""
    found = Annotations(source=source)

    def blocks(entry: dict[str, Any], key: str, place: Place) -> Blocks:
        try:
            return locate(plan, entry[key])
        except ValueError as error:
            raise source.error(f"{entry[key]!r}: {error}", (*place, key)) from None

    for kind, keys, among in (("node", ("name",), found.nodes), ("edge", ("ep1", "ep2"), found.edges)):
        for i, entry in enumerate(document.get(f"{kind}s") or []):
            place = (*at, f"{kind}s", i)
            declared = _attributes(entry.get("attributes"), kind, source, place)
            among.append(Note(tuple(blocks(entry, key, place) for key in keys), *declared, place))
    _check_work(found, plan, source, at)
    names = {row.name for row in plan.links}
    for i, entry in enumerate(document.get("links") or []):
        place = (*at, "links", i)
        if entry["name"] not in names:
            raise source.error(f"unknown link {entry['name']!r}", place, near(entry["name"], names))
        attributes, read = _attributes(entry.get("attributes"), "link", source, place)
        before = found.links.get(entry["name"], Note((), {}, {}, place))
        before.attributes.update(attributes)
        before.read.update(read)
        found.links[entry["name"]] = replace(before, place=place)
    found.graph, read = _attributes(document.get("graph"), "graph", source, (*at, "graph"))
    found.pxn = read.get("astranb.pxn", False)
    return found


def _check_work(found: Annotations, plan: ExpansionPlan, source: DocumentSource, at: Place) -> None:
    """Check that annotations do not select too many nodes: they would take minutes to apply."""
    selected = sum(b.first.size * b.length for note in (*found.nodes, *found.edges) for b in note.about)
    if selected > _MOST_SELECTED + _MOST_TIMES * plan.nodes:
        raise source.error(
            f"the annotations select {selected:,} nodes, with repetitions, of {plan.nodes:,}",
            at,
            "annotate each node and edge once",
        )


def _attributes(
    entries: list[dict[str, Any]] | None, kind: str, source: DocumentSource, place: Place
) -> tuple[dict[str, Any], dict[str, Any]]:
    readers = _READERS[kind]
    attributes: dict[str, Any] = {}
    read: dict[str, Any] = {}
    for i, entry in enumerate(entries or []):
        key, value = entry["attribute"], entry["value"]
        spot = (*place, i) if kind == "graph" else (*place, "attributes", i)
        if key.startswith("astranb.") and key not in readers:
            own = [k for k in readers if k.startswith("astranb.")]
            hint = near(key, own) if own else "leave it out"
            raise source.error(f"unknown {kind} annotation {key!r}", spot, hint)
        attributes[key] = value
        if key in readers:
            try:
                read[key] = readers[key](value, "")
            except InputError as error:
                raise source.error(f"{key}: {error.what}", spot, error.hint) from None
    return attributes, read
