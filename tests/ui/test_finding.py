"""Finding things: the search field, the table of events, the fullest buffers, the overview of all time."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from tests.ui.harness import Host, becomes, screenshot

MAKE = "import astranb as anb\nsim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('64 KiB', 'ring'))"
SHOW = "sim.run('5 us')\nworkbench = anb.Workbench(sim)\nworkbench"


def start(host: Host) -> Locator:
    bench = host.show(MAKE, SHOW, width=1280, height=720)
    expect(bench).to_have_attribute("data-events", re.compile(r"[1-9]\d*"))
    return bench


def test_the_search_field_finds_a_gpu_a_link_and_a_time(host: Host) -> None:
    page = host.page
    bench = start(host)
    bench.press("/")
    field = bench.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    found = bench.get_by_role("listbox", name="Found").get_by_role("option")
    page.keyboard.type("gpu 3")
    expect(found.first).to_have_text("GPU3")
    page.keyboard.press("Enter")
    becomes(host, "workbench._selection == 'gpu[3]'")
    expect(bench.locator(".anb-inspector h4").first).to_contain_text("GPU3")
    expect(found).to_have_count(0)

    bench.press("Control+f")
    field.fill("nvsw.1")
    expect(found.nth(1)).to_contain_text("->dgx_h100.0.nvsw.1")
    page.keyboard.press("ArrowDown")
    expect(found.nth(1)).to_have_attribute("aria-selected", "true")
    screenshot(host, "search")
    found.nth(2).click()
    becomes(host, "workbench._selection == 'dgx_h100.0.xpu.1->dgx_h100.0.nvsw.1'")

    field.fill("3 us")
    expect(found.first).to_have_text("time 3 µs")
    page.keyboard.press("Enter")
    becomes(host, "workbench.cursor_ps == 3_000_000")
    field.fill("7 us")  # later than what has been simulated: the run goes on to it
    expect(found.first).to_have_text("time 7 µs")
    page.keyboard.press("Enter")
    becomes(host, "sim.now_ps > 6_000_000")


def test_the_table_of_events_follows_the_cursor_and_moves_it(host: Host) -> None:
    bench = start(host)
    bench.get_by_role("button", name="Events", exact=True).click()
    table = bench.locator(".anb-events tbody tr")
    expect(table).to_have_count(20)
    host.change("workbench.scrub('2 us')")
    expect(table).to_have_count(40)
    expect(table.nth(20)).to_have_class("anb-later")
    row = table.nth(22)
    where = row.locator("td").last.inner_text()
    row.get_by_role("button").click()
    becomes(host, f"workbench._selection == {where!r}")
    becomes(host, "workbench.cursor_ps > 2_000_000")
    expect(bench.locator(".anb-events tr[aria-selected=true]").first).to_be_visible()
    screenshot(host, "events")


def test_the_overview_of_all_time_sets_what_the_timelines_show(host: Host) -> None:
    page = host.page
    bench = start(host)

    def at(share: float) -> tuple[float, float]:
        """Return the position of a share of all time: panels that open late move it."""
        place = bench.locator(".anb-overview").bounding_box()
        assert place
        return place["x"] + 62 + share * (place["width"] - 62), place["y"] + place["height"] / 2

    def drag(start: float, end: float) -> None:
        """From a share of all time to another."""
        page.mouse.move(*at(start))
        page.mouse.down()
        page.mouse.move(*at(end), steps=4)
        page.mouse.up()

    def shows(start: float, end: float) -> None:
        whole = "sim.now_ps * 1.02"
        becomes(
            host,
            f"len(workbench._window_ps) == 2 and abs(workbench._window_ps[0] / ({whole}) - {start}) < 0.02"
            f" and abs(workbench._window_ps[1] / ({whole}) - {end}) < 0.02",
        )

    drag(0.2, 0.5)  # a new window
    shows(0.2, 0.5)
    drag(0.35, 0.45)  # the window
    shows(0.3, 0.6)
    drag(0.6, 0.8)  # its end
    shows(0.3, 0.8)
    screenshot(host, "overview")
    page.mouse.dblclick(*at(0.9))
    becomes(host, "workbench._window_ps == []")
