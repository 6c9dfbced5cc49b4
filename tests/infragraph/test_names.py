"""Names of nodes: what is shown of them can be typed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.infragraph import (
    NodeGraph,
    blueprint,
    find_nodes,
    is_several,
    one_node,
    pattern_of,
    short_name,
    spelled,
    spelled_rank,
)

BOXES = blueprint("clos:servers=2").expand()
BOX = blueprint("dgx-h100").expand()


@pytest.mark.parametrize(
    "typed, looked_up",
    [
        ("GPU2 → nvsw.0", "gpu[2]->nvsw.0"),
        ("gpu 2 -> nvsw.0", "gpu[2]->nvsw.0"),
        ("rank[3]", "gpu[3]"),
        ("npu[3].sm[7]", "gpu[3].sm.7"),
        ("GPU3 block 0", "gpu[3].block.0"),
        ("gpu[*].hbm[*]", "gpu[*].hbm.*"),
        ("gpu[0-3].sms", "gpu[0-3].sms"),
        ("host.0.xpu.3->host.0.nvsw.0#1", "host.0.xpu.3->host.0.nvsw.0#1"),
        ("*->*", "*->*"),
        ("gpux", "gpux"),
        ("gpu3x", "gpu3x"),
    ],
)
def test_spellings(typed: str, looked_up: str) -> None:
    assert spelled(typed) == looked_up
    assert spelled(looked_up) == looked_up


@given(st.text(max_size=40))
def test_a_spelling_is_spelled_once(text: str) -> None:
    assert spelled(spelled(text)) == spelled(text)


def test_a_rank_keeps_what_follows_it() -> None:
    assert spelled_rank("GPU 3.op[norm 1, layer 2]", "rank") == "rank[3].op[norm 1, layer 2]"


@pytest.mark.parametrize(
    "name, names",
    [
        ("gpu[9]", ["host.1.xpu.1"]),
        ("gpu[0-1]", ["host.0.xpu.0", "host.0.xpu.1"]),
        ("host.1.nvsw.0", ["host.1.nvsw.0"]),
        ("1.nvsw.0", ["host.1.nvsw.0"]),
        ("nic[9]", ["host.1.cx7.1"]),
        ("cx7[9]", ["host.1.cx7.1"]),
        ("host.*.nvsw.0", ["host.0.nvsw.0", "host.1.nvsw.0"]),
        ("host.0.nvsw.*", [f"host.0.nvsw.{number}" for number in range(4)]),
    ],
)
def test_nodes_by_name(name: str, names: list[str]) -> None:
    assert [BOXES.name(int(node)) for node in find_nodes(BOXES, name)] == names


def test_every_node_has_its_full_name_and_every_rank_its_number() -> None:
    for node, name in enumerate(BOX.names):
        assert one_node(BOX, name) == node
    for rank, node in enumerate(BOX.gpus.tolist()):
        assert {one_node(BOX, f"{word}[{rank}]") for word in ("gpu", "rank", "npu")} == {node}
    assert len(find_nodes(BOXES, "*")) == len(BOXES)
    assert len(find_nodes(BOXES, "gpu[*]")) == len(BOXES.gpus) == len(find_nodes(BOXES, "nic[*]"))


def test_in_one_box_the_end_of_a_name_is_enough() -> None:
    assert BOX.name(one_node(BOX, "nvsw.0")) == "dgx_h100.0.nvsw.0"


@pytest.mark.parametrize(
    "name, message",
    [
        ("nvsw.0", "'nvsw.0' may be any of 2 objects; write more of it: host.0.nvsw.0, host.1.nvsw.0"),
        ("nvs.0", "unknown object 'nvs.0'; did you mean 'host.0.nvsw.0' or 'host.0' or 'leafsw.0'?"),
        ("gpu[16]", "unknown gpu[16]; ranks are 0 to 15"),
        ("gpu[3-20]", "unknown gpu[3-20]; ranks are 0 to 15"),
        ("nic[16]", "unknown 'nic[16]'; they count from 0 to 15"),
        ("gpuu[2]", "unknown object 'gpuu[2]'; did you mean 'gpu[2]'"),
        ("host.0", "'host.0' names 33 nodes"),
        ("", "unknown object ''"),
        ("(" * 60, "unknown object '(((("),
    ],
)
def test_a_name_that_is_none(name: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        one_node(BOXES, name)


@pytest.mark.parametrize(
    "name, several", [("gpu[*]", True), ("gpu[0-3]", True), ("a->*", True), ("gpu[3]", False)]
)
def test_names_of_several(name: str, *, several: bool) -> None:
    assert is_several(name) is several


@given(st.data())
def test_a_short_name_stands_for_just_the_nodes_that_it_is_made_of(data: st.DataObject) -> None:
    graph = data.draw(st.sampled_from([BOX, BOXES]))
    kind = data.draw(st.sampled_from(["xpu", "nvsw", "cx7", "pciesl"]))
    every = [node for node in range(len(graph)) if f".{kind}." in graph.name(node)]
    several = [every, [node for node in every if graph.instance_name(node) == graph.instance_name(every[0])]]
    nodes = data.draw(st.one_of(*(st.just([node]) for node in every), *(st.just(some) for some in several)))
    name = short_name(graph, nodes)
    assert find_nodes(graph, name).tolist() == nodes
    assert all(len(name) <= len(graph.name(node)) for node in nodes)


@pytest.mark.parametrize(
    "graph, names, short",
    [
        (BOX, ["dgx_h100.0.xpu.3"], "gpu[3]"),
        (BOX, ["dgx_h100.0.nvsw.2"], "nvsw.2"),
        (BOXES, ["host.1.nvsw.2"], "host.1.nvsw.2"),
        (BOXES, ["host.0.nvsw.1", "host.1.nvsw.1"], "host.*.nvsw.1"),
        (BOXES, [f"host.1.nvsw.{number}" for number in range(4)], "host.1.nvsw.*"),
        (BOX, ["dgx_h100.0.nvsw.0", "dgx_h100.0.nvsw.1"], "nvsw.0 and 1 other"),
    ],
)
def test_short_names(graph: NodeGraph, names: list[str], short: str) -> None:
    assert short_name(graph, [graph.index(name) for name in names]) == short


def test_a_name_among_a_hundred_thousand_gpus_is_found_without_the_names_of_all() -> None:
    graph = blueprint("fat-tree:servers=12500,levels=3").expand()
    for name, count in (
        ("gpu[77777]", 1), ("dgx_h100.9722.xpu.1", 1), ("9722.xpu.1", 1), ("nic[99999]", 1),
        ("nic[*]", 100_000), ("*.xpu.3", 12_500), ("tier_0.7.port[8-15]", 8), ("nvsv.0", 0), ("tier_9.0", 0),
    ):  # fmt: skip
        try:
            found = len(find_nodes(graph, spelled(name, graph)))
        except InputError:
            found = 0
        assert found == count, name
    assert "names" not in vars(graph)


def test_the_name_of_some_nodes_finds_these_and_no_others() -> None:
    for nodes in ([10], [10, 11, 12, 13], [11, 12], range(len(BOXES)), BOXES.gpus.tolist(), [10, 43]):
        name = pattern_of(BOXES, list(nodes))
        assert find_nodes(BOXES, name).tolist() == sorted(nodes), name
    assert pattern_of(BOXES, [10, 12]) == pattern_of(BOXES, [0, 10]) == ""
