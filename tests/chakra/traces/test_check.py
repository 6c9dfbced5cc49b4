"""Traces that cannot be run, and those that can."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.chakra import Attribute, Node, NodeType, Trace, check
from astranb.core.errors import InputError

COMP = NodeType.COMP


def refused(*nodes: Node) -> str:
    with pytest.raises(InputError) as error:
        check(Trace.of(nodes, source="f.et"))
    assert "\n" not in str(error.value)
    return str(error.value)


def collective(**attributes: Any) -> Node:
    return Node(1, "a", NodeType.COMM_COLL, attributes=attributes)


def test_two_nodes_with_one_id():
    text = refused(Node(5, "a", COMP), Node(6, "b", COMP), Node(5, "c", COMP))
    assert (
        text == "f.et: node 5: rows 0 and 2 ('a' and 'c') have the same id; give each node an id of its own"
    )


def test_a_dependency_that_is_not_there():
    for ways in ({"data_deps": (9,)}, {"ctrl_deps": (9,)}, {"data_deps": (2**64 - 1,)}):
        text = refused(Node(5, "a", COMP), Node(6, "b", COMP, **ways))  # type: ignore[arg-type]
        assert re.fullmatch(r"f\.et: node 6 'b': it depends on node \d+, which does not exist; add .*", text)


def test_a_circle_is_named():
    text = refused(
        Node(1, "a", COMP, data_deps=(3,)),
        Node(2, "b", COMP, data_deps=(1,)),
        Node(3, "c", COMP, ctrl_deps=(2,)),
        Node(4, "d", COMP, data_deps=(3,)),
    )
    assert "1 'a' waits for 3 'c', which waits for 2 'b', which waits for 1 'a'" in text


def test_a_node_that_waits_for_itself():
    assert "in a cycle: 1 'a' waits for 1 'a';" in refused(Node(1, "a", COMP, data_deps=(1,)))


def test_a_long_circle_is_shortened():
    count = 50_000
    text = refused(*(Node(n, f"n{n}", COMP, data_deps=((n + 1) % count,)) for n in range(count)))
    assert "more" in text
    assert len(text) < 400


@given(st.lists(st.lists(st.integers(0, 7), max_size=3), min_size=8, max_size=8))
def test_circles_are_found_where_they_are(waits: list[list[int]]):
    trace = Trace.of(Node(n, "", COMP, data_deps=tuple(deps)) for n, deps in enumerate(waits))
    try:
        TopologicalSorter(dict(enumerate(waits))).prepare()
    except CycleError:
        with pytest.raises(InputError) as caught:
            check(trace)
        named = [int(n) for n in re.findall(r"(\d+) ''", str(caught.value))]
        assert named[0] == named[-1]
        for one, other in pairwise(named):
            assert other in waits[one]
    else:
        check(trace)


def test_parents_may_come_later():
    check(Trace.of([Node(1, "a", COMP, data_deps=(9,)), Node(9, "b", COMP)]))


@pytest.mark.parametrize("kind", [0, 8, 99])
def test_a_type_that_is_none(kind: int):
    assert f"f.et: node 1 'a': unknown node type {kind}; use one of 1 METADATA, " in refused(
        Node(1, "a", kind)
    )


@pytest.mark.parametrize(
    "attributes,said",
    [
        ({"comm_size": 1}, "a collective without comm_type; use one of 0 ALL_REDUCE"),
        ({"comm_type": 10, "comm_size": 1}, "unknown comm_type 10"),
        ({"comm_type": Attribute(-1, "int64_val"), "comm_size": 1}, "unknown comm_type -1"),
        ({"comm_type": 0}, "COMM_COLL without comm_size; give the number of bytes"),
        ({"comm_type": 0, "comm_size": -5}, "comm_size is -5; use 0 or more"),
    ],
)
def test_collectives_that_are_none(attributes: dict[str, Any], said: str):
    assert f"f.et: node 1 'a': {said}" in refused(collective(**attributes))


def test_collectives_without_a_value():
    """As in Chakra's feeder, an attribute without a value is 0: an all-reduce of nothing."""
    check(Trace.of([collective(comm_type=Attribute(None), comm_size=Attribute(None))]))
    check(Trace.of([collective(comm_type=9)]))  # a barrier has no size
