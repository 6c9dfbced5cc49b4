"""A program in a real JupyterLab: its lines and data at the cursor, errors at their lines as it is typed."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.ui.harness import Lab, evaluate, open_notebook, run_cell, screenshot, set_theme

MAKE = (
    "import astranb as anb\n"
    "sim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('64 KiB', 'ring', lanes=2))"
)
SHOW = "workbench = anb.Workbench(sim)\nworkbench"


def start(page: Page, lab: Lab) -> Locator:
    page.set_viewport_size({"width": 1400, "height": 1500})
    open_notebook(page, lab, [MAKE, SHOW])
    run_cell(page, 0)
    run_cell(page, 1)
    bench = page.locator(".anb-workbench").first
    expect(bench).to_have_attribute("data-events", "0")
    return bench


def test_lines_and_data_follow_the_cursor(page: Page, lab: Lab) -> None:
    bench = start(page, lab)
    bench.get_by_role("tab", name="Source").click()
    bench.get_by_role("tab", name="Data").click()
    evaluate(page, "str(sim.step(12000))")
    page.wait_for_timeout(800)
    screenshot(page, "source-1")
    evaluate(page, "workbench.select('gpu[3].block.0')")
    bench.get_by_role("button", name="Next line").click()
    page.wait_for_timeout(800)
    screenshot(page, "source-2")
    set_theme(page, "dark")
    page.wait_for_timeout(800)
    screenshot(page, "source-dark")
