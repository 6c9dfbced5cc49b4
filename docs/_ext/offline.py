"""Checks of the built site: pages that fetch nothing, and the page that its folder opens with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FETCHED = re.compile(
    r"<(?:script|img|iframe|source|audio|video)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\"'>\s]*"
    r"|<link\b(?![^>]*rel=[\"']?(?:canonical|search|next|prev|index))[^>]*\bhref=[\"']?(?:https?:)?//[^\"'>\s]*",
    re.IGNORECASE,
)
FETCHED_BY_STYLE = re.compile(r"@import\s[^;]*//[^;]*|url\([\"']?(?:https?:)?//[^)]*")
FRONT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>astranb</title>
<meta http-equiv="refresh" content="0; url=docs/index.html"></head>
<body><a href="docs/index.html">astranb</a></body></html>
"""

_log = logging.getLogger(__name__)


def fetched(text: str, *, style: bool = False) -> list[str]:
    """List what a page (or a style sheet) would fetch from a network when it is opened."""
    return [found[0] for found in (FETCHED_BY_STYLE if style else FETCHED).finditer(text)]


def _finish(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    (out / "index.html").write_text(FRONT, encoding="utf-8")
    for file in sorted(out.rglob("*")):
        if file.suffix in {".html", ".css"}:
            text = file.read_text(encoding="utf-8")
            for what in fetched(text, style=file.suffix == ".css"):
                _log.warning("%s fetches %s", file.relative_to(out), what)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
