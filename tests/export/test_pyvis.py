"""The page of pyvis: the same places every time, nothing fetched, names as text."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.net import compile_fabric
from astranb.widgets._layout import lay_out
from tests.export.support import MARKUP, hostile_simulation


def data(text: str, name: str) -> list[dict[str, Any]]:
    found = re.search(name + r" = new vis\.DataSet\((\[.*?\])\);", text)
    assert found
    rows: list[dict[str, Any]] = json.loads(found[1])
    return rows


def test_nodes_stand_where_the_workbench_draws_them(tmp_path: Path) -> None:
    text = anb.export.pyvis("dgx-h100", tmp_path / "a.html").read_text()
    fabric = compile_fabric(anb.infragraph.blueprint("dgx-h100").expand())
    boxes = lay_out(fabric, np.arange(len(fabric.links))).boxes
    nodes = data(text, "nodes")
    assert [(n["label"], n["x"], n["y"]) for n in nodes] == [(b.label, b.x, b.y) for b in boxes]
    assert not any(node["physics"] for node in nodes)
    lanes = {n["id"]: n["label"] for n in nodes}
    edges = {(lanes[e["from"]], lanes[e["to"]]): e["title"] for e in data(text, "edges")}
    (words,) = [said for ends, said in edges.items() if set(ends) == {"GPU0", "nvsw.0"}]
    assert words.startswith(("4 lanes", "5 lanes"))
    anb.export.pyvis("dgx-h100", tmp_path / "b.html")
    assert (tmp_path / "b.html").read_text() == text


def test_nothing_is_fetched(tmp_path: Path) -> None:
    text = anb.export.pyvis("switch:gpus=2", tmp_path / "a.html", dark=True).read_text()
    text = re.sub("<!--.*?-->", "", text, flags=re.DOTALL)
    assert not re.search(r"<(script|link|img)\b[^>]*\b(src|href)\s*=", text)


def test_names_are_text(tmp_path: Path) -> None:
    text = anb.export.pyvis(hostile_simulation().infra, tmp_path / "a.html").read_text()
    assert "<img" not in text
    assert any(MARKUP in node["title"] for node in data(text, "nodes"))


def test_without_pyvis_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyvis.network", None)
    with pytest.raises(InputError, match=r"pip install 'astranb\[pyvis\]'"):
        anb.export.pyvis("switch:gpus=2", tmp_path / "a.html")
    assert not (tmp_path / "a.html").exists()
