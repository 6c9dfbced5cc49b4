"""The state of a simulated machine as named tables of records: allocate, copy, hash.

A table is a one-dimensional record array without padding; a state is a dictionary of them.
Nothing here knows what the tables are about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from .errors import InputError
from .jit import Records

__all__ = ["Parts", "allocate", "digest", "free_bytes", "own", "require_bytes"]

_LINE_BYTES = 64


def allocate(count: int, dtype: Any) -> Records:
    """Make a table of so many records, all zero, that begins with a line of the cache.

    Examples
    --------
    >>> allocate(2, [("time_ps", "i8")]).time_ps.tolist()
    [0, 0]
    """
    kind = np.dtype(dtype)
    raw = np.zeros(count * kind.itemsize + _LINE_BYTES, np.uint8)
    first = -raw.ctypes.data % _LINE_BYTES
    return raw[first : first + count * kind.itemsize].view(kind).view(np.recarray)


def own(table: Any) -> Records:
    """Copy a table, so that what is done to the copy stays in it."""
    copy = allocate(len(table), table.dtype)
    # As bytes: NumPy would copy records field by field.
    np.asarray(copy).view(np.uint8)[:] = np.ascontiguousarray(table).view(np.ndarray).view(np.uint8)
    return copy


class Parts(NamedTuple):
    """A table that is made part by part, because it is large.

    Attributes
    ----------
    rows : int
        Of all parts.
    made : callable
        Gives the parts in their order, each a table.
    """

    rows: int
    made: Callable[[], Iterable[Any]]


def digest(tables: Iterable[tuple[str, Any]]) -> str:
    """Hash named tables in their order: 32 hex digits (BLAKE2b, 128 bits).

    Parameters
    ----------
    tables : iterable of (str, ndarray or Parts)
        Names and lengths count, so that two tables cannot pass for one.

    Examples
    --------
    >>> one = digest([("a", np.arange(3)), ("b", np.arange(2))])
    >>> one == digest([("a", np.arange(3)), ("b", np.arange(2))])
    True
    >>> one == digest([("a", np.arange(5)), ("b", np.arange(0))])
    False
    """
    state = hashlib.blake2b(digest_size=16)
    for name, table in tables:
        rows, parts = (table.rows, table.made()) if isinstance(table, Parts) else (len(table), (table,))
        state.update(f"{name}:{rows}:".encode())
        for part in parts:
            state.update(np.ascontiguousarray(part).view(np.ndarray).view(np.uint8).data)
    return state.hexdigest()


def require_bytes(needed: int, *, where: str, hint: str, allowed: int | None = None) -> None:
    """Check that tables fit in memory before they are allocated; raise InputError if they do not.

    Parameters
    ----------
    needed : int
        Estimated bytes.
    where, hint : str
        For the error: what would not fit, and how to make it smaller.
    allowed : int, optional
        Bytes that may be taken; four fifths of what is free where not given.

    Raises
    ------
    InputError
        It would not fit.
    """
    most = free_bytes() * 4 // 5 if allowed is None else allowed
    if needed > most:
        raise InputError(
            f"this run needs about {needed / 1e9:,.1f} GB of memory, {most / 1e9:,.1f} GB can be used",
            where=where,
            hint=hint,
        )


def free_bytes() -> int:
    """Memory that could be taken now; 4 GiB where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123 - a pseudo file
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 4 * 2**30
