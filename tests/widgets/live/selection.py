"""Which of a test's many runs are always made; the others are made with the slow tests."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

__all__ = ["mostly_slow"]


def mostly_slow(runs: Collection[str], *always: str) -> list[Any]:
    """Return the runs' names as parameters of a test: all but a few are slow.

    Parameters
    ----------
    runs
        Their names.
    *always
        Those that are never left out. Tests of different topics keep different ones, so that
        together they have every kind of run.
    """
    assert set(always) <= set(runs)
    return [pytest.param(name, marks=() if name in always else pytest.mark.slow) for name in runs]
