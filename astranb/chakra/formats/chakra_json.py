"""Chakra traces as JSON: what other tools and ours print, read as traces.

* One object after the other, as mlcommons' jsonizer (``src/jsonizer/jsonizer.py``: protocol buffers as JSON,
  with 64-bit numbers as strings) and ``astranb chakra json`` print them, or a list of such objects.
* ``{"workload_graph": [...]}``, which mlcommons' feeder reads (``src/feeder/json_node.cpp``).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from astranb.chakra.traces import (
    VERSION,
    Attribute,
    CollectiveType,
    Node,
    NodeType,
    Plain,
    Trace,
    attribute_of,
)
from astranb.core.document import DocumentNode, DocumentSource, contents
from astranb.core.errors import InputError, TruncatedFile
from astranb.core.file_formats import names_format
from astranb.core.packed import unpacked

__all__ = ["json_trace", "node_of"]

_MOST_BYTES: Final = 1 << 30
_BIG: Final = (1 << 64) - 1
_TIME: Final = (1 << 63) - 1
_SPACE: Final = re.compile(r"[\s,]*")
_TYPES: Final = {one.name: one for one in NodeType}
_NAMES: Final = {
    "id": ("id", "Id"),
    "name": ("name", "Name"),
    "type": ("type", "NodeType"),
    "data_deps": ("data_deps", "dataDeps"),
    "ctrl_deps": ("ctrl_deps", "ctrlDeps"),
    "start": ("start_us", "startTimeMicros", "start_time_micros"),
    "duration": ("duration_us", "durationMicros", "duration_micros", "runtime"),
    "inputs": ("inputs",),
    "outputs": ("outputs",),
}
_KNOWN: Final = {name for some in _NAMES.values() for name in some} | {"attr", "attributes", "other"}
_COLLECTIVES: Final = {one.name: int(one) for one in CollectiveType}


@names_format("Chakra JSON")
def json_trace(path: str | Path) -> Trace:
    r"""Read a trace that is JSON.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    InputError
        It is not JSON, or no trace; the text names the byte or the node.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "t.json"
    >>> _ = file.write_text('{"id": 1, "name": "a", "type": "COMP"}\n{"id": 2, "name": "b", "type": 4}\n')
    >>> [node.name for node in json_trace(file).nodes()]
    ['a', 'b']
    """
    where = str(path)
    data = unpacked(contents(path, _MOST_BYTES), where, _MOST_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"byte {error.start} is not UTF-8"
        raise InputError(what, where=where, hint="save the file as UTF-8 text") from None
    objects = list(_objects(text, where))
    version, metadata, proto = "", {}, False
    if len(objects) == 1 and isinstance(objects[0], list):
        objects = objects[0]
    elif len(objects) == 1 and isinstance(objects[0], dict) and "workload_graph" in objects[0]:
        listed = objects[0]["workload_graph"]
        if not isinstance(listed, list):
            raise InputError("workload_graph must be a list", where=where, hint="give the nodes as a list")
        objects = listed
    elif objects and isinstance(objects[0], dict) and not any(name in objects[0] for name in _NAMES["id"]):
        first = DocumentNode(objects.pop(0), DocumentSource(f"{where}: the first object"))
        version, proto = first.get("version", "").text(), True
        metadata = dict(_declared(one) for one in first.get("attr", []).items())
    if not objects:
        raise InputError("no nodes", where=where, hint="give a Chakra trace")
    nodes = [
        node_of(DocumentNode(one, DocumentSource(f"{where}: node {number}")), proto=proto)
        for number, one in enumerate(objects)
    ]
    return Trace.of(nodes, version=version or VERSION, metadata=metadata, source=where)


def _objects(text: str, where: str) -> Iterator[Any]:
    scan = json.JSONDecoder().raw_decode
    at = 0
    while True:
        match = _SPACE.match(text, at)
        at = match.end() if match else at
        if at >= len(text):
            return
        try:
            value, at = scan(text, at)
        except json.JSONDecodeError as error:
            place = f"{where}: byte {len(text[: error.pos].encode('utf-8', 'replace'))}"
            if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
                raise TruncatedFile(f"not JSON: {error.msg}", where=place, at=at) from None
            raise InputError(f"not JSON: {error.msg}", where=place, hint="correct the text there") from None
        except RecursionError:
            raise InputError("nested too deep", where=where, hint="is it the right file?") from None
        except ValueError as error:
            raise InputError(f"not JSON: {error}"[:200], where=where, hint="correct the file") from None
        yield value


def node_of(item: DocumentNode, *, proto: bool = False) -> Node:
    """Make a node of an object with the names of any of these forms; further members become attributes.

    In the JSON form of protocol buffers (``proto``) an id of 0 is left out.
    """
    item.get("id", None)  # an object
    kind = _member(item, "type").value
    if isinstance(kind, str):
        word = kind.upper().removesuffix("_NODE")
        if word not in _TYPES:
            raise item.error(f"unknown node type {kind[:40]!r}", f"use one of {', '.join(list(_TYPES)[1:])}")
        kind = _TYPES[word]
    elif isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < 1 << 31:
        kind = NodeType(kind) if kind < len(NodeType) else kind
    elif kind is None:
        kind = NodeType.COMP
    else:
        raise item.error("the node's type is neither a name nor a number", "use 4 or COMP, …")
    attributes = dict(_declared(one) for one in item.get("attr", []).items())
    given = item.get("attributes", {}).value
    given = given if isinstance(given, dict) else {}
    others = {name: value for name, value in item.value.items() if name not in _KNOWN}
    for name, value in {**others, **given}.items():
        plain = tuple(value) if isinstance(value, list) else value
        if isinstance(plain, dict) or (isinstance(plain, tuple) and not _alike(plain)):
            plain = json.dumps(value)
        if name == "comm_type" and isinstance(plain, str):
            plain = _COLLECTIVES.get(plain.upper(), plain)
        attributes[_text(name)] = attribute_of(name, _text(plain) if isinstance(plain, str) else plain)
    number = _member(item, "id")
    return Node(
        0
        if proto and number.value is None
        else _number(number if number.value is not None else item.get("id"), _BIG),
        _text(_member(item, "name").value or ""),
        kind,
        _numbers(_member(item, "data_deps")),
        _numbers(_member(item, "ctrl_deps")),
        _time(_member(item, "start")),
        _time(_member(item, "duration")),
        attributes,
        _tensors(_member(item, "inputs")),
        _tensors(_member(item, "outputs")),
    )


def _member(item: DocumentNode, name: str) -> DocumentNode:
    for word in _NAMES[name]:
        if item.has(word):
            return item.get(word)
    return item.get(_NAMES[name][0], None)


def _alike(values: tuple[Any, ...]) -> bool:
    kinds = {type(one) for one in values}
    return len(kinds) <= 1 and kinds <= {bool, int, float, str}


def _text(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()


def _number(item: DocumentNode, most: int) -> int:
    """A whole number, which protocol buffers write as a string."""
    value = item.value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 21:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise item.error(f"{item.brief} is not a whole number from 0 to {most}", "correct it")
    return value


def _numbers(item: DocumentNode) -> tuple[int, ...]:
    return () if item.value is None else tuple(_number(one, _BIG) for one in item.items())


def _time(item: DocumentNode) -> int:
    if item.value is None:
        return 0
    if isinstance(item.value, float):
        return round(item.real(0, 1e15))
    return _number(item, _TIME)


def _tensors(item: DocumentNode) -> tuple[str, str, str] | None:
    if item.value is None:
        return None
    values, shapes, types = (_text(item.get(name, "").value) for name in ("values", "shapes", "types"))
    return values, shapes, types


def _declared(item: DocumentNode) -> tuple[str, Attribute]:
    """Read an attribute as protocol buffers print it: its name, and its value under the kind's name."""
    name = item.get("name", "").text()
    for key, value in item.value.items():
        kind = re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key)
        if not kind.endswith(("_val", "_list")):
            continue
        one = item.get(key)
        if kind.endswith("_list"):
            listed = one.get("values", []).items()
            return name, Attribute(tuple(_plain(each, kind) for each in listed), kind)
        return name, Attribute(_plain(DocumentNode(value, one.source, one.place), kind), kind)
    return name, Attribute(None)


def _plain(item: DocumentNode, kind: str) -> Plain:
    value = item.value
    word = kind.rpartition("_")[0]
    try:
        if word == "bytes":
            return base64.b64decode(str(value), validate=True)
        if word in ("float", "double"):
            return float(value)
        if word == "bool" and isinstance(value, bool):
            return value
        if word == "string" and isinstance(value, str):
            return _text(value)
        if "int" in word or "fixed" in word:
            return int(value)
    except (TypeError, ValueError, OverflowError, binascii.Error):
        pass
    raise item.error(f"{item.brief} is not a {word}", "correct it")
