"""Compare two traces: differing numbers, and the first node that differs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ._summary import as_document, summary
from ._trace import Trace

__all__ = ["compare"]

_COUNTS: Final = ("nodes", "dependencies", "depth", "sent_bytes", "received_bytes", "num_ops", "duration_us")
_COLUMNS: Final = (
    *("type", "start_us", "duration_us", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag"),
    *("num_ops", "tensor_size"),
)


def compare(first: Trace, second: Trace) -> dict[str, Any]:
    """Compare two traces.

    Parameters
    ----------
    first, second : Trace

    Returns
    -------
    dict
        ``same``: whether all node fields that simulators read are equal, including their order;
        ``identical``: whether all bytes are. ``differences``: by name what :func:`summary` counts
        differently, each with both numbers. ``same_structure``: whether nodes are of the same types
        and wait for each other alike. ``first_difference``: the first row where they part, with
        both nodes (None where one has ended) and the names of what is different there.

    Raises
    ------
    InputError
        A trace's dependencies are not there, or form a circle.

    Examples
    --------
    >>> from astranb.chakra import TraceBuilder
    >>> one, other = TraceBuilder(), TraceBuilder()
    >>> _ = one.compute("a", num_ops=10), other.compute("a", num_ops=12)
    >>> result = compare(one.build(), other.build())
    >>> result["same"], result["differences"], result["first_difference"]["fields"]
    (False, {'num_ops': [10, 12]}, ['num_ops'])
    """
    summaries = summary(first), summary(second)
    differences: dict[str, list[int]] = {}
    for name in _COUNTS:
        _note(differences, name, summaries[0][name], summaries[1][name])
    for name in ("types", "collectives"):
        for kind in sorted(set(summaries[0][name]) | set(summaries[1][name])):
            values = [one[name].get(kind, 0) for one in summaries]
            if name == "types":
                _note(differences, f"types {kind}", *values)
            else:
                counts = [one if isinstance(one, dict) else {"count": 0, "bytes": 0} for one in values]
                for what in ("count", "bytes"):
                    _note(differences, f"{kind} {what}", counts[0][what], counts[1][what])
    row, fields = _parting(first, second)
    place = None
    if row is not None:
        place = {
            "row": row,
            "fields": fields,
            "first": as_document(first.node(row)) if row < len(first) else None,
            "second": as_document(second.node(row)) if row < len(second) else None,
        }
    return {
        "same": row is None,
        "identical": first == second,
        "same_structure": _same_structure(first, second),
        "differences": differences,
        "first_difference": place,
    }


def _note(differences: dict[str, list[int]], name: str, one: int, other: int) -> None:
    if one != other:
        differences[name] = [one, other]


def _same_structure(first: Trace, second: Trace) -> bool:
    """Whether rows are of the same types and wait for the same rows."""
    if len(first) != len(second) or not np.array_equal(first.type, second.type):
        return False
    mine, other = first.parents, second.parents
    return np.array_equal(mine.offset, other.offset) and np.array_equal(mine.flat, other.flat)


def _parting(first: Trace, second: Trace) -> tuple[int | None, list[str]]:
    """The first row in which something is different, and what."""
    count = min(len(first), len(second))
    found: dict[str, int] = {}
    for name in _COLUMNS:
        _first(found, name, getattr(first, name)[:count] != getattr(second, name)[:count])
    for name in ("names", "pg_name", "involved_dim"):
        mine, other = getattr(first, name), getattr(second, name)
        numbers: dict[Any, int] = {}
        columns = []
        for one in (mine, other):
            known = [numbers.setdefault(value, len(numbers)) for value in one.values]
            columns.append(np.array([*known, -1])[one.index][:count])
        _first(found, name, columns[0] != columns[1])
    mine, other = first.parents, second.parents
    longer = np.flatnonzero(mine.offset[1 : count + 1] != other.offset[1 : count + 1])
    upto = int(longer[0]) if len(longer) else count  # as many parents each, up to this row
    apart = np.flatnonzero(mine.flat[: mine.offset[upto]] != other.flat[: other.offset[upto]])
    if len(apart):
        found["parents"] = int(mine.owner[apart[0]])
    elif len(longer):
        found["parents"] = upto
    if not found:
        return (None, []) if len(first) == len(second) else (count, ["nodes"])
    row = min(found.values())
    return row, [name for name, at in found.items() if at == row]


def _first(found: dict[str, int], name: str, different: Any) -> None:
    rows = np.flatnonzero(different)
    if len(rows):
        found[name] = int(rows[0])
