"""The drawing of one module: its children in layers, so that what waits is below what it waits for.

Only places are decided here (which row of boxes, and where in it): how large a box is depends on what is open
inside. So the drawing of a module never changes, and a page can hold those of all modules.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ._modules import ModuleTree
from ._wire import Ints

__all__ = ["ModuleDrawing", "draw_module"]

_MOST_BESIDE: Final = 6  # boxes in a row; more of one layer go into further rows


class ModuleDrawing(NamedTuple):
    """Where the children of a module are, and what leads from one to another.

    Attributes
    ----------
    entities : array of int64
        The children, in an order in which they can begin.
    row, slot : array of int64
        The row of boxes of each child from the top, and its place in it from the left.
    before, after : array of int64
        Children, by their place in ``entities``: the second waits for the first.
    data, control : array of int64
        How many dependencies of each kind an edge stands for.
    implied : array of bool
        Whether other edges lead from the first to the second, too.
    """

    entities: Ints
    row: Ints
    slot: Ints
    before: Ints
    after: Ints
    data: Ints
    control: Ints
    implied: np.ndarray


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
    (array([0, 1, 2]), array([False,  True, False]))
    """
    entities = tree.children(module)
    edges = tree.edges(module)
    by_number = np.argsort(entities)
    ordered = entities[by_number]
    before, after = (by_number[np.searchsorted(ordered, one)] for one in (edges.before, edges.after))
    parents: list[list[int]] = [[] for _ in entities]
    for a, b in zip(before.tolist(), after.tolist(), strict=True):
        if a < b:
            parents[b].append(a)
    row, slot = _places(parents)
    return ModuleDrawing(
        entities, row, slot, before, after, edges.data, edges.control, _implied(parents, before, after)
    )


def _places(parents: list[list[int]]) -> tuple[Ints, Ints]:
    """Give each child a row below all that it waits for, and a place near to the middle of these."""
    layer = [0] * len(parents)
    layers: list[list[int]] = []
    for child, some in enumerate(parents):
        layer[child] = 1 + max((layer[one] for one in some), default=-1)
        if layer[child] == len(layers):
            layers.append([])
        layers[layer[child]].append(child)
    row, slot = np.zeros(len(parents), np.int64), np.zeros(len(parents), np.int64)
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
    return row, slot


def _implied(parents: list[list[int]], before: Ints, after: Ints) -> np.ndarray:
    """Find the edges beside which a longer way leads from the first to the second."""
    above: list[int] = []  # what each child comes after, as bits
    longer: list[int] = []  # that over another child
    for some in parents:
        far = 0
        for one in some:
            far |= above[one]
        near = 0
        for one in some:
            near |= 1 << one
        longer.append(far)
        above.append(far | near)
    pairs = zip(before.tolist(), after.tolist(), strict=True)
    return np.array([a < b and bool(longer[b] >> a & 1) for a, b in pairs], bool)

