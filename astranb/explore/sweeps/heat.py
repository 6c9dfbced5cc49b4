"""A heat map of a sweep: what an objective is for two axes, over all values of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from astranb.core.arrays import reduce_at

from .columns import AxisColumn, FigureColumn

__all__ = ["HeatCells", "heat_cells"]


@dataclass(frozen=True)
class HeatCells:
    """The cells of a heat map that have points, row by row.

    Attributes
    ----------
    x, y : array of int
        Places of the two axes' values.
    best, mean : array of float
        Of the objective, over the points of a cell.
    point : array of int
        The best one.
    count : array of int
        How many points a cell has.
    """

    x: npt.NDArray[np.int64]
    y: npt.NDArray[np.int64]
    best: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]
    point: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]


def heat_cells(x: AxisColumn, y: AxisColumn, figure: FigureColumn, use: npt.NDArray[np.bool_]) -> HeatCells:
    """Return the cells of two axes.

    Parameters
    ----------
    x, y : AxisColumn
    figure : FigureColumn
        Small values are the best, unless its goal is ``"max"``.
    use : array of bool
        Which points count: those that ended and satisfy the constraints.

    Examples
    --------
    >>> x = AxisColumn("tp", ["1", "2"], True, np.array([0, 0, 1]))
    >>> y = AxisColumn("algorithm", ["ring"], False, np.array([0, 0, 0]))
    >>> time = FigureColumn("time_ps", "ps", "min", np.array([4.0, 2.0, 5.0]))
    >>> cells = heat_cells(x, y, time, np.array([True, True, True]))
    >>> cells.best.tolist(), cells.mean.tolist(), cells.point.tolist(), cells.count.tolist()
    ([2.0, 5.0], [3.0, 5.0], [1, 2], [2, 1])
    """
    points = np.flatnonzero(use & np.isfinite(figure.values) & (x.codes >= 0) & (y.codes >= 0))
    wide = len(x.labels)
    cell = y.codes[points] * wide + x.codes[points]
    values = figure.values[points]
    order = np.lexsort((-values if figure.goal == "max" else values, cell))
    cells, first, count = np.unique(cell[order], return_index=True, return_counts=True)
    sums = reduce_at(np.add, values[order], first) if len(first) else np.zeros(0)
    return HeatCells(
        cells % wide, cells // wide, values[order][first], sums / count, points[order][first], count
    )
