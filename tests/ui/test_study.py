"""A sweep in JupyterLab, and as a page without a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget  # noqa: F401 - the page is that of a widget
import pytest
from playwright.sync_api import expect

import astranb as anb
from tests.ui.harness import (
    THEMES,
    Record,
    becomes,
    evaluate,
    open_notebook,
    run_all,
    screenshot,
    set_theme,
    until,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

    from tests.ui.harness import Lab

SWEEP: dict[str, Any] = {
    "name": "All-reduce, <b>sizes</b> and algorithms",
    "run": {"infra": "switch:gpus={gpus}", "collective": "all_reduce", "fidelity": "analytical"},
    "axes": {"gpus": [2, 4, 8], "size": "1 MiB..16 MiB by x2", "algorithm": ["ring", "allpairs", "nonsense"]},
    "objectives": {"time_ps": "min", "busbw_Bps": "max"},
}
FRONT = """canvas => {
    const context = canvas.getContext('2d')
    const { data, width } = context.getImageData(0, 0, canvas.width, canvas.height)
    for (let k = 0; k < data.length; k += 4) {
        if ([...data.subarray(k, k + 4)].join() !== COLOUR) continue
        const scale = canvas.width / canvas.clientWidth
        return [((k / 4) % width) / scale, Math.floor(k / 4 / width) / scale + 2]
    }
}"""
"""Position of a point of the front: its colour occurs nowhere else."""


def click_front(study: Locator, colour: str = "'0,114,178,255'") -> None:
    """Click a point of the front."""
    canvas = study.get_by_role("img", name="Pareto front")
    expect(canvas).to_be_visible()
    found: list[float] = []

    def drawn() -> bool:
        found[:] = canvas.evaluate(FRONT.replace("COLOUR", colour)) or ()
        return bool(found)

    until(canvas.page, drawn, "no point of the front is drawn")
    canvas.click(position={"x": found[0], "y": found[1]})


def test_a_point_of_the_front_opens_in_a_workbench(page: Page, lab: Lab) -> None:
    open_notebook(
        page, lab, ["import astranb as anb", f"study = anb.Study({SWEEP!r}, workers=0)\nstudy", "1 + 1"]
    )
    set_theme(page, "light")
    run_all(page)
    study = page.locator(".anb-study")
    expect(study.get_by_role("status")).to_have_text("45 points, 15 failed")
    expect(study.get_by_role("heading", level=3)).to_have_text(SWEEP["name"])
    click_front(study)
    chosen = study.get_by_role("region", name="The chosen point")
    becomes(page, "study.chosen in study.result.pareto()")
    number = evaluate(page, "study.chosen")
    expect(chosen.get_by_role("heading", level=4)).to_have_text(f"Point {number}")
    study.get_by_role("tab", name="Table").click()
    expect(study.locator("tr[aria-selected=true] th")).to_have_text(str(number))
    study.get_by_role("tab", name="Heat map").click()
    evaluate(page, "study.choose(0)")
    expect(chosen.get_by_role("heading", level=4)).to_have_text("Point 0")
    study.get_by_role("tab", name="Heat map").press("Home")
    study.get_by_role("img", name="Heat map").click(position={"x": 130, "y": 20})
    becomes(page, "study.chosen > 0")
    chosen.get_by_role("button", name="Open").click()
    becomes(page, "study.opened is not None")
    title = evaluate(page, "study.opened.sim.title")
    expect(page.locator(".anb-study-run .anb-title")).to_contain_text(title)
    for theme in THEMES:
        set_theme(page, theme)
        study.get_by_role("tab", name="Pareto front").click()
        page.wait_for_timeout(200)
        screenshot(page, f"study-{theme}")


def test_the_page_of_a_sweep_needs_no_network(browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("SALib")
    found = anb.explore.Sweep.of(SWEEP).run(workers=0)
    study = anb.Study(found)
    study.wait()
    path = study.to_html(tmp_path / "sweep.html")
    study.close()
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True, color_scheme="light")
    record, page = Record(), context.new_page()
    record.watch(page)
    try:
        page.goto(path.as_uri())
        shown = page.locator(".anb-study")
        for name in ("Parallel coordinates", "Heat map", "Sensitivity", "Table", "Pareto front"):
            shown.get_by_role("tab", name=name).click()
            expect(shown.get_by_role("region", name=name)).to_be_visible()
        chosen = shown.get_by_role("region", name="The chosen point")
        expect(chosen).to_contain_text("astranb run collective all_reduce --infra=switch:gpus=2")
        expect(chosen.get_by_role("button", name="Open")).to_have_count(0)
        click_front(shown)
        expect(chosen).to_contain_text("What limits this point")
        # A brush along the first axis leaves those with 8 GPUs, in the table, too.
        shown.get_by_role("tab", name="Parallel coordinates").click()
        canvas = shown.get_by_role("img", name="Parallel coordinates")
        box = canvas.bounding_box()
        assert box
        page.mouse.move(box["x"] + 70, box["y"] + 36)
        page.mouse.down()
        page.mouse.move(box["x"] + 70, box["y"] + 36 + (box["height"] - 50) / 3 - 6, steps=4)
        page.mouse.up()
        expect(shown.get_by_role("region", name="Parallel coordinates")).to_contain_text(
            "in the brushes, in all pictures: 10 of 30 points"
        )
        shown.get_by_role("tab", name="Table").click()
        shown.get_by_label("which points").select_option("done")
        expect(shown.get_by_role("region", name="Table of points")).to_contain_text("10 of 45, brushed")
        shown.get_by_label("which points").select_option("failed")
        expect(shown.get_by_text("no algorithm 'nonsense'").first).to_be_visible()
        assert record.errors == record.external == []
    finally:
        context.close()
