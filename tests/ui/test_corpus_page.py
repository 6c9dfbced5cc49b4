"""The page about models of a corpus, without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from astranb.chakra import TraceBuilder
from astranb.chakra.corpus import Corpus, CorpusJob
from astranb.explore import corpus_report
from astranb.widgets.corpus_page import write_corpus_report
from tests.ui.harness import Record, screenshot

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


def step(layers: int) -> CorpusJob:
    """Layers of a computation and an all-reduce on two ranks."""
    made, last = TraceBuilder(), 0
    for layer in range(layers):
        after = last if layer else ()
        last = made.compute("layer", num_ops=10**6 * layers, duration_us=layers, after=after)
        last = made.collective("all_reduce", 1000 * layers, after=last)
    return CorpusJob([made.build()] * 2, parameters=layers**3, data=2)


def test_the_page_about_models_of_a_corpus_needs_no_network(browser: Browser, tmp_path: Path) -> None:
    report = corpus_report(Corpus.of([step(layers) for layers in range(4, 14)]))
    other = report | {"distances": report["distances"] | {"kinds": {"distance": float("inf")}}}
    file = write_corpus_report({"statistical": report, "network": other}, tmp_path / "report.html")
    for scheme in ("light", "dark"):
        context = browser.new_context(
            viewport={"width": 1280, "height": 720}, offline=True, color_scheme=scheme
        )
        record, page = Record(), context.new_page()
        record.watch(page)
        try:
            page.goto(file.as_uri())
            figures = page.get_by_role("region", name="Simulated figures")
            figures.get_by_role("img").hover(position={"x": 240, "y": 36})
            expect(figures.locator(".anb-tip")).to_contain_text("ring: makespan, mean")
            expect(figures.locator(".anb-tip")).to_contain_text("network: off by")
            distances = page.get_by_role("region", name="Distances")
            names = sorted(report["distances"])
            distances.get_by_role("img").hover(position={"x": 300, "y": 20 + 20 * names.index("kinds")})
            expect(distances.locator(".anb-tip")).to_contain_text("network: on one side only")
            times = page.get_by_role("region", name="Simulated times")
            expect(times.get_by_role("row")).to_have_count(9)
            given = page.get_by_role("region", name="What is given away")
            expect(given).to_contain_text("guesses which workloads were learnt from")
            screenshot(page, f"corpus-{scheme}")
        finally:
            context.close()
        assert record.errors == record.external == []
