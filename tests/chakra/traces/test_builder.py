"""Traces made in Python are what simulators of Chakra read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import Attribute, Node, NodeType, Trace, TraceBuilder, check
from astranb.core.errors import InputError


def test_every_sort_of_node():
    step = TraceBuilder(version="1.0.0", model="toy")
    a = step.compute("forward", num_ops=2 * 10**9, tensor_size="1 MB")
    b = step.collective("all_gather", "4 KiB", group="2", dims=[True, False], priority=3, after=a)
    c = step.send(64, 1, rank=0, tag=7, after=[a, b])
    d = step.recv("64 B", 1, tag=8)
    e = step.memory_load("1 GB", after=d)
    f = step.memory_store(5, name="out", after=(c, e))
    g = step.compute("host", duration_us=4, cpu=True)
    h = step.add(NodeType.METADATA, "group", {"ranks": (0, 1)}, control=f, start_us=2)
    trace = step.build("made")
    check(trace)
    assert (a, b, c, d, e, f, g, h) == tuple(range(8))
    assert (trace.version, trace.source) == ("1.0.0", "made")
    assert trace.metadata == {"model": Attribute("toy", "string_val")}
    assert trace.type.tolist() == [4, 7, 5, 6, 2, 3, 4, 1]
    assert trace.comm_type.tolist() == [-1, 2, -1, -1, -1, -1, -1, -1]
    assert trace.comm_size.tolist() == [-1, 4096, 64, 64, -1, -1, -1, -1]
    assert trace.comm_src.tolist() == [-1, -1, 0, 1, -1, -1, -1, -1]
    assert trace.comm_dst.tolist() == [-1, -1, 1, -1, -1, -1, -1, -1]
    assert trace.comm_tag.tolist() == [0, 0, 7, 8, 0, 0, 0, 0]
    assert trace.comm_priority[b] == 3
    assert trace.tensor_size.tolist() == [10**6, -1, -1, -1, 10**9, 5, -1, -1]
    assert trace.num_ops[a] == 2 * 10**9
    assert trace.is_cpu_op.tolist() == [False] * 6 + [True, False]
    assert (trace.pg_name[b], trace.involved_dim[b]) == ("2", (True, False))
    assert [trace.parents.of(row).tolist() for row in range(8)] == [[], [0], [0, 1], [], [3], [2, 4], [], [5]]
    assert trace.duration_us.tolist() == [0] * 6 + [4, 0]
    assert trace.node(h) == Node(
        7,
        "group",
        NodeType.METADATA,
        ctrl_deps=(5,),
        start_us=2,
        attributes={"ranks": Attribute((0, 1), "int64_list")},
    )


def test_attributes_have_the_kinds_that_the_feeder_reads():
    step = TraceBuilder()
    step.collective("broadcast", 8, group="0", dims=[True], priority=1)
    step.send(8, 1, rank=0)
    first, second = (
        {name: attribute.kind for name, attribute in node.attributes.items()} for node in step.build().nodes()
    )
    assert first == {
        "is_cpu_op": "bool_val",
        "comm_type": "int64_val",
        "comm_size": "int64_val",
        "pg_name": "string_val",
        "involved_dim": "bool_list",
        "comm_priority": "int32_val",
    }
    assert second == {
        "is_cpu_op": "bool_val",
        "comm_src": "int32_val",
        "comm_dst": "int32_val",
        "comm_size": "int64_val",
        "comm_tag": "int32_val",
    }


_SIZES = st.sampled_from([0, 1, 127, 128, 1 << 31, (1 << 63) - 1])
_OPTIONAL = st.none() | st.integers(0, 300)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.data())
def test_nodes_written_at_once_are_as_written_one_by_one(kinds, data):
    step = TraceBuilder(version=data.draw(st.sampled_from(["", "1.0.0"])), steps=3)
    for number, kind in enumerate(kinds):
        after = data.draw(st.lists(st.integers(0, number - 1), max_size=3)) if number else []
        size, name = data.draw(_SIZES), data.draw(st.sampled_from(["", "a", "é" * 90]))
        if kind == 0:
            step.compute(
                name, num_ops=data.draw(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)),
                cpu=number > 5, tensor_size=data.draw(st.none() | _SIZES), duration_us=number, after=after,
            )  # fmt: skip
        elif kind == 1:
            step.collective(
                data.draw(st.sampled_from(["broadcast", "reduce"])), size, name=name, after=after,
                root=data.draw(_OPTIONAL), group=data.draw(st.sampled_from([None, "", "7"])),
                priority=data.draw(_OPTIONAL), stream=data.draw(_OPTIONAL),
                dims=data.draw(st.none() | st.just([True])),
            )  # fmt: skip
        elif kind == 2:
            tag = data.draw(st.sampled_from([-1, 0, 5, 1 << 20]))
            (step.send if number % 2 else step.recv)(size, 3, rank=data.draw(_OPTIONAL), tag=tag, after=after)
        elif kind == 3:
            (step.memory_load if number % 2 else step.memory_store)(size, name="m", after=after)
        else:
            step.add(
                NodeType.METADATA if kind == 4 else NodeType.INVALID, name,
                {"x": number, "y": None, "z": (1.5,)}, after=after, control=after[:1],
                start_us=data.draw(_SIZES), duration_us=data.draw(_SIZES),
            )  # fmt: skip
    trace = step.build()
    assert len(step) == len(trace) == len(kinds)
    again = Trace.of(trace.nodes(), version=trace.version, metadata=trace.metadata)
    assert again.data == trace.data
    assert again == trace


def test_more_nodes_than_are_written_at_once():
    step = TraceBuilder()
    for number in range(20_000):
        step.compute(f"{number}", num_ops=number, after=range(max(number - 2, 0), number))
    trace = step.build()
    assert trace.id.tolist() == trace.num_ops.tolist() == list(range(20_000))
    assert trace.names[19_999] == "19999"
    assert trace.parents.of(19_999).tolist() == [19_997, 19_998]
    with pytest.raises(AttributeError, match="'Trace' object has no attribute 'ids'"):
        _ = trace.ids  # type: ignore[attr-defined]


def test_what_cannot_be_made():
    step = TraceBuilder()
    with pytest.raises(InputError, match=r"after= of 'a': node 0 does not exist yet; add it before"):
        step.compute("a", after=0)
    with pytest.raises(InputError, match="Chakra has no collective 'all_reduc'; did you mean 'all_reduce'"):
        step.collective("all_reduc", 8)
    with pytest.raises(InputError, match="size of 'all_reduce'"):
        step.collective("all_reduce", "8 X")
    with pytest.raises(InputError, match="comm_tag: 4294967296 does not fit int32"):
        step.send(8, 1, tag=1 << 32)
    with pytest.raises(InputError, match=r"x: an attribute cannot hold \{1\}"):
        step.add(NodeType.COMP, "a", {"x": {1}})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="x: unknown kind 'int_val'; did you mean 'int64_val'"):
        step.add(NodeType.COMP, "a", {"x": Attribute(1, "int_val")})
    with pytest.raises(InputError, match="x: 1 is not a bool_list; give a tuple"):
        step.add(NodeType.COMP, "a", {"x": Attribute(1, "bool_list")})
    with pytest.raises(InputError, match="-1 is out of range"):
        step.compute("a", duration_us=-1)
    assert len(step) == 0
