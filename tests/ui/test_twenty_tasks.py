"""Twenty tasks of a new user, done with the mouse alone, in as many clicks as the documentation says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.ui.harness import REPOSITORY, Host, evaluate, on_link, point, screenshot
from tests.ui.test_workbench import SHOW

DOCUMENT = REPOSITORY / "docs" / "how-to" / "twenty_tasks.md"
THEME: Any = os.environ.get("ASTRANB_THEME", "light")
"""Theme of the pictures."""
GUTTER = 62
RANK_1 = 62
"""Offset of the track of rank 1 below the top of a workload's timeline."""
COLLECTIVE = (
    "import astranb as anb\nsim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('1 MiB', 'ring'))"
)
WORKLOAD = """import astranb as anb
from astranb.workload.astrasim2 import COLLECTIVE, COMPUTE, DimensionNetwork, Operations, System, Workload
def rank(slow):
    compute = {"kind": COMPUTE, "duration_ns": 40_000 + 30_000 * slow}
    rows = [compute, {"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 20}]
    return Operations.of(6 * rows, [[], *([k] for k in range(11))])
network = DimensionNetwork(["Ring"], [8], [50], [500])
system = System.from_document({"all-reduce-implementation": ["ring"]})
work = Workload([rank(r == 5) for r in range(8)], network, system)
sim = anb.Simulation(work)"""
LINK = ("gpu[0]", "dgx_h100.0.nvsw.0")


class Mouse:
    """A mouse that counts its clicks; a drag is one, and so is a double click."""

    def __init__(self, host: Host, bench: Locator) -> None:
        self.host, self.page, self.bench, self.clicks = host, host.page, bench, 0

    def press(self, name: str) -> None:
        """Click the button of a name."""
        self.click(self.bench.get_by_role("button", name=name, exact=True))

    def tab(self, name: str) -> None:
        """Click the tab of a name."""
        self.click(self.bench.get_by_role("tab", name=name, exact=True))

    def click(self, target: Locator, **options: Any) -> None:
        """Click something that is in sight, and that nothing covers."""
        self.clicks += 1
        target.first.click(**options)

    def step(self, name: str) -> str:
        """Click the button of a step, wait until it is made, and give the number of events then."""
        before = evaluate(self.host, "sim.events")
        self.press(name)
        expect(self.bench).not_to_have_attribute("data-events", str(before))
        expect(self.bench.get_by_role("button", name="Play", exact=True)).to_be_visible()
        return str(evaluate(self.host, "sim.events"))

    def node(self, path: str, *, double: bool = False) -> None:
        """Click a box of the topology."""
        self.clicks += 1
        canvas = self.bench.locator(".anb-picture > canvas")
        (canvas.dblclick if double else canvas.click)(position=point(self.host, self.bench, path))

    def link(self, box: str, rail: str) -> None:
        """Click the link from a box up to a rail of the topology."""
        self.clicks += 1
        position = on_link(self.host, self.bench, box, rail)
        self.bench.locator(".anb-picture > canvas").click(position=position)

    def at(self, time_ps: int, y: int = 8) -> None:
        """Click the timeline at a time: its ruler, or as many pixels below its top."""
        self.clicks += 1
        timeline = self.bench.locator(".anb-timeline")
        expect(timeline).to_have_attribute("data-asked", "false")
        canvas = timeline.locator("canvas")
        box = canvas.bounding_box()
        assert box
        view = self.bench.locator(".anb-timeline").get_attribute("data-view") or ""
        start, end = map(float, view.split())
        part = (time_ps - start) / (end - start)
        canvas.click(position={"x": GUTTER + part * (box["width"] - GUTTER), "y": y})


Task = Callable[[Mouse], None]
TASKS: dict[int, tuple[str, Task]] = {}
"""By number: where it begins (``fresh``, ``end`` or ``workload``), and how it is done."""


def task(number: int, begins: str = "fresh") -> Callable[[Task], Task]:
    """Add a task."""

    def add(done: Task) -> Task:
        TASKS[number] = begins, done
        return done

    return add


@task(1)
def see_a_line_arrive(mouse: Mouse) -> None:
    mouse.press("Line")
    expect(mouse.bench.locator(".anb-narration")).to_contain_text("arrives from GPU")
    assert evaluate(mouse.host, "sim.counts['line']") == 1


@task(2)
def watch_and_stop(mouse: Mouse) -> None:
    mouse.press("Play")
    expect(mouse.bench).to_have_attribute("data-dots", re.compile(r"[1-9]"))
    mouse.press("Pause")
    expect(mouse.bench.get_by_role("button", name="Play", exact=True)).to_be_visible()
    assert evaluate(mouse.host, "0 < sim.events and not sim.finished")


@task(3)
def take_the_last_line_back(mouse: Mouse) -> None:
    before = mouse.step("Line")
    mouse.step("Line")
    mouse.press("Back")
    expect(mouse.bench).to_have_attribute("data-events", before)


@task(4)
def see_what_came_of_a_phase(mouse: Mouse) -> None:
    mouse.press("Phase")
    expect(mouse.bench.locator(".anb-status")).to_contain_text("reduce-scatter 1/7 has ended")
    expect(mouse.bench.locator(".anb-narration")).to_contain_text("(reduce-scatter 1/7)")


@task(5)
def how_long_and_why(mouse: Mouse) -> None:
    mouse.press("End")
    result = mouse.bench.locator(".anb-result")
    for words in ("36.93 µs", "busbw"):
        expect(result).to_contain_text(words)


@task(6, "end")
def why_does_gpu5_wait(mouse: Mouse) -> None:
    mouse.at(3_000_000)
    mouse.node("gpu[5]")
    mouse.tab("Explain")
    chain = mouse.bench.get_by_role("list", name="Chain of waits")
    expect(chain.get_by_role("button").first).to_contain_text("GPU5")


@task(7, "end")
def what_did_an_sm_do(mouse: Mouse) -> None:
    canvas = mouse.bench.locator(".anb-timeline canvas")
    mouse.click(canvas, position={"x": 8, "y": 33})  # the arrow of GPU0
    mouse.click(canvas, position={"x": 400, "y": 52})
    expect(mouse.bench.locator(".anb-inspector")).to_contain_text("waits for")


@task(8, "end")
def look_at_a_part(mouse: Mouse) -> None:
    overview = mouse.bench.get_by_label("Overview of all time")
    box = overview.bounding_box()
    assert box
    mouse.clicks += 1
    mouse.page.mouse.move(box["x"] + 300, box["y"] + box["height"] / 2)
    mouse.page.mouse.down()
    mouse.page.mouse.move(box["x"] + 350, box["y"] + box["height"] / 2)
    mouse.page.mouse.move(box["x"] + 400, box["y"] + box["height"] / 2)
    mouse.page.mouse.up()
    timeline = mouse.bench.locator(".anb-timeline")
    expect(timeline).not_to_have_attribute("data-view", re.compile("^0 "))


@task(9, "end")
def the_fullest_buffer(mouse: Mouse) -> None:
    mouse.at(8_000_000)
    mouse.tab("Buffers")
    table = mouse.bench.locator(".anb-buffers")
    expect(table.locator("tbody tr")).to_have_count(32)
    fullest = evaluate(mouse.host, "workbench.buffers(1).path[0]")
    expect(table.locator("tbody tr").first).to_contain_text(fullest)


@task(10)
def half_a_link_and_compare(mouse: Mouse) -> None:
    mouse.link(*LINK)
    mouse.tab("Change")
    mouse.press("Halve bandwidth")
    mouse.press("Fork with bandwidth")
    other = mouse.bench.locator(".anb-workbench")
    expect(other).to_have_attribute("data-events", "0")
    mouse.press("End")
    expect(mouse.bench.locator(".anb-result").first).to_contain_text("36.93 µs")
    expect(other.locator(".anb-result")).to_contain_text("37.41 µs")


@task(11, "end")
def take_a_change_back(mouse: Mouse) -> None:
    mouse.link(*LINK)
    mouse.tab("Change")
    field = mouse.bench.locator(".anb-change").get_by_label("bandwidth", exact=True)
    before = field.input_value()
    mouse.press("Halve bandwidth")
    mouse.press("Apply bandwidth")
    expect(field).not_to_have_value(before)
    mouse.click(mouse.bench.get_by_role("button", name=re.compile(r"^Undo .*\.bandwidth$")))
    expect(field).to_have_value(before)


@task(12, "end")
def the_critical_path(mouse: Mouse) -> None:
    mouse.tab("Explain")
    mouse.press("Show critical path")
    expect(mouse.bench.get_by_role("table", name="Longest segments of the critical path")).to_be_visible()


@task(13, "end")
def who_sent_to_whom(mouse: Mouse) -> None:
    mouse.tab("Traffic")
    expect(mouse.bench.locator(".anb-traffic canvas, .anb-heat canvas").first).to_be_visible()


@task(14)
def stop_at_gpu3(mouse: Mouse) -> None:
    mouse.node("gpu[3]")
    mouse.tab("Breakpoints")
    mouse.press("Add breakpoint")
    mouse.press("Breakpoint")
    expect(mouse.bench.locator(".anb-breaks .anb-item")).to_have_attribute("data-hit", "true")


@task(15)
def look_inside_a_gpu(mouse: Mouse) -> None:
    mouse.node("gpu[3]", double=True)
    expect(mouse.bench.locator(".anb-device > canvas, .anb-device .anb-canvas").first).to_be_visible()


@task(16, "workload")
def see_a_message_move(mouse: Mouse) -> None:
    mouse.press("Message")
    expect(mouse.bench.locator(".anb-narration")).to_contain_text("message")


@task(17, "workload end")
def which_rank_is_slow(mouse: Mouse) -> None:
    mouse.tab("Ranks")
    rows = mouse.bench.locator(".anb-exposed").get_by_role("row")
    expect(rows.filter(has_text="rank[5]")).to_contain_text("420 µs")  # computes
    expect(rows.filter(has_text="240 µs")).to_have_count(7)  # all others less


@task(18, "workload end")
def what_does_a_rank_wait_for(mouse: Mouse) -> None:
    mouse.at(50_000_000, y=RANK_1)
    expect(mouse.bench.locator(".anb-inspector")).to_contain_text("wait")


@task(19, "workload end")
def what_depends_on_an_operation(mouse: Mouse) -> None:
    mouse.at(20_000_000, y=RANK_1)
    mouse.tab("Operations")
    expect(mouse.bench.get_by_label("Rank whose operations are shown")).to_have_value("1")
    expect(mouse.bench.locator(".anb-dag")).to_contain_text("all_reduce")


@task(20, "workload end")
def save_the_picture(mouse: Mouse) -> None:
    mouse.press("More controls")
    with mouse.page.expect_download() as download:
        mouse.press("Save picture")
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def documented() -> dict[int, tuple[str, int]]:
    """The task and its clicks, by number, as the documentation has them."""
    rows = re.findall(r"^\| (\d+) \| (.+?) \|.*\| (\d+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    return {int(number): (words, int(clicks)) for number, words, clicks in rows}


def test_every_task_is_documented() -> None:
    assert sorted(TASKS) == sorted(documented()) == list(range(1, 21))


@pytest.mark.parametrize(
    "begins", [pytest.param("fresh", marks=pytest.mark.slow), "end", "workload", "workload end"]
)
def test_tasks_are_done_in_as_many_clicks(host: Host, begins: str) -> None:
    host.show(WORKLOAD if "workload" in begins else COLLECTIVE, SHOW, width=1600, height=1000)
    host.set_theme(THEME)
    for number in sorted(number for number, (start, _) in TASKS.items() if start == begins):
        bench = host.afresh(f"[sim.clear(), sim.reset(), {'end' in begins} and sim.run()]")
        expect(bench).to_have_attribute("data-events", str(evaluate(host, "sim.events")))
        if "end" in begins:
            expect(bench.locator(".anb-timeline")).to_have_attribute("data-view", re.compile("^0 "))
        mouse = Mouse(host, bench)
        TASKS[number][1](mouse)
        words, clicks = documented()[number]
        assert mouse.clicks == clicks, f"task {number}: {words}"
        screenshot(host, f"task-{number:02}-{THEME}")
