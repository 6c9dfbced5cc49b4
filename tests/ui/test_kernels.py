"""Compute kernels in the workbench: tiles beside a collective, in lanes and in words."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from .harness import THEMES, Lab, evaluate, open_notebook, run_all, screenshot, set_theme

RUN = """
import astranb as anb
from astranb.engine.cacheline import Graph
from astranb.workload.kernels import Product
work = Graph.beside([Product(1536, 1408, 2048)], anb.collectives.all_gather("2 MiB", "ring"))
coarse = anb.Network(compute_lines=32)
sim = anb.Simulation("dgx-h100", work, fidelity="cacheline", network=coarse)
sim.run("15 us")
workbench = anb.Workbench(sim)
workbench
"""


def test_an_sm_says_which_tile_it_computes(page: Page, lab: Lab) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    open_notebook(page, lab, [RUN])
    run_all(page)
    bench = page.locator(".anb-workbench")
    expect(bench).to_have_attribute("data-events", str(evaluate(page, "sim.events")), timeout=60_000)
    bench.scroll_into_view_if_needed()
    evaluate(page, "workbench.select('gpu[2].sm.100')")
    for theme in THEMES:
        set_theme(page, theme)
        expect(bench.get_by_text("steps of a tile").first).to_be_visible()
        expect(bench.get_by_text("matrix units busy").first).to_be_visible()
        page.wait_for_timeout(3000)  # the kernel answers what the panels ask
        screenshot(page, f"kernels-{theme}")
