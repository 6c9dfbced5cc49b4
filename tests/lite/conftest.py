"""Fixtures of the tests in JupyterLite.

site : str
    The address of the site of `make lite`, which is built where something of it has changed.
page : playwright Page
    A tab without what others have stored, which reaches no other host. At the end of the test it fails where
    the page asked one for anything, or something was raised that nobody caught.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.lite.__main__ import main as build
from tests.ui.harness import PICTURES, REPOSITORY, Record, chromium, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder as ``lite``."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lite)


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    build()
    with served(REPOSITORY / "build" / "lite") as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    tab = context.new_page()
    record = Record()
    record.watch(tab)
    yield tab
    record.over = True
    PICTURES.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    tab.screenshot(path=PICTURES / f"lite-{name}.png")
    (PICTURES / f"lite-{name}.log").write_text("\n".join(record.console), "utf-8")
    context.close()
    assert not record.external
    assert not [line for line in record.errors if line.startswith("uncaught")]
