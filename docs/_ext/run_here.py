"""Links into JupyterLite: at the top of each notebook that runs in a browser stands "Run it here".

``<!-- run here: notebooks/tour.ipynb -->`` is that link on another page. The notebooks' own site
(``make lite``) lies within this one, in ``lite/``: it is put there where it has been built, else a page says
how it is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from scripts.lite.site import NOTEBOOKS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_BUILT = Path("build", "lite")
_MARK = re.compile(r"^<!-- run here: (?P<notebook>[\w./-]+) -->$", re.MULTILINE)
_MISSING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>astranb</title></head>
<body><p>This copy of the site was built without the notebooks that run in the browser:
<code>make lite docs</code> builds both.</p></body></html>
"""


def link(notebook: str, up: str) -> str:
    """Return the Markdown of the link to a notebook; `up` leads from the page to the site's folder."""
    address = f"{up}lite/lab/index.html?path={quote(notebook)}"
    words = "in this browser: JupyterLab, the simulator and Python, with nothing installed."
    return f'```{{raw}} html\n<p class="run-here"><a href="{address}">Run it here</a> {words}</p>\n```'


def with_link(notebook: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a notebook with a text behind the title in its first cell."""
    first, *others = notebook["cells"]
    title, end, rest = "".join(first["source"]).partition("\n")
    return {**notebook, "cells": [{**first, "source": f"{title}\n\n{text}\n{end}{rest}"}, *others]}


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    page, root = Path(app.env.doc2path(name)), Path(app.srcdir)
    up, place = "../" * name.count("/"), page.relative_to(root).as_posix()
    if page.suffix == ".md":
        source[0] = _MARK.sub(lambda found: link(found["notebook"], up), source[0])
    elif place in NOTEBOOKS:
        source[0] = json.dumps(with_link(json.loads(source[0]), link(place, up)))


def _finish(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    built, to = Path(app.srcdir) / _BUILT, Path(app.outdir, "lite")
    shutil.rmtree(to, ignore_errors=True)
    if built.is_dir():
        shutil.copytree(built, to, copy_function=os.link)
    else:
        (to / "lab").mkdir(parents=True)
        (to / "lab" / "index.html").write_text(_MISSING, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx; what the pages fetch is checked before (``offline``)."""
    app.connect("source-read", _read, priority=600)
    app.connect("build-finished", _finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
