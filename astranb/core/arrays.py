"""Faster NumPy helpers and ragged arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

__all__ = [
    "connected",
    "distinct",
    "flat_lists",
    "numbered",
    "offsets",
    "ranges",
    "reduce_at",
    "reversed_lists",
    "row_order",
]


def connected(count: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Label the connected components of an undirected graph.

    Parameters
    ----------
    count : int
        Nodes.
    a, b : ndarray of int
        Ends of the edges.

    Returns
    -------
    ndarray of int64, shape (count,)
        Components are numbered by their first nodes.

    Examples
    --------
    >>> connected(4, np.array([0, 3]), np.array([2, 1]))
    array([0, 1, 0, 1])
    """
    root = np.arange(count, dtype=np.int64)
    while True:
        # Union by hooking the larger root to the smaller, then pointer jumping to the root.
        ra, rb = root[a], root[b]
        differ = ra != rb
        if not differ.any():
            break
        a, b, ra, rb = a[differ], b[differ], ra[differ], rb[differ]
        np.minimum.at(root, np.maximum(ra, rb), np.minimum(ra, rb))
        while not np.array_equal(up := root[root], root):
            root = up
    _, label = np.unique(root, return_inverse=True)
    return label.astype(np.int64)


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the different values of an array in order, as ``np.unique``, which loads ``numpy.ma`` (0.1 s).

    Parameters
    ----------
    values : ndarray of any shape

    Examples
    --------
    >>> distinct(np.array([3, 1, 3]))
    array([1, 3])
    """
    ordered = np.sort(values, axis=None)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def offsets(owner: np.ndarray, count: int) -> np.ndarray:
    """Return where the list of each row begins, and the end of the last one.

    Parameters
    ----------
    owner : ndarray of int
        The row that each element of a list belongs to, in any order.
    count : int
        Rows.

    Returns
    -------
    ndarray of int64, shape (count + 1,)

    Examples
    --------
    >>> offsets(np.array([0, 0, 2]), 3)
    array([0, 2, 2, 3])
    """
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)


def reversed_lists(lengths: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return in which of some lists of rows each row is.

    Parameters
    ----------
    lengths : ndarray of int
        Of the list of each row.
    members : ndarray of int
        The rows in all lists, one list behind the other.

    Returns
    -------
    first, lists : ndarray of int64
        Row R is in ``lists[first[R]:first[R + 1]]``.

    Examples
    --------
    >>> reversed_lists(np.array([2, 1, 0]), np.array([1, 2, 2]))
    (array([0, 0, 1, 3]), array([0, 0, 1]))
    """
    rows = len(lengths)
    owner = np.repeat(np.arange(rows), lengths)
    return offsets(members, rows), owner[np.argsort(members, kind="stable")]


def flat_lists(lists: Iterable[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Put lists behind one another.

    Returns
    -------
    start, flat : ndarray of int64
        List L is ``flat[start[L]:start[L + 1]]``.

    Examples
    --------
    >>> flat_lists([[4, 2], [], [7]])
    (array([0, 2, 2, 3]), array([4, 2, 7]))
    """
    each = list(lists)
    start = np.concatenate([[0], np.cumsum([len(one) for one in each])]).astype(np.int64)
    return start, np.array([value for one in each for value in one], np.int64)


def numbered(lengths: np.ndarray) -> np.ndarray:
    """Number the elements of each list of a ragged array.

    Examples
    --------
    >>> numbered(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def ranges(first: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return as many numbers from each first one on, one list behind the other.

    Examples
    --------
    >>> ranges(np.array([5, 1]), np.array([2, 3]))
    array([5, 6, 1, 2, 3])
    """
    return np.repeat(first, lengths) + numbered(lengths)


def reduce_at(function: np.ufunc, values: np.ndarray, starts: np.ndarray, axis: int = 0) -> np.ndarray:
    """Apply a function to each of some runs of values: ``reduceat``, whatever integers ``starts`` are.

    Parameters
    ----------
    function : ufunc
        As ``np.add`` or ``np.maximum``.
    values : ndarray
    starts : ndarray of int
        Where a run begins; it ends where the next one begins.
    axis : int

    Examples
    --------
    >>> reduce_at(np.add, np.array([1, 2, 3, 4]), np.array([0, 3]))
    array([6, 4])
    """
    return function.reduceat(values, starts.astype(np.intp, copy=False), axis)


def row_order(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Order rows by several columns of integers, the first one first; equal rows stay as they are.

    Parameters
    ----------
    columns : sequence of ndarray of int64, shape (rows,)

    Returns
    -------
    ndarray of int64, shape (rows,)

    Examples
    --------
    >>> row_order([np.array([1, 0, 1]), np.array([5, 9, 2])])
    array([1, 2, 0])
    """
    widths = [int(column.max(initial=0)) - int(column.min(initial=0)) + 1 for column in columns]
    if math.prod(widths) >= 1 << 62:
        return np.lexsort(columns[::-1])
    mixed = np.zeros(len(columns[0]), np.int64)
    for column, width in zip(columns, widths, strict=True):
        mixed = mixed * width + (column - column.min(initial=0))
    return np.argsort(mixed, kind="stable")
