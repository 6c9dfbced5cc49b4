"""Traces of the schemas of July to October 2023, written as they were."""

from __future__ import annotations

import struct

import pytest

from astranb.chakra import Attribute, CollectiveType, Node, NodeType, Trace, check
from astranb.core.errors import InputError
from tests.chakra.support import framed, varint

# Fields of an attribute's value, before and after unsigned numbers came in (August 2023).
JULY = {
    "BOOL": (0, 4),
    "FLOAT": (1, 5),
    "INT": (2, 6),
    "STRING": (3, 7),
    "BOOLS": (4, 8),
    "FLOATS": (5, 9),
    "INTS": (6, 10),
    "STRINGS": (7, 11),
}
AUGUST = {
    "BOOL": (0, 4),
    "FLOAT": (1, 5),
    "UINT": (2, 6),
    "INT": (3, 7),
    "STRING": (4, 8),
    "BOOLS": (5, 9),
    "FLOATS": (6, 10),
    "UINTS": (7, 11),
    "INTS": (8, 12),
    "STRINGS": (9, 13),
}


def text(number: int, value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return varint(number << 3 | 2) + framed(data)


def attribute(kinds: dict[str, tuple[int, int]], name: str, kind: str, *values: float | str) -> bytes:
    number, field = kinds[kind]
    out = text(1, name) + b"\x10" + varint(number)
    for value in values:
        if isinstance(value, str):
            out += text(field, value)
        elif isinstance(value, float):
            out += varint(field << 3 | 5) + struct.pack("<f", value)
        else:
            out += varint(field << 3) + varint(value & (1 << 64) - 1)
    return out


def node(number: int, name: str, kind: int, *attributes: bytes, parents: tuple[int, ...] = ()) -> bytes:
    out = b"\x08" + varint(number) + text(2, name) + b"\x18" + varint(kind)
    out += b"".join(b"\x20" + varint(parent) for parent in parents)
    return out + b"".join(text(11, one) for one in attributes)


@pytest.mark.parametrize("kinds", [JULY, AUGUST])
@pytest.mark.parametrize("metadata", [True, False])
def test_traces_of_2023(kinds: dict[str, tuple[int, int]], metadata: bool):
    begin = [text(1, attribute(kinds, "schema", "STRING", "1.0.1"))] if metadata else []
    data = framed(
        *begin,
        node(0, "gemm", 4, attribute(kinds, "runtime", "INT", 25), attribute(kinds, "half", "FLOAT", 0.5)),
        node(
            5,
            "ring",
            7,
            attribute(kinds, "comm_type", "INT", 1),
            attribute(kinds, "comm_size", "INT", 4096),
            attribute(kinds, "involved_dim", "BOOLS", 1, 0),
            attribute(kinds, "fw_parent", "INT", -1),
            attribute(kinds, "sizes", "INTS", 3, 4),
            attribute(kinds, "words", "STRINGS", "a", "b"),
            attribute(kinds, "nothing", "INT"),
            parents=(0,),
        ),
    )
    trace = Trace(data)
    check(trace)
    assert len(trace) == 2
    assert trace.metadata == ({"schema": Attribute("1.0.1", "string_val")} if metadata else {})
    assert trace.node(0) == Node(
        0, "gemm", NodeType.COMP, duration_us=25, attributes={"half": Attribute(0.5, "float_val")}
    )
    assert trace.comm_type.tolist() == [-1, CollectiveType.ALL_TO_ALL]  # 1 then, 6 now
    assert trace.comm_size.tolist() == [-1, 4096]
    assert trace.involved_dim[1] == (True, False)
    assert trace.parents.of(1).tolist() == [0]
    said = trace.node(1).attributes
    assert said["fw_parent"] == Attribute(-1, "int64_val")
    assert said["sizes"] == Attribute((3, 4), "int64_list")
    assert said["words"] == Attribute(("a", "b"), "string_list")
    assert said["nothing"].value is None
    assert Trace(trace.data) == trace  # what is written is of today's schema


def test_tensors_of_2023():
    data = framed(node(1, "mm", 4) + text(5, "[1]") + text(6, "[[2]]") + text(7, "['int']") + text(10, "x"))
    assert (Trace(data).node(0).inputs, Trace(data).node(0).outputs) == (
        ("[1]", "[[2]]", "['int']"),
        ("", "", "x"),
    )


def test_attributes_of_metadata_in_october_2023():
    """The first schema of today's layout had no version yet."""
    said = text(1, "schema") + bytes.fromhex("ea01") + framed(b"x")
    trace = Trace(framed(text(1, said), bytes.fromhex("1804")))
    assert trace.metadata == {"schema": Attribute("x", "string_val")}
    assert len(trace) == 1


def test_a_new_field_does_not_make_a_trace_old():
    """Today's traces say their version."""
    trace = Trace(framed(b"\x0a\x051.0.0", bytes.fromhex("0801 1804") + text(11, "new")))
    assert trace.node(0).other == text(11, "new")


def test_graphs_before_0_0_2_are_refused():
    data = framed(node(1, "ring", 6) + bytes.fromhex("6801 9001 8008"))
    with pytest.raises(InputError, match=r"old\.eg: an execution graph of schema 0\.0\.1; make it again"):
        Trace(data, "old.eg")


def test_an_old_trace_that_is_broken_names_the_byte():
    whole = node(1, "a", 4, attribute(JULY, "runtime", "INT", 5))
    data = framed(whole, node(2, "b", 4) + text(11, b"\x0a\x05ab"))
    with pytest.raises(
        InputError, match=rf"f: byte {len(framed(whole)) + 1}: 5 bytes should follow, but 2 do"
    ):
        Trace(data, "f")
