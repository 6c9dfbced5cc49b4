"""The replay of recorded traffic in a real JupyterLab: timeline, flow table, traffic matrix."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.ui.harness import Host, becomes, screenshot

MAKE = """import astranb as anb
from astranb.traffic import record
from astranb.workload.models import Parallelism, workload
plan = Parallelism(tensor=2, pipeline=2, data=2)
step = workload("gpt3-125m", plan, batch=4, microbatches=2, sequence=64)
pattern = record(anb.Simulation("dgx-h100", step, fidelity="congestion"))
sim = anb.Simulation("dgx-h100", pattern, fidelity="congestion")
sim.run().why"""
SHOW = "workbench = anb.Workbench(sim)\nworkbench"


def test_a_replay_shows_operations_flows_and_traffic(host: Host) -> None:
    page = host.page
    bench = host.show(MAKE, SHOW, width=1280, height=720)
    expect(bench.locator(".anb-ranks")).to_have_attribute("data-count", re.compile(r"[1-9]\d*"))

    bench.get_by_role("tab", name="Flows", exact=True).click()
    flows = bench.locator(".anb-flows")
    expect(flows.locator("caption")).to_contain_text("960 of 960 recorded messages")
    flows.get_by_label("Rank of messages").fill("3")
    expect(flows.locator("caption")).to_contain_text("236 of 960")
    flows.get_by_label("Operation of messages").fill("ends grads")
    expect(flows.locator("tbody tr").first).to_contain_text("ends grads (all_reduce")
    flows.get_by_role("button", name="takes", exact=True).click()
    expect(flows.locator("thead th[aria-sort=descending]")).to_have_text("takes")
    screenshot(host, "replay-flows-light")
    host.set_theme("dark")
    page.wait_for_timeout(500)
    screenshot(host, "replay-flows-dark")
    flows.locator("tbody th button").first.click()
    becomes(host, "'ends grads' in workbench.selected['title']")
    expect(bench.locator(".anb-inspector")).to_contain_text("ring")
    becomes(host, "workbench.cursor_ps < sim.now_ps")
    flows.get_by_label("under way at the cursor").check()
    expect(flows.locator("caption")).to_contain_text(re.compile(r"[1-9]\d* of 956"))
    flows.locator("tbody tr").first.locator("td button").click()
    becomes(host, "workbench.selected['kind'] == 'link'")

    bench.get_by_role("tab", name="Traffic", exact=True).click()
    heat = bench.locator(".anb-heat")
    expect(heat).to_contain_text(re.compile(r"row sends to column · [\d.]+ MiB"))
    screenshot(host, "replay-traffic-dark")
    host.set_theme("light")
    page.wait_for_timeout(500)
    screenshot(host, "replay-traffic-light")
