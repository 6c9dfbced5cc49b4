"""Traces: what is read is what was written, by us and by Google's protocol buffers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.chakra import Attribute, Node, NodeType, Trace, check, read, read_ranks
from astranb.core.errors import InputError
from tests.chakra.support import ATTRIBUTES, INTEGERS, NODES, framed, judge

JUDGE = judge()
RECORDED = Path(__file__).resolve().parents[4] / "shared" / "reference" / "astrasim2"


def one(attributes: dict[str, Any], **kinds: Any) -> Trace:
    return Trace.of([Node(7, "n", NodeType.COMP, attributes=attributes, **kinds)], source="f.et")


@given(
    st.lists(NODES, max_size=6),
    st.text("0123456789.é", max_size=6),
    st.dictionaries(st.text(max_size=3, alphabet="abc"), ATTRIBUTES, max_size=3),
)
def test_what_is_written_is_read(nodes: list[Node], version: str, metadata: dict[str, Attribute]):
    trace = Trace.of(nodes, version=version, metadata=metadata)
    assert list(trace.nodes()) == nodes
    assert Trace.of(trace.nodes(), version=trace.version, metadata=trace.metadata) == trace
    assert (trace.version, trace.metadata) == (version, metadata)
    assert trace.id.tolist() == [n.id for n in nodes]
    assert trace.type.tolist() == [n.type for n in nodes]
    assert trace.start_us.tolist() == [n.start_us for n in nodes]
    assert trace.duration_us.tolist() == [n.duration_us for n in nodes]
    for row, node in enumerate(nodes):
        assert (trace.names[row] or "") == node.name
        assert trace.data_deps.of(row).tolist() == list(node.data_deps)
        assert trace.ctrl_deps.of(row).tolist() == list(node.ctrl_deps)
    for name in trace.attribute_names:
        column = trace.values(name)
        assert [column[row] for row in range(len(nodes))] == [n.attributes.get(name) for n in nodes]
        assert trace.has(name).tolist() == [name in n.attributes for n in nodes]


@given(NODES)
def test_google_reads_what_is_written(node: Node):
    trace = Trace.of([node])
    size = len(framed(JUDGE["Metadata"](version="0.0.4").SerializeToString()))
    message = trace.data[size + 1 :]
    while len(framed(message)) != len(trace.data) - size:  # behind the length, of one byte or more
        message = message[1:]
    read_back = JUDGE["Node"].FromString(message)
    assert (read_back.id, read_back.name, read_back.type) == (node.id, node.name, node.type)
    assert tuple(read_back.data_deps) == node.data_deps
    assert tuple(read_back.ctrl_deps) == node.ctrl_deps
    assert (read_back.start_time_micros, read_back.duration_micros) == (node.start_us, node.duration_us)
    assert read_back.HasField("inputs") == (node.inputs is not None)
    for said, (name, attribute) in zip(read_back.attr, node.attributes.items(), strict=True):
        kind = said.WhichOneof("value") or ""
        assert (said.name, said.doc_string, kind) == (name, attribute.doc, attribute.kind)
        if kind:
            value = getattr(said, kind)
            assert (tuple(value.values) if kind.endswith("list") else value) == attribute.value
    assert read_back.SerializeToString(deterministic=True) == message


def test_what_google_writes_is_read():
    node = JUDGE["Node"](id=3, name="é", type=7, data_deps=[1, 2, 300], ctrl_deps=[9], duration_micros=5)
    node.inputs.values = "[1]"
    node.attr.add(name="comm_size").int64_val = 1 << 40
    node.attr.add(name="dims").bool_list.values.extend([True, False])
    node.attr.add(name="half").double_val = 0.5
    metadata = JUDGE["Metadata"](version="1.0.0")
    metadata.attr.add(name="schema").string_val = "1.0.2"
    data = framed(metadata.SerializeToString(), node.SerializeToString())
    trace = Trace(data)
    assert (trace.version, trace.metadata) == ("1.0.0", {"schema": Attribute("1.0.2", "string_val")})
    assert trace.node(0) == Node(
        3,
        "é",
        NodeType.COMM_COLL,
        (1, 2, 300),
        (9,),
        duration_us=5,
        attributes={
            "comm_size": Attribute(1 << 40, "int64_val"),
            "dims": Attribute((True, False), "bool_list"),
            "half": Attribute(0.5, "double_val"),
        },
        inputs=("[1]", "", ""),
    )
    assert trace.data == data


@given(st.data())
def test_an_integer_may_be_of_any_kind(data: Any):
    kind, (low, high) = data.draw(st.sampled_from(sorted(INTEGERS.items())))
    value = data.draw(st.integers(low, min(high, 2**63 - 1)))
    trace = one({"comm_size": Attribute(value, f"{kind}_val")})
    assert trace.comm_size.tolist() == [value]


@pytest.mark.parametrize(
    "attribute,value",
    [
        (Attribute(None), 0),
        (Attribute(value=True, kind="bool_val"), 1),
        (Attribute(1e12, "double_val"), 10**12),
        (Attribute(64.0, "float_val"), 64),
    ],
)
def test_an_integer_may_be_written_otherwise(attribute: Attribute, value: int):
    assert one({"num_ops": attribute}).num_ops.tolist() == [value]


@pytest.mark.parametrize(
    "attribute,said",
    [
        (Attribute("12", "string_val"), r"'12' \(string_val\)"),
        (Attribute(0.5, "double_val"), r"0.5 \(double_val\)"),
        (Attribute(math.inf, "float_val"), r"inf \(float_val\)"),
        (Attribute((1, 2), "int64_list"), r"\(1, 2\) \(int64_list\)"),
        (Attribute(2**63, "uint64_val"), r"9223372036854775808 \(uint64_val\)"),
    ],
)
def test_what_is_no_whole_number_is_refused(attribute: Attribute, said: str):
    trace = one({"comm_size": attribute})
    with pytest.raises(
        InputError, match=rf"f\.et: node 7 'n': comm_size is {said}, .*; write it as int64_val"
    ):
        _ = trace.comm_size


def test_columns_say_what_is_absent():
    trace = one({})
    assert (trace.comm_type[0], trace.comm_size[0], trace.comm_src[0], trace.comm_dst[0]) == (-1, -1, -1, -1)
    assert (trace.num_ops[0], trace.tensor_size[0], trace.comm_tag[0], trace.comm_priority[0]) == (
        -1,
        -1,
        0,
        0,
    )
    assert not trace.is_cpu_op[0]
    assert trace.pg_name[0] is None
    assert trace.involved_dim[0] is None


def test_groups_and_dimensions():
    said: list[dict[str, Any]] = [
        {"pg_name": "1", "involved_dim": (True, False)},
        {},
        {"pg_name": Attribute(1, "int32_val")},
    ]
    trace = Trace.of([Node(n, attributes=a) for n, a in enumerate(said)])
    assert [trace.pg_name[n] for n in range(3)] == ["1", None, "1"]
    assert trace.involved_dim[0] == (True, False)
    with pytest.raises(InputError, match="involved_dim is 'x', not truth values"):
        _ = one({"involved_dim": Attribute("x", "string_val")}).involved_dim


def test_unknown_fields_are_kept():
    unknown = bytes.fromhex("fa01026869")  # field 31, "hi"
    node = Node(1, "a", NodeType.COMP, other=unknown)
    trace = Trace.of([node])
    assert trace.node(0) == node
    assert Trace.of(trace.nodes()).data == trace.data


def test_lists_may_be_packed_or_not_or_both():
    unpacked = bytes.fromhex("0801 2807 2a020809 280a")  # data_deps 7, [8, 9], 10
    trace = Trace(framed(b"\x0a\x051.0.0", unpacked, b"\x08\x02\x2a\x01\x01"))
    assert trace.data_deps.of(0).tolist() == [7, 8, 9, 10]
    assert trace.data_deps.of(1).tolist() == [1]
    assert trace.node(0).data_deps == (7, 8, 9, 10)


def test_the_last_of_a_field_counts():
    trace = Trace(framed(b"", bytes.fromhex("0801 0802 1804 120161 120162")))
    assert (trace.id.tolist(), trace.names[0], trace.node(0).id, trace.node(0).name) == ([2], "b", 2, "b")


def test_metadata_may_be_empty_or_left_out():
    node = bytes.fromhex("1201611804")  # 'a', a computation, id 0
    assert [
        len(Trace(framed(*messages))) for messages in ((b"", node), (node,), (b"",), (b"\x08\x01" + node,))
    ] == [1, 1, 0, 1]


def test_parents_are_rows_each_once():
    nodes = [Node(10, data_deps=(30, 20), ctrl_deps=(30,)), Node(30), Node(20, ctrl_deps=(30,))]
    parents = Trace.of(nodes).parents
    assert [parents.of(row).tolist() for row in range(3)] == [[1, 2], [], [1]]


def test_an_id_may_use_all_64_bits():
    trace = Trace.of([Node(2**64 - 1, data_deps=(2**63,)), Node(2**63)])
    assert trace.parents.of(0).tolist() == [1]
    assert trace.id.tolist() == [2**64 - 1, 2**63]


@given(st.data())
def test_broken_files_give_one_line(data: Any):
    """Whatever stands in a file, it is a trace or one line says what is wrong."""
    nodes = data.draw(st.lists(NODES, min_size=1, max_size=4))
    raw = bytearray(Trace.of(nodes).data)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    try:
        trace = Trace(bytes(raw))
        list(trace.nodes())
        for name in trace.attribute_names:
            trace.values(name)
        check(trace)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either way is right


@given(st.binary(max_size=64))
def test_any_bytes_give_one_line(raw: bytes):
    try:
        Trace(raw)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the shared folder with ASTRA-sim's traces is not here")
def test_astra_sims_traces():
    files = sorted(RECORDED.rglob("*.0.et"))
    assert len(files) == 165
    ranks = 0
    for file in files:
        traces = read_ranks(str(file)[: -len(".0.et")])
        ranks += len(traces)
        for trace in traces:
            check(trace)
            assert trace.version == "0.0.4"
        assert Trace.of(traces[0].nodes()).data == file.read_bytes()
    assert ranks == 2390


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the shared folder with ASTRA-sim's traces is not here")
def test_a_trace_of_two_dimensions():
    trace = read(RECORDED / "workload/dag/involved_dim_tp_dp/involved_dim_tp_dp.0.et")
    assert [trace.involved_dim[row] for row in range(2)] == [(True, False), (False, True)]
    assert trace.comm_size.tolist() == [4 << 20, 1 << 20]
    assert trace.comm_type.tolist() == [0, 0]
    assert [parents.tolist() for parents in map(trace.parents.of, range(2))] == [[], [0]]
    assert not np.any(trace.is_cpu_op)
