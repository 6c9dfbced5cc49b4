"""A laptop's screen: everything needed fits, stays in sight, and can be given other sizes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.harness import (
    Host,
    Lab,
    becomes,
    open_notebook,
    run_cell,
    screenshot,
    set_theme,
    until,
    wait_idle,
)
from tests.ui.test_workload import MAKE as WORKLOAD

pytestmark = pytest.mark.fresh_tab

MAKE = "import astranb as anb\nsim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('64 KiB', 'ring'))"
SHOW = "workbench = anb.Workbench(sim)\n" + "# a long cell\n" * 20 + "workbench"
NOTEBOOK = ".jp-WindowedPanel-outer"


def start(page: Page, lab: Lab, make: str = MAKE) -> Locator:
    """Run the cell of a workbench as Shift+Enter does, on a laptop's screen."""
    page.set_viewport_size({"width": 1280, "height": 720})
    open_notebook(page, lab, [make, SHOW, "1 + 1", "# the end"])
    run_cell(page, 0)
    page.evaluate("""() => {
        window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1
        window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')
    }""")
    wait_idle(page)
    bench = page.locator(".anb-workbench").first
    expect(bench).to_have_attribute("data-events", "0")
    page.wait_for_function(  # the notebook scrolls there when the view has taken its place
        "([holder, part]) => Math.abs(document.querySelector(part).getBoundingClientRect().top"
        " - document.querySelector(holder).getBoundingClientRect().top) < 3",
        arg=[NOTEBOOK, ".anb-workbench"],
    )
    return bench


def box(part: Locator) -> tuple[float, float]:
    """From where to where an element is on the screen, vertically."""
    found = part.bounding_box()
    assert found
    return found["y"], found["y"] + found["height"]


@pytest.mark.parametrize("make", [MAKE, WORKLOAD], ids=["lines", "workload"])
def test_transport_topology_and_a_timeline_are_in_sight_together(page: Page, lab: Lab, make: str) -> None:
    bench = start(page, lab, make)
    name = "lines" if make == MAKE else "workload"
    notebook = page.locator(NOTEBOOK)
    top, bottom = box(notebook)
    bench.get_by_role("button", name="Phase", exact=True).click()
    expect(bench.locator(".anb-status")).to_contain_text("has ended")
    canvas, legend = bench.locator(".anb-picture > canvas"), bench.locator(".anb-topology .anb-legend")
    for part in (".anb-transport", ".anb-picture > canvas", ".anb-folding", ".anb-timeline canvas"):
        first, last = box(bench.locator(part))
        assert first >= top - 1, part
        assert last <= bottom + 1, part
    before = box(canvas)
    assert before[1] - before[0] > 130
    screenshot(page, f"small-screen-{name}-light")
    # The legend shows two rows; all of it over the picture, which stays where it is.
    bench.get_by_role("group", name="Legend", exact=True).focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    first, last = box(legend)
    stage = box(bench.locator(".anb-topology"))
    assert stage[0] <= first < last <= stage[1]
    assert legend.evaluate("one => one.scrollHeight <= one.clientHeight")
    assert box(canvas) == before
    screenshot(page, f"small-screen-legend-{name}-light")
    set_theme(page, "dark")
    assert box(canvas) == before
    screenshot(page, f"small-screen-legend-{name}-dark")
    page.keyboard.press("Tab")
    screenshot(page, f"small-screen-{name}-dark")


def test_the_transport_stays_while_the_page_scrolls(page: Page, lab: Lab) -> None:
    bench = start(page, lab)
    page.locator(NOTEBOOK).evaluate("holder => holder.scrollBy(0, 330)")
    top, _ = box(page.locator(NOTEBOOK))
    until(page, lambda: box(bench)[0] < top - 200, "the notebook does not scroll")
    until(page, lambda: abs(box(bench.locator(".anb-transport"))[0] - top) < 2, "the transport does not stay")
    bench.get_by_role("button", name="Event", exact=True).click()
    expect(bench).to_have_attribute("data-events", "1")


def test_a_notebook_is_scrolled_only_after_its_cell_was_run(page: Page, lab: Lab) -> None:
    start(page, lab)
    becomes(page, "workbench._displayed_s == 0")  # the view has taken note
    run_cell(page, 2)  # the notebook scrolls to it, and nothing scrolls back
    page.wait_for_timeout(500)
    top = "cell => cell.getBoundingClientRect().top"
    until(page, lambda: page.locator(".jp-Cell").nth(2).evaluate(top) < 720, "the cell is out of sight")
    page.evaluate("window.jupyterapp.shell.currentWidget.context.save()")
    page.reload()  # the same notebook, with the same kernel
    again = page.locator(".anb-workbench").first
    expect(again).to_have_attribute("data-events", "0")
    page.wait_for_timeout(500)
    assert page.locator(NOTEBOOK).evaluate("holder => holder.scrollTop") == 0


def test_panels_keep_the_sizes_that_they_were_given(host: Host) -> None:
    page = host.page
    bench = host.show(MAKE, SHOW, width=1280, height=720)
    expect(bench).to_have_attribute("data-events", "0")
    main, side = bench.locator(".anb-main"), bench.locator(".anb-slot-side")
    before = box(main)[1] - box(main)[0]
    border = bench.get_by_role("separator", name="Height of the picture")
    place = border.bounding_box()
    assert place
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 40, steps=4)
    page.mouse.up()
    becomes(host, f"abs(workbench._sizes.get('main', 0) - {before + 40}) < 2")
    assert abs(box(main)[1] - box(main)[0] - before - 40) < 2

    width = side.evaluate("side => side.clientWidth")
    bench.get_by_role("separator", name="Width of the details").evaluate("""border => {
        for (let press = 0; press < 3; press += 1)  // before a frame is drawn
            border.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }))
    }""")
    becomes(host, f"workbench._sizes.get('side') == {width - 3 * 16}")
    bench.get_by_role("separator", name="Height of SMs and blocks").focus()
    page.keyboard.press("ArrowUp")
    becomes(host, "workbench._sizes.get('blocks') == 134")

    width = side.evaluate("side => side.clientWidth")
    again = host.again()
    expect(again).to_have_attribute("data-events", "0")
    assert again.locator(".anb-slot-side").evaluate("side => side.clientWidth") == width < 300
    assert again.locator(".anb-main").evaluate("main => main.clientHeight") == round(before + 40)

    border.dblclick()  # the usual size again
    becomes(host, "'main' not in workbench._sizes")
    until(host, lambda: abs(box(main)[1] - box(main)[0] - before) < 2, "the picture keeps its size")
