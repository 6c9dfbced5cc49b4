"""Pictures of the site: behind a cell of a notebook stands what it showed; each suits the page's theme.

Notebooks are committed without pictures; ``scripts/lesson_pictures.py`` takes them in a real
JupyterLab, light and dark, into ``docs/lessons/NOTEBOOK/CELL.png`` and ``CELL.dark.png``. A picture of
any page that has a ``NAME.dark.EXTENSION`` beside it is shown by the theme; elsewhere, as on GitHub,
the page shows the light one.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_PICTURE = re.compile(r"^!\[(?P<alt>[^\]]*)\]\((?P<address>[^)\s]+)\)$", re.MULTILINE)


def with_pictures(notebook: dict[str, Any], folder: Path, address: str) -> dict[str, Any]:
    """Return a notebook with a picture behind every cell that has one in the folder."""
    cells = []
    for cell in notebook["cells"]:
        cells.append(cell)
        name = f"{cell.get('id', '')}.png"
        if (folder / name).is_file():
            text = f"![What the cell shows]({address}/{name})"
            cells.append({"cell_type": "markdown", "id": f"{cell['id']}-p", "metadata": {}, "source": text})
    return {**notebook, "cells": cells}


def themed(text: str, page: Path, root: Path) -> str:
    """Return Markdown whose pictures follow the theme, where there is a dark one."""

    def both(found: re.Match[str]) -> str:
        light = found["address"]
        start, dot, extension = light.rpartition(".")
        dark = f"{start}.dark{dot}{extension}"
        file = root / dark[1:] if dark.startswith("/") else page.parent / dark
        if not file.is_file():
            return found[0]
        return "\n".join(
            f"```{{image}} {address}\n:alt: {found['alt']}\n:class: only-{theme}\n```"
            for theme, address in (("light", light), ("dark", dark))
        )

    return _PICTURE.sub(both, text)


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    page, root = Path(app.env.doc2path(name)), Path(app.srcdir)
    if page.suffix == ".md":
        source[0] = themed(source[0], page, root)
    elif page.suffix == ".ipynb":
        folder = root / "docs" / "lessons" / page.stem
        notebook = with_pictures(json.loads(source[0]), folder, f"/docs/lessons/{page.stem}")
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = themed("".join(cell["source"]), page, root)
        source[0] = json.dumps(notebook)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
