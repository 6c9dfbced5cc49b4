"""The two hosts of a workbench, for tests that hold in both: a notebook's cell, and a page that simulates.

What a person does and sees is the same in both; how a test asks Python differs. In a notebook it asks the
kernel. Of a page it reads the file that its button Save gives, and what it changes there, the page opens: so
these tests also prove that the state travels.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

import astranb as anb
from tests.ui.harness import Host, Lab, Theme, evaluate, open_notebook, run_cell, set_theme

__all__ = ["LivePage", "Notebook"]


class Notebook(Host):
    """A workbench in a cell of a notebook."""

    def __init__(self, page: Page, lab: Lab, *later: str) -> None:
        self.page = page
        self.lab = lab
        self.later = later  # cells that the notebook has, too; a test runs them

    def show(self, *cells: str, width: int = 1400, height: int = 1500) -> Locator:
        self.page.set_viewport_size({"width": width, "height": height})
        open_notebook(self.page, self.lab, [*cells, *self.later])
        for number in range(len(cells)):
            run_cell(self.page, number)
        return self._shown()

    def evaluate(self, expression: str) -> Any:
        return evaluate(self.page, expression)

    def change(self, expression: str) -> None:
        evaluate(self.page, f"[{expression}] and None")

    def set_theme(self, theme: Theme) -> None:
        set_theme(self.page, theme)


class LivePage(Host):
    """A workbench in a page, opened as a file without any network."""

    prefix = "live-"

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.scope: dict[str, Any] = {}
        self.files = 0

    def show(self, *cells: str, width: int = 1400, height: int = 1500) -> Locator:
        self.page.set_viewport_size({"width": width, "height": height})
        for cell in cells:
            exec(cell, self.scope)
        workbench: anb.Workbench = self.scope["workbench"]
        self.page.goto(workbench.to_html(self.folder / "live.html", live=True).as_uri())
        return self._shown()

    def evaluate(self, expression: str) -> Any:
        self._load()
        return json.loads(json.dumps(eval(expression, self.scope)))  # as it comes from a kernel

    def change(self, expression: str) -> None:
        self._load()
        eval(expression, self.scope)
        file = self._file()
        self.scope["workbench"].save(file)
        self.page.get_by_label("File to open").set_input_files(file)
        expect(self._shown().locator(".anb-status")).to_have_text(f"opened {file.name}")

    def set_theme(self, theme: Theme) -> None:
        self.page.emulate_media(color_scheme=theme)

    def _file(self) -> Path:
        self.files += 1
        return self.folder / f"{self.files}.anb"

    def _load(self) -> None:
        """Read the state that the page saves."""
        with self.page.expect_download() as download:
            self.page.get_by_role("toolbar", name="Page").get_by_role("button", name="Save").click()
        file = self._file()
        download.value.save_as(file)
        workbench = anb.Workbench.load(file)
        self.scope |= {"workbench": workbench, "sim": workbench.sim}
