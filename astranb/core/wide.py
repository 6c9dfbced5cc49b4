"""Integers of 64 bits where NumPy's own have 32: as Pyodide's, whose pointers have.

NumPy's default integer is that of a pointer (``numpy.intp``). Where it has 32 bits, ``np.arange(3)``,
``np.array([1])`` and ``np.argsort(values)`` are int32, and ``np.repeat`` and ``np.bincount`` refuse int64.
Sums and products of them would overflow in silence. So :func:`install` has the functions of the module
``numpy`` give and take what they do on every other machine. Methods of arrays cannot be replaced:
``tests/core/test_wide.py`` forbids those that differ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np

__all__ = ["install"]

_MAKING: Final = {
    "arange": 4, "array": 1, "asanyarray": 1, "asarray": 1, "ascontiguousarray": 1, "empty": 1,
    "empty_like": 1, "fromiter": 1, "full": 2, "full_like": 2, "ones": 1, "ones_like": 1, "zeros": 1,
    "zeros_like": 1,
}  # fmt: skip
"""Functions that make arrays, by the place of their argument ``dtype``."""
_GIVING: Final = (
    "argmax", "argmin", "argpartition", "argsort", "argwhere", "digitize", "flatnonzero", "histogram",
    "indices", "lexsort", "nonzero", "ravel_multi_index", "searchsorted", "unravel_index",
)  # fmt: skip
"""Functions whose results are indices or counts."""
_CHOOSING: Final = ("intersect1d", "unique")
"""Functions that give values, which keep their type, and behind them indices."""
_SUMMING: Final = ("cumprod", "cumsum", "prod", "sum")
"""Functions that sum up what has fewer bits with as many as the default integer has."""
_TAKING: Final = {"bincount": 0, "choose": 0, "repeat": 1}
"""Functions that count by the default integer, by the place of the argument."""


def install() -> None:
    """Have NumPy's functions work with 64 bits, once; nothing changes where they do."""
    if np.intp is np.int64 or hasattr(np.arange, "__wrapped__"):
        return
    for name, place in _MAKING.items():
        setattr(np, name, _making(getattr(np, name), place))
    for name in (*_GIVING, *_CHOOSING):
        setattr(np, name, _giving(getattr(np, name), values=name in _CHOOSING))
    for name in _SUMMING:
        setattr(np, name, _summing(getattr(np, name)))
    np.where = _where(np.where)
    for name, place in _TAKING.items():
        setattr(np, name, _taking(getattr(np, name), place))


def _widened(found: Any) -> Any:
    """Return the same numbers with 64 bits, in tuples too."""
    if isinstance(found, tuple):
        inner = map(_widened, found)
        return type(found)(*inner) if hasattr(found, "_fields") else tuple(inner)
    return found.astype(np.int64) if getattr(found, "dtype", None) == np.int32 else found


def _narrowed(given: Any) -> Any:
    """Return indices as NumPy takes them; lists and single numbers have no width."""
    return given.astype(np.intp) if isinstance(given, np.ndarray) and given.dtype.kind in "iu" else given


def _is_made_of_int(args: tuple[Any, ...]) -> bool:
    """Return whether a function's array follows from Python's own integers, which have no width."""
    return all(type(_first(one)) in {int, bool, type(None)} for one in args)


def _first(given: Any) -> Any:
    """The first number in nested lists; of none, what NumPy takes for one."""
    while isinstance(given, (list, tuple, range)):
        if not len(given):
            return 0
        given = given[0]
    return given


def _making(plain: Callable[..., Any], place: int) -> Callable[..., Any]:
    @wraps(plain)
    def made(*args: Any, **options: Any) -> Any:
        if plain.__name__ == "arange":  # its type may stand behind one, two or three numbers
            *numbers, last = args or (0,)
            if not isinstance(last, (int, float, np.generic, np.ndarray)):
                args, options = tuple(numbers), {**options, "dtype": last}
        dtype = options.get("dtype", args[place] if len(args) > place else None)
        if dtype is int:
            return plain(*args[:place], **{**options, "dtype": np.int64})
        found = plain(*args, **options)
        if dtype is None and getattr(found, "dtype", None) == np.int32:
            # What has a width keeps it, as an array of int32 does: Python's own integers have none.
            given = args[1:2] if plain.__name__ == "full" else args[:1]
            return found.astype(np.int64) if plain.__name__ == "arange" or _is_made_of_int(given) else found
        return found

    return made


def _giving(plain: Callable[..., Any], *, values: bool) -> Callable[..., Any]:
    @wraps(plain)
    def found(*args: Any, **options: Any) -> Any:
        if options.get("sorter") is not None:
            options["sorter"] = _narrowed(options["sorter"])
        result = plain(*args, **options)
        if values:
            return (result[0], *map(_widened, result[1:])) if isinstance(result, tuple) else result
        return _widened(result)

    return found


def _summing(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def summed(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
        array = np.asanyarray(a)
        if dtype is None and out is None and array.dtype.kind in "biu":
            dtype = np.uint64 if array.dtype.kind == "u" else np.int64
        return plain(array, axis, dtype, out, **options)

    return summed


def _where(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def where(condition: Any, *chosen: Any) -> Any:
        found = plain(condition, *chosen)
        return _widened(found) if not chosen or _is_made_of_int(chosen) else found

    return where


def _taking(plain: Callable[..., Any], place: int) -> Callable[..., Any]:
    @wraps(plain)
    def taken(*args: Any, **options: Any) -> Any:
        if len(args) > place:
            args = (*args[:place], _narrowed(args[place]), *args[place + 1 :])
        return _widened(plain(*args, **options)) if plain.__name__ == "bincount" else plain(*args, **options)

    return taken
