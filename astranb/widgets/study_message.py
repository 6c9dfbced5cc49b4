"""Messages to the view of a sweep: points as columns, fronts, heat maps, effects of axes, details."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError
from astranb.explore import SweepResult
from astranb.explore.sweeps import (
    DONE,
    FAILED,
    INFEASIBLE,
    NOT_RUN,
    AxisColumn,
    AxisEffect,
    FigureColumn,
    axis_columns,
    figure_columns,
    figure_text,
    heat_cells,
    stage_text,
    unit_of,
)

from .feed import Message, pack

__all__ = ["STATUSES", "PointDetails", "effects_of", "study_message"]

STATUSES: Final = (DONE, INFEASIBLE, FAILED, NOT_RUN)
"""By their number in the column ``status``."""
_MOST_HEAT_AXES: Final = 8
_SEED: Final = 1
_ORDINALS: Final = {1: "st", 2: "nd", 3: "rd"}


def study_message(
    result: SweepResult, effects: Mapping[str, Sequence[AxisEffect]] | None = None, *, most: int = 20_000
) -> Message:
    """Return what the view shows of a sweep.

    Parameters
    ----------
    result : SweepResult
    effects : mapping, optional
        By objective, where they are known already.
    most : int
        Most points in it; of more, a random choice, and all of the Pareto front.
    """
    axes = axis_columns(result.spec, [point.axes for point in result.points])
    figures = figure_columns(result.spec, result.rows)
    status = np.array([STATUSES.index(row["status"]) for row in result.rows], np.int64)
    shown = _shown(result, most)
    fronts = _fronts(result, figures)
    cells = _heats(axes, figures, (status == STATUSES.index(DONE)) & result.comparable())
    known: dict[str, int] = {"": 0}
    errors = [known.setdefault(row.get("error", ""), len(known)) for row in result.rows]
    meta = {
        "type": "study",
        "name": result.spec.name,
        "points": len(result.rows),
        "axes": [{"name": one.name, "labels": one.labels, "ordered": one.ordered} for one in axes],
        "figures": [{"name": one.name, "unit": one.unit, "goal": one.goal} for one in figures],
        "statuses": STATUSES,
        "counts": result.counts(),
        "best": result.best(1),
        "errors": list(known),
        "fronts": [place for place, _ in fronts],
        "heats": [place for place, _ in cells],
        "effects": [_effects(result, goal.name, effects) for goal in result.spec.objectives],
        "stages": [stage_text(one) for one in result.stages],
    }
    joined = {
        name: np.concatenate([np.zeros(0), *(one[name] for _, one in cells)])
        for name in ("cell_x", "cell_y", "cell_best", "cell_mean", "cell_point", "cell_count")
    }
    return meta, pack(
        "study",
        number=shown,
        status=status[shown],
        error=np.array(errors, np.int64)[shown],
        code=np.concatenate([np.zeros(0), *(one.codes[shown] for one in axes)]),
        value=np.concatenate([np.zeros(0), *(one.values[shown] for one in figures)]),
        front=[number for _, numbers in fronts for number in numbers],
        **joined,
    )


def _shown(result: SweepResult, most: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the numbers of the points in a message, ascending."""
    count = len(result.rows)
    if count <= most:
        return np.arange(count)
    # Every n-th would leave values of a grid's axes out.
    some = np.random.default_rng(_SEED).choice(count, most, replace=False)
    return np.union1d(some, np.array(result.pareto(), np.int64))


def _fronts(result: SweepResult, figures: Sequence[FigureColumn]) -> list[tuple[list[int], list[int]]]:
    """Return for each two objectives their columns, where the front is, and its points."""
    goals = [place for place, figure in enumerate(figures) if figure.goal]
    found, start = [], 0
    for one, other in combinations(goals, 2):
        numbers = result.pareto(figures[one].name, figures[other].name)
        found.append(([one, other, start, len(numbers)], numbers))
        start += len(numbers)
    return found


def _heats(
    axes: Sequence[AxisColumn], figures: Sequence[FigureColumn], use: np.ndarray[Any, np.dtype[np.bool_]]
) -> list[tuple[list[int], dict[str, Any]]]:
    """Return for each two axes and each objective where the cells are, and the cells."""
    goals = [place for place, figure in enumerate(figures) if figure.goal]
    varied = [place for place, axis in enumerate(axes) if len(axis.labels) > 1][:_MOST_HEAT_AXES]
    found, start = [], 0
    for x, y in combinations(varied, 2):
        for goal in goals:
            cells = heat_cells(axes[x], axes[y], figures[goal], use)
            columns = {f"cell_{name}": values for name, values in vars(cells).items()}
            found.append(([x, y, goal, start, len(cells.x)], columns))
            start += len(cells.x)
    return found


def _effects(
    result: SweepResult, objective: str, known: Mapping[str, Sequence[AxisEffect]] | None
) -> dict[str, Any]:
    """Return the effects of axes on an objective, and what one should know of them."""
    effects = (known or {}).get(objective)
    if effects is None:
        effects = result.sensitivity(objective, distance=False)
    points = sum(row["status"] in (DONE, INFEASIBLE) for row in result.rows)
    cells = max((effect.values for effect in effects), default=1)
    unit = unit_of(objective)
    rows = [
        {
            "axis": one.axis,
            "share": one.share,
            "least": f"{one.least}: {figure_text(unit, one.least_mean)}",
            "most": f"{one.most}: {figure_text(unit, one.most_mean)}",
            "distance": None if np.isnan(one.distance) else one.distance,
            "chance": None if np.isnan(one.chance) else one.chance,
        }
        for one in effects
    ]
    return {"objective": objective, "points": points, "coarse": points < 10 * cells, "rows": rows}


def effects_of(result: SweepResult) -> dict[str, list[AxisEffect]]:
    """Return the effects of axes on each objective; distances only where SALib is installed."""
    found = {}
    for goal in result.spec.objectives:
        try:
            found[goal.name] = result.sensitivity(goal.name)
        except InputError:
            found[goal.name] = result.sensitivity(goal.name, distance=False)
    return found


class PointDetails:
    """Details of single points: values, rank among all, limits, and command line.

    Parameters
    ----------
    result : SweepResult
    """

    def __init__(self, result: SweepResult) -> None:
        self._result = result
        self._axes = axis_columns(result.spec, [point.axes for point in result.points])
        ended = [row for row in result.rows if row["status"] == DONE]
        self._sorted = {
            goal.name: sorted(goal.sign * row[goal.name] for row in ended if goal.name in row)
            for goal in result.spec.objectives
        }

    def of(self, point: int) -> dict[str, Any]:
        """Return the message about a point, by its number."""
        result, row = self._result, self._result.rows[point]
        command, rest = result.command(point)
        return {
            "type": "detail",
            "point": point,
            "status": row["status"],
            "error": row.get("error", ""),
            "axes": [[axis.name, axis.label(point)] for axis in self._axes],
            "figures": self._figures(row),
            "fidelity": str(row.get("fidelity", "")),
            "limit": str(row.get("limited_by", row.get("limit", ""))),
            "shares": list(result.shares(point).items()),
            "command": command,
            "rest": rest,
        }

    def _figures(self, row: Mapping[str, Any]) -> list[list[str]]:
        """Return the objectives, each with its place among the points that ended; then memory."""
        found = []
        for goal in self._result.spec.objectives:
            value = row.get(goal.name)
            if value is None:
                continue
            text, place = figure_text(unit_of(goal.name), float(value)), ""
            if row["status"] == DONE:
                known = self._sorted[goal.name]
                place = f"{_ordinal(bisect_left(known, goal.sign * value) + 1)} of {len(known):,}"
            found.append([goal.name, text, place])
        if "memory_bytes" in row and "memory_bytes" not in self._sorted:
            found.append(["memory_bytes", figure_text("bytes", float(row["memory_bytes"])), ""])
        return found


def _ordinal(n: int) -> str:
    return f"{n:,}{'th' if n % 100 in (11, 12, 13) else _ORDINALS.get(n % 10, 'th')}"
