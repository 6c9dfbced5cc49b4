"""Fixtures of the browser tests; what they start and do stands in ``harness.py``.

lab : Lab
    One server for the whole session, started by ``astranb lab`` in a temporary folder that
    holds copies of the notebooks, with configuration folders of its own.
browser : playwright Browser
    One Chromium for the whole session.
page : playwright Page
    A tab, without the notebooks, kernels and storage of other tests. As loading JupyterLab takes about as
    long as a test, most have one tab, one after the other, and open their notebooks in it; those marked
    ``fresh_tab`` have a tab of their own, and the one after a failure gets a new one. At the end of the test
    it fails where the page asked another host for anything, raised an error or logged one. A failing test
    leaves ``build/ui/<test>.png`` and ``.log``.
record : Record
    What that tab asked for and logged so far.
alone : playwright Page
    A tab without any network, for pages opened as files.
host : Host
    Where a workbench is: first in a notebook, and then in a page that simulates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.ui.harness import (
    PICTURES,
    TIMEOUT_S,
    Host,
    Lab,
    Record,
    chromium,
    close_notebooks,
    end_kernels,
    serve,
)
from tests.ui.hosts import LivePage, Notebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request


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
    """Store whether the test failed, for fixtures to read when they end."""
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
    """Record of the activity of this test's page."""
    return Record()


@pytest.fixture(scope="session")
def tabs() -> list[Page]:
    """The tab of all tests that are not marked ``fresh_tab``, where there is one."""
    return []


@pytest.fixture
def page(
    browser: Browser, lab: Lab, record: Record, tabs: list[Page], request: pytest.FixtureRequest
) -> Iterator[Page]:
    """Return a tab that is watched, and see at the end that it did nothing wrong."""
    shared = request.node.get_closest_marker("fresh_tab") is None
    page = tabs.pop() if shared and tabs else _tab(browser)
    page.context.on("page", record.watch)  # tabs that the page opens, too
    record.watch(page)
    good = False
    try:
        yield page
        wrong = [*record.errors, *(f"asked for {url}" for url in record.external)]
        good = not wrong and not request.node.stash.get(_failed, True)
        if not good:
            _keep(page, record, request.node, wrong)
        assert not wrong, "\n".join(wrong)
    finally:
        if shared and good:
            close_notebooks(page)
            record.over = True
            tabs.append(page)
        else:
            page.context.close()
        end_kernels(lab)  # what a test left running must not slow the next one


def _keep(page: Page, record: Record, test: pytest.Item, wrong: list[str]) -> None:
    """Leave a picture of a page whose test fails, and what the page logged."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    name = PICTURES / re.sub(r"[^\w.-]+", "-", test.name)
    page.screenshot(path=f"{name}.png")
    Path(f"{name}.log").write_text("\n".join([*record.console, *wrong, ""]))


@pytest.fixture
def alone(browser: Browser, record: Record, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Open a tab without any network, and see that the page neither fails nor asks for anything."""
    context = browser.new_context(viewport={"width": 1400, "height": 1100}, offline=True)
    context.set_default_timeout(TIMEOUT_S * 1000)
    page = context.new_page()
    record.watch(page)
    asked: list[str] = []

    def note(request: Request) -> None:
        if not request.is_navigation_request():
            asked.append(request.url)

    page.on("request", note)
    page.on("dialog", lambda dialog: record.errors.append(f"a dialog: {dialog.message}"))
    yield page
    wrong = [*record.errors, *(f"asked for {url}" for url in asked if not url.startswith("blob:"))]
    if wrong or request.node.stash.get(_failed, True):
        _keep(page, record, request.node, wrong)
    context.close()
    assert not wrong, "\n".join(wrong)


@pytest.fixture(params=["notebook", pytest.param("page", marks=pytest.mark.slow)])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """Return a notebook, and then a page that simulates: what a test does holds in both (`IN_BOTH`)."""
    if request.param == "notebook":
        return Notebook(request.getfixturevalue("page"), request.getfixturevalue("lab"))
    return LivePage(request.getfixturevalue("alone"), tmp_path)


def _tab(browser: Browser) -> Page:
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, locale="en-US")
    context.set_default_timeout(TIMEOUT_S * 1000)
    return context.new_page()
