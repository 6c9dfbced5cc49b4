"""A program in a real JupyterLab: its lines and data at the cursor, errors at their lines as it is typed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.ui.harness import (
    THEMES,
    Host,
    Lab,
    becomes,
    evaluate,
    open_notebook,
    run_cell,
    screenshot,
    set_theme,
)

pytestmark = pytest.mark.fresh_tab

EVIL = '<img src=x onerror="window.hurt=1">'
EDITOR = (
    "import astranb as anb\n"
    "editor = anb.Editor(infra='switch:gpus=4', size='8 KiB', channels=1, name='two_shot <img src=x>')\n"
    "editor"
)
WATCHED = ".anb-workbench:not(.anb-editor)"


def start(page: Page, lab: Lab, *cells: str) -> None:
    page.set_viewport_size({"width": 1400, "height": 1700})
    open_notebook(page, lab, list(cells))
    for number in range(len(cells)):
        run_cell(page, number)


PIPELINE = """\
from typing import Literal

def pipeline(p, *, slices=4, order: Literal["near", "far"] = "near", share=0.5, all_wait=False):
    p.chunks(slices)
    root, arrived = p.rank(0), [me.semaphore() for me in p.everyone]
    others = root.others if order == "near" else root.others[::-1]
    block = root.block()
    for chunk in range(len(root.input)):
        block.copy(root.input[chunk], *(you.output[chunk] for you in p.everyone))
    for you in others:
        block.signal(arrived[you.number])
        you.block().wait(arrived[you.number])
"""


def test_parameters_are_changed_by_controls(page: Page, lab: Lab) -> None:
    start(
        page,
        lab,
        f"import astranb as anb\ntext = {PIPELINE!r}\n"
        "editor = anb.Editor(text, infra='switch:gpus=4', collective='broadcast', name='pipeline')\neditor",
    )
    page.set_viewport_size({"width": 1280, "height": 720})
    editor = page.locator(".anb-editor")
    status = editor.get_by_role("status")
    expect(status).to_contain_text("correct for 4 ranks")
    controls = editor.get_by_role("group", name="Parameters")
    slices = controls.get_by_role("slider", name="slices")
    expect(slices).to_have_attribute("aria-valuetext", "4")
    slices.focus()
    page.keyboard.press("ArrowRight")
    expect(slices).to_have_attribute("aria-valuetext", "8")
    controls.get_by_label("order").select_option("far")
    # A control shows what was pressed, whatever is answered meanwhile to what was pressed before.
    shown = controls.evaluate(
        """async controls => {
            const slices = controls.querySelector("input[type=range]")
            const wait = controls.querySelector("input[type=checkbox]")
            const at = slices.value
            for (const value of ["0", at]) {
                slices.value = value
                slices.dispatchEvent(new Event("change"))
            }
            wait.click()
            const seen = []
            const status = controls.closest(".anb-editor").querySelector("[role=status]")
            while (!status.textContent.startsWith("correct")) {
                seen.push(`${slices.value === at} ${wait.checked}`)
                await new Promise(next => requestAnimationFrame(next))
            }
            return [...seen, `${slices.value === at} ${wait.checked}`]
        }"""
    )
    assert set(shown) == {"true true"}
    becomes(page, "editor._draft.params == {'slices': 8, 'order': 'far', 'all_wait': True}")
    expect(status).to_contain_text("correct for 4 ranks")
    editor.scroll_into_view_if_needed()
    for theme in THEMES:
        set_theme(page, theme)
        expect(page.locator("#jupyterlab-splash")).to_have_count(0)
        screenshot(page, f"editor-parameters-{theme.split()[-1].lower()}")
        row = controls.bounding_box()
        assert row is not None
        assert row["x"] + row["width"] <= 1280
    editor.get_by_role("button", name="Simulate").click()
    expect(page.locator(WATCHED)).to_have_attribute("data-events", "0")
    assert evaluate(page, "editor.sim.engine.work.title").startswith("broadcast/pipeline(slices=8")

    # A parameter that is renamed in the text has a control of its new name.
    evaluate(page, "setattr(editor, 'text', text.replace('slices', 'blocks'))")
    expect(controls.get_by_role("slider", name="blocks")).to_have_attribute("aria-valuetext", "4")
    expect(status).to_contain_text("correct for 4 ranks")


def test_a_program_is_written_mended_simulated_and_stepped(page: Page, lab: Lab) -> None:
    start(page, lab, EDITOR)
    editor = page.locator(".anb-editor")
    text = editor.get_by_label("Program", exact=True)
    status = editor.get_by_role("status")
    expect(status).to_contain_text("correct for 4 ranks")

    # A bug, typed: the error stands at its line, and nothing can be simulated.
    lines = text.input_value().split("\n")
    number = next(k for k, line in enumerate(lines) if "block.reduce" in line)
    text.evaluate(
        "(area, [from, to]) => { area.focus(); area.setSelectionRange(from, to) }",
        [
            sum(len(line) + 1 for line in lines[:number]),
            sum(len(line) + 1 for line in lines[: number + 1]) - 1,
        ],
    )
    page.keyboard.insert_text("        block.reduce([*parts], me.output[me.number])")
    expect(status).to_contain_text("1 error for 4 ranks")
    problem = editor.get_by_role("listitem")
    expect(problem).to_contain_text("contribution of rank 0 is missing")
    expect(problem).to_contain_text(f"line {number + 1}: wrong result on rank 0")
    expect(editor.locator(".anb-gutter-line.anb-error span").first).to_have_text(str(number + 1))
    expect(editor.get_by_role("button", name="Simulate")).to_be_disabled()
    screenshot(page, "editor-error")

    # Half a word, and text that would be markup elsewhere.
    page.keyboard.press("End")
    page.keyboard.type(f"\nraise KeyError('{EVIL}')")
    expect(problem.first).to_contain_text(EVIL)
    assert page.evaluate("window.hurt") is None
    expect(page.locator("img[src=x]")).to_have_count(0)

    # Mended: it goes on with what was right.
    editor.get_by_role("button", name="Last correct text").click()
    expect(status).to_contain_text("correct for 4 ranks")
    expect(text).to_have_value("\n".join(lines))
    editor.get_by_role("button", name="Simulate").click()
    bench = page.locator(WATCHED)
    expect(bench).to_have_attribute("data-events", "0")
    assert evaluate(page, "editor.sim is not None")

    # Stepped line by line; the line is highlighted, and belongs to the block named.
    source = bench.get_by_role("region", name="Source")
    step = source.get_by_role("button", name="Next line")
    for _ in range(3):
        before = evaluate(page, "editor.sim.events")
        step.click()
        becomes(page, f"editor.sim.events > {before} and not editor.workbench.session.running")
    expect(bench).to_have_attribute("data-events", str(evaluate(page, "editor.sim.events")))
    line = evaluate(page, "int(editor.sim.where()[0].line)")
    expect(source.locator(".anb-here").first).to_have_attribute("data-line", str(line))
    evaluate(page, "editor.workbench.select('gpu[2]')")
    there = evaluate(page, "int(editor.sim.where()[2].line)")
    expect(source.locator(".anb-picked")).to_have_attribute("data-line", str(there))
    expect(source.locator(".anb-picked")).to_have_attribute("aria-current", "step")
    expect(source.locator(".anb-picked .anb-mark").first).to_have_text("GPU2 block 0 +3")
    source.locator(".anb-here .anb-line-number").first.click()
    expect(source.locator(".anb-source-list")).to_contain_text(f"At line {line}")
    bench.get_by_role("tab", name="Data").click()
    screenshot(page, "editor-stepped")
    source.locator(".anb-source-list button").first.click()
    expect(source.locator(".anb-picked")).to_have_count(1)
    assert page.evaluate("window.hurt") is None

    # The text survives a reload of the page.
    text.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("# kept")
    becomes(page, "editor.text.endswith('# kept')")
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.reload()
    page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.sessionContext?.isReady")
    expect(text).to_have_value(re.compile(r"# kept$"))
    expect(status).to_contain_text("correct for 4 ranks")


MAKE = (
    "import astranb as anb\n"
    "sim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('64 KiB', 'allpairs', channels=2))"
)
SHOW = "workbench = anb.Workbench(sim)\nworkbench"


def test_data_and_lines_are_of_the_cursor(host: Host) -> None:
    bench = host.show(MAKE, SHOW, height=1700)
    bench.get_by_role("tab", name="Source").click()
    bench.get_by_role("tab", name="Data").click()
    data = bench.get_by_role("region", name="Data")
    summary = data.get_by_role("status")
    expect(summary).to_have_text("0 of 64 chunks final")
    host.change("str(sim.run())")
    expect(summary).to_have_text("64 of 64 chunks final")
    expect(
        data.get_by_role("table").get_by_text("GPU2 output[3]: 0+1+2+3+4+5+6+7 of 8, final")
    ).to_have_count(1)
    half = evaluate(host, "sim.now_ps * 6 // 10")
    host.change(f"workbench.scrub({half}) or workbench.select('gpu[3].block.1')")
    past = f"workbench.session.at({half})"
    kept = evaluate(host, f"int({past}.contributions('output').cells['kept'].sum())")
    line = evaluate(host, f"int({past}.where()[7].line)")
    expect(summary).to_have_text(f"{kept} of 64 chunks final")
    source = bench.get_by_role("region", name="Source")
    expect(source.locator(".anb-picked")).to_have_attribute("data-line", str(line))
    assert data.get_by_label("Buffer").input_value() == "fullest"
    screenshot(host, "data-fullest")
    data.get_by_label("Buffer").select_option("output")
    canvas = data.locator("canvas")
    canvas.hover(position={"x": 100, "y": 60})
    expect(data.locator(".anb-tip")).to_contain_text("GPU1 output[0]: ")
    screenshot(host, "data")
    canvas.click(position={"x": 100, "y": 60})
    becomes(host, "workbench._selection == 'gpu[1]'")
    data.get_by_label("Buffer").select_option("scratch")
    expect(data.get_by_role("table").get_by_text("GPU0 scratch[1]", exact=False)).to_have_count(1)
    host.set_theme("dark")
    host.page.wait_for_timeout(300)
    screenshot(host, "data-dark")


def test_the_margin_of_the_program_shows_where_the_time_went(page: Page, lab: Lab) -> None:
    start(page, lab, MAKE, SHOW)
    page.set_viewport_size({"width": 1280, "height": 720})
    bench = page.locator(".anb-workbench").first
    bench.get_by_role("tab", name="Source").click()
    source = bench.get_by_role("region", name="Source")
    bars = source.locator(".anb-line-time-bars")
    expect(bars).to_have_count(0)  # nothing has happened
    evaluate(page, "str(sim.run())")
    legend = source.get_by_role("note", name="Time by line")
    expect(legend).to_contain_text("critical path")
    lines = "sim.result.by_line().query('line > 0')"
    expect(bars).to_have_count(evaluate(page, f"len({lines})"))
    top = evaluate(page, f"int({lines}.sort_values('path_ps').line.iloc[-1])")
    share = evaluate(page, f"float({lines}.path_ps.max() / sim.result.time_ps)")
    row = source.locator(f".anb-line[data-line='{top}']")
    expect(row.locator(".anb-line-time-share")).to_have_text(f"{100 * share:.0f}%")
    expect(row.locator(".anb-line-time")).to_have_attribute(
        "title",
        re.compile(
            r"^thread blocks: .* of their time \(.* together\): .*\ncritical path: \d+% \(.* of .*\)\n"
        ),
    )
    widths = bars.locator(":scope > span:last-child").evaluate_all(
        "spans => spans.map(span => span.firstElementChild?.getBoundingClientRect().width ?? 0)"
    )
    assert max(widths) == pytest.approx(36, abs=1)  # the longest fills its place
    for theme in THEMES:
        set_theme(page, theme)
        bench.scroll_into_view_if_needed()
        page.wait_for_timeout(500)
        screenshot(page, f"source-time-{theme}")

    # It is of the cursor, as everything else in the panel.
    half = evaluate(page, "sim.now_ps // 2")
    evaluate(page, f"workbench.scrub({half})")
    then = f"workbench.session.at({half}).result.by_line()"
    top = evaluate(page, f"int({then}.sort_values('path_ps').line.iloc[-1])")
    share = evaluate(page, f"float({then}.path_ps.max() / {then}.path_ps.sum())")
    expect(source.locator(f".anb-line[data-line='{top}'] .anb-line-time-share")).to_have_text(
        f"{100 * share:.0f}%"
    )


PRESSED = "import astranb as anb\neditor = anb.Editor(infra='switch:gpus=4', size='64 KiB')\neditor"


@pytest.mark.slow
def test_synthesise_is_pressed_and_watched(page: Page, lab: Lab) -> None:
    start(page, lab, PRESSED)
    editor = page.locator(".anb-editor")
    text = editor.get_by_label("Program", exact=True)
    mine = text.input_value()
    place = editor.get_by_label("Infrastructure")
    place.fill("torus2d:rows=2,columns=4")
    place.press("Enter")
    expect(editor.get_by_role("status")).to_contain_text("correct for 8 ranks")
    editor.get_by_role("button", name="Synthesise").click()
    report = editor.get_by_role("log", name="Synthesis")
    expect(report).to_contain_text("times the bound", timeout=60_000)
    expect(report).to_contain_text("the library's best", timeout=60_000)
    expect(editor).to_have_attribute("data-synthesis", "done")
    expect(text).to_have_value(re.compile(r"^# all_reduce on torus2d, 8 ranks: .*\n.*\n(.*\n)*copies = \["))
    expect(editor.get_by_role("status")).to_contain_text("correct for 8 ranks")
    sends = editor.locator(".anb-schedule-send")
    expect(sends).to_have_count(evaluate(page, "len(editor.found.steps)"))
    expect(sends.first).to_have_attribute(
        "title", re.compile(r"^GPU0 to GPU1: .*chunk \d+(\.\d+)?, sent from 0 ps to ")
    )
    screenshot(page, "synthesised")

    # It is watched to its end, which is when the page says that it ends.
    bench = page.locator(WATCHED)
    expect(bench).to_have_attribute("data-events", "0")
    evaluate(page, "editor.workbench.to_end()")
    becomes(page, "editor.sim.finished")
    assert evaluate(page, "f'by cache lines {anb.core.units.format_time(editor.sim.now_ps)}'") in (
        report.text_content() or ""
    )
    bench.get_by_role("region", name="Links").or_(bench).first.scroll_into_view_if_needed()
    for theme in THEMES:
        set_theme(page, theme)
        page.set_viewport_size({"width": 1280, "height": 720})
        page.wait_for_timeout(800)
        screenshot(page, f"synthesised-{theme}")

    # What cannot be synthesised is one line, and the text from before is not lost.
    editor.get_by_label("Collective").select_option("barrier")
    editor.get_by_role("button", name="Synthesise").click()
    expect(report).to_contain_text("no algorithm can be synthesised for 'barrier'")
    editor.get_by_role("button", name="Previous text").click()
    expect(text).to_have_value(mine)
    expect(sends).to_have_count(0)
