"""What ``astranb run`` writes besides its numbers."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

from astranb.cli import main

RUN = ["run", "--infra", "switch:gpus=2", "--collective", "all_gather", "--size", "2KiB", "--json"]


def test_a_run_leaves_a_page_a_picture_and_a_trace(tmp_path: Path, capsys) -> None:
    page, drawing, trace = (tmp_path / name for name in ("run.html", "run.svg", "run.json"))
    assert main([*RUN, "--html", str(page), "--svg", str(drawing), "--perfetto", str(trace)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert f"{said['events']:,} events" in page.read_text()
    assert ET.fromstring(drawing.read_text()).tag.endswith("svg")
    assert json.loads(trace.read_text())["otherData"]["events"] == said["events"]
    # What is recorded changes nothing that is simulated.
    assert main(RUN) == 0
    assert json.loads(capsys.readouterr().out)["state_hash"] == said["state_hash"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, capsys) -> None:
    assert main([*RUN, "--svg", str(tmp_path / "no" / "run.svg")]) == 2
    assert "cannot be written" in capsys.readouterr().err
