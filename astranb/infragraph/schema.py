"""The schema of a document: its keys, their types, and which of them are required.

InfraGraph 2.4 to 3.1 (``schema/*.yaml`` of Keysight/infragraph) as one table. The upstream
package ignores an unknown key; here it is an error, because it is nearly always a typo.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from astranb.core.document import DocumentSource, Place
from astranb.core.errors import near

__all__ = ["CHOICES", "SCHEMES", "check_annotations", "check_infrastructure"]

CHOICES = ("custom", "device", "cpu", "xpu", "nic", "memory", "port", "switch")
SCHEMES = ("one2one", "many2many", "ring")
_NAME = re.compile(r"[\sa-zA-Z0-9\-_()><\[\]]+\Z")
_INT32_MAX = 2**31 - 1


class _Field(NamedTuple):
    """The value of one key."""

    kind: str
    of: str = ""
    required: bool = False


_TEXT, _TEXT_NEEDED = _Field("text"), _Field("text", required=True)
_NAMED, _NUMBER, _COUNT = _Field("name", required=True), _Field("number"), _Field("count", required=True)
_ENDS = {end: _Field("object", "endpoint", required=True) for end in ("ep1", "ep2")}
_EDGE = {**_ENDS, "scheme": _Field("scheme", required=True), "link": _TEXT_NEEDED}
_ATTRIBUTES = {"attributes": _Field("list", "attribute")}

_SHAPES: dict[str, dict[str, _Field]] = {
    "infrastructure": {
        "name": _Field("name"),
        "description": _TEXT,
        "devices": _Field("list", "device"),
        "links": _Field("list", "link"),
        "instances": _Field("list", "instance"),
        "edges": _Field("list", "infrastructure edge"),
    },
    "device": {
        "name": _NAMED,
        "description": _TEXT,
        "components": _Field("list", "component", required=True),
        "links": _Field("list", "link"),
        "edges": _Field("list", "device edge"),
    },
    "component": {
        "name": _NAMED,
        "description": _TEXT,
        "count": _COUNT,
        "choice": _Field("choice"),
        "custom": _Field("object", "custom"),
        **{c: _Field("object", "placeholder") for c in CHOICES if c != "custom"},
    },
    "custom": {"type": _TEXT},
    "placeholder": {},
    "link": {"name": _NAMED, "description": _TEXT, "physical": _Field("object", "physical")},
    "physical": {"bandwidth": _Field("object", "bandwidth"), "latency": _Field("object", "latency")},
    "bandwidth": {
        "choice": _TEXT,
        "gigabits_per_second": _NUMBER,
        "gigabytes_per_second": _NUMBER,
        "gigatransfers_per_second": _NUMBER,
    },
    "latency": {"choice": _TEXT, "ms": _NUMBER, "us": _NUMBER, "ns": _NUMBER},
    "instance": {"name": _NAMED, "description": _TEXT, "device": _TEXT_NEEDED, "count": _COUNT},
    "device edge": _EDGE,
    "infrastructure edge": {
        **_EDGE,
        **{end: _Field("object", "infrastructure endpoint", required=True) for end in ("ep1", "ep2")},
    },
    "endpoint": {"device": _TEXT, "component": _TEXT_NEEDED},
    "infrastructure endpoint": {"instance": _TEXT_NEEDED, "component": _TEXT_NEEDED},
    "annotations": {
        "nodes": _Field("list", "node annotation"),
        "edges": _Field("list", "edge annotation"),
        "links": _Field("list", "link annotation"),
        "graph": _Field("list", "attribute"),
    },
    "node annotation": {"name": _TEXT_NEEDED, **_ATTRIBUTES},
    "link annotation": {"name": _TEXT_NEEDED, **_ATTRIBUTES},
    "edge annotation": {"ep1": _TEXT_NEEDED, "ep2": _TEXT_NEEDED, **_ATTRIBUTES},
    "attribute": {"attribute": _TEXT_NEEDED, "value": _Field("any", required=True)},
}

_OLD = "this is the InfraGraph syntax before 1.0"
_OBSOLETE: dict[tuple[str, str], str] = {
    ("infrastructure", "connections"): "write edges: [{ep1: {instance: 'host[0]', component: 'nic[0]'}, "
    "ep2: {…}, scheme: one2one, link: …}] instead of connections",
    ("device", "connections"): "write edges: [{ep1: {component: 'cpu[0]'}, ep2: {component: 'nic[0]'}, "
    "scheme: one2one, link: pcie}] instead of connections",
    ("component", "type"): "write choice: cpu (xpu, nic, memory, port, switch, device, or custom "
    "with custom: {type: …}) instead of type, and a count",
    ("component", "external"): "leave external out; edges define what is connected",
    ("component", "components"): "write a device of its own and name it with choice: device",
    ("link", "bandwidth"): "write physical: {bandwidth: {choice: gigabytes_per_second, "
    "gigabytes_per_second: 25}} instead of bandwidth",
    ("infrastructure", "device"): "write devices, and choice and edges in place of type and connections",
    ("infrastructure", "hosts"): "write instances instead of hosts",
}


def check_infrastructure(data: Any, source: DocumentSource, at: Place = ()) -> dict[str, Any]:
    """Check the shape of an infrastructure document and return it."""
    _refuse_obsolete(data, source, at)
    return _Checker(source).mapping(data, "infrastructure", at)


def check_annotations(data: Any, source: DocumentSource, at: Place = ()) -> dict[str, Any]:
    """Check the shape of an annotation document and return it."""
    return _Checker(source).mapping(data, "annotations", at)


def _refuse_obsolete(data: Any, source: DocumentSource, at: Place) -> None:
    """Look for keys of the old syntax first: they explain all other errors."""
    if not isinstance(data, dict):
        return

    def parts(owner: Any, key: str, place: Place) -> list[tuple[Any, Place]]:
        inner = owner.get(key) if isinstance(owner, dict) else None
        return [(v, (*place, key, i)) for i, v in enumerate(inner)] if isinstance(inner, list) else []

    places: list[tuple[str, Any, Place]] = [("infrastructure", data, at)]
    for device, place in parts(data, "devices", at) + parts(data, "device", at):
        places += [("component", c, p) for c, p in parts(device, "components", place)]
        places += [("link", c, p) for c, p in parts(device, "links", place)]
        places.append(("device", device, place))
    places += [("link", c, p) for c, p in parts(data, "links", at)]
    for shape, value, place in places:
        for key in value if isinstance(value, dict) else ():
            if (hint := _OBSOLETE.get((shape, key))) is not None:
                raise source.error(f"{_OLD} ({key!r} in a {shape})", (*place, key), hint)


class _Checker:
    """Compares a document with the table."""

    def __init__(self, source: DocumentSource) -> None:
        self._source = source

    def mapping(self, data: Any, shape: str, at: Place) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise self._source.error(f"{_article(shape)} is a mapping, got {_kind(data)}", at)
        fields = _SHAPES[shape]
        for key, value in data.items():
            if key not in fields:
                hint = near(str(key), fields) if fields else "leave it empty"
                raise self._source.error(f"unknown key {key!r} in {_article(shape)}", (*at, key), hint)
            if value is not None:
                self._field(value, key, fields[key], (*at, key))
        for key, field in fields.items():
            if field.required and data.get(key) is None:
                raise self._source.error(f"{_article(shape)} needs {key!r}", at, _example(key, shape))
        return data

    def _field(self, value: Any, key: str, field: _Field, at: Place) -> None:
        if field.kind == "object":
            self.mapping(value, field.of, at)
        elif field.kind == "list":
            if not isinstance(value, list):
                raise self._source.error(f"{key!r} is a list, got {_kind(value)}", at)
            for i, part in enumerate(value):
                self.mapping(part, field.of, (*at, i))
            if field.of != "attribute" and not field.of.endswith(("edge", "annotation")):
                self._distinct(value, at)
        elif field.kind == "number":
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self._source.error(f"{key!r} is a number, got {_kind(value)}", at)
        elif field.kind == "count":
            if isinstance(value, bool) or not isinstance(value, int):
                raise self._source.error(f"{key!r} is a whole number, got {_kind(value)}", at)
            if not 1 <= value <= _INT32_MAX:
                raise self._source.error(f"count {value:.9g} is not in 1 … 2**31 - 1", at)
        elif field.kind != "any" and not isinstance(value, str):
            raise self._source.error(f"{key!r} is text, got {_kind(value)}", at, "put it in quotes")
        elif field.kind == "name":
            self._name(value, at)
        elif field.kind in {"scheme", "choice"}:
            known = SCHEMES if field.kind == "scheme" else CHOICES
            if value not in known:
                raise self._source.error(f"unknown {field.kind} {value!r}", at, near(value, known))

    def _name(self, value: str, at: Place) -> None:
        if not _NAME.match(value):
            bad = sorted({c for c in value if not _NAME.match(c)})
            declared = f"holds {', '.join(map(repr, bad[:5]))}" if bad else "is empty"
            raise self._source.error(
                f"name {value[:60]!r} {declared}",
                at,
                "use letters, digits, spaces and any of - _ ( ) < > [ ]",
            )

    def _distinct(self, parts: list[dict[str, Any]], at: Place) -> None:
        seen: set[str] = set()
        for i, part in enumerate(parts):
            if part["name"] in seen:
                raise self._source.error(f"duplicate name {part['name']!r}", (*at, i), "rename one of them")
            seen.add(part["name"])


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", type(None): "nothing"}
    return names.get(type(value)) or f"{str(value)[:40]!r}"


def _article(shape: str) -> str:
    return shape if shape == "annotations" else f"{'an' if shape[0] in 'aeiou' else 'a'} {shape}"


def _example(key: str, shape: str) -> str:
    return {
        "scheme": "write scheme: one2one, many2many or ring",
        "link": "name one of the links declared beside the edges",
        "count": "write count: 1",
        "device": "name one of the devices",
        "instance": "name the instance, for example host[0:4]",
        "component": "name the component, for example gpu[0:8]",
    }.get(key, f"write {key}: … in the {shape}")
