"""One moment in every panel, spans that were clicked, what is seen while it plays, and Pause."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from tests.ui.harness import Host, becomes, evaluate, screenshot
from tests.ui.hosts import IN_BOTH

MAKE = "import astranb as anb\nsim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('{size}', 'ring'))"
SHOW = "workbench = anb.Workbench(sim)\nworkbench"
LINK = "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0"


def start(host: Host, size: str = "256 KiB") -> Locator:
    bench = host.show(MAKE.format(size=size), SHOW, width=1600, height=1400)
    expect(bench).to_have_attribute("data-events", "0")
    return bench


def test_every_panel_holds_for_the_cursors_time(host: Host) -> None:
    bench = start(host)
    host.change(f"[sim.goto('11 us'), workbench.scrub('628 ns'), workbench.select('{LINK}')]")
    moment = bench.locator(".anb-inspector .anb-moment")
    expect(moment).to_have_text("at 628 ns")
    expect(moment).to_have_attribute("data-late", "false")
    queue = evaluate(host, f"dict(workbench.session.inspect('{LINK}', 628_000)['state'])['queue now']")
    expect(bench.locator(".anb-inspector")).to_contain_text(queue)
    host.change("workbench.show_panel('explain')")
    for k in range(2):
        expect(bench.locator(".anb-explain .anb-moment").nth(k)).to_have_text("at 628 ns")
    host.change("workbench.show_panel('chunks') or workbench.scrub('3.5 us')")
    expect(bench.locator(".anb-chunks .anb-moment")).to_have_text("at 3.5 µs")
    screenshot(host, "moment-light")
    host.change("sim.watch('gpu[1].sm.0.issued').text")
    host.change("[workbench.show_panel(panel) for panel in ('result', 'events', 'buffer')]")
    names = {
        "Traffic": "Traffic from GPU to GPU", "Table": "Table", "Data": "Data", "Inspect": "Inspector",
        "Breakpoints": "Breakpoints and watches", "Explain": "Explain", "Source": "Source",
    }  # fmt: skip
    below = ("Result", "Events around the cursor", "Buffer")
    for when, text in (("628 ns", "at 628 ns"), ("7.25 us", "at 7.25 µs")):
        host.change(f"workbench.scrub('{when}')")
        for tab, name in names.items():
            bench.get_by_role("tab", name=tab, exact=True).click()
            for panel in (name, *below):
                label = bench.get_by_label(panel, exact=True).locator(".anb-moment").first
                expect(label).to_have_text(text)
                expect(label).to_have_attribute("data-late", "false")
    # The numbers are those of the kernel at that time.
    past = "workbench.session.at(7_250_000)"
    memory = "__import__('astranb.engine.cacheline.memory', fromlist=['_'])"
    arrived = evaluate(host, f"int({memory}.buffer_of({past}.engine, 0, 'output').arrived.sum())")
    expect(bench.locator(".anb-buffer")).to_contain_text(f"{arrived:,} of 2,048 lines")
    issued = evaluate(host, f"sim.watches[0].shown(sim.watches[0].read({past}))")
    bench.get_by_role("tab", name="Breakpoints", exact=True).click()
    expect(bench.locator(".anb-watch .anb-value")).to_have_text(issued)
    # Changes are made where the simulation is, whatever the cursor looks at.
    bench.get_by_role("tab", name="Change", exact=True).click()
    moment = bench.locator(".anb-change .anb-moment")
    expect(moment).to_have_attribute("data-ps", str(evaluate(host, "sim.now_ps")))
    expect(moment).to_have_attribute("data-late", "true")
    expect(moment).to_have_attribute(
        "title", "the cursor is at 7.25 µs: changes are made where the simulation is"
    )


def test_a_span_that_is_clicked_is_described(host: Host) -> None:
    bench = start(host)
    host.change("str(sim.goto('11 us'))")
    panel = bench.get_by_label("SM timeline", exact=True)
    panel.get_by_role("button", name="Thread blocks").click()
    canvas = panel.locator("canvas")
    canvas.click(position={"x": 6, "y": 34})  # GPU0 opens
    expect(panel.locator(".anb-note")).to_contain_text("more in folded GPUs")
    expect(panel).to_have_attribute("data-asked", "false")
    box = canvas.bounding_box()
    assert box
    width = box["width"]
    canvas.click(position={"x": 62 + (width - 62) * 0.3, "y": 20 + 26 + 6})
    span = bench.locator(".anb-span")
    expect(span).to_be_visible()
    expect(span).to_contain_text(" to ")
    expect(span).to_contain_text("operation")
    screenshot(host, "moment-span")
    span.get_by_role("button", name="Go to its begin").click()
    becomes(host, "0 <= workbench.cursor_ps < 0.3 * 11e6")
    span.get_by_role("button", name="Go to its end").click()
    becomes(host, "workbench.cursor_ps > 0.29 * 11e6")


def test_a_click_on_memories_and_links_describes_what_was_there(host: Host) -> None:
    bench = start(host, "1 MiB")
    host.change("str(sim.goto('11 us'))")
    panel = bench.get_by_label("Memory timeline", exact=True)
    panel.scroll_into_view_if_needed()
    canvas = panel.locator("canvas").first
    expect(panel).to_have_attribute("data-exact", "false")
    box = canvas.bounding_box()
    assert box
    span = bench.locator(".anb-span")
    strips = evaluate(host, "[6 * k + 2 + 3 for k in range(4)]")
    for y, name in zip(strips, ("SM issue", "L2", "HBM", "links out"), strict=True):
        canvas.click(position={"x": 62 + (box["width"] - 62) * 0.05, "y": y})
        expect(span.locator("h4")).to_contain_text(f"{name}: ")
        expect(span).to_contain_text(" to ")
        assert evaluate(host, "workbench._selection") == "gpu[0]"
    expect(span).to_contain_text("lanes")
    expect(span).to_contain_text("messages")
    screenshot(host, "moment-memory-span")


def test_pause_rests_at_what_was_seen(host: Host) -> None:
    page = host.page
    bench = start(host)
    host.change("workbench.set_speed('1 us')")
    bench.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function(
        "() => Number(document.querySelector('.anb-workbench').dataset.cursor) > 1_000_000"
    )
    # The time of the last picture: the text of the clock is written only ten times a second.
    seen = page.evaluate(
        """() => {
          const bench = document.querySelector('.anb-workbench');
          bench.querySelector('button[aria-label=Pause]').click();
          return Number(bench.dataset.cursor);
        }"""
    )
    expect(bench.get_by_role("button", name="Play", exact=True)).to_be_visible()
    assert 500_000 < evaluate(host, "sim.now_ps") <= seen


@IN_BOTH
def test_undo_shows_what_is_restored_and_a_bundle_is_all_its_lanes(host: Host) -> None:
    bench = start(host)
    host.change(f"workbench.select('{LINK}') or workbench.event(1000)")
    expect(bench.locator(".anb-inspector")).to_contain_text("125 GB/s (5 lanes x 25 GB/s)")
    bench.get_by_role("tab", name="Change", exact=True).click()
    panel = bench.locator(".anb-change")
    entry = panel.get_by_label("bandwidth", exact=True)
    expect(entry).to_have_value("125 GB/s")
    expect(panel).to_contain_text("5 lanes x 25 GB/s")
    entry.fill("62.5 GB/s")
    entry.press("Enter")
    expect(panel.get_by_text(f"{LINK}.bandwidth = 62.5 GB/s")).to_be_visible()
    expect(panel).to_contain_text("5 lanes x 12.5 GB/s")
    assert evaluate(host, f"sim.at('{LINK}').state['bandwidth_Bps']") == 62_500_000_000
    panel.get_by_role("button", name=f"Undo {LINK}.bandwidth").click()
    expect(entry).to_have_value("125 GB/s")
    expect(panel).to_contain_text("5 lanes x 25 GB/s")
