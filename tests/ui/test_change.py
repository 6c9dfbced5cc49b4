"""Changing a run, breakpoints, watches and two runs beside each other, as a person would."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.harness import (
    Host,
    Lab,
    becomes,
    evaluate,
    open_notebook,
    painted,
    run_cell,
    screenshot,
    set_theme,
    until,
)
from tests.ui.hosts import IN_BOTH, Notebook

MAKE = "import astranb as anb\nsim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('64 KiB', 'ring'))"
SHOW = "workbench = anb.Workbench(sim)\nworkbench"
LINK = "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0"


def start(host: Host) -> Locator:
    bench = host.show(MAKE, SHOW)
    expect(bench).to_have_attribute("data-events", "0")
    return bench


# Neither of two runs has an event left before the time of the other one.
TOGETHER = "max(sim.now_ps, other.now_ps) < min(int(one.next_ps) for one in (sim, other))"


def tab(bench: Locator, name: str) -> None:
    bench.get_by_role("tab", name=name, exact=True).click()


def press(bench: Locator, name: str) -> None:
    bench.get_by_role("button", name=name, exact=True).click()


def test_a_link_is_changed_killed_and_taken_back(host: Host) -> None:
    bench = start(host)
    host.change(f"workbench.select('{LINK}') or workbench.event(1000)")
    tab(bench, "Change")
    panel = bench.locator(".anb-change")
    expect(panel.get_by_text(LINK, exact=True)).to_be_visible()
    panel.get_by_label("bandwidth", exact=True).fill("fast")
    press(panel, "Apply bandwidth")
    expect(panel.get_by_role("alert")).to_contain_text("fast")
    assert evaluate(host, "sim.edits") == []
    panel.get_by_label("bandwidth", exact=True).fill("5 GB/s")
    press(panel, "Apply bandwidth")
    expect(panel.get_by_text(f"{LINK}.bandwidth = 5 GB/s")).to_be_visible()
    assert evaluate(host, "sim.edits") == [[1000, f"{LINK}.bandwidth", "5 GB/s"]]
    expect(panel.get_by_role("alert")).to_be_hidden()
    press(bench, "Event")
    press(panel, "Take down")
    expect(panel.get_by_role("button", name="Repair", exact=True)).to_be_visible()
    press(bench, "End")
    expect(bench.locator(".anb-status")).to_contain_text(f"{LINK} is down since")
    screenshot(host, "change-light")
    host.set_theme("dark")
    screenshot(host, "change-dark")
    host.set_theme("light")
    press(bench, "Reset")  # keeps parameters
    expect(bench).to_have_attribute("data-events", "0")
    assert len(evaluate(host, "sim.edits")) == 2
    press(panel, f"Undo {LINK}.up")
    expect(panel.get_by_role("button", name="Take down", exact=True)).to_be_visible()
    assert [path for _, path, _ in evaluate(host, "sim.edits")] == [f"{LINK}.bandwidth"]


def test_a_link_is_halved_applied_and_undone(host: Host) -> None:
    bench = start(host)
    host.change(f"workbench.select('{LINK}') or workbench.event(1000)")
    tab(bench, "Change")
    panel = bench.locator(".anb-change")
    bandwidth, latency = (panel.get_by_label(name, exact=True) for name in ("bandwidth", "latency"))
    expect(bandwidth).to_have_value("125 GB/s")
    press(panel, "Halve bandwidth")
    expect(bandwidth).to_have_value("62.5 GB/s")
    assert evaluate(host, "sim.edits") == []  # a value in the field changes nothing
    press(panel, "Double bandwidth")
    press(panel, "Double bandwidth")
    expect(bandwidth).to_have_value("250 GB/s")
    press(panel, "Double latency")
    press(panel, "Halve latency")
    expect(latency).to_have_value(evaluate(host, f"sim.parameters('{LINK}')[1].value"))
    bandwidth.fill("fast")
    press(panel, "Halve bandwidth")
    expect(bandwidth).to_have_value("fast")
    bandwidth.fill("25 GB/s")
    press(panel, "Halve bandwidth")
    press(panel, "Apply bandwidth")
    expect(panel.get_by_text(f"{LINK}.bandwidth = 12.5 GB/s")).to_be_visible()
    expect(bandwidth).to_have_value("12.5 GB/s")
    press(panel, f"Undo {LINK}.bandwidth")
    expect(bandwidth).to_have_value("125 GB/s")  # with no further click
    assert evaluate(host, "sim.edits") == []
    host.change("workbench.select('gpu[3].sm.0') or workbench.select('gpu[3]')")
    press(panel, "Halve sms")
    expect(panel.get_by_label("sms", exact=True)).to_have_value("66")
    press(panel, "Apply sms")
    press(panel, "Undo dgx_h100.0.xpu.3.sms")
    expect(panel.get_by_label("sms", exact=True)).to_have_value("132")


@IN_BOTH
def test_a_breakpoint_of_the_panel_is_hit_and_selects_and_a_watch_has_a_curve(host: Host) -> None:
    bench = start(host)
    tab(bench, "Breakpoints")
    panel = bench.locator(".anb-breaks")
    panel.get_by_label("Break", exact=True).select_option("when")
    panel.get_by_label("Condition").fill("gpu[3].sm.0.wating > 0")
    press(panel, "Add breakpoint")
    expect(panel.get_by_role("alert")).to_contain_text("did you mean 'waiting'")
    panel.get_by_label("Condition").fill("gpu[3].sm.0.waiting > 0")
    press(panel, "Add breakpoint")
    expect(panel.get_by_label("Enable dgx_h100.0.xpu.3.sm.0.waiting > 0")).to_be_checked()
    panel.get_by_label("Value to watch").fill("gpu[3].sm.0.issued")
    panel.get_by_label("Value to watch").press("Enter")
    press(bench, "Breakpoint")
    expect(bench.locator(".anb-status")).to_contain_text("waiting is 1")
    expect(panel.locator("[data-hit=true]")).to_contain_text("waiting is 1")
    becomes(host, "workbench._selection == 'dgx_h100.0.xpu.3.sm.0'")
    hit = evaluate(host, "sim.events")
    canvas = panel.locator("canvas.anb-spark")
    expect(canvas).to_have_attribute("aria-label", re.compile("issued: now"))
    painted(canvas, 1)
    host.change("workbench.break_at('20 us')")
    if isinstance(host, Notebook):  # a page and a file hold no code
        host.change("workbench.break_when(lambda s: s.events == 30000)")
        expect(panel.get_by_text("called after every event: slow")).to_be_visible()
    host.change("workbench.watch(f'{sim.engine.fabric.name(0)}.messages')")
    press(bench, "Breakpoint")
    expect(bench.locator(".anb-status")).to_contain_text("stopped at a breakpoint")
    screenshot(host, "breakpoints-light")
    host.set_theme("dark")
    screenshot(host, "breakpoints-dark")
    press(bench, "Reset")
    expect(bench).to_have_attribute("data-events", "0")
    press(bench, "Breakpoint")  # it is still there, and hit at the same event
    expect(bench).to_have_attribute("data-events", str(hit))
    press(panel, "Remove at 20 µs")
    expect(panel.get_by_label("Enable at 20 µs")).to_have_count(0)


def test_a_fork_stands_beside_the_run_with_the_same_clock(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab))
    evaluate(page, "workbench.event(2000)")
    tab(bench, "Change")
    panel = bench.locator(".anb-change")
    panel.get_by_label("algorithm", exact=True).select_option("allpairs")
    press(panel, "Fork with these")
    compare = bench.locator(".anb-compare").first
    expect(compare.get_by_role("columnheader").nth(2)).to_contain_text("algorithm allpairs")
    other = bench.locator(".anb-other .anb-workbench")
    expect(other).to_be_visible()
    expect(other.locator(".anb-strip")).to_contain_text("Ball_reduce/allpairs")
    expect(other.locator(".anb-changes")).to_have_text("algorithm: allpairs")
    expect(bench.locator(".anb-changes").first).to_have_text("algorithm: ring")

    def beside() -> bool:
        """Return whether the other picture is beside this one, at the same height."""
        left = bench.locator(".anb-topology").first.bounding_box()
        right = other.locator(".anb-topology").bounding_box()
        assert left
        assert right
        return right["x"] > left["x"] + left["width"] and abs(right["y"] - left["y"]) < 2

    until(page, beside, "the other picture is elsewhere")
    press(bench.locator("> .anb-transport"), "Phase")
    becomes(page, "sim.events > 2000 and not workbench.session.running")
    a, b = evaluate(page, "(sim.now_ps, workbench.linked.b.sim.now_ps)")
    assert 0 <= a - b < 100_000
    expect(compare.locator(".anb-verdict").first).to_contain_text("not both at their end")
    press(bench.locator("> .anb-transport"), "End")  # of either run
    expect(compare.locator(".anb-verdict").first).to_contain_text("algorithm allpairs is faster by")
    page.wait_for_timeout(500)
    screenshot(page, "fork-light")
    bench.screenshot(path="build/ui/fork-bench.png")
    becomes(page, "workbench.linked.b.sim.finished and sim.finished")


@pytest.mark.parametrize("width", [pytest.param(1400, marks=pytest.mark.slow), 800])
def test_side_by_side_in_a_cell(page: Page, lab: Lab, width: int) -> None:
    both = "other = sim.rebuilt(algorithm='allpairs')\nboth = anb.SideBySide(sim, other)\nboth"
    page.set_viewport_size({"width": width, "height": 1700})
    open_notebook(page, lab, [MAKE, both])
    run_cell(page, 0)
    run_cell(page, 1)
    views = page.locator(".anb-half .anb-workbench")
    expect(views).to_have_count(2)
    expect(views.nth(1)).to_have_attribute("data-events", "0")
    press(views.nth(0), "Play")
    expect(views.nth(1)).not_to_have_attribute("data-events", "0")
    expect(views.nth(1).locator(".anb-simulated")).not_to_contain_text("simulated 0 ps")
    press(views.nth(1), "Pause")  # either one's controls move both
    becomes(page, "not both.a.session.running")
    becomes(page, f"min(sim.now_ps, other.now_ps) > 0 and {TOGETHER}")
    evaluate(page, "both.to_end()")
    expect(page.locator(".anb-pair > .anb-compare .anb-verdict")).to_contain_text("is faster by")
    evaluate(page, "both.scrub('2 us')")
    expect(views.nth(0).locator(".anb-shown")).to_have_text("view 2 µs (past)")
    expect(views.nth(1).locator(".anb-shown")).to_have_text("view 2 µs (past)")
    if width == 1400:  # both show the same part of time, whichever is zoomed
        views.nth(1).press("w")
        becomes(page, "both.a._window_ps == both.b._window_ps != []")
        views.nth(0).press("Escape")
        becomes(page, "both.b._window_ps == []")
        evaluate(page, "both.scrub('2 us')")
    page.wait_for_timeout(400)
    screenshot(page, f"side-by-side-{width}")
    if width == 1400:
        set_theme(page, "dark")
        page.wait_for_timeout(300)
        screenshot(page, "side-by-side-dark")


def test_several_runs_are_switched_between(page: Page, lab: Lab) -> None:
    several = "runs = anb.Runs({'ring': sim, '<b>pairs': sim.rebuilt(algorithm='allpairs')})\nruns"
    page.set_viewport_size({"width": 1400, "height": 1000})
    open_notebook(page, lab, [MAKE, several])
    run_cell(page, 0)
    run_cell(page, 1)
    tabs = page.get_by_role("tablist", name="Runs").get_by_role("tab")
    expect(tabs).to_have_text(["ring at 0 ps", "<b>pairs at 0 ps"])
    bench = page.locator(".anb-workbench[role=application]")
    expect(bench).to_have_attribute("data-events", "0")
    press(bench, "Line")
    becomes(page, "sim.counts['line'] == 1")
    events = evaluate(page, "sim.events")
    expect(bench).to_have_attribute("data-events", str(events))
    tabs.nth(1).click()
    expect(bench.locator(".anb-title")).to_contain_text("allpairs")
    expect(bench).to_have_attribute("data-events", "0")
    press(bench, "End")
    expect(tabs.nth(1)).to_contain_text("ended at")
    screenshot(page, "several-runs")
    tabs.nth(1).press("ArrowLeft")
    expect(bench.locator(".anb-title")).to_contain_text("ring")
    expect(bench).to_have_attribute("data-events", str(events))
    evaluate(page, "runs.show('<b>pairs')")
    expect(tabs.nth(1)).to_have_attribute("aria-selected", "true")
    expect(bench.locator(".anb-result")).to_be_visible()
