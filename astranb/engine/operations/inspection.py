"""Inspection of a rank and of an operation by both engines of operations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astranb.core.units import format_time

from .about import STATES
from .run import OperationRun

__all__ = ["MOST", "listed", "neighbours", "operation_lines", "rank_lines", "when"]

MOST = 64
"""Objects of one kind that are listed."""

Lines = list[tuple[str, str]]


def when(ps: int) -> str:
    """Write a time that may not have come yet."""
    return format_time(int(ps)) if ps >= 0 else "not yet"


def listed(engine: OperationRun, rows: Sequence[int] | np.ndarray) -> list[dict[str, str]]:
    """Operations as objects to inspect next: the path and the text of each."""
    numbers = np.asarray(rows, np.int64)
    return [
        {"path": engine.about.path(row), "text": f"{engine.about.label(row)} · {STATES[state]}"}
        for row, state in zip(numbers.tolist(), engine.states(numbers).tolist(), strict=True)
    ]


def rank_lines(engine: OperationRun, rows: np.ndarray, states: np.ndarray) -> Lines:
    """Return the number of a rank's operations in each state, and those under way."""
    counts = np.bincount(states, minlength=len(STATES)).tolist()
    each = ", ".join(f"{count:,} {word}" for word, count in zip(STATES, counts, strict=True) if count)
    running = ", ".join(engine.about.text(int(row)) for row in rows[states == 2][:4])
    return [
        ("operations", f"{len(rows):,}: {each}" if len(rows) else "none"),
        ("under way", running or "nothing"),
    ]


def operation_lines(engine: OperationRun, row: int) -> Lines:
    """Return the name of an operation, its state, and when it begins and ends."""
    start, end = (int(times[row]) for times in engine.times_ps())
    lines = [
        ("what", engine.about.what(row)),
        ("state", STATES[int(engine.states(np.array([row]))[0])]),
        ("begins", when(start)),
        ("ends", when(end)),
    ]
    return [*lines, ("took", format_time(end - start))] if start >= 0 and end >= 0 else lines


def neighbours(engine: OperationRun, row: int) -> tuple[Lines, list[dict[str, str]]]:
    """Return the unmet dependencies of an operation, its parents and its children."""
    parents, end = engine.about.parents_of(row), engine.times_ps()[1]
    left = ", ".join(engine.about.label(int(one)) for one in parents[end[parents] < 0][:4])
    others = [*parents[:MOST], *engine.about.children_of(row)[:MOST]]
    return [("waits for", left)] if left else [], listed(engine, others)
