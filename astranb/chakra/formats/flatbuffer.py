"""FlatBuffers as plain dicts, as ``flatc --json`` writes them.

The format is at https://flatbuffers.dev/internals/: a file begins with the place of its root table. A table
begins with how far before it its vtable is, which lists where each field is within the table, in the order
of the schema; a field that is not listed has its default, and is left out here too.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from astranb.core.errors import InputError

__all__ = ["FlatField", "flat_document"]

_MOST_DEPTH: Final = 8


class FlatField(NamedTuple):
    """A field of a table.

    Attributes
    ----------
    name : str
    form : str
        Of a number, its format in :mod:`struct`; else ``"text"``, ``"table"``, or of a list ``"[]"`` with the
        form of its members.
    table : tuple of FlatField
        The fields of a table, or of the tables of a list.
    """

    name: str
    form: str
    table: tuple[FlatField, ...] = ()


def flat_document(data: bytes, schema: tuple[FlatField, ...], source: str = "buffer") -> dict[str, Any]:
    r"""Read a file whose root table has some fields.

    Parameters
    ----------
    data : bytes
    schema : tuple of FlatField
        The fields of the root table in the order of the schema; further ones in the file are left out.
    source : str
        What errors call it.

    Raises
    ------
    InputError
        An offset leads out of the file, or lists are together longer than the file.

    Examples
    --------
    >>> file = b"\x0c\0\0\0" b"\0\0" b"\x06\0\x08\0\x04\0" b"\x06\0\0\0" b"\x07\0\0\0"
    >>> flat_document(file, (FlatField("answer", "I"), FlatField("question", "text")))
    {'answer': 7}
    """
    return _FlatBufferReader(data, source).root(schema)


class _FlatBufferReader:
    """The bytes, and how many of them lists may still have: no honest file has a list twice."""

    def __init__(self, data: bytes, source: str) -> None:
        self.data, self.source, self.left = data, source, len(data)

    def root(self, schema: tuple[FlatField, ...]) -> dict[str, Any]:
        return self.table(self.number("I", 0), schema, _MOST_DEPTH)

    def number(self, form: str, at: int) -> Any:
        if at < 0 or at + struct.calcsize(f"<{form}") > len(self.data):
            what = f"byte {at:,} is referenced, but the file has {len(self.data):,} bytes"
            raise InputError(what, where=self.source, hint="is the file whole?")
        return struct.unpack_from(f"<{form}", self.data, at)[0]

    def table(self, at: int, schema: tuple[FlatField, ...], depth: int) -> dict[str, Any]:
        vtable = at - self.number("i", at)
        slots = (self.number("H", vtable) - 4) // 2
        found = {}
        for slot, field in enumerate(schema[: max(slots, 0)]):
            offset = self.number("H", vtable + 4 + 2 * slot)
            if offset:
                found[field.name] = self.value(at + offset, field, depth)
        return found

    def value(self, at: int, field: FlatField, depth: int) -> Any:
        form = field.form
        if len(form) == 1:
            return self.number(form, at)
        at += self.number("I", at)
        if form == "table":
            return self.below(at, field, depth)
        count = self.number("I", at)
        kind = form.removeprefix("[]")
        many = 1 if form == "text" else struct.calcsize(f"<{kind}") if len(kind) == 1 else 4
        self.left -= count * many
        if self.left < 0:
            what = f"the list {field.name} at byte {at:,} is too long"
            raise InputError(what, where=self.source, hint="is the file whole?")
        self.number("B", at + 3 + count * many)  # its last byte
        if form == "text":
            return self.data[at + 4 : at + 4 + count].decode("utf-8", "replace")
        if kind == "table":
            places = range(at + 4, at + 4 + 4 * count, 4)
            return [self.below(place + self.number("I", place), field, depth) for place in places]
        return list(struct.unpack_from(f"<{count}{kind}", self.data, at + 4))

    def below(self, at: int, field: FlatField, depth: int) -> dict[str, Any]:
        if depth == 0:
            raise InputError("tables nested too deep", where=self.source, hint="is it the right file?")
        return self.table(at, field.table, depth - 1)
