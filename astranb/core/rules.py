"""What may stand in each field of a table: which table it numbers, and its range.

A saved state is data from anywhere, and machine code follows its numbers without looking. So every
engine describes its tables once, field by field, and :func:`check_fields` compares a state with that.
What several fields have to do with each other (lists, counts) is checked beside the description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from .errors import InputError

__all__ = [
    "ANY",
    "COUNT",
    "FLAG",
    "TIME",
    "Rule",
    "Rules",
    "between",
    "check_fields",
    "check_heap",
    "each",
    "fixed",
    "lists",
    "maybe",
    "ranges",
    "refuse",
    "require",
    "row",
    "until",
]

_MOST: Final = 1 << 62


@dataclass(frozen=True)
class Rule:
    """What a number may be.

    Attributes
    ----------
    low, high : int or float
        The least and the greatest value.
    table : str
        The value is a row of this table, or what is beyond them (``beyond`` more than the last).
    beyond : int
    fixed : bool
        The value never changes: it is that of the start of the run.
    """

    low: float = -_MOST
    high: float = _MOST
    table: str = ""
    beyond: int = 0
    fixed: bool = False


Rules = Mapping[str, Mapping[str, Rule]]
"""The rule of every field of every table; of a table without fields the rule is that of ``""``."""

ANY: Final = Rule()
COUNT: Final = Rule(0, 1 << 60)
"""Two of them can be added."""
TIME: Final = Rule(-1, 3 << 60)
"""A time or duration; -1: not yet, or never. What waits for a link that is down has one of 2^61 and more."""
FLAG: Final = Rule(0, 1)


def between(low: float, high: float) -> Rule:
    """A number from the least to the greatest value, both included."""
    return Rule(low, high)


def row(table: str) -> Rule:
    """A row of a table."""
    return Rule(0, table=table)


def maybe(table: str) -> Rule:
    """A row of a table, or -1 for none."""
    return Rule(-1, table=table)


def until(table: str) -> Rule:
    """A row of a table, the one after the last included, or -1 for none: the end of a span or list."""
    return Rule(-1, table=table, beyond=1)


def fixed(rule: Rule = ANY) -> Rule:
    """A number that never changes, and what it may be."""
    return replace(rule, fixed=True)


def each(rule: Rule, *names: str) -> dict[str, Rule]:
    """Return several fields the same rule."""
    return dict.fromkeys(names, rule)


def ranges(first: Any, count: Any) -> np.ndarray:
    """Return the members of many ranges, one range after the other.

    Examples
    --------
    >>> ranges([4, 0], [2, 3]).tolist()
    [4, 5, 0, 1, 2]
    """
    count = np.asarray(count, np.int64)
    begins = np.repeat(np.asarray(first, np.int64) - np.cumsum(count) + count, count)
    return begins + np.arange(len(begins))


def refuse(what: str) -> InputError:
    """Make the error of a state that cannot be."""
    return InputError(f"damaged: {what}", hint="save it again")


def require(fine: Any, what: str) -> None:
    """Refuse a state in which something does not hold.

    Parameters
    ----------
    fine : bool or ndarray of bool
        What must hold everywhere.
    what : str
        Which field is wrong; the first such row is named.
    """
    found = np.asarray(fine)
    if found.all():
        return
    at = f", row {int(np.argmin(found))}" if found.ndim else ""
    raise refuse(f"{what}{at}")


def check_fields(tables: Mapping[str, Any], rules: Rules, start: Mapping[str, Any] | None = None) -> None:
    """Refuse tables with a number that may not be there.

    Parameters
    ----------
    tables : mapping of str to ndarray
    rules : Rules
    start : mapping of str to ndarray, optional
        The tables at the start of the run: what is fixed must be equal.

    Raises
    ------
    InputError
        It names the table, field and row.

    Examples
    --------
    >>> table = np.zeros(2, [("next", "i8")])
    >>> check_fields({"list": table}, {"list": {"next": maybe("list")}})
    >>> table["next"] = 1, 2
    >>> check_fields({"list": table}, {"list": {"next": maybe("list")}})
    Traceback (most recent call last):
        ...
    astranb.core.errors.InputError: damaged: list.next is 2, row 1; save it again
    """
    for name, fields in rules.items():
        table = np.asarray(tables[name])
        for field, rule in fields.items():
            values = table[field] if field else table
            most = len(tables[rule.table]) - 1 + rule.beyond if rule.table else rule.high
            fine = (values >= rule.low) & (values <= most)
            what = f"{name}.{field}".rstrip(".")
            if not fine.all():
                raise refuse(f"{what} is {values[np.argmin(fine)]}, row {int(np.argmin(fine))}")
            if rule.fixed and start is not None:
                first = np.asarray(start[name])
                require(len(first) == len(values), f"the length of {name}")
                require(values == (first[field] if field else first), f"{what} has changed")


def check_heap(first: Sequence[Any], ways: int, what: str) -> None:
    """Refuse a heap in which an element comes before its parent; keys are compared as tuples are."""
    keys = [tuple(one) for one in first]
    require(all(keys[(at - 1) // ways] <= keys[at] for at in range(1, len(keys))), what)


def lists(
    heads: Iterable[int], following: Any, what: str, *, most: Sequence[int] | None = None
) -> list[list[int]]:
    """Follow linked lists; rows of one table that are in two lists, or twice in one, are refused.

    Parameters
    ----------
    heads : iterable of int
        The first row of each list, -1 for none.
    following : ndarray
        The next row of each row; -1, or a number beyond the rows, ends a list.
    what : str
        What the error calls the lists.
    most : sequence of int, optional
        The number of rows of each list; what comes behind them is not followed.

    Returns
    -------
    list of list of int
        The rows of each list.
    """
    following = np.asarray(following).tolist()
    seen = bytearray(len(following))
    found = []
    for number, head in enumerate(
        np.asarray(heads if isinstance(heads, np.ndarray) else list(heads)).tolist()
    ):
        rows: list[int] = []
        left = len(following) + 1 if most is None else int(most[number])
        one = head
        while left > 0 and 0 <= one < len(following):
            if seen[one]:
                raise refuse(f"{what} meet or go round, row {one}")
            seen[one] = 1
            rows.append(one)
            one = following[one]
            left -= 1
        if most is not None and left > 0:
            raise refuse(f"{what} are too short, list {number}")
        found.append(rows)
    return found
