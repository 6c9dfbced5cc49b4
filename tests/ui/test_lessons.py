"""A lesson as somebody takes it: in a real JupyterLab, from top to bottom, and then by hand."""

from __future__ import annotations

import re
import shutil

import pytest
from playwright.sync_api import Page, expect

from tests.ui.harness import (
    REPOSITORY,
    Lab,
    evaluate,
    open_notebook,
    run_all,
    screenshot,
    set_theme,
    wait_idle,
)

LESSON_S = 240
"""How long a lesson may take on a machine that does something else, too."""


def take(page: Page, lab: Lab, name: str) -> None:
    """Open a lesson and run all its cells."""
    shutil.copytree(REPOSITORY / "tutorials", lab.root / "tutorials", dirs_exist_ok=True)
    open_notebook(page, lab, f"tutorials/{name}.ipynb")
    run_all(page, wait=False)
    wait_idle(page, timeout_s=LESSON_S)


def test_the_first_lesson_is_run_and_its_workbench_stepped(page: Page, lab: Lab) -> None:
    page.set_viewport_size({"width": 1400, "height": 1300})
    take(page, lab, "01_getting_started")
    bench = page.locator(".anb-workbench").first
    bench.scroll_into_view_if_needed()
    expect(bench.locator(".anb-title")).to_contain_text("1 MiB on a ring of 8")
    assert evaluate(page, "chunks.now_ps") == 11_420_000  # where the cells left it, on the way to 20 us
    bench.get_by_role("button", name="Reset", exact=True).click()
    bench.get_by_role("button", name="Chunks by dimension").click()
    for chunk in range(1, 5):
        bench.get_by_role("button", name="Phase", exact=True).click()
        expect(bench.locator(".anb-status")).to_contain_text(f"a phase has ended at {chunk * 11.42:.2f} µs")
    bench.get_by_role("button", name="Back", exact=True).click()
    expect(bench.locator(".anb-status")).to_contain_text("went back")
    assert evaluate(page, "chunks.now_ps") == 3 * 11_420_000
    assert evaluate(page, "sim.counts['message']") == 448
    assert evaluate(page, "result.time_ps") == 45_681_000
    timeline = bench.locator(".anb-ranks")
    expect(timeline).to_have_attribute("data-kind", "chunks")
    expect(timeline).to_have_attribute("data-asked", "false")
    set_theme(page, "light")
    screenshot(page, "lesson-01-light")
    set_theme(page, "dark")
    screenshot(page, "lesson-01-dark")


def test_a_lesson_draws_its_figures_and_folds_its_solution(page: Page, lab: Lab) -> None:
    take(page, lab, "04_a_new_training_loop")
    folded = page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets
            .filter(cell => cell.model.type === 'code' && cell.inputHidden)
            .map(cell => cell.model.sharedModel.getSource())"""
    )
    assert [re.findall(r'training_loop\("(\w+)"', source) for source in folded] == [["REORDER"]]
    assert evaluate(page, "fast.time_ns < slow.time_ns") is True
    figures = page.evaluate("Bokeh.documents.flatMap(drawn => drawn.roots().map(one => one.title.text))")
    assert figures == [
        "The first two passes",
        "What the reorder gains in 20 passes",
        "Two layers on a ring of 8",
        "Tensor parallel: the input gradient first",
    ]


LESSONS = sorted(path.stem for path in (REPOSITORY / "tutorials").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("name", LESSONS)
def test_every_lesson_runs_and_its_workbench_moves(page: Page, lab: Lab, name: str) -> None:
    page.set_viewport_size({"width": 1400, "height": 1300})
    take(page, lab, name)
    benches = page.locator(".anb-workbench")
    screens = page.locator(".jp-RenderedHTMLCommon, .anb-workbench")
    expect(screens.first).to_be_attached()
    for theme in ("light", "dark"):
        set_theme(page, theme)
        if benches.count():
            benches.first.scroll_into_view_if_needed()
        screenshot(page, f"lesson-{name[:2]}-all-{theme}")
    if not benches.count():
        return
    bench = benches.first
    bench.scroll_into_view_if_needed()
    bench.get_by_role("button", name="Reset", exact=True).click()
    expect(bench.get_by_role("button", name="Back", exact=True)).to_be_disabled()
    bench.get_by_role("button", name="Event", exact=True).click()
    expect(bench.get_by_role("button", name="Back", exact=True)).to_be_enabled()
