"""Compute kernels in the workbench: tiles beside a collective, in lanes and in words."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.ui.harness import THEMES, Host, evaluate, screenshot

RUN = """
import astranb as anb
from astranb.workload.kernels import Product
work = anb.beside([Product(1536, 1408, 2048)], anb.collectives.all_gather("2 MiB", "ring"))
coarse = anb.Network(compute_lines=32)
sim = anb.Simulation("dgx-h100", work, fidelity="cacheline", network=coarse)
sim.run("15 us")
workbench = anb.Workbench(sim)
workbench
"""


def test_an_sm_says_which_tile_it_computes(host: Host) -> None:
    bench = host.show(RUN, width=1280, height=720)
    expect(bench).to_have_attribute("data-events", str(evaluate(host, "sim.events")), timeout=60_000)
    bench.scroll_into_view_if_needed()
    host.change("workbench.select('gpu[2].sm.100')")
    for theme in THEMES:
        host.set_theme(theme)
        expect(bench.get_by_text("steps of a tile").first).to_be_visible()
        expect(bench.get_by_text("matrix units busy").first).to_be_visible()
        host.page.wait_for_timeout(500)  # the kernel answers what the panels ask
        screenshot(host, f"kernels-{theme}")
