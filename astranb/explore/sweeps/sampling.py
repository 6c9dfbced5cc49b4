"""Choice of points of the axes' product: all, random ones, or a Latin hypercube."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra

from .expressions import Expression
from .points import SweepPoint
from .spec import SweepSpec

__all__ = ["allowed", "before_running", "point_at", "sampled"]


def sampled(spec: SweepSpec) -> list[SweepPoint]:
    """Return the points of a grid, or those that a seed draws from it; each once, those allowed only.

    Raises
    ------
    InputError
        No point satisfies the constraints.
    """
    early = before_running(spec)
    points = []
    for indices in _indices(spec):
        point = point_at(spec, indices)
        if allowed(point.words, early):
            points.append(point)
        if spec.search.kind == "random" and len(points) == spec.search.count:
            break
    if not points:
        text = " and ".join(one.text for one in early)
        what = f"no point of {spec.size:,} satisfies {text}"
        raise InputError(what, where=spec.name, hint="loosen a constraint, or give other values")
    return points


def before_running(spec: SweepSpec) -> list[Expression]:
    """Return the constraints on what is given: they are checked before a point is run."""
    given = {*spec.run, *(name for axis in spec.axes for name in axis.sets)}
    return [one for one in spec.constraints if one.names <= given]


def allowed(values: Mapping[str, Any], constraints: Sequence[Expression]) -> bool:
    """Return whether values satisfy constraints; one on a name that the values lack is satisfied."""
    return all(not one.names <= values.keys() or one.value(values) for one in constraints)


def point_at(spec: SweepSpec, indices: Sequence[int]) -> SweepPoint:
    """Return the point with these values of the axes, by their positions."""
    axes: dict[str, Any] = {}
    for axis, index in zip(spec.axes, indices, strict=True):
        axes |= axis.words(axis.values[index])
    return SweepPoint(axes, spec.words(axes))


def _indices(spec: SweepSpec) -> Iterator[tuple[int, ...]]:
    sizes = [len(axis.values) for axis in spec.axes]
    search = spec.search
    if search.kind == "latin":
        yield from _latin(sizes, search.count, search.seed)
    elif search.kind == "random":
        yield from _random(sizes, search.seed)
    else:
        yield from itertools.product(*map(range, sizes))


def _random(sizes: Sequence[int], seed: int) -> Iterator[tuple[int, ...]]:
    """Yield all positions of the grid in a random order."""
    rng = np.random.default_rng(seed)
    size = math.prod(sizes)
    seen: set[int] = set()
    while len(seen) < size:
        # Small grids are shuffled; of large ones positions are drawn until one is new.
        drawn = rng.permutation(size) if size <= 1 << 20 else rng.integers(size, size=1024)
        for one in drawn.tolist():
            if one not in seen:
                seen.add(one)
                yield tuple(int(at) for at in np.unravel_index(one, sizes))


def _latin(sizes: Sequence[int], count: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Yield a Latin hypercube: each of ``count`` equal parts of every axis is met once."""
    with needs_extra("search: latin"):
        from scipy.stats import qmc

    sample = qmc.LatinHypercube(d=len(sizes), rng=np.random.default_rng(seed)).random(count)
    positions = np.minimum((sample * sizes).astype(np.int64), np.array(sizes) - 1)
    yield from dict.fromkeys(map(tuple, positions.tolist()))
