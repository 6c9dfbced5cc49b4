"""A writer of FlatBuffers for the tests, front to back, where Google's builder goes from the end."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

Value = tuple[str, Any]
"""A number with its format in ``struct``; ``"text"``; ``"list"`` of values; ``"table"`` of values or None."""


def flatbuffer(root: Sequence[Value | None]) -> bytes:
    """Write a file whose root table has some fields; None: the field is left out."""
    out = bytearray(4)
    _table(out, root, 0)
    return bytes(out)


def _pad(out: bytearray, to: int) -> None:
    out.extend(bytes(-len(out) % to))


def _put(out: bytearray, at: int, value: Value) -> None:
    """Write a number in its place, or what it points to at the end."""
    form, content = value
    if form == "table":
        _table(out, content, at)
    elif form in ("text", "list"):
        _pad(out, 4)
        out[at : at + 4] = struct.pack("<I", len(out) - at)
        out += struct.pack("<I", len(content))
        if form == "text":
            out += content.encode() + b"\0"
            return
        places = []
        for one in content:
            places.append(len(out))
            out += bytes(_size(one))
        for place, one in zip(places, content, strict=True):
            _put(out, place, one)
    else:
        out[at : at + struct.calcsize(f"<{form}")] = struct.pack(f"<{form}", content)


def _size(value: Value) -> int:
    return 4 if value[0] in ("text", "list", "table") else struct.calcsize(f"<{value[0]}")


def _table(out: bytearray, fields: Sequence[Value | None], at: int) -> None:
    """Write a vtable, a table behind it, and what its fields point to; point to the table from ``at``."""
    _pad(out, 2)
    inside, slots = 4, []
    for one in fields:
        slots.append(0 if one is None else inside)
        inside += 0 if one is None else _size(one)
    vtable = len(out)
    out += struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), inside, *slots)
    start = len(out)
    out[at : at + 4] = struct.pack("<I", start - at)
    out += struct.pack("<i", start - vtable) + bytes(inside - 4)
    for slot, one in zip(slots, fields, strict=True):
        if one is not None:
            _put(out, start + slot, one)
