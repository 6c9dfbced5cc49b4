"""The workbench under voila: a notebook as a page, with a kernel behind it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.ui.harness import TIMEOUT_S, Record, free_port
from tests.ui.test_workbench import MAKE, SHOW, button, shown

FONTS = r"cdn\.jsdelivr\.net/npm/@fortawesome/"
"""Voila's own template asks for the letters of its icons there; it shows none without."""


@pytest.fixture
def voila(tmp_path: Path) -> Iterator[str]:
    """Serve a notebook with a workbench; gives the page's address."""
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
        for source in (MAKE.format(size="64 KiB"), SHOW)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    document = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
    notebook = tmp_path / "app.ipynb"
    notebook.write_text(json.dumps(document))
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    for name in folders:
        (tmp_path / name).mkdir()
    url = f"http://127.0.0.1:{(port := free_port())}"
    log = (tmp_path / "voila.log").open("w")
    server = subprocess.Popen(
        (
            sys.executable,
            "-m",
            "voila",
            str(notebook),
            "--no-browser",
            f"--port={port}",
            "--Voila.ip=127.0.0.1",
        ),
        env={**os.environ, **{name: str(tmp_path / name) for name in folders}},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(f"{url}/voila/static/voila.js", timeout=1).close()
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "voila.log").read_text()
                assert time.monotonic() < until, (tmp_path / "voila.log").read_text()
                time.sleep(0.2)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGINT)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        log.close()


def test_the_workbench_works_under_voila(browser: Browser, record: Record, voila: str) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 1200})
    context.set_default_timeout(TIMEOUT_S * 1000)
    page = context.new_page()
    record.watch(page)
    page.goto(voila)
    bench = page.locator(".anb-workbench")
    expect(bench).to_have_attribute("data-events", "0", timeout=TIMEOUT_S * 1000)
    button(bench, "Event").click()
    shown(bench, 1)
    bench.get_by_label("Steps at once").select_option("1000")
    button(bench, "Event").click()
    shown(bench, 1001)
    button(bench, "Back").click()
    shown(bench, 1)
    button(bench, "End").click()
    expect(bench.locator(".anb-status")).to_contain_text("nothing is left to happen")
    context.close()
    assert [url for url in record.external if not re.search(FONTS, url)] == []
    assert [text for text in record.errors if "ERR_NAME_NOT_RESOLVED" not in text] == []
