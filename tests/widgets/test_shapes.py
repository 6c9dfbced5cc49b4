"""Shapes recognised from graphs: whatever the items are called, and nothing that is none."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.drawing.layout.blocks import HEIGHT, WIDTH, by_shape
from astranb.drawing.layout.shapes import GraphShape, shape_of

Graph = list[set[int]]


def grid(rows: int, columns: int, wrap_rows: bool, wrap_columns: bool) -> Graph:
    """A grid built from its definition, item by item."""
    graph: Graph = [set() for _ in range(rows * columns)]

    def join(a: int, b: int) -> None:
        if a != b:
            graph[a].add(b)
            graph[b].add(a)

    for row in range(rows):
        for column in range(columns):
            if column + 1 < columns or wrap_columns:
                join(row * columns + column, row * columns + (column + 1) % columns)
            if row + 1 < rows or wrap_rows:
                join(row * columns + column, (row + 1) % rows * columns + column)
    return graph


def renumbered(graph: Graph, seed: int) -> Graph:
    to = list(range(len(graph)))
    random.Random(seed).shuffle(to)
    mixed: Graph = [set() for _ in graph]
    for item, near in enumerate(graph):
        mixed[to[item]] = {to[other] for other in near}
    return mixed


def edges_of(shape: GraphShape) -> set[frozenset[int]]:
    """The edges that the places say there are."""
    found = set()
    rows, columns = shape.rows, shape.columns
    for at, item in enumerate(shape.order):
        row, column = divmod(at, columns)
        if column + 1 < columns or shape.wrap_columns:
            found.add(frozenset({item, shape.order[row * columns + (column + 1) % columns]}))
        if row + 1 < rows or shape.wrap_rows:
            found.add(frozenset({item, shape.order[(row + 1) % rows * columns + column]}))
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.integers(3, 9), st.booleans(), st.booleans(), st.integers(0, 2**16))
def test_every_grid_is_found_with_places_that_have_exactly_its_edges(
    rows: int, columns: int, wrap_rows: bool, wrap_columns: bool, seed: int
) -> None:
    graph = renumbered(grid(rows, columns, wrap_rows, wrap_columns), seed)
    shape = shape_of(graph)
    assert shape.kind == "grid"
    assert {shape.rows, shape.columns} == {rows, columns}
    assert sorted(shape.order) == list(range(rows * columns))
    assert edges_of(shape) == {frozenset({a, b}) for a, near in enumerate(graph) for b in near}
    assert shape_of(graph) == shape


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 8), st.integers(4, 8), st.booleans(), st.data())
def test_a_grid_with_one_edge_moved_is_none(rows: int, columns: int, wrap: bool, data: st.DataObject) -> None:
    graph = grid(rows, columns, wrap, wrap)
    a = data.draw(st.integers(0, rows * columns - 1))
    b = data.draw(st.sampled_from(sorted(graph[a])))
    c = data.draw(st.sampled_from(sorted(set(range(rows * columns)) - graph[a] - {a})))
    graph[a] = graph[a] - {b} | {c}
    graph[b] = graph[b] - {a}
    graph[c] = graph[c] | {a}
    shape = shape_of(graph)
    if shape.kind == "grid":  # by chance another one: then its edges are those, too
        assert edges_of(shape) == {frozenset({p, q}) for p, near in enumerate(graph) for q in near}
    else:
        assert shape.order == tuple(range(rows * columns))


@pytest.mark.parametrize(
    "size, wraps, title",
    [
        ((4, 4, 4), (True, True, True), "4 x 4 x 4 torus"),
        ((2, 3, 4), (False, False, False), "2 x 3 x 4 mesh"),
        ((2, 4, 5), (False, True, True), "2 x 4 x 5 cylinder"),
    ],
)
def test_three_dimensions(size: tuple[int, int, int], wraps: tuple[bool, bool, bool], title: str) -> None:
    places = list(product(*map(range, size)))
    number = {place: k for k, place in enumerate(places)}
    graph: Graph = [set() for _ in places]
    for place, (axis, side) in product(places, enumerate(size)):
        there = list(place)
        there[axis] += 1
        if there[axis] == side and not wraps[axis]:
            continue
        there[axis] %= side
        a, b = number[place], number[there[0], there[1], there[2]]
        graph[a].add(b)
        graph[b].add(a)
    assert shape_of(graph).title == title
    block = by_shape(range(len(places)), shape_of(graph))
    centres = {(x, y) for x, y, _ in block.places.values()}
    for (x, y), (u, v) in combinations(centres, 2):
        assert abs(x - u) >= WIDTH or abs(y - v) >= HEIGHT  # no box over another one
    assert all(WIDTH / 2 <= x <= block.width - WIDTH / 2 for x, _ in centres)
    assert all(HEIGHT / 2 <= y <= block.height - HEIGHT / 2 for _, y in centres)
    steps = (1, size[2], size[1] * size[2])
    away = {(a, b) for a, near in enumerate(graph) for b in near if abs(a - b) not in steps}
    assert away <= set(block.bent)
    graph[0].remove(other := max(graph[0]))
    graph[other].remove(0)
    assert shape_of(graph).kind == "none"


@pytest.mark.parametrize("n", [3, 4, 5, 16, 31])
def test_rings_and_lines_are_walked_along_their_edges(n: int) -> None:
    ring = renumbered([{(k - 1) % n, (k + 1) % n} for k in range(n)], n)
    shape = shape_of(ring)
    assert shape.kind == "ring"
    assert all(shape.order[k] in ring[shape.order[k - 1]] for k in range(n))
    line = renumbered([{k - 1, k + 1} & set(range(n)) for k in range(n)], n)
    shape = shape_of(line)
    assert shape.kind == "line"
    assert all(shape.order[k] in line[shape.order[k - 1]] for k in range(1, n))


def test_full_meshes_and_what_is_nothing() -> None:
    assert shape_of([{0, 1, 2, 3, 4} - {k} for k in range(5)]).title == "full mesh of 5"
    star = [{1, 2, 3, 4}, {0}, {0}, {0}, {0}]
    apart = [{1}, {0}, {3}, {2}]
    cube = [{k ^ 1, k ^ 2, k ^ 4} for k in range(8)]  # a ring of four, twice: a cylinder
    assert shape_of(star).kind == shape_of(apart).kind == "none"
    assert shape_of(cube).title == "2 x 4 cylinder"
    assert shape_of([set()]).kind == "none"
