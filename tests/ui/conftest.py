"""Fixtures of the browser tests; what they start and do stands in ``harness.py``.

lab : Lab
    One server for the whole session, started by ``astranb lab`` in a temporary folder that
    holds copies of the notebooks, with configuration folders of its own.
browser : playwright Browser
    One Chromium for the whole session.
page : playwright Page
    A fresh tab for each test, without cookies or storage. At the end of the test it fails
    where the page asked another host for anything, raised an error or logged one. A failing
    test leaves ``build/ui/<test>.png`` and ``.log``.
record : Record
    What that tab asked for and logged so far.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.ui.harness import PICTURES, TIMEOUT_S, Lab, Record, chromium, end_kernels, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder as ``ui``."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ui)


# Five seconds by default: too short for a page that shares two cores with another test's kernel.
expect.set_options(timeout=TIMEOUT_S * 1000 / 2)

_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Let fixtures know, when they end, whether the test failed."""
    report = yield
    if report.when == "call":
        item.stash[_failed] = report.failed
    return report


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One server for all tests."""
    with serve(tmp_path_factory.mktemp("jupyter"), tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def record() -> Record:
    """What the page of this test does."""
    return Record()


@pytest.fixture
def page(browser: Browser, lab: Lab, record: Record, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Open a tab that is watched, and see at the end that it did nothing wrong."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, locale="en-US")
    context.set_default_timeout(TIMEOUT_S * 1000)
    context.on("page", record.watch)  # tabs that the page opens, too
    page = context.new_page()
    try:
        yield page
        wrong = [*record.errors, *(f"asked for {url}" for url in record.external)]
        if wrong or request.node.stash.get(_failed, True):
            PICTURES.mkdir(parents=True, exist_ok=True)
            name = PICTURES / re.sub(r"[^\w.-]+", "-", request.node.name)
            page.screenshot(path=f"{name}.png")
            Path(f"{name}.log").write_text("\n".join([*record.console, *wrong, ""]))
        assert not wrong, "\n".join(wrong)
    finally:
        context.close()
        end_kernels(lab)  # what a test left running must not slow the next one
