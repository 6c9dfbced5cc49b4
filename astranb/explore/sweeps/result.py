"""Result of a sweep: a row for each point, the best of them, and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from astranb.core.data_frames import frame
from astranb.core.display import Displayed
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.text_table import aligned
from astranb.engine import FIDELITIES

from .columns import axis_columns, figure_columns, figure_text, unit_of, written_value
from .expressions import number_of
from .limits import command_of, shares_of
from .points import DONE, ESTIMATE, FAILED, SweepPoint, simulation_of_words
from .sampling import allowed
from .sensitivity import AxisEffect, axis_effects, with_distances
from .spec import Objective, SweepSpec

if TYPE_CHECKING:
    import pandas as pd

    from astranb.sim import Simulation

__all__ = ["INFEASIBLE", "NOT_RUN", "SweepResult", "pareto_rows", "stage_text"]

NOT_RUN = "not run"
"""The status of a point that a sweep has not reached."""
INFEASIBLE = "infeasible"
"""The status of a point that ran, and does not satisfy a constraint."""
_MOST_REASONS: Final = 20


@dataclass(frozen=True)
class SweepResult(Displayed):
    """Result of a sweep.

    Attributes
    ----------
    spec : SweepSpec
    points : list of SweepPoint
    rows : list of dict
        One for each point, at the last fidelity at which it was run.
    stages : list of dict
        For each fidelity but the first: how far it was from the one before, for the points that were kept,
        and how many points were left out because a better one describes the same (``alike``).
    stopped : bool
        Whether the sweep was stopped before its end.
    stop_code : int
        The exit code that the stop asks for.
    """

    spec: SweepSpec
    points: list[SweepPoint]
    rows: list[dict[str, Any]]
    stages: list[dict[str, Any]]
    stopped: bool = False
    stop_code: int = 0

    def to_dataframe(self, *, time: str | None = None) -> pd.DataFrame:
        """Return a row for each point: its axes, status, figures and objectives; units are in the names.

        Parameters
        ----------
        time : str, optional
            Unit of all times: ``ps`` (by default), ``ns``, ``us``, ``ms`` or ``s``.
        """
        return frame(self.rows, time)

    def fidelities(self) -> list[str]:
        """Return the fidelities of the points that may be best, the last stage first."""
        stages = [stage.fidelity for stage in self.spec.stages]
        order = stages if len(stages) > 1 else (ESTIMATE, *FIDELITIES)
        found = {self._fidelity(number) for number in self._all_ended()}
        return sorted(found, key=lambda one: -order.index(one) if one in order else 1)

    def _fidelity(self, number: int) -> str:
        return str(self.rows[number].get("fidelity", ""))

    def _all_ended(self) -> list[int]:
        """The points that ended and satisfy all constraints, and have all objectives."""
        return [
            number
            for number, row in enumerate(self.rows)
            if row["status"] == DONE
            and not any(math.isnan(objective.of(row)) for objective in self.spec.objectives)
        ]

    def _ended(self, fidelity: str | None = None) -> list[int]:
        """Those at one fidelity, by default the last: figures of two fidelities cannot be compared."""
        last = next(iter(self.fidelities()), "") if fidelity is None else fidelity
        return [number for number in self._all_ended() if self._fidelity(number) == last]

    def comparable(self) -> npt.NDArray[np.bool_]:
        """Return of each point whether it ran at the fidelity of the last stage that any has reached.

        Without stages all points are: a fidelity is an axis as any other.
        """
        last = next(iter(self.fidelities()), "")
        staged = len(self.spec.stages) > 1
        return np.array(
            [not staged or self._fidelity(number) == last for number in range(len(self.rows))], np.bool_
        )

    def best(self, count: int = 1, objective: str | None = None, fidelity: str | None = None) -> list[int]:
        """Return the best points by one objective: their numbers, the best first.

        Parameters
        ----------
        count : int
        objective : str, optional
            Default: the first one.
        fidelity : str, optional
            The fidelity of the points. Default: the last one of :meth:`fidelities`, of those of the last
            stage that any point has reached.
        """
        goal = self._objective(objective)
        ended = self._ended(fidelity)
        return sorted(ended, key=lambda number: goal.sign * goal.of(self.rows[number]))[:count]

    def _objective(self, name: str | None) -> Objective:
        known = {one.name: one for one in self.spec.objectives}
        if name is not None and name not in known:
            raise InputError(f"no objective {name!r}", where="best", hint=f"take {' or '.join(known)}")
        return self.spec.objectives[0] if name is None else known[name]

    def pareto(self, *objectives: str) -> list[int]:
        """Return the points that no other one of their fidelity beats in all objectives, by the first one.

        As for :meth:`best`, the fidelity is the last one.

        Parameters
        ----------
        *objectives : str
            Some of them; where not given, all.
        """
        ended = self._ended()
        goals = [self._objective(name) for name in objectives] or self.spec.objectives
        values = [[goal.sign * goal.of(self.rows[number]) for goal in goals] for number in ended]
        return [ended[at] for at in pareto_rows(values)]

    def simulation(self, point: int) -> Simulation:
        """Return a point's simulation for the workbench: at its start, or behind the last of its failures.

        Parameters
        ----------
        point : int
            Its number: the index of its row.
        """
        return simulation_of_words(self._words(point, "simulation"))

    def _words(self, point: int, where: str) -> dict[str, Any]:
        """Return what is given for a point, at the fidelity of its row."""
        if not 0 <= point < len(self.points):
            hint = f"take 0 to {len(self.points) - 1}"
            raise InputError(f"unknown point {point}", where=where, hint=hint)
        words = dict(self.points[point].words)
        fidelity = self.rows[point].get("fidelity", words.get("fidelity"))
        return {**words, "fidelity": "analytical" if fidelity == ESTIMATE else fidelity}

    def shares(self, point: int) -> dict[str, float]:
        """Return what limits a point: the parts of its time, as fractions, the largest first.

        Parameters
        ----------
        point : int
            Its number.
        """
        self._words(point, "shares")
        shares = shares_of(self.rows[point])
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def command(self, point: int) -> tuple[str, list[str]]:
        """Return the command line that runs a point, and what it cannot say: changes of files and paths."""
        return command_of(self._words(point, "command"))

    def sensitivity(self, objective: str | None = None, *, distance: bool = True) -> list[AxisEffect]:
        """Return how much of an objective's variation each axis explains, the largest first.

        Points that ended count, whether or not they satisfy the constraints; with stages, those that reached
        the last one. Of few points it is coarse.

        Parameters
        ----------
        objective : str, optional
            Default: the first one.
        distance : bool
            Whether the distance between distributions is computed, too (by SALib).
        """
        name = self._objective(objective).name
        figure = next(one for one in figure_columns(self.spec, self.rows) if one.name == name)
        axes = axis_columns(self.spec, [point.axes for point in self.points])
        ended = np.array([row["status"] in (DONE, INFEASIBLE) for row in self.rows], np.bool_)
        ended &= self.comparable()
        effects = axis_effects(axes, figure, ended)
        return with_distances(effects, axes, figure, ended) if distance else effects

    def progress(self) -> tuple[str, int, int]:
        """Return the fidelity that is run, how many of its points have ended, and how many it has."""
        stages, search = self.spec.stages, self.spec.search
        ended = [row for row in self.rows if row["status"] != NOT_RUN]
        total = search.count if search.kind == "optuna" else len(self.points)
        found = (stages[0].fidelity or "", len(ended), total)
        order = [stage.fidelity for stage in stages]
        for place, stage in enumerate(stages[1:], 1):
            here = sum(row.get("fidelity") in order[place:] for row in ended)
            if found[1] < found[2] or not here:
                break
            found = (stage.fidelity or "", here, min(stage.keep, len(ended)))
        return found

    def figure(self, *, dark: bool = False) -> Any:
        """Draw time over size, or over another axis of ascending numbers, with a line for each of the others.

        :func:`astranb.drawing.figures.show` shows it in a notebook, ``save`` writes it to a file.

        Parameters
        ----------
        dark : bool
            Colours for a dark background.

        Returns
        -------
        bokeh.plotting.figure

        Raises
        ------
        InputError
            No axis has several ascending numbers, or no point has ended.
        """
        from astranb.drawing.figures import latency_curve

        across = next((axis for axis in self.spec.axes if axis.ordered), None)
        if across is None:
            hint = "give an axis several numbers, as sizes=['64 KiB', '1 MiB']"
            raise InputError("no axis has several ascending numbers", where="figure", hint=hint)
        x = "size_bytes" if across.name == "size" else across.name
        columns = axis_columns(self.spec, [point.axes for point in self.points])
        table = self.to_dataframe()
        # With every other axis at its only value, the lines need no names.
        others = [one for one in columns if one.name != across.name and len(one.labels) > 1]
        table["of"] = [
            ", ".join(f"{one.name.removeprefix('params.')} {one.label(point)}" for one in others)
            or self.spec.name
            for point in range(len(self.points))
        ]
        table[x] = [number_of(row.get(across.name)) for row in self.rows]
        done = table[(table["status"] == DONE) & self.comparable()]
        if done.empty:
            raise InputError(
                "no point has ended", where="figure", hint="see the column error of to_dataframe()"
            )
        return latency_curve(done, by="of", x=x, dark=dark)

    def __str__(self) -> str:
        """As :meth:`text`."""
        return self.text()

    def counts(self) -> dict[str, int]:
        """Return how many points have each status."""
        found: dict[str, int] = {}
        for row in self.rows:
            found[row["status"]] = found.get(row["status"], 0) + 1
        return found

    def document(self) -> dict[str, Any]:
        """Return everything by name; what is not a number is left out."""
        return {
            "name": self.spec.name,
            "objectives": {one.name: "min" if one.sign > 0 else "max" for one in self.spec.objectives},
            "counts": self.counts(),
            "fidelity": next(iter(self.fidelities()), None),
            "best": self.best(10),
            "pareto": self.pareto(),
            "stages": list(map(_finite, self.stages)),
            "stopped": self.stopped,
            "reasons": self.reasons(),
            "points": list(map(_finite, self.rows)),
        }

    @property
    def failed(self) -> bool:
        """Whether points were run, and none of the last stage that was begun ended."""
        last = self.spec.stages[len(self.stages)].fidelity
        here = [row for row in self.rows if row["status"] != NOT_RUN]
        # Points that failed there have no fidelity; all others are at least at the one before.
        if self.stages:
            here = [row for row in here if row.get("fidelity", last) == last]
        return bool(here) and all(row["status"] == FAILED for row in here)

    def reasons(self) -> list[str]:
        """Return a line for each distinct reason why points failed, or which constraint they break."""
        errors: dict[str, list[int]] = {}
        for number, row in enumerate(self.rows):
            if row["status"] == FAILED:
                errors.setdefault(row["error"], []).append(number)
        lines = []
        for error, numbers in sorted(errors.items(), key=lambda item: -len(item[1])):
            more = f" and {len(numbers) - 1:,} more" if len(numbers) > 1 else ""
            lines.append(f"failed: point {numbers[0]}{more}: {error}")
        left = (
            [f"failed: {plural(len(lines) - _MOST_REASONS, 'more reason')}"]
            if len(lines) > _MOST_REASONS
            else []
        )
        return lines[:_MOST_REASONS] + left + self._not_satisfied()

    def _not_satisfied(self) -> list[str]:
        """Return how many points do not satisfy each constraint on what a run finds."""
        rows = [
            {**point.words, **row}
            for point, row in zip(self.points, self.rows, strict=True)
            if row["status"] == INFEASIBLE
        ]
        counted = [(sum(not allowed(row, [one]) for row in rows), one.text) for one in self.spec.constraints]
        return [
            f"infeasible: {plural(count, 'point does', 'points do')} not satisfy {text}"
            for count, text in counted
            if count
        ]

    def text(self, count: int = 10) -> str:
        """Write the best points, the Pareto front and how many failed."""
        counts = ", ".join(f"{number:,} {status}" for status, number in self.counts().items())
        lines = [f"{self.spec.name}: {plural(len(self.points), 'point')}: {counts}"]
        if self.stopped:
            fidelity, ended, total = self.progress()
            at = f" at {fidelity}" if fidelity else ""
            lines.append(f"stopped: {ended:,} of {total:,} points have ended{at}")
        shown = self.fidelities()
        staged = len(self.spec.stages) > 1
        for fidelity in shown[:1] if staged else shown:
            at = f" at {fidelity}" if len(shown) > 1 else ""
            best = self.best(count, fidelity=fidelity)
            lines += ["", f"best by {self.spec.objectives[0].name}{at}:", *self._table(best)]
        front = self.pareto()
        if len(self.spec.objectives) > 1 and front:
            names = " and ".join(one.name for one in self.spec.objectives)
            lines += [
                "",
                f"Pareto front of {names}: {plural(len(front), 'point')}",
                *self._table(front[:count]),
            ]
        if staged:
            lines += [
                f"{plural(len(self._ended(one)), 'more point')} ended at {one} only" for one in shown[1:]
            ]
        lines += [stage_text(one) for one in self.stages]
        return "\n".join(lines + self.reasons())

    def _table(self, numbers: Sequence[int]) -> list[str]:
        names = list(dict.fromkeys(name for axis in self.spec.axes for name in axis.sets))
        goals = [one.name for one in self.spec.objectives]
        last = ("fidelity", "limit") if len(self.spec.stages) > 1 else ("limit",)
        more = [name for name in last if any(name in self.rows[number] for number in numbers)]
        heads = ["point", *names, *goals, *more]
        cells = [
            [str(number), *(_written(name, self.rows[number].get(name)) for name in heads[1:])]
            for number in numbers
        ]
        return aligned(heads, cells, left=range(1, len(names) + 1))


def stage_text(stage: Mapping[str, Any]) -> str:
    """Describe the difference between a fidelity and the one before."""
    found = [f"{stage['fidelity']} against {stage['before']}: {plural(stage['points'], 'point')}"]
    if not math.isnan(stage["rank_correlation"]):
        found.append(f"rank correlation {stage['rank_correlation']:.2f}")
    if stage["points"]:
        found.append(f"at most {stage['worst_ratio']:.2f} times as long")
    if stage.get("alike"):
        found.append(f"{stage['alike']:,} left out that describe the same as a better one")
    return ", ".join(found)


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what JSON can say."""
    return {name: one for name, one in row.items() if not isinstance(one, float) or math.isfinite(one)}


def _written(name: str, value: Any) -> str:
    if value is None:
        return ""
    if unit := unit_of(name):
        return figure_text(unit, value)
    return figure_text("", value) if isinstance(value, float) else written_value(value)


def pareto_rows(values: Sequence[Sequence[float]]) -> list[int]:
    """Return the rows that no other row beats: none is as small in all columns and smaller in one.

    Examples
    --------
    >>> pareto_rows([(1, 5), (2, 2), (3, 3), (2, 2), (4, 1)])
    [0, 1, 3, 4]
    """
    if not values:
        return []
    table = np.array(values, np.float64)
    order = np.lexsort(table.T[::-1])
    front: list[int] = []
    for number in order.tolist():
        if front:
            others = table[front]
            if ((others <= table[number]).all(axis=1) & (others < table[number]).any(axis=1)).any():
                continue
        front.append(number)
    return front
