"""A trace's graph in a cell and as a page, without a browser: what is sent, what is found."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.chakra import Attribute, Node, NodeType, Trace, write
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.widgets import graph_page
from astranb.widgets.feed import unpack

HOSTILE = "</script><b>\x00\u2028\udcff " + "long " * 200


def step() -> Trace:
    """Two layers; the second one has a hostile name."""
    size = {"comm_size": Attribute(4096, "int64_val"), "comm_type": Attribute(0, "int64_val")}
    return Trace.of(
        [
            Node(10, "L0 fwd attn", NodeType.COMP, duration_us=5),
            Node(11, "L0 fwd sum", NodeType.COMM_COLL, data_deps=(10,), attributes=size),
            Node(12, f"L1 {HOSTILE}", NodeType.COMP, data_deps=(11,), ctrl_deps=(10,), duration_us=3),
            Node(13, "L1 bwd", NodeType.MEM_LOAD, data_deps=(12,)),
        ]
    )


def asked(graph: Any, question: str, **options: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Return the browser's answer to a question."""
    got: list[tuple[dict[str, Any], list[bytes]]] = []
    graph.send = lambda content, buffers=(): got.append((content, list(buffers)))
    graph._received(None, {"type": "ask", "id": 7, "question": question, "options": options}, [])
    (answer,) = got
    assert answer[0]["id"] == 7
    json.dumps(answer[0], allow_nan=False)
    return answer


def test_the_browser_gets_one_module_at_a_time() -> None:
    graph = anb.TraceGraph(step())
    assert repr(graph) == "<TraceGraph of trace: 4 nodes in 2 modules>"
    meta, buffers = asked(graph, "module", module=0)
    columns = unpack("module", buffers)
    assert columns["entity"].tolist() == [1, 2]
    assert [meta["labels"][k] for k in columns["text"]] == ["L0 fwd", "L1"]
    assert columns["duration"].tolist() == [5000, 3000]
    assert columns["critical"].tolist() == pytest.approx([5 / 8, 3 / 8])
    assert (columns["data"].tolist(), columns["control"].tolist()) == ([1], [1])
    meta, buffers = asked(graph, "module", module=2)
    assert len(meta["labels"][0]) <= 400
    assert not re.search("[\x00\u2028\udcff]", meta["labels"][0])
    assert asked(graph, "module", module=99)[0]["labels"] == []
    graph.close()


def test_a_node_is_found_and_described() -> None:
    graph = anb.TraceGraph(step())
    found, _ = asked(graph, "module_search", text="fwd SUM")
    assert found["found"] == [(4, "L0 fwd sum (11)", [0, 1])]
    assert asked(graph, "module_search", text="12")[0]["found"][0][0] == 5
    assert asked(graph, "module_search", text="")[0] == {"found": [], "total": 0, "type": "answer", "id": 7}
    detail, _ = asked(graph, "module_detail", entity=4)
    assert ["comm_size", "4096"] in [list(fact) for fact in detail["facts"]]
    assert [one[0] for one in detail["before"]] == [3]
    assert [one[0] for one in detail["after"]] == [5]
    assert graph.selected is None
    graph._selected = 5
    assert graph.selected is not None
    assert graph.selected.id == 12
    assert [node.id for node in graph.find("sum")] == [11]
    graph.close()
    with pytest.raises(InputError, match="not a trace: int"):
        anb.TraceGraph(5)


def unpacked(text: str) -> tuple[dict[str, Any], list[bytes]]:
    """The header of a page and its columns."""
    packed = re.search(r'id="anb-recording">([^<]*)<', text)
    assert packed
    data = gzip.decompress(base64.b64decode(packed[1]))
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    start = -(-(8 + length) // 8) * 8
    return header, [data[start + at : start + at + size] for at, size in header["places"]]


def test_a_page_holds_every_module_as_the_kernel_sends_it(tmp_path: Path) -> None:
    graph = anb.TraceGraph(step())
    text = graph.to_html(tmp_path / "step.html").read_text("utf-8")
    assert "<b>" not in text
    header, columns = unpacked(text)
    numbers = header["tree"]["buffers"]
    drawn = unpack("module", [columns[k] for k in numbers["module"]])
    tree = unpack("module_tree", [columns[k] for k in numbers["module_tree"]])
    edges = ("before", "after", "data", "control", "implied")
    for module in range(header["about"]["modules"]):
        meta, buffers = asked(graph, "module", module=module)
        one = unpack("module", buffers)
        for name, column in drawn.items():
            starts = tree["edge" if name in edges else "first"]
            mine = column[starts[module] : starts[module + 1]]
            if name == "text":
                labels = [header["tree"]["labels"][k] for k in mine]
                assert labels == [meta["labels"][k] for k in one["text"]]
            else:
                assert np.array_equal(mine, one[name]), name
    values = unpack("module_values", [columns[k] for k in numbers["module_values"]])["value"].reshape(-1, 4)
    facts = {
        (one["name"], row): one["values"][which[row]]
        for one, which in zip(header["tree"]["attributes"], values, strict=True)
        for row in range(4)
        if which[row] < len(one["values"])
    }
    assert facts["type", 1] == "COMM_COLL"
    assert facts["comm_size", 1] == "4096"
    assert ("comm_size", 0) not in facts
    graph.close()


def test_the_command_draws_a_page_also_of_a_faulty_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = Trace.of([Node(1, "a", 4, data_deps=(2,)), Node(2, "b", 4, data_deps=(1, 77))])
    write(faulty, tmp_path / "step.et")
    page = tmp_path / "step.html"
    assert main(["chakra", "draw", str(tmp_path / "step.et"), "--output", str(page)]) == 0
    said = capsys.readouterr()
    assert said.out == "2 nodes in 0 modules by names\n"
    assert "in a cycle, or for these: 2" in said.err
    assert len(unpacked(page.read_text())[0]["about"]["notes"]) == 2
    assert main(["chakra", "draw", str(tmp_path / "step.et"), "--output", str(tmp_path / "step.svg")]) == 0
    assert "2 are in a cycle or after one" in (tmp_path / "step.svg").read_text()
    command = ["chakra", "draw", str(tmp_path / "step.et"), "--output", str(page), "--by", "callers"]
    assert main(command) == 2
    assert "does not record which node called which" in capsys.readouterr().err
    monkeypatch.setattr(graph_page, "_MOST_NODES", 1)
    assert main(command[:-2]) == 2
    assert "2 nodes are too many for a page" in capsys.readouterr().err
