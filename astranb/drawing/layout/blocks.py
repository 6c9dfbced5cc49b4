"""Boxes placed within a block: rows of what passes lines on, and the shapes of what does not need it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from .shapes import GraphShape

__all__ = [
    "COLUMN",
    "HEADER",
    "HEIGHT",
    "LOW_ROW",
    "RAIL_HEIGHT",
    "RAIL_ROW",
    "ROW",
    "WIDTH",
    "PlacedBlock",
    "by_shape",
    "railed",
    "rows_of",
    "stacked",
]

WIDTH, HEIGHT = 96.0, 76.0
COLUMN, ROW = 124.0, 132.0  # from box to box, across and down
LOW_ROW = 84.0  # of boxes without GPUs
RAIL_HEIGHT, RAIL_ROW = 22.0, 48.0
_RAIL_END = 46.0  # what a rail reaches beyond the outer boxes, for its name
HEADER = 40.0  # of a frame, for its name
_PAD = 18.0
_MOST_IN_ROW = 16
_GRID_COLUMN = 148.0  # room for links from box to box
_DEEPER = (COLUMN - 14.0, HEIGHT + 16.0)  # from plane to plane: other links pass between the boxes


@dataclass
class PlacedBlock:
    """Boxes with places of their own, moved as one.

    Attributes
    ----------
    places : dict of int to (float, float, float)
        Centre and width of each item.
    width, height : float
    title : str
        Of the frame around it; empty: none.
    shape : str
        What it was recognised as.
    bent : dict of (int, int) to str
        Pairs of items whose links leave at one edge and come in at the other: ``"x"``, ``"y"`` or ``"z"``.
    """

    places: dict[int, tuple[float, float, float]]
    width: float
    height: float
    title: str = ""
    shape: str = ""
    bent: dict[tuple[int, int], str] = field(default_factory=dict)

    def flipped(self) -> PlacedBlock:
        """The same upside down, below its title."""
        top = HEADER if self.title else 0.0
        flipped = {item: (x, self.height + top - y, w) for item, (x, y, w) in self.places.items()}
        return replace(self, places=flipped)

    def below(self, other: PlacedBlock) -> PlacedBlock:
        """The same with another block above it."""
        width = max(self.width, other.width)
        places = {item: (x + (width - other.width) / 2, y, w) for item, (x, y, w) in other.places.items()}
        for item, (x, y, w) in self.places.items():
            places[item] = (x + (width - self.width) / 2, y + other.height, w)
        return replace(self, places=places, width=width, height=self.height + other.height, title="")

    def aligned(self, row: Sequence[int], near: Mapping[int, set[int]]) -> PlacedBlock:
        """The same with each item of a row above or below its neighbours, where there is room for all."""
        wanted = {}
        for item in row:
            others = [
                self.places[other][0] for other in near[item] if other in self.places and other not in row
            ]
            if not others:
                return self
            wanted[item] = sum(others) / len(others)
        order = sorted(wanted.values())
        if any(b - a < COLUMN - 1 for a, b in pairwise(order)):
            return self
        moved = {item: (x, *self.places[item][1:]) for item, x in wanted.items()}
        return replace(self, places=self.places | moved)

    def enlarged(self, factor: float) -> PlacedBlock:
        """The same, larger; its boxes, too."""
        places = {item: (x * factor, y * factor, w * factor) for item, (x, y, w) in self.places.items()}
        return replace(self, places=places, width=self.width * factor, height=self.height * factor)

    def framed(self, title: str) -> PlacedBlock:
        """The same within a frame."""
        moved = {item: (x + _PAD / 2, y + HEADER, w) for item, (x, y, w) in self.places.items()}
        width, height = self.width + _PAD, self.height + HEADER + _PAD / 2
        return replace(self, places=moved, width=width, height=height, title=title)


def rows_of(items: Sequence[int], most: int = _MOST_IN_ROW) -> list[list[int]]:
    """Divide items into rows of nearly equal length, in their order.

    Examples
    --------
    >>> rows_of(range(5), most=3)
    [[0, 1, 2], [3, 4]]
    """
    if not items:
        return []
    count = -(-len(items) // most)
    size = -(-len(items) // count)
    return [list(items[k : k + size]) for k in range(0, len(items), size)]


def stacked(rows: Sequence[Sequence[int]], tall: float = ROW) -> PlacedBlock:
    """Rows one below the other, each so high; what has more items than the first has narrower boxes."""
    rows = [row for row in rows if row]
    if not rows:
        return PlacedBlock({}, 0.0, 0.0)
    # A row of twice as many items as the others would move these far from each other.
    longest = max(len(row) for row in rows)
    usual = sorted(len(row) for row in rows)[len(rows) // 2]
    columns = max(usual, math.ceil(longest / 2))
    width = columns * COLUMN
    places = {}
    for level, row in enumerate(rows):
        step = width / len(row)
        wide = min(WIDTH, step - (COLUMN - WIDTH) / 2)
        for place, item in enumerate(row):
            places[item] = (step * (place + 0.5), tall * (level + 0.5), wide)
    return PlacedBlock(places, width, tall * len(rows))


def railed(boxes: Sequence[int], rails: Sequence[int], *, below: bool = False, most: int = 8) -> PlacedBlock:
    """Place boxes that are all joined with the same few switches: these are rails, all links are vertical.

    One row of boxes has half of the rails above it and half below, or all of them ``below``; of more boxes
    than ``most``, half of the rows are above the rails and half below.

    Examples
    --------
    >>> {item: y for item, (x, y, wide) in railed([0, 1], [8, 9]).places.items()}
    {8: 24.0, 0: 114.0, 1: 114.0, 9: 204.0}
    """
    rows = rows_of(boxes, max(most, math.ceil(math.sqrt(2 * len(boxes)))))
    count = len(rows) // 2 if len(rows) > 1 else 0 if below else -(-len(rails) // 2)
    over: Sequence[Sequence[int]] = rows[:count] if len(rows) > 1 else [[rail] for rail in rails[:count]]
    under: Sequence[Sequence[int]] = rows[count:] if len(rows) > 1 else [[rail] for rail in rails[count:]]
    middle: Sequence[Sequence[int]] = [[rail] for rail in rails] if len(rows) > 1 else rows
    known = set(rails)
    shifted = len(rows) > 2  # links of the outer rows pass between the boxes of the inner ones
    width = 2 * _RAIL_END + COLUMN * (len(rows[0]) + shifted / 2)
    places: dict[int, tuple[float, float, float]] = {}
    top = 0.0
    for number, row in enumerate([*over, *middle, *under]):
        rail = row[0] in known
        tall = RAIL_ROW if rail else ROW
        aside = COLUMN / 2 if shifted and not rail and number % 2 else 0.0
        for place, item in enumerate(row):
            x = width / 2 if rail else _RAIL_END + aside + COLUMN * (place + 0.5)
            places[item] = (x, top + tall / 2, width - 8 if rail else WIDTH)
        top += tall
    return PlacedBlock(places, width, top)


def by_shape(items: Sequence[int], shape: GraphShape) -> PlacedBlock:
    """Place items as their shape says; without one, in a circle while they are few, else in rows.

    The shape is one of the places of the items in the sequence.
    """
    order = [items[k] for k in shape.order]
    if shape.kind == "grid":
        return _grid(order, shape)
    if shape.kind == "line":
        return stacked(rows_of(order))
    if shape.kind in ("ring", "full") or len(order) <= _MOST_IN_ROW:
        return _circle(order, shape.title)
    return stacked(rows_of(order, math.ceil(math.sqrt(2 * len(order)))))


def _circle(order: Sequence[int], title: str) -> PlacedBlock:
    """Around an ellipse, twice as wide as high, large enough that boxes do not overlap."""
    n = len(order)
    # The second half is the mirror of the first, to the last digit.
    angles = [2 * math.pi * (k + 0.5) / n - math.pi / 2 - math.pi / n for k in range(n)]
    radius = COLUMN / 2
    points: list[tuple[float, float]] = []
    while True:
        points = [(1.6 * radius * math.cos(a), radius * math.sin(a)) for a in angles]
        if all(_separate(points[k], points[(k + 1) % n]) for k in range(n)):
            break
        radius *= 1.04
    left, top = 1.6 * radius + COLUMN / 2, radius + ROW / 2
    places = {
        item: (round(x + left, 3), round(y + top, 3), WIDTH)
        for item, (x, y) in zip(order, points, strict=True)
    }
    return PlacedBlock(places, 2 * left, 2 * top, shape=title)


def _separate(p: tuple[float, float], q: tuple[float, float]) -> bool:
    return p == q or abs(p[0] - q[0]) >= COLUMN - 8 or abs(p[1] - q[1]) >= HEIGHT + 20


def _grid(order: Sequence[int], shape: GraphShape) -> PlacedBlock:
    """Rows and columns; each plane is behind the one before, to the right and below it."""
    rows, columns, planes = shape.rows, shape.columns, shape.planes
    across, down = _DEEPER
    wide, tall = (_GRID_COLUMN + (planes - 1) * across, ROW + (planes - 1) * down)
    # Links that wrap leave by stubs at the edge: room for them.
    left = COLUMN / 4 if shape.wrap_columns or shape.wrap_planes else 0.0
    top = ROW / 4 if shape.wrap_rows or shape.wrap_planes else 0.0
    places, bent = {}, {}
    for number, item in enumerate(order):
        plane, cell = divmod(number, rows * columns)
        row, column = divmod(cell, columns)
        x = left + _GRID_COLUMN / 2 + wide * column + across * plane
        places[item] = (x, top + ROW / 2 + tall * row + down * plane, WIDTH)
    sides = {
        "z": (planes, shape.wrap_planes),
        "y": (rows, shape.wrap_rows),
        "x": (columns, shape.wrap_columns),
    }
    for name, (side, wraps) in sides.items():
        for number in range(len(order) if wraps else 0):
            step = {"z": rows * columns, "y": columns, "x": 1}[name]
            if number // step % side == 0:
                a, b = order[number], order[number + (side - 1) * step]
                bent[a, b] = bent[b, a] = name
    return PlacedBlock(places, 2 * left + wide * columns, 2 * top + tall * rows, shape=shape.title, bent=bent)
