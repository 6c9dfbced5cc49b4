"""The wire format of protocol buffers, parsed by a kernel: all messages of a kind at once.

The format is at https://protobuf.dev/programming-guides/encoding/: a message consists of fields, a
field of a tag (its number and its wire type) and a value. Nothing here is specific to Chakra.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astranb.core.entry import Entry
from astranb.core.errors import InputError, TruncatedFile
from astranb.core.jit import kernel

__all__ = [
    "FIXED32",
    "FIXED64",
    "LENGTH",
    "VARINT",
    "Bytes",
    "Ints",
    "WireFields",
    "fields",
    "frames",
    "intern",
    "varints",
]

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5
"""Wire types: how the bytes of a value are laid out."""

_FIELDS: Final = 0
_FRAMES: Final = 1
_VARINTS: Final = 2
# What a span holds: fields with tags; messages with their lengths before them; bare varints.

_ENDS: Final = 1
_LONG: Final = 2
_OVER: Final = 3
_TAG: Final = 4
_EMPTY: Final = 5
_WRONG = {
    _ENDS: "ends inside a number",
    _LONG: "a number has more than ten bytes",
    _OVER: "{need} bytes should follow, but {left} do",
    _TAG: "not a field of a protocol buffer",
    _EMPTY: "empty",
}

_WALKS: Final = 0
_VALUE: Final = 1
_PLACE: Final = 2
_NEED: Final = 3
_LEFT: Final = 4
# Places of the state that a walk shares with its caller.

_COLUMNS: Final = 5
_ROOM: Final = 1024  # for a small trace, which is walked over once

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


class WireFields(NamedTuple):
    """Fields in their order."""

    owner: Ints  # the span that holds each
    number: Ints
    wire: Ints
    value: Ints  # the bits of a number, or where its bytes begin
    end: Ints  # where its bytes end

    def where(self, chosen: NDArray[np.bool_]) -> WireFields:
        """Select some of them."""
        return WireFields(*(column[chosen] for column in self))


@kernel
def varint(data: Bytes, at: int, end: int, state: Ints) -> int:
    """Read a number; return the position behind it, or minus the error."""
    value = np.int64(0)
    shift = np.int64(0)
    while at < end:
        if shift > 63:
            return -_LONG
        byte = np.int64(data[at])
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            state[_VALUE] = value
            return at
        shift += 7
    return -_ENDS


@kernel
def fixed(data: Bytes, at: int, size: int) -> int:
    """Read a number of a fixed size, least byte first."""
    value = np.int64(0)
    for place in range(size):
        value |= np.int64(data[at + place]) << np.int64(8 * place)
    return int(value)


@kernel
def chakra_walk(data: Bytes, starts: Ints, ends: Ints, found: Ints, state: Ints) -> int:
    """List the fields of spans as far as there is room; return their number, or minus the error."""
    count = 0
    room = len(found) // _COLUMNS
    walks = state[_WALKS]
    for owner in range(len(starts)):
        at = starts[owner]
        end = ends[owner]
        while at < end:
            state[_PLACE] = at
            number = np.int64(0)
            wire = np.int64(LENGTH if walks == _FRAMES else VARINT)
            if walks == _FIELDS:
                at = varint(data, at, end, state)
                if at < 0:
                    return at
                number = state[_VALUE] >> 3
                wire = state[_VALUE] & 7
                if number < 1 or number >= 1 << 29:
                    return -_TAG
            last = np.int64(0)
            if wire == VARINT:
                at = varint(data, at, end, state)
                if at < 0:
                    return at
                value = state[_VALUE]
            elif wire == LENGTH:
                at = varint(data, at, end, state)
                if at < 0:
                    return at
                size = state[_VALUE]
                if size < 0 or size > end - at:
                    state[_NEED] = size
                    state[_LEFT] = end - at
                    return -_OVER
                if size == 0 and walks == _FRAMES and count > 0:
                    return -_EMPTY  # a file padded with zeros would be a message a byte
                value = at
                at += size
                last = at
            elif wire == FIXED32 or wire == FIXED64:
                size = 4 if wire == FIXED32 else 8
                if size > end - at:
                    state[_NEED] = size
                    state[_LEFT] = end - at
                    return -_OVER
                value = fixed(data, at, size)
                at += size
            else:
                return -_TAG
            if count < room:
                found[count] = owner
                found[count + room] = number
                found[count + 2 * room] = wire
                found[count + 3 * room] = value
                found[count + 4 * room] = last
            count += 1
    return count


@kernel
def chakra_intern(data: Bytes, starts: Ints, ends: Ints, table: Ints, which: Ints, first: Ints) -> int:
    """Number the distinct contents of spans in their order; return how many there are."""
    count = 0
    mask = len(table) - 1
    for span in range(len(starts)):
        at = starts[span]
        size = ends[span] - at
        mix = np.int64(2166136261)  # FNV-1a
        for place in range(size):
            mix = ((mix ^ np.int64(data[at + place])) * 16777619) & 0xFFFFFFFF
        slot = (mix ^ (mix >> 15)) & mask
        number = -1
        while table[slot] >= 0 and number < 0:
            other = first[table[slot]]
            begin = starts[other]
            same = ends[other] - begin == size
            place = 0
            while same and place < size:
                same = data[begin + place] == data[at + place]
                place += 1
            if same:
                number = table[slot]
            else:
                slot = (slot + 1) & mask
        if number < 0:
            number = count
            table[slot] = count
            first[count] = span
            count += 1
        which[span] = number
    return count


_INT = np.dtype("i8")
_WALK = Entry(chakra_walk, [np.dtype("u1"), _INT, _INT, _INT, _INT])
_INTERN = Entry(chakra_intern, [np.dtype("u1"), _INT, _INT, _INT, _INT, _INT])


def _walk(data: Bytes, starts: Ints, ends: Ints, walks: int, where: str, what: str) -> WireFields:
    state = np.zeros(5, np.int64)
    state[_WALKS] = walks
    starts, ends = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
    found = np.empty(_COLUMNS * _ROOM, np.int64)
    count = _WALK(data, starts, ends, found, state)
    if count > _ROOM:
        found = np.empty(_COLUMNS * count, np.int64)
        _WALK(data, starts, ends, found, state)
    if count < 0:
        need, left = int(state[_NEED]) & (1 << 64) - 1, int(state[_LEFT])
        problem = f"{what}: {_WRONG[-count].format(need=need, left=left)}"
        place = int(state[_PLACE])
        if walks == _FRAMES and -count in (_ENDS, _OVER):
            raise TruncatedFile(problem, where=f"{where}: byte {place}", at=place)
        raise InputError(problem, where=f"{where}: byte {place}", hint="is it a Chakra trace?")
    return WireFields(*(column[:count] for column in found.reshape(_COLUMNS, -1)))


def frames(data: Bytes, where: str) -> WireFields:
    """Find where each length-delimited message of a stream begins (``value``) and ends."""
    return _walk(data, np.zeros(1, np.int64), np.array([len(data)]), _FRAMES, where, "a message")


def fields(data: Bytes, starts: Ints, ends: Ints, where: str, what: str) -> WireFields:
    """Find the fields of messages (their ``owner``); errors name the file and what the messages are."""
    return _walk(data, starts, ends, _FIELDS, where, what)


def varints(data: Bytes, starts: Ints, ends: Ints, where: str, what: str) -> WireFields:
    """Find the numbers of packed lists; as :func:`fields`."""
    return _walk(data, starts, ends, _VARINTS, where, what)


def intern(data: Bytes, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Number the spans of a stream: equal bytes, equal numbers; return also each number's first span.

    Examples
    --------
    >>> intern(np.frombuffer(b"abaab", np.uint8), np.array([0, 1, 2, 3]), np.array([1, 2, 3, 5]))
    (array([0, 1, 0, 2]), array([0, 1, 3]))
    """
    count = len(starts)
    table = np.full(1 << max(4, (2 * count).bit_length()), -1, np.int64)
    which, first = np.empty(count, np.int64), np.empty(count, np.int64)
    starts, ends = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
    distinct = _INTERN(data, starts, ends, table, which, first)
    return which, first[:distinct].copy()
