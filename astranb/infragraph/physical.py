"""Physical properties of edges and nodes: of the document, of annotations, or of known link types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from astranb.core.document import DocumentSource, Place
from astranb.core.errors import InputError
from astranb.core.units import format_bandwidth, format_time, time_ps

from .annotate import Annotations, Rate, read_rate
from .expand import Edges
from .link_types import CABLE, DEFAULT, LinkType, forwarding, recognise
from .plan import ExpansionPlan, LinkRow, NodeKind

__all__ = ["Physical", "check_links", "forward_latencies", "physical", "rank_order"]

Ints = NDArray[np.int64]
_Value = TypeVar("_Value")

_UNITS = {"gigabits_per_second": "Gbps", "gigabytes_per_second": "GBps", "gigatransfers_per_second": "GT/s"}
_PCIE_WIDTH = 16
_LEFT_EMPTY = {"bandwidth": "gigatransfers_per_second", "latency": "ns"}
"""Choices without a value that the upstream package adds to links when it reads them."""


@dataclass(slots=True)
class _Row:
    """One link row, resolved: a property that is None is that of its type."""

    name: str
    type: LinkType
    why: str
    forward: Rate | None = None
    backward: Rate | None = None
    latency: int | None = None
    lanes: int | None = None
    gap: int | None = None

    @property
    def open(self) -> bool:
        """Whether bandwidth and lanes are both those of the type."""
        return self.forward is None and self.backward is None and self.lanes is None

    @property
    def in_transfers(self) -> bool:
        return any(rate is not None and rate.transfers is not None for rate in (self.forward, self.backward))


@dataclass(slots=True)
class Physical:
    """Arrays over edges, as in `NodeGraph`, and which values are assumed."""

    rows: list[_Row]
    edges: Edges
    kind: NDArray[np.int8]
    lanes: Ints
    ab: Ints
    ba: Ints
    latency: Ints
    gap: Ints
    down: Ints  # lanes that have failed
    types: list[str]
    own_bandwidth: NDArray[np.bool_]  # which edges have annotations of it
    own_latency: NDArray[np.bool_]
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
            if "astranb.message_rate" in note.read and not np.isin(ends, (NodeKind.NIC, NodeKind.XPU)).any():
                raise annotations.source.error(
                    "a message rate of an edge between nodes that are neither a NIC nor a GPU",
                    note.place,
                    "annotate the edge that leaves the NIC",
                )
            inside = np.zeros(nodes, bool)
            inside[one] = True
            along = inside[edges.a[hit]]
            self._set(note.read, hit, along)

    def _set(self, declared: dict[str, Any], hit: Ints, along: NDArray[np.bool_]) -> None:
        """Apply one edge annotation; ``along`` is where a -> b is its ep1 -> ep2."""
        width = declared.get("astranb.lanes", _PCIE_WIDTH)
        both: Rate | None = declared.get("astranb.bandwidth")
        forward: Rate | None = declared.get("astranb.bandwidth_fwd", both)
        backward: Rate | None = declared.get("astranb.bandwidth_rev", both)
        for rate, ahead, behind in ((forward, self.ab, self.ba), (backward, self.ba, self.ab)):
            if rate is not None:
                ahead[hit[along]] = rate.of_width(width)
                behind[hit[~along]] = rate.of_width(width)
        self.own_bandwidth[hit] |= forward is not None and backward is not None
        if "astranb.down" in declared:
            self.down[hit] += declared["astranb.down"]
        if "astranb.message_rate" in declared:
            self.gap[hit] = declared["astranb.message_rate"]
        if "astranb.latency" in declared:
            self.latency[hit] = declared["astranb.latency"]
            self.own_latency[hit] = True
        if "astranb.lanes" in declared:
            striped = np.asarray([r.in_transfers for r in self.rows])[self.edges.link[hit]]
            if forward is None and backward is None:
                for i in hit[striped].tolist():
                    row = self.rows[int(self.edges.link[i])]
                    for given, column in ((row.forward, self.ab), (row.backward, self.ba)):
                        column[i] = given.of_width(width) if given is not None else column[i]
            written = any(r is not None and r.transfers is not None for r in (forward, backward))
            self.lanes[hit[~striped]] = 1 if written else declared["astranb.lanes"]
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
            mine = np.flatnonzero(np.isin(self.edges.link, same) & ~self.own_bandwidth & ~self.own_lanes)
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
                    f"lanes of {name} on {np.sum(count == n):,} GPUs: {lanes} shared out over {n} edges "
                    f"as {shown} ({self.rows[same[0]].type.bandwidth_source})"
                )

    def fail(self) -> Ints:
        """Take away the lanes that are down; returns the edges that have lost some.

        What a GPU's lanes are shared out over does not change: a failed link is not rewired.
        """
        self.lanes = np.maximum(0, self.lanes - self.down)
        return np.flatnonzero(self.down)

    def report(self) -> None:
        """List the values of the table of link types, once for each link row, with the number of edges."""
        n = len(self.rows)
        without_rate = np.bincount(self.edges.link[~self.own_bandwidth], minlength=n)
        without_latency = np.bincount(self.edges.link[~self.own_latency], minlength=n)
        counted: Counter[str] = Counter()
        for i, row in enumerate(self.rows):
            kind = row.type
            taken = f"taken for {kind.name}" + (f", because {row.why}" if row.why else "")
            if kind is DEFAULT:
                taken = "nothing recognised by its name"
            if row.forward is None or row.backward is None:
                rate = f"{format_bandwidth(kind.bandwidth_Bps)} a lane and direction"
                text = f"bandwidth of {row.name!r}: {rate} ({taken}; {kind.bandwidth_source})"
                counted[text] += int(without_rate[i])
            elif row.in_transfers:
                width = f"{row.lanes} lanes" if row.lanes else "16 lanes, as nothing else is specified,"
                text = f"width of {row.name!r}: {width} with the encoding of that PCIe generation"
                counted[text] += int(without_rate[i])
            if row.latency is None:
                latency = format_time(kind.latency_ps)
                text = f"latency of {row.name!r}: {latency} ({taken}; {kind.latency_source})"
                counted[text] += int(without_latency[i])
            if row.gap is None and kind.gap_ps:
                rate = f"{kind.messages_per_s // 10**6} million a second"
                place = f"{row.name!r}, where it leaves a NIC or GPU"
                text = f"message rate of {place}: {rate} ({taken}; {kind.messages_source})"
                counted[text] += int(np.sum((self.edges.link == i) & (self.gap == kind.gap_ps)))
        self.assumed += [f"{text}, {count:,} edges" for text, count in counted.items() if count]


def check_links(plan: ExpansionPlan, source: DocumentSource) -> list[tuple[Rate | None, int | None]]:
    """Read the bandwidth and latency of each link row in the document."""
    found: list[tuple[Rate | None, int | None]] = []
    for row in plan.links:
        for what, choice in _LEFT_EMPTY.items():
            if row.physical.get(what) == {"choice": choice}:
                declared = f"{what} of link {row.name!r} has a choice but no value"
                plan.warnings.append(f"{declared}, as the infragraph package writes it: ignored")
        rate = latency = None
        if (chosen := _chosen(row, "bandwidth", source)) is not None:
            key, value = chosen
            rate = _located(
                source, (*row.place, "physical", "bandwidth", key), read_rate, f"{value!r} {_UNITS[key]}"
            )
        if (chosen := _chosen(row, "latency", source)) is not None:
            key, value = chosen
            latency = _located(source, (*row.place, "physical", "latency", key), time_ps, f"{value!r} {key}")
        found.append((rate, latency))
    return found


def _located(source: DocumentSource, place: Place, read: Callable[..., _Value], text: str) -> _Value:
    """Read a value; lines are looked up for an error only, because that takes a second pass over the text."""
    try:
        return read(text, where="")
    except InputError as error:
        raise source.error(error.what, place, error.hint) from None


def _chosen(row: LinkRow, what: str, source: DocumentSource) -> tuple[str, Any] | None:
    document = row.physical.get(what)
    if document is None or document == {"choice": _LEFT_EMPTY[what]}:
        return None
    place = (*row.place, "physical", what)
    values = {k: v for k, v in document.items() if k != "choice" and v is not None}
    choice = document.get("choice")
    if not values:
        unit = choice or ("gigabytes_per_second" if what == "bandwidth" else "ns")
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
    stated: list[tuple[Rate | None, int | None]],
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
        words = [scope]
        if device := plan.devices.get(scope):
            words += [device.description, *(f"{c.name} {c.description}" for c in device.components.values())]
            words += instances.get(scope, [])
        return " ".join(words).lower(), profiles

    return around


def _row(
    row: LinkRow,
    annotations: Annotations,
    stated: tuple[Rate | None, int | None],
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
    rate, latency = stated
    both = declared.get("astranb.bandwidth", rate)
    return _Row(
        row.name,
        kind,
        why,
        declared.get("astranb.bandwidth_fwd", both),
        declared.get("astranb.bandwidth_rev", both),
        declared.get("astranb.latency", latency),
        declared.get("astranb.lanes"),
        declared.get("astranb.message_rate"),
    )


def _from_rows(rows: list[_Row], edges: Edges, kind: NDArray[np.int8]) -> Physical:
    def column(values: list[int]) -> Ints:
        return np.asarray(values, np.int64)[edges.link] if values else np.zeros(0, np.int64)

    def rate(row: _Row, given: Rate | None) -> int:
        return row.type.bandwidth_Bps if given is None else given.of_width(row.lanes or _PCIE_WIDTH)

    # The lanes of a rate in GT/s are the width of one PCIe link, over which every byte is striped.
    lanes = column([1 if r.in_transfers else r.lanes or 1 for r in rows]) * edges.repeats
    return Physical(
        rows,
        edges,
        kind,
        lanes,
        column([rate(r, r.forward) for r in rows]),
        column([rate(r, r.backward) for r in rows]),
        column([r.type.latency_ps if r.latency is None else r.latency for r in rows]),
        column([r.type.gap_ps if r.gap is None else r.gap for r in rows]),
        np.zeros(len(edges.a), np.int64),
        [r.type.name for r in rows],
        np.zeros(len(edges.a), bool),
        np.zeros(len(edges.a), bool),
        np.zeros(len(edges.a), bool),
    )


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
    return forward, [f"{text}, {count:,} nodes" for text, count in counted.items()]


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
