"""Labels of the messages of a replay: the operations that they were recorded of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Label", "RecordedParts"]


@dataclass(frozen=True)
class Label:
    """Operation of the workload that nodes belong to.

    Attributes
    ----------
    name : str
        Of the operation.
    collective : str
        As ``all_reduce``; empty: a message or computation of its own.
    algorithm : str
        Of the collective, as ``ring``.
    job : str
        Of several jobs on one network.
    """

    name: str = ""
    collective: str = ""
    algorithm: str = ""
    job: str = ""


@dataclass(frozen=True, eq=False)
class RecordedParts:
    """Recorded operations that a custom collective replays: each has some of its rows, one behind the other.

    Nothing simulated depends on it.

    Attributes
    ----------
    first : ndarray of int64
        The first row of each.
    label : ndarray of int64
        And its number in ``labels``.
    kind : ndarray of int64
        What it is: a collective, a message or a computation.
    bytes : ndarray of int64
        What it sends, or what a receive gets.
    phase, chunk : ndarray of int64
        Of each row of the custom collective; -1: none.
    labels : sequence of Label
    """

    first: np.ndarray
    label: np.ndarray
    kind: np.ndarray
    bytes: np.ndarray
    phase: np.ndarray
    chunk: np.ndarray
    labels: Sequence[Label]
