"""Pages that the workbench leaves behind, opened as files with no network at all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import astranb as anb
from tests.drawing.support import HOSTILE, MARKUP, hostile_simulation
from tests.ui.harness import REPOSITORY, Host, Lab, open_notebook, run_all, screenshot
from tests.ui.hosts import IN_BOTH
from tests.ui.test_workbench import button, shown, start

MOST_DOTS = """() => new Promise((done) => {
  const bench = document.querySelector(".anb-workbench");
  let [most, frames] = [0, 0];
  const look = () => {
    most = Math.max(most, Number(bench.dataset.dots));
    if (most > 9 || (frames += 1) > 1800) done(most);
    else requestAnimationFrame(look);
  };
  look();
})"""
"""The most lines in flight in any frame, until there are ten (a page refuses text that is evaluated)."""


@pytest.fixture(scope="module")
def sim() -> anb.Simulation:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.run()
    return sim


def open_page(page: Page, path: Path) -> Locator:
    page.goto(path.as_uri())
    bench = page.locator(".anb-workbench")
    expect(bench).to_have_attribute("data-events", re.compile(r"\d+"))
    return bench


def shows(bench: Locator, time_ps: int) -> None:
    """Wait until the view shows a moment."""
    expect(bench).to_have_attribute("data-cursor", str(time_ps))


def test_a_page_plays_steps_and_scrubs_alone(alone: Page, sim: anb.Simulation, tmp_path: Path) -> None:
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html"))
    _, flights = sim.engine.recorder.since(0)
    shown(bench, 0)
    button(bench, "Event").click()
    shown(bench, int(flights["event"][0]))
    button(bench, "Event").click()
    shown(bench, int(flights["event"][1]))
    expect(bench.locator(".anb-narration")).to_contain_text(sim.engine.fabric.name(int(flights["link"][1])))
    button(bench, "Back").click()
    shown(bench, int(flights["event"][0]))
    button(bench, "Cycle").click()
    first = flights["queued_ps"] == flights["queued_ps"][0]
    shown(bench, int(flights["event"][first][-1]))
    button(bench, "Phase").click()
    shows(bench, int(sim.engine.machine.phases["ended_ps"].min()))
    # Lines stand where they were recorded at the moment that is shown.
    middle = int(flights["start_ps"][2 * len(flights) // 5] + 10_000)
    bench.get_by_label("View cursor").fill(str(middle / sim.now_ps))
    shows(bench, middle)
    flying = (flights["start_ps"] <= middle) & (flights["end_ps"] >= middle)
    assert flying.sum() > 1
    expect(bench.locator(".anb-topology .anb-note")).to_contain_text(f"{int(flying.sum())} lines in flight")
    button(bench, "Reset").click()
    shown(bench, 0)
    bench.get_by_label("Speed").fill("6.5")
    button(bench, "Play").click()
    # Between two transfers of a ring no line is on a link: every frame is looked at.
    assert alone.evaluate(MOST_DOTS) > 9
    button(bench, "Pause").click()
    assert 0 < float(bench.get_attribute("data-cursor") or 0) < sim.now_ps
    button(bench, "End").click()
    shown(bench, sim.events)
    expect(button(bench, "Event")).to_be_disabled()
    expect(bench.locator(".anb-status")).to_contain_text("the recording ends here")
    screenshot(alone, "export-light")


def test_what_needs_a_kernel_says_so(alone: Page, sim: anb.Simulation, tmp_path: Path) -> None:
    alone.emulate_media(color_scheme="dark")
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html"))
    expect(button(bench, "Breakpoint")).to_be_disabled()
    expect(button(bench, "Breakpoint")).to_have_attribute("title", re.compile("needs the kernel"))
    inspector = bench.locator(".anb-inspector")
    path = bench.get_by_label("Object to inspect")
    path.fill("gpu[2]")
    path.press("Enter")
    expect(inspector).to_contain_text(sim.inspect("gpu[2]")["title"])
    expect(inspector.locator(".anb-failed")).to_have_count(0)
    later = sim.now_ps * 3 // 5  # not one of the moments that it holds
    bench.get_by_label("View cursor").fill(str(later / sim.now_ps))
    shows(bench, later)
    expect(inspector).to_contain_text("the last time before the cursor that this page holds")
    button(bench, "End").click()
    expect(inspector).not_to_contain_text("that this page holds")
    expect(inspector).to_contain_text(sim.inspect("gpu[2]")["title"])
    said = {row.split("\t")[0]: row.split("\t")[1] for row in inspector.get_by_role("row").all_inner_texts()}
    assert said == {label: str(text) for label, text in sim.inspect("gpu[2]")["state"]}
    path.fill("gpu[2].sm.131")
    path.press("Enter")
    expect(inspector).to_contain_text("needs the kernel")
    assert (
        alone.evaluate("getComputedStyle(document.querySelector('.anb-workbench')).backgroundColor")
        == "rgb(17, 17, 17)"
    )
    screenshot(alone, "export-dark")


def test_every_panel_opens(alone: Page, sim: anb.Simulation, tmp_path: Path) -> None:
    """Whatever panels there are: at the start and at the end none fails, whether it has an answer or not."""
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html"))
    for name in ("Reset", "End"):
        if button(bench, name).is_enabled():
            button(bench, name).click()
        for tab in bench.locator(".anb-tabs-stage .anb-tab, .anb-tabs-side .anb-tab").all():
            if tab.is_visible():
                tab.click()
                expect(tab).to_have_attribute("aria-selected", "true")
        for switch in bench.locator(".anb-tabs-below .anb-chip").all():
            if switch.get_attribute("aria-pressed") == "false":
                switch.click()
                expect(switch).to_have_attribute("aria-pressed", "true")
    shown(bench, sim.events)
    screenshot(alone, "export-panels")


def test_of_many_flights_some_are_taken_and_the_page_says_so(
    alone: Page, sim: anb.Simulation, tmp_path: Path
) -> None:
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html", most=1000))
    one_in = -(-int(sim.engine.recorder.since(0)[1].size) // 1000)
    expect(alone.locator(".anb-caption")).to_contain_text(f"1 in {one_in} of them")
    button(bench, "Event").click()
    expect(bench.locator(".anb-topology .anb-note")).to_contain_text(f"1 of {one_in} lines")


def test_names_from_files_are_text(alone: Page, tmp_path: Path) -> None:
    sim = hostile_simulation()
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html"))
    expect(bench.locator(".anb-title")).to_contain_text(HOSTILE)
    assert HOSTILE in alone.title()
    button(bench, "End").click()
    path = bench.get_by_label("Object to inspect")
    path.fill("gpu[0]")
    path.press("Enter")
    expect(bench.locator(".anb-inspector h4")).to_contain_text(MARKUP)
    assert alone.locator("img").count() == 0
    assert alone.locator("script").count() == 2  # the recording, and what plays it


def test_names_from_files_are_text_in_the_notebook(page: Page, lab: Lab) -> None:
    folder = str(REPOSITORY)
    code = f"import sys; sys.path.insert(0, {folder!r})\nfrom tests.drawing.support import hostile_simulation"
    show = "import astranb as anb\nsim = hostile_simulation()\nworkbench = anb.Workbench(sim)\nworkbench"
    open_notebook(page, lab, [code, show])
    run_all(page)
    bench = page.locator(".anb-workbench")
    expect(bench.locator(".anb-title")).to_contain_text(HOSTILE)
    path = bench.get_by_label("Object to inspect")
    path.fill("gpu[0]")
    path.press("Enter")
    expect(bench.locator(".anb-inspector h4")).to_contain_text(MARKUP)
    assert bench.locator("img, script").count() == 0


def test_figures_and_the_infrastructure_open_alone(alone: Page, tmp_path: Path) -> None:
    sim = hostile_simulation()
    figures = anb.export.figures
    drawn = [figures.gantt(sim), figures.heat_map(sim), figures.heat_map(sim, "links"), figures.roofline(sim)]
    for number, figure in enumerate(drawn):
        alone.goto(figures.save(figure, tmp_path / f"{number}.html").as_uri())
        expect(alone.locator(".bk-Canvas canvas, canvas").first).to_be_visible()
        assert alone.locator("img").count() == 0
    alone.goto(anb.export.pyvis(sim.engine.infra, tmp_path / "infra.html").as_uri())
    canvas = alone.locator("#mynetwork canvas")
    expect(canvas).to_be_visible()
    box = canvas.bounding_box()
    assert box
    alone.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert alone.locator("img").count() == 0
    screenshot(alone, "export-pyvis")


def test_a_figure_in_a_notebook_needs_no_network(page: Page, lab: Lab) -> None:
    make = (
        "import astranb as anb\n"
        "sim = anb.Simulation('switch:gpus=2', anb.collectives.all_gather('4 KiB'))\n"
        "sim.run()\nfigures = anb.export.figures"
    )
    open_notebook(
        page, lab, [make, "figures.show(figures.gantt(sim))", "figures.show(figures.heat_map(sim))"]
    )
    run_all(page)
    for number in (0, 1):
        expect(page.locator(".bk-Figure").nth(number)).to_be_visible()
    screenshot(page, "export-figures")


def save_picture(page: Page, bench: Locator, file: Path) -> None:
    """Press the button, and see that a picture comes, not a blank sheet."""
    with page.expect_download() as download:
        button(bench, "More controls").click()
        button(bench, "Save picture").click()
    download.value.save_as(file)
    from PIL import Image

    with Image.open(file) as image:
        image.load()
    assert image.width > 400
    assert len(image.getcolors(2**20) or ()) > 20


@IN_BOTH
def test_the_picture_can_be_saved(host: Host, tmp_path: Path) -> None:
    bench = start(host, size="64 KiB")
    host.change("sim.step(20000).events")
    shown(bench, 20000)
    save_picture(host.page, bench, tmp_path / "saved.png")
