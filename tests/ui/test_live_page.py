"""Pages that simulate, opened as files with no network at all: what they show is what Python computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import astranb as anb
from tests.drawing.support import HOSTILE, MARKUP, hostile_simulation
from tests.ui.firefox import firefox
from tests.ui.harness import PICTURES, screenshot, served
from tests.ui.hosts import open_live, said, starting
from tests.ui.test_export import shows
from tests.ui.test_workbench import button, shown

SCHEMES = ["light", pytest.param("dark", marks=pytest.mark.slow)]
UNITS = ("Event", "Cycle", "Instruction", "Hop", "Line", "Message", "Phase")


def ring(size: str = "64 KiB") -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce(size, "ring"))


@pytest.fixture
def sim() -> anb.Simulation:
    """Return a run in its middle."""
    sim = ring()
    sim.step(20_000)
    return sim


@pytest.fixture
def bench(alone: Page, sim: anb.Simulation, tmp_path: Path) -> Locator:
    bench = open_live(alone, anb.export.page(sim, tmp_path / "ring.html", live=True))
    shown(bench, sim.events)
    return bench


def same(bench: Locator, sim: anb.Simulation) -> None:
    """Wait until the page is where Python is, and compare everything simulated."""
    shown(bench, sim.events)
    shows(bench, sim.now_ps)
    control(bench.page, "Hash").click()
    expect(said(bench.page)).to_have_text(f"hash {sim.state_hash()}")


def test_every_step_goes_where_python_goes(bench: Locator, sim: anb.Simulation) -> None:
    same(bench, sim)
    for unit in UNITS:
        button(bench, unit).click()
        sim.step(1, unit.lower())
        same(bench, sim)
    for unit in reversed(UNITS):
        bench.get_by_label("Back by").select_option(f"by {unit.lower()}")
        button(bench, "Back").click()
        sim.back(1, unit.lower())
        same(bench, sim)
    button(bench, "End").click()
    sim.run()
    same(bench, sim)
    button(bench, "Reset").click()
    sim.reset()
    same(bench, sim)


LINK = "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0"


def press(bench: Locator, name: str) -> None:
    button(bench, name).first.click()


def tab(bench: Locator, name: str) -> None:
    bench.get_by_role("tab", name=name, exact=True).first.click()


def select(bench: Locator, path: str) -> None:
    """Select an object by its path, as the inspector's field does."""
    tab(bench, "Inspect")
    field = bench.get_by_label("Object to inspect").first
    field.fill(path)
    field.press("Enter")


def control(page: Page, name: str) -> Locator:
    return page.get_by_role("toolbar", name="Page").get_by_role("button", name=name)


def test_it_plays_and_stops_between_two_events(alone: Page, tmp_path: Path) -> None:
    sim = ring()
    bench = open_live(alone, anb.export.page(sim, tmp_path / "ring.html", live=True))
    button(bench, "Play").click()
    expect(bench.locator(".anb-simulated")).not_to_contain_text("simulated 0 ps")
    alone.wait_for_timeout(700)
    button(bench, "Pause").click()
    expect(bench.locator(".anb-status")).to_have_text("paused")
    expect(bench).not_to_have_attribute("data-events", "0")
    sim.step(int(bench.get_attribute("data-events") or 0))
    same(bench, sim)
    bench.get_by_label("Go to a time").fill("3 us")
    bench.get_by_label("Go to a time").press("Enter")
    sim.goto("3 us")
    same(bench, sim)
    bench.get_by_label("View cursor").fill("0.5")
    expect(bench.locator(".anb-shown")).to_contain_text("(past)")


def test_it_stops_at_a_breakpoint_and_changes_a_link(bench: Locator, sim: anb.Simulation) -> None:
    tab(bench, "Breakpoints")
    panel = bench.locator(".anb-breaks")
    panel.get_by_label("Break", exact=True).select_option("when")
    panel.get_by_label("Condition").fill("gpu[3].sm.0.wating > 0")
    press(panel, "Add breakpoint")
    expect(panel.get_by_role("alert")).to_contain_text("did you mean 'waiting'")
    panel.get_by_label("Condition").fill("gpu[3].sm.0.waiting > 0")
    press(panel, "Add breakpoint")
    point = sim.break_when("gpu[3].sm.0.waiting > 0")
    press(bench, "Breakpoint")
    assert sim.run().breakpoint is point
    same(bench, sim)
    press(panel, f"Remove {point.text}")
    sim.clear()
    select(bench, LINK)
    tab(bench, "Change")
    panel = bench.locator(".anb-change")
    panel.get_by_label("bandwidth", exact=True).fill("5 GB/s")
    press(panel, "Apply bandwidth")
    expect(panel.get_by_text(f"{LINK}.bandwidth = 5 GB/s")).to_be_visible()
    sim.set(f"{LINK}.bandwidth", "5 GB/s")
    press(bench, "End")
    sim.run()
    same(bench, sim)
    press(panel, f"Undo {LINK}.bandwidth")
    sim.undo(0)
    same(bench, sim)


def test_a_link_that_is_down_has_a_cross(bench: Locator) -> None:
    picture = bench.locator(".anb-picture > canvas")
    expect(picture).to_have_attribute("data-marked", "0")
    select(bench, LINK)
    tab(bench, "Change")
    press(bench.locator(".anb-change"), "Take both down")
    expect(picture).to_have_attribute("data-marked", "2")
    bench.get_by_label("View cursor").fill("0.2")
    expect(picture).to_have_attribute("data-marked", "0")
    press(bench.locator(".anb-change"), "Repair both")
    press(bench, "Event")
    expect(picture).to_have_attribute("data-marked", "0")


def test_a_fork_stands_beside_the_run_with_the_same_clock(bench: Locator, sim: anb.Simulation) -> None:
    bench = bench.first
    alone = bench.page
    alone.set_viewport_size({"width": 1400, "height": 1500})
    select(bench, LINK)
    tab(bench, "Change")
    panel = bench.locator(".anb-change").first
    panel.get_by_label("bandwidth", exact=True).fill("5 GB/s")
    press(panel, "Fork with bandwidth")
    other = bench.locator(".anb-other .anb-workbench")
    expect(other).to_be_visible()
    expect(other.locator(".anb-strip")).to_contain_text(f"{LINK}.bandwidth: 5 GB/s from event 20000")
    fork = sim.fork_with({f"{LINK}.bandwidth": "5 GB/s"})
    press(bench.locator("> .anb-transport"), "Phase")
    sim.step(1, "phase")
    fork.goto(sim.now_ps)
    shown(bench, sim.events)
    shown(other, fork.events)
    compare = bench.locator(".anb-compare").first
    expect(compare.locator(".anb-verdict").first).to_contain_text("not both at their end")
    press(bench.locator("> .anb-transport"), "End")
    sim.run()
    fork.run()
    shown(bench, sim.events)
    shown(other, fork.events)
    expect(compare.locator(".anb-verdict").first).to_contain_text("is faster by")
    alone.wait_for_timeout(500)
    screenshot(alone, "live-fork")
    press(compare, "Close the other run")
    expect(bench.locator(".anb-other .anb-workbench")).to_have_count(0)


def test_a_state_travels_as_a_file_and_as_a_link(bench: Locator, sim: anb.Simulation, tmp_path: Path) -> None:
    page = bench.page
    select(bench, "gpu[3]")
    with page.expect_download() as download:
        control(page, "Save").click()
    download.value.save_as(tmp_path / "saved.anb")
    again = anb.Workbench.load(tmp_path / "saved.anb")
    assert (again.sim.events, again.sim.state_hash()) == (sim.events, sim.state_hash())
    assert again.selected is not None
    again.sim.set(f"{LINK}.bandwidth", "5 GB/s")
    again.sim.step(5000)
    again.save(tmp_path / "further.anb")
    page.get_by_label("File to open").set_input_files(tmp_path / "further.anb")
    same(bench, again.sim)
    control(page, "Copy link").click()
    expect(said(page)).to_contain_text("link")
    link = page.url
    assert "#state=" in link
    page.goto("about:blank")
    open_live(page, link)
    same(bench, again.sim)
    page.goto(link[:-9])
    expect(said(page)).to_contain_text("this link is damaged")
    page.get_by_label("File to open").set_input_files({"name": "a.anb", "mimeType": "", "buffer": b"PK"})
    expect(said(page)).to_contain_text("not a saved simulation")


def test_a_fork_may_have_another_algorithm(bench: Locator, sim: anb.Simulation) -> None:
    bench = bench.first
    tab(bench, "Change")
    panel = bench.locator(".anb-change").first
    panel.get_by_label("algorithm", exact=True).select_option("allpairs")
    press(panel, "Fork with these")
    other = bench.locator(".anb-other .anb-workbench")
    fork = sim.fork_with({"algorithm": "allpairs"})
    fork.goto(sim.now_ps)
    shown(other, fork.events)
    press(bench.locator("> .anb-transport"), "End")
    shown(other, fork.run().events)


def test_what_a_notebook_explains_a_page_explains(bench: Locator, sim: anb.Simulation) -> None:
    """An exact what-if, and the critical path line by line: both replay the run in copies."""
    button(bench, "End").click()
    shown(bench, sim.run().events)
    tab(bench, "Explain")
    panel = bench.locator(".anb-explain")
    press(panel, "Show critical path")
    expect(panel).to_contain_text(f"{len(sim.critical_path())} segments")
    screenshot(bench.page, "live-explain")


@pytest.mark.parametrize("end, words", [("#section", "ready"), ("#state=AAAA", "this link is damaged")])
def test_a_page_opens_where_it_was_written_whatever_its_address_ends_with(
    alone: Page, sim: anb.Simulation, end: str, words: str, tmp_path: Path
) -> None:
    page = anb.export.page(sim, tmp_path / "ring.html", live=True)
    bench = open_live(alone, page.as_uri() + end)
    expect(said(alone)).to_contain_text(words)
    shown(bench, sim.events)


def test_names_from_files_are_text(alone: Page, tmp_path: Path) -> None:
    sim = hostile_simulation()
    sim.reset()
    bench = open_live(alone, anb.export.page(sim, tmp_path / "run.html", live=True))
    expect(bench.locator(".anb-title")).to_contain_text(HOSTILE)
    assert HOSTILE in alone.title()
    button(bench, "End").click()
    select(bench, "gpu[0]")
    expect(bench.locator(".anb-inspector h4")).to_contain_text(MARKUP)
    assert alone.locator("img").count() == 0
    assert alone.locator("script").count() == 3  # the recording, the Worker's text, and what opens the page


@pytest.mark.parametrize("lacking", ["WebAssembly", "Worker", "DecompressionStream"])
def test_a_browser_that_cannot_simulate_says_so(browser: Browser, lacking: str, tmp_path: Path) -> None:
    sim = ring()
    sim.step(5000)
    page = browser.new_page()
    page.add_init_script(f"delete globalThis.{lacking}")
    page.goto(anb.export.page(sim, tmp_path / "ring.html", live=True).as_uri())
    expect(page.locator("#anb-host")).to_contain_text(f"this browser has no {lacking}")
    if lacking != "DecompressionStream":  # what was recorded stays, and can be looked at
        shown(page.locator(".anb-workbench"), sim.events)
        select(page.locator(".anb-workbench"), "gpu[3]")
    page.close()


def test_a_page_that_was_cut_shows_what_was_recorded(alone: Page, tmp_path: Path) -> None:
    sim = ring()
    sim.step(5000)
    whole = anb.export.page(sim, tmp_path / "ring.html", live=True)
    text = whole.read_text("utf-8")
    for pack in ("python", "astranb"):
        at = text.index(f'data-pack="{pack}"') + 100_000
        page = tmp_path / f"{pack}.html"
        page.write_text(f"{text[:at]}{'A' * 4000}{text[at + 4000 :]}", "utf-8")
        alone.goto(page.as_uri())
        expect(starting(alone)).to_contain_text("Python cannot run in this page", timeout=60_000)
        expect(starting(alone)).to_contain_text("What was recorded stays")
        shown(alone.locator(".anb-workbench"), sim.events)


def test_a_thin_page_takes_its_python_from_beside_it(browser: Browser, tmp_path: Path) -> None:
    sim = ring()
    sim.step(5000)
    page = anb.export.page(sim, tmp_path / "site" / "ring.html", live="shared")
    tab = browser.new_page(viewport={"width": 1280, "height": 720})
    with served(page.parent) as address:
        bench = open_live(tab, f"{address}/ring.html")
        same(bench, sim)
        button(bench, "Phase").click()
        sim.step(1, "phase")
        same(bench, sim)
        for file in (page.parent / "astranb-runtime").iterdir():
            file.unlink()
        tab.goto(f"{address}/ring.html?again")
        expect(starting(tab)).to_contain_text("its runtime is not at")
        shown(tab.locator(".anb-workbench"), 5000)
    tab.close()


def test_what_is_pressed_before_python_is_ready_is_kept(alone: Page, tmp_path: Path) -> None:
    sim = ring()
    sim.step(5000)
    alone.goto(anb.export.page(sim, tmp_path / "ring.html", live=True).as_uri())
    bench = alone.locator(".anb-workbench")
    shown(bench, sim.events)
    select(bench, "gpu[3]")
    button(bench, "Event").click()
    button(bench, "Phase").click()
    expect(starting(alone)).to_contain_text("presses kept: 2")
    expect(alone.locator("#anb-host")).to_have_attribute("data-ready", "true", timeout=60_000)
    sim.step()
    sim.step(1, "phase")
    same(bench, sim)
    expect(bench.locator(".anb-inspector h4")).to_contain_text("xpu.3")


def test_a_program_without_an_end_ends_its_worker_and_not_the_page(
    bench: Locator, sim: anb.Simulation
) -> None:
    page = bench.page
    button(bench, "Event").click()
    sim.step()
    same(bench, sim)
    control(page, "Editor").click()
    text = page.locator(".anb-page-editor textarea")
    text.fill("def endless(p):\n    while True:\n        pass\n")
    expect(page.locator(".anb-page-editor")).to_contain_text("did not come to an end", timeout=60_000)
    expect(page.locator("#anb-host")).to_have_attribute("data-ready", "true", timeout=60_000)
    same(bench, sim)


def test_the_editor_verifies_and_simulates(bench: Locator) -> None:
    page = bench.page
    control(page, "Editor").click()
    text = page.locator(".anb-page-editor textarea")
    right = text.input_value()
    text.fill(right.replace("send(", "sent(", 1))
    expect(page.locator(".anb-problems")).to_contain_text("has no attribute 'sent'")
    text.fill(right)
    expect(page.locator(".anb-problems li")).to_have_count(0)
    page.get_by_role("button", name="Simulate", exact=True).click()
    editor = anb.Editor(right)
    sim = editor.simulate()
    shown(page.locator(".anb-workbench").first, 0)
    expect(page.locator(".anb-workbench").first.locator(".anb-title")).to_contain_text("program")
    same(page.locator(".anb-workbench").first, sim)
    screenshot(page, "live-editor")


@pytest.mark.parametrize("name, width, height", [("laptop", 1280, 720), ("phone", 390, 844)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_fits_the_screen(
    alone: Page, name: str, width: int, height: int, scheme: Any, tmp_path: Path
) -> None:
    sim = ring()
    sim.step(40_000)
    alone.emulate_media(color_scheme=scheme)
    alone.set_viewport_size({"width": width, "height": height})
    bench = open_live(alone, anb.export.page(sim, tmp_path / "ring.html", live=True))
    shown(bench, sim.events)
    alone.wait_for_timeout(800)
    screenshot(alone, f"live-{name}-{scheme}")
    alone.screenshot(path=PICTURES / f"live-{name}-{scheme}-whole.png", full_page=True)
    wide = alone.evaluate("() => document.documentElement.scrollWidth")
    assert wide <= width


def test_a_large_page_goes_where_python_goes(alone: Page, tmp_path: Path) -> None:
    sim = anb.Simulation("clos:servers=8", anb.collectives.all_reduce("128 KiB", "ring"))
    bench = open_live(alone, anb.export.page(sim, tmp_path / "many.html", live=True))
    button(bench, "End").click()
    shown(bench, sim.run().events)
    bench.get_by_label("Go to a time").fill("50 us")
    bench.get_by_label("Go to a time").press("Enter")
    sim.goto("50 us")
    same(bench, sim)


def test_firefox_runs_it_to_the_same_hash(tmp_path: Path) -> None:
    sim = ring()
    page = anb.export.page(sim, tmp_path / "ring.html", live=True)
    events = "document.querySelector('.anb-workbench')?.dataset.events ?? ''"
    with firefox() as tab:
        tab.resize(1280, 720)
        tab.open(page.as_uri())
        tab.wait("document.getElementById('anb-host').dataset.ready ?? ''", "true")
        tab.wait(events, "0")
        for unit in ("instruction", "phase"):
            tab.click(f".anb-step-{unit}")
            sim.step(1, unit)
            tab.wait(events, str(sim.events))
        tab.click(".anb-to_end")
        sim.run()
        tab.wait(events, str(sim.events))
        tab.click("[aria-label=Page] > button:last-of-type")
        tab.wait("document.querySelector('.anb-status').textContent", f"hash {sim.state_hash()}")
        tab.screenshot("live-firefox")
        assert tab.errors == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_routes_change_where_a_link_is_down(alone: Page, tmp_path: Path, scheme: Any) -> None:
    """The page begins where routes have changed once; they change again when another link is down."""
    sim = ring()
    sim.step(9_000)
    sim.take_down(f"gpu[1]->{LINK.partition('->')[2]}", both=True)
    sim.reroute()
    sim.step(1_000)
    alone.emulate_media(color_scheme=scheme)
    bench = open_live(alone, anb.export.page(sim, tmp_path / "rerouted.html", live=True))
    same(bench, sim)
    press(bench, "Event")
    sim.step()
    select(bench, LINK)
    tab(bench, "Change")
    panel = bench.locator(".anb-change")
    press(panel, "Take down")
    sim.take_down(LINK)
    expect(bench.locator(".anb-status")).to_contain_text("is down from event 10,001 on")
    press(panel, "Reroute")
    sim.reroute()
    expect(bench.locator(".anb-status")).to_have_text("routes avoid what is down from event 10,001 on")
    alone.wait_for_timeout(500)
    screenshot(alone, f"live-reroute-{scheme}")
    same(bench, sim)
    press(bench, "End")
    sim.run()
    same(bench, sim)
    press(panel, "Undo reroute")
    sim.undo(2)
    same(bench, sim)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_any_part_of_a_large_system_is_drawn(alone: Page, tmp_path: Path, scheme: Any) -> None:
    sim = anb.Simulation("clos:servers=16", anb.collectives.all_reduce("4 KiB", "ring"))
    alone.emulate_media(color_scheme=scheme)
    alone.set_viewport_size({"width": 1400, "height": 1100})
    bench = open_live(alone, anb.export.page(sim, tmp_path / "large.html", live=True))
    words = bench.locator(".anb-words")
    expect(words).to_contain_text("128 GPUs: each instance is one box")
    for name in ("host.3", "host.12", "host.7"):
        select(bench, name)
        button(bench, "open here").click()
        expect(button(bench, "open here")).to_be_hidden()
    button(bench, "Line").click()
    alone.wait_for_timeout(500)
    screenshot(alone, f"live-large-opened-{scheme}")
    button(bench, "close all").click()
    select(bench, "spinesw.1")
    button(bench, "look inside").click()
    expect(words).to_contain_text("only spinesw.1 and what it is joined with")
    alone.wait_for_timeout(300)
    screenshot(alone, f"live-large-inside-{scheme}")
    expect(bench.locator(".anb-topology")).not_to_contain_text("JupyterLab")
