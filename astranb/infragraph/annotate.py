"""Annotations of nodes, edges and links: properties that the InfraGraph schema lacks.

Keys that begin with ``astranb.`` are checked; others are kept unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - Blocks is shown by help()

from astranb.core.document import DocumentSource, Place
from astranb.core.errors import InputError, near
from astranb.core.units import bandwidth_Bps, time_ps

from .link_types import link_type
from .plan import Component, Device, ExpansionPlan, Selection, pick

__all__ = [
    "ALL_LANES",
    "Annotations",
    "Blocks",
    "Rate",
    "locate",
    "pcie_Bps",
    "read_annotations",
    "read_rate",
]

_MOST_SELECTED = 10**8
_MOST_TIMES = 16
"""Nodes that all annotations together select at most: so many, and so many times those that there are."""

ALL_LANES = 2**31
"""More lanes than a link can have: the whole link is down."""

_PART = re.compile(r"([^\[\]]+)(?:\[([^\[\]]*)\])?")
_TRANSFERS = re.compile(r"\s*([0-9.eE+-]+)\s*GT/s\s*\Z")


@dataclass(frozen=True, slots=True)
class Rate:
    """A bandwidth as written: bytes per second, or transfers per second of one PCIe lane."""

    Bps: int
    transfers: Decimal | None = None

    def of_width(self, width: int) -> int:
        """Bytes per second; a rate in GT/s is that of ``width`` lanes."""
        return self.Bps if self.transfers is None else pcie_Bps(self.transfers, width)


def pcie_Bps(gigatransfers: Decimal, width: int) -> int:  # noqa: N802 - unit in the name
    """Bytes per second that a PCIe link carries in one direction.

    The encoding is 8b/10b up to 5 GT/s (PCIe 1 and 2), 242 of 256 B from 64 GT/s (PCIe 6), and
    128b/130b between them.

    Examples
    --------
    >>> pcie_Bps(Decimal(32), 16)
    63015384615
    """
    if gigatransfers <= 5:
        encoding = Decimal(8) / 10
    else:
        encoding = Decimal(242) / 256 if gigatransfers >= 64 else Decimal(128) / 130
    return int(gigatransfers * 10**9 * encoding * width / 8)


def read_rate(value: object, where: str) -> Rate:
    """Read ``"400 Gbps"``, ``"112.5 GBps"``, ``"32 GT/s"`` or a whole number of bytes per second."""
    if isinstance(value, str) and (match := _TRANSFERS.match(value)):
        # The units module reads the number, so that it is as strict as with every other unit.
        transfers = Decimal(bandwidth_Bps(f"{match[1]} GB/s", where=where)) / 10**9
        return Rate(0, transfers)
    return Rate(bandwidth_Bps(_plain(value), where=where))


def _plain(value: object) -> Any:
    """Convert a number that is given as text, as annotation values are upstream."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value) else value


def _read_count(value: object, where: str, least: int) -> int:
    number = _plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number < 2**31:
        raise InputError(f"{value!r} is not a whole number of at least {least}", where=where)
    return number


def _read_gap_ps(value: object, where: str) -> int:
    """Picoseconds between two messages, from messages per second: ``215e6``, ``"215e6"``."""
    try:
        rate = Decimal(str(value)) if not isinstance(value, bool) else Decimal(0)
    except InvalidOperation:
        rate = Decimal(0)
    if not rate.is_finite() or not 1 <= rate <= 10**12:
        raise InputError(f"{value!r} is not a number of messages per second", where=where, hint="write 215e6")
    return int((10**12 / rate).to_integral_value(ROUND_CEILING))


def _read_down(value: object, where: str) -> int:
    """Read the number of lanes that are down: a number, or all."""
    return ALL_LANES if str(value).strip() == "all" else _read_count(value, where, 1)


def _read_yes(value: object, where: str) -> bool:
    text = str(value).strip().lower()
    if text not in ("yes", "no", "true", "false"):
        raise InputError(f"{value!r} is neither yes nor no", where=where)
    return text in ("yes", "true")


def _read_text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{value!r} is not text", where=where)
    return value


_READERS: dict[str, dict[str, Callable[[Any, str], Any]]] = {
    "node": {
        "astranb.profile": _read_text,
        "astranb.latency": lambda v, w: time_ps(_plain(v), where=w),
        "astranb.rank": lambda v, w: _read_count(v, w, 0),
        "rank": lambda v, w: _read_count(v, w, 0),
    },
    "edge": {
        "astranb.bandwidth": read_rate,
        "astranb.bandwidth_fwd": read_rate,
        "astranb.bandwidth_rev": read_rate,
        "astranb.latency": lambda v, w: time_ps(_plain(v), where=w),
        "astranb.lanes": lambda v, w: _read_count(v, w, 1),
        "astranb.message_rate": _read_gap_ps,
        "astranb.down": _read_down,
    },
    "graph": {"astranb.pxn": _read_yes},
}
_READERS["link"] = {
    **{key: reader for key, reader in _READERS["edge"].items() if key != "astranb.down"},
    "astranb.link_type": lambda v, w: link_type(_read_text(v, w), where=w),
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
