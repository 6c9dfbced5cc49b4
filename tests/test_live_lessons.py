"""The documentation site shows each lesson's central workbench as a page that simulates."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
LESSONS = [*sorted((ROOT / "tutorials").glob("*.ipynb")), ROOT / "notebooks" / "tour.ipynb"]


@pytest.fixture(scope="module")
def live() -> Any:
    spec = importlib.util.spec_from_file_location("live", ROOT / "docs" / "_ext" / "live.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_one_live_cell_that_shows_a_workbench(lesson, live):
    notebook = json.loads(lesson.read_text("utf-8"))
    tagged = [cell for cell in notebook["cells"] if "live" in cell["metadata"].get("tags", ())]
    assert len(tagged) == 1
    assert "Workbench(" in "".join(tagged[0]["source"])
    assert lesson.stem in live.live_notebooks(ROOT)


def test_a_frame_takes_the_place_of_the_picture_behind_the_cell(live):
    notebook = {
        "cells": [
            {"id": "a", "cell_type": "code", "metadata": {"tags": ["live"]}, "source": "bench"},
            {"id": "a-p", "cell_type": "markdown", "metadata": {}, "source": "![What the cell shows](a.png)"},
            {"id": "b", "cell_type": "markdown", "metadata": {}, "source": "then"},
        ]
    }
    shown = live.with_live(notebook, 'live/"x".html', "The workbench of x")["cells"]
    assert [cell["id"] for cell in shown] == ["a", "live", "b"]
    assert 'src="live/&quot;x&quot;.html"' in shown[1]["source"]
    assert live.with_live({"cells": notebook["cells"][2:]}, "x", "x")["cells"] == notebook["cells"][2:]


def test_a_notebook_becomes_a_page(tmp_path):
    page = tmp_path / "tour.html"
    command = [sys.executable, "-m", "scripts.live_page", str(LESSONS[0]), str(page)]
    subprocess.run(command, check=True, cwd=ROOT)
    text = page.read_text("utf-8")
    assert "wasm-unsafe-eval" in text
    assert len(text) < 1_500_000


def test_a_notebook_without_a_live_cell_is_refused(tmp_path):
    notebook = tmp_path / "none.ipynb"
    notebook.write_text(json.dumps({"cells": []}))
    command = [sys.executable, "-m", "scripts.live_page", str(notebook), str(tmp_path / "page.html")]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no cell has the tag “live”" in done.stderr
