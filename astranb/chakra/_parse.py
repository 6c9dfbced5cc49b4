"""The columns of a trace, read from its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from astranb.core.errors import InputError

from ._columns import Attributes, Distinct, Lists, offsets
from ._message import decode_attribute, parts
from ._older import renewed
from ._schema import Attribute
from ._wire import LENGTH, VARINT, Bytes, Ints, WireFields, fields, frames, intern, varints

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Parsed", "parse"]

_NAMES: Final = {
    1: "id",
    2: "name",
    3: "type",
    6: "start_time_micros",
    7: "duration_micros",
    10: "attr",
}
_HINT: Final = "is it a Chakra trace?"


@dataclass(frozen=True)
class Parsed:
    """What :class:`Trace` has, with where each node's message begins and ends."""

    data: bytes
    version: str
    metadata: dict[str, Attribute]
    start: Ints
    end: Ints
    id: NDArray[np.uint64]
    type: NDArray[np.int32]
    start_us: Ints
    duration_us: Ints
    names: Distinct[str]
    data_deps: Lists
    ctrl_deps: Lists
    attributes: Attributes


def parse(data: bytes, source: str) -> Parsed:
    """Read a trace.

    Parameters
    ----------
    data : bytes
        Its file, uncompressed.
    source : str
        What errors call it.

    Returns
    -------
    Parsed

    Raises
    ------
    InputError
        It is not a Chakra trace, or truncated.
    """
    if not data:
        raise InputError("empty", where=source, hint="give a Chakra trace")
    messages = frames(np.frombuffer(data, np.uint8), source)
    today = renewed(data, messages, source)
    if today is not None:
        data = today
        messages = frames(np.frombuffer(data, np.uint8), source)
    version, metadata, is_node = _metadata(data[messages.value[0] : messages.end[0]], source)
    first = 0 if is_node else 1
    return _TraceReader(data, messages.value[first:], messages.end[first:], source).read(version, metadata)


def _metadata(message: bytes, source: str) -> tuple[str, dict[str, Attribute], bool]:
    """Read the first message, where it is no node already: version, attributes, whether it is one."""
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


class _TraceReader:
    def __init__(self, data: bytes, start: Ints, end: Ints, source: str) -> None:
        self.data, self.source, self.rows = data, source, len(start)
        self.stream: Bytes = np.frombuffer(data, np.uint8)
        self.start, self.end = start, end
        self.found = fields(self.stream, self.start, self.end, source, "a node")

    def read(self, version: str, metadata: dict[str, Attribute]) -> Parsed:
        return Parsed(
            self.data,
            version,
            metadata,
            self.start,
            self.end,
            self._numbers(1).view(np.uint64),
            self._numbers(3).astype(np.int32),
            self._times(6),
            self._times(7),
            self._texts(2),
            self._lists(5),
            self._lists(4),
            Attributes(self.data, self._some(10, LENGTH), self.rows, self.source),
        )

    def _some(self, number: int, wire: int) -> WireFields:
        some = self.found.where(self.found.number == number)
        wrong = np.flatnonzero(some.wire != wire)
        if len(wrong):
            where = f"{self.source}: the node in row {some.owner[wrong[0]]}"
            raise InputError(f"its {_NAMES[number]} is laid out wrongly", where=where, hint=_HINT)
        return some

    def _numbers(self, number: int) -> Ints:
        column = np.zeros(self.rows, np.int64)
        some = self._some(number, VARINT)
        column[some.owner] = some.value
        return column

    def _times(self, number: int) -> Ints:
        column = self._numbers(number)
        wrong = np.flatnonzero(column < 0)
        if len(wrong):
            what = f"its {_NAMES[number]} is {column[wrong[:1]].view(np.uint64)[0]}"
            where = f"{self.source}: the node in row {wrong[0]}"
            raise InputError(what, where=where, hint="take less than 2^63 µs")
        return column

    def _texts(self, number: int) -> Distinct[str]:
        some = self._some(number, LENGTH)
        which, first = intern(self.stream, some.value, some.end)
        index = np.full(self.rows, -1, np.int64)
        index[some.owner] = which
        spans = [self.data[some.value[at] : some.end[at]] for at in first]
        return Distinct(index, tuple(span.decode("utf-8", "surrogateescape") for span in spans))

    def _lists(self, number: int) -> Lists:
        """Lists of numbers, packed or not, or some of each."""
        some = self.found.where(self.found.number == number)
        packed = some.wire == LENGTH
        if not (packed | (some.wire == VARINT)).all():
            raise InputError("dependencies of a node are laid out wrongly", where=self.source, hint=_HINT)
        inner = varints(self.stream, some.value[packed], some.end[packed], self.source, "dependencies")
        owner = np.concatenate([np.flatnonzero(packed)[inner.owner], np.flatnonzero(~packed)])
        flat = np.concatenate([inner.value, some.value[~packed]]).view(np.uint64)
        order = np.argsort(owner, kind="stable")
        return Lists(offsets(some.owner[owner[order]], self.rows), flat[order])
