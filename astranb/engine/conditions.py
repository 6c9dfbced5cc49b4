"""Conditions of breakpoints, checked in the compiled loops of all engines."""

from __future__ import annotations

from astranb.core.jit import Records, kernel

__all__ = ["check_conditions"]


@kernel
def holds(found: int, relation: int, value: int) -> bool:
    """Compare two numbers by the relation with a number: < <= == != >= >."""
    if relation == 0:
        return found < value
    if relation == 1:
        return found <= value
    if relation == 2:
        return found == value
    if relation == 3:
        return found != value
    if relation == 4:
        return found >= value
    return found > value


@kernel(inline=False)
def check_conditions(points: Records, count: int, tables: tuple[Records, ...]) -> int:
    """Check every condition on a field; returns the first that has become true, or -1.

    Parameters
    ----------
    points : recarray
        Compiled breakpoints with the fields ``owner`` (number of a table, -1: no condition), ``place``,
        ``relation``, ``value`` and ``was`` (1: it was true after the last event).
    count : int
        Rows in use.
    tables : tuple of ndarray of int64
        The tables that conditions may name, as plain numbers.
    """
    hit = -1
    for number in range(count):
        point = points[number]
        if point.owner < 0:
            continue
        now = 1 if holds(tables[point.owner][point.place], point.relation, point.value) else 0
        if now == 1 and point.was == 0 and hit < 0:
            hit = number
        point.was = now
    return hit
