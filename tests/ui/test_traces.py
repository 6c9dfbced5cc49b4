"""Recorded traces: their timeline in JupyterLab, and the page of their statistics without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from astranb.chakra import RecordedTracks, link_job, read_ranks, recorded_files, write_job
from astranb.cli import main
from tests.ui.harness import THEMES, Record, open_notebook, run_all, screenshot, set_theme

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.ui.harness import Lab

DATA = Path(__file__).resolve().parents[1] / "data" / "recorded"


def _linked(folder: Path) -> str:
    prefix = str(folder / "four")
    write_job(link_job(recorded_files(DATA / "four")), prefix)
    return prefix


def test_a_node_is_found_on_the_timeline_of_a_recorded_job(page: Page, lab: Lab, tmp_path: Path) -> None:
    prefix = _linked(tmp_path)
    open_notebook(page, lab, ["import astranb as anb", f"shown = anb.TraceTimeline({prefix!r})\nshown"])
    set_theme(page, "light")
    run_all(page)
    shown = page.locator(".anb-recordings")
    expect(shown.get_by_role("heading", level=3)).to_have_text("four")
    expect(shown.get_by_role("status")).to_contain_text("3,494 spans of 4 ranks")
    rows = shown.locator(".anb-timeline")
    expect(rows).to_have_attribute("data-drawn", "spans")
    canvas = rows.get_by_role("img")
    box = canvas.bounding_box()
    assert box
    # The longest span of the first rank's first thread: below the ruler and the rank's band.
    found = RecordedTracks(read_ranks(prefix))
    mine = found.track == 0
    place = int((found.end_of_ns - found.start_ns)[mine].argmax())
    at = (found.start_ns[place] + found.end_of_ns[place]) * 500
    low, high = map(float, str(rows.get_attribute("data-view")).split())
    x = 62 + (at - low) / (high - low) * (box["width"] - 62)
    canvas.click(position={"x": x, "y": 20 + 26 + 9})
    node = shown.get_by_role("region", name="Node")
    expect(node.get_by_role("heading")).to_have_text(found.traces[0].names[int(found.row[place])] or "")
    expect(node).to_contain_text("0, thread 1")
    node.get_by_role("button", name="Zoom to it").click()
    expect(rows).to_have_attribute("data-asked", "false")
    expect(rows).not_to_have_attribute("data-view", f"{low:.0f} {high:.0f}")
    for theme in THEMES:
        set_theme(page, theme)
        screenshot(page, f"traces-{theme}")
    shown.press("Escape")
    expect(rows).to_have_attribute("data-view", f"{low:.0f} {high:.0f}")


def test_the_page_of_a_timeline_needs_no_network(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "four.html"
    assert main(["chakra", "timeline", _linked(tmp_path), "--output", str(file)]) == 0
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True, color_scheme="dark")
    record, page = Record(), context.new_page()
    record.watch(page)
    try:
        page.goto(file.as_uri())
        rows = page.locator(".anb-timeline")
        expect(rows).to_have_attribute("data-drawn", "spans")
        canvas = rows.get_by_role("img")
        canvas.click(position={"x": 700, "y": 20 + 26 + 9})
        node = page.get_by_role("region", name="Node")
        expect(node).to_contain_text("0, thread 1")
        node.get_by_role("button", name="Zoom to it").click()
        name = node.get_by_role("heading").inner_text()
        canvas.hover(position={"x": 660, "y": 20 + 26 + 9})
        expect(rows.locator(".anb-tip")).to_contain_text(name)
        screenshot(page, "traces-page")
        assert record.errors == record.external == []
    finally:
        context.close()


def test_the_page_of_statistics_needs_no_network(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "four.html"
    assert main(["chakra", "statistics", _linked(tmp_path), "--html", str(file)]) == 0
    for scheme in ("light", "dark"):
        context = browser.new_context(
            viewport={"width": 1280, "height": 720}, offline=True, color_scheme=scheme
        )
        record, page = Record(), context.new_page()
        record.watch(page)
        try:
            page.goto(file.as_uri())
            skew = page.get_by_role("region", name="Skew between ranks")
            skew.get_by_role("combobox").select_option(label="group 2")
            bars = page.get_by_role("img", name="Time of each rank")
            bars.hover(position={"x": 200, "y": 20})
            tip = page.get_by_role("region", name="Time of each rank").locator(".anb-tip")
            expect(tip).to_contain_text("rank 0")
            expect(tip).to_contain_text("compute 6")
            table = page.get_by_role("region", name="Communication", exact=True)
            expect(table.get_by_role("row")).to_have_count(10)
            screenshot(page, f"statistics-{scheme}")
        finally:
            context.close()
        assert record.errors == record.external == []
