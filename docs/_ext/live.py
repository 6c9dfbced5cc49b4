"""Live workbenches of the site: behind the cell of a notebook with the tag ``live`` stands what it shows.

``<!-- live: NOTEBOOK -->`` on a page shows that of a notebook, too.
The build runs the notebook's cells up to that one (``scripts/live_page.py``) and writes a page that
simulates by itself. A page is kept in ``build/live`` until its notebook or the package has changed.
What it makes of a notebook is tested without Sphinx, which `make test` does not install.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.live_page import central

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_FOLDERS = ("tutorials", "notebooks")
_KEPT = Path("build", "live")
_AT_ONCE = 2
_MARK = re.compile(r"^<!-- live: (\w+) -->$", re.MULTILINE)
_SOURCES = ("*.py", "*.js", "*.css")


def live_notebooks(root: Path) -> dict[str, Path]:
    """Find the notebooks with a live cell, by their names."""
    files = (file for folder in _FOLDERS for file in sorted((root / folder).rglob("*.ipynb")))
    return {
        file.stem: file
        for file in files
        if ".ipynb_checkpoints" not in file.parts and central(json.loads(file.read_text("utf-8"))) >= 0
    }


def framed(address: str, title: str) -> str:
    """Give the Markdown that shows a live page within another one."""
    frame = f'<iframe class="live" src="{escape(address)}" title="{escape(title)}" loading="lazy"></iframe>'
    link = f'<p class="live-link"><a href="{escape(address)}">Open it in a window of its own</a></p>'
    return f"```{{raw}} html\n{frame}\n{link}\n```"


def with_live(notebook: dict[str, Any], address: str, title: str) -> dict[str, Any]:
    """Give a notebook with a frame behind its live cell, in the place of a picture."""
    at = central(notebook)
    if at < 0:
        return notebook
    text = framed(address, title)
    cells = list(notebook["cells"])
    behind = at + 1
    if behind < len(cells) and cells[behind].get("id") == f"{cells[at].get('id')}-p":
        del cells[behind]
    cells.insert(behind, {"cell_type": "markdown", "id": "live", "metadata": {}, "source": text})
    return {**notebook, "cells": cells}


def _sources(root: Path) -> bytes:
    """Hash what a page depends on besides its notebook."""
    digest = hashlib.blake2b()
    for pattern in _SOURCES:
        for file in sorted((root / "astranb").rglob(pattern)):
            digest.update(file.read_bytes())
    return digest.digest()


def _make(root: Path, sources: bytes, name: str, file: Path) -> str:
    """Write a page unless it is there; returns what went wrong."""
    page, mark = root / _KEPT / f"{name}.html", root / _KEPT / f"{name}.hash"
    wanted = hashlib.blake2b(sources + file.read_bytes()).hexdigest()
    if page.exists() and mark.exists() and mark.read_text() == wanted:
        return ""
    command = [sys.executable, "-m", "scripts.live_page", str(file), str(page)]
    done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it failed without a word"])[-1]
    mark.write_text(wanted)
    return ""


def _build(app: Sphinx) -> None:
    from sphinx.util import logging

    if app.builder.format != "html":
        return
    log = logging.getLogger(__name__)
    root = Path(app.srcdir)
    found = live_notebooks(root)
    sources = _sources(root)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        made = pool.map(lambda one: _make(root, sources, *one), found.items())
        for (name, _), wrong in zip(found.items(), made, strict=True):
            if wrong:
                log.warning("the live page of %s cannot be made: %s", name, wrong)


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    page, up = Path(app.env.doc2path(name)), "../" * name.count("/")
    if page.suffix == ".md":
        source[0] = _MARK.sub(
            lambda of: framed(f"{up}live/{of[1]}.html", f"The workbench of {of[1]}"), source[0]
        )
    elif page.suffix == ".ipynb":
        title = f"The workbench of {page.stem}"
        source[0] = json.dumps(with_live(json.loads(source[0]), f"{up}live/{page.stem}.html", title))


def _finish(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    to = Path(app.outdir, "live")
    to.mkdir(exist_ok=True)
    for page in sorted(Path(app.srcdir, _KEPT).glob("*.html")):
        shutil.copyfile(page, to / page.name)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx; pictures of notebooks are in place before (``lessons``)."""
    app.connect("builder-inited", _build)
    app.connect("source-read", _read, priority=600)
    app.connect("build-finished", _finish, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
