"""The timelines, the marked interval and the buffer, in a real JupyterLab."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.harness import Host, becomes, evaluate, screenshot, until
from tests.ui.hosts import Notebook

MAKE = (
    "import astranb as anb\n"
    "sim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('256 KiB', 'ring'))\n"
    "str(sim.run('20 us'))"
)
SHOW = "workbench = anb.Workbench(sim)\nworkbench"
GUTTER = 62
RECORDED = "[whole := sim.fork(), whole.reset(), whole.step(sim.events)] and None"
"""The same run as ``whole``, recorded from its start: a saved file holds no recording."""


def start(host: Host) -> Locator:
    """Open a workbench of a run that has come some way."""
    bench = host.show(MAKE, SHOW, height=1900)
    expect(bench).to_have_attribute("data-events", re.compile(r"[1-9]\d*"))
    drawn(bench)
    return bench


def drawn(bench: Locator, kind: str = "sms") -> Locator:
    """Wait until the timeline shows what it has asked for last."""
    timeline = bench.locator(".anb-timeline")
    expect(timeline).to_have_attribute("data-kind", kind)
    expect(timeline).to_have_attribute("data-drawn", re.compile("spans|density"))
    expect(timeline).to_have_attribute("data-asked", "false")
    return timeline


def drag(page: Page, canvas: Locator, start: float, end: float, y: float) -> None:
    """Drag over a canvas, from one part of its time to another."""
    box = canvas.bounding_box()
    assert box
    at = [box["x"] + GUTTER + part * (box["width"] - GUTTER) for part in (start, end)]
    page.mouse.move(at[0], box["y"] + y)
    page.mouse.down()
    page.mouse.move(sum(at) / 2, box["y"] + y)
    page.mouse.move(at[1], box["y"] + y)
    page.mouse.up()


def test_zoom_rows_and_modes(host: Host) -> None:
    page = host.page
    bench = start(host)
    timeline = drawn(bench)
    canvas = timeline.locator("canvas")
    whole = float(timeline.get_attribute("data-to") or 0)
    note = timeline.locator(".anb-note")
    bench.focus()
    canvas.click(position={"x": 30, "y": 33})  # GPU0: selected, and its SMs unfold
    expect(bench.locator(".anb-inspector h4")).to_contain_text("GPU0")
    expect(note).to_contain_text(re.compile(r"^[\d,]+ spans · [\d,]+ more in folded GPUs"))
    count = int((note.inner_text().split()[0]).replace(",", ""))
    evaluate(host, RECORDED)
    spans = "sum(len(whole.engine.tracks('sms').spans(k, 0, sim.now_ps)[0]) for k in range(16))"
    assert count >= evaluate(host, spans) > 500  # nothing is dropped without a word
    screenshot(host, "timelines-sms")
    # Zoomed in around the mouse: shorter, and drawn as spans.
    canvas.hover(position={"x": 700, "y": 100})
    for _ in range(14):
        bench.press("w")
    expect(timeline).to_have_attribute("data-drawn", "spans")
    data = "document.querySelector('.anb-timeline').dataset"
    page.wait_for_function(f"() => {data}.to - {data}.from < {whole} / 50")
    drawn(bench)
    before = float(timeline.get_attribute("data-from") or 0)
    bench.press("d")
    page.wait_for_function(f"() => {data}.from > {before}")
    drawn(bench)
    expect(bench.locator(".anb-memory")).to_have_attribute("data-exact", "true")
    canvas.hover(position={"x": 702, "y": 52})
    expect(timeline.locator(".anb-tip")).to_contain_text(
        re.compile(r"GPU0 · sm\.\d+ · .*(issue|data|fence|semaphore)")
    )
    screenshot(host, "timelines-zoomed")
    canvas.dblclick(position={"x": 700, "y": 8})  # on the ruler: everything
    page.wait_for_function(f"() => {data}.from == 0")
    for name, kind in (("Thread blocks", "blocks"), ("Phases", "phases"), ("SMs", "sms")):
        timeline.get_by_role("button", name=name).click()
        drawn(bench, kind)
        if kind == "blocks":
            expect(timeline.locator(".anb-legend")).to_contain_text("issue or data")
        if kind == "phases":
            expect(note).to_contain_text(" phases")
            canvas.hover(position={"x": 400, "y": 33})
            expect(timeline.locator(".anb-tip")).to_contain_text(
                re.compile(r"GPU0 · .* · reduce-scatter \d/7 \(")
            )
            screenshot(host, "timelines-phases")
    expect(timeline.locator(".anb-legend")).to_contain_text("semaphore")
    if isinstance(host, Notebook):
        # With more spans than there is room for the tracks are drawn as density, and it says so.
        most = "setattr(__import__('astranb.widgets.views.timeline', fromlist=['x']), '_MOST_SPANS', 300)"
        host.change(most)
        canvas.dblclick(position={"x": 600, "y": 8})
        bench.press("w")
        expect(timeline).to_have_attribute("data-drawn", "density")
        expect(note).to_contain_text(re.compile(r"[\d,]+ spans, drawn as density"))
        screenshot(host, "timelines-density")
    canvas.click(position={"x": 8, "y": 33})  # folded again
    # What happens next is drawn, too.
    canvas.dblclick(position={"x": 600, "y": 8})
    host.change("str(sim.run())")
    page.wait_for_function(f"() => {data}.to > {whole}")
    drawn(bench)


@pytest.mark.parametrize("fidelity", ["cacheline", "congestion"])
def test_a_rank_that_starts_late_has_a_colour_and_a_key(host: Host, fidelity: str) -> None:
    late = f"'64 KiB', 'ring'), fidelity={fidelity!r}, start={{3: '20 us'}})\n"
    make = MAKE.replace("'256 KiB', 'ring'))\n", late).replace("'20 us')", ")")
    bench = host.show(make, SHOW, width=1280, height=720)
    expect(bench).to_have_attribute("data-events", re.compile(r"[1-9]\d*"))
    timeline = drawn(bench, "sms" if fidelity == "cacheline" else "operations")
    key = timeline.locator(".anb-key").filter(has_text="started late")
    expect(key).to_have_count(1)
    expect(key.locator("i")).to_have_attribute("style", re.compile("#f0e442"))
    # The lanes of rank 3, and of no other one, are in this colour: from the start, for as long as it is late.
    painted = """(canvas, late) => {
      const {width, height} = canvas;
      const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, width, height).data.buffer);
      const found = [];
      for (let y = 0; y < height; y++)
        for (let x = 0; x < width; x++) if (pixels[y * width + x] === 0xff42e4f0) found.push([x, y]);
      const [xs, ys] = [0, 1].map(k => found.map(at => at[k]));
      return [Math.min(...xs), Math.max(...xs), Math.max(...ys) - Math.min(...ys), width];
    }"""
    timeline.scroll_into_view_if_needed()
    for theme in ("light", "dark"):
        host.set_theme(theme)
        first, last, high, width = timeline.locator("canvas").evaluate(painted)
        share = 20_000_000 / evaluate(host, "sim.now_ps")
        assert first == pytest.approx(GUTTER, abs=3)
        assert (last - first) / (width - GUTTER) == pytest.approx(share, abs=0.05)
        assert high < 40
        screenshot(host, f"late-{fidelity}-{theme}")
    host.set_theme("light")


def test_a_marked_interval_is_added_up(host: Host) -> None:
    page = host.page
    bench = start(host)
    timeline = drawn(bench)
    drag(page, timeline.locator("canvas"), 0.25, 0.5, 60)
    interval = bench.locator(".anb-interval")
    expect(interval).to_be_visible()
    expect(interval.locator(".anb-table").first).to_be_visible()
    for field in ("from", "to"):
        expect(interval).to_have_attribute(f"data-{field}", re.compile(r"^\d+$"))
    start_ps, end_ps = (int(interval.get_attribute(f"data-{field}") or 0) for field in ("from", "to"))
    assert 0 < start_ps < end_ps <= evaluate(host, "sim.now_ps")
    evaluate(host, RECORDED)
    evaluate(host, f"globals().update(part=whole.aggregate({start_ps}, {end_ps}))")
    lines = evaluate(host, "[r['lines'] for r in part.classes if r['kind'] == 'store data'][0]")
    expect(interval).to_contain_text(f"{lines:,}")
    expect(interval).to_contain_text(evaluate(host, "part.links[0]['link']"))
    fence = evaluate(host, "100 * part.shares()['fence']")
    expect(interval).to_contain_text(f"{fence:.0f}%")
    bench.scroll_into_view_if_needed()
    screenshot(host, "timelines-interval")
    interval.get_by_label("GPUs of the interval").select_option("3")
    expect(interval.get_by_role("button", name="GPU3", exact=True)).to_have_count(
        0
    )  # one GPU needs no table of GPUs
    evaluate(host, f"globals().update(part=whole.aggregate({start_ps}, {end_ps}, ranks=[3]))")
    lines = evaluate(host, "[r['lines'] for r in part.classes if r['kind'] == 'store data'][0]")
    expect(interval).to_contain_text(f"{lines:,}")
    drag(page, bench.locator(".anb-memory canvas"), 0.6, 0.7, 40)  # another one, from another timeline
    expect(interval).not_to_have_attribute("data-from", str(start_ps))
    host.set_theme("dark")
    screenshot(host, "timelines-interval-dark")
    bench.focus()
    bench.press("Escape")
    expect(interval).to_contain_text("Drag over a timeline")


def test_a_buffer_shows_what_has_arrived(host: Host) -> None:
    bench = start(host)
    bench.get_by_role("button", name="Buffer", exact=True).click()
    view = bench.locator(".anb-buffer")
    view.get_by_label("Rank of the buffer").select_option("2")
    view.get_by_label("Buffer", exact=True).select_option("scratch")
    evaluate(host, RECORDED)
    now = evaluate(host, "int(whole.memory(2, 'scratch').arrived.sum())")
    assert now > 0
    expect(view).to_have_attribute("data-arrived", str(now))
    canvas = view.locator("canvas")
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": 80, "y": 10})
    expect(view.locator(".anb-tip")).to_contain_text("from GPU1")
    screenshot(host, "timelines-buffer")
    # At a cursor in the past there was less of it.
    host.change("workbench.scrub('8 us')")
    view.get_by_label("Rank of the buffer").select_option(
        "2"
    )  # a file that is opened on a page is shown anew
    view.get_by_label("Buffer", exact=True).select_option("scratch")
    evaluate(host, "[then := whole.fork(), then.goto('8 us')] and 0")
    before = evaluate(host, "int(then.memory(2, 'scratch').arrived.sum())")
    assert before < now
    expect(view).to_have_attribute("data-arrived", str(before))
    canvas.click(position={"x": 80, "y": 10})
    becomes(host, "workbench.selected['title'] == sim.inspect('gpu[1]')['title']")
    host.change("workbench.follow()")
    host.change("str(sim.run())")
    view.get_by_label("Rank of the buffer").select_option("2")
    view.get_by_label("Buffer", exact=True).select_option("output")
    expect(view).to_contain_text("2,048 of 2,048 lines arrived, 2,048 final")
    host.set_theme("dark")
    canvas.scroll_into_view_if_needed()
    screenshot(host, "timelines-buffer-dark")


def test_a_pinned_row_stays_above_the_others(host: Host) -> None:
    page = host.page
    bench = start(host)
    timeline = drawn(bench)
    canvas, tip = timeline.locator("canvas"), timeline.locator(".anb-tip")

    def top_row() -> str:
        canvas.hover(position={"x": 20, "y": 60})
        canvas.hover(position={"x": 20, "y": 30})
        return tip.inner_text()

    until(host, lambda: top_row() == "GPU0", "GPU0 is not the first row")
    host.change("workbench.select('gpu[5]')")
    expect(bench.locator(".anb-inspector")).to_contain_text("xpu.5")
    bench.focus()
    bench.press("t")
    becomes(host, "workbench._panels.get('pins') == '5'")
    until(host, lambda: top_row() == "GPU5", "GPU5 is not above the others")
    timeline.locator(".anb-holder").evaluate("holder => { holder.scrollTop = 40 }")
    page.wait_for_timeout(200)
    screenshot(host, "pinned-row")
    canvas.click(position={"x": 56, "y": 30})  # its pin
    becomes(host, "workbench._panels.get('pins') == ''")
    timeline.locator(".anb-holder").evaluate("holder => { holder.scrollTop = 0 }")
    until(host, lambda: top_row() == "GPU0", "GPU0 is not the first row again")
