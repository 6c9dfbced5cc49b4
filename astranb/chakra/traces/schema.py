"""Chakra's schema: kinds of nodes, collectives and attributes, as numbers and names.

The schema is public: ``schema/protobuf/et_def.proto`` of mlcommons/chakra, versions 0.0.4 and
1.0.0, which have the same layout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from .wire import FIXED32, FIXED64, LENGTH, VARINT

__all__ = [
    "ATTRIBUTE_KINDS",
    "KIND_OF",
    "NUMBERS",
    "VERSION",
    "Attribute",
    "CollectiveType",
    "Node",
    "NodeType",
    "Plain",
    "Value",
    "ValueLayout",
]

VERSION: Final = "0.0.4"
"""The schema version that is written by default: the one that ASTRA-sim 2.0 reads."""

Plain: TypeAlias = "bool | int | float | str | bytes"
Value: TypeAlias = "Plain | tuple[Plain, ...] | None"
"""Type of an attribute's value; None is an attribute without a value."""


class NodeType(IntEnum):
    """The type of a node."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class CollectiveType(IntEnum):
    """The collective of a node of type ``COMM_COLL`` (its ``comm_type``)."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


class ValueLayout(NamedTuple):
    """Encoding of one element of an attribute."""

    name: str  # in the schema: int64, bool, string
    wire: int
    form: str  # signed, unsigned, zigzag, bool, float, text or bytes
    bits: int


_ELEMENTS = (
    ValueLayout("double", FIXED64, "float", 64),
    ValueLayout("float", FIXED32, "float", 32),
    ValueLayout("int32", VARINT, "signed", 32),
    ValueLayout("int64", VARINT, "signed", 64),
    ValueLayout("uint32", VARINT, "unsigned", 32),
    ValueLayout("uint64", VARINT, "unsigned", 64),
    ValueLayout("sint32", VARINT, "zigzag", 32),
    ValueLayout("sint64", VARINT, "zigzag", 64),
    ValueLayout("fixed32", FIXED32, "unsigned", 32),
    ValueLayout("fixed64", FIXED64, "unsigned", 64),
    ValueLayout("sfixed32", FIXED32, "signed", 32),
    ValueLayout("sfixed64", FIXED64, "signed", 64),
    ValueLayout("bool", VARINT, "bool", 1),
    ValueLayout("string", LENGTH, "text", 0),
    ValueLayout("bytes", LENGTH, "bytes", 0),
)

ATTRIBUTE_KINDS: Final = {3 + 2 * n: kind for n, kind in enumerate(_ELEMENTS)}
"""By the number of the value's field; the field of its list is the next one."""

NUMBERS: Final = {
    f"{kind.name}_{ending}": number + (ending == "list")
    for number, kind in ATTRIBUTE_KINDS.items()
    for ending in ("val", "list")
}
"""The field of each kind's name: ``int64_val``, ``bool_list``."""

KIND_OF: Final = {
    "comm_type": "int64_val",
    "comm_size": "int64_val",
    "comm_src": "int32_val",
    "comm_dst": "int32_val",
    "comm_tag": "int32_val",
    "comm_priority": "int32_val",
    "pg_name": "string_val",
    "involved_dim": "bool_list",
    "is_cpu_op": "bool_val",
    "num_ops": "int64_val",
    "tensor_size": "uint64_val",
}
"""The attributes that simulators read, each with the only kind that Chakra's feeder reads."""


class Attribute(NamedTuple):
    """An attribute of a node or of a trace.

    Attributes
    ----------
    value : bool, int, float, str, bytes, tuple of these, or None
        None if it has no value.
    kind : str
        As in the schema: ``int64_val``, ``bool_list``; ``""`` if it has no value.
    doc : str
        Documentation.
    """

    value: Value
    kind: str = ""
    doc: str = ""


@dataclass(frozen=True)
class Node:
    """One node of a trace.

    Attributes
    ----------
    id : int
        Unique in the trace.
    name : str
    type : NodeType or int
        An int if the schema does not define it.
    data_deps, ctrl_deps : tuple of int
        The ids of the nodes that it waits for.
    start_us, duration_us : int
        As recorded; 0 if not.
    attributes : dict of str to Attribute
    inputs, outputs : tuple of str, optional
        Values, shapes and types, as text.
    other : bytes
        Fields that the schema does not define, as encoded.
    """

    id: int
    name: str = ""
    type: int = NodeType.INVALID
    data_deps: tuple[int, ...] = ()
    ctrl_deps: tuple[int, ...] = ()
    start_us: int = 0
    duration_us: int = 0
    attributes: dict[str, Attribute] = field(default_factory=dict)
    inputs: tuple[str, str, str] | None = None
    outputs: tuple[str, str, str] | None = None
    other: bytes = b""
