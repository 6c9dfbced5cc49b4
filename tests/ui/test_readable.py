"""A topology that can be read: fixed size, a legend of what there is, activity from the first event on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.ui.harness import Host, evaluate, on_link, point, screenshot, until

MAKE = """
import astranb as anb
sim = anb.Simulation({!r}, anb.collectives.Collective.of({!r}, {!r}, {!r}))
workbench = anb.Workbench(sim)
workbench
"""


def start(host: Host, *run: str) -> Locator:
    bench = host.show(MAKE.format(*run), width=1600, height=1000)
    expect(bench).to_have_attribute("data-events", "0")
    return bench


def settled(host: Host, bench: Locator) -> None:
    """Wait until the page shows the kernel's state, and what the picture asks has been answered."""
    expect(bench).to_have_attribute("data-events", str(evaluate(host, "sim.events")))
    host.page.wait_for_timeout(700)


def colours(page: Page, x: float, y: float, wide: float, high: float) -> set[tuple[int, int, int]]:
    """Colours in a part of the topology."""
    found: list[list[int]] = page.evaluate(
        """([x, y, w, h]) => {
            const canvas = document.querySelector(".anb-picture > canvas")
            const { data } = canvas.getContext("2d").getImageData(x, y, w, h)
            const seen = new Set(new Uint32Array(data.buffer))
            return [...seen].map(c => [c & 255, (c >> 8) & 255, (c >> 16) & 255])
        }""",
        [round(x), round(y), round(wide), round(high)],
    )
    return {(r, g, b) for r, g, b in found}


BUSY, FINAL = (0, 0x72, 0xB2), (0, 0x9E, 0x73)


def box_of(host: Host, bench: Locator, rank: int) -> Callable[[], set[tuple[int, int, int]]]:
    """Return what tells the colours in the box of a GPU."""
    at = point(host, bench, f"gpu[{rank}]")
    return lambda: colours(host.page, at["x"] - 30, at["y"] - 24, 60, 54)


def test_a_picture_that_does_not_move_and_is_never_blank(host: Host) -> None:
    bench = start(host, "dgx-h100", "all_reduce", "1 MiB", "ring")
    canvas = bench.locator(".anb-picture > canvas")
    legend = bench.locator(".anb-topology .anb-legend")
    expect(legend).to_contain_text("NVLink")
    expect(legend).not_to_contain_text("PCIe")
    settled(host, bench)
    size: Any = canvas.bounding_box()
    assert BUSY not in box_of(host, bench, 0)()
    bench.get_by_role("button", name="Event", exact=True).click()
    settled(host, bench)
    rank = evaluate(host, "sim.engine.machine.blocks['gpu'][sim.engine.machine.clock[0].last_arg].item()")
    box = box_of(host, bench, rank)
    until(host, lambda: BUSY in box(), "no block has been launched on one of its SMs")
    host.change("str(sim.step(200_000))")
    settled(host, bench)
    note = bench.locator(".anb-topology .anb-note")
    expect(note).to_contain_text(
        re.compile(r"4,\d\d\d lines in flight, [\d,]+ drawn: on full links 1 of 4 to 1 of \d")
    )
    canvas.click(position=point(host, bench, "gpu[3]"))
    expect(bench.get_by_role("button", name="look inside")).to_be_visible()
    assert canvas.bounding_box() == size
    canvas.click(position=on_link(host, bench, "gpu[0]", "dgx_h100.0.nvsw.0"))
    assert canvas.bounding_box() == size
    canvas.hover(position=on_link(host, bench, "gpu[1]", "dgx_h100.0.nvsw.0"))
    tip = bench.locator(".anb-topology .anb-tip").first
    expect(tip).to_contain_text("GPU1 → nvsw.0")
    expect(tip).to_contain_text("lanes of NVLink")
    canvas.hover(position=point(host, bench, "gpu[5]"))
    expect(tip).to_contain_text("SMs with thread blocks: ")
    host.change("workbench.select('') or str(sim.run())")
    settled(host, bench)
    box = box_of(host, bench, 7)
    until(host, lambda: FINAL in box(), "not every chunk has come to every GPU")
    expect(note).to_contain_text("links: their load in all-gather 7/7")
    canvas.hover(position=point(host, bench, "gpu[7]"))
    expect(tip).to_contain_text("8 of 8 chunks final")
    host.set_theme("dark")
    screenshot(host, "readable-end-dark")


def test_idle_links_are_drawn_evenly(host: Host) -> None:
    page = host.page
    bench = start(host, "clos:servers=4", "all_reduce", "64 KiB", "ring")
    legend = bench.locator(".anb-topology .anb-legend")
    for family in ("Ethernet", "NVLink", "PCIe"):
        expect(legend).to_contain_text(family)
    settled(host, bench)
    screenshot(host, "readable-clos")
    # Below each spine switch there is as much drawn as below any other.
    boxes = evaluate(
        host,
        "[[b.x / l.width, b.y / l.height] for l in [workbench.feed.layout] for b in l.boxes "
        "if b.name.startswith('spinesw')]",
    )
    size: Any = bench.locator(".anb-picture > canvas").bounding_box()
    assert len(boxes) == 8
    for x, y in boxes:
        assert len(colours(page, x * size["width"] - 20, y * size["height"] + 10, 40, 12)) > 1
