"""The site of `make lite` in a real Chromium: a folder that is served, and a notebook run to its end."""

from __future__ import annotations

import re
import time
from configparser import ConfigParser
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.ui.harness import REPOSITORY, execute, largest_tab, run_all, wait_idle

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["Finished", "open_here", "run_to_its_end", "said"]

_VIEW = "application/vnd.jupyter.widget-view+json"
TIMEOUT_S = 600
"""Time that a notebook may take on a machine that does other things, too."""


@dataclass(frozen=True)
class Finished:
    """A notebook that has run.

    Attributes
    ----------
    cells : list of dict
        Its cells with their outputs, as a file would have them.
    first_s : float
        From the address to the end of the first cell.
    all_s : float
        From the address to the end of the last one.
    memory_bytes : int
        What the largest process of a tab holds then.
    """

    cells: list[dict[str, Any]]
    first_s: float
    all_s: float
    memory_bytes: int


def open_here(page: Page, address: str, notebook: str) -> None:
    """Open a notebook at its own address, as the links of the documentation do; its kernel is ready then."""
    page.goto(f"{address}/lab/index.html?path={quote(notebook)}", timeout=TIMEOUT_S * 1000)
    page.wait_for_function(
        """path => {
            const panel = window.jupyterapp?.shell.currentWidget
            return panel?.context?.path === path && panel.sessionContext?.isReady
        }""",
        arg=notebook,
        timeout=TIMEOUT_S * 1000,
    )


def run_to_its_end(page: Page, address: str, notebook: str) -> Finished:
    """Open a notebook and run all of its cells.

    Raises
    ------
    AssertionError
        A cell has raised that is not tagged ``raises-exception``; the message is the traceback.
    """
    began = time.perf_counter()
    open_here(page, address, notebook)
    execute(page, "import os; os.environ['TQDM_DISABLE'] = '1'")  # outputs that do not depend on speed
    run_all(page, wait=False)
    page.wait_for_function(
        """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
            .some(cell => cell.type === 'code' && cell.executionState === 'idle' && cell.executionCount)""",
        timeout=TIMEOUT_S * 1000,
    )
    first_s = time.perf_counter() - began
    # JupyterLab takes a cell that raises on purpose for the end of a run, while its kernel goes on.
    page.wait_for_function(
        """() => {
            const cells = [...window.jupyterapp.shell.currentWidget.content.model.cells]
                .filter(cell => cell.type === 'code')
            const wrong = cell => !(cell.getMetadata('tags') ?? []).includes('raises-exception')
                && cell.outputs.toJSON().some(output => output.output_type === 'error')
            return cells.every(cell => cell.executionCount) || cells.some(wrong)
        }""",
        timeout=TIMEOUT_S * 1000,
    )
    wait_idle(page, timeout_s=TIMEOUT_S)
    all_s = time.perf_counter() - began
    model = page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.toJSON()")
    return Finished(model["cells"], first_s, all_s, largest_tab())


def said(cell: dict[str, Any]) -> list[str]:
    """Return what a cell has said in words, whatever pieces it came in."""
    words: list[tuple[str, str]] = []
    for output in cell["outputs"]:
        if _VIEW in output.get("data", ()):
            continue
        if output["output_type"] == "stream":
            kind, text = output["name"], "".join(output["text"])
        elif output["output_type"] == "error":
            kind, text = "error", f"{output['ename']}: {output['evalue']}"
        else:
            kind, text = "data", "".join(output["data"].get("text/plain", ""))
        if words and words[-1][0] == kind != "data":
            words[-1] = kind, words[-1][1] + text
        else:
            words.append((kind, text))
    return [_alike(f"{kind}: {text}") for kind, text in words]


def _alike(text: str) -> str:
    """Return a text without what differs between programs that run notebooks (`tests/notebooks.cfg`)."""
    rules = ConfigParser(interpolation=None)
    rules.read(REPOSITORY / "tests/notebooks.cfg", encoding="utf-8")
    for name in rules.sections():
        text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
    return text
