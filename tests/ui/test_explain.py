"""The Explain panel in a real JupyterLab: a chain of waits, the critical path, an exact what-if."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

import astranb as anb
from tests.ui.harness import Host, becomes, evaluate, screenshot, until
from tests.ui.hosts import IN_BOTH
from tests.ui.test_export import open_page
from tests.ui.test_workbench import SHOW, button

MAKE = (
    "import astranb as anb\n"
    "sim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('64 KiB', 'allpairs'))\n"
    "sim.run(); half = sim.now_ps // 2; sim.goto(half)\n"
    "path = sim.engine.fabric.graph.name(int(sim.engine.fabric.gpus[3]))"
)


@IN_BOTH
def test_why_what_and_what_if(host: Host) -> None:
    bench = host.show(MAKE, SHOW)
    expect(bench).to_have_attribute("data-events", re.compile(r"[1-9]\d*"))
    bench.get_by_role("tab", name="Explain", exact=True).click()
    host.change("workbench.select('gpu[3]')")
    panel = bench.get_by_role("region", name="Explain")
    steps = panel.get_by_role("list", name="Chain of waits").get_by_role("button")
    expect(steps.first).to_contain_text("GPU3")
    said = evaluate(host, "[step.text for step in sim.why('gpu[3]')]")
    expect(steps).to_have_text(said)
    assert len(said) > 1
    expect(panel.locator(".anb-lost .anb-causes")).to_contain_text("%")
    # A click on a step selects what it is about, here and in Python.
    steps.nth(1).click()
    path = evaluate(host, "sim.why('gpu[3]').links[1].path")
    becomes(host, f"workbench.selected.path == {path!r}")
    expect(steps.first).to_contain_text(evaluate(host, f"sim.why({path!r}).links[0].text"))

    button(panel, "Show critical path").click()
    critical_path(host, panel)

    # A line that is under way can be selected, and tells its way and what happened to it.
    host.change("str(sim.goto('1 us'))")
    bench.get_by_role("tab", name="Inspect", exact=True).click()
    line = evaluate(host, "sim.inspect('gpu[3]')['lines'][0]")
    host.change(f"workbench.select({line!r})")
    inspector = bench.get_by_role("region", name="Inspector")
    expect(
        inspector.get_by_role("list", name="Route of this line").get_by_role("button").first
    ).to_be_visible()
    expect(inspector.get_by_role("list", name="Last events")).to_contain_text("issued by GPU3")
    screenshot(host, "explain-line")


def critical_path(host: Host, panel: Locator) -> None:
    """Look at the path that has been asked for, and at what would shorten it."""
    expect(button(panel, "Hide critical path")).to_have_attribute("aria-pressed", "true")
    count = evaluate(host, "len(sim.critical_path())")
    expect(panel).to_contain_text(f"{count} segments")
    longest = panel.get_by_role("table", name="Longest segments of the critical path").get_by_role("row")
    top = evaluate(host, "max(sim.critical_path(), key=lambda s: s.length_ps).resource")
    expect(longest.first).to_contain_text(top)
    change = panel.get_by_role("list", name="What if").get_by_role("listitem").first
    expect(change).to_contain_text("about \u2212")
    screenshot(host, "explain-light")
    change.get_by_role("button").click()
    expect(change.locator("b")).to_have_text(re.compile(r"exactly [\u2212+]\d+\.\d% · [\d.]+ [µn]s"))
    host.set_theme("dark")
    screenshot(host, "explain-dark")
    host.set_theme("light")


# A moment at which a few lines are under way.
FEW = """
sim.run()
import numpy as np
from astranb.engine.cacheline import FLIGHT_KINDS
known = sim.engine.recorder.since(0)[1]
start, end = known["start_ps"], known["end_ps"]
stored = known["kind"] == FLIGHT_KINDS.index("store data")
few = min((((start <= t) & (t <= end)).sum(), t) for t in ((start + end) // 2)[stored][::20])[1]
"""
# Centres of dots of stored data, 4 pixels wide, with no other one near.
ALONE = """() => {
    const canvas = document.querySelector(".anb-picture > canvas")
    const { width, height } = canvas
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height)
    const words = new Uint32Array(data.buffer)
    const found = []
    const at = []
    words.forEach((word, k) => word === 0xff009fe6 && at.push([k % width, Math.floor(k / width)]))
    for (const [x, y] of at) {
        const near = at.filter(([u, v]) => Math.abs(u - x) < 12 && Math.abs(v - y) < 12)
        if (near.length > 16 || near.some(([u, v]) => v < y || (v === y && u < x))) continue
        const middle = [0, 1].map(side => near.reduce((sum, one) => sum + one[side], 0) / near.length)
        found.push(middle.map(place => (place + 0.5) / devicePixelRatio))
    }
    return found
}"""


def test_a_dot_on_the_picture_is_a_line(host: Host) -> None:
    page = host.page
    bench = host.show(MAKE + FEW, SHOW, height=1200)
    host.change("workbench.scrub(int(few))")
    expect(bench).to_have_attribute("data-dots", re.compile(r"[1-9]\d*"))
    canvas = bench.locator(".anb-picture > canvas")

    def a_line_is_selected() -> bool:
        for x, y in page.evaluate(ALONE):  # where the dots are now: panels that open late move them
            canvas.click(position={"x": x, "y": y})
            page.wait_for_timeout(150)  # the kernel tells which line it is
            if str(evaluate(host, "workbench._selection")).startswith("line["):
                return True
        return False

    until(host, a_line_is_selected, "no dot that was clicked selected its line")
    assert evaluate(host, "workbench.selected.kind == 'line'")
    inspector = bench.get_by_role("region", name="Inspector")
    expect(inspector.get_by_role("list", name="Route of this line")).to_contain_text("->")
    screenshot(host, "explain-dot")


def test_a_page_without_a_kernel_shows_the_path(alone: Page, tmp_path: Path) -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "allpairs"))
    sim.run()
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html"))
    button(bench, "End").click()
    bench.get_by_role("tab", name="Explain", exact=True).click()
    panel = bench.get_by_role("region", name="Explain")
    expect(panel.locator(".anb-chain")).to_contain_text("waits for nothing")
    button(panel, "Show critical path").click()
    expect(panel).to_contain_text(f"{len(sim.critical_path())} segments")
    expect(panel.get_by_role("list", name="What if")).to_contain_text("about")
