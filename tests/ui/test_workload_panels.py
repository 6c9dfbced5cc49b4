"""Changing, watching and explaining a workload, and its page without a kernel, as a person would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

import astranb as anb
from astranb.workload.astrasim2 import COMPUTE, DimensionNetwork, Operations, System
from astranb.workload.models.memory import MEMORY_PARTS
from tests.engine.operations.support import HOSTILE, by_messages, hostile
from tests.ui.harness import PICTURES, Host, Lab, evaluate, painted, screenshot, set_theme
from tests.ui.hosts import IN_BOTH, Notebook
from tests.ui.test_export import open_page, save_picture, shows
from tests.ui.test_workbench import button
from tests.ui.test_workload import MAKE, SHOW


def start(host: Host) -> Locator:
    bench = host.show(MAKE, SHOW, height=1700)
    expect(bench).to_have_attribute("data-events", "0")
    return bench


def tab(bench: Locator, name: str) -> None:
    bench.get_by_role("tab", name=name, exact=True).click()


def press(bench: Locator, name: str) -> None:
    bench.get_by_role("button", name=name, exact=True).click()


@IN_BOTH
def test_a_workload_is_changed_forked_and_watched(host: Host) -> None:
    page = host.page
    bench = start(host)
    host.change("workbench.select('rank[2]') or workbench.event(100)")
    tab(bench, "Change")
    panel = bench.locator(".anb-change").first
    expect(panel.get_by_text("rank[2]", exact=True)).to_be_visible()
    panel.get_by_label("speed", exact=True).fill("-1")
    press(panel, "Apply speed")
    expect(panel.get_by_role("alert")).to_contain_text("above 0")
    panel.get_by_label("speed", exact=True).fill("0.5")
    press(panel, "Apply speed")
    expect(panel.get_by_text("rank[2].speed = 0.5")).to_be_visible()
    assert evaluate(host, "sim.edits") == [[100, "rank[2].speed", "0.5"]]
    press(panel, "Undo rank[2].speed")
    expect(panel.get_by_text("rank[2].speed = 0.5")).to_have_count(0)

    host.change("[workbench.watch('rank[2].in_flight'), workbench.watch('dim[0].bytes')]")
    host.change("workbench.select('dim[0]')")
    panel.get_by_label("bandwidth", exact=True).fill("10 GB/s")
    press(panel, "Fork with bandwidth")
    compare = bench.locator(".anb-compare").first
    other = bench.locator(".anb-other .anb-workbench")
    expect(other.locator(".anb-run-title")).to_contain_text("8 ranks on Ring x Switch")
    press(bench.locator("> .anb-transport"), "End")
    for one in (bench, other):
        expect(one.locator(".anb-status").first).to_contain_text("nothing is left")
    verdict = compare.locator(".anb-verdict").first
    expect(verdict).to_contain_text("dim[0].bandwidth unchanged is faster by")
    compare.get_by_label("Table of differences").first.select_option("Operations: how long")
    expect(compare.locator("tbody").first).to_contain_text("all_reduce")
    for theme in ("light", "dark"):
        host.set_theme(theme)
        page.wait_for_timeout(300)
        bench.screenshot(path=PICTURES / f"{host.prefix}workload-fork-{theme}.png")
    press(bench, "Close the run beside")
    expect(other).to_have_count(0)
    bench.locator(".anb-tabs-side").first.get_by_role("tab", name="Breakpoints", exact=True).click()
    marks = bench.locator(".anb-breaks").first
    expect(marks.locator("canvas.anb-spark")).to_have_count(2)
    painted(marks.locator("canvas.anb-spark").first, 1)
    screenshot(host, "workload-watches")


def test_a_workload_explains_itself(page: Page, lab: Lab, tmp_path: Path) -> None:
    bench = start(Notebook(page, lab))
    press(bench, "End")
    expect(bench.locator(".anb-status")).to_contain_text("nothing is left")
    expect(bench.locator(".anb-ranks")).to_have_attribute("data-asked", "false")
    save_picture(page, bench, tmp_path / "timeline.png")
    (Path("build/ui") / "workload-saved.png").write_bytes((tmp_path / "timeline.png").read_bytes())
    tab(bench, "Explain")
    panel = bench.locator(".anb-explain")
    expect(panel).to_contain_text("sum of all 8 ranks")
    press(panel, "Show critical path")
    changes = panel.get_by_label("What if")
    expect(changes.get_by_role("listitem").first).to_contain_text(re.compile(r"rank\[5\]\.speed x1\.\d+"))
    expect(changes.get_by_role("button", name=re.compile("^Run with"))).to_have_count(0)  # each has been run
    gain = evaluate(page, "min(c.exact_ps for c in sim.what_if()) < sim.result.time_ps")
    assert gain
    expect(changes).to_contain_text(re.compile("exactly \u2212" r"\d+\.\d%"))
    page.wait_for_timeout(300)
    changes.scroll_into_view_if_needed()
    screenshot(page, "workload-explain-light")
    set_theme(page, "dark")
    page.wait_for_timeout(300)
    screenshot(page, "workload-explain-dark")


# The page without a kernel ---------------------------------------------------------------


def slow() -> anb.Simulation:
    """The run of the notebook's cell, to its end."""
    scope: dict[str, Any] = {}
    exec(MAKE, scope)
    sim: anb.Simulation = scope["sim"]
    sim.run()
    return sim


def test_a_page_plays_operations_and_timelines_alone(alone: Page, tmp_path: Path) -> None:
    sim = slow()
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html"))
    frame = sim.result.to_dataframe("operations")
    expect(bench.locator(".anb-title")).to_contain_text("8 ranks on Ring x Switch")
    expect(bench).to_have_attribute("data-events", "0")
    press(bench, "Event")
    expect(bench.locator(".anb-narration")).to_contain_text("rank 0 begins compute")
    press(bench, "Operation")
    first = int(frame["end_ps"].min())
    shows(bench, first)
    expect(bench.locator(".anb-narration")).to_contain_text("ends compute")
    press(bench, "Phase")
    shows(bench, int(sim.result.to_dataframe("phases")["end_ps"].min()))
    middle = int(frame["end_ps"].quantile(0.5)) + 1000
    bench.get_by_label("View cursor").fill(str(middle / sim.now_ps))
    shows(bench, middle)
    mine = frame[frame["rank"] == 0]
    tab(bench, "Operations")
    over = int((mine["end_ps"] <= middle).sum())
    graph = bench.locator(".anb-dag")
    expect(graph.locator("[data-state=done]")).to_have_count(over)
    under_way = int(((mine["start_ps"] <= middle) & (mine["end_ps"] > middle)).sum())
    expect(graph.locator("[data-state=running]")).to_have_count(under_way)
    timeline = bench.locator(".anb-ranks")
    expect(timeline).to_have_attribute("data-count", str(int((frame["start_ps"] <= middle).sum())))
    # The page holds the messages, and what each rank does.
    tab(bench, "Topology")
    bench.get_by_label("View cursor").fill(str(40_900_000 / sim.now_ps))
    expect(bench).to_have_attribute("data-dots", "14")
    canvas = bench.locator(".anb-topology canvas").first
    expect(canvas).to_have_attribute("data-doing", re.compile("^(compute,?){8}$"))
    alone.wait_for_timeout(300)
    screenshot(alone, "workload-page-light")
    expect(button(bench, "Breakpoint")).to_be_disabled()
    expect(button(bench, "Message")).to_be_disabled()
    bench.get_by_label("Speed").fill("8.5")
    press(bench, "Reset")
    press(bench, "Play")
    expect(bench.locator(".anb-status")).to_contain_text("playing the recording")
    press(bench, "End")
    expect(bench).to_have_attribute("data-events", str(2 * len(frame)))
    bench.get_by_role("button", name="Chunks by dimension").click()
    expect(timeline).to_have_attribute("data-count", str(len(sim.result.to_dataframe("phases"))))
    tab(bench, "Ranks")
    expect(bench.locator(".anb-exposed tbody tr")).to_have_count(8)
    tab(bench, "Explain")
    press(bench, "Show critical path")
    expect(bench.get_by_label("What if")).to_contain_text("exactly")
    for _ in range(3):
        bench.focus()
        alone.keyboard.press("ArrowLeft")
    expect(bench).to_have_attribute("data-events", str(2 * len(frame) - 3))
    alone.emulate_media(color_scheme="dark")
    alone.wait_for_timeout(300)
    screenshot(alone, "workload-page-dark")


MEMORY = """import astranb as anb
from astranb.workload.models import Parallelism, workload
step = workload("gpt3-1.3b", Parallelism(pipeline=2), batch=8, microbatches=4, gpu="a100-sxm")
sim = anb.Simulation(step)"""


def memory_row(sim: Any, rank: int, at_ps: float) -> str:
    """Return the row of the table of GPU memory for a rank at a time: GB by parts, their sum, its share."""
    frame = sim.result.to_dataframe("memory").query(f"rank == {rank} and time_ps <= {int(at_ps)}")
    held = frame.iloc[-1]
    sizes = [f"{held[name] / 1e9:.1f}" for name in (*MEMORY_PARTS, "total") if name != "cache"]
    return " ".join([*sizes, f"{held['total'] / sim.engine.about.footprint.limit_bytes:.0%}"])


def cells(panel: Locator, row: int) -> str:
    return " ".join(panel.locator("tbody tr").nth(row).locator("td").all_inner_texts())


def test_memory_is_shown_over_time_up_to_the_cursor(host: Host) -> None:
    page = host.page
    scope: dict[str, Any] = {}
    exec(MEMORY, scope)
    sim = scope["sim"]
    sim.run()
    bench = host.show(MEMORY, SHOW)
    expect(bench).to_have_attribute("data-events", "0")
    press(bench, "GPU memory")
    panel = bench.locator(".anb-footprint")
    expect(panel).to_have_attribute("data-rank", "0")
    expect(panel.locator("h4")).to_contain_text("Memory of rank 0 (stage 0), the fullest")
    assert cells(panel, 0) == memory_row(sim, 0, 0)
    # Half of the run: what is behind it is no part of the picture.
    half = sim.now_ps // 2
    host.change(f"sim.run(until={half}) and None")
    expect(panel.locator(".anb-moment")).to_have_attribute("data-ps", str(evaluate(host, "sim.now_ps")))
    assert cells(panel, 0) == memory_row(sim, 0, half)
    press(bench, "End")
    expect(panel.locator(".anb-moment")).to_have_attribute("data-ps", str(sim.now_ps))
    assert cells(panel, 0) == memory_row(sim, 0, sim.now_ps)
    # A click moves the cursor there, as far as is simulated.
    canvas = panel.locator("canvas")
    box = canvas.bounding_box()
    assert box
    canvas.click(position={"x": 62 + (box["width"] - 62) * 0.25, "y": box["height"] / 2})
    expect(panel.locator(".anb-moment")).not_to_have_attribute("data-ps", str(sim.now_ps))
    expect(panel.locator(".anb-moment")).to_have_attribute("data-late", "false")
    shown = float(str(bench.get_attribute("data-cursor")))
    assert 0.1 < shown / sim.now_ps < 0.4
    assert cells(panel, 0) == memory_row(sim, 0, shown)
    frame = sim.result.to_dataframe("memory").query("rank == 0")
    fullest = int(frame["time_ps"][frame["total"].idxmax()])
    panel.get_by_role("button", name=re.compile("^peak at")).click()
    shows(bench, fullest)
    expect(panel.locator(".anb-moment")).to_have_attribute("data-ps", str(fullest))
    assert cells(panel, 0) == cells(panel, 1) == memory_row(sim, 0, fullest)
    # The selected rank, in the part of time that the timelines show.
    host.change(f"workbench.select('rank[1].op[3]') or workbench.zoom({fullest}, {half})")
    expect(panel).to_have_attribute("data-rank", "1")
    expect(panel).to_have_attribute("data-view", f"{fullest} {half}")
    expect(panel.locator("h4")).to_have_text("Memory of rank 1 (stage 1)")
    screenshot(host, "workload-memory-light")
    host.set_theme("dark")
    page.wait_for_timeout(300)
    screenshot(host, "workload-memory-dark")


def test_a_page_knows_the_memory_of_any_moment(alone: Page, tmp_path: Path) -> None:
    scope: dict[str, Any] = {}
    exec(MEMORY, scope)
    sim = scope["sim"]
    sim.run()
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html"))
    press(bench, "GPU memory")
    panel = bench.locator(".anb-footprint")
    press(bench, "End")
    expect(panel).to_have_attribute("data-rank", "0")
    fullest = sim.result.to_dataframe("memory").query("rank == 0")["total"].max()
    expect(panel.locator("tbody tr").nth(1)).to_contain_text(f"{fullest / 1e9:.1f}")
    for part in (1, 0.7, 0.3):
        moment = int(part * sim.now_ps)
        bench.get_by_label("View cursor").fill(str(part))
        expect(panel.locator(".anb-moment")).to_have_attribute("data-late", "false")
        shown = float(str(bench.get_attribute("data-cursor")))
        assert abs(shown - moment) < sim.now_ps / 100
        expect(panel).to_have_attribute("data-asked", "false")
        assert cells(panel, 0) == memory_row(sim, 0, shown)
    screenshot(alone, "workload-memory-page")


def test_a_page_of_many_operations_shows_how_full_pixels_are(alone: Page, tmp_path: Path) -> None:
    each = [{"kind": COMPUTE, "duration_ns": 1000 + 7 * (k % 100)} for k in range(5000)]
    many = Operations.of(each, [[], *([k] for k in range(4999))])
    network = DimensionNetwork(["Ring"], [2], [50], [500])
    sim = by_messages([many] * 2, network, System.from_document({}))
    sim.run()
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html"))
    timeline = bench.locator(".anb-ranks")
    press(bench, "End")
    expect(timeline).to_have_attribute("data-drawn", "density")
    expect(timeline).to_have_attribute("data-count", "10000")
    painted(timeline.locator("canvas"), 4)
    # Of a part of time there is room for each: those in sight are counted, and named under the pointer.
    half = sim.now_ps // 2
    bench.get_by_label("View cursor").fill("0.5")
    expect(bench.get_by_label("Follow")).not_to_be_checked()
    canvas = timeline.locator("canvas")
    for _ in range(15):
        canvas.hover(position={"x": 600, "y": 40})
        alone.keyboard.down("Control")
        alone.mouse.wheel(0, -100)
        alone.keyboard.up("Control")
    expect(timeline).to_have_attribute("data-drawn", "spans")
    from_ps, to_ps = map(float, str(timeline.get_attribute("data-view")).split())
    frame = sim.result.to_dataframe("operations")
    inside = ((frame["start_ps"] < to_ps) & (frame["end_ps"] > from_ps)).sum()
    assert 2 <= inside < 2000
    expect(timeline).to_have_attribute("data-count", str(inside))
    canvas.hover(position={"x": 600, "y": 36})
    expect(timeline.locator(".anb-tip")).to_contain_text("rank 0 · compute")
    # The graph of such a rank is held for some moments, and says for which.
    tab(bench, "Operations")
    graph = bench.locator(".anb-dag")
    expect(graph).to_have_attribute("data-nodes", "160")
    at_ps = float(str(graph.locator(".anb-moment").get_attribute("data-ps")))
    assert 0 < at_ps <= half + 1
    running = graph.locator("[data-state=running]")
    expect(running).to_have_count(
        int(((frame["rank"] == 0) & (frame["start_ps"] <= at_ps) & (frame["end_ps"] > at_ps)).sum())
    )
    screenshot(alone, "workload-page-many-light")
    alone.emulate_media(color_scheme="dark")
    canvas.dblclick(position={"x": 600, "y": 10})
    expect(timeline).to_have_attribute("data-drawn", "density")
    screenshot(alone, "workload-page-many-dark")


def test_a_run_without_figures_of_memory_says_why(alone: Page, tmp_path: Path) -> None:
    sim = slow()
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html"))
    press(bench, "GPU memory")
    panel = bench.locator(".anb-footprint")
    expect(panel).to_contain_text("only steps of transformers, by messages, say what ranks hold in memory")
    expect(panel.locator("canvas")).to_be_hidden()
    screenshot(alone, "workload-memory-none")


def test_names_of_operations_are_text(alone: Page, tmp_path: Path) -> None:
    sim = hostile()
    bench = open_page(alone, anb.Workbench(sim).to_html(tmp_path / "run.html"))
    expect(bench.locator(".anb-title")).to_contain_text(HOSTILE)
    press(bench, "End")
    tab(bench, "Operations")
    expect(bench.locator(".anb-op-label").first).to_contain_text("</script><img")
    bench.locator("[data-path='rank[0].op[1]']").click()
    expect(bench.locator(".anb-inspector h4")).to_contain_text(f"0 {HOSTILE}")
    for name in ("Ranks", "Explain", "Change", "Breakpoints", "Inspect"):
        tab(bench, name)
    press(bench, "Comparison")
    assert alone.locator("img").count() == 0
    assert alone.locator("script").count() == 2  # the recording, and what plays it
    screenshot(alone, "workload-page-hostile")
