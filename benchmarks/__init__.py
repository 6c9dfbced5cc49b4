"""Benchmarks: each line prints a figure and a ratio to something measured in the same run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["NotMeasured", "attempted", "measured"]

_Value = TypeVar("_Value")


class NotMeasured(Exception):
    """A row has no figure: what it is about did not happen."""


def measured(values: Sequence[_Value], what: str) -> Sequence[_Value]:
    """Return what was measured.

    Raises
    ------
    NotMeasured
        Nothing was.

    Examples
    --------
    >>> measured([16.7, 16.9], "frames")
    [16.7, 16.9]
    """
    if not len(values):
        raise NotMeasured(what)
    return values


def attempted(name: str, part: Callable[[], None]) -> bool:
    """Measure a part of the table; where it has measured nothing, say so. Other parts go on."""
    try:
        part()
    except NotMeasured as error:
        print(f"{name}: nothing was measured: {error}", file=sys.stderr, flush=True)
        return False
    return True
