"""Notebooks with pictures: behind a cell that shows something stands what it showed.

Notebooks are committed without pictures; ``scripts/lesson_pictures.py`` takes them in a real
JupyterLab, one a cell, into ``docs/lessons/NOTEBOOK/CELL.png``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def with_pictures(notebook: dict[str, Any], folder: Path, address: str) -> dict[str, Any]:
    """Give a notebook with a picture behind every cell that has one in the folder."""
    cells = []
    for cell in notebook["cells"]:
        cells.append(cell)
        name = f"{cell.get('id', '')}.png"
        if (folder / name).is_file():
            text = f"![What the cell shows]({address}/{name})"
            cells.append({"cell_type": "markdown", "id": f"{cell['id']}-p", "metadata": {}, "source": text})
    return {**notebook, "cells": cells}


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(name))
    if path.suffix == ".ipynb":
        folder = Path(app.srcdir) / "docs" / "lessons" / path.stem
        source[0] = json.dumps(with_pictures(json.loads(source[0]), folder, f"/docs/lessons/{path.stem}"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
