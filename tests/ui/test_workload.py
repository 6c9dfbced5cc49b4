"""The workbench of a workload, in a real JupyterLab."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from tests.ui.harness import Host, becomes, evaluate, screenshot, until
from tests.ui.hosts import IN_BOTH

MAKE = """import astranb as anb
from astranb.workload.astrasim2 import COLLECTIVE, COMPUTE, DimensionNetwork, Operations, System, Workload
system = System.from_document({
    "all-reduce-implementation": ["ring", "direct"], "preferred-dataset-splits": 4,
    "active-chunks-per-dimension": 2, "local-mem-bw": 1600,
})
def rank(slow):
    rows, deps = [], []
    for layer in range(6):
        rows.append({"kind": COMPUTE, "duration_ns": 40_000 + 30_000 * slow})
        deps.append([2 * layer - 2] if layer else [])
        rows.append({"kind": COLLECTIVE, "collective": 0, "bytes": 1 << 20})
        deps.append([2 * layer])
    return Operations.of(rows, deps)
ranks = [rank(r == 5) for r in range(8)]
network = DimensionNetwork(["Ring", "Switch"], [4, 2], [50, 25], [500, 700])
sim = anb.Simulation(Workload(ranks, network, system))"""
SHOW = "workbench = anb.Workbench(sim)\nworkbench"


def run_to_end(host: Host, bench: Locator) -> None:
    """Press End and wait for the run's end: no breakpoint is left to stop it."""
    host.change("sim.clear()")
    end = bench.get_by_role("button", name="End", exact=True)
    end.click()
    expect(end).to_be_disabled()


def by_module(host: Host, bench: Locator) -> None:
    """Look at the operations of rank 5 by module, and select one there."""
    tree = bench.get_by_role("tree", name="Graph by module")
    done = evaluate(host, "int((sim.engine.states(sim.engine.about.rows_of(5))[1::2] == 3).sum())")
    module = tree.get_by_role("treeitem", name="all_reduce: 6 nodes")
    expect(module).to_have_attribute("aria-label", re.compile(f", {done} of 6 done"))
    tree.get_by_role("treeitem", name="all_reduce: 1 MiB, done").first.click()
    expect(bench.locator(".anb-inspector")).to_contain_text("of 4 done")
    becomes(host, "workbench.selected['path'].startswith('rank[5].op[')")


@IN_BOTH
def test_a_workload_is_stepped_watched_and_broken(host: Host) -> None:
    page = host.page
    bench = host.show(MAKE, SHOW)
    expect(bench.locator(".anb-title")).to_contain_text("8 ranks on Ring x Switch")
    bench.get_by_role("button", name="Operation", exact=True).click()
    expect(bench.locator(".anb-narration")).to_contain_text("ends compute")
    assert evaluate(host, "sim.counts['operation']") == 1
    bench.get_by_role("button", name="Message", exact=True).click()
    expect(bench.locator(".anb-narration")).to_contain_text("is sent a message by rank")
    bench.focus()
    page.keyboard.press("n")
    expect(bench.locator(".anb-narration")).to_contain_text(re.compile("phase|begins|sends"))
    assert evaluate(host, "sim.counts['phase']") == 1

    timeline = bench.locator(".anb-ranks")
    expect(timeline).to_have_attribute("data-drawn", "spans")
    expect(timeline).to_have_attribute("data-count", re.compile(r"[1-9]\d*"))
    bench.get_by_role("tab", name="Operations").click()
    graph = bench.locator(".anb-dag")
    expect(graph).to_have_attribute("data-nodes", "12")
    expect(graph.locator("[data-state=running]")).to_have_count(2)

    graph.locator("[data-path='rank[0].op[1]']").click()
    expect(bench.locator(".anb-inspector")).to_contain_text("of 4 done")
    becomes(host, "workbench.selected['path'] == 'rank[0].op[1]'")

    bench.get_by_role("tab", name="Breakpoints").click()
    breaks = bench.locator(".anb-breaks")
    breaks.get_by_label("Break", exact=True).select_option("on")
    breaks.get_by_label("Kind of event").select_option("collective_end")
    breaks.get_by_label("Object").fill("rank[5]")
    breaks.get_by_role("button", name="Add breakpoint").click()
    expect(breaks.locator(".anb-item")).to_contain_text("collective end of rank[5]")
    bench.get_by_role("button", name="Breakpoint", exact=True).click()
    expect(breaks.locator(".anb-item")).to_have_attribute("data-hit", "true")
    expect(bench.locator(".anb-status")).to_contain_text("rank 5 ends all_reduce")
    expect(graph).to_have_attribute("data-rank", "5")
    bench.get_by_role("tab", name="Inspect").click()
    expect(graph).to_have_attribute("data-asked", "false")
    screenshot(host, "workload-light")
    # The same operations by module, in the state of the cursor; one that is selected is inspected.
    bench.get_by_role("tab", name="Modules").click()
    by_module(host, bench)
    bench.get_by_role("tab", name="Operations").click()
    host.set_theme("dark")
    screenshot(host, "workload-dark")

    before, events = str(evaluate(host, "sim.state_hash()")), evaluate(host, "sim.events")
    host.change("sim.step(500).why")
    bench.get_by_label("Steps at once").select_option("100")
    bench.get_by_label("Back by").select_option("event")  # it follows the unit of the last step
    for _ in range(5):
        bench.get_by_role("button", name="Back", exact=True).click()
    expect(bench).to_have_attribute("data-events", str(events))
    assert str(evaluate(host, "sim.state_hash()")) == before

    bench.get_by_role("tab", name="Ranks").click()
    ranks = bench.locator(".anb-exposed")
    expect(ranks.locator("tbody tr")).to_have_count(8)
    host.change("workbench.scrub('60 us')")
    expect(ranks.locator(".anb-moment")).to_have_text("at 60 µs")
    row = ranks.locator("tbody tr", has_text="rank[0]")
    expect(row.get_by_role("cell").first).to_have_text("60 µs")
    host.change("workbench.show_panel('result')")
    expect(bench.locator(".anb-result .anb-moment")).to_have_text("at 60 µs")
    host.change("workbench.follow()")
    run_to_end(host, bench)
    bench.get_by_role("button", name="Chunks by dimension").click()
    expect(timeline).to_have_attribute("data-kind", "chunks")
    expect(timeline).to_have_attribute("data-asked", "false")
    screenshot(host, "workload-ranks")


def test_a_click_is_kept_where_what_is_pressed_is_drawn_anew(host: Host) -> None:
    page = host.page
    bench = host.show(MAKE, SHOW)
    bench.get_by_role("tab", name="Operations").click()
    node = bench.locator(".anb-dag [data-path='rank[0].op[2]']")
    node.hover()
    before = node.element_handle()
    bench.focus()
    page.mouse.down()
    page.keyboard.press("ArrowRight")
    until(host, lambda: not before.evaluate("node => node.isConnected"), "it is not drawn anew")
    page.mouse.up()
    becomes(host, "workbench.selected['path'] == 'rank[0].op[2]'")


MAKE_LAYERS = """import astranb as anb
from astranb.workload.astrasim1 import (
    HierarchicalNetwork, Layer, LayerAlgorithm, LayerSystem, LayerTable, LayerWorkload, Part
)
part = Part(20_000)
layers = tuple(
    Layer(f"conv{n}", part, part, Part(20_000, "ALLREDUCE", 8 << n << 20), update_ns=100) for n in range(4)
)
torus = HierarchicalNetwork(("Ring",) * 3, (4, 4, 4), (2, 2, 2), (500,) * 3, (50,) * 3)
system = LayerSystem({"all-reduce": (LayerAlgorithm("ring"),) * 3}, splits=4)
workload = LayerWorkload(LayerTable("DATA", layers), system, torus, 2, title="four layers")
sim = anb.Simulation(workload)"""


def test_layers_are_stepped_and_what_is_waited_for_is_seen(host: Host) -> None:
    bench = host.show(MAKE_LAYERS, SHOW, height=1300)
    host.set_theme("light")
    expect(bench.locator(".anb-title")).to_contain_text("four layers: 64 ranks (all alike)")
    expect(bench.get_by_role("button", name="Message", exact=True)).to_be_hidden()
    bench.get_by_role("button", name="Operation", exact=True).click()
    expect(bench.locator(".anb-narration")).to_contain_text("all ranks end conv0 FWD")
    before = bench.get_attribute("data-events")
    bench.get_by_role("button", name="Pass", exact=True).click()
    expect(bench).not_to_have_attribute("data-events", str(before))
    expect(bench).to_have_attribute("data-events", str(evaluate(host, "sim.events")))
    assert evaluate(host, "sim.counts['pass']") == 1
    bench.get_by_role("tab", name="Operations").click()
    graph = bench.locator(".anb-dag")
    expect(graph).to_have_attribute("data-nodes", "30")
    graph.locator("[data-path='rank[0].op[5]']").click()
    expect(bench.locator(".anb-inspector")).to_contain_text("conv3, WG")

    bench.get_by_role("tab", name="Breakpoints").click()
    breaks = bench.locator(".anb-breaks")
    breaks.get_by_label("Break", exact=True).select_option("on")
    breaks.get_by_label("Kind of event").select_option("collective_end")
    breaks.get_by_label("Object").fill("conv2")
    breaks.get_by_role("button", name="Add breakpoint").click()
    expect(breaks.locator(".anb-item")).to_contain_text("collective end of layer[conv2]")
    bench.get_by_role("button", name="Breakpoint", exact=True).click()
    expect(breaks.locator(".anb-item")).to_have_attribute("data-hit", "true")
    expect(bench.locator(".anb-status")).to_contain_text("all ranks end conv2 WG comm")
    bench.get_by_role("tab", name="Inspect").click()
    expect(graph).to_have_attribute("data-asked", "false")
    screenshot(host, "layers-light")
    host.set_theme("dark")
    screenshot(host, "layers-dark")

    bench.get_by_role("tab", name="Layers").click()
    expect(bench.locator(".anb-exposed tbody tr")).to_have_count(4)
    run_to_end(host, bench)
    expect(bench.locator(".anb-ranks")).to_have_attribute("data-asked", "false")
    screenshot(host, "layers-table")
    bench.get_by_role("button", name="Chunks by dimension").click()
    expect(bench.locator(".anb-ranks")).to_have_attribute("data-kind", "chunks")
    expect(bench.locator(".anb-ranks")).to_have_attribute("data-asked", "false")
    screenshot(host, "layers-chunks")


COMPUTES = """canvas => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
    return new Uint32Array(data.buffer).some(pixel => (pixel & 0xffffff) === 0xb27200)  // #0072b2
}"""


def test_messages_move_on_the_topology_and_lead_to_their_operations(host: Host) -> None:
    bench = host.show(MAKE, SHOW, width=1280, height=1000)
    host.set_theme("light")
    topology = bench.locator(".anb-topology")
    expect(bench.get_by_role("tab", name="Topology")).to_have_attribute("aria-selected", "true")
    expect(topology.locator("canvas").first).to_have_attribute("aria-label", re.compile("12 nodes"))
    expect(topology.locator(".anb-legend")).to_contain_text("all_reduce")
    host.change("sim.goto('44 us').why")
    expect(topology.locator(".anb-note").first).to_contain_text("messages in flight")
    strip = bench.locator(".anb-overview")
    until(host, lambda: strip.evaluate(COMPUTES), "all time has the colour of computations")

    # Between two events messages are where their recorded times put them; going back takes them away.
    host.change("workbench.scrub('40.9 us')")
    expect(bench).to_have_attribute("data-dots", "14")  # two chunks of each rank but the slow one
    canvas = topology.locator("canvas").first
    first = str(canvas.get_attribute("data-moving"))
    assert len(first.split()) == 14
    words = str(canvas.get_attribute("data-words")).split("|")  # what covers nothing
    assert words
    assert set(words) <= {"64 KiB", "phase 1 · 64 KiB", *(f"chunk {k} · phase 1 · 64 KiB" for k in range(2))}
    host.change("workbench.scrub('41.4 us')")
    expect(canvas).not_to_have_attribute("data-moving", first)
    place = str(canvas.get_attribute("data-moving")).split()[0].split(",")
    canvas.hover(position={"x": float(place[0]), "y": float(place[1])})
    expect(topology.locator(".anb-tip")).to_contain_text("phase 1, step 1 · 64 KiB · rank 0 to rank 1")
    canvas.click(position={"x": float(place[0]), "y": float(place[1])})
    expect(bench.locator(".anb-inspector")).to_contain_text("rank[0].op[1]")
    screenshot(host, "workload-messages")
    host.change("workbench.scrub('39 us')")
    expect(bench).to_have_attribute("data-dots", "0")


WATCH = """bench => {
    window.passed = []
    new MutationObserver(() => window.passed.push(Number(bench.dataset.cursor)))
        .observe(bench, { attributes: true, attributeFilter: ['data-cursor'] })
}"""


def test_a_step_is_seen_as_a_passage(host: Host) -> None:
    """The first press of Message: messages move from rank to rank, and rest where they arrive."""
    bench = host.show(MAKE, SHOW)
    expect(bench).to_have_attribute("data-events", "0")
    bench.evaluate(WATCH)
    bench.get_by_role("button", name="Message", exact=True).click()
    expect(bench).not_to_have_attribute("data-events", "0")  # at the end of the passage
    arrived = evaluate(host, "sim.now_ps")
    expect(bench).to_have_attribute("data-cursor", str(arrived))
    passed = host.page.evaluate("() => window.passed")
    assert passed == sorted(passed)
    assert passed[-1] == arrived
    assert any(0 < time < arrived for time in passed)
    bench.get_by_role("button", name="Back", exact=True).click()
    expect(bench).to_have_attribute("data-cursor", "0")  # at once


def test_the_row_of_a_rank_is_pinned(host: Host) -> None:
    bench = host.show(MAKE, SHOW)
    run_to_end(host, bench)
    timeline = bench.locator(".anb-ranks")
    host.change("workbench.select('rank[3]')")
    expect(bench.locator(".anb-inspector")).to_contain_text("rank[3]")
    bench.focus()
    bench.press("t")
    canvas, tip = timeline.locator("canvas"), timeline.locator(".anb-tip")

    def top_row() -> str:
        canvas.hover(position={"x": 20, "y": 60})
        canvas.hover(position={"x": 20, "y": 30})
        return tip.inner_text()

    until(host, lambda: top_row() == "rank 3", "rank 3 is not above the others")
    expect(timeline).to_have_attribute("data-asked", "false")
    screenshot(host, "pinned-rank")
    bench.press("t")
    until(host, lambda: top_row() == "rank 0", "rank 0 is not the first row again")
