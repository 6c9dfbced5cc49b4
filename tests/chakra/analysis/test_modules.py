"""Modules of a trace: the hierarchy, its sums, folded dependencies and layers, also of faulty traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import (
    Attribute,
    ModuleTree,
    Node,
    NodeType,
    Trace,
    draw_module,
    draw_modules,
    link_job,
    pytorch_document,
    pytorch_trace,
    read,
    recorded_files,
)
from astranb.core.errors import InputError
from astranb.workload.models import Parallelism, workload

COMP = NodeType.COMP
RECORDED = Path(__file__).resolve().parents[2] / "data" / "recorded" / "four.0.et.json.gz"
_NAMES = st.sampled_from(
    ["a b c", "a b", "a", "a b d 0", "a b d 1", "x/y.z", "", " ", "L0 fwd 0", "L0 fwd 1", "é 7"]
)


def drawn_trace(rows: list[tuple[str, list[int], list[int], int]]) -> Trace:
    """A trace of names, data and control dependencies and durations; some nodes may wait for later ones."""
    return Trace.of(
        Node(
            number,
            name,
            (COMP, NodeType.COMM_SEND, NodeType.MEM_LOAD, 99)[number % 4],
            data_deps=tuple(data),
            ctrl_deps=tuple(control),
            duration_us=took,
            attributes={"comm_size": Attribute(number, "int64_val")},
        )
        for number, (name, data, control, took) in enumerate(rows)
    )


traces = st.lists(
    st.tuples(
        _NAMES,
        st.lists(st.integers(0, 14), max_size=3),
        st.lists(st.integers(0, 14), max_size=2),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=12,
).map(drawn_trace)


@settings(max_examples=60)
@given(traces)
def test_every_node_is_in_one_module_and_every_dependency_is_drawn_once(trace):
    tree = ModuleTree(trace)
    nodes = tree.nodes
    shown = [entity for module in range(len(tree)) for entity in tree.children(module).tolist()]
    assert sorted(shown) == list(range(1, len(tree) + len(trace)))
    assert all(tree.label(entity) is not None for entity in shown)
    for entity in shown:
        chain = tree.chain(entity)
        assert chain[0] == 0
        assert chain[-1] == tree.around(entity)
    # What is in a module is what is in its children.
    for module in range(len(tree)):
        rows = [row for row in range(len(trace)) if module in tree.chain(len(tree) + row)]
        assert tree.duration_ns[module] == nodes.duration_ns[rows].sum()
        assert tree.kinds[module].tolist() == np.bincount(nodes.kind[rows], minlength=4).tolist()
        assert tree.bytes[module] == nodes.bytes[rows].sum()
    # An edge stands for the dependencies between what is in its two ends.
    real = nodes.before != nodes.after
    drawn = 0
    for module in range(len(tree)):
        edges = tree.edges(module)
        drawn += int(edges.data.sum() + edges.control.sum())
        for before, after in zip(edges.before.tolist(), edges.after.tolist(), strict=True):
            assert tree.around(before) == tree.around(after) == module
            assert before != after
    assert drawn == int(real.sum())


@settings(max_examples=60)
@given(traces)
def test_layers_put_what_waits_below(trace):
    tree = ModuleTree(trace)
    every, first, edge = draw_modules(tree)
    for module in range(len(tree)):
        one = draw_module(tree, module)
        places = set(zip(one.row.tolist(), one.slot.tolist(), strict=True))
        assert len(places) == len(one.entities)
        forward = one.before < one.after
        assert (one.row[one.before][forward] < one.row[one.after][forward]).all()
        assert not one.implied[~forward].any()
        children, edges = slice(first[module], first[module + 1]), slice(edge[module], edge[module + 1])
        for name in one._fields:
            part = edges if name in ("implied", "before", "after", "data", "control") else children
            assert getattr(every, name)[part].tolist() == getattr(one, name).tolist(), name


def test_the_words_of_names_are_modules():
    names = [
        "L0 fwd 0 attn",
        "L0 fwd 0 attn sum",
        "L0 fwd 1 attn",
        "L0 bwd",
        "L1.norm",
        "L1.norm",
        "optimizer",
    ]
    tree = ModuleTree(Trace.of(Node(k, name, COMP) for k, name in enumerate(names)))
    assert tree.by == "names"

    def shown(module: int) -> list[object]:
        labels = [tree.label(one) for one in tree.children(module)]
        inner = [shown(one) for one in tree.children(module).tolist() if tree.row(one) < 0]
        return [*labels, *inner]

    assert shown(0) == [
        "L0", "L1.norm", "optimizer",
        ["fwd", "bwd", ["fwd 0 attn", "fwd 1 attn", ["attn", "sum"]]],
        ["norm", "norm"],
    ]  # fmt: skip


def test_a_generated_step_has_its_layers_and_their_share(tmp_path):
    workload("gpt3-125m", Parallelism(tensor=2), gpu="h100-sxm").write(str(tmp_path / "step"))
    trace = read(tmp_path / "step.0.et")
    tree = ModuleTree(trace)
    top = {tree.label(one): one for one in tree.children(0).tolist()}
    assert {f"L{layer}" for layer in range(12)} <= top.keys()
    assert tree.duration_ns[top["L3"]] == pytest.approx(tree.duration_ns[top["L4"]])
    assert tree.critical[0] == pytest.approx(1)
    assert tree.critical[[top[f"L{layer}"] for layer in range(12)]].sum() > 0.5
    # A chain is drawn without what it implies.
    drawn = draw_module(tree, top["L3"])
    assert len(drawn.entities) >= 2


def test_callers_are_modules():
    trace = pytorch_trace(pytorch_document(RECORDED))
    tree = ModuleTree(trace)
    assert tree.by == "callers"
    (thread, *_) = tree.children(0).tolist()
    inside = [tree.label(one) for one in tree.children(thread)]
    assert {"ProfilerStep#2", "ProfilerStep#3"} <= set(inside)
    linear = next(row for row in range(len(trace)) if trace.names[row] == "aten::linear")
    chain = [tree.label(one) for one in tree.chain(len(tree) + linear)]
    assert chain[-2:] == ["DistributedDataParallel.forward", "aten::linear"]
    assert ModuleTree(trace, "names").by == "names"
    with pytest.raises(InputError, match="does not record which node called which"):
        ModuleTree(Trace.of([Node(0, "a", COMP)]), "callers")
    with pytest.raises(InputError, match="unknown kind of modules 'color'"):
        ModuleTree(trace, "color")


def test_a_linked_job_has_callers_that_add_no_wait():
    trace = link_job(recorded_files(RECORDED.parent / "two")).traces[0]
    before = [0] * len(trace)  # what comes before each node by data, as bits
    for row in range(len(trace)):
        for one in trace.data_deps.of(row).tolist():
            before[row] |= before[one] | 1 << one
    called = [(row, one) for row in range(len(trace)) for one in trace.ctrl_deps.of(row).tolist()]
    assert len(called) > len(trace) / 2
    assert all(before[row] >> one & 1 for row, one in called)
    tree = ModuleTree(trace)
    assert tree.by == "callers"
    forward = next(module for module in range(len(tree)) if tree.labels[module].endswith(".forward"))
    assert "aten::linear" in [tree.label(one) for one in tree.children(forward)]
    assert "ProfilerStep" in tree.label(tree.chain(forward)[-1])


def test_callers_that_call_each_other_and_deep_ones_end():
    attributes = {"rf_id": Attribute(1, "int64_val")}
    loop = Trace.of(Node(k, f"n{k}", COMP, ctrl_deps=((k + 1) % 3,), attributes=attributes) for k in range(3))
    tree = ModuleTree(loop)
    assert tree.by == "callers"
    assert any("in a cycle, or for these: 3;" in note for note in tree.notes)
    deep = Trace.of(
        Node(k, f"n{k}", COMP, ctrl_deps=(k - 1,) if k else (), attributes=attributes) for k in range(5000)
    )
    assert ModuleTree(deep).depth.max() < 60


def test_many_children_are_divided_into_runs():
    flat = Trace.of(Node(k, "n", COMP, data_deps=(k - 1,) if k else ()) for k in range(25_000))
    tree = ModuleTree(flat)
    most = max(len(tree.children(module)) for module in range(len(tree)))
    assert most <= 100
    labels = [tree.label(one) for one in tree.children(tree.children(0)[0])]
    assert labels[:2] == ["1 to 10,000 of 25,000", "10,001 to 20,000 of 25,000"]
    assert sum(tree.kinds[module, 0] for module in tree.children(tree.children(0)[0])) == 25_000


def test_faulty_traces_are_drawn_with_notes():
    trace = Trace.of(
        [
            Node(1, "a", COMP, data_deps=(2,)),
            Node(2, "b", COMP, data_deps=(1,)),
            Node(2, "b again", COMP, data_deps=(9, 2)),
            Node(3, "c", COMP, data_deps=(3,)),
        ]
    )
    tree = ModuleTree(trace)
    assert [note.split(";")[0] for note in tree.notes] == [
        "nodes with the id of another one: 1",
        "dependencies on nodes that do not exist, not drawn: 1",
        "dependencies of nodes on themselves, not drawn: 1",
        "nodes that wait for each other in a cycle, or for these: 3",
    ]
    edges = [int((tree.edges(module).data).sum()) for module in range(len(tree))]
    assert tree.labels == ["trace", "b"]
    assert edges == [2, 1]
    assert ModuleTree(Trace.of([])).children(0).tolist() == []
