"""Fields of dataclasses that may be given in a short form, and have one form where they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["Given"]

F = TypeVar("F")
T = TypeVar("T")


class Given(Generic[F, T]):
    """A field of a dataclass that may be given in the forms ``F``, and is a ``T`` from then on.

    Parameters
    ----------
    read : callable
        Makes a ``T`` of what is given.
    *default : F
        What is read where the field is not given; without it, it must be given.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from astranb.core.units import size_bytes
    >>> @dataclass(frozen=True)
    ... class Message:
    ...     size: Given[int | str, int] = Given(size_bytes, 0)
    >>> Message("1 KiB"), Message()
    (Message(size=1024), Message(size=0))
    """

    def __init__(self, read: Callable[[F], T], *default: F) -> None:
        self._read, self._default = read, default

    def __set_name__(self, owner: type, name: str) -> None:
        """Take the field's name."""
        self._name = name

    @overload
    def __get__(self, found: None, owner: type) -> F: ...

    @overload
    def __get__(self, found: object, owner: type) -> T: ...

    def __get__(self, found: object | None, owner: type) -> Any:
        """Return the value; of the class the default, as dataclasses ask for it."""
        if found is not None:
            return found.__dict__[self._name]
        if not self._default:
            raise AttributeError(self._name)
        return self._default[0]

    def __set__(self, found: object, value: F) -> None:
        """Read what is given."""
        found.__dict__[self._name] = self._read(value)
