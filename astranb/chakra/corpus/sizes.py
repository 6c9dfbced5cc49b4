"""Sizes and durations of workloads, given what they are a step of."""

from __future__ import annotations

from typing import Final

import numpy as np

from .outline import SIZES

__all__ = ["SizeModel", "quantities", "sizes_of"]

_WORK, _TOOK = SIZES.index("num_ops"), SIZES.index("duration_ns")
_RIDGE: Final = 1e-4  # of standardised conditions: holds what few workloads do not determine
_LEAST: Final = 0.01  # least relative spread: a corpus of exact sizes gives none back
_BANDWIDTH: Final = 0.25  # of the kernel around a residual, in standard deviations
_FARTHEST: Final = 1.0  # how far beyond the corpus a logarithm may go; more is an error of the fit
_FEW: Final = 6  # workloads: the neighbours of fewer say nothing
_LENGTHS: Final = (0.3, 1.0, 3.0, 10.0)  # of a neighbourhood, in standard deviations of a condition
_TOGETHER: Final = 0.1  # variance of what conditions explain only together, in that of each alone
_NOISES: Final = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_MOST: Final = 200  # workloads that lengths are chosen with


class SizeModel:
    """The joint distribution of many logarithms under conditions.

    A ridge regression gives their trend. What it leaves is a Gaussian process with one kernel for all
    quantities: near workloads of the corpus it follows them, far from them it knows nothing. What is
    left then is drawn as a whole from one workload of the corpus, wider where less is known, and spread
    by a kernel, so that quantities keep their marginal distributions and how they go together.

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
        self._at = x = self._standard(conditions)
        self._mean = values.mean(axis=0)
        penalty = _RIDGE * len(x) * np.diag(np.ones(x.shape[1]) if reluctance is None else reluctance)
        self._slope = np.linalg.solve(x.T @ x + penalty, x.T @ (values - self._mean))
        self._left = values - self._mean - x @ self._slope
        self._low, self._high = values.min(axis=0) - _FARTHEST, values.max(axis=0) + _FARTHEST
        self._within = (conditions.min(axis=0), conditions.max(axis=0))
        self._weights: np.ndarray | None = None
        if len(x) >= _FEW:
            self._learn_neighbours()

    def _learn_neighbours(self) -> None:
        """Fit the process to what is left, with the lengths and noise that foretell each workload best."""
        some = slice(None, None, -(-len(self._at) // _MOST))
        x, left = self._at[some], self._left[some]
        lengths = np.full(x.shape[1], 3.0)
        best = _left_out_error(x, left, lengths)
        for condition in 2 * np.flatnonzero(self._known).tolist():  # one after the other, twice
            for length in _LENGTHS:
                tried = lengths.copy()
                tried[condition] = length
                found = _left_out_error(x, left, tried)
                if found < best:
                    best, lengths = found, tried
        self._lengths, self._noise = lengths, best[1]
        inverse = np.linalg.inv(_near(self._at, self._at, lengths) + self._noise * np.eye(len(self._at)))
        self._inverse, self._weights = inverse, inverse @ self._left
        self._left = self._weights / np.sqrt(np.diag(inverse))[:, None]

    def _standard(self, conditions: np.ndarray) -> np.ndarray:
        return np.where(self._known, (conditions - self._centre) / self._scale, 0.0)

    def drawn(self, condition: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Draw all quantities of one workload."""
        x = self._standard(condition)
        mean, wide = self._mean + x @ self._slope, 1.0
        if self._weights is not None:
            near = _near(x[None], self._at, self._lengths)[0]
            mean = mean + near @ self._weights
            wide = float(np.sqrt(max(1 + self._noise - near @ self._inverse @ near, 0.0)))
        inside = bool(((condition >= self._within[0]) & (condition <= self._within[1])).all())
        if inside:  # an architecture of few workloads can be fitted to nonsense between them
            mean = np.clip(mean, self._low, self._high)
        left = wide * self._left[random.integers(len(self._left))]
        spread = np.maximum(_BANDWIDTH * wide * self._left.std(axis=0), _LEAST)
        return np.asarray(mean + left + spread * random.standard_normal(len(mean)))


def _near(x: np.ndarray, others: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the covariances: each condition adds its own function, and all together a smaller one."""
    alike = np.exp(-0.5 * ((x[:, None] - others) / lengths) ** 2)
    return np.asarray((alike.mean(axis=2) + _TOGETHER * alike.prod(axis=2)) / (1 + _TOGETHER))


def _left_out_error(x: np.ndarray, left: np.ndarray, lengths: np.ndarray) -> tuple[float, float]:
    """Return the least mean error for workloads left out, in their spread, and the noise that it needs."""
    found, vectors = np.linalg.eigh(_near(x, x, lengths))
    turned, weight = vectors.T @ left, 1 / np.maximum(left.std(axis=0), 1e-9)
    losses = []
    for noise in _NOISES:
        inverse = 1 / (np.maximum(found, 0) + noise)
        alone = (vectors @ (inverse[:, None] * turned)) / ((vectors**2) @ inverse)[:, None]
        losses.append((float(((alone * weight) ** 2).mean()), noise))
    return min(losses)


def quantities(sizes: np.ndarray) -> np.ndarray:
    """Return the logarithms of symbols' sizes, and of durations per operation where operations are known."""
    logs = np.log(np.maximum(sizes, 1))
    logs[:, _TOOK] -= np.where(sizes[:, _TOOK] > 0, logs[:, _WORK], 0)
    return np.asarray(logs)


def sizes_of(quantities: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return sizes of such logarithms, for the symbols that have them."""
    logs = quantities.copy()
    logs[:, _TOOK] += np.where(like[:, _TOOK] > 0, logs[:, _WORK], 0)
    return np.asarray(np.exp(np.minimum(logs, 40)))
