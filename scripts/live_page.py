"""Write the live page of a notebook: its cells are run up to the one with the tag ``live``.

    python -m scripts.live_page NOTEBOOK PAGE

What the cell shows, a workbench, becomes the page. The documentation site does it for each lesson.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

__all__ = ["central", "main"]


def central(notebook: dict[str, Any]) -> int:
    """Give the place of the cell with the tag ``live``; -1 where no cell has it."""
    tagged = (at for at, cell in enumerate(notebook["cells"]) if "live" in cell["metadata"].get("tags", ()))
    return next(tagged, -1)


def main(notebook: str, page: str) -> None:
    """Run the cells and write the page."""
    from IPython.core.interactiveshell import InteractiveShell

    target = Path(page).resolve()
    cells = json.loads(Path(notebook).read_text("utf-8"))
    last = central(cells)
    if last < 0:
        raise SystemExit(f"{notebook}: no cell has the tag “live”")
    os.chdir(Path(notebook).parent)
    sys.path.insert(0, "")
    shell = InteractiveShell.instance()  # before astranb, which gives it a magic
    from astranb.export import figures

    figures.show = lambda _figure: None  # there is no notebook to show one in
    shown = None
    for cell in cells["cells"][: last + 1]:
        if cell["cell_type"] != "code":
            continue
        text = "".join(cell["source"])
        with redirect_stdout(StringIO()):
            done = shell.run_cell(text)
        if not done.success and "NBVAL_RAISES_EXCEPTION" not in text:
            done.raise_error()
        shown = done.result
    if not hasattr(shown, "to_html"):
        raise SystemExit(f"{notebook}: the cell with the tag “live” shows no workbench")
    target.parent.mkdir(parents=True, exist_ok=True)
    shown.to_html(target, live=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
