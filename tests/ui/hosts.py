"""The two hosts of a workbench, for tests that hold in both: a notebook's cell, and a page that simulates.

What a person does and sees is the same in both; how a test asks Python differs. In a notebook it asks the
kernel. Of a page it reads the file that its button Save gives, and what it changes there, the page opens: so
these tests also prove that the state travels.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

import astranb as anb
from tests.ui.harness import Host, Lab, Theme, evaluate, open_notebook, run_cell, set_theme, wait_idle

__all__ = ["IN_BOTH", "LivePage", "Notebook", "open_live", "said", "starting"]

READY_MS = 60_000
"""Time that the Python of a page may take to start, beside other tests."""
LONGEST_CELL_S = 240
"""Time that a cell may take to make a large system."""
IN_BOTH = pytest.mark.parametrize("host", ["notebook", "page"], indirect=True)
"""Of a test that `make test` runs in a page, too; `make test-full` runs all of them there."""


def open_live(page: Page, address: str | Path) -> Locator:
    """Open a page that simulates, and wait until its Python is ready; gives its workbench."""
    page.goto(address.as_uri() if isinstance(address, Path) else address)
    expect(page.locator("#anb-host")).to_have_attribute("data-ready", "true", timeout=READY_MS)
    bench = page.locator(".anb-workbench").first
    expect(bench).to_have_attribute("data-events", re.compile(r"\d+"))
    return bench


def said(page: Page) -> Locator:
    """The status of a page's workbench."""
    return page.locator(".anb-workbench").first.locator(".anb-status").first


def starting(page: Page) -> Locator:
    """Locate the page's report on its Python, above the workbench."""
    return page.locator(".anb-starting")


class Notebook(Host):
    """A workbench in a cell of a notebook."""

    def __init__(self, page: Page, lab: Lab, *later: str) -> None:
        self.page = page
        self.lab = lab
        self.later = later  # cells that the notebook has, too; a test runs them
        self.shown = 0  # the cell that shows the workbench

    def show(self, *cells: str, width: int = 1400, height: int = 1500) -> Locator:
        self.page.set_viewport_size({"width": width, "height": height})
        open_notebook(self.page, self.lab, [*cells, *self.later])
        for number in range(len(cells)):
            run_cell(self.page, number, wait=False)
            wait_idle(self.page, timeout_s=LONGEST_CELL_S)
        self.shown = len(cells) - 1
        return self._shown()

    def evaluate(self, expression: str) -> Any:
        return evaluate(self.page, expression)

    def known(self, expression: str) -> Any:
        return self.evaluate(expression)

    def change(self, expression: str) -> None:
        evaluate(self.page, f"[{expression}] and None")

    def afresh(self, expression: str) -> Locator:
        self.change(expression)
        run_cell(self.page, self.shown)
        return self._shown()

    def again(self) -> Locator:
        evaluate(self.page, "workbench.save('again.anb')")
        self.page.evaluate(
            """source => {
                const { content } = window.jupyterapp.shell.currentWidget
                content.activeCellIndex = content.widgets.length - 1
                return window.jupyterapp.commands.execute("notebook:insert-cell-below").then(() => {
                    content.activeCell.model.sharedModel.setSource(source)
                })
            }""",
            "again = anb.Workbench.load('again.anb')\nagain",
        )
        run_cell(self.page, self.page.locator(".jp-Cell").count() - 1)
        return self.page.locator(".anb-workbench").last

    def set_theme(self, theme: Theme) -> None:
        set_theme(self.page, theme)


class LivePage(Host):
    """A workbench in a page, opened as a file without any network."""

    prefix = "live-"

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.scope: dict[str, Any] = {}
        self.last = ""  # the cell that makes the workbench
        self.files = 0

    def show(self, *cells: str, width: int = 1400, height: int = 1500) -> Locator:
        self.page.set_viewport_size({"width": width, "height": height})
        for cell in cells:
            exec(cell, self.scope)
        self.last = cells[-1]
        return self._written()

    def _written(self) -> Locator:
        """Write the page, open it, and wait until it is at the present: Save would end its way there."""
        workbench: anb.Workbench = self.scope["workbench"]
        self.files += 1
        file = workbench.to_html(self.folder / f"{self.files}.html", live=True)
        open_live(self.page, file)
        bench = self._shown()
        expect(bench).to_have_attribute("data-events", str(workbench.sim.events))
        return bench

    def evaluate(self, expression: str) -> Any:
        self._load()
        return self.known(expression)

    def known(self, expression: str) -> Any:
        return json.loads(json.dumps(eval(expression, self.scope)))  # as it comes from a kernel

    def change(self, expression: str) -> None:
        self._load()
        eval(expression, self.scope)
        file = self._file()
        workbench = self.scope["workbench"]
        workbench._note()
        workbench.sim.save(file)
        self.page.get_by_label("File to open").set_input_files(file)
        expect(said(self.page)).to_have_text(f"opened {file.name}")

    def afresh(self, expression: str) -> Locator:
        eval(expression, self.scope)
        exec(self.last, self.scope)
        return self._written()

    def again(self) -> Locator:
        self._load()
        return self._written()

    def set_theme(self, theme: Theme) -> None:
        self.page.emulate_media(color_scheme=theme)

    def _file(self) -> Path:
        self.files += 1
        return self.folder / f"{self.files}.anb"

    def _load(self) -> None:
        """Read the state that the page saves; neither the focus nor the mouse moves for it."""
        save = self.page.get_by_role("toolbar", name="Page").get_by_role("button", name="Save")
        with self.page.expect_download() as download:
            save.evaluate("button => button.click()")
        file = self._file()
        download.value.save_as(file)
        workbench = anb.Workbench.load(file)
        self.scope |= {"workbench": workbench, "sim": workbench.sim}
