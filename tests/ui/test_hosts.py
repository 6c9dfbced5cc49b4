"""The workbench where there is no JupyterLab: Notebook 7, marimo, and voila (a notebook as a page)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.ui.harness import TIMEOUT_S, Record, free_port
from tests.ui.test_workbench import MAKE, SHOW, button, shown

FONTS = r"cdn\.jsdelivr\.net/npm/@fortawesome/"
"""Voila's own template asks for the letters of its icons there; it shows none without."""
HARMLESS = {
    # About those letters, and about Notebook 7's extension of JupyterLab, which it cannot load.
    "voila": r"ERR_NAME_NOT_RESOLVED|@jupyter-notebook/lab-extension",
    "notebook": r"reading 'schema'",  # it raises that at times before anything is opened
}
"""Errors that they log by themselves."""

CELLS = (MAKE.format(size="64 KiB"), SHOW)


def write_notebook(folder: Path) -> Path:
    """Write a notebook with a workbench."""
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
        for source in CELLS
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = folder / "app.ipynb"
    notebook.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}))
    return notebook


def write_marimo(folder: Path) -> Path:
    """Write the same for marimo, whose notebooks are Python files."""
    body = "\n".join(f"    {line}" for cell in CELLS for line in cell.splitlines())
    notebook = folder / "app.py"
    notebook.write_text(
        f"import marimo\n\napp = marimo.App(width='full')\n\n\n@app.cell\ndef _():\n{body}\n    return\n"
    )
    return notebook


@contextmanager
def running(folder: Path, command: Sequence[str], url: str) -> Iterator[None]:
    """Start a server with folders of its own, wait until it answers, and end it."""
    names = (
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_DATA_DIR",
        "JUPYTER_RUNTIME_DIR",
        "IPYTHONDIR",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
    )
    for name in names:
        (folder / name).mkdir()
    log = folder / "server.log"
    with log.open("w") as written:
        server = subprocess.Popen(
            (sys.executable, "-m", *command),
            cwd=folder,
            env={**os.environ, **{name: str(folder / name) for name in names}},
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(url, timeout=1).close()
                break
            except OSError:
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.2)
        yield
    finally:
        os.killpg(server.pid, signal.SIGINT)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


Host = tuple[Callable[[Path], Path], Callable[[str, int], Sequence[str]], str, str]
"""Writer of the notebook; the command; the address that answers once the server is up; the page."""

HOSTS: dict[str, Host] = {
    "voila": (
        write_notebook,
        lambda file, port: ("voila", file, "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1"),
        "/voila/static/voila.js",
        "/",
    ),
    "notebook": (
        write_notebook,
        lambda _, port: (
            *("notebook", "--no-browser", f"--port={port}", "--ServerApp.ip=127.0.0.1", "--allow-root"),
            *("--IdentityProvider.token=secret", "--ServerApp.websocket_ping_interval=0"),
        ),
        "/api/status?token=secret",
        "/notebooks/app.ipynb?token=secret",
    ),
    "marimo": (
        write_marimo,
        lambda file, port: (
            "marimo",
            "run",
            file,
            "--headless",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--no-token",
        ),
        "/health",
        "/",
    ),
}


@pytest.fixture(params=HOSTS)
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, browser: Browser, record: Record
) -> Iterator[Locator]:
    """Show a workbench in one of them; afterwards nothing else has been asked for, and nothing failed."""
    write, command, up, address = HOSTS[request.param]
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running(tmp_path, command(str(write(tmp_path)), port), url + up):
        context = browser.new_context(viewport={"width": 1400, "height": 1200}, locale="en-US")
        context.set_default_timeout(TIMEOUT_S * 1000)
        page = context.new_page()
        record.watch(page)
        page.goto(url + address)
        if request.param == "notebook":
            run_all_cells(page)
        yield page.locator(".anb-workbench")
        context.close()
    assert [url for url in record.external if request.param != "voila" or not re.search(FONTS, url)] == []
    harmless = HARMLESS.get(request.param, "(?!)")
    assert [text for text in record.errors if not re.search(harmless, text)] == []


def run_all_cells(page: Page) -> None:
    """Choose it from the menu, again where the notebook was not ready for it."""
    expect(page.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute("data-status", "idle")
    prompt, dialog = page.locator(".jp-InputPrompt").first, page.locator(".jp-Dialog")
    until_s, again_s = time.monotonic() + TIMEOUT_S, 0.0
    while not page.locator(".anb-workbench").count():  # a kernel that is not ready forgets what was to run
        assert time.monotonic() < until_s, "no workbench is shown"
        if dialog.count():
            page.keyboard.press("Escape")
            again_s = 0.0
        elif prompt.inner_text() == "[ ]:" and time.monotonic() > again_s:
            page.get_by_role("menuitem", name="Run", exact=True).click()
            page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
            again_s = time.monotonic() + 10
        page.wait_for_timeout(100)


def test_the_workbench_opens_plays_and_steps(bench: Locator) -> None:
    expect(bench).to_have_attribute("data-events", "0", timeout=TIMEOUT_S * 1000)
    button(bench, "Event").click()
    shown(bench, 1)
    bench.get_by_label("Steps at once").select_option("1000")
    button(bench, "Event").click()
    shown(bench, 1001)
    button(bench, "Back").click()
    shown(bench, 1)
    button(bench, "Play").click()
    expect(bench).to_have_attribute("data-dots", re.compile(r"[1-9]"))
    button(bench, "Pause").click()
    button(bench, "End").click()
    expect(bench.locator(".anb-status")).to_contain_text("nothing is left to happen")
