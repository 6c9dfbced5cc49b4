"""A lesson as somebody takes it: in a real JupyterLab, from top to bottom, and then by hand."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from math import dist

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.harness import (
    REPOSITORY,
    Lab,
    becomes,
    evaluate,
    open_notebook,
    run_all,
    screenshot,
    set_theme,
    wait_idle,
)

LESSON_S = 240
"""Time that a lesson may take on a machine that does something else, too."""


def take(page: Page, lab: Lab, name: str) -> None:
    """Open a lesson and run all its cells."""
    shutil.copytree(REPOSITORY / "tutorials", lab.root / "tutorials", dirs_exist_ok=True)
    open_notebook(page, lab, f"tutorials/{name}.ipynb")
    run_all(page, wait=False)
    wait_idle(page, timeout_s=LESSON_S)


Place = tuple[float, float]


def moving(bench: Locator) -> dict[str, Place]:
    """Return the position of each moving message, by the text of its tip."""
    canvas, tip = bench.locator(".anb-topology canvas").first, bench.locator(".anb-topology .anb-tip")
    expect(canvas).to_have_attribute("data-moving", re.compile(" "))
    found = {}
    for place in str(canvas.get_attribute("data-moving")).split():
        x, y = (float(number) for number in place.split(","))
        canvas.hover(position={"x": x, "y": y})
        expect(tip).to_contain_text(" to rank ")
        found[tip.inner_text()] = (x, y)
    return found


def moving_at(page: Page, bench: Locator, time_ps: int) -> dict[str, Place]:
    """Show a time of the run: where each message is that moves then."""
    evaluate(page, f"workbench.scrub({time_ps})")
    expect(bench).to_have_attribute("data-cursor", str(time_ps))
    return moving(bench)


def chunks_go_round(page: Page) -> None:
    """Eight messages set off at one time, each to the next rank; then the next eight."""
    bench = page.locator(".anb-workbench").nth(1)
    bench.scroll_into_view_if_needed()
    evaluate(page, "str(workbench.sim.goto('2 us'))")
    starts: list[Place] = []
    for step, times in enumerate(((100_000, 700_000), (915_000, 1_515_000)), 1):
        early, late = (moving_at(page, bench, time) for time in times)
        sent = {
            f"all_reduce · chunk 0 · phase 1, step {step} · 32 KiB · rank {r} to rank {(r + 1) % 8}"
            for r in range(8)
        }
        assert early.keys() == late.keys() == sent
        assert all(dist(early[one], late[one]) > 4 for one in sent)
        starts += early.values()
    assert all(min(dist(one, other) for other in starts[:8]) < 4 for one in starts[8:])
    screenshot(page, "lesson-01-ring")


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
    chunks_go_round(page)


def the_urgent_one_waits(page: Page) -> None:
    """Ready at 165.004 µs, an all-reduce sets off when the chunk of the large one is through."""
    bench = page.locator(".anb-workbench").first
    bench.scroll_into_view_if_needed()
    for time, kinds in (("165.1 us", {"second WG comm"}), ("171 us", {"first WG comm", "second WG comm"})):
        evaluate(page, f"str(found['REORDER'].goto({time!r}))")
        expect(bench).to_have_attribute("data-events", str(evaluate(page, "found['REORDER'].events")))
        assert {text.partition(" · ")[0] for text in moving(bench)} == kinds
        screenshot(page, f"lesson-04-{len(kinds)}")


@pytest.mark.fresh_tab  # Bokeh.documents lists all that the tab has drawn
def test_a_lesson_draws_its_figures_and_folds_its_solution(page: Page, lab: Lab) -> None:
    page.set_viewport_size({"width": 1400, "height": 1300})
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
    the_urgent_one_waits(page)


WORKBENCH = re.compile(r"^(anb\.Workbench\(.*\)|workbench|closer|bench)$")
"""The last line of a cell that shows one."""
BUTTON = re.compile(r"\*\*([A-Z][a-z]+)\*\*")
"""A button as lessons name it; what ends in a colon or a full stop, as ``**Predict:**``, is none."""


def named_buttons(name: str) -> list[set[str]]:
    """Return, for each workbench of a lesson, the buttons that the text above it names."""
    cells = json.loads((REPOSITORY / "tutorials" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    found = []
    for above, cell in pairwise(cells):
        lines = "".join(cell["source"]).splitlines()
        if cell["cell_type"] == "code" and lines and WORKBENCH.match(lines[-1]):
            assert above["cell_type"] == "markdown", f"no instructions above {cell['id']} of {name}"
            found.append(set(BUTTON.findall("".join(above["source"]))))
    return found


def test_the_buttons_that_lessons_name_are_known() -> None:
    named = {button for name in LESSONS for bench in named_buttons(name) for button in bench}
    assert named == {"Play", "Event", "Cycle", "Line", "Phase", "Back", "Message", "Operation", "Instruction"}


@pytest.mark.slow
def test_a_thread_block_is_stepped_by_instruction(page: Page, lab: Lab) -> None:
    """Lesson 08: each press goes on to the next instruction, and the line under the buttons says so."""
    take(page, lab, "08_protocols_and_blocks")
    bench = page.locator(".anb-workbench").first
    bench.scroll_into_view_if_needed()
    bench.get_by_role("button", name="Instruction", exact=True).click()
    expect(bench.locator(".anb-status")).to_contain_text("an instruction is issued at")


def test_a_slow_link_is_at_the_end_of_the_chain_of_waits(page: Page, lab: Lab) -> None:
    """Lesson 09: the link queues, and *Explain* of GPU 4 ends at it."""
    page.set_viewport_size({"width": 1400, "height": 1300})
    take(page, lab, "09_a_slow_run")
    bench = page.locator(".anb-workbench").first
    bench.scroll_into_view_if_needed()
    path = bench.get_by_label("Object to inspect")
    path.fill("gpu[4]")
    path.press("Enter")
    bench.get_by_role("tab", name="Explain", exact=True).click()
    expect(bench).to_contain_text("in the queue of dgx_h100.0.xpu.5->dgx_h100.0.nvsw.2")


def named_partners(bench: Locator) -> set[tuple[int, ...]]:
    """The ranks that the words beside messages name."""
    words = str(bench.locator(".anb-topology canvas").first.get_attribute("data-words")).split("|")
    return {tuple(int(n) for n in re.findall(r"\d+", text.partition(" ·")[0])) for text in words}


@pytest.mark.slow
def test_partners_of_halving_and_doubling_are_named(page: Page, lab: Lab) -> None:
    """Lesson 03: over a switch words say who sends to whom, at each step twice as far away."""
    page.set_viewport_size({"width": 1400, "height": 1300})
    take(page, lab, "03_comparing_systems")
    bench = page.locator(".anb-workbench").nth(1)
    bench.scroll_into_view_if_needed()
    for step, away in ((1, 1), (2, 2)):
        evaluate(page, "str(workbench.sim.reset())")
        evaluate(page, f"str(workbench.sim.step({16 * 16 * (step - 1) + 1}, 'message'))")
        expect(bench).to_have_attribute("data-cursor", str(evaluate(page, "workbench.sim.now_ps")))
        screenshot(page, f"lesson-03-partners-{step}")
        pairs = {(r, r ^ away) for r in range(16)}
        named = named_partners(bench)
        assert named
        assert named <= pairs


def inspect(bench: Locator, path: str) -> Locator:
    """Select an object by its path, and give the inspector."""
    field = bench.get_by_label("Object to inspect")
    field.fill(path)
    field.press("Enter")
    return bench.locator(".anb-inspector")


@pytest.mark.slow
def test_eight_messages_arrive_at_one_time(page: Page, lab: Lab) -> None:
    """Lesson 02: one at each NPU, and the next eight 610 ns later; the inspector of a rank lists messages."""
    take(page, lab, "02_comparing_collectives")
    bench = page.locator(".anb-workbench").first
    bench.scroll_into_view_if_needed()
    evaluate(page, "str(workbench.sim.reset())")
    times = []
    for count in range(1, 10):
        bench.get_by_role("button", name="Message", exact=True).click()
        becomes(page, f"workbench.sim.counts['message'] == {count}")
        expect(bench.locator(".anb-status")).to_contain_text("a message has arrived at")
        times.append(evaluate(page, "workbench.sim.now_ps"))
    assert [time - times[0] for time in times] == [0] * 8 + [610_000]
    expect(inspect(bench, "rank[0]")).to_contain_text("32 KiB from rank 0 to rank 2")


@pytest.mark.slow
def test_a_link_says_what_queues_there_and_what_it_has_carried(page: Page, lab: Lab) -> None:
    """Lesson 05: how long a line queues now; *Traffic*: bytes between GPUs. Lesson 07: what was carried."""
    take(page, lab, "05_three_fidelities")
    bench = page.locator(".anb-workbench").nth(1)
    bench.scroll_into_view_if_needed()
    expect(inspect(bench, evaluate(page, "str(load['link'].iloc[-1])"))).to_contain_text("queue now")
    bench.get_by_role("tab", name="Traffic").click()
    expect(bench.locator(".anb-heat")).to_contain_text("of data")
    take(page, lab, "07_your_own_cluster")
    bench = page.locator(".anb-workbench").first
    bench.scroll_into_view_if_needed()
    link = "str(sim.result.to_dataframe('links').sort_values('bytes')['link'].iloc[-1])"
    expect(inspect(bench, evaluate(page, link))).to_contain_text("bytes with headers")


def test_data_shows_what_each_rank_holds(page: Page, lab: Lab) -> None:
    """Lesson 06: a phase later each rank holds one chunk more."""
    take(page, lab, "06_your_own_collective")
    bench = page.locator(".anb-workbench").first
    bench.scroll_into_view_if_needed()
    evaluate(page, "str(bench.sim.reset())")
    bench.get_by_role("tab", name="Data").click()
    for phase in (1, 2):
        bench.get_by_role("button", name="Phase", exact=True).click()
        expect(bench.locator(".anb-status")).to_contain_text(f"step {phase} has ended")
        expect(bench.locator(".anb-chunks")).to_contain_text(f"{4 + 4 * phase} of 16 chunks final")
        screenshot(page, f"lesson-06-data-{phase}")


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
    for index, buttons in enumerate(named_buttons(name)):
        shown = benches.nth(index)
        shown.scroll_into_view_if_needed()
        for button in buttons:
            expect(shown.get_by_role("button", name=button, exact=True)).to_be_visible()
    bench = benches.first
    bench.scroll_into_view_if_needed()
    bench.get_by_role("button", name="Reset", exact=True).click()
    expect(bench.get_by_role("button", name="Back", exact=True)).to_be_disabled()
    bench.get_by_role("button", name="Event", exact=True).click()
    expect(bench.get_by_role("button", name="Back", exact=True)).to_be_enabled()
