"""The picture of an infrastructure and its page of pyvis."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.core.svg import SvgBox, SvgLine, Text
from astranb.drawing.layout import lay_out
from astranb.drawing.map import map_of
from astranb.net import compile_fabric
from tests.drawing.support import MARKUP, hostile_simulation

FOUR = Path(__file__).resolve().parents[2] / "tutorials" / "data" / "four_a100_nccl_topology.xml"


def shown(picture: Path) -> tuple[list[str], list[str]]:
    """Labels and titles of a picture."""
    root = ET.fromstring(picture.read_text())
    name = "{http://www.w3.org/2000/svg}"
    return [t.text or "" for t in root.iter(f"{name}text")], [t.text or "" for t in root.iter(f"{name}title")]


def test_every_gpu_and_every_kind_of_link_is_in_it(tmp_path: Path) -> None:
    labels, titles = shown(anb.export.draw("dgx-h100", tmp_path / "a.svg"))
    assert {f"GPU{n}" for n in range(8)} <= set(labels)
    assert "pcie (pcie5): 63 GB/s per direction, 250 ns, 31 edges" in labels
    assert "xpu_fabric (nvlink4): 25 GB/s \u00d7 4 to 5 per direction, 100 ns, 32 edges" in labels
    joins = [title for title in titles if " of xpu_fabric, " in title]
    assert len(joins) == 32  # one straight line each
    lanes = [int(re.search(r": (\d+) lanes", title)[1]) for title in joins]  # type: ignore[index]
    assert sum(lanes) == 8 * 18
    anb.export.draw("dgx-h100", tmp_path / "b.svg")
    assert (tmp_path / "b.svg").read_text() == (tmp_path / "a.svg").read_text()
    assert len(anb.export.draw("dgx-h100").data) > 1000  # what a notebook shows


@pytest.mark.parametrize(
    "name", ["ring:gpus=2", "torus2d:rows=4,columns=4", "fat-tree:ports=16", "dragonfly"]
)
@pytest.mark.parametrize("dark", [False, True])
def test_shapes_lie_in_the_picture(name: str, dark: bool) -> None:
    drawn = map_of(anb.infragraph.blueprint(name), dark=dark)
    assert drawn.links
    for shape in drawn.shapes:
        assert isinstance(shape, SvgLine | SvgBox | Text)
        x, y = (shape.x0, shape.y0) if isinstance(shape, SvgLine) else (shape.x, shape.y)
        assert -40 <= x <= drawn.width + 40
        assert 0 <= y <= drawn.height


def test_a_line_does_not_run_behind_a_box() -> None:
    boxes = anb.infragraph.convert(FOUR)
    drawn = map_of(boxes)
    lines = [s for s in drawn.links if isinstance(s, SvgLine) and "nvlink3" in s.title]
    far = [s for s in lines if "gpu.0" in s.title and "gpu.2" in s.title]
    below = max(s.y0 for s in far)
    gpus = [b for b in drawn.boxes if isinstance(b, SvgBox) and ".gpu." in b.title]
    assert len(gpus) == 4
    assert below > gpus[0].y + gpus[0].height


def test_names_are_text(tmp_path: Path) -> None:
    text = anb.export.draw(hostile_simulation().engine.infra, tmp_path / "a.svg", dark=True).read_text()
    assert "<img" not in text
    assert "&lt;img" in text


def test_without_a_gpu_there_is_nothing_to_draw(tmp_path: Path) -> None:
    box = {"name": "box", "components": [{"name": "nic", "choice": "nic", "count": 2}]}
    infra = anb.infragraph.load({"devices": [box], "instances": [{"name": "h", "device": "box", "count": 1}]})
    for name in ("a.svg", "a.html"):
        with pytest.raises(InputError, match="has no GPU"):
            anb.export.draw(infra, tmp_path / name)
        assert not (tmp_path / name).exists()


def pyvis_data(text: str, name: str) -> list[dict[str, Any]]:
    found = re.search(name + r" = new vis\.DataSet\((\[.*?\])\);", text)
    assert found
    rows: list[dict[str, Any]] = json.loads(found[1])
    return rows


def test_pyvis_places_nodes_as_the_workbench_does(tmp_path: Path) -> None:
    text = anb.export.pyvis("dgx-h100", tmp_path / "a.html").read_text()
    fabric = compile_fabric(anb.infragraph.blueprint("dgx-h100").expand())
    boxes = lay_out(fabric, np.arange(len(fabric.links))).boxes
    nodes = pyvis_data(text, "nodes")
    assert [(n["label"], n["x"], n["y"]) for n in nodes] == [(b.label, b.x, b.y) for b in boxes]
    assert not any(node["physics"] for node in nodes)
    labels = {n["id"]: n["label"] for n in nodes}
    edges = {(labels[e["from"]], labels[e["to"]]): e["title"] for e in pyvis_data(text, "edges")}
    (words,) = [title for ends, title in edges.items() if set(ends) == {"GPU0", "nvsw.0"}]
    assert words.startswith(("4 lanes", "5 lanes"))
    anb.export.pyvis("dgx-h100", tmp_path / "b.html")
    assert (tmp_path / "b.html").read_text() == text


def test_the_page_of_pyvis_fetches_nothing(tmp_path: Path) -> None:
    text = anb.export.pyvis("switch:gpus=2", tmp_path / "a.html", dark=True).read_text()
    text = re.sub("<!--.*?-->", "", text, flags=re.DOTALL)
    assert not re.search(r"<(script|link|img)\b[^>]*\b(src|href)\s*=", text)


def test_pyvis_shows_names_as_text(tmp_path: Path) -> None:
    text = anb.export.pyvis(hostile_simulation().engine.infra, tmp_path / "a.html").read_text()
    assert "<img" not in text
    assert any(MARKUP in node["title"] for node in pyvis_data(text, "nodes"))


def test_without_pyvis_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyvis.network", None)
    with pytest.raises(InputError, match=r"pip install 'astranb\[figures\]'"):
        anb.export.pyvis("switch:gpus=2", tmp_path / "a.html")
    assert not (tmp_path / "a.html").exists()
