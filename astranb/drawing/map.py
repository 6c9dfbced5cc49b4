"""Map of an infrastructure with nothing running on it: its parts, links and bandwidths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from astranb.core.colours import Colours
from astranb.core.plural import plural
from astranb.core.svg import Picture, Shape, SvgLine, Text
from astranb.core.units import format_bandwidth, format_time
from astranb.infragraph import Infra, NodeGraph
from astranb.net import Fabric, compile_fabric

from .layout import Detail, Layout, describe, lay_out
from .topology import Edge, boxes_of, frames_of

__all__ = ["joined", "map_of"]

_ROW = 18.0
_SWATCH = 26.0
_DEEPEST, _PIECES = 40.0, 16  # of an arc


def map_of(infra: Infra, *, dark: bool = False) -> Picture:
    """Draw an infrastructure as plain shapes.

    Parameters
    ----------
    infra : Infra
    dark : bool
        For dark ground.

    Raises
    ------
    InputError
        There is no GPU in it.
    """
    graph = infra.expand()
    colours = Colours.of(dark)
    fabric = compile_fabric(graph)
    layout = lay_out(fabric, np.arange(len(fabric.links)))
    kinds = _kinds(graph, fabric, layout)
    used = list(dict.fromkeys(kinds.values()))
    colour = {kind: colours.lines[n % len(colours.lines)] for n, kind in enumerate(used)}
    title = (
        f"{infra.name}: {plural(len(graph.gpus), 'GPU')}, {plural(len(graph), 'node')}, "
        f"{plural(len(graph.edges.a), 'link')}"
    )
    drawn = describe(replace(layout, detail=Detail(layout.detail.level, 0)))
    legend = list(_legend(graph, used, colour, layout, colours))
    foot = layout.height + 24 + _ROW * len(used)
    caption = Text(12, foot, "; ".join(filter(None, (title, drawn))), 13, colours.ink, room=layout.width - 24)
    return Picture(
        layout.width,
        foot + 12,
        colours,
        title,
        (
            *frames_of(layout, colours),
            *boxes_of(layout, colours, rails=True),
            *_lines(fabric, layout, kinds, colour, graph),
        ),
        (),
        tuple(boxes_of(layout, colours)),
        (*legend, caption),
    )


def joined(layout: Layout) -> dict[tuple[int, int], int]:
    """Pairs of boxes, with the bundle of one direction."""
    found: dict[tuple[int, int], int] = {}
    for number, (a, b, _) in enumerate(layout.bundles):
        found.setdefault((min(a, b), max(a, b)), number)
    return found


def _kinds(graph: NodeGraph, fabric: Fabric, layout: Layout) -> dict[int, int]:
    """The link, of those declared, that most lanes of a bundle are of; by its number."""
    return {
        number: int(np.argmax(np.bincount(graph.edges.link[fabric.edge[list(layout.bundles[number][2])]])))
        for number in joined(layout).values()
    }


def _lines(
    fabric: Fabric, layout: Layout, kinds: dict[int, int], colour: dict[int, str], graph: NodeGraph
) -> Iterator[Shape]:
    for number, kind in kinds.items():
        a, b, lanes = layout.bundles[number]
        rows = fabric.links[list(lanes)]
        count = plural(len(lanes), "lane")
        rate = format_bandwidth(int(rows["bandwidth_Bps"].sum()))
        tip = (
            f"{layout.boxes[a].name} - {layout.boxes[b].name}: {count} of {graph.links[kind].name}, "
            f"{rate} per direction, {format_time(int(rows['latency_ps'].max()))}"
        )
        width = 1.2 + 0.8 * float(np.log2(len(lanes)))
        for points in _path(layout, number):
            for start, end in pairwise(points):
                yield SvgLine(*start, *end, colour[kind], width, tip)


def _path(layout: Layout, number: int) -> list[list[tuple[float, float]]]:
    """Return the course of a line: straight, in two stubs round a torus, or below the boxes in its way."""
    a, b = (layout.boxes[end] for end in layout.bundles[number][:2])
    left, right = sorted((a, b), key=lambda box: box.x)
    if abs(a.y - b.y) < 1 and any(abs(box.y - a.y) < 1 and left.x < box.x < right.x for box in layout.boxes):
        down, span = a.y + a.height / 2, right.x - left.x
        deep = min(_DEEPEST, 8 + span / 12)
        turns = [k / _PIECES for k in range(_PIECES + 1)]
        return [[(left.x + span * t, down + deep * 4 * t * (1 - t)) for t in turns]]
    return [list(piece) for piece in Edge(layout, number, 0.0).segments()]


def _legend(
    graph: NodeGraph, used: list[int], colour: dict[int, str], layout: Layout, colours: Colours
) -> Iterator[Shape]:
    """A row for each link, with the rate of its edges."""
    for row, kind in enumerate(used):
        y = layout.height + 20 + _ROW * row
        mine = graph.edges.link == kind
        count = int(mine.sum())
        rates = np.unique(graph.edges["bandwidth_Bps"][:, mine])
        rate = " to ".join(format_bandwidth(int(r)) for r in sorted({rates[0], rates[-1]}))
        lanes = np.unique(graph.edges.lanes[mine])
        many = f" \u00d7 {' to '.join(str(n) for n in sorted({int(lanes[0]), int(lanes[-1])}))}"
        each = many if lanes[-1] > 1 else ""
        delay = format_time(int(graph.edges["latency_ps"][0][mine].max()))
        link = graph.links[kind]
        name = link.name if link.type == link.name else f"{link.name} ({link.type})"
        yield SvgLine(12, y - 4, 12 + _SWATCH, y - 4, colour[kind], 3)
        edges = plural(count, "edge")
        label = f"{name}: {rate}{each} per direction, {delay}, {edges}"
        yield Text(18 + _SWATCH, y, label, 12, colours.dim, room=layout.width - 30 - _SWATCH)
