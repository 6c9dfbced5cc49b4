"""The tables of a machine as a page is given them: layouts for JSON, and what is not zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from astranb.widgets.feed import Columns

__all__ = ["layout", "sent"]

_PART = 512
"""Bytes of rows that are sent or left out together."""


def layout(name: str, table: Any) -> dict[str, Any]:
    """Describe a table: its name, the bytes of a record, its fields with types and offsets, its rows.

    Examples
    --------
    >>> layout("links", np.zeros(3, [("bytes", "i8"), ("up", "u1")]))
    {'name': 'links', 'size': 9, 'fields': [('bytes', 'i8', 0), ('up', 'u1', 8)], 'rows': 3}
    >>> layout("tags", np.zeros(2, "i4"))
    {'name': 'tags', 'size': 4, 'fields': [('value', 'i4', 0)], 'rows': 2}
    """
    dtype = np.asarray(table).dtype
    if dtype.fields is None:
        fields = [("value", dtype.str[1:], 0)]
    else:
        fields = [(field, found[0].str[1:], found[1]) for field, found in dtype.fields.items()]
    return {"name": name, "size": dtype.itemsize, "fields": fields, "rows": len(table)}


def sent(tables: Mapping[str, Any], columns: Columns) -> list[dict[str, Any]]:
    """Describe tables, each with the rows of it that are not zero and the number of the column with them."""
    found = []
    for name, table in tables.items():
        records = np.ascontiguousarray(np.asarray(table)).view(np.ndarray)
        parts, data = _filled(records.view(np.uint8).reshape(len(records), records.dtype.itemsize))
        found.append({**layout(name, table), "parts": parts, "data": columns.add(data)[0]})
    return found


def _filled(rows: np.ndarray) -> tuple[list[tuple[int, int]], bytes]:
    """The parts of a table that are not zero: the first row of each and how many, and their bytes.

    The bytes of one place in all these rows come together, so that what differs little from row to row
    takes little in a packed page (a tenth of the same bytes row by row).
    """
    count, size = rows.shape
    each = max(1, _PART // size)
    padded = np.zeros((-(-count // each), each * size), np.uint8)
    padded.reshape(-1)[: rows.size] = rows.reshape(-1)
    filled = np.flatnonzero(padded.any(axis=1))
    if not len(filled):
        return [], b""
    runs = np.split(filled, np.flatnonzero(np.diff(filled) > 1) + 1)
    spans = [(int(run[0]) * each, min(count, (int(run[-1]) + 1) * each)) for run in runs]
    data = np.concatenate([rows[start:end] for start, end in spans])
    return [(start, end - start) for start, end in spans], data.T.tobytes()
