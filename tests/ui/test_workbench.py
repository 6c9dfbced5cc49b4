"""The workbench in a real JupyterLab: every control, looked at and clicked as a person would."""

from __future__ import annotations

import os
import re
import shutil
import time

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.harness import (
    BARE,
    CYCLES,
    OPEN,
    REPOSITORY,
    THEMES,
    Host,
    Lab,
    becomes,
    evaluate,
    kept,
    on_link,
    open_notebook,
    point,
    run_all,
    run_cell,
    screenshot,
    set_theme,
    wait_idle,
)
from tests.ui.hosts import IN_BOTH, Notebook

MAKE = "import astranb as anb\nsim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('{size}', 'ring'))"
SHOW = "workbench = anb.Workbench(sim)\nworkbench"
PICTURE = REPOSITORY / "docs" / "workbench.png"


def start(host: Host, size: str = "256 KiB") -> Locator:
    """Open a workbench, and give it."""
    bench = host.show(MAKE.format(size=size), SHOW)
    expect(bench).to_have_attribute("data-events", "0")
    return bench


def button(bench: Locator, name: str) -> Locator:
    return bench.get_by_role("button", name=name, exact=True)


def shown(bench: Locator, events: int) -> None:
    """Wait until the picture shows the state after some events."""
    expect(bench).to_have_attribute("data-events", str(events))


def inside(bench: Locator, part: str) -> None:
    """Check that a part does not stand out of the workbench."""
    outer, inner = bench.bounding_box(), bench.locator(part).bounding_box()
    assert outer
    assert inner
    assert inner["x"] >= outer["x"], part
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"] + 1, part


@IN_BOTH
def test_every_button_does_what_it_says(host: Host) -> None:
    bench = start(host)
    expect(button(bench, "Back")).to_be_disabled()
    button(bench, "Event").click()
    shown(bench, 1)
    button(bench, "Cycle").click()  # all events of an instant: here, the launches of all blocks
    expect(bench).not_to_have_attribute("data-events", "1")
    cycle = evaluate(host, "sim.events")
    assert cycle > 2
    shown(bench, cycle)
    bench.get_by_label("Steps at once").select_option("1000")
    button(bench, "Event").click()
    shown(bench, cycle + 1000)
    before = evaluate(host, "sim.state_hash()")
    button(bench, "Back").click()
    shown(bench, cycle)
    button(bench, "Event").click()
    shown(bench, cycle + 1000)
    assert evaluate(host, "sim.state_hash()") == before
    bench.get_by_label("Steps at once").select_option("1")  # the factor holds for every unit
    button(bench, "Phase").click()
    expect(bench.locator(".anb-status")).to_contain_text("reduce-scatter 1/7 has ended")
    assert evaluate(host, "int(sim.engine.machine.clock[0].phases)") == 1
    host.change("str(sim.break_at('5 us'))")
    button(bench, "Breakpoint").click()
    expect(bench.locator(".anb-status")).to_contain_text("stopped at a breakpoint")
    assert evaluate(host, "sim.now_ps") <= 5_000_000
    host.change("sim.clear()")
    button(bench, "End").click()
    expect(bench.locator(".anb-status")).to_contain_text("nothing is left to happen")
    expect(button(bench, "Event")).to_be_disabled()
    assert evaluate(host, "sim.finished")
    shown(bench, evaluate(host, "sim.events"))
    button(bench, "Reset").click()
    shown(bench, 0)
    expect(bench.locator(".anb-simulated")).to_have_text("simulated 0 ps · event 0")


@IN_BOTH
def test_play_and_pause(host: Host) -> None:
    bench = start(host)
    button(bench, "Play").click()
    expect(button(bench, "Pause")).to_be_visible()
    expect(bench).to_have_attribute("data-dots", re.compile(r"\d{3,}"))
    button(bench, "Pause").click()
    expect(button(bench, "Play")).to_be_visible()
    events = evaluate(host, "sim.events")
    shown(bench, events)
    time.sleep(0.3)
    assert evaluate(host, "sim.events") == events > 0  # it stands still
    button(bench, "Event").click()
    shown(bench, events + 1)
    assert evaluate(host, "workbench.cursor_ps == sim.now_ps")
    bench.get_by_label("Speed").fill("8")
    expect(bench.locator(".anb-speed-text")).to_have_text("1 s = 100 µs")
    button(bench, "Play").click()
    expect(bench.locator(".anb-status")).to_contain_text("nothing is left to happen")
    assert evaluate(host, "sim.result.time_ps") == evaluate(host, "sim.now_ps")


def test_other_cells_run_while_it_plays(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab, "seen = sim.events\nseen", "sim.step(1000)\nmoved = sim.events"))
    button(bench, "Play").click()
    page.wait_for_function("document.querySelector('.anb-workbench').dataset.events > 1000")
    run_cell(page, 2)
    first = evaluate(page, "seen")
    assert first > 1000
    expect(button(bench, "Pause")).to_be_visible()  # it plays on
    run_cell(page, 3)  # a cell may even move what plays
    assert evaluate(page, "moved") >= first + 1000
    page.wait_for_function(
        f"document.querySelector('.anb-workbench').dataset.events > {evaluate(page, 'moved')}"
    )
    button(bench, "Pause").click()
    expect(button(bench, "Play")).to_be_visible()


def test_keyboard(host: Host) -> None:
    page = host.page
    bench = start(host)
    cells = page.locator(".jp-Cell").count()
    bench.focus()
    bench.press("ArrowRight")
    shown(bench, 1)
    bench.press("Shift+ArrowRight")
    expect(bench).not_to_have_attribute("data-events", "1")
    cycle = evaluate(host, "sim.events")
    shown(bench, cycle)
    bench.press("ArrowLeft")
    shown(bench, cycle - 1)
    bench.press("Home")
    shown(bench, 0)
    bench.press("n")
    expect(bench.locator(".anb-status")).to_contain_text("reduce-scatter 1/7 has ended")
    host.change("str(sim.break_at('6 us'))")
    bench.press("c")
    expect(bench.locator(".anb-status")).to_contain_text("breakpoint")
    host.change("sim.clear()")
    slow = bench.locator(".anb-speed-text").inner_text()
    bench.press("+")
    expect(bench.locator(".anb-speed-text")).not_to_have_text(slow)
    bench.press("-")
    expect(bench.locator(".anb-speed-text")).to_have_text(slow)
    bench.press("Space")
    expect(button(bench, "Pause")).to_be_visible()
    bench.press("Space")
    expect(button(bench, "Play")).to_be_visible()
    bench.press("?")
    expect(bench.locator(".anb-help")).to_be_visible()
    inside(bench, ".anb-help")
    screenshot(host, "workbench-help")
    bench.press("?")
    expect(bench.locator(".anb-help")).to_be_hidden()
    bench.press("w")
    bench.press("d")
    bench.press("Escape")
    bench.press("f")
    expect(bench.get_by_label("Follow")).not_to_be_checked()
    bench.press("f")
    # The notebook's own keys (insert a cell, delete one) must not have been taken by it.
    for key in ("a", "b", "x", "d", "d"):
        bench.press(key)
    assert page.locator(".jp-Cell").count() == cells
    bench.press("End")
    expect(bench.locator(".anb-status")).to_contain_text("nothing is left to happen")


def test_look_inside(host: Host) -> None:
    bench = start(host)
    host.change("str(sim.run('3 us'))")
    shown(bench, evaluate(host, "sim.events"))
    inspector = bench.locator(".anb-inspector")
    canvas = bench.locator(".anb-picture > canvas")
    canvas.click(position=point(host, bench, "gpu[3]"))
    expect(inspector.locator("h4")).to_have_text("dgx_h100.0.xpu.3 (GPU3)")
    becomes(host, "workbench.selected['title'] == 'dgx_h100.0.xpu.3 (GPU3)'")
    count = evaluate(host, "sim.inspect('gpu[3]')['in_flight_count']")
    expect(inspector).to_contain_text(f"In flight: {count:,}")
    inspector.get_by_role("button", name=re.compile("^sm.0")).click()
    expect(inspector).to_contain_text("stalled for a slot")
    becomes(host, "workbench.selected['kind'] == 'sm'")
    canvas.click(position=point(host, bench, "dgx_h100.0.nvsw.1"))
    expect(inspector).to_contain_text("lines passed")
    canvas.click(position=on_link(host, bench, "gpu[0]", "dgx_h100.0.nvsw.0"))
    expect(inspector.locator("h4")).to_have_text("dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0")
    expect(inspector).to_contain_text("utilisation so far")
    path = inspector.get_by_label("Object to inspect")
    path.fill("gpu[5].block.2")
    path.press("Enter")
    expect(inspector.locator("h4")).to_contain_text("block.2")
    path.fill("gpu[99]")
    path.press("Enter")
    expect(inspector.locator(".anb-failed")).to_contain_text("99")
    bench.locator(".anb-timeline canvas").click(position={"x": 30, "y": 35})
    expect(inspector.locator("h4")).to_have_text("dgx_h100.0.xpu.0 (GPU0)")
    inspector.get_by_role("button", name="Clear the selection").click()
    expect(inspector).to_contain_text("Click a GPU")
    becomes(host, "workbench.selected is None")


def test_scrubbing_moves_only_the_view(host: Host) -> None:
    bench = start(host)
    host.change("str(sim.run('8 us'))")
    host.change("workbench.select('gpu[2]')")
    events = evaluate(host, "sim.events")
    shown(bench, events)
    slider = bench.get_by_label("View cursor")
    slider.fill("0.5")
    expect(bench.locator(".anb-shown")).to_contain_text("(past)")
    expect(bench.get_by_label("Follow")).not_to_be_checked()
    then = evaluate(host, "sim.now_ps") * 0.5
    becomes(host, f"abs(workbench.cursor_ps - {then}) <= 1")
    assert evaluate(host, "sim.events") == events
    # The inspector shows what a second simulation says at that time.
    evaluate(host, "[other := sim.fork(record=False), other.goto(workbench.cursor_ps)] and 0")
    issued = evaluate(host, "dict(map(tuple, other.inspect('gpu[2]')['state']))['instructions issued']")
    assert issued != evaluate(host, "dict(map(tuple, sim.inspect('gpu[2]')['state']))['instructions issued']")
    expect(bench.locator(".anb-inspector")).to_contain_text(issued)
    button(bench, "Event").click()  # a step brings the cursor back to the simulation first
    shown(bench, events + 1)
    expect(bench.get_by_label("Follow")).to_be_checked()
    becomes(host, "workbench.cursor_ps == sim.now_ps")
    host.change("workbench.scrub('2 us')")
    expect(bench.locator(".anb-shown")).to_contain_text("view 2 µs (past)")
    host.change("workbench.follow()")
    expect(bench.get_by_label("Follow")).to_be_checked()


@IN_BOTH
def test_playing_from_the_past_replays_and_goes_on(host: Host) -> None:
    page = host.page
    bench = start(host)
    host.change("str(sim.run('4 us'))")
    events = evaluate(host, "sim.events")
    shown(bench, events)
    bench.get_by_label("View cursor").fill("0.5")
    bench.get_by_label("Speed").fill("5")  # 100 ns a second
    button(bench, "Play").click()
    expect(bench.locator(".anb-narration")).to_contain_text("replaying")
    assert evaluate(host, "sim.events") == events
    bench.get_by_label("Speed").fill("6.5")
    page.wait_for_function(
        "events => Number(document.querySelector('.anb-workbench').dataset.events) > events", arg=events
    )
    button(bench, "Pause").click()
    expect(button(bench, "Play")).to_be_visible()


def test_two_views_show_the_same(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab, "second = anb.Workbench(sim)\nsecond", "workbench"))
    run_cell(page, 2)
    run_cell(page, 3)
    benches = page.locator(".anb-workbench")
    expect(benches).to_have_count(3)
    for place, steps in enumerate(("Event", "Cycle", "Phase")):
        before = evaluate(page, "sim.events")
        button(benches.nth(place), steps).click()
        becomes(
            page, f"sim.events > {before} and not workbench.session.playing"
        )  # a phase plays in the background
        events = evaluate(page, "sim.events")
        for other in range(3):
            shown(benches.nth(other), events)
    evaluate(page, "str(sim.back(100))")  # a cell moves all of them, too
    for other in range(3):
        shown(benches.nth(other), evaluate(page, "sim.events"))
    evaluate(page, "second.close()")
    button(bench, "Event").click()
    shown(bench, evaluate(page, "sim.events"))


def test_what_nobody_looks_at_is_sent_nothing(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab, "first = workbench"))
    run_cell(page, 2)
    run_cell(page, 1)  # shows another one in the place of the first
    shown(bench, 0)
    button(bench, "Event").click()
    shown(bench, 1)
    assert evaluate(page, "[first.connection.ready, workbench.connection.ready]") == [False, True]
    evaluate(page, "str(sim.step(5000))")
    shown(bench, 5001)


def test_interrupting_a_run_in_a_cell_leaves_it_steppable(page: Page, lab: Lab) -> None:
    bench = start(
        Notebook(page, lab, "try:\n    sim.run()\nexcept KeyboardInterrupt:\n    stopped = sim.events"),
        size="64 MiB",
    )
    run_cell(page, 2, wait=False)
    expect(bench.locator(".anb-status")).to_contain_text("running in a cell: interrupt the kernel")
    page.wait_for_function("document.querySelector('.anb-workbench').dataset.events > 1000000")
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")
    wait_idle(page)
    events = evaluate(page, "stopped")
    assert events > 0
    assert not evaluate(page, "sim.finished")
    button(bench, "Event").click()
    shown(bench, events + 1)
    button(bench, "Back").click()
    shown(bench, events)


def test_interrupting_the_kernel_while_it_plays_loses_nothing(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab))
    button(bench, "Play").click()
    page.wait_for_function("document.querySelector('.anb-workbench').dataset.events > 1000")
    for _ in range(3):
        page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")
        page.wait_for_timeout(200)
    evaluate(page, "workbench.pause()")
    expect(button(bench, "Play")).to_be_visible()
    events = evaluate(page, "sim.events")
    assert events > 1000
    button(bench, "Event").click()
    shown(bench, events + 1)
    evaluate(
        page, "[other := anb.Simulation('dgx-h100', sim.engine.work), str(other.step(sim.events))] and 0"
    )
    assert evaluate(page, "other.state_hash() == sim.state_hash()")


@pytest.mark.fresh_tab
def test_a_reloaded_page_shows_it_again(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab))
    button(bench, "Phase").click()
    expect(bench.locator(".anb-status")).to_contain_text("reduce-scatter 1/7 has ended")
    events = evaluate(page, "sim.events")
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    page.reload()
    page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.sessionContext?.isReady")
    wait_idle(page)
    shown(page.locator(".anb-workbench").first, events)


def test_the_tour_runs_and_its_workbench_shows_the_end(page: Page, lab: Lab) -> None:
    open_notebook(page, lab, "notebooks/tour.ipynb")
    run_all(page)
    bench = page.locator(".anb-workbench")
    bench.scroll_into_view_if_needed()
    shown(bench, evaluate(page, "sim.events"))
    expect(bench.locator(".anb-status")).to_contain_text("nothing is left to happen")
    # All 465,920 lines of the run come to the browser when it is at rest: also those of the middle.
    bench.get_by_label("View cursor").fill("0.0901")
    expect(bench.locator(".anb-note").first).not_to_contain_text("sent to the browser")
    becomes(page, "workbench.cursor_ps < sim.now_ps")
    now = "sim.engine.recorder.flights(workbench.cursor_ps, workbench.cursor_ps)[0]"
    flying = evaluate(page, f"int(({now}.start_ps <= workbench.cursor_ps).sum())")
    queued = evaluate(page, f"int(({now}.start_ps > workbench.cursor_ps).sum())")
    assert min(flying, queued) > 10
    expect(bench.locator(".anb-topology .anb-note")).to_contain_text(f"{flying:,} lines in flight")
    expect(bench.locator(".anb-topology .anb-note")).to_contain_text(f"{queued:,} in queues")
    screenshot(page, "tour")


HOSTILE = """
name: <img src>
devices:
  - name: <b>
    components:
      - {name: xpu, choice: xpu, count: 2}
      - {name: sw, choice: switch, count: 1}
    links:
      - {name: l, physical: {bandwidth: {gigabits_per_second: 400}, latency: {ns: 300}}}
    edges:
      - ep1: {component: xpu}
        ep2: {component: sw}
        scheme: many2many
        link: l
instances:
  - {name: <script>, device: <b>, count: 1}
"""

HOSTILE_PHASE = """
def swap(p):
    for rank in range(2):
        block = p.block(rank)
        block.phase("<img src=x onerror='document.title=`owned`'>")
        block.copy(p.input(rank)[0], p.output(rank)[rank], p.output(1 - rank)[rank])
"""


def test_names_are_never_markup(page: Page, lab: Lab) -> None:
    (lab.root / "hostile.yaml").write_text(HOSTILE)
    make = "sim = anb.Simulation('hostile.yaml', anb.collectives.all_gather('64 KiB', swap))"
    open_notebook(page, lab, [f"import astranb as anb\n{HOSTILE_PHASE}\n{make}", SHOW])
    run_all(page)
    bench = page.locator(".anb-workbench")
    expect(bench.locator(".anb-title")).to_contain_text("<img src>")
    evaluate(page, "[str(sim.step(300)), workbench.select('gpu[0]')]")
    expect(bench.locator(".anb-inspector")).to_contain_text("<img src=x onerror=")
    expect(bench.locator(".anb-inspector h4")).to_contain_text("<script>")
    assert page.locator(".jp-OutputArea img, .jp-OutputArea script").count() == 0
    assert "owned" not in page.title()


def test_it_looks_right(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab), "1 MiB")
    evaluate(page, "str(sim.run('11.4 us'))")
    evaluate(page, "workbench.select('gpu[3]')")
    expect(bench.locator(".anb-inspector h4")).to_contain_text("GPU3")
    shown(bench, evaluate(page, "sim.events"))
    for name in (".anb-topology", ".anb-timeline", ".anb-memory"):  # the timelines follow at rest
        page.wait_for_function(
            """selector => {
                const canvas = document.querySelector(`${selector} canvas`)
                const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
                return new Set(new Uint32Array(data.buffer)).size > 20
            }""",
            arg=name,
        )
    assert int(bench.get_attribute("data-dots") or 0) > 0
    for theme in THEMES:
        set_theme(page, theme)
        page.wait_for_timeout(500)
        screenshot(page, f"workbench-{theme}-page")
        path = REPOSITORY / "build" / "ui" / f"workbench-{theme}.png"
        bench.screenshot(path=path)
        back = page.evaluate("getComputedStyle(document.querySelector('.anb-workbench')).backgroundColor")
        brightness = sum(map(int, re.findall(r"\d+", back)[:3]))
        assert (brightness > 384) == (theme == "light")
        if theme == "light" and os.environ.get("ASTRANB_PICTURE"):
            shutil.copyfile(path, PICTURE)


def test_it_fits_a_narrow_window(page: Page, lab: Lab) -> None:
    bench = start(Notebook(page, lab))
    page.set_viewport_size({"width": 900, "height": 1200})
    button(bench, "Phase").click()
    page.wait_for_timeout(500)
    screenshot(page, "workbench-narrow")
    for part in (".anb-transport", ".anb-topology", ".anb-inspector", ".anb-timeline", ".anb-memory"):
        inside(bench, part)


@pytest.mark.slow
@pytest.mark.fresh_tab
def test_a_closed_view_leaves_nothing(page: Page, lab: Lab) -> None:
    """JupyterLab keeps something of any output: only that remains (1,000 cycles in `make bench`)."""
    cycles, left = 60, []
    for first in (BARE, OPEN):
        open_notebook(page, lab, [first, CYCLES.format(cycles=15), CYCLES.format(cycles=cycles)])
        for index in range(2):
            run_cell(page, index)
        before = kept(page)
        run_cell(page, 2)
        expect(page.locator(".anb-workbench")).to_have_count(0)
        after = kept(page)
        for _ in range(8):  # on a busy machine the last views are on their way out for seconds
            if after["JSEventListeners"] - before["JSEventListeners"] < 20 * cycles:
                break
            page.wait_for_timeout(2000)
            after = kept(page)
        left.append({name: after[name] - before[name] for name in ("Nodes", "JSEventListeners")})
    # A view has 1,800 nodes and hundreds of listeners; some of the last one are still on their way out.
    assert left[1]["JSEventListeners"] - left[0]["JSEventListeners"] < 5 * cycles
    assert left[1]["Nodes"] - left[0]["Nodes"] < 200 * cycles
