"""Sizes and durations of the nodes of one architecture, given what the workload is a step of."""

from __future__ import annotations

from typing import Final

import numpy as np

__all__ = ["SizeModel"]

_RIDGE: Final = 1e-4  # of standardised conditions: holds what few workloads do not determine
_LEAST: Final = 0.01  # least relative spread: a corpus of exact sizes gives none back
_BANDWIDTH: Final = 0.25  # of the kernel around a residual, in standard deviations
_FARTHEST: Final = 1.0  # how far beyond the corpus a logarithm may go; more is an error of the fit


class SizeModel:
    """The joint distribution of many logarithms under conditions.

    A ridge regression gives their means. What it leaves is drawn as a whole from one workload of the
    corpus and spread by a kernel, so that quantities keep their marginal distributions and how they
    go together.

    Parameters
    ----------
    conditions : array of float, shape (workloads, conditions)
    values : array of float, shape (workloads, quantities)
    reluctance : array of float, optional
        How much harder each condition is believed than others: what several conditions could explain is
        explained by those with little.

    Examples
    --------
    >>> x = np.log([[1.0], [2.0], [4.0], [8.0]])
    >>> made = SizeModel(x, 2 * x + 1).drawn(np.log([16.0]), np.random.default_rng(0))
    >>> bool(abs(made[0] - (2 * np.log(16) + 1)) < 0.1)
    True
    """

    def __init__(
        self, conditions: np.ndarray, values: np.ndarray, reluctance: np.ndarray | None = None
    ) -> None:
        self._centre = conditions.mean(axis=0)
        spread = conditions.std(axis=0)
        self._known = spread > 1e-9
        self._scale = np.where(self._known, spread, 1.0)
        x = self._standard(conditions)
        self._mean = values.mean(axis=0)
        penalty = _RIDGE * len(x) * np.diag(np.ones(x.shape[1]) if reluctance is None else reluctance)
        self._slope = np.linalg.solve(x.T @ x + penalty, x.T @ (values - self._mean))
        self._left = values - self._mean - x @ self._slope
        self._low, self._high = values.min(axis=0) - _FARTHEST, values.max(axis=0) + _FARTHEST
        self._within = (conditions.min(axis=0), conditions.max(axis=0))

    def _standard(self, conditions: np.ndarray) -> np.ndarray:
        return np.where(self._known, (conditions - self._centre) / self._scale, 0.0)

    def drawn(self, condition: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Draw all quantities of one workload."""
        mean = self._mean + self._standard(condition) @ self._slope
        inside = bool(((condition >= self._within[0]) & (condition <= self._within[1])).all())
        if inside:  # an architecture of few workloads can be fitted to nonsense between them
            mean = np.clip(mean, self._low, self._high)
        left = self._left[random.integers(len(self._left))]
        spread = np.maximum(_BANDWIDTH * self._left.std(axis=0), _LEAST)
        return np.asarray(mean + left + spread * random.standard_normal(len(mean)))
