"""Columns of a trace that hold more than a number per node: lists, distinct objects, attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

from astranb.core.errors import InputError

from .message import decode_attribute
from .schema import ATTRIBUTE_KINDS, Attribute
from .wire import LENGTH, Ints, WireFields, fields, intern

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Attributes", "Distinct", "Lists"]

_T = TypeVar("_T")
_U = TypeVar("_U")


class Lists(NamedTuple):
    """A list for each node, all of them in one array.

    Attributes
    ----------
    offset : array of int64
        Where each node's list begins, and the end of the last one.
    flat : array
        The elements of all lists.
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
    """A value for each node, of which few are distinct.

    Attributes
    ----------
    index : array of int64
        The index of each node's value; -1 for none.
    values : tuple
        The distinct values.
    """

    index: Ints
    values: tuple[_T, ...]

    @classmethod
    def of(cls, values: Iterable[_T]) -> Distinct[_T]:
        """Collect the distinct ones of many values, one for each node.

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
        """Apply a function to each distinct value."""
        return Distinct(self.index, tuple(map(function, self.values)))


_LAST: Final = 2 + 2 * len(ATTRIBUTE_KINDS)
_WIRES: Final = np.full(64, -1, np.int32)  # how the value of each kind is laid out
for _number, _kind in ATTRIBUTE_KINDS.items():
    _WIRES[_number] = _kind.wire
    _WIRES[_number + 1] = LENGTH


class Attributes:
    """All attributes of all nodes, in their order; ``words`` numbers their names."""

    def __init__(self, data: bytes, some: WireFields, rows: int, source: str) -> None:
        self._data, self._rows, self._source = data, rows, source
        stream = np.frombuffer(data, np.uint8)
        self._node, self._start, self._end = some.owner, some.value, some.end
        found = fields(stream, self._start, self._end, source, "an attribute")
        names = found.where((found.number == 1) & (found.wire == LENGTH))
        begin, stop = np.zeros((2, len(some.owner)), np.int64)
        begin[names.owner], stop[names.owner] = names.value, names.end
        self._name, first = intern(stream, begin, stop)
        self.words = {
            data[begin[at] : stop[at]].decode("utf-8", "surrogateescape"): number
            for number, at in enumerate(first)
        }
        declared = found.where((found.number > 2) & (found.number <= _LAST))
        wrong = np.flatnonzero(declared.wire != _WIRES[declared.number])
        if len(wrong):
            bad = int(declared.owner[wrong[0]])
            what = f"the value of attribute {list(self.words)[self._name[bad]]!r} has the wrong wire type"
            where = f"{source}: the node in row {self._node[bad]}"
            raise InputError(what, where=where, hint="is it a Chakra trace?")
        self._kind, self._bits = np.zeros((2, len(some.owner)), np.int64)
        self._kind[declared.owner], self._bits[declared.owner] = declared.number, declared.value

    def has(self, name: str) -> NDArray[np.bool_]:
        """Return whether each node has an attribute."""
        present = np.zeros(self._rows, bool)
        present[self._node[self._which(name)]] = True
        return present

    def integers(self, name: str, default: int) -> tuple[Ints, int]:
        """Read whole numbers of any kind, and find the first row where the value is none (-1: nowhere)."""
        column = np.full(self._rows, default, np.int64)
        which = self._which(name)
        if not len(which):
            return column, -1
        kinds, values = self._kind[which], self._bits[which]
        fits = kinds == 0
        for number in np.flatnonzero(np.bincount(kinds)).tolist():
            kind = ATTRIBUTE_KINDS.get(number)
            if kind and kind.form not in ("text", "bytes"):
                of = kinds == number
                values[of], fits[of] = _whole(values[of], kind.form, kind.bits)
        column[self._node[which]] = values
        wrong = np.flatnonzero(~fits)
        return column, int(self._node[which[wrong[0]]]) if len(wrong) else -1

    def values(self, name: str) -> Distinct[Attribute]:
        """Read values of any kind."""
        which = self._which(name)
        start, end = self._start[which], self._end[which]
        numbers, first = intern(np.frombuffer(self._data, np.uint8), start, end)
        index = np.full(self._rows, -1, np.int64)
        index[self._node[which]] = numbers
        declared = []
        for at in first:
            try:
                declared.append(decode_attribute(self._data[start[at] : end[at]])[1])
            except InputError as error:
                where = f"{self._source}: {name} of the node in row {self._node[which[at]]}"
                raise InputError(error.what, where=where, hint="is it a Chakra trace?") from None
        return Distinct(index, tuple(declared))

    def _which(self, name: str) -> Ints:
        number = self.words.get(name)
        return np.empty(0, np.int64) if number is None else np.flatnonzero(self._name == number)


def _whole(bits: Ints, form: str, size: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Decode the bits of numbers as int64, and find which of them are whole and fit."""
    fits = np.ones(len(bits), bool)
    if form == "float":
        real = bits.view(np.float64)
        if size == 32:
            real = bits.astype(np.uint32).view(np.float32).astype(np.float64)
        fits = np.isfinite(real) & (np.abs(real) < 2.0**63) & (np.floor(real) == real)
        return np.where(fits, real, 0).astype(np.int64), fits
    if form == "zigzag":
        return (bits.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(bits & 1), fits
    if form == "bool":
        return (bits != 0).astype(np.int64), fits
    if form == "unsigned":
        return (bits & 0xFFFFFFFF, fits) if size == 32 else (bits, bits >= 0)
    return (bits.astype(np.int32).astype(np.int64) if size == 32 else bits), fits
