"""Notebooks are committed small, with the outputs that are compared and no others that matter.

That they run, and print what they printed, is checked by nbval (``make test``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted(
    file
    for folder in ("notebooks", "tutorials")
    for file in (REPOSITORY / folder).rglob("*.ipynb")
    if ".ipynb_checkpoints" not in file.parts
)
LARGEST_OUTPUT = 4096
"""Bytes of JSON that the outputs of one cell may take."""
MOST_LINES = 25
"""Lines that one code cell may have: what a reader sees at once."""
CHECKED = "nbval-check-output"
"""The tag of a cell whose output is compared."""


def _faults(notebook: dict[str, Any]) -> list[str]:
    """List the faults of a notebook that is to be committed."""
    faults = []
    if notebook["metadata"].get("kernelspec", {}).get("name") != "python3":
        faults.append("its kernel is not 'python3'")
    if "widgets" in notebook["metadata"]:
        faults.append("it holds widget state")
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code):
        if cell["outputs"] and cell["execution_count"] is None:
            faults.append(f"code cell {number} has outputs, and was not run")  # nbval fails on it
        size = len(json.dumps(cell["outputs"]))
        if size > LARGEST_OUTPUT:
            faults.append(f"the outputs of code cell {number} take {size} bytes")
        for output in cell["outputs"]:
            kinds = output.get("data", {}).keys()
            faults += [f"code cell {number} holds a picture or view" for kind in kinds if not _is_text(kind)]
        lines = "".join(cell["source"]).splitlines()
        if len(lines) > MOST_LINES:
            faults.append(f"code cell {number} has {len(lines)} lines, more than {MOST_LINES}")
        faults += [
            f"code cell {number} has a comment '{line}'; use a tag" for line in lines if "# NBVAL_" in line
        ]
    checked = [cell for cell in code if CHECKED in cell["metadata"].get("tags", [])]
    if not checked:
        faults.append(f"no cell has the tag '{CHECKED}'")
    faults += ["a cell whose output is to be checked has none" for cell in checked if not cell["outputs"]]
    return faults


def _is_text(kind: str) -> bool:
    return kind.startswith("text/")


def _notebook() -> dict[str, Any]:
    """Make a notebook without a fault."""
    output = {"output_type": "stream", "name": "stdout", "text": ["42\n"]}
    cell = {
        "cell_type": "code",
        "execution_count": 1,
        "metadata": {"tags": [CHECKED]},
        "source": ["print(42)"],
        "outputs": [output],
    }
    return {"metadata": {"kernelspec": {"name": "python3"}}, "cells": [cell]}


def test_there_is_a_tour() -> None:
    assert REPOSITORY / "notebooks" / "tour.ipynb" in NOTEBOOKS


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_fit_to_be_committed(file: Path) -> None:
    assert _faults(json.loads(file.read_text(encoding="utf-8"))) == []


def test_faults_of_a_notebook_are_found() -> None:
    assert _faults(_notebook()) == []

    notebook = _notebook()
    notebook["metadata"] = {"kernelspec": {"name": "venv"}, "widgets": {}}
    assert _faults(notebook) == ["its kernel is not 'python3'", "it holds widget state"]

    notebook = _notebook()
    notebook["cells"][0]["outputs"].append({"data": {"image/png": "x" * LARGEST_OUTPUT}})
    (large, picture) = _faults(notebook)
    assert large.startswith("the outputs of code cell 0 take ")
    assert picture == "code cell 0 holds a picture or view"

    notebook = _notebook()
    notebook["cells"][0]["outputs"] = []
    assert _faults(notebook) == ["a cell whose output is to be checked has none"]

    notebook = _notebook()
    notebook["cells"][0]["execution_count"] = None
    assert _faults(notebook) == ["code cell 0 has outputs, and was not run"]

    notebook = _notebook()
    notebook["cells"][0]["metadata"] = {}
    assert _faults(notebook) == [f"no cell has the tag '{CHECKED}'"]

    notebook = _notebook()
    notebook["cells"][0]["source"] = ["# NBVAL_CHECK_OUTPUT\n", "print(42)\n" * MOST_LINES]
    assert _faults(notebook) == [
        "code cell 0 has 26 lines, more than 25",
        "code cell 0 has a comment '# NBVAL_CHECK_OUTPUT'; use a tag",
    ]
