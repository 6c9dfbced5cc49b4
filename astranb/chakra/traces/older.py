"""Convert traces of the schemas before 0.0.4 to the current one.

The older schemas are in the history of mlcommons/chakra's ``et_def/et_def.proto``. Between
July 2023 (0.0.3) and October 2023 a node had one list of parents, attributes in field 11, and
an attribute declared its type first. Collectives had other numbers. The runtime (µs) was an
attribute. The schema before (0.0.1, ``.eg`` files) had a field for each attribute and does
not define the unit of a node's time; it is refused.
"""

from __future__ import annotations

import struct
from typing import Final

from astranb.core.errors import InputError

from .message import encode_metadata, encode_node, framed, parts
from .schema import Attribute, CollectiveType, Node, NodeType, Plain, Value
from .wire import FIXED32, LENGTH, VARINT, WireFields

__all__ = ["renewed"]

_LOOKED_AT: Final = 64
_COLLECTIVES: Final = (
    CollectiveType.ALL_REDUCE,
    CollectiveType.ALL_TO_ALL,
    CollectiveType.ALL_GATHER,
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.BROADCAST,
)
_TENSORS: Final = {5: (0, 0), 6: (0, 1), 7: (0, 2), 8: (1, 0), 9: (1, 1), 10: (1, 2)}
# The kind and form of an attribute by its field and wire type. In August 2023 the fields of unsigned
# numbers were inserted; the wire type distinguishes the two numberings.
_FORMS: Final = {
    (4, VARINT): ("bool_val", "bool"),
    (5, FIXED32): ("float_val", "float"),
    (6, VARINT): ("int64_val", "int"),
    (7, LENGTH): ("string_val", "text"),
    (7, VARINT): ("int64_val", "int"),
    (8, VARINT): ("bool_list", "bool"),
    (8, LENGTH): ("string_val", "text"),
    (9, FIXED32): ("float_list", "float"),
    (9, VARINT): ("bool_list", "bool"),
    (10, VARINT): ("int64_list", "int"),
    (10, FIXED32): ("float_list", "float"),
    (11, LENGTH): ("string_list", "text"),
    (11, VARINT): ("int64_list", "int"),
    (12, VARINT): ("int64_list", "int"),
    (13, LENGTH): ("string_list", "text"),
}


def renewed(data: bytes, messages: WireFields, source: str) -> bytes | None:
    """Convert a trace of an older schema to the current one; return None if it is current already."""
    looked_at = zip(messages.value[:_LOOKED_AT].tolist(), messages.end[:_LOOKED_AT].tolist(), strict=True)
    try:
        ages = (_age(data[start:end]) for start, end in looked_at)
        age = next((age for age in ages if age), "current")
    except InputError:
        return None  # the error is reported where the message is read
    if age == "current":
        return None
    if age == "0.0.1":
        hint = "make it again with Chakra 0.0.4 or later"
        raise InputError("an execution graph of schema 0.0.1", where=source, hint=hint)
    out, metadata = [], {}
    spans = zip(messages.value.tolist(), messages.end.tolist(), strict=True)
    for row, (start, end) in enumerate(spans):
        try:
            message = data[start:end]
            if row == 0 and _is_metadata(message):
                declared = (value for _, _, value, _ in parts(message))
                metadata = dict(_attribute(value) for value in declared if isinstance(value, bytes))
            else:
                out.append(framed(encode_node(_node(message))))
        except InputError as error:
            raise InputError(error.what, where=f"{source}: byte {start}", hint=error.hint) from None
    return b"".join([framed(encode_metadata("", metadata)), *out])


def _is_metadata(message: bytes) -> bool:
    return all(number == 1 and wire == LENGTH for number, wire, _, _ in parts(message))


def _age(message: bytes) -> str:
    """Find the schema of a message; empty if it fits several."""
    found = {(number, wire) for number, wire, _, _ in parts(message)}
    numbers = {number for number, _ in found}
    if (1, LENGTH) in found:  # metadata: a version is current, an attribute begins with its name
        first = next(value for number, _, value, _ in parts(message) if number == 1)
        return "" if isinstance(first, bytes) and first[:1] == b"\n" else "current"
    if {(6, LENGTH), (7, LENGTH), (11, LENGTH)} & found:
        return "0.0.3"
    if any((number, VARINT) in found for number in range(8, 21)):
        return "0.0.1"
    return "current" if 10 in numbers else ""


def _node(message: bytes) -> Node:
    number, kind, name = 0, 0, ""
    parents: list[int] = []
    declared = [["", "", ""], ["", "", ""]]
    attributes: dict[str, Attribute] = {}
    other = b""
    for field, _, value, raw in parts(message):
        if field == 1 and isinstance(value, int):
            number = value
        elif field == 3 and isinstance(value, int):
            kind = value
        elif field == 4 and isinstance(value, int):
            parents.append(value)
        elif field == 2 and isinstance(value, bytes):
            name = value.decode("utf-8", "surrogateescape")
        elif field in _TENSORS and isinstance(value, bytes):
            side, place = _TENSORS[field]
            declared[side][place] = value.decode("utf-8", "surrogateescape")
        elif field == 11 and isinstance(value, bytes):
            key, attribute = _attribute(value)
            attributes[key] = attribute
        else:
            other += raw
    runtime = attributes.pop("runtime", Attribute(0)).value
    collective = attributes.get("comm_type", Attribute(None)).value
    if isinstance(collective, int) and 0 <= collective < len(_COLLECTIVES):
        attributes["comm_type"] = Attribute(int(_COLLECTIVES[collective]), "int64_val")
    inputs, outputs = ((one[0], one[1], one[2]) if any(one) else None for one in declared)
    return Node(
        number,
        name,
        NodeType(kind) if kind < len(NodeType) else kind,
        tuple(parents),
        duration_us=runtime if isinstance(runtime, int) else 0,
        attributes=attributes,
        inputs=inputs,
        outputs=outputs,
        other=other,
    )


def _attribute(message: bytes) -> tuple[str, Attribute]:
    name = doc = kind = ""
    values: list[Plain] = []
    for number, wire, bits, _ in parts(message):
        if number in (1, 3) and isinstance(bits, bytes):
            text = bits.decode("utf-8", "surrogateescape")
            name, doc = (text, doc) if number == 1 else (name, text)
        elif (number, wire) in _FORMS:
            kind, form = _FORMS[number, wire]
            values.append(_value(bits, form))
    value: Value = None
    if kind:
        value = tuple(values) if kind.endswith("_list") else values[-1]
    return name, Attribute(value, kind, doc)


def _value(bits: int | bytes, form: str) -> Plain:
    if isinstance(bits, bytes):
        return bits.decode("utf-8", "surrogateescape")
    if form == "float":
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    if form == "bool":
        return bits != 0
    return bits - (1 << 64) if bits >> 63 else bits
