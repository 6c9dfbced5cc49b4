"""How far a sweep is: another thread reads it, and may stop it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from astranb.core.progress import bar

from .points import SweepPoint
from .result import WAITING, SweepResult

if TYPE_CHECKING:
    from .spec import SweepSpec

__all__ = ["SweepProgress"]

_KNOWN_FROM: Final = 3
"""Points after which the time left is estimated."""


class SweepProgress:
    """How far a sweep is.

    One thread runs the sweep and writes; others read, and call :meth:`stop`.

    Parameters
    ----------
    quiet : bool
        Whether no progress bar is printed: something else shows it.

    Attributes
    ----------
    stage : str
        What is run.
    done, total : int
        Points of this stage.
    stopped : bool
        Whether the sweep ends before its last point.

    Examples
    --------
    >>> progress = SweepProgress(quiet=True)
    >>> progress.begin([SweepPoint({"tp": 1}, {}), SweepPoint({"tp": 2}, {})])
    >>> with progress.stage_of("analytical", 2):
    ...     progress.add({1: {"tp": 2, "status": "done", "time_ps": 5}})
    >>> progress.done, [row["status"] for row in progress.rows]
    (1, ['not run', 'done'])
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.stage = ""
        self.done = self.total = 0
        self.stopped = False
        self.points: list[SweepPoint] = []
        self.rows: list[dict[str, Any]] = []
        self.stages: list[dict[str, Any]] = []
        self.changes = 0
        self._quiet = quiet
        self._bar: Any = None
        self._began_s = 0.0
        self._ran = 0

    def begin(self, points: list[SweepPoint]) -> None:
        """Add points that will run."""
        self.points += points
        self.rows += [{**point.axes, "status": WAITING} for point in points]
        self.changes += 1

    @contextmanager
    def stage_of(self, what: str, total: int) -> Iterator[None]:
        """Run a stage of so many points, with a progress bar where one is wanted."""
        self.stage, self.done, self.total = what, 0, total
        self._began_s, self._ran = perf_counter(), 0
        try:
            if self._quiet:
                yield
            else:
                with bar(total, what=what, unit=" points") as self._bar:
                    yield
        finally:
            self._bar = None

    def add(self, rows: dict[int, dict[str, Any]], *, known: bool = False) -> None:
        """Add what has ended, by the number of its point; what was known before took no time."""
        for number, row in rows.items():
            self.rows[number] = row
        self.done += len(rows)
        self._ran += 0 if known else len(rows)
        self.changes += 1
        if self._bar is not None:
            self._bar.update(len(rows))

    @property
    def left_s(self) -> float | None:
        """How long the rest of this stage takes, as the points so far; None: not known yet."""
        if self._ran < _KNOWN_FROM:
            return None
        return (perf_counter() - self._began_s) / self._ran * (self.total - self.done)

    def stop(self) -> None:
        """End the sweep after the points that are under way; what has ended stays."""
        self.stopped = True

    def result(self, spec: SweepSpec) -> SweepResult:
        """Return what has been found so far."""
        rows = list(self.rows)  # another thread adds points before their rows
        return SweepResult(spec, self.points[: len(rows)], rows, list(self.stages))
