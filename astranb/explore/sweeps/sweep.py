"""A sweep: its points are run, kept, and compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .driver import Executor, executor
from .points import DONE, SweepPoint, content_hash, model_words
from .progress import SweepProgress
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
    'all_reduce/ring, 1 MiB'
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
        progress: SweepProgress | None = None,
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
        progress : SweepProgress, optional
            Where another thread sees how far it is, and stops it.

        Returns
        -------
        SweepResult
            Points that failed are rows of it, and those that a stopped sweep did not reach.

        Raises
        ------
        InputError
            No point satisfies the constraints, or the results cannot be written.
        """
        store = SweepStore(folder)
        if retry:
            store.forget_failed()
        progress = progress or SweepProgress()
        try:
            with executor(workers, client, scheduler) as run:
                self._search(store, run, progress)
                self._confirm(store, run, progress)
        finally:
            store.compact()
        return progress.result(self.spec)

    def _search(self, store: SweepStore, run: Executor, progress: SweepProgress) -> None:
        """Run the first stage on all points, or on those that a search proposes."""
        stage = self.spec.stages[0]
        if self.spec.search.kind != "optuna":
            points = self.points()
            progress.begin(points)
            self._run(range(len(points)), store, run, stage, progress)
            return
        from .tuning import Tuning

        tuning = Tuning(self.spec, run.at_once)
        by_hash: dict[str, int] = {}

        def ended(number: int, known: Row, *, before: bool = False) -> None:
            row = self._row(progress.points[number], known)
            tuning.tell(progress.points[number], row)
            progress.add({number: row}, known=before)

        def tasks() -> Iterator[tuple[str, dict[str, Any]]]:
            for point in tuning.points():
                words = point.at(stage.fidelity)
                digest = content_hash(words)
                progress.begin([point])
                number = len(progress.points) - 1
                if digest in store.rows:
                    ended(number, store.rows[digest], before=True)
                else:
                    by_hash[digest] = number
                    yield digest, words

        with progress.stage_of(f"{self.spec.name}: optuna", self.spec.search.count):
            for rows in run.run(tasks(), 1):
                store.add(rows)
                for row in rows:
                    ended(by_hash[row["hash"]], row)
                if progress.stopped:
                    return

    def _confirm(self, store: SweepStore, run: Executor, progress: SweepProgress) -> None:
        """Run each further stage on the best points of the one before; their rows are replaced."""
        numbers = list(range(len(progress.points)))
        for before, stage in itertools.pairwise(self.spec.stages):
            if progress.stopped:
                return
            numbers = self._kept(numbers, progress.rows, stage)
            old = [progress.rows[number] for number in numbers]
            self._run(numbers, store, run, stage, progress)
            if not progress.stopped:
                new = [progress.rows[number] for number in numbers]
                progress.stages.append(self._agreement(before, stage, old, new))

    def _run(
        self,
        numbers: Sequence[int],
        store: SweepStore,
        run: Executor,
        stage: SweepStage,
        progress: SweepProgress,
    ) -> None:
        """Run points at a fidelity; those that are known already are not run again."""
        points = progress.points
        given = {number: points[number].at(stage.fidelity) for number in numbers}
        by_hash: dict[str, list[int]] = {}
        for number, words in given.items():
            by_hash.setdefault(content_hash(words), []).append(number)

        def rows_of(known: Sequence[Row]) -> dict[int, Row]:
            """Return the rows of the points that have these hashes."""
            return {
                number: self._row(points[number], row) for row in known for number in by_hash[row["hash"]]
            }

        missing = {digest: given[alike[0]] for digest, alike in by_hash.items() if digest not in store.rows}
        # Neighbours share what they have in common.
        tasks = sorted(missing.items(), key=lambda task: model_words(task[1]))
        # What a worker has at a time is lost with it, or at an interrupt.
        size = min(_LARGEST, max(1, math.ceil(len(missing) / (8 * run.at_once))))
        with progress.stage_of(f"{self.spec.name}: {stage.fidelity or 'runs'}", len(given)):
            progress.add(
                rows_of([store.rows[digest] for digest in by_hash if digest not in missing]), known=True
            )
            for rows in run.run(tasks, size):
                store.add(rows)
                progress.add(rows_of(rows))
                if progress.stopped:
                    return

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
