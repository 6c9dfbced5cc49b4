"""Sensitivity of a figure to the axes of a sweep, from the points that it has."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from astranb.core.extras import needs_extra

from .columns import AxisColumn, FigureColumn

__all__ = ["AxisEffect", "axis_effects", "with_distances"]

_LEAST_POINTS: Final = 50
_MOST_POINTS: Final = 1000
_SLICES: Final = 512
_SEED: Final = 1
_BY_CHANCE: Final = float(np.sqrt(np.pi / 2) * np.log(2))
"""Mean of the largest value of a Brownian bridge, which the difference of two distributions tends to."""


@dataclass(frozen=True)
class AxisEffect:
    """Share of a figure's variation that an axis explains.

    Attributes
    ----------
    axis : str
    share : float
        Eta squared: the variance of the means by value, as a part of the whole variance. It is the
        first-order sensitivity index of the sample; what axes do together is in none of them.
    values : int
        How many values of the axis have points.
    least, most : str
        The values with the smallest and the largest mean.
    least_mean, most_mean : float
    distance : float
        How far the figure's distribution moves where the axis has one of its values: the largest difference
        of the two cumulative distributions (0 to 1), the mean over the values. It is PAWN's (Pianosi and
        Wagener 2018, doi 10.1016/j.envsoft.2018.07.019). NaN with few points.
    chance : float
        What it would be by chance, for an axis without effect.
    """

    axis: str
    share: float
    values: int
    least: str
    most: str
    least_mean: float
    most_mean: float
    distance: float = math.nan
    chance: float = math.nan


def axis_effects(
    axes: Sequence[AxisColumn], figure: FigureColumn, use: npt.NDArray[np.bool_]
) -> list[AxisEffect]:
    """Return how much of a figure's variation each axis explains by itself, the largest first.

    Parameters
    ----------
    axes : sequence of AxisColumn
        Those with one value are left out.
    figure : FigureColumn
    use : array of bool
        Which points count.

    Examples
    --------
    >>> a = AxisColumn("a", ["1", "2"], True, np.array([0, 0, 1, 1]))
    >>> b = AxisColumn("b", ["x", "y"], False, np.array([0, 1, 0, 1]))
    >>> figure = FigureColumn("time_ps", "ps", "min", np.array([0.0, 1.0, 3.0, 4.0]))
    >>> [(effect.axis, effect.share) for effect in axis_effects([b, a], figure, np.ones(4, bool))]
    [('a', 0.9), ('b', 0.1)]
    """
    found = []
    for axis in axes:
        points = _points(axis, figure, use)
        codes, values = axis.codes[points], figure.values[points]
        if len(np.unique(codes)) < 2:
            continue
        count = np.bincount(codes, minlength=len(axis.labels))
        with np.errstate(invalid="ignore"):
            means = np.bincount(codes, values, minlength=len(axis.labels)) / count
        whole = values.var()
        between = float(np.nansum(count * (means - values.mean()) ** 2)) / len(values)
        least, most = int(np.nanargmin(means)), int(np.nanargmax(means))
        found.append(
            AxisEffect(
                axis.name,
                min(1.0, between / float(whole)) if whole > 0 else 0.0,
                int((count > 0).sum()),
                axis.labels[least],
                axis.labels[most],
                float(means[least]),
                float(means[most]),
            )
        )
    return sorted(found, key=lambda effect: -effect.share)


def with_distances(
    effects: Sequence[AxisEffect],
    axes: Sequence[AxisColumn],
    figure: FigureColumn,
    use: npt.NDArray[np.bool_],
) -> list[AxisEffect]:
    """Return the same with the distance between distributions (PAWN, by SALib), of enough points.

    At most 1,000 points are used, a random choice.
    """
    by_name = {axis.name: axis for axis in axes}
    found = []
    for effect in effects:
        points = _points(by_name[effect.axis], figure, use)
        if len(points) > _MOST_POINTS:  # every n-th would leave values of a grid out
            points = np.random.default_rng(_SEED).choice(points, _MOST_POINTS, replace=False)
        if len(points) < _LEAST_POINTS:
            found.append(effect)
            continue
        codes = by_name[effect.axis].codes[points]
        count = np.bincount(codes)
        count = count[count > 0]
        chance = _BY_CHANCE * np.sqrt(1 / count - 1 / len(points))
        distance = _distance(codes, figure.values[points])
        found.append(replace(effect, distance=distance, chance=float(chance.mean())))
    return found


def _points(axis: AxisColumn, figure: FigureColumn, use: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    return np.flatnonzero(use & np.isfinite(figure.values) & (axis.codes >= 0))


def _distance(codes: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> float:
    """Return the mean distance, over the values of an axis."""
    with needs_extra("sensitivity"):
        from SALib.analyze import pawn

    problem = {"num_vars": 1, "names": ["axis"], "bounds": [[0, 1]]}
    # It cuts at quantiles, from one up to below the next: of many only those that change the value select
    # points, all of one value. The largest one is never selected: a point is added above.
    given = np.append(codes, codes.max() + 1)[:, None].astype(np.float64)
    with warnings.catch_warnings(record=True):  # about p-values, which are not used
        found = pawn.analyze(problem, given, np.append(values, np.median(values)), S=_SLICES)
    return float(found["mean"][0])
