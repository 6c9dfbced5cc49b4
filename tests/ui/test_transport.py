"""Controls beyond the buttons: times, rates, progress, the table, and a kernel that dies."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.harness import (
    Host,
    Lab,
    becomes,
    evaluate,
    execute,
    on_link,
    open_notebook,
    run_cell,
    screenshot,
    until,
    wait_idle,
)
from tests.ui.hosts import Notebook
from tests.ui.test_workbench import button, shown, start


def test_go_to_a_time_on_and_back(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab))
    when = bench.get_by_label("Go to a time")
    when.fill("5 us")
    when.press("Enter")
    becomes(page, "sim.now_ps <= 5_000_000 and sim.events > 1000 and not workbench.session.playing")
    events = evaluate(page, "sim.events")
    shown(bench, events)
    assert evaluate(page, "(f := sim.fork(), f.reset(), f.goto('5 us'), f.events)[-1]") == events
    when.fill("2 us")
    when.press("Enter")
    becomes(page, f"0 < sim.events < {events}")
    bench.press("Home")
    shown(bench, 0)
    when.fill("soon")
    when.press("Enter")
    expect(bench.locator(".anb-status")).to_contain_text("soon")


def test_steps_by_every_unit_and_back(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab), size="64 KiB")
    for unit in ("instruction", "hop", "line", "message", "phase"):
        steps_and_back(page, bench, unit)
        bench.press("Home")
        shown(bench, 0)


def steps_and_back(page: Page, bench: Locator, unit: str) -> None:
    """Two steps, one back for each, ten at once, and back by an event."""
    back, at_once = bench.get_by_label("Back by"), bench.get_by_label("Steps at once")
    at_once.select_option("1")
    places, hashes = [0], [str(evaluate(page, "sim.state_hash()"))]
    for n in (1, 2):
        button(bench, unit.capitalize()).click()
        becomes(page, f"sim.counts['{unit}'] == {n} and not workbench.session.playing")
        places.append(evaluate(page, "sim.events"))
        hashes.append(str(evaluate(page, "sim.state_hash()")))
        shown(bench, places[-1])
        expect(back).to_have_value(unit)  # one step back undoes the last one
    assert evaluate(page, f"(f := sim.fork(), f.reset(), f.step(2, '{unit}'), f.events)[-1]") == places[-1]
    for n in (1, 0):
        button(bench, "Back").click()
        becomes(page, f"sim.counts['{unit}'] == {n} and not workbench.session.playing")
        went = evaluate(page, "sim.events")
        assert went <= places[n]
        shown(bench, went)
    assert str(evaluate(page, "sim.state_hash()")) == hashes[0]
    at_once.select_option("10")
    button(bench, unit.capitalize()).click()
    becomes(page, f"sim.counts['{unit}'] == 10 and not workbench.session.playing")
    back.select_option("event")
    button(bench, "Back").click()
    expect(bench.locator(".anb-status")).to_contain_text("back")


def test_paths_are_proposed_while_they_are_typed(host: Host) -> None:
    make = (
        "import astranb as anb\ncollective = anb.collectives.all_reduce('64 KiB', 'ring')\n"
        "sim = anb.Simulation('dgx-h100', collective, network=anb.Network(buffers=4))\n"
        "workbench = anb.Workbench(sim)\nworkbench"
    )
    bench = host.show(make, height=1000)
    shown(bench, 0)
    field = bench.get_by_label("Object to inspect")
    proposed = "([list, path]) => document.getElementById(list).options[0]?.value === path"
    for typed, kind in {
        "sem": "semaphore", "GPU5.l2": "l2", "gpu[2].hbm": "hbm", "port": "port", "buffer": "buffer",
    }.items():  # fmt: skip
        expected = evaluate(host, f"sim.paths({typed!r}, 1)[0]")
        assert kind in expected
        field.press("Control+a")
        field.press_sequentially(typed)  # paths are proposed while the field has the focus
        host.page.wait_for_function(proposed, arg=[field.get_attribute("list"), expected])
        field.press("Control+a")
        field.press_sequentially(expected)
        field.press("Enter")
        becomes(host, f"workbench._selection == {expected!r}")
        title = evaluate(host, f"sim.inspect({expected!r})['title']")
        expect(bench.locator(".anb-inspector h4").first).to_have_text(title)
    screenshot(host, "inspected-buffer")


# Gives how many pictures are drawn a second, from a moment on at which there is one.
RATE = """bench => new Promise(done => {
    let [first, began] = [0, 0]
    const observer = new MutationObserver(() => {
        const drawn = Number(bench.dataset.frames)
        if (!began) [first, began] = [drawn, performance.now()]
        else if (performance.now() - began > 2000) {
            observer.disconnect()
            done((drawn - first) / (performance.now() - began) * 1000)
        }
    })
    observer.observe(bench, { attributes: true, attributeFilter: ["data-frames"] })
})"""


def test_a_picture_may_be_drawn_less_often_than_time_passes(host: Host) -> None:
    page = host.page
    bench = start(host)
    bench.get_by_role("button", name="More controls").click()
    bench.get_by_label("Redraw rate").select_option("4")
    becomes(host, "workbench._redraw_hz == 4")
    host.change("workbench.set_speed('2 us')")
    button(bench, "Play").click()
    page.wait_for_function("() => document.querySelector('.anb-workbench').dataset.cursor > 200_000")
    rate = bench.evaluate(RATE)
    button(bench, "Pause").click()
    expect(button(bench, "Play")).to_be_visible()
    assert rate < 6, rate  # not the 60 of a screen
    shown(bench, evaluate(host, "sim.events"))


def test_long_work_says_how_far_it_is_and_can_be_paused(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab), size="64 MiB")
    button(bench, "End").click()
    expect(bench.locator(".anb-narration")).to_contain_text("left")
    expect(bench.locator(".anb-narration")).to_contain_text("simulated per second")
    expect(bench.get_by_label("Share of the lines issued")).to_be_visible()
    screenshot(page, "progress")
    button(bench, "Pause").click()
    becomes(page, "not workbench.session.playing")
    shown(bench, evaluate(page, "sim.events"))
    expect(bench.get_by_label("Share of the lines issued")).to_be_hidden()


def test_the_table_says_what_the_canvas_shows(host: Host) -> None:
    page = host.page
    bench = start(host)
    host.change("workbench.goto('6 us')")
    expect(bench.locator(".anb-topology .anb-note")).not_to_contain_text("sent to the browser")
    page.wait_for_timeout(800)  # what was left out in a hurry follows at rest
    bench.get_by_role("tab", name="Table").click()
    table = bench.locator(".anb-table")
    expect(table.locator("tbody tr")).to_have_count(evaluate(host, "len(workbench.feed.layout.bundles)"))
    flying = [int(text) for text in table.locator("tbody td:nth-child(2)").all_inner_texts()]
    assert sum(flying) > 0
    bench.get_by_role("tab", name="Topology").click()
    expect(bench.locator(".anb-topology .anb-note")).to_contain_text(f"{sum(flying):,} lines in flight")
    bench.get_by_role("tab", name="Topology").press("ArrowRight")  # from tab to tab by keys
    expect(bench.get_by_role("tab", name="Traffic")).to_be_focused()
    bench.get_by_role("tab", name="Table").click()
    name = table.locator("tbody button").first
    name.click()
    becomes(host, f"workbench.selected['path'] == {name.get_attribute('title')!r}")
    screenshot(host, "table")


def goes_to(bench: Locator, time: str) -> None:
    """Go to a time with the field, and wait until the run is there."""
    field = bench.get_by_label("Go to a time")
    field.fill(time)
    field.press("Enter")
    almost = float(time.partition(" ")[0]) * 1e6 - 100_000
    bench.page.wait_for_function(
        "almost => document.querySelector('.anb-workbench').dataset.cursor > almost", arg=almost
    )
    expect(button(bench, "Play")).to_be_visible()


def test_a_window_is_recorded(host: Host) -> None:
    page = host.page
    bench = start(host)
    record = button(bench, "Record")
    expect(record).to_have_attribute("aria-pressed", "true")
    record.click()
    expect(record).to_have_attribute("aria-pressed", "false")
    goes_to(bench, "3 us")
    bench.press("r")
    expect(record).to_have_attribute("aria-pressed", "true")
    goes_to(bench, "6 us")
    if isinstance(host, Notebook):  # a file holds no recording
        assert [round(t, -6) for t in evaluate(host, "sim.unrecorded[0]")] == [0, 3_000_000]
    track = "getComputedStyle(document.querySelector('.anb-transport')).getPropertyValue('--anb-track')"
    page.wait_for_function(f"() => /transparent 0.00% 48/.test({track})")
    screenshot(host, "recorded-window")
    tip = bench.locator(".anb-topology .anb-tip").first
    for time, words in (("2 us", "load not known"), ("5 us", "% busy")):
        host.change(f"workbench.scrub({time!r})")
        expect(bench.locator(".anb-shown")).to_contain_text(f"view {time[0]} µs")
        bench.locator(".anb-picture > canvas").hover(
            position=on_link(host, bench, "gpu[0]", "dgx_h100.0.nvsw.0")
        )
        expect(tip).to_contain_text(words)
    bench.press("Home")
    becomes(host, "sim.unrecorded == []")


@pytest.mark.fresh_tab
def test_a_dead_kernel_is_reported(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab))
    button(bench, "Event").click()
    shown(bench, 1)
    execute(page, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    expect(bench.locator(".anb-status")).to_contain_text("kernel")
    expect(bench.locator(".anb-status")).to_contain_text("died")
    expect(button(bench, "Event")).to_be_disabled()
    screenshot(page, "dead-kernel")


LOSE = """() => {
    window.lost = []
    WebSocket.prototype.send = data => window.lost.push(new TextDecoder().decode(data))
}"""
"""Nothing reaches the kernel any more."""


@pytest.mark.fresh_tab
def test_views_of_a_kernel_that_was_shut_down_send_nothing(page: Page, lab: Lab) -> None:
    editor = "anb.Editor(infra='switch:gpus=4', size='8 KiB')"
    bench = start(Notebook(page, lab, editor))
    run_cell(page, 2)
    bench.get_by_label("Steps at once").select_option("1000")
    button(bench, "Event").click()
    page.evaluate(LOSE)
    program = page.get_by_role("textbox", name="Program")
    program.press("Enter")
    asked = "window.lost.some(text => text.includes('check'))"
    until(page, lambda: page.evaluate(asked), "nothing was asked")
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    expect(bench.locator(".anb-status")).to_contain_text("the kernel has been shut down")
    expect(button(bench, "Event")).to_be_disabled()
    bench.get_by_label("Object to inspect").fill("gpu[3]")
    bench.get_by_label("Object to inspect").press("Enter")
    bench.get_by_role("tab", name="Explain", exact=True).click()
    program.press("Enter")
    page.wait_for_timeout(500)  # after the last key it would ask
    expect(page.locator(".anb-editor").get_by_role("status")).to_contain_text("copy the text")
    screenshot(page, "kernel-shut-down")


@pytest.mark.fresh_tab
def test_a_busy_kernel_is_reported(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab))
    wait = "while not os.path.exists('go'): time.sleep(0.1)"
    execute(page, f"import os, time\nopen('busy', 'w').close()\n{wait}")
    # What a view sends takes another way than code: it may be there first.
    until(page, (lab.root / "busy").exists, "the code does not run")
    button(bench, "Event").click()
    expect(bench.locator(".anb-status")).to_contain_text("no answer for 6 s")
    (lab.root / "go").touch()
    shown(bench, 1)
    expect(bench.locator(".anb-status")).to_contain_text("stepped")


@pytest.mark.fresh_tab
def test_a_kept_session_survives_a_restart_of_the_kernel(page: Page, lab: Lab) -> None:
    page.set_viewport_size({"width": 1400, "height": 1200})
    make = "anb.Simulation('dgx-h100', anb.collectives.all_reduce('256 KiB', 'ring'))"
    cell = f"import astranb as anb\nworkbench = anb.Workbench.kept('kept.anb', lambda: {make})\nworkbench"
    open_notebook(page, lab, [cell])
    run_cell(page, 0)
    bench = page.locator(".anb-workbench").first
    shown(bench, 0)
    bench.get_by_label("Steps at once").select_option("1000")
    for n in range(1, 4):
        button(bench, "Event").click()
        shown(bench, 1000 * n)
    evaluate(page, "(workbench.select('gpu[2]'), workbench.sim.break_at('4 us'))[0]")
    before = evaluate(page, "workbench.sim.state_hash()")
    becomes(page, "anb.Simulation.load('kept.anb').events == 3000")
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    expect(bench.locator(".anb-status")).to_contain_text("Workbench.load(path)")
    wait_idle(page)
    run_cell(page, 0)
    bench = page.locator(".anb-workbench").first
    shown(bench, 3000)
    expect(bench.locator(".anb-status")).to_contain_text("loaded from kept.anb")
    assert evaluate(page, "workbench.sim.state_hash()") == before
    button(bench, "Event").click()
    shown(bench, 3001)
