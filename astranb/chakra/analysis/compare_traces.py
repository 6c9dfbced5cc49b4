"""Compare two traces: differing numbers, and the first node that differs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from astranb.chakra.traces import Trace, as_document, summary

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
        differently, each with both numbers. ``same_structure``: whether node types and dependencies
        are equal. ``first_difference``: the first row that differs, with both nodes (None where a
        trace has ended) and the names of the fields that differ.

    Raises
    ------
    InputError
        A dependency does not exist, or dependencies form a cycle.

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
    counts: list[tuple[str, list[int]]] = [(name, [one[name] for one in summaries]) for name in _COUNTS]
    types = sorted({kind for one in summaries for kind in one["types"]})
    counts += [(f"types {kind}", [one["types"].get(kind, 0) for one in summaries]) for kind in types]
    for kind in sorted({kind for one in summaries for kind in one["collectives"]}):
        for what in ("count", "bytes"):
            values = [one["collectives"].get(kind, {}).get(what, 0) for one in summaries]
            counts.append((f"{kind} {what}", values))
    row, fields = _first_difference(first, second)
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
        "differences": {name: values for name, values in counts if values[0] != values[1]},
        "first_difference": place,
    }


def _same_structure(first: Trace, second: Trace) -> bool:
    """Return whether rows are of the same types and wait for the same rows."""
    if len(first) != len(second) or not np.array_equal(first.type, second.type):
        return False
    mine, other = first.parents, second.parents
    return np.array_equal(mine.offset, other.offset) and np.array_equal(mine.flat, other.flat)


def _first_difference(first: Trace, second: Trace) -> tuple[int | None, list[str]]:
    """Find the first row that differs, and the names of the fields that do."""
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
    different = np.flatnonzero(mine.flat[: mine.offset[upto]] != other.flat[: other.offset[upto]])
    if len(different):
        found["parents"] = int(mine.owner[different[0]])
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
