"""Lessons in JupyterLite: how soon the first cell is answered, how long a lesson takes, what a tab holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scripts.lite.__main__ import main as build
from scripts.lite.site import NOTEBOOKS
from tests.lite.browser import run_to_its_end
from tests.ui.harness import REPOSITORY, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.ui.harness import Lab

__all__ = ["lite"]

_FIRST_LIMIT_S = 15.0


def lite(chrome: Browser, _lab: Lab, row: Callable[..., None]) -> None:
    """Add the rows of every notebook of the site, each in a tab that has stored nothing."""
    build()
    with served(REPOSITORY / "build" / "lite") as address:
        for notebook in NOTEBOOKS:
            context = chrome.new_context(viewport={"width": 1280, "height": 720})
            done = run_to_its_end(context.new_page(), address, notebook)
            context.close()
            limit, ratio = f"the limit of {_FIRST_LIMIT_S:g} s", done.first_s / _FIRST_LIMIT_S
            row(f"{notebook} in JupyterLite to its first answer", done.first_s, "s", limit, ratio)
            row("  to its end", done.all_s, "s")
            row("  memory of the tab", done.memory_bytes / 1e6, "MB")
