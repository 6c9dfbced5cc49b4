"""The harness itself: JupyterLab opens, a widget talks to its kernel, and nothing leaves the machine."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.ui.harness import (
    THEMES,
    TIMEOUT_S,
    Lab,
    Record,
    evaluate,
    open_notebook,
    run_all,
    run_cell,
    screenshot,
    set_theme,
    wait_idle,
)

pytestmark = pytest.mark.fresh_tab

COUNTER = '''
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    export default {
      render({ model, el }) {
        const button = document.createElement("button")
        const show = () => { button.textContent = `count ${model.get("value")}` }
        button.addEventListener("click", () => model.send({ type: "click" }))
        model.on("change:value", show)
        show()
        el.append(button)
      },
    }
    """
    value = traitlets.Int(0).tag(sync=True)

counter = Counter()
counter.on_msg(lambda widget, message, buffers: setattr(widget, "value", widget.value + 1))
'''


def test_a_click_goes_to_the_kernel_and_back(page: Page, lab: Lab, record: Record) -> None:
    open_notebook(page, lab, [COUNTER, "counter"])
    run_all(page)
    button = page.get_by_role("button", name="count 0", exact=True)
    button.click()
    expect(page.get_by_role("button", name="count 1", exact=True)).to_be_visible()
    assert evaluate(page, "counter.value") == 1
    for theme in THEMES:
        set_theme(page, theme)
        style = "getComputedStyle(document.querySelector('.jp-Notebook')).backgroundColor"
        brightness = sum(int(part) for part in re.findall(r"\d+", page.evaluate(style))[:3])
        assert (brightness > 600) == (theme == "light")
        assert screenshot(page, f"harness-{theme}").stat().st_size > 10_000
    assert page.get_by_text("Jupyter news").count() == 0
    assert record.external == []
    assert record.errors == []


def test_what_a_page_does_wrong_is_recorded(page: Page, lab: Lab, record: Record) -> None:
    open_notebook(page, lab, ["1"])
    page.evaluate("fetch('http://192.0.2.1/').catch(() => undefined)")
    page.evaluate("console.error('ours')")
    with page.expect_event("pageerror"):
        page.evaluate("void setTimeout(() => { throw new Error('late') })")
    assert record.external == ["http://192.0.2.1/"]
    assert any(error == "ours" for error in record.errors)
    assert any("late" in error for error in record.errors)
    record.errors.clear()
    record.external.clear()


def test_a_cell_that_raises_fails_the_test(page: Page, lab: Lab) -> None:
    open_notebook(page, lab, ["x = 1", "1 / 0"])
    run_cell(page, 0)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_cell(page, 1)
    with pytest.raises(AssertionError, match="NameError"):
        evaluate(page, "missing")


def test_a_test_can_go_on_while_a_cell_runs(page: Page, lab: Lab) -> None:
    open_notebook(page, lab, ["print('be', 'gun')\nwhile True: pass"])
    run_all(page, wait=False)
    expect(page.get_by_text("be gun", exact=True)).to_be_visible()
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")
    with pytest.raises(AssertionError, match="KeyboardInterrupt"):
        wait_idle(page)


def test_the_command_prints_an_address_that_answers_and_ends_cleanly(tmp_path: Path) -> None:
    notebook = tmp_path / "a b.ipynb"
    notebook.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    command = (sys.executable, "-m", "astranb", "lab", "--no-browser", str(notebook))
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            address = server.stdout.readline().removeprefix("JupyterLab: ").strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/lab/tree/a%20b\.ipynb\?token=\w+", address)
            with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
                settings = answer.read().decode()
            assert "@jupyterlab/apputils-extension:announcements" in settings
            assert '"name": "read-only"' in settings
        finally:
            server.send_signal(signal.SIGINT)
            rest, _ = server.communicate(timeout=TIMEOUT_S)
    assert (server.returncode, rest) == (0, "")
