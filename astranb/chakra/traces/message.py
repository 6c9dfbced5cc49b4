"""Encode and decode single messages: attributes, nodes and metadata."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from astranb.core.errors import InputError, near

from .schema import ATTRIBUTE_KINDS, KIND_OF, NUMBERS, Attribute, Node, NodeType, Plain, Value, ValueLayout
from .wire import FIXED32, FIXED64, LENGTH, VARINT

__all__ = [
    "attribute_of",
    "decode_attribute",
    "decode_node",
    "encode_metadata",
    "encode_node",
    "framed",
    "parts",
    "read_varint",
    "text",
    "varint",
]

_WORD: Final = (1 << 64) - 1
_SMALL: Final = [bytes([value]) for value in range(128)]
_REALS: Final = {32: "<f", 64: "<d"}
_SIZES: Final = {FIXED32: 4, FIXED64: 8}
_FORMS: Final[tuple[tuple[Any, str], ...]] = (
    (bool, "bool"),
    (int, "int64"),
    (float | int, "double"),
    (str, "string"),
    (bytes, "bytes"),
)


def varint(value: int) -> bytes:
    """Write a number, seven bits a byte; a negative one as its 64 bits."""
    if 0 <= value < 128:
        return _SMALL[value]
    value &= _WORD
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def framed(message: bytes) -> bytes:
    """A message with its length before it."""
    return varint(len(message)) + message


def text(number: int, value: str | bytes) -> bytes:
    """Write a field that has a length."""
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return varint(number << 3 | LENGTH) + framed(data)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number; return it and the position behind it."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _WORD, at
        shift += 7
    raise InputError("ends inside a number" if at == len(data) else "a number has more than ten bytes")


def _taken(data: bytes, at: int, size: int) -> bytes:
    if size > len(data) - at:
        raise InputError(f"{size} bytes should follow, but {len(data) - at} do")
    return data[at : at + size]


def _fixed(data: bytes, at: int, size: int) -> tuple[int, int]:
    return int.from_bytes(_taken(data, at, size), "little"), at + size


def parts(data: bytes) -> Iterator[tuple[int, int, int | bytes, bytes]]:
    """Split a message into fields: number, wire type, value (an unsigned number or bytes), encoded bytes."""
    at = 0
    while at < len(data):
        begin = at
        tag, at = read_varint(data, at)
        wire = tag & 7
        value: int | bytes
        if wire == VARINT:
            value, at = read_varint(data, at)
        elif wire == LENGTH:
            size, at = read_varint(data, at)
            value, at = _taken(data, at, size), at + size
        elif wire in _SIZES and tag >= 8:
            value, at = _fixed(data, at, _SIZES[wire])
        else:
            raise InputError("not a field of a protocol buffer")
        yield tag >> 3, wire, value, data[begin:at]


def _plain(kind: ValueLayout, bits: int | bytes) -> Plain:
    """Decode the bits of one element."""
    if isinstance(bits, bytes):
        return bits.decode("utf-8", "surrogateescape") if kind.form == "text" else bits
    if kind.form == "bool":
        return bits != 0
    if kind.form == "float":
        return float(struct.unpack(_REALS[kind.bits], bits.to_bytes(kind.bits // 8, "little"))[0])
    bits &= (1 << kind.bits) - 1
    if kind.form == "zigzag":
        return bits >> 1 ^ -(bits & 1)
    if kind.form == "signed" and bits >> kind.bits - 1:
        return bits - (1 << kind.bits)
    return bits


def _elements(kind: ValueLayout, message: bytes) -> tuple[Plain, ...]:
    """Decode the values of a list: one field each, or all of them packed into one."""
    values: list[Plain] = []
    for number, wire, bits, _ in parts(message):
        if number != 1:
            continue
        if wire == kind.wire:
            values.append(_plain(kind, bits))
        elif isinstance(bits, bytes):
            at = 0
            while at < len(bits):
                read = read_varint(bits, at) if kind.wire == VARINT else _fixed(bits, at, _SIZES[kind.wire])
                one, at = read
                values.append(_plain(kind, one))
    return tuple(values)


def decode_attribute(data: bytes) -> tuple[str, Attribute]:
    """Decode an attribute and its name.

    Examples
    --------
    >>> decode_attribute(bytes.fromhex("0a09636f6d6d5f73697a65488040"))
    ('comm_size', Attribute(value=8192, kind='int64_val', doc=''))
    """
    name = doc = kind_name = ""
    value: Value = None
    for number, wire, bits, _ in parts(data):
        if number == 1 and isinstance(bits, bytes):
            name = bits.decode("utf-8", "surrogateescape")
        elif number == 2 and isinstance(bits, bytes):
            doc = bits.decode("utf-8", "surrogateescape")
        elif number in ATTRIBUTE_KINDS and wire == ATTRIBUTE_KINDS[number].wire:
            kind = ATTRIBUTE_KINDS[number]
            kind_name, value = f"{kind.name}_val", _plain(kind, bits)
        elif number - 1 in ATTRIBUTE_KINDS and isinstance(bits, bytes):
            kind = ATTRIBUTE_KINDS[number - 1]
            kind_name, value = f"{kind.name}_list", _elements(kind, bits)
    return name, Attribute(value, kind_name, doc)


def attribute_of(name: str, value: Value | Attribute) -> Attribute:
    """Choose the kind of a value: for known attributes the one that Chakra's feeder reads.

    Examples
    --------
    >>> attribute_of("comm_size", 1024).kind, attribute_of("note", "hot").kind, attribute_of("x", (1, 2)).kind
    ('int64_val', 'string_val', 'int64_list')
    """
    if isinstance(value, Attribute):
        if value.kind and value.kind not in NUMBERS:
            raise InputError(f"unknown kind {value.kind!r}", where=name, hint=near(value.kind, NUMBERS))
        if value.kind or value.value is None:
            return value
        return attribute_of(name, value.value)._replace(doc=value.doc)
    if value is None:
        return Attribute(None)
    if isinstance(value, list):
        value = tuple(value)
    if name in KIND_OF:
        return Attribute(value, KIND_OF[name])
    some = value if isinstance(value, tuple) else (value,)
    ending = "list" if isinstance(value, tuple) else "val"
    for kinds, form in _FORMS:
        if all(isinstance(one, kinds) for one in some):
            large = form == "int64" and any(isinstance(one, int) and one >= 1 << 63 for one in some)
            return Attribute(value, f"{'uint64' if large else form}_{ending}")
    hint = "use numbers, texts or tuples of one type"
    raise InputError(f"an attribute cannot hold {value!r:.60}", where=name, hint=hint)


def _bits(kind: ValueLayout, value: Any, name: str) -> bytes:
    """Encode one element, without a tag."""
    if kind.form == "text":
        if isinstance(value, str):
            try:
                return framed(value.encode("utf-8", "surrogateescape"))
            except UnicodeEncodeError:  # JSON can hold half a character
                raise InputError(f"{value!r:.60} is not Unicode text", where=ascii(name)[1:-1]) from None
    elif kind.form == "bytes":
        if isinstance(value, bytes):
            return framed(value)
    elif kind.form == "float":
        if isinstance(value, int | float):
            return struct.pack(_REALS[kind.bits], value)
    elif isinstance(value, int):
        low = 0 if kind.form in ("unsigned", "bool") else -(1 << kind.bits - 1)
        if not low <= value < low + (1 << kind.bits):
            raise InputError(f"{value} does not fit {kind.name}", where=name)
        number = (value << 1 ^ -(value < 0)) if kind.form == "zigzag" else value
        if kind.wire == VARINT:
            return varint(int(number))
        return (number & (1 << kind.bits) - 1).to_bytes(kind.bits // 8, "little")
    raise InputError(f"{value!r:.60} is not a {kind.name}", where=name)


@lru_cache(maxsize=1 << 16)
def _encoded(field: int, name: str, attribute: Attribute) -> bytes:
    value, kind_name, doc = attribute
    out = text(1, name) if name else b""
    if doc:
        out += text(2, doc)
    if not kind_name:
        return text(field, out)
    number = NUMBERS[kind_name]
    if kind_name.endswith("_val"):
        kind = ATTRIBUTE_KINDS[number]
        return text(field, out + varint(number << 3 | kind.wire) + _bits(kind, value, name))
    kind = ATTRIBUTE_KINDS[number - 1]
    if not isinstance(value, tuple):
        raise InputError(f"{value!r:.60} is not a {kind_name}", where=name, hint="give a tuple")
    elements = [_bits(kind, one, name) for one in value]
    if kind.wire == LENGTH:
        inner = b"".join(varint(1 << 3 | LENGTH) + one for one in elements)
    else:
        inner = text(1, b"".join(elements)) if elements else b""
    return text(field, out + text(number, inner))


def encode_attribute(number: int, name: str, value: Value | Attribute) -> bytes:
    """Encode an attribute as a field of a node or of metadata."""
    made = attribute_of(name, value)
    if made.kind.startswith(("double", "float")):  # 0.0 and -0.0 are one key to a cache
        return _encoded.__wrapped__(number, name, made)
    return _encoded(number, name, made)


def encode_metadata(version: str, attributes: Mapping[str, Value | Attribute]) -> bytes:
    """Encode the first message of a trace."""
    out = text(1, version) if version else b""
    return out + b"".join(encode_attribute(2, name, value) for name, value in attributes.items())


def _packed(number: int, ids: tuple[int, ...]) -> bytes:
    return text(number, b"".join(map(varint, ids))) if ids else b""


def _tensors(number: int, info: tuple[str, str, str] | None) -> bytes:
    if info is None:
        return b""
    return text(number, b"".join(text(n + 1, declared) for n, declared in enumerate(info) if declared))


def encode_node(node: Node) -> bytes:
    """Encode a node, fields in the order of their numbers."""
    out = b""
    for number, value in ((1, node.id), (3, int(node.type)), (6, node.start_us), (7, node.duration_us)):
        if not 0 <= value < 1 << 64:
            raise InputError(
                f"{value} is out of range", where=f"node {node.id} {node.name!r}: field {number}"
            )
    if node.id:
        out += b"\x08" + varint(node.id)
    if node.name:
        out += text(2, node.name)
    if node.type:
        out += b"\x18" + varint(node.type)
    out += _packed(4, node.ctrl_deps) + _packed(5, node.data_deps)
    if node.start_us:
        out += b"\x30" + varint(node.start_us)
    if node.duration_us:
        out += b"\x38" + varint(node.duration_us)
    out += _tensors(8, node.inputs) + _tensors(9, node.outputs)
    return out + b"".join(encode_attribute(10, n, a) for n, a in node.attributes.items()) + node.other


def _info(message: bytes) -> tuple[str, str, str]:
    declared = ["", "", ""]
    for number, _, value, _ in parts(message):
        if number in (1, 2, 3) and isinstance(value, bytes):
            declared[number - 1] = value.decode("utf-8", "surrogateescape")
    return declared[0], declared[1], declared[2]


def decode_node(data: bytes) -> Node:
    """Decode a node.

    Examples
    --------
    >>> decode_node(encode_node(Node(7, "add", NodeType.COMP, data_deps=(3,)))).data_deps
    (3,)
    """
    numbers = {1: 0, 3: 0, 6: 0, 7: 0}
    deps: dict[int, list[int]] = {4: [], 5: []}
    infos: dict[int, tuple[str, str, str]] = {}
    attributes: dict[str, Attribute] = {}
    name, other = "", b""
    for number, _, value, raw in parts(data):
        if number in numbers and isinstance(value, int):
            numbers[number] = value
        elif number in deps:
            if isinstance(value, int):
                deps[number].append(value)
            else:
                at = 0
                while at < len(value):
                    one, at = read_varint(value, at)
                    deps[number].append(one)
        elif number == 2 and isinstance(value, bytes):
            name = value.decode("utf-8", "surrogateescape")
        elif number in (8, 9) and isinstance(value, bytes):
            infos[number] = _info(value)
        elif number == 10 and isinstance(value, bytes):
            key, attribute = decode_attribute(value)
            attributes[key] = attribute
        else:
            other += raw
    kind = numbers[3]
    return Node(
        numbers[1],
        name,
        NodeType(kind) if kind < len(NodeType) else kind,
        tuple(deps[5]),
        tuple(deps[4]),
        numbers[6],
        numbers[7],
        attributes,
        infos.get(8),
        infos.get(9),
        other,
    )
