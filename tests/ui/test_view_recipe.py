"""The view of docs/contributing/view.md, followed word by word, as a person sees it."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.documents import DOCS, apart
from tests.ui.harness import PICTURES, TIMEOUT_S, Record


def test_the_view_of_the_recipe_is_seen(browser: Browser, record: Record, tmp_path: Path) -> None:
    assert apart(DOCS / "contributing" / "view.md", tmp_path) == ""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    context.set_default_timeout(TIMEOUT_S * 1000)
    page = context.new_page()
    record.watch(page)
    page.goto((tmp_path / "patience.html").as_uri())
    bench = page.locator(".anb-workbench")
    expect(bench).to_have_attribute("data-events", re.compile(r"\d+"))
    bench.get_by_role("tab", name="Patience").click()
    seen = bench.get_by_label("Patience").last
    bench.get_by_role("button", name="End", exact=True).click()
    expect(seen).to_contain_text(re.compile(r"Rank \d has waited longest: [\d.]+ µs"))
    expect(seen).to_contain_text("0 lines under way")
    bench.get_by_label("View cursor").fill("0.3")
    expect(seen).to_contain_text(re.compile(r"\d+ lines under way"))
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "view-recipe.png")
    context.close()
    assert record.errors == []
