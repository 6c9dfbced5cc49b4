"""Errors for unknown keywords that say what to write."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from .errors import InputError, near

__all__ = ["hinted", "hinted_class"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_UNKNOWN = re.compile(r"got an unexpected keyword argument '(\w+)'")


def hinted(
    where: str,
    write: Mapping[str, str] = MappingProxyType({}),
    *,
    otherwise: Callable[[str, Any], str] | None = None,
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Make a decorator: an unknown keyword of the function raises an error with the nearest one.

    Parameters
    ----------
    where : str
        The function as it is typed.
    write : mapping of str to str
        What to write in place of keywords that people guess.
    otherwise : callable, optional
        Returns what else a keyword, of a value, may be.

    Examples
    --------
    >>> @hinted("step", {"line": "write step('line')"})
    ... def step(n=1, unit="event"): ...
    >>> step(units="line")
    Traceback (most recent call last):
    ...
    astranb.core.errors.InputError: step: unknown option 'units'; did you mean 'unit'?
    >>> step(line=3)
    Traceback (most recent call last):
    ...
    astranb.core.errors.InputError: step: unknown option 'line'; write step('line')
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(function)
        def called(*values: _P.args, **options: _P.kwargs) -> _T:
            try:
                return function(*values, **options)
            except TypeError as error:
                found = _UNKNOWN.search(str(error))
                inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
                if found is None or inside or found[1] not in options:
                    raise
            name = found[1]
            known = [one for one in signature(function).parameters if one not in ("self", "cls")]
            hint = write.get(name) or near(name, known)
            if otherwise is not None:
                hint = f"{hint}; {otherwise(name, options[name])}"
            raise InputError(f"unknown option {name!r}", where=where, hint=hint)

        return called

    return decorate


def hinted_class(**write: str) -> Callable[[type[_T]], type[_T]]:
    """Make a decorator of classes: as :func:`hinted` for what makes their objects."""

    def decorate(kind: type[_T]) -> type[_T]:
        made: Any = kind
        made.__init__ = hinted(kind.__name__, write)(made.__init__)
        return kind

    return decorate
