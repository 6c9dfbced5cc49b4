"""From a checked document to a plan: every name, index and slice resolved, or refused.

What would not fit in memory is refused here, before any of it is laid out.
"""

from __future__ import annotations

from typing import Any

from astranb.core.document import Place, Source
from astranb.core.errors import near

from ._endpoints import Selection, pick, split_endpoint
from ._model import Component, Device, Instance, Join, LinkRow, NodeKind, Plan
from ._schema import CHOICES

__all__ = ["plan"]

_MAX_NESTING = 32
_MAX_BYTES = 4 * 2**30
_NODE_BYTES, _EDGE_BYTES = 64, 160
"""Measured peaks of an expansion, temporaries included, rounded up."""


def plan(document: dict[str, Any], source: Source, at: Place = ()) -> Plan:
    """Resolve every name, index and slice of a checked document.

    Parameters
    ----------
    document : dict
        What `check_infrastructure` let pass.
    source : Source
        For error lines.
    at : tuple
        Where the document stands in the source.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        An unknown name, a slice that overruns, lengths that do not match, a device inside
        itself, or an expansion that would not fit in memory.
    """
    made = Plan()
    builder = _Planner(made, source, at)
    builder.devices(document.get("devices") or [])
    builder.instances(document.get("instances") or [])
    links = {
        said["name"]: builder.link(said, "", (*at, "links", i))
        for i, said in enumerate(document.get("links") or [])
    }
    for i, edge in enumerate(document.get("edges") or []):
        made.joins.append(builder.join(edge, (*at, "edges", i), None, links))
    builder.check_memory()
    return made


class _Planner:
    def __init__(self, made: Plan, source: Source, at: Place) -> None:
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
            # The upstream translators write custom: {type: switch}: what it says is what it is.
            known = text.upper() if text.upper() in NodeKind.__members__ else "CUSTOM"
            kind = None if choice == "device" else NodeKind[known]
            name = component["name"]
            if kind is None and name not in self._plan.devices:
                raise self._source.error(
                    f"component {name!r} is a device, but there is no device of that name",
                    (*place, "components", i, "name"),
                    near(name, self._plan.devices),
                )
            if text == "None":
                said = f"custom component {name!r} of device {device.name!r} has no type"
                self._plan.warnings.append(f"{said}: write custom: {{type: …}}")
            made = Component(
                name,
                component.get("description") or "",
                component["count"],
                text,
                kind,
                len(self._plan.components),
            )
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
                f"choice is {choice!r}, but {other[0]!r} stands beside it",
                (*place, other[0]),
                "keep one of them",
            )
        return str(choice)

    def _inner_first(self) -> list[Device]:
        """Order devices so that what is nested comes before what holds it."""
        devices, depth = self._plan.devices, dict[str, int]()
        order: list[Device] = []
        for start in devices:
            chain: list[tuple[str, list[str]]] = [(start, self._inner(start))] if start not in depth else []
            while chain:
                name, left = chain[-1]
                if left:
                    nested = left.pop()
                    names = [n for n, _ in chain]
                    if nested in names:
                        said = " in ".join(reversed([*names[names.index(nested) :], nested]))
                        raise self._source.error(
                            f"a device contains itself: {said}", (*self._at, "devices", devices[nested].index)
                        )
                    if nested not in depth:
                        chain.append((nested, self._inner(nested)))
                    continue
                chain.pop()
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
                "there are no instances, so nothing to expand",
                self._at,
                "add instances: [{name: host, device: …, count: 1}]",
            )
        for i, document in enumerate(documents):
            device = self._plan.devices.get(document["device"])
            if device is None:
                raise self._source.error(
                    f"there is no device {document['device']!r}",
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
                f"there is no link {name!r} here",
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
        """Refuse what would not fit, before any of it is laid out."""
        pairs = sum(i.count * i.device.pairs for i in self._plan.instances.values())
        pairs += sum(j.size for j in self._plan.joins)
        needs = self._plan.nodes * _NODE_BYTES + pairs * _EDGE_BYTES
        if needs > _MAX_BYTES:
            raise self._source.error(
                f"this expands to {self._plan.nodes:,} nodes and up to {pairs:,} edges, "
                f"about {needs / 2**30:,.0f} GiB of memory",
                self._at,
                f"lower a count: {_MAX_BYTES >> 30} GiB is the limit; describe what is inside a chip "
                "by a GPU profile instead of nodes",
            )


def _node(reached: Device | Component, name: str) -> Component:
    """Insist that a path ends at nodes: upstream draws a node without a type instead."""
    if isinstance(reached, Component):
        return reached
    inner = next(iter(reached.components), "…")
    raise ValueError(f"{name!r} is a device, not a node; name one of its components: {name}.{inner}")
