"""``astranb infra``: show, check and draw infrastructures."""

from __future__ import annotations

import json
from pathlib import Path

from astranb.cli import main


def test_infra_show(capsys):
    assert main(["infra", "show", "dgx-h100", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["gpus"] == 8
    assert {"name", "nodes", "edges", "node_types", "connected_components", "assumed"} <= set(said)
    assert main(["infra", "show", "ring:gpus=4"]) == 0
    assert "gpus: 4" in capsys.readouterr().out
    assert main(["infra", "check", "dgx-h100"]) == 0
    assert capsys.readouterr().out


def test_infra_list(capsys):
    assert main(["infra", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "dgx-h20              NVIDIA HGX H20: 8 GPUs, 4 NVSwitches" in lines
    assert main(["infra", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["blueprint"] for one in listed if one["blueprint"].startswith("gb200")] == [
        "gb200-nvl72:trays=18"
    ]


def test_draw(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["infra", "draw", "ring:gpus=4"]) == 0
    (file,) = tmp_path.glob("*.svg")
    assert capsys.readouterr().out.strip() == file.name
    assert main(["infra", "draw", "ring:gpus=4", "--output", "ring.html", "--dark"]) == 0
    assert "GPU3" in Path("ring.html").read_text()
    capsys.readouterr()
    assert main(["infra", "draw", "ring:gpus=4", "--output", "ring.gif"]) == 2
    assert capsys.readouterr().err == "astranb: ring.gif: unknown file extension '.gif'; use .svg or .html\n"
    assert main(["infra", "draw", "ring:gpus=4", "-o", "ring.svg", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": "ring.svg"}
