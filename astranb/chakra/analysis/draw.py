"""A trace's graph as a picture: SVG, or text for Graphviz."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import numpy as np

from astranb.chakra.traces import CollectiveType, NodeType, Trace, ordered
from astranb.core.colours import LIGHT, OKABE_ITO
from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.plural import plural
from astranb.core.svg import Path as Curve
from astranb.core.svg import Shape, SvgBox, Text, document

__all__ = ["draw"]

_MOST: Final = 5000
_WIDE, _HIGH, _ACROSS, _DOWN = 168, 30, 188, 54
_COLOURS: Final = {
    NodeType.COMP: OKABE_ITO[4],
    NodeType.COMM_COLL: OKABE_ITO[1],
    NodeType.COMM_SEND: OKABE_ITO[2],
    NodeType.COMM_RECV: OKABE_ITO[3],
    NodeType.MEM_LOAD: OKABE_ITO[6],
    NodeType.MEM_STORE: OKABE_ITO[6],
}
_LABEL: Final = 26


def draw(trace: Trace, path: str | Path, *, most: int = 400, start: int = 0) -> dict[str, Any]:
    """Draw nodes and dependencies as SVG, or write them for Graphviz.

    Parameters
    ----------
    trace : Trace
    path : str or Path
        ``.svg``, or ``.dot`` for Graphviz.
    most : int
        The most nodes to draw, 1 to 5,000, in an order in which they can run; those in a cycle come last.
    start : int
        How many nodes to skip first.

    Returns
    -------
    dict
        How many ``nodes`` and ``dependencies`` are drawn, ``nodes_left_out`` and ``dependencies_left_out``,
        as in the title of the picture.

    Raises
    ------
    InputError
        The file cannot be written, or a number is out of range.

    Examples
    --------
    >>> import tempfile
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.collective("all_reduce", 1024, after=step.compute("forward", num_ops=10**6))
    >>> draw(step.build(), tempfile.mkdtemp() + "/step.svg")["dependencies"]
    1
    """
    file = Path(path)
    if file.suffix.lower() not in (".svg", ".dot"):
        what = f"unknown file extension {file.suffix!r}"
        raise InputError(what, where=str(path), hint="use FILE.svg or FILE.dot")
    if not 1 <= most <= _MOST:
        raise InputError(plural(most, "node"), where="most", hint=f"use 1 to {_MOST}")
    if start < 0 or (start >= len(trace) and start):
        raise InputError(
            f"the trace has {plural(len(trace), 'node')}", where="start", hint="use a smaller one"
        )
    parents = trace.present_parents
    order, _ = ordered(parents)
    ordinary = set(order)
    rest = [row for row in range(len(trace)) if row not in ordinary] if len(order) < len(trace) else []
    rows = [*order, *rest][start : start + most]
    shown = {row: at for at, row in enumerate(rows)}
    edges = [
        (shown[int(parent)], at) for row, at in shown.items() for parent in parents.of(row) if parent in shown
    ]
    left = len(trace) - len(rows)
    hidden = len(parents.flat) - len(edges)
    note = f"{len(rows):,} of {plural(len(trace), 'node')}"
    if left:
        note += (
            f", {start:,} before and {left - start:,} after them left out, "
            f"with {plural(hidden, 'dependency', 'dependencies')}"
        )
    if rest:
        note += f"; {len(rest):,} are in a cycle or after one"
    labels = [_label(trace, row) for row in rows]
    kinds = [_kind(int(kind)) for kind in trace.type[rows]]
    title = f"{trace.source}: {note}"
    text = (_svg if file.suffix.lower() == ".svg" else _dot)(labels, kinds, edges, title)
    with whole_file(file) as out:
        out.write(text.encode("utf-8", "replace"))
    return {
        "nodes": len(rows),
        "dependencies": len(edges),
        "nodes_left_out": left,
        "dependencies_left_out": hidden,
    }


def _kind(number: int) -> NodeType:
    return NodeType(number) if 0 <= number < len(NodeType) else NodeType.INVALID


def _label(trace: Trace, row: int) -> tuple[str, str]:
    """Return the two lines of a node: its id and name, its type and size."""
    size = int(trace.comm_size[row])
    kind = int(trace.type[row])
    more = NodeType(kind).name if 0 <= kind < len(NodeType) else str(kind)
    which = int(trace.comm_type[row])
    if kind == NodeType.COMM_COLL and 0 <= which < len(CollectiveType):
        more = CollectiveType(which).name.lower()
    if size >= 0:
        more += f", {size:,} bytes"
    elif int(trace.num_ops[row]) > 0:
        more += f", {int(trace.num_ops[row]):.3g} operations"
    elif int(trace.duration_us[row]):
        more += f", {int(trace.duration_us[row]):,} us"
    return f"{int(trace.id[row])} {_clean(trace.names[row] or '')}", more


def _clean(text: str) -> str:
    """Replace characters that neither SVG nor a terminal can show."""
    readable = text.encode("utf-8", "replace").decode()
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]", "?", readable)


def _short(text: str) -> str:
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"


def _svg(
    labels: list[tuple[str, str]], kinds: list[NodeType], edges: list[tuple[int, int]], title: str
) -> str:
    count = len(labels)
    depth = np.zeros(count, int)
    for parent, child in edges:  # children come after their parents, but in a cycle, and edges in their order
        if parent < child:
            depth[child] = max(depth[child], depth[parent] + 1)
    place = np.zeros(count, int)
    filled: dict[int, int] = {}
    for at in range(count):
        level = int(depth[at])
        place[at] = filled.get(level, 0)
        filled[level] = place[at] + 1
    x, y = 20 + place * _ACROSS, 44 + depth * _DOWN
    wide = max(int(x.max(initial=0)) + _WIDE + 20, 640)
    high = int(y.max(initial=0)) + _HIGH + 20
    shapes: list[Shape] = [Text(20, 24, _clean(title), 13, LIGHT.ink)]
    half = _WIDE // 2
    for parent, child in edges:
        a, b, c, d = x[parent] + half, y[parent] + _HIGH, x[child] + half, y[child]
        middle = (b + d) // 2
        shapes.append(Curve(f"M{a} {b}C{a} {middle} {c} {middle} {c} {d}", LIGHT.line))
    for at, (name, more) in enumerate(labels):
        colour, left, top = _COLOURS.get(kinds[at], LIGHT.node), float(x[at]), float(y[at])
        shapes += [
            SvgBox(left, top, _WIDE, _HIGH, 3, LIGHT.panel, colour, f"{name}: {more}", edge=2),
            Text(left + 6, top + 13, _short(name), 11, LIGHT.ink),
            Text(left + 6, top + 25, _short(more), 11, LIGHT.dim),
        ]
    return document(wide, high, shapes, title=_clean(title), ground=LIGHT.back, scroll=True) + "\n"


def _dot(
    labels: list[tuple[str, str]], kinds: list[NodeType], edges: list[tuple[int, int]], title: str
) -> str:
    out = ["digraph trace {", f"  label={_quoted(title)}; node [shape=box, style=rounded];"]
    for at, (name, more) in enumerate(labels):
        colour = _COLOURS.get(kinds[at], LIGHT.node)
        out.append(f'  n{at} [label={_quoted(name, more)}, color="{colour}"];')
    out += [f"  n{parent} -> n{child};" for parent, child in edges]
    return "\n".join([*out, "}"]) + "\n"


def _quoted(*lines: str) -> str:
    return '"' + "\\n".join(_clean(one).replace("\\", "\\\\").replace('"', '\\"') for one in lines) + '"'
