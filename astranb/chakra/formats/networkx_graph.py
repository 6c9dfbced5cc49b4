"""Traces as graphs: conversion from and to NetworkX's, and GraphML files.

A node has its trace's id; ``name``, ``type``, ``start_us``, ``duration_us`` and its attributes; an edge leads
from a node to one that waits for it, and its ``kind`` is ``data`` or ``control``. GraphML is read and written
without NetworkX. mlcommons' visualizer (``src/visualizer/visualizer.py``) writes graphs with labels alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from astranb.chakra.traces import KIND_OF, Trace, as_document
from astranb.core.document import DocumentNode, DocumentSource, contents, read_document
from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.file_formats import names_format
from astranb.core.files import whole_file
from astranb.core.xml import xml_document

from .chakra_json import node_of

__all__ = ["from_networkx", "graph_trace", "to_networkx", "write_graphml"]

_MOST_BYTES: Final = 1 << 30
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_SPACE: Final = "http://graphml.graphdrawing.org/xmlns"
_KINDS: Final = {bool: "boolean", int: "long", float: "double", str: "string"}
_OWN: Final = {"data_deps", "ctrl_deps", "id"}

Edge = tuple[Any, Any, str]
"""The node before, the node that waits for it, and the kind of the dependency."""


def to_networkx(trace: Trace) -> Any:
    """Make a ``networkx.DiGraph`` of a trace; it needs the extra ``figures``.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.collective("all_reduce", 1024, after=step.compute("forward", num_ops=10**6))
    >>> graph = to_networkx(step.build())
    >>> [graph.nodes[one]["name"] for one in graph], list(graph.edges(data="kind"))
    (['forward', 'all_reduce'], [(0, 1, 'data')])
    >>> from_networkx(graph).node(1).attributes["comm_size"].value
    1024
    """
    with needs_extra("networkx"):
        import networkx as nx
    graph = nx.DiGraph()
    nodes, edges = _graph_of(trace)
    graph.add_nodes_from(nodes.items())
    graph.add_edges_from((before, after, {"kind": kind}) for before, after, kind in edges)
    return graph


def from_networkx(graph: Any, source: str = "graph") -> Trace:
    """Make a trace of a directed graph of NetworkX, with members as :func:`to_networkx` writes them.

    Parameters
    ----------
    graph : networkx.DiGraph
        Nodes that are not numbers are numbered in their order. A node without a type is a computation, and
        an edge without a kind a data dependency.
    source : str
        What errors call it.

    Raises
    ------
    InputError
        The graph is not directed, or a node's member has another form.
    """
    if not graph.is_directed():
        raise InputError("the graph is not directed", where=source, hint="edges lead to the node that waits")
    edges = ((a, b, str(more.get("kind", "data"))) for a, b, more in graph.edges(data=True))
    return _trace_of(dict(graph.nodes(data=True)), edges, source)


@names_format("GraphML", "node-link graph")
def graph_trace(path: str | Path) -> Trace:
    """Read a graph as a trace: GraphML, or the node-link JSON of NetworkX.

    Raises
    ------
    InputError
        The file cannot be read, or is no graph of this kind.
    """
    data = contents(path, _MOST_BYTES)
    if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<":
        return _graphml(path, data)
    document = read_document(path, _MOST_BYTES, form="json", strict=False)
    if document.get("directed").value is not True:
        raise document.error("the graph is not directed", "edges lead to the node that waits")
    nodes = {}
    for one in document.get("nodes").items():
        nodes[one.get("id").value if one.get("id").value.__hash__ else str(one.get("id").value)] = {
            name: value for name, value in one.value.items() if name != "id"
        }
    edges = [
        (one.get("source").value, one.get("target").value, str(one.get("kind", "data").value))
        for one in document.get("links" if document.has("links") else "edges").items()
    ]
    return _trace_of(nodes, edges, str(path))


def write_graphml(trace: Trace, path: str | Path) -> None:
    """Write a trace as GraphML, for NetworkX, Gephi, yEd and others.

    Raises
    ------
    InputError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.collective("all_reduce", 1024, after=step.compute("forward", num_ops=10**6))
    >>> file = tempfile.mkdtemp() + "/step.graphml"
    >>> write_graphml(step.build(), file)
    >>> graph_trace(file).names.values
    ('forward', 'all_reduce')
    """
    from xml.sax.saxutils import escape, quoteattr  # brings urllib along: only a writer pays for it

    nodes, edges = _graph_of(trace)
    keys: dict[tuple[str, str], str] = {}
    body = []
    for number, members in nodes.items():
        body.append(f'<node id="{number}">')
        for name, value in members.items():
            key = keys.setdefault((name, _KINDS.get(type(value), "string")), f"k{len(keys)}")
            text = json.dumps(value) if isinstance(value, bool | list) else str(value)
            body.append(f'<data key="{key}">{escape(_printable(text))}</data>')
        body.append("</node>")
    body += [
        f'<edge source="{before}" target="{after}"><data key="kind">{kind}</data></edge>'
        for before, after, kind in edges
    ]
    head = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<graphml xmlns="{_SPACE}">',
        '<key id="kind" for="edge" attr.name="kind" attr.type="string"/>',
    ]
    head += [
        f'<key id="{key}" for="node" attr.name={quoteattr(_printable(name))} attr.type="{kind}"/>'
        for (name, kind), key in keys.items()
    ]
    with whole_file(Path(path)) as out:
        text = "\n".join([*head, '<graph edgedefault="directed">', *body, "</graph>", "</graphml>", ""])
        out.write(text.encode("utf-8", "replace"))


def _printable(text: str) -> str:
    """Replace what XML cannot hold."""
    return _UNPRINTABLE.sub("?", text)


def _graph_of(trace: Trace) -> tuple[dict[int, dict[str, Any]], list[Edge]]:
    nodes: dict[int, dict[str, Any]] = {}
    edges: list[Edge] = []
    for node in trace.nodes():
        document = as_document(node)
        members = {name: value for name, value in document.items() if name not in _OWN}
        members |= members.pop("attributes", {})
        for side in ("inputs", "outputs"):
            members |= {f"{side}.{name}": value for name, value in members.pop(side, {}).items()}
        nodes[node.id] = members
        edges += [(one, node.id, "data") for one in node.data_deps]
        edges += [(one, node.id, "control") for one in node.ctrl_deps if one not in node.data_deps]
    return nodes, edges


def _trace_of(nodes: Mapping[Any, Mapping[Any, Any]], edges: Iterable[Edge], source: str) -> Trace:
    numbers = {key: number for number, key in enumerate(nodes)}
    if all(_is_id(key) for key in nodes):
        numbers = {key: int(key) for key in nodes}
    made: dict[Any, dict[str, Any]] = {}
    for key, given in nodes.items():
        members = {str(name): value for name, value in given.items() if str(name) not in _OWN}
        label = members.pop("label", None)
        members.setdefault("name", str(label if label is not None else key))
        for side in ("inputs", "outputs"):
            parts = {one: members.pop(f"{side}.{one}", "") for one in ("values", "shapes", "types")}
            if any(parts.values()):
                members[side] = parts
        made[key] = {"id": numbers[key], "data_deps": [], "ctrl_deps": [], **members}
    for before, after, kind in edges:
        for end in (before, after):
            if end not in made:
                what = f"an edge of node {str(end)[:40]!r}, which does not exist"
                raise InputError(what, where=source, hint="add the node, or drop the edge")
        side = "ctrl_deps" if kind.startswith(("control", "ctrl")) else "data_deps"
        made[after][side].append(numbers[before])
    return Trace.of(
        [
            node_of(DocumentNode(one, DocumentSource(f"{source}: node {str(key)[:40]}")))
            for key, one in made.items()
        ],
        source=source,
    )


def _is_id(key: Any) -> bool:
    if isinstance(key, bool):
        return False
    if isinstance(key, int):
        return 0 <= key < 1 << 64
    return isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) < 20


def _graphml(path: str | Path, data: bytes) -> Trace:
    where = str(path)
    top = xml_document(path, data).element
    keys: dict[str, tuple[str, str]] = {}
    nodes: dict[str, dict[str, Any]] = {}
    edges: list[Edge] = []
    for element in top.iter():
        tag = str(element.tag).rpartition("}")[2]
        if tag == "key":
            keys[element.get("id", "")] = element.get("attr.name", ""), element.get("attr.type", "string")
        elif tag == "graph" and element.get("edgedefault") == "undirected":
            raise InputError(
                "the graph is not directed", where=where, hint="edges lead to the node that waits"
            )
        elif tag in ("node", "edge"):
            members = {}
            for one in element:
                name, kind = keys.get(one.get("key", ""), (one.get("key", ""), "string"))
                members[name] = _value(one.text or "", kind, f"{where}: {tag} {element.get('id', '')[:40]}")
                if name in KIND_OF and KIND_OF[name].endswith("_list"):
                    members[name] = _listed(one.text or "")
            if tag == "node":
                nodes[element.get("id", "")] = members
            else:
                ends = element.get("source", ""), element.get("target", "")
                edges.append((*ends, str(members.get("kind", "data"))))
    return _trace_of(nodes, edges, where)


def _listed(text: str) -> Any:
    """A list that :func:`write_graphml` wrote, or the text."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        return found if isinstance(found, list) else text
    return text


def _value(text: str, kind: str, where: str) -> Any:
    try:
        if kind in ("int", "long"):
            return int(text)
        if kind in ("float", "double"):
            return float(text)
    except ValueError:
        raise InputError(f"{text[:40]!r} is not a {kind}", where=where, hint="correct it") from None
    return text.strip().lower() == "true" if kind == "boolean" else text
