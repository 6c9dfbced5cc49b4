"""A sweep: its points are run, kept, and compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from astranb.core.progress import bar

from .driver import Executor, executor
from .points import DONE, SweepPoint, content_hash, model_words
from .result import INFEASIBLE, SweepResult
from .sampling import allowed, before_running, sampled
from .spec import SweepSpec, SweepStage, read_spec
from .store import SweepStore

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Sweep"]

Row = dict[str, Any]

_LARGEST: Final = 16
"""Most points that a worker is given at a time."""


class Sweep:
    """Many runs of something, along axes.

    Parameters
    ----------
    spec : SweepSpec
        As :meth:`of` reads it.

    Examples
    --------
    >>> import astranb as anb
    >>> sweep = anb.explore.Sweep.of({
    ...     "run": {"infra": "switch:gpus=4", "collective": "all_reduce", "fidelity": "analytical"},
    ...     "axes": {"size": "1 MiB..4 MiB by x2", "algorithm": ["ring", "halvingDoubling"]},
    ... })
    >>> found = sweep.run(workers=0)
    >>> found.frame()[["size", "algorithm", "status"]].shape
    (6, 3)
    >>> found.simulation(found.best()[0]).title
    'all_reduce, 1 MiB'
    """

    def __init__(self, spec: SweepSpec) -> None:
        self.spec = spec

    @classmethod
    def of(cls, what: str | Path | Mapping[str, Any]) -> Sweep:
        """Read a sweep from a file of YAML or JSON, or from what it would contain.

        Raises
        ------
        InputError
            Something in it is unknown, missing or contradictory.
        """
        return cls(read_spec(what))

    def points(self) -> list[SweepPoint]:
        """Return the points that the constraints on what is given allow."""
        return sampled(self.spec)

    def run(
        self,
        client: Client | None = None,
        folder: str | Path | None = None,
        *,
        workers: int = 2,
        scheduler: str | None = None,
        retry: bool = False,
        on_rows: Callable[[int], bool] | None = None,
    ) -> SweepResult:
        """Run the points that are not known yet.

        Parameters
        ----------
        client : distributed.Client, optional
            A Dask cluster to run them on.
        folder : str or Path, optional
            Where results are kept: a later run of this or another sweep there runs only what is missing.
        workers : int
            Processes on this machine, without a client; 0: this one alone.
        scheduler : str, optional
            The address of a Dask scheduler, instead.
        retry : bool
            Whether points of the folder that failed are run again.
        on_rows : callable, optional
            Called as points end with how many have ended so far; it returns whether to go on. Points that were
            not run then have the status ``not run``.

        Returns
        -------
        SweepResult
            Points that failed are rows of it.

        Raises
        ------
        InputError
            No point satisfies the constraints, or the results cannot be written.
        """
        store = SweepStore(folder)
        if retry:
            store.forget_failed()
        try:
            with executor(workers, client, scheduler) as run:
                points, rows = self._searched(store, run)
                agreements = self._confirmed(points, rows, store, run)
        finally:
            store.compact()
        return SweepResult(self.spec, points, rows, agreements)

    def _searched(self, store: SweepStore, run: Executor) -> tuple[list[SweepPoint], list[Row]]:
        """Run the first stage on all points, or on those that a search proposes."""
        stage = self.spec.stages[0]
        if self.spec.search.kind != "optuna":
            points = self.points()
            return points, self._run(points, store, run, stage)
        from .tuning import Tuning

        tuning = Tuning(self.spec, run.at_once)
        points = []
        by_hash: dict[str, SweepPoint] = {}

        def tasks() -> Iterator[tuple[str, dict[str, Any]]]:
            for point in tuning.points():
                words = point.at(stage.fidelity)
                digest = content_hash(words)
                points.append(point)
                if digest in store.rows:
                    shown.update(1)
                    tuning.tell(point, self._row(point, store.rows[digest]))
                else:
                    by_hash[digest] = point
                    yield digest, words

        with bar(self.spec.search.count, what=f"{self.spec.name}: optuna", unit=" points") as shown:
            for rows in run.run(tasks(), 1):
                store.add(rows)
                shown.update(len(rows))
                for row in rows:
                    point = by_hash[row["hash"]]
                    tuning.tell(point, self._row(point, row))
        known = [store.rows[content_hash(point.at(stage.fidelity))] for point in points]
        return points, [self._row(point, row) for point, row in zip(points, known, strict=True)]

    def _confirmed(
        self, points: list[SweepPoint], rows: list[Row], store: SweepStore, run: Executor
    ) -> list[dict[str, Any]]:
        """Run each further stage on the best points of the one before; their rows are replaced."""
        numbers = list(range(len(points)))
        agreements = []
        for before, stage in itertools.pairwise(self.spec.stages):
            numbers = self._kept(numbers, rows, stage)
            found = self._run([points[number] for number in numbers], store, run, stage)
            agreements.append(self._agreement(before, stage, [rows[number] for number in numbers], found))
            for number, row in zip(numbers, found, strict=True):
                rows[number] = row
        return agreements

    def _run(
        self, points: Sequence[SweepPoint], store: SweepStore, run: Executor, stage: SweepStage
    ) -> list[Row]:
        """Run points at a fidelity; those that are known already are not run again."""
        given = [point.at(stage.fidelity) for point in points]
        hashes = [content_hash(words) for words in given]
        missing = {
            digest: words for digest, words in zip(hashes, given, strict=True) if digest not in store.rows
        }
        # Neighbours share what they have in common.
        tasks = sorted(missing.items(), key=lambda task: model_words(task[1]))
        # What a worker has at a time is lost with it, or at an interrupt.
        size = min(_LARGEST, max(1, math.ceil(len(missing) / (8 * run.at_once))))
        with bar(len(missing), what=f"{self.spec.name}: {stage.fidelity or 'runs'}", unit=" points") as shown:
            for rows in run.run(tasks, size):
                store.add(rows)
                shown.update(len(rows))
        return [self._row(point, store.rows[digest]) for point, digest in zip(points, hashes, strict=True)]

    def _row(self, point: SweepPoint, known: Row) -> Row:
        """Return the row of a point: its axes, what is known of it, and its objectives."""
        row = {**point.axes, **{name: value for name, value in known.items() if name not in point.axes}}
        if row["status"] == DONE:
            values = {**point.words, **row}
            late = [one for one in self.spec.constraints if one not in before_running(self.spec)]
            if not allowed(values, late):
                row["status"] = INFEASIBLE
            for goal in self.spec.objectives:
                row.setdefault(goal.name, goal.of(values))
        return row

    def _kept(self, numbers: list[int], rows: list[Row], stage: SweepStage) -> list[int]:
        """Return the best points: the Pareto front first, then by the first objective."""
        goals = self.spec.objectives
        ended = [
            number
            for number in numbers
            if rows[number]["status"] == DONE and not any(math.isnan(goal.of(rows[number])) for goal in goals)
        ]
        whole = SweepResult(self.spec, [], [rows[number] for number in ended], [])
        front = [ended[at] for at in whole.pareto()] if len(goals) > 1 else []
        by_first = sorted(ended, key=lambda number: goals[0].sign * goals[0].of(rows[number]))
        return list(dict.fromkeys([*front, *by_first]))[: stage.keep]

    def _agreement(
        self, before: SweepStage, now: SweepStage, old: Sequence[Row], new: Sequence[Row]
    ) -> dict[str, Any]:
        """Say how far a fidelity is from the one before, by the first objective."""
        import pandas as pd

        goal = self.spec.objectives[0]
        pairs = [
            (goal.of(one), goal.of(two))
            for one, two in zip(old, new, strict=True)
            if two["status"] == DONE and not math.isnan(goal.of(two))
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
