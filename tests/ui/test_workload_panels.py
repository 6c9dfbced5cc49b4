"""Changing, watching and explaining a workload, and its page without a kernel, as a person would."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.ui.harness import Lab, evaluate, open_notebook, run_cell, screenshot, set_theme
from tests.ui.test_workload import MAKE, SHOW


def start(page: Page, lab: Lab) -> Locator:
    page.set_viewport_size({"width": 1400, "height": 1700})
    open_notebook(page, lab, [MAKE, SHOW])
    run_cell(page, 0)
    run_cell(page, 1)
    bench = page.locator(".anb-workbench").first
    expect(bench).to_have_attribute("data-events", "0")
    return bench


def tab(bench: Locator, name: str) -> None:
    bench.get_by_role("tab", name=name, exact=True).click()


def press(bench: Locator, name: str) -> None:
    bench.get_by_role("button", name=name, exact=True).click()


def test_a_workload_is_changed_forked_and_watched(page: Page, lab: Lab) -> None:
    bench = start(page, lab)
    evaluate(page, "workbench.select('rank[2]') or workbench.event(100)")
    tab(bench, "Change")
    panel = bench.locator(".anb-change").first
    expect(panel.get_by_text("rank[2]", exact=True)).to_be_visible()
    panel.get_by_label("speed", exact=True).fill("-1")
    press(panel, "Apply speed")
    expect(panel.get_by_role("alert")).to_contain_text("above 0")
    panel.get_by_label("speed", exact=True).fill("0.5")
    press(panel, "Apply speed")
    expect(panel.get_by_text("rank[2].speed = 0.5")).to_be_visible()
    assert evaluate(page, "sim.edits") == [[100, "rank[2].speed", "0.5"]]
    press(panel, "Undo rank[2].speed")
    expect(panel.get_by_text("rank[2].speed = 0.5")).to_have_count(0)

    evaluate(page, "[workbench.watch('rank[2].in_flight'), workbench.watch('dim[0].bytes')] and None")
    evaluate(page, "workbench.select('dim[0]')")
    panel.get_by_label("bandwidth", exact=True).fill("10 GB/s")
    press(panel, "Fork with bandwidth")
    compare = bench.locator(".anb-compare").first
    other = compare.locator(".anb-workbench")
    expect(other.locator(".anb-title")).to_contain_text("8 ranks on Ring x Switch")
    press(other, "End")
    expect(compare.locator(".anb-verdict").first).to_contain_text("dim[0].bandwidth unchanged is faster by")
    assert evaluate(page, "sim.finished and workbench._clock.b.sim.finished")
    compare.get_by_label("Table of differences").first.select_option("Operations: how long")
    expect(compare.locator("tbody").first).to_contain_text("all_reduce")
    page.wait_for_timeout(500)
    bench.screenshot(path="build/ui/workload-fork-bench.png")
    set_theme(page, "dark")
    page.wait_for_timeout(300)
    bench.screenshot(path="build/ui/workload-fork-dark.png")
    set_theme(page, "light")
    compare.get_by_role("button", name="Close the other run").click()
    tab(bench, "Breakpoints")
    marks = bench.locator(".anb-breaks").first
    expect(marks.locator("canvas.anb-spark")).to_have_count(2)
    drawn = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v)"
    page.wait_for_timeout(300)
    assert marks.locator("canvas.anb-spark").first.evaluate(drawn)
    screenshot(page, "workload-watches")


def test_a_workload_explains_itself(page: Page, lab: Lab) -> None:
    bench = start(page, lab)
    press(bench, "End")
    expect(bench.locator(".anb-status")).to_contain_text("nothing is left")
    tab(bench, "Explain")
    panel = bench.locator(".anb-explain")
    expect(panel).to_contain_text("all 8 ranks, their times added")
    press(panel, "Show critical path")
    changes = panel.get_by_label("What if")
    expect(changes.get_by_role("listitem").first).to_contain_text(re.compile(r"rank\[5\]\.speed x1\.\d+"))
    expect(changes.get_by_role("button", name=re.compile("^Run with"))).to_have_count(0)  # each has been run
    gain = evaluate(page, "min(c.exact_ps for c in sim.what_if()) < sim.result.time_ps")
    assert gain
    expect(changes).to_contain_text(re.compile("exactly \u2212" r"\d+\.\d%"))
    page.wait_for_timeout(300)
    screenshot(page, "workload-explain-light")
    set_theme(page, "dark")
    page.wait_for_timeout(300)
    screenshot(page, "workload-explain-dark")
