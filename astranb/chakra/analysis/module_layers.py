"""The drawing of one module: its children in layers, so that what waits is below what it waits for.

Only places are decided here (which row of boxes, and where in it): how large a box is depends on what is open
inside. So the drawing of a module never changes, and a page can hold those of all modules.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from astranb.chakra.traces import Ints

from .trace_modules import ModuleTree

__all__ = ["ModuleDrawing", "draw_module", "draw_modules"]

_MOST_BESIDE: Final = 4  # boxes in a row; more of one layer go into further rows


class ModuleDrawing(NamedTuple):
    """Positions of the children of a module, and the edges between them.

    Attributes
    ----------
    entities : array of int64
        The children, in an order in which they can begin.
    row, slot : array of int64
        The row of boxes of each child from the top, and its place in it from the left.
    implied : array of int64
        Whether other edges lead from the first end of an edge to the second, too.
    before, after : array of int64
        Of each edge children, by their place in ``entities``: the second waits for the first.
    data, control : array of int64
        How many dependencies of each kind an edge stands for.
    """

    entities: Ints
    row: Ints
    slot: Ints
    implied: Ints
    before: Ints
    after: Ints
    data: Ints
    control: Ints


def draw_module(tree: ModuleTree, module: int) -> ModuleDrawing:
    """Place the children of a module.

    Edges that lead back, from what begins later, do not decide about places.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> first = step.compute("a", num_ops=1)
    >>> second = step.compute("b", num_ops=1, after=first)
    >>> _ = step.compute("c", num_ops=1, after=[first, second])
    >>> drawn = draw_module(ModuleTree(step.build()), 0)
    >>> drawn.row, drawn.implied
    (array([0, 1, 2]), array([0, 1, 0]))
    """
    entities = tree.children(module)
    edges = tree.edges(module)
    by_number = np.argsort(entities)
    ordered = entities[by_number]
    before, after = (by_number[np.searchsorted(ordered, one)] for one in (edges.before, edges.after))
    return ModuleDrawing(
        entities, *_drawn(len(entities), before, after), before, after, edges.data, edges.control
    )


def draw_modules(tree: ModuleTree) -> tuple[ModuleDrawing, Ints, Ints]:
    """Place the children of all modules, one module behind the other.

    Returns
    -------
    drawing : ModuleDrawing
    first, edge : array of int64
        Where the children of each module begin, and its edges; and the ends of the last ones.
    """
    children, (edge, edges) = tree.all_children, tree.all_edges
    first, entities = children
    place = np.zeros(len(tree) + tree.count, np.int64)
    place[entities] = np.arange(len(entities)) - np.repeat(first[:-1], np.diff(first))
    before, after = place[edges.before], place[edges.after]
    columns: list[list[np.ndarray]] = [[], [], []]
    starts, begins = first.tolist(), edge.tolist()
    for module in range(len(tree)):
        mine = slice(begins[module], begins[module + 1])
        count = starts[module + 1] - starts[module]
        for column, one in zip(columns, _drawn(count, before[mine], after[mine]), strict=True):
            column.append(one)
    row, slot, implied = (np.concatenate(column) for column in columns)
    drawing = ModuleDrawing(entities, row, slot, implied, before, after, edges.data, edges.control)
    return drawing, first, edge


def _drawn(count: int, before: Ints, after: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the row and slot of each child, and which edges are implied."""
    parents: list[list[int]] = [[] for _ in range(count)]
    pairs = list(zip(before.tolist(), after.tolist(), strict=True))
    for a, b in pairs:
        if a < b:
            parents[b].append(a)
    above: list[int] = []
    longer: list[int] = []  # what each child comes after, as bits: at all, and over another child
    for some in parents:
        far = near = 0
        for one in some:
            far |= above[one]
            near |= 1 << one
        longer.append(far)
        above.append(far | near)
    implied = [a < b and longer[b] >> a & 1 for a, b in pairs]
    return *_places(parents), np.array(implied, np.int64)


def _places(parents: list[list[int]]) -> tuple[Ints, Ints]:
    """Assign each child a row below all that it waits for, and a place near to the middle of these."""
    layer = [0] * len(parents)
    layers: list[list[int]] = []
    for child, some in enumerate(parents):
        layer[child] = 1 + max((layer[one] for one in some), default=-1)
        if layer[child] == len(layers):
            layers.append([])
        layers[layer[child]].append(child)
    row, slot = [0] * len(parents), [0] * len(parents)
    middle = [0.0] * len(parents)
    begun = 0
    for some in layers:
        if begun:
            for child in some:
                middle[child] = sum(middle[one] for one in parents[child]) / max(len(parents[child]), 1)
            some.sort(key=lambda child: (middle[child], child))
        rows = -(-len(some) // _MOST_BESIDE)
        each = -(-len(some) // rows)
        for at, child in enumerate(some):
            row[child], slot[child] = begun + at // each, at % each
            inside = min(each, len(some) - at // each * each)
            middle[child] = at % each - (inside - 1) / 2
        begun += rows
    return np.array(row, np.int64), np.array(slot, np.int64)
