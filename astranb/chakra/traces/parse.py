"""The columns of a trace, read from its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from astranb.core.arrays import offsets
from astranb.core.errors import InputError

from .columns import Attributes, Distinct, Lists
from .message import decode_attribute, parts
from .older import renewed
from .schema import Attribute
from .wire import LENGTH, VARINT, Bytes, Ints, WireFields, fields, frames, intern, varints

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TraceReader"]

_NAMES: Final = {
    1: "id",
    2: "name",
    3: "type",
    6: "start_time_micros",
    7: "duration_micros",
    10: "attr",
}
_HINT: Final = "is it a Chakra trace?"


class TraceReader:
    """Read the columns of a trace's nodes, one field of the schema at a time."""

    def __init__(self, data: bytes, source: str) -> None:
        if not data:
            raise InputError("empty", where=source, hint="give a Chakra trace")
        messages = frames(np.frombuffer(data, np.uint8), source)
        today = renewed(data, messages, source)
        if today is not None:
            data = today
            messages = frames(np.frombuffer(data, np.uint8), source)
        self.version, self.metadata, is_node = _metadata(data[messages.value[0] : messages.end[0]], source)
        first = 0 if is_node else 1
        self.head = data[: int(messages.end[0])] if first else b""
        self.start, self.end = messages.value[first:], messages.end[first:]
        self.data, self._source, self._rows = data, source, len(self.start)
        self._stream: Bytes = np.frombuffer(data, np.uint8)
        self._found = fields(self._stream, self.start, self.end, source, "a node")

    def _some(self, number: int, wire: int) -> WireFields:
        some = self._found.where(self._found.number == number)
        wrong = np.flatnonzero(some.wire != wire)
        if len(wrong):
            where = f"{self._source}: the node in row {some.owner[wrong[0]]}"
            raise InputError(f"{_NAMES[number]} has the wrong wire type", where=where, hint=_HINT)
        return some

    def numbers(self, number: int) -> Ints:
        """Numbers, 0 where a node has none."""
        column = np.zeros(self._rows, np.int64)
        some = self._some(number, VARINT)
        column[some.owner] = some.value
        return column

    def times(self, number: int) -> Ints:
        """Numbers below 2^63."""
        column = self.numbers(number)
        wrong = np.flatnonzero(column < 0)
        if len(wrong):
            what = f"{_NAMES[number]} is {column[wrong[:1]].view(np.uint64)[0]}"
            where = f"{self._source}: the node in row {wrong[0]}"
            raise InputError(what, where=where, hint="use less than 2^63 µs")
        return column

    def texts(self, number: int) -> Distinct[str]:
        """Texts."""
        some = self._some(number, LENGTH)
        which, first = intern(self._stream, some.value, some.end)
        index = np.full(self._rows, -1, np.int64)
        index[some.owner] = which
        spans = [self.data[some.value[at] : some.end[at]] for at in first]
        return Distinct(index, tuple(span.decode("utf-8", "surrogateescape") for span in spans))

    def has(self, number: int) -> NDArray[np.bool_]:
        """Return whether each node has a field."""
        mask = np.zeros(self._rows, bool)
        mask[self._found.owner[self._found.number == number]] = True
        return mask

    def lists(self, number: int) -> Lists:
        """Lists of numbers, packed or not, or partly."""
        some = self._found.where(self._found.number == number)
        packed = some.wire == LENGTH
        if not (packed | (some.wire == VARINT)).all():
            raise InputError("dependencies have the wrong wire type", where=self._source, hint=_HINT)
        inner = varints(self._stream, some.value[packed], some.end[packed], self._source, "dependencies")
        owner = np.concatenate([np.flatnonzero(packed)[inner.owner], np.flatnonzero(~packed)])
        flat = np.concatenate([inner.value, some.value[~packed]]).view(np.uint64)
        order = np.argsort(owner, kind="stable")
        return Lists(offsets(some.owner[owner[order]], self._rows), flat[order])

    def attributes(self) -> Attributes:
        """All attributes of all nodes."""
        return Attributes(self.data, self._some(10, LENGTH), self._rows, self._source)


def _metadata(message: bytes, source: str) -> tuple[str, dict[str, Attribute], bool]:
    """Read the version and the attributes of the first message, and whether it is a node instead."""
    version, metadata = "", {}
    try:
        found = [(number, value) for number, _, value, _ in parts(message)]
        first = [value for number, value in found if number == 1]
        if any(isinstance(value, int) for value in first):
            return "", {}, True
        if not first and any(3 <= number <= 10 for number, _ in found):
            return "", {}, True  # an id of 0 is not written
        for number, value in found:
            if number == 1 and isinstance(value, bytes) and value[:1] != b"\n":
                version = value.decode("utf-8", "surrogateescape")
            elif number in (1, 2) and isinstance(value, bytes):  # before there was a version, field 1
                name, attribute = decode_attribute(value)
                metadata[name] = attribute
    except InputError as error:
        raise InputError(error.what, where=f"{source}: the first message", hint=_HINT) from None
    return version, metadata, False
