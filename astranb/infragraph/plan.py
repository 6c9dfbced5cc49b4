"""The plan of an expansion: every name, index and slice of a checked document, resolved.

A plan has the number of every node and the size of every edge declaration before any array is
allocated, so that a document that does not fit in memory is refused first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - Selection is shown by help()

from astranb.core.document import DocumentSource, Place
from astranb.core.errors import near

from .schema import CHOICES

__all__ = [
    "Component",
    "Device",
    "ExpansionPlan",
    "Instance",
    "Join",
    "LinkRow",
    "NodeKind",
    "Selection",
    "pick",
    "plan",
    "split_endpoint",
]


class NodeKind(IntEnum):
    """The kind of a node, as in ``NodeGraph.kind``."""

    CPU = 0
    XPU = 1
    NIC = 2
    MEMORY = 3
    PORT = 4
    SWITCH = 5
    CUSTOM = 6


@dataclass(frozen=True, slots=True)
class Component:
    """A component of a device: ``count`` units, each one node or one nested device."""

    name: str
    description: str
    count: int
    type: str  # as upstream names it: the choice or the custom type ("None" for a custom one without)
    kind: NodeKind | None  # None for a device
    row: int


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link name in its scope: the device that declares it, or the infrastructure (``""``)."""

    name: str
    scope: str
    description: str
    physical: dict[str, Any]
    place: Place


@dataclass(frozen=True, slots=True)
class Join:
    """One edge declaration, resolved: two selections, how they pair, and which link."""

    ep1: Selection
    ep2: Selection
    scheme: str
    link: int
    place: Place

    @property
    def size(self) -> int:
        """Greatest number of pairs that it makes."""
        if self.scheme == "many2many":
            return self.ep1.size * self.ep2.size
        return min(self.ep1.size, self.ep2.size) if self.scheme == "one2one" else self.ep1.size


@dataclass(slots=True)
class Device:
    """A device: components in document order, with the first node and nodes per unit of each."""

    name: str
    description: str
    index: int
    components: dict[str, Component] = field(default_factory=dict)
    links: dict[str, int] = field(default_factory=dict)
    joins: list[Join] = field(default_factory=list)
    base: dict[str, int] = field(default_factory=dict)
    stride: dict[str, int] = field(default_factory=dict)
    size: int = 0
    gpus: int = 0
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class Instance:
    """``count`` copies of a device; copy k starts at node ``base + k * device.size``."""

    name: str
    device: Device
    count: int
    base: int
    first_copy: int


@dataclass(slots=True)
class ExpansionPlan:
    """Complete plan of an expansion; edges refer to rows of links, nodes to rows of components."""

    devices: dict[str, Device] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    links: list[LinkRow] = field(default_factory=list)  # of every scope
    components: list[tuple[Device, Component]] = field(default_factory=list)  # of every device
    joins: list[Join] = field(default_factory=list)  # between instances
    nodes: int = 0
    warnings: list[str] = field(default_factory=list)  # what is valid but may be a mistake

    def instance(self, name: str) -> Instance:
        """Find an instance; a ValueError names similar ones."""
        if name not in self.instances:
            raise ValueError(f"unknown instance {name!r}; {near(name, self.instances)}")
        return self.instances[name]

    def descend(
        self, device: Device, path: list[tuple[str, str | None]]
    ) -> tuple[Selection, Device | Component]:
        """Select units by a path of (name, slice) inside a device; a ValueError gives the reason.

        Returns their first nodes, counted from the device's first node, and the nested device or
        component whose units they are.
        """
        levels = []
        whole = False
        for step, (name, inside) in enumerate(path):
            component = device.components.get(name)
            if component is None:
                raise ValueError(
                    f"device {device.name!r} has no component {name!r}; {near(name, device.components)}"
                )
            units = pick(inside, component.count)
            levels.append((device.base[name], device.stride[name], units))
            whole = inside is None
            if component.kind is not None:
                if step + 1 < len(path):
                    raise ValueError(
                        f"component {name!r} of device {device.name!r} is not a device: nothing is inside it"
                    )
                return Selection(tuple(levels), whole), component
            device = self.devices[name]
        return Selection(tuple(levels), whole), device


_BRACKETS = re.compile(r"(?P<name>[^.]*?)\[(?P<inside>[^\[\]]*)\]\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selection:
    """Nodes as nested strided ranges; outer levels vary slowest."""

    levels: tuple[tuple[int, int, range], ...]  # first node, nodes per unit and selected units of each
    whole: bool = False  # the innermost component was named without a slice

    @property
    def size(self) -> int:
        """Number of selected nodes."""
        return prod(len(units) for _, _, units in self.levels)

    def nodes(self) -> NDArray[np.int64]:
        """Return the nodes: int64, shape ``(size,)``."""
        nodes = np.zeros(1, np.int64)
        for base, stride, units in self.levels:
            step = base + stride * np.arange(units.start, units.stop, units.step, dtype=np.int64)
            nodes = (nodes[:, None] + step[None, :]).ravel()
        return nodes


def split_endpoint(text: str) -> tuple[str, str | None]:
    """Split ``"gpu[0:4]"`` into ``("gpu", "0:4")``; without brackets the second is None.

    Examples
    --------
    >>> split_endpoint("gpu[0:4]"), split_endpoint("gpu")
    (('gpu', '0:4'), ('gpu', None))
    """
    match = _BRACKETS.match(text)
    return (match["name"], match["inside"]) if match else (text, None)


def pick(inside: str | None, count: int) -> range:
    """Resolve an index or slice of ``count`` units; None and ``":"`` mean all, a ValueError gives the reason.

    Examples
    --------
    >>> pick("0:4:2", 8), pick("-1", 8), pick(None, 3)
    (range(0, 4, 2), range(7, 8), range(0, 3))
    """
    parts = (inside or ":").split(":")
    if len(parts) > 3 or not all(re.fullmatch(r"\s*-?[0-9]{1,18}\s*|\s*", p) for p in parts):
        raise ValueError(f"[{inside}] is not an index or a slice")
    numbers = [int(p) if p.strip() else None for p in parts]
    if len(numbers) == 1:
        index = numbers[0]
        if index is None:
            return range(count)
        if not -count <= index < count:
            raise ValueError(f"index {index} is outside 0 … {count - 1}")
        return range(index % count, index % count + 1)
    if len(numbers) == 3 and numbers[2] == 0:
        raise ValueError(f"[{inside}] has step 0")
    for bound in numbers[:2]:
        if bound is not None and not -count <= bound <= count:
            raise ValueError(f"[{inside}] runs past the {count} there are")
    units = range(*slice(*numbers).indices(count))
    if not units:
        raise ValueError(f"[{inside}] selects nothing of {count}")
    return units


_MAX_NESTING = 32
_MAX_BYTES = 4 * 2**30
_NODE_BYTES, _EDGE_BYTES = 64, 160
"""Measured peaks of an expansion, temporaries included, rounded up."""


def plan(document: dict[str, Any], source: DocumentSource, at: Place = ()) -> ExpansionPlan:
    """Resolve every name, index and slice of a document that `check_infrastructure` has accepted.

    ``at`` is the place of the document in its source.
    """
    made = ExpansionPlan()
    builder = _Planner(made, source, at)
    builder.devices(document.get("devices") or [])
    builder.instances(document.get("instances") or [])
    links = {
        declared["name"]: builder.link(declared, "", (*at, "links", i))
        for i, declared in enumerate(document.get("links") or [])
    }
    for i, edge in enumerate(document.get("edges") or []):
        made.joins.append(builder.join(edge, (*at, "edges", i), None, links))
    builder.check_memory()
    return made


class _Planner:
    def __init__(self, made: ExpansionPlan, source: DocumentSource, at: Place) -> None:
        self._plan, self._source, self._at = made, source, at

    def devices(self, documents: list[dict[str, Any]]) -> None:
        devices = self._plan.devices
        for index, document in enumerate(documents):
            devices[document["name"]] = Device(document["name"], document.get("description") or "", index)
        for index, document in enumerate(documents):
            self._components(devices[document["name"]], document, (*self._at, "devices", index))
        for device in self._inner_first():
            for name, component in device.components.items():
                inner = devices[name] if component.kind is None else None
                device.base[name] = device.size
                device.stride[name] = inner.size if inner else 1
                device.size += component.count * device.stride[name]
                device.pairs += component.count * inner.pairs if inner else 0
                device.gpus += component.count * (inner.gpus if inner else component.kind == NodeKind.XPU)
            place = (*self._at, "devices", device.index)
            document = documents[device.index]
            for i, link in enumerate(document.get("links") or []):
                device.links[link["name"]] = self.link(link, device.name, (*place, "links", i))
            for i, edge in enumerate(document.get("edges") or []):
                join = self.join(edge, (*place, "edges", i), device, device.links)
                device.joins.append(join)
                device.pairs += join.size

    def _components(self, device: Device, document: dict[str, Any], place: Place) -> None:
        for i, component in enumerate(document["components"]):
            choice = self._choice(component, (*place, "components", i))
            text = str((component.get("custom") or {}).get("type")) if choice == "custom" else choice
            # The upstream translators write custom: {type: switch} for a switch.
            known = text.upper() if text.upper() in NodeKind.__members__ else "CUSTOM"
            kind = None if choice == "device" else NodeKind[known]
            name = component["name"]
            if kind is None and name not in self._plan.devices:
                raise self._source.error(
                    f"component {name!r} is a device, but no device has that name",
                    (*place, "components", i, "name"),
                    near(name, self._plan.devices),
                )
            if text == "None":
                declared = f"custom component {name!r} of device {device.name!r} has no type"
                self._plan.warnings.append(f"{declared}: write custom: {{type: …}}")
            description, row = component.get("description") or "", len(self._plan.components)
            made = Component(name, description, component["count"], text, kind, row)
            device.components[name] = made
            self._plan.components.append((device, made))

    def _choice(self, component: dict[str, Any], place: Place) -> str:
        given = [c for c in CHOICES if component.get(c) is not None]
        choice = component.get("choice")
        if choice is None and len(given) == 1:
            return given[0]  # as the upstream package infers it
        if choice is None:
            raise self._source.error(
                f"component {component['name']!r} needs 'choice'",
                place,
                f"write choice: {' or '.join(CHOICES[2:])}",
            )
        if other := [c for c in given if c != choice]:
            raise self._source.error(
                f"choice is {choice!r}, but {other[0]!r} is given too",
                (*place, other[0]),
                "keep one of them",
            )
        return str(choice)

    def _inner_first(self) -> list[Device]:
        """Order devices so that a nested one precedes the one that contains it."""
        devices, depth = self._plan.devices, dict[str, int]()
        order: list[Device] = []
        for start in devices:
            chain: list[tuple[str, list[str]]] = [(start, self._inner(start))] if start not in depth else []
            inside = {name for name, _ in chain}
            while chain:
                name, left = chain[-1]
                if left:
                    nested = left.pop()
                    if nested in inside:
                        names = [n for n, _ in chain]
                        cycle = [*reversed([*names[names.index(nested) :], nested])]
                        if len(cycle) > _MAX_NESTING:
                            cycle = [*cycle[:3], "…", *cycle[-3:]]
                        declared = " in ".join(cycle)
                        raise self._source.error(
                            f"a device contains itself: {declared}",
                            (*self._at, "devices", devices[nested].index),
                        )
                    if nested not in depth:
                        chain.append((nested, self._inner(nested)))
                        inside.add(nested)
                    continue
                inside.remove(chain.pop()[0])
                depth[name] = 1 + max((depth[n] for n in self._inner(name)), default=0)
                order.append(devices[name])
                if depth[name] > _MAX_NESTING:
                    raise self._source.error(
                        f"device {name!r} is nested deeper than {_MAX_NESTING}",
                        (*self._at, "devices", devices[name].index),
                    )
        return order

    def _inner(self, name: str) -> list[str]:
        return [c.name for c in self._plan.devices[name].components.values() if c.kind is None]

    def link(self, document: dict[str, Any], scope: str, place: Place) -> int:
        row = LinkRow(
            document["name"], scope, document.get("description") or "", document.get("physical") or {}, place
        )
        self._plan.links.append(row)
        return len(self._plan.links) - 1

    def instances(self, documents: list[dict[str, Any]]) -> None:
        copies = 0
        if not documents:
            raise self._source.error(
                "the document has no instances",
                self._at,
                "add instances: [{name: host, device: …, count: 1}]",
            )
        for i, document in enumerate(documents):
            device = self._plan.devices.get(document["device"])
            if device is None:
                raise self._source.error(
                    f"unknown device {document['device']!r}",
                    (*self._at, "instances", i, "device"),
                    near(document["device"], self._plan.devices)
                    if self._plan.devices
                    else "declare it under devices",
                )
            made = Instance(document["name"], device, document["count"], self._plan.nodes, copies)
            self._plan.instances[made.name] = made
            self._plan.nodes += made.count * device.size
            copies += made.count

    def join(
        self, document: dict[str, Any], place: Place, device: Device | None, links: dict[str, int]
    ) -> Join:
        """Resolve one edge declaration, inside a device or (None) between instances."""
        name = document["link"]
        if name not in links:
            raise self._source.error(
                f"unknown link {name!r}",
                (*place, "link"),
                near(name, links) if links else "declare it under links",
            )
        ends = [self._endpoint(document[e], (*place, e), device) for e in ("ep1", "ep2")]
        (ep1, leaf1), (ep2, leaf2) = ends
        scheme = document["scheme"]
        join = Join(ep1, ep2, scheme, links[name], place)
        if scheme == "ring" and ep1.levels != ep2.levels:
            raise self._source.error(
                "a ring runs through one set of components, but ep1 and ep2 differ",
                place,
                "write the same in both",
            )
        if scheme == "ring" and ep1.size < 2:
            raise self._source.error("a ring needs two components at least", place)
        if scheme == "one2one" and ep1.size != ep2.size:
            (longer, leaf), shorter = max(ends, key=lambda e: e[0].size), min(ep1.size, ep2.size)
            one_place = len(longer.levels[0][2]) == 1 or device is not None
            if not (longer.whole and leaf.kind == NodeKind.PORT and one_place):
                raise self._source.error(
                    f"one2one joins {ep1.size} {leaf1.name!r} with {ep2.size} {leaf2.name!r}",
                    place,
                    "make both sides equally long, or use many2many",
                )
            self._plan.warnings.append(
                f"{self._source.where(place)}: one2one uses the first {shorter} of {longer.size} "
                f"{leaf.name!r}, as the upstream package does: write {leaf.name}[0:{shorter}]"
            )
        return join

    def _endpoint(
        self, document: dict[str, Any], place: Place, device: Device | None
    ) -> tuple[Selection, Component]:
        levels: tuple[tuple[int, int, range], ...] = ()
        key = "component"
        try:
            if device is None:
                key = "instance"
                name, inside = split_endpoint(document["instance"])
                instance = self._plan.instance(name)
                device = instance.device
                levels = ((instance.base, device.size, pick(inside, instance.count)),)
                key = "component"
            texts = [document[k] for k in ("device", "component") if document.get(k) is not None]
            path = [split_endpoint(part) for part in ".".join(texts).split(".")]
            selection, reached = self._plan.descend(device, path)
            leaf = _node(reached, path[-1][0])
        except ValueError as error:
            raise self._source.error(f"{document[key]!r}: {error}", (*place, key)) from None
        return Selection(levels + selection.levels, selection.whole), leaf

    def check_memory(self) -> None:
        """Check that the expansion fits in memory."""
        pairs = sum(i.count * i.device.pairs for i in self._plan.instances.values())
        pairs += sum(j.size for j in self._plan.joins)
        needs = self._plan.nodes * _NODE_BYTES + pairs * _EDGE_BYTES
        if needs > _MAX_BYTES:
            raise self._source.error(
                f"this expands to {self._plan.nodes:,} nodes and up to {pairs:,} edges, "
                f"about {needs / 2**30:,.0f} GiB of memory",
                self._at,
                f"lower a count: {_MAX_BYTES >> 30} GiB is the limit; describe the inside of a chip "
                "by a GPU profile instead of nodes",
            )


def _node(reached: Device | Component, name: str) -> Component:
    """Check that a path does not end at a device: upstream adds a node without a type instead."""
    if isinstance(reached, Component):
        return reached
    inner = next(iter(reached.components), "…")
    raise ValueError(f"{name!r} is a device, not a node; name one of its components: {name}.{inner}")
