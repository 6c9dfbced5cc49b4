"""A sweep under way: which points there are, what is known of each, and what is still to run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from time import monotonic
from typing import Any, Final

from astranb.core.errors import InputError, near
from astranb.core.interrupt import stop_code
from astranb.core.progress import bar

from .executor import Executor
from .expressions import Expression
from .points import DONE, SweepPoint, content_hash, description, model_words
from .result import INFEASIBLE, NOT_RUN, SweepResult
from .sampling import allowed, before_running, sampled
from .spec import SweepSpec, SweepStage
from .store import SweepStore

__all__ = ["RunningSweep"]

Row = dict[str, Any]

_LARGEST: Final = 16
"""Most points that a worker is given at a time: what is lost with it, or at an interrupt."""
_SHOWN_S: Final = 0.5
_OWN: Final = ("hash", "seconds")
"""Columns in which the rows of two equal points differ."""


class RunningSweep:
    """The points of a sweep, and what is known of them so far.

    Parameters
    ----------
    spec : SweepSpec
    store : SweepStore
    run : Executor
    on_result : callable, optional
        As of :meth:`Sweep.run`.
    """

    def __init__(
        self,
        spec: SweepSpec,
        store: SweepStore,
        run: Executor,
        on_result: Callable[[SweepResult], bool] | None = None,
    ) -> None:
        self.spec, self.store, self._executor, self._on_result = spec, store, run, on_result
        self.points: list[SweepPoint] = []
        self._hashes: list[list[str]] = []  # of each point, at each fidelity that it is run at
        self._stages: list[dict[str, Any]] = []
        early = before_running(spec)
        self._late = [one for one in spec.constraints if one not in early]
        self._shown_s = monotonic()
        self.stopped = False

    def search(self, stage: SweepStage) -> None:
        """Run the first stage on all points, or on those that Optuna proposes."""
        if self.spec.search.kind == "optuna":
            self._propose(stage)
            return
        self.points = sampled(self.spec)
        self._hashes = [[] for _ in self.points]
        self._run(range(len(self.points)), stage)

    def confirm(self, before: SweepStage, stage: SweepStage) -> None:
        """Run a further stage on the best points of the one before."""
        best, alike = self._kept(stage)
        old = [self.row(number) for number in best]
        self._run(best, stage)
        new = [self.row(number) for number in best]
        self._stages.append({**self._agreement(before, stage, old, new), "alike": alike})

    def result(self) -> SweepResult:
        """Return what has been found so far."""
        rows = [self.row(number) for number in range(len(self.points))]
        return SweepResult(
            self.spec, list(self.points), rows, list(self._stages), self.stopped, stop_code() or 0
        )

    def row(self, number: int) -> Row:
        """Return the row of a point: its axes, what is known at its last fidelity, and its objectives."""
        point = self.points[number]
        known = next(
            (self.store.rows[one] for one in reversed(self._hashes[number]) if one in self.store.rows), None
        )
        if known is None:
            return {**point.axes, "status": NOT_RUN}
        return self._row(point, known)

    def _row(self, point: SweepPoint, known: Mapping[str, Any]) -> Row:
        row = {**point.axes, **{name: value for name, value in known.items() if name not in point.axes}}
        if row["status"] == DONE:
            values = {**point.words, **row}
            for one in (*self._late, *(goal.figure for goal in self.spec.objectives)):
                self._check(one, values)
            if not allowed(values, self._late):
                row["status"] = INFEASIBLE
            for goal in self.spec.objectives:
                row.setdefault(goal.name, goal.of(values))
        return row

    def _check(self, one: Expression, values: Mapping[str, Any]) -> None:
        """Check that points have what a constraint or objective names."""
        sets = {name for axis in self.spec.axes for name in axis.sets}
        for name in one.names - values.keys() - sets:
            what = f"no figure and no option is called {name!r}"
            raise InputError(what, where=one.text, hint=near(name, values))

    def _run(self, numbers: Sequence[int], stage: SweepStage) -> None:
        """Run points at a fidelity; those that are known already are not run again."""
        missing: dict[str, dict[str, Any]] = {}
        for number in numbers:
            words = self.points[number].at(stage.fidelity)
            digest = content_hash(words)
            self._hashes[number].append(digest)
            if digest not in self.store.rows:
                missing[digest] = words
        # Neighbours share what they have in common.
        tasks = sorted(missing.items(), key=lambda task: model_words(task[1]))
        size = min(_LARGEST, max(1, math.ceil(len(missing) / (8 * self._executor.at_once))))
        with self._bar(len(missing), stage.fidelity or "runs") as shown:
            for rows in self._executor.run(tasks, size):
                self.store.add(rows)
                shown.update(len(rows))
                if not self._go_on():
                    break

    def _bar(self, total: int, what: str) -> Any:
        """Return a progress bar; who is given results shows them in another way."""
        quiet = self._on_result is not None
        return bar(total, what=f"{self.spec.name}: {what}", unit=" points", quiet=quiet)

    def _go_on(self) -> bool:
        """Show what has been found, now and then; return whether to go on."""
        if stop_code() is not None:  # what was interrupted has answered with an error of its own
            self.stopped = True
            return False
        if self._on_result is None or monotonic() - self._shown_s < _SHOWN_S:
            return True
        self.stopped = not self._on_result(self.result())
        self._shown_s = monotonic()
        return not self.stopped

    def _propose(self, stage: SweepStage) -> None:
        """Run the points that Optuna proposes, several at a time."""
        from .tuning import Tuning

        tuning = Tuning(self.spec, self._executor.at_once)
        by_hash: dict[str, SweepPoint] = {}

        def tasks() -> Iterator[tuple[str, dict[str, Any]]]:
            for point in tuning.points():
                words = point.at(stage.fidelity)
                digest = content_hash(words)
                self.points.append(point)
                self._hashes.append([digest])
                if digest in self.store.rows:
                    shown.update(1)
                    tuning.tell(point, self._row(point, self.store.rows[digest]))
                else:
                    by_hash[digest] = point
                    yield digest, words

        with self._bar(self.spec.search.count, "optuna") as shown:
            for rows in self._executor.run(tasks(), 1):
                self.store.add(rows)
                shown.update(len(rows))
                for row in rows:
                    point = by_hash[row["hash"]]
                    tuning.tell(point, self._row(point, row))
                if not self._go_on():
                    break

    def _figures(self, number: int) -> str:
        """Return all figures of a point, as text."""
        axes = self.points[number].axes
        return repr(sorted((k, v) for k, v in self.row(number).items() if k not in {*axes, *_OWN}))

    def _kept(self, stage: SweepStage) -> tuple[list[int], int]:
        """Return the best points, and how many were left out because a better one describes the same.

        The Pareto front comes first, then points by the first objective.
        """
        at_last = max(map(len, self._hashes))
        found = self.result()
        eligible = {number for number, hashes in enumerate(self._hashes) if len(hashes) == at_last}
        front = found.pareto() if len(self.spec.objectives) > 1 else []
        ordered = dict.fromkeys([*front, *found.best(len(self.points))])
        kept: list[int] = []
        alike = 0
        by_figures: dict[str, list[int]] = {}  # only points that agree in them may describe the same
        describe = cache(lambda number: description(self.points[number].at(stage.fidelity)))
        for number in ordered:
            if len(kept) == stage.keep:
                break
            if number in eligible:
                others = by_figures.setdefault(self._figures(number), [])
                if any(describe(number) == describe(other) for other in others):
                    alike += 1
                    continue
                others.append(number)
                kept.append(number)
        return kept, alike

    def _agreement(
        self, before: SweepStage, now: SweepStage, old: Sequence[Row], new: Sequence[Row]
    ) -> dict[str, Any]:
        """Compare a fidelity with the one before, by the first objective."""
        import pandas as pd

        goal = self.spec.objectives[0]
        pairs = [
            (goal.of(one), goal.of(two))
            for one, two in zip(old, new, strict=True)
            if two["status"] == DONE and two.get("hash") != one.get("hash") and not math.isnan(goal.of(two))
        ]
        first, second = (pd.Series([pair[at] for pair in pairs], dtype=float) for at in (0, 1))
        ratio = second / first
        correlation = first.rank().corr(second.rank()) if len(pairs) > 1 else math.nan
        return {
            "fidelity": now.fidelity,
            "before": before.fidelity,
            "objective": goal.name,
            "points": len(pairs),
            "rank_correlation": float(correlation),
            "worst_ratio": float(max(ratio.max(), (1 / ratio).max())) if pairs else math.nan,
        }
