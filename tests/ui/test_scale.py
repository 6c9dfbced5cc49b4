"""Levels of detail in a real browser: from a cluster down to an SM, traffic, congestion, many lines."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Position, expect

from tests.ui.harness import Host, Lab, becomes, evaluate, painted, point, screenshot
from tests.ui.hosts import LivePage, Notebook

MAKE = """
import astranb as anb
from astranb.collectives import Collective
collective = Collective.of("{collective}", "{size}", "{algorithm}", channels={channels})
sim = anb.Simulation("{infra}", collective{more})
workbench = anb.Workbench(sim)
workbench
"""


def start(
    host: Host,
    infra: str,
    collective: str,
    size: str,
    algorithm: str,
    more: str = "",
    channels: int | None = 1,
) -> Locator:
    """Open a workbench of some system."""
    cell = MAKE.format(
        infra=infra, collective=collective, size=size, algorithm=algorithm, more=more, channels=channels
    )
    bench = host.show(cell, width=1500, height=1200)
    expect(bench).to_have_attribute("data-events", "0")
    return bench


def test_from_a_cluster_down_to_an_sm_and_up_again(host: Host) -> None:
    bench = start(host, "clos:servers=16,per_leaf=4", "send_recv", "8 KiB", "put")
    host.change("str(sim.run('2 us'))")
    words, crumbs = bench.locator(".anb-words"), bench.locator(".anb-crumbs")
    expect(words).to_contain_text("128 GPUs: each instance is one box")
    total = evaluate(host, "len(workbench.feed.layout.bundles)")
    expect(words).to_contain_text(f"those on the 40 hottest of {total} links are drawn")
    bench.get_by_label("all links").check()
    expect(words).to_have_text(f"lines are drawn on all {total} links")
    bench.get_by_label("all links").uncheck()
    screenshot(host, "scale-collapsed")
    canvas = bench.locator(".anb-picture > canvas")
    canvas.click(position=point(host, bench, "host.3"))
    expect(bench.locator(".anb-inspector")).to_contain_text("8, ranks 24 to 31")
    bench.get_by_role("button", name="open here").click()
    expect(bench.get_by_role("button", name="close all")).to_be_visible()
    if isinstance(host, Notebook):
        assert evaluate(host, "[f.name for f in workbench.feed.layout.frames]") == ["host.3"]
    bench.get_by_role("button", name="close all").click()
    expect(bench.get_by_role("button", name="close all")).to_be_hidden()
    canvas.dblclick(position=point(host, bench, "host.3"))
    expect(crumbs).to_have_text("cluster>host.3")
    expect(words).to_contain_text("only host.3 and what it is joined with")
    if isinstance(host, LivePage):  # what one looks at is no part of a file
        host.known("workbench.feed.look(focus='host.3')")
    canvas.click(position=point(host, bench, "host.3.xpu.1"))
    bench.press("Enter")
    expect(crumbs).to_have_text("cluster>host.3>gpu[25]>SMs")
    painted(bench.locator(".anb-device > canvas"))
    screenshot(host, "scale-device")
    bench.locator(".anb-device > canvas").click(position={"x": 16, "y": 34})
    becomes(host, "workbench.selected['path'] == 'host.3.xpu.1.sm.0'")
    expect(crumbs).to_have_text("cluster>host.3>gpu[25]>sm 0")
    bench.press("Escape")
    expect(crumbs).to_have_text("cluster>host.3")
    crumbs.get_by_role("button", name="cluster").click()
    expect(crumbs).to_have_text("cluster")
    expect(words).to_contain_text("each instance is one box")


def test_traffic_shows_who_sends_to_whom(host: Host) -> None:
    bench = start(host, "dgx-h100", "all_gather", "64 KiB", "ring")
    host.change("str(sim.run())")
    bench.get_by_role("tab", name="Traffic").click()
    heat = bench.locator(".anb-heat")
    expect(heat).to_contain_text("448 KiB of data")  # 8 ranks x 7 chunks x 8 KiB
    painted(heat.locator("canvas"))
    box = heat.locator("canvas").bounding_box()
    assert box
    cell = min(box["width"] - 54, box["height"] - 34) / 8
    at = Position(x=46 + 3.5 * cell, y=24 + 2.5 * cell)
    heat.locator("canvas").hover(position=at)
    expect(heat.locator(".anb-tip")).to_have_text("GPU2 to GPU3: 56 KiB")
    heat.locator("canvas").click(position=at)
    expect(bench.locator(".anb-inspector h4")).to_contain_text("(GPU2)")
    heat.get_by_label("visible time only").check()
    bench.press("w")
    bench.press("w")
    expect(heat).to_contain_text("of data from")
    expect(heat).not_to_contain_text("448 KiB of data")
    host.set_theme("dark")
    screenshot(host, "scale-traffic-dark")


def test_congestion_has_a_shape_of_its_own(host: Host) -> None:
    bench = start(
        host, "switch:gpus=8", "gather", "512 KiB", "allpairs", ", network=anb.net.Network(buffers=4)"
    )
    host.change("str(sim.run('8 us'))")
    expect(bench.locator(".anb-topology .anb-legend")).to_contain_text("no buffer free")
    marked = evaluate(
        host,
        "[sum(map(bool, m.tolist())) for *_, m in [__import__('astranb.widgets.views.topology', "
        "fromlist=['x']).ports(sim, workbench.feed.layout)]][0]",
    )
    assert marked > 0
    expect(bench.locator(".anb-picture > canvas")).to_have_attribute("data-marked", str(marked))
    waiting = evaluate(host, "int(sim.engine.machine.queues['waiting'].sum())")
    assert waiting > 0
    expect(bench.locator(".anb-topology .anb-note")).to_contain_text(f"{waiting:,} in queues")
    bench.get_by_label("View cursor").fill("0.02")  # in the past, of which a private copy tells
    expect(bench.locator(".anb-picture > canvas")).to_have_attribute("data-marked", "0")
    bench.get_by_label("Follow").check()
    expect(bench.locator(".anb-picture > canvas")).to_have_attribute("data-marked", str(marked))
    screenshot(host, "scale-congestion")


def test_of_many_lines_a_sample_is_drawn(host: Host) -> None:
    page = host.page
    bench = start(host, "torus2d:rows=4,columns=6", "all_gather", "768 KiB", "allpairs", channels=4)
    host.change("str(sim.run('9 us'))")
    page.wait_for_function("() => document.querySelector('.anb-workbench').dataset.dots > 6000")
    note = bench.locator(".anb-topology .anb-note")
    expect(note).to_contain_text("lines in flight")
    expect(note).to_contain_text(re.compile(r"drawn: on full links 1 of \d+ to 1 of \d+"))
    expect(bench.locator(".anb-words")).to_have_text("4 x 6 torus")
    painted(bench.locator(".anb-picture > canvas"))
    screenshot(host, "scale-torus")


def tile_of(page: Page, bench: Locator, band: int) -> tuple[Position, str]:
    """A place in a band of tiles where there is one, and its name."""
    x, y = evaluate(
        page,
        f"[(b.x / l.width, b.y / l.height) for l in [workbench.feed.layout] for b in [l.boxes[{band}]]][0]",
    )
    canvas, tip = bench.locator(".anb-picture > canvas"), bench.locator(".anb-topology .anb-tip")
    box = canvas.bounding_box()
    assert box
    for beside in range(0, 12, 3):  # between tiles there are gaps
        at = Position(x=x * box["width"] + beside, y=y * box["height"] + beside)
        canvas.hover(position=at)
        page.wait_for_timeout(100)
        if tip.is_visible():
            return at, str(tip.text_content()).split(" ")[0]
    raise AssertionError(f"no tile in band {band}")


@pytest.mark.slow
def test_a_thousand_gpus_reduce_over_rails(page: Page, lab: Lab) -> None:
    """1,024 GPUs are opened, stepped and played, and one looks into an instance and over all lanes."""
    bench = start(
        Notebook(page, lab), "clos:servers=128", "all_reduce", "64 KiB", "hierarchical", channels=None
    )
    expect(bench.locator(".anb-words")).to_have_text(
        "too many to draw one by one: a tile is an instance, a band is a tier"
    )
    expect(bench.locator(".anb-topology .anb-legend")).to_contain_text("how busy the links that leave a tile")

    bench.get_by_role("button", name="Line", exact=True).click()
    becomes(page, "sim.counts['line'] == 1 and not workbench.session.playing")
    expect(bench).to_have_attribute("data-events", str(evaluate(page, "sim.events")))
    expect(bench.locator(".anb-narration")).to_contain_text("GPU")
    panel = bench.locator(".anb-aggregates")
    expect(panel).to_contain_text("128 x host →")
    expect(panel).to_contain_text("median")
    expect(panel.locator(".anb-top button").first).to_be_visible()
    painted(bench.locator(".anb-picture > canvas"))
    screenshot(page, "scale-1024")

    line_ps = evaluate(page, "sim.now_ps")
    bench.get_by_role("button", name="Play", exact=True).click()
    becomes(page, f"sim.now_ps > {line_ps} + 100_000")
    bench.get_by_role("button", name="Pause", exact=True).click()
    becomes(page, "not workbench.session.playing")
    events = evaluate(page, "sim.events")
    expect(bench).to_have_attribute("data-events", str(events))
    bench.get_by_role("button", name="Event", exact=True).click()
    expect(bench).to_have_attribute("data-events", str(events + 1))
    bench.get_by_role("button", name="Back", exact=True).click()
    expect(bench).to_have_attribute("data-events", str(events))

    lanes = bench.locator(".anb-timeline")
    expect(lanes).to_have_attribute("data-drawn", re.compile("spans|density"))
    lanes.locator(".anb-rows").evaluate("rows => { rows.scrollTop = rows.scrollHeight }")
    rows = lanes.locator("canvas").bounding_box()
    assert rows
    lanes.locator("canvas").hover(position=Position(x=30, y=rows["height"] - 8))
    expect(lanes.locator(".anb-tip")).to_have_text("GPU1023")
    screenshot(page, "scale-1024-lanes")

    panel.locator(".anb-top button").first.click()
    expect(bench.locator(".anb-inspector")).to_contain_text("utilisation so far")
    at, name = tile_of(page, bench, -1)
    assert name.startswith("host.")
    bench.locator(".anb-picture > canvas").dblclick(position=at)
    expect(bench.locator(".anb-crumbs")).to_have_text(f"cluster>{name}")
    painted(bench.locator(".anb-picture > canvas"))
    screenshot(page, "scale-1024-host")
