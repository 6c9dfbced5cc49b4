"""The example view of a plug-in, as a person sees it in a page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.test_plugin_examples import install
from tests.ui.harness import PICTURES, TIMEOUT_S, Record

_WRITE = """
import sys
sys.path.insert(0, sys.argv[1])
import astranb as anb
sim = anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("4 KiB", "ring"))
sim.run()
anb.Workbench(sim).to_html("patience.html")
"""


def test_the_view_of_a_plugin_is_seen(browser: Browser, record: Record, tmp_path: Path) -> None:
    site = install(tmp_path / "site", "views")
    subprocess.run([sys.executable, "-c", _WRITE, str(site)], cwd=tmp_path, check=True)
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
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "view-plugin.png")
    context.close()
    assert record.errors == []
