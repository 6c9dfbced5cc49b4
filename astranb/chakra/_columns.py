"""Columns with more than a number a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from ._wire import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Distinct", "Lists", "offsets"]

_T = TypeVar("_T")
_U = TypeVar("_U")


class Lists(NamedTuple):
    """A list for each node, all of them in one array.

    Attributes
    ----------
    offset : array of int64
        Where each node's begins; one more than there are nodes.
    flat : array
        What is in them.
    """

    offset: Ints
    flat: NDArray[Any]

    def of(self, row: int) -> NDArray[Any]:
        """The list of one node."""
        return self.flat[self.offset[row] : self.offset[row + 1]]

    @property
    def owner(self) -> Ints:
        """The row that each element of ``flat`` belongs to."""
        return np.repeat(np.arange(len(self.offset) - 1), np.diff(self.offset))


@dataclass(frozen=True)
class Distinct(Generic[_T]):
    """A value for each node, where few are different.

    Attributes
    ----------
    index : array of int64
        Which value each node has, or -1 for none.
    values : tuple
        The different values.
    """

    index: Ints
    values: tuple[_T, ...]

    @classmethod
    def of(cls, values: Iterable[_T]) -> Distinct[_T]:
        """Gather the different ones of many values.

        Parameters
        ----------
        values : iterable
            One for each node.

        Examples
        --------
        >>> Distinct.of(["mul", "add", "mul"]).values
        ('mul', 'add')
        """
        known: dict[_T, int] = {}
        index = [known.setdefault(value, len(known)) for value in values]
        return cls(np.array(index, np.int64), tuple(known))

    def __getitem__(self, row: int) -> _T | None:
        """The value of one node, or None."""
        at = int(self.index[row])
        return None if at < 0 else self.values[at]

    def map(self, function: Callable[[_T], _U]) -> Distinct[_U]:
        """Turn each different value into another."""
        return Distinct(self.index, tuple(map(function, self.values)))


def offsets(owner: Ints, count: int) -> Ints:
    """Where the elements of each row begin, of owners in ascending order."""
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)
