"""Google's protocol buffers as the judge of ours, and traces to try."""

from __future__ import annotations

import importlib
from typing import Any

from hypothesis import strategies as st

from astranb.chakra import Attribute, Node, NodeType

INTEGERS = {
    **{
        f"{kind}{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1)
        for kind in ("int", "sint", "sfixed")
        for bits in (32, 64)
    },
    **{f"{kind}{bits}": (0, (1 << bits) - 1) for kind in ("uint", "fixed") for bits in (32, 64)},
}
"""The integer kinds and their bounds."""


def judge() -> dict[str, Any]:
    """Message classes of Chakra's schema in Google's implementation, by name."""
    descriptor: Any = importlib.import_module("google.protobuf.descriptor_pb2")
    pools: Any = importlib.import_module("google.protobuf.descriptor_pool")
    factory: Any = importlib.import_module("google.protobuf.message_factory")
    kinds = [
        "double",
        "float",
        "int32",
        "int64",
        "uint32",
        "uint64",
        "sint32",
        "sint64",
        "fixed32",
        "fixed64",
        "sfixed32",
        "sfixed64",
        "bool",
        "string",
        "bytes",
    ]
    one = descriptor.FieldDescriptorProto
    file = descriptor.FileDescriptorProto(name="judge.proto", package="judge", syntax="proto3")

    def message(name: str, *fields: str) -> Any:
        made = file.message_type.add(name=name)
        for text in fields:
            kind, called, number = text.split()
            label = one.LABEL_REPEATED if kind.startswith("*") else one.LABEL_OPTIONAL
            field = made.field.add(name=called, number=int(number), label=label)
            kind = kind.lstrip("*")
            if kind in kinds:
                field.type = getattr(one, f"TYPE_{kind.upper()}")
            else:
                field.type, field.type_name = one.TYPE_MESSAGE, f".judge.{kind}"
        return made

    values = []
    for place, kind in enumerate(kinds):
        message(f"{kind}_list", f"*{kind} values 1")
        values += [f"{kind} {kind}_val {3 + 2 * place}", f"{kind}_list {kind}_list {4 + 2 * place}"]
    attribute = message("Attribute", "string name 1", "string doc_string 2", *values)
    attribute.oneof_decl.add(name="value")
    for field in attribute.field[2:]:
        field.oneof_index = 0
    message("Metadata", "string version 1", "*Attribute attr 2")
    message("Info", "string values 1", "string shapes 2", "string types 3")
    message(
        "Node",
        "uint64 id 1",
        "string name 2",
        "int32 type 3",
        "*uint64 ctrl_deps 4",
        "*uint64 data_deps 5",
        "uint64 start_time_micros 6",
        "uint64 duration_micros 7",
        "Info inputs 8",
        "Info outputs 9",
        "*Attribute attr 10",
    )
    pool = pools.DescriptorPool()
    pool.Add(file)
    return {
        m.name: factory.GetMessageClass(pool.FindMessageTypeByName(f"judge.{m.name}"))
        for m in file.message_type
    }


def varint(value: int) -> bytes:
    """A number as protocol buffers write it."""
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def framed(*messages: bytes) -> bytes:
    """A file of messages."""
    return b"".join(varint(len(m)) + m for m in messages)


_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_ELEMENTS: dict[str, Any] = {
    **{kind: st.integers(*bounds) for kind, bounds in INTEGERS.items()},
    "bool": st.booleans(),
    "double": st.floats(allow_nan=False),
    "float": st.floats(allow_nan=False, width=32),
    "string": _TEXT,
    "bytes": st.binary(max_size=8),
}
ATTRIBUTES = st.one_of(
    st.just(Attribute(None)),
    *[st.builds(Attribute, v, st.just(f"{k}_val"), _TEXT) for k, v in _ELEMENTS.items()],
    *[
        st.builds(Attribute, st.lists(v, max_size=4).map(tuple), st.just(f"{k}_list"))
        for k, v in _ELEMENTS.items()
    ],
)
"""Attributes of every kind."""

_IDS = st.integers(0, 2**64 - 1)
_TIMES = st.integers(0, 2**63 - 1)
_INFO = st.none() | st.tuples(_TEXT, _TEXT, _TEXT)
NODES = st.builds(
    Node,
    id=_IDS,
    name=_TEXT,
    type=st.sampled_from(list(NodeType)).filter(bool),
    data_deps=st.lists(_IDS, max_size=4).map(tuple),
    ctrl_deps=st.lists(_IDS, max_size=3).map(tuple),
    start_us=_TIMES,
    duration_us=_TIMES,
    attributes=st.dictionaries(_TEXT, ATTRIBUTES, max_size=4),
    inputs=_INFO,
    outputs=_INFO,
)
"""Nodes of every type, which wait for nodes that need not be there."""
