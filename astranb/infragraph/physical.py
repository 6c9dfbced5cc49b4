"""Physical properties of edges and nodes: of the document, of annotations, or of known link types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astranb.core.document import DocumentSource
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_time

from .annotate import Annotations, Note
from .expand import Edges
from .link_properties import BANDWIDTH, LINK_PROPERTIES, LinkProperty, Rate
from .link_types import CABLE, DEFAULT, LinkType, forwarding, recognise
from .plan import ExpansionPlan, LinkRow, NodeKind

__all__ = ["Physical", "check_links", "forward_latencies", "physical", "rank_order"]

Ints = NDArray[np.int64]
_PCIE_WIDTH = 16
_LEFT_EMPTY = {"bandwidth": "gigatransfers_per_second", "latency": "ns"}
"""Choices without a value that the upstream package adds to links when it reads them."""
Stated = dict[str, Any]
"""Values that a document states of a link row, by the name of the property."""


def _in_transfers(*rates: Rate | None) -> bool:
    return any(rate is not None and rate.transfers is not None for rate in rates)


def _of_lane(value: Rate | int, width: int) -> int:
    """Return the number of a lane; a rate in GT/s is that of ``width`` lanes."""
    return value.of_width(width) if isinstance(value, Rate) else value


@dataclass(slots=True)
class _Row:
    """One link row, resolved.

    Attributes
    ----------
    values : dict
        By the name of each property what is given from the first end to the second, and back; None: that
        of its type.
    """

    name: str
    type: LinkType
    why: str
    values: dict[str, tuple[Any, Any]]
    lanes: int | None = None

    @property
    def open(self) -> bool:
        """Whether bandwidth and lanes are both those of the type."""
        return self.values[BANDWIDTH.name] == (None, None) and self.lanes is None

    @property
    def in_transfers(self) -> bool:
        return _in_transfers(*self.values[BANDWIDTH.name])

    def numbers(self, one: LinkProperty) -> tuple[int, int]:
        """Return the numbers of a property in both directions."""
        usual = self.type.number(one)
        width = self.lanes or _PCIE_WIDTH
        forward, backward = (usual if v is None else _of_lane(v, width) for v in self.values[one.name])
        return forward, backward


@dataclass(slots=True)
class Physical:
    """Arrays over edges, as in `NodeGraph`, and which values are assumed.

    Attributes
    ----------
    down : ndarray
        Lanes that have failed.
    values : dict of str to ndarray, shape (2, edges)
        By column, from a to b and back.
    own : dict of str to ndarray of bool
        By property, which edges have annotations of it.
    """

    rows: list[_Row]
    edges: Edges
    kind: NDArray[np.int8]
    lanes: Ints
    down: Ints
    values: dict[str, Ints]
    own: dict[str, NDArray[np.bool_]]
    own_lanes: NDArray[np.bool_]
    assumed: list[str] = field(default_factory=list)

    def annotate(self, annotations: Annotations, nodes: int) -> None:
        """Apply the annotations of edges."""
        if not annotations.edges:
            return
        edges = self.edges
        key = np.minimum(edges.a, edges.b) * nodes + np.maximum(edges.a, edges.b)
        order = np.argsort(key, kind="stable")
        ordered = key[order]
        for note in annotations.edges:
            one, other = (blocks.nodes() for blocks in note.about)
            if len(one) == len(other) == 1:
                wanted = min(one[0], other[0]) * nodes + max(one[0], other[0])
                first, end = np.searchsorted(ordered, [wanted, wanted + 1])
                hit = order[first:end]
            else:
                at, to = np.zeros(nodes, bool), np.zeros(nodes, bool)
                at[one], to[other] = True, True
                hit = np.flatnonzero((at[edges.a] & to[edges.b]) | (at[edges.b] & to[edges.a]))
            if not len(hit):
                raise annotations.source.error(
                    "no edge joins these nodes", note.place, "name two nodes that an edge joins directly"
                )
            ends = self.kind[np.concatenate([edges.a[hit], edges.b[hit]])]
            for one_property in LINK_PROPERTIES:
                _check_senders(one_property, note, ends, annotations.source)
            inside = np.zeros(nodes, bool)
            inside[one] = True
            along = inside[edges.a[hit]]
            self._set(note.read, hit, along)

    def _set(self, declared: dict[str, Any], hit: Ints, along: NDArray[np.bool_]) -> None:
        """Apply one edge annotation; ``along`` is where a -> b is its ep1 -> ep2."""
        lanes = declared.get("astranb.lanes")
        width = lanes or _PCIE_WIDTH
        for one in LINK_PROPERTIES:
            given, column = one.both_ways(declared), self.values[one.column]
            for way, value in enumerate(given):
                if value is not None:
                    column[way, hit[along]] = column[1 - way, hit[~along]] = _of_lane(value, width)
            self.own[one.name][hit] |= None not in given
            if one.name == BANDWIDTH.name and lanes is not None:
                self._set_lanes(lanes, given, hit)
        if "astranb.down" in declared:
            self.down[hit] += declared["astranb.down"]

    def _set_lanes(self, lanes: int, rates: tuple[Rate | None, Rate | None], hit: Ints) -> None:
        """Apply the lanes of an edge annotation: the width of a PCIe link, or parallel lanes."""
        striped = np.asarray([r.in_transfers for r in self.rows])[self.edges.link[hit]]
        if rates == (None, None):
            column = self.values[BANDWIDTH.column]
            for i in hit[striped].tolist():
                for way, value in enumerate(self.rows[int(self.edges.link[i])].values[BANDWIDTH.name]):
                    column[way, i] = value.of_width(lanes) if value is not None else column[way, i]
        self.lanes[hit[~striped]] = 1 if _in_transfers(*rates) else lanes
        self.own_lanes[hit] = True

    def share_out(self) -> None:
        """Distribute the lanes that a GPU has of a link type over its edges, as evenly as possible.

        Only if the document gives neither bandwidth nor lanes and draws each edge once: otherwise its
        edges are lanes. The first edges of a GPU get the remainder.
        """
        open_rows = [i for i, r in enumerate(self.rows) if r.type.links_per_gpu and r.open]
        for name in dict.fromkeys(self.rows[i].type.name for i in open_rows):
            same = [i for i in open_rows if self.rows[i].type.name == name]
            lanes = self.rows[same[0]].type.links_per_gpu
            mine = np.flatnonzero(
                np.isin(self.edges.link, same) & ~self.own[BANDWIDTH.name] & ~self.own_lanes
            )
            if np.any(self.edges.repeats[mine] > 1):
                continue
            ends = np.concatenate([self.edges.a[mine], self.edges.b[mine]])
            rows_of_ends = np.concatenate([mine, mine])
            at_gpu = self.kind[ends] == NodeKind.XPU
            ends, rows_of_ends = ends[at_gpu], rows_of_ends[at_gpu]
            if not len(ends):
                continue
            order = np.lexsort((rows_of_ends, ends))
            ends, rows_of_ends = ends[order], rows_of_ends[order]
            _, first, inverse, count = np.unique(
                ends, return_index=True, return_inverse=True, return_counts=True
            )
            rank = np.arange(len(ends)) - first[inverse]
            share = np.maximum(lanes // count[inverse] + (rank < lanes % count[inverse]), 1)
            # An edge between two GPUs has the lanes that both ends have left for it.
            least = np.full(len(self.edges.a), np.iinfo(np.int64).max)
            np.minimum.at(least, rows_of_ends, share)
            touched = np.unique(rows_of_ends)
            self.lanes[touched] = least[touched]
            fewer = np.any(share > least[rows_of_ends])
            limited = ", fewer where the GPU at the other end has fewer to spare" if fewer else ""
            for n in np.unique(count).tolist():
                split = [max(1, lanes // n + (k < lanes % n)) for k in range(n)]
                shown = ", ".join(map(str, split[:8])) + (", …" if n > 8 else "") + limited
                self.assumed.append(
                    f"lanes of {name} on {plural(np.sum(count == n), 'GPU')}: "
                    f"{lanes} shared out over {plural(n, 'edge')} "
                    f"as {shown} ({self.rows[same[0]].type.source(BANDWIDTH)})"
                )

    def fail(self) -> Ints:
        """Take away the lanes that are down; returns the edges that have lost some.

        What a GPU's lanes are shared out over does not change: a failed link is not rewired.
        """
        self.lanes = np.maximum(0, self.lanes - self.down)
        return np.flatnonzero(self.down)

    def report(self) -> None:
        """List the values of the table of link types, once for each link row, with the number of edges."""
        open_edges = {one.name: self._open(one) for one in LINK_PROPERTIES}
        counted: Counter[str] = Counter()
        for i, row in enumerate(self.rows):
            taken = f"taken for {row.type.name}" + (f", because {row.why}" if row.why else "")
            if row.type is DEFAULT:
                taken = "nothing recognised by its name"
            for one in LINK_PROPERTIES:
                open_ = int(open_edges[one.name][i])
                if None in row.values[one.name] and one.name in row.type.values:
                    value = f"{one.text(row.type.number(one))}{one.of_type}"
                    source = row.type.source(one)
                    counted[f"{one.words} of {row.name!r}{one.where}: {value} ({taken}; {source})"] += open_
                elif one.name == BANDWIDTH.name and row.in_transfers:
                    width = (
                        plural(row.lanes, "lane") if row.lanes else "16 lanes, as nothing else is specified,"
                    )
                    text = f"width of {row.name!r}: {width} with the encoding of that PCIe generation"
                    counted[text] += open_
        self.assumed += [f"{text}, {plural(number, 'edge')}" for text, number in counted.items() if number]

    def _open(self, one: LinkProperty) -> Ints:
        """Count the edges of each link row that have the value of their row or type."""
        if one.senders:  # not of all edges, so that an equal value counts
            usual = np.asarray([row.type.number(one) for row in self.rows] or [0], np.int64)[self.edges.link]
            counted = (self.values[one.column] == usual).all(axis=0)
        else:
            counted = ~self.own[one.name]
        return np.bincount(self.edges.link[counted], minlength=len(self.rows))


def _check_senders(one: LinkProperty, note: Note, ends: NDArray[np.int8], source: DocumentSource) -> None:
    if one.senders and one.annotation in note.read and not np.isin(ends, one.senders).any():
        kinds = " nor ".join(f"a {_CALLED[kind]}" for kind in one.senders)
        what = f"a {one.words} of an edge between nodes that are neither {kinds}"
        raise source.error(what, note.place, f"annotate the edge that leaves the {_CALLED[one.senders[0]]}")


_CALLED = {NodeKind.NIC: "NIC", NodeKind.XPU: "GPU", NodeKind.CPU: "CPU", NodeKind.SWITCH: "switch"}


def check_links(plan: ExpansionPlan, source: DocumentSource) -> list[Stated]:
    """Read what the document states of each link row."""
    found: list[Stated] = []
    for row in plan.links:
        stated: Stated = {}
        for one in LINK_PROPERTIES:
            empty = _LEFT_EMPTY.get(one.name)
            if empty and row.physical.get(one.name) == {"choice": empty}:
                declared = f"{one.name} of link {row.name!r} has a choice but no value"
                plan.warnings.append(f"{declared}, as the infragraph package writes it: ignored")
            elif (chosen := _chosen(row, one, source)) is not None:
                unit, value = chosen
                try:
                    stated[one.name] = one.of_document(unit, value)
                except InputError as error:
                    place = (*row.place, "physical", one.name, unit)
                    raise source.error(error.what, place, error.hint) from None
        found.append(stated)
    return found


def _chosen(row: LinkRow, one: LinkProperty, source: DocumentSource) -> tuple[str, Any] | None:
    """Find the unit and the number that a document has of a property."""
    what = one.name
    document = row.physical.get(what)
    if document is None:
        return None
    place = (*row.place, "physical", what)
    values = {k: v for k, v in document.items() if k != "choice" and v is not None}
    choice = document.get("choice")
    if not values:
        unit = choice or next(iter(one.document_units))
        raise source.error(f"{what} of link {row.name!r} has no value", place, f"write {unit}: <number>")
    if len(values) > 1:
        raise source.error(
            f"{what} of link {row.name!r} is given as {' and as '.join(values)}", place, "keep one"
        )
    key, value = next(iter(values.items()))
    if choice is not None and choice != key:
        raise source.error(
            f"choice is {choice!r}, but the value is under {key!r}", place, f"write choice: {key}"
        )
    return key, value


def physical(
    plan: ExpansionPlan,
    edges: Edges,
    kind: NDArray[np.int8],
    annotations: Annotations,
    stated: list[Stated],
) -> Physical:
    """Find the lanes, bandwidth and latency of every edge."""
    around = _contexts(plan, annotations)
    rows = [
        _row(row, annotations, given, around(row.scope))
        for row, given in zip(plan.links, stated, strict=True)
    ]
    made = _from_rows(rows, edges, kind)
    made.annotate(annotations, plan.nodes)
    made.share_out()
    made.report()
    return made


def _contexts(plan: ExpansionPlan, annotations: Annotations) -> Callable[[str], tuple[str, str]]:
    """Return what gives, for a scope, the names and descriptions around its links, in lower case."""
    instances: dict[str, list[str]] = {}
    for instance in plan.instances.values():
        instances.setdefault(instance.device.name, []).append(instance.name)
    named = (n.read["astranb.profile"] for n in annotations.nodes if "astranb.profile" in n.read)
    profiles = " ".join(dict.fromkeys(map(str, named))).lower()

    @cache
    def around(scope: str) -> tuple[str, str]:
        texts = [scope]
        if device := plan.devices.get(scope):
            texts += [device.description, *(f"{c.name} {c.description}" for c in device.components.values())]
            texts += instances.get(scope, [])
        return " ".join(texts).lower(), profiles

    return around


def _row(
    row: LinkRow,
    annotations: Annotations,
    stated: Stated,
    around: tuple[str, ...],
) -> _Row:
    note = annotations.links.get(row.name)
    declared = note.read if note else {}
    if "astranb.link_type" in declared:
        kind, why = declared["astranb.link_type"], ""
    else:
        kind, why = recognise(row.name, row.description, *around)
        if kind is DEFAULT and not row.scope:
            kind, why = CABLE, "it joins instances"
    values = {one.name: one.both_ways(declared, stated.get(one.name)) for one in LINK_PROPERTIES}
    return _Row(row.name, kind, why, values, declared.get("astranb.lanes"))


def _from_rows(rows: list[_Row], edges: Edges, kind: NDArray[np.int8]) -> Physical:
    def column(values: Sequence[Any]) -> Ints:
        return np.asarray(values, np.int64)[edges.link]

    count = len(edges.a)
    # The lanes of a rate in GT/s are the width of one PCIe link, over which every byte is striped.
    lanes = column([1 if r.in_transfers else r.lanes or 1 for r in rows] or [1]) * edges.repeats
    values = {
        one.column: np.stack([column(way) for way in zip(*(r.numbers(one) for r in rows), strict=True)])
        if rows
        else np.zeros((2, 0), np.int64)
        for one in LINK_PROPERTIES
    }
    own = {one.name: np.zeros(count, bool) for one in LINK_PROPERTIES}
    return Physical(rows, edges, kind, lanes, np.zeros(count, np.int64), values, own, np.zeros(count, bool))


def forward_latencies(
    plan: ExpansionPlan, component: Ints, annotations: Annotations
) -> tuple[Ints, list[str]]:
    """Find the forwarding latency of every node in ps, and list the assumed ones."""
    texts = {d.name: f"{d.name} {d.description}".lower() for d in plan.devices.values()}

    @cache
    def guess(row: int) -> tuple[int, str, str]:
        device, c = plan.components[row]
        name, inside = c.name.lower(), f"{c.name} {c.description}".lower()
        kind = c.kind.name if c.kind is not None else ""
        return forwarding(kind, name, inside, texts[device.name])

    table = np.asarray([guess(i)[0] for i in range(len(plan.components))] or [0], np.int64)
    forward = table[component]
    known = np.zeros(len(component), bool)
    for note in annotations.nodes:
        if "astranb.latency" in note.read:
            nodes = note.about[0].nodes()
            forward[nodes] = note.read["astranb.latency"]
            known[nodes] = True
    counts = np.bincount(component[~known], minlength=len(plan.components)).tolist()
    counted: Counter[str] = Counter()
    for row, count in enumerate(counts):
        ps, label, source = guess(row)
        if ps and count:
            name = plan.components[row][1].name
            counted[f"forwarding latency of {label} {name!r}: {format_time(ps)} ({source})"] += count
    return forward, [f"{text}, {plural(count, 'node')}" for text, count in counted.items()]


def rank_order(gpus: Ints, annotations: Annotations, names: Any) -> Ints:
    """Order GPUs by rank: as annotated, else as in the document."""
    rank: dict[int, tuple[int, Any]] = {}
    among = set(gpus.tolist())
    for note in annotations.nodes:
        value = note.read.get("astranb.rank", note.read.get("rank"))
        if value is not None:
            rank.update((n, (value, note)) for n in note.about[0].nodes().tolist() if n in among)
    if not rank:
        return gpus
    order = np.full(len(gpus), -1, np.int64)
    for node, (value, note) in rank.items():
        if value >= len(gpus) or order[value] >= 0:
            why = (
                f"is also that of {names(int(order[value]))}"
                if value < len(gpus)
                else f"is not below {len(gpus)}"
            )
            raise annotations.source.error(
                f"rank {value} of {names(node)} {why}", note.place, "ranks run from 0"
            )
        order[value] = node
    if len(rank) < len(gpus):
        missing = next(n for n in gpus.tolist() if n not in rank)
        raise InputError(
            f"{len(rank)} of {len(gpus)} GPUs have a rank annotation, {names(missing)} has none",
            where=annotations.source.where(),
            hint="give every GPU a rank, or none",
        )
    return order
