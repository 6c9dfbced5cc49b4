"""Rings, lines, grids and full meshes, recognised from the links between nodes.

A shape is only given where every edge fits it: places are worked out by walking, and then
the edges of the shape are compared with those of the graph. Names and file order play no
part in whether a shape is found; among equal pictures the numbers of the items choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

__all__ = ["GraphShape", "shape_of"]

Adjacency = Sequence[frozenset[int]]

_TRIES_AN_ITEM = 60
"""A grid is found with hardly any wrong turn; what takes more is no grid."""


@dataclass(frozen=True)
class GraphShape:
    """Shape of a graph of items.

    Attributes
    ----------
    kind : str
        ``"line"``, ``"ring"``, ``"grid"``, ``"full"``, or ``"none"``.
    order : tuple of int
        Items along a line or around a ring, or row by row, plane by plane.
    rows, columns : int
        Of a grid; a line has one row.
    wrap_rows, wrap_columns : bool
        Whether the last row is joined with the first, the last column with the first.
    planes : int
        Of a grid of three dimensions.
    wrap_planes : bool
    """

    kind: str
    order: tuple[int, ...]
    rows: int = 1
    columns: int = 1
    wrap_rows: bool = False
    wrap_columns: bool = False
    planes: int = 1
    wrap_planes: bool = False

    @property
    def title(self) -> str:
        """Name it for people: ``4 x 4 torus``."""
        if self.kind != "grid":
            names = {"line": "line", "ring": "ring", "full": "full mesh", "none": ""}
            return f"{names[self.kind]} of {len(self.order)}" if names[self.kind] else ""
        sides = [self.planes, self.rows, self.columns] if self.planes > 1 else [self.rows, self.columns]
        wraps = self.wrap_rows + self.wrap_columns + self.wrap_planes
        what = "mesh" if not wraps else "torus" if wraps == len(sides) else "cylinder"
        return f"{' x '.join(map(str, sides))} {what}"


def shape_of(adjacency: Sequence[frozenset[int] | set[int]]) -> GraphShape:
    """Recognise the shape of an undirected graph.

    Parameters
    ----------
    adjacency : sequence of sets of int
        Neighbours of each item, by number.

    Returns
    -------
    GraphShape
        ``"none"``, with the items in their own order, where nothing fits.

    Examples
    --------
    >>> shape_of([{1, 3}, {0, 2}, {1, 3}, {2, 0}]).title
    'ring of 4'
    >>> shape_of([{1, 2}, {0, 3}, {0, 3, 4}, {1, 2, 5}, {2, 5}, {3, 4}]).title
    '2 x 3 mesh'
    """
    graph: Adjacency = [frozenset(near) - {item} for item, near in enumerate(adjacency)]
    n = len(graph)
    degrees = sorted(len(near) for near in graph)
    none = GraphShape("none", tuple(range(n)))
    if n < 2 or not _connected(graph):
        return none
    if degrees[-1] <= 2:
        return _chain(graph)
    if degrees[0] == n - 1:
        return GraphShape("full", tuple(range(n)))
    if degrees[-1] > 6 or degrees[0] < 2:
        return none
    if degrees[-1] > 4:
        return _solid(graph) or none
    for (rows, columns), wraps in _wrapped(n, sum(degrees) // 2, _flat_sizes(n)):
        cells = _fit(graph, rows, columns, wraps)
        if cells is not None:
            return GraphShape("grid", tuple(cells), rows, columns, wraps[0], wraps[1])
    return _solid(graph) or none


def _solid(graph: Adjacency) -> GraphShape | None:
    """A grid of three dimensions whose items are numbered row by row and plane by plane.

    >>> cube = [{i ^ 1, i ^ 2, i ^ 4} for i in range(8)]
    >>> _solid(cube).title
    '2 x 2 x 2 mesh'
    """
    n = len(graph)
    sides = [side for side in range(2, n) if n % side == 0]
    sizes = [(p, r, n // (p * r)) for p, r in product(sides, sides) if n % (p * r) == 0 and n // (p * r) > 1]
    for size, wraps in _wrapped(n, sum(map(len, graph)) // 2, sizes):
        if all(graph[item] == _around(item, size, wraps) for item in range(n)):
            order = tuple(range(n))
            return GraphShape("grid", order, size[1], size[2], wraps[1], wraps[2], size[0], wraps[0])
    return None


def _flat_sizes(n: int) -> list[tuple[int, int]]:
    """Rows and columns of grids of so many items, the squarest first, wide before tall."""
    sides = [side for side in range(2, n // 2 + 1) if n % side == 0]
    return [(rows, n // rows) for rows in sorted(sides, key=lambda side: (abs(n // side - side), side))]


def _wrapped(
    n: int, edges: int, sizes: Iterable[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], tuple[bool, ...]]]:
    """Sizes of grids of so many items and edges, and along which sides they wrap."""
    for size in sizes:
        for wraps in product((False, True), repeat=len(size)):
            sides = list(zip(size, wraps, strict=True))
            # A wrap of two would join the same pair again.
            if any(wrap and side < 3 for side, wrap in sides):
                continue
            if edges == sum(n // side * (side - (not wrap)) for side, wrap in sides):
                yield size, wraps


def _around(item: int, size: tuple[int, ...], wraps: tuple[bool, ...]) -> set[int]:
    """The items next to one in a grid that is numbered with its last side first."""
    found, step = set(), 1
    for side, wrap in zip(reversed(size), reversed(wraps), strict=True):
        here = item // step % side
        for neighbour in (here - 1, here + 1):
            if wrap or 0 <= neighbour < side:
                found.add(item + (neighbour % side - here) * step)
        step *= side
    return found


def _connected(graph: Adjacency) -> bool:
    seen, front = {0}, [0]
    while front:
        front = [other for item in front for other in graph[item] if other not in seen]
        front = list(dict.fromkeys(front))
        seen.update(front)
    return len(seen) == len(graph)


def _chain(graph: Adjacency) -> GraphShape:
    """A connected graph of degree two at most is a line or a ring."""
    ends = [item for item, near in enumerate(graph) if len(near) == 1]
    order, before = [ends[0] if ends else 0], -1
    while len(order) < len(graph):
        here = order[-1]
        following = min(other for other in graph[here] if other != before)
        order.append(following)
        before = here
    return GraphShape("line" if ends else "ring", tuple(order), 1, len(graph))


def _fit(graph: Adjacency, rows: int, columns: int, wraps: tuple[bool, ...]) -> list[int] | None:
    """Return the item in each cell, row by row, where the graph is exactly this grid.

    Cells are filled by diagonals, so that all but those of the first row and column follow
    from two that are filled already.
    """
    cells = [
        (d - c) * columns + c for d in range(rows + columns - 1) for c in range(columns) if 0 <= d - c < rows
    ]
    near = {cell: _around(cell, (rows, columns), wraps) for cell in cells}
    # Most documents number the items row by row: then they stay so.
    if all(graph[cell] == near[cell] for cell in cells):
        return list(range(len(graph)))
    place = {cell: number for number, cell in enumerate(cells)}
    before = [[place[other] for other in near[cell] if place[other] < place[cell]] for cell in cells]
    degree = [len(near[cell]) for cell in cells]
    first = next((item for item, others in enumerate(graph) if len(others) == degree[0]), None)
    if first is None:
        return None
    filled, used = [first], {first}
    choices: list[Iterator[int]] = [iter(())]
    tries = _TRIES_AN_ITEM * len(graph)

    def fitting(number: int) -> Iterator[int]:
        common = frozenset.intersection(*(graph[filled[other]] for other in before[number]))
        taken = {filled[other] for other in before[number]}
        for item in sorted(common - used):
            # Joined with exactly those filled cells that the grid joins it with.
            if len(graph[item]) == degree[number] and graph[item] & used == taken:
                yield item

    while len(filled) < len(cells):
        if len(choices) == len(filled):
            choices.append(fitting(len(filled)))
        item = next(choices[-1], None)
        tries -= 1
        if tries < 0:
            return None
        if item is not None:
            filled.append(item)
            used.add(item)
            continue
        choices.pop()
        if len(filled) == 1:
            return None
        used.remove(filled.pop())
    by_cell = dict(zip(cells, filled, strict=True))
    if any(graph[by_cell[cell]] != {by_cell[other] for other in near[cell]} for cell in cells):
        return None
    return [by_cell[cell] for cell in range(len(cells))]
