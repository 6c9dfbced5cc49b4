"""A search by Optuna: it is asked for points and given what they achieved, so that several run at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra

from .points import DONE, SweepPoint
from .sampling import allowed, before_running, point_at
from .spec import SweepSpec

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import Trial

__all__ = ["Tuning"]

_ASKED: Final = 100
"""Most proposals for each point that is run: those that are forbidden, or known, take no run."""


class Tuning:
    """A study of Optuna over the axes of a sweep.

    Parameters
    ----------
    spec : SweepSpec
    at_once : int
        How many points run at the same time.
    """

    def __init__(self, spec: SweepSpec, at_once: int) -> None:
        with needs_extra("search: optuna"):
            import optuna
            from optuna.samplers import NSGAIISampler, TPESampler

        self._optuna: Any = optuna
        self._spec = spec
        seed = spec.search.seed
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # several at a time is "experimental" there
                self._study: Study = optuna.create_study(
                    directions=["minimize"] * len(spec.objectives),
                    sampler=NSGAIISampler(seed=seed)
                    if spec.search.sampler == "nsga2"
                    else TPESampler(seed=seed, constant_liar=at_once > 1),
                )
        finally:
            optuna.logging.set_verbosity(before)
        self._under_way: dict[int, Trial] = {}  # by the point's identity
        self._known: dict[tuple[int, ...], Any] = {}

    def points(self) -> Iterator[SweepPoint]:
        """Yield points to run, as many as the search has; each once.

        Raises
        ------
        InputError
            The constraints allow none of the points that were proposed.
        """
        early = before_running(self._spec)
        found = 0
        for _ in range(_ASKED * self._spec.search.count):
            if found == self._spec.search.count:
                return
            trial = self._study.ask()
            indices = tuple(self._index(trial, number) for number in range(len(self._spec.axes)))
            if indices in self._known:
                self._tell(trial, self._known[indices])
                continue
            point = point_at(self._spec, indices)
            if not allowed(point.words, early):
                self._known[indices] = None
                self._tell(trial, None)
                continue
            found += 1
            self._known[indices] = None
            self._under_way[id(point)] = trial
            yield point
            if len(self._known) == self._spec.size:
                break  # the whole grid is known
        if not found:
            text = " and ".join(one.text for one in early)
            raise InputError(f"no point proposed satisfies {text}", where=self._spec.name, hint="use a grid")

    def _index(self, trial: Trial, number: int) -> int:
        axis = self._spec.axes[number]
        last = len(axis.values) - 1
        if axis.ordered:
            return int(trial.suggest_int(axis.name, 0, last))
        return int(trial.suggest_categorical(axis.name, list(range(last + 1))))

    def tell(self, point: SweepPoint, row: dict[str, Any]) -> None:
        """Report the result of a point to the study; one that failed or violates a constraint has none."""
        trial = self._under_way.pop(id(point))
        values = (
            [goal.sign * goal.of(row) for goal in self._spec.objectives] if row["status"] == DONE else None
        )
        if values is not None and any(map(math.isnan, values)):
            values = None
        indices = tuple(int(trial.params[axis.name]) for axis in self._spec.axes)
        self._known[indices] = values
        self._tell(trial, values)

    def _tell(self, trial: Trial, values: list[float] | None) -> None:
        if values is None:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(trial, values)
