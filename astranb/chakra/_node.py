"""Nodes and metadata as messages."""

from __future__ import annotations

from collections.abc import Mapping

from astranb.core.errors import InputError

from ._message import decode_attribute, encode_attribute, parts, read_varint, text, varint
from ._schema import Attribute, Node, NodeType, Value

__all__ = ["decode_node", "encode_metadata", "encode_node"]


def encode_metadata(version: str, attributes: Mapping[str, Value | Attribute]) -> bytes:
    """Write what a trace begins with."""
    out = text(1, version) if version else b""
    return out + b"".join(encode_attribute(2, name, value) for name, value in attributes.items())


def _packed(number: int, ids: tuple[int, ...]) -> bytes:
    return text(number, b"".join(map(varint, ids))) if ids else b""


def _tensors(number: int, info: tuple[str, str, str] | None) -> bytes:
    if info is None:
        return b""
    return text(number, b"".join(text(n + 1, said) for n, said in enumerate(info) if said))


def encode_node(node: Node) -> bytes:
    """Write a node as a message, fields in the order of their numbers.

    Parameters
    ----------
    node : Node

    Returns
    -------
    bytes

    Raises
    ------
    InputError
        A number or an attribute does not fit the schema.
    """
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
    said = ["", "", ""]
    for number, _, value, _ in parts(message):
        if number in (1, 2, 3) and isinstance(value, bytes):
            said[number - 1] = value.decode("utf-8", "surrogateescape")
    return said[0], said[1], said[2]


def decode_node(data: bytes) -> Node:
    """Read a node.

    Parameters
    ----------
    data : bytes
        The message.

    Returns
    -------
    Node

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
