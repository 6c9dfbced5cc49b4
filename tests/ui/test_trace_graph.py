"""A trace's graph by module in JupyterLab, and as a page without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from astranb.chakra import TraceBuilder
from astranb.widgets.graph_page import write_graph
from tests.ui.harness import (
    THEMES,
    Record,
    becomes,
    evaluate,
    open_notebook,
    run_all,
    screenshot,
    set_theme,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.ui.harness import Lab

MAKE = """import astranb as anb
from astranb.chakra import TraceBuilder
step = TraceBuilder()
done = step.compute("begin", num_ops=1)
for layer in range(30):
    for half in ("attn", "mlp"):
        done = step.compute(f"L{layer} fwd {half}", num_ops=10**9, duration_us=20 + layer, after=done)
        done = step.collective("all_reduce", 1 << 20, name=f"L{layer} fwd {half} sum", after=done)
graph = anb.TraceGraph(step.build())
graph"""


def test_a_module_opens_and_a_node_is_found(page: Page, lab: Lab) -> None:
    open_notebook(page, lab, [MAKE, "1 + 1"])
    set_theme(page, "light")
    run_all(page)
    tree = page.get_by_role("tree", name="Graph by module")
    expect(tree.get_by_role("treeitem", name="L1 fwd:")).to_have_attribute("aria-expanded", "false")
    tree.get_by_role("treeitem", name="L1 fwd:").click()
    expect(tree.get_by_role("treeitem", name="mlp:")).to_be_visible()
    facts = page.get_by_role("complementary", name="What is selected")
    expect(facts.get_by_role("heading", level=4)).to_have_text("L1 fwd")
    expect(facts).to_contain_text("2 MiB")
    # The keyboard: into the module, to a node, back out, and closed.
    tree.press("ArrowRight")
    expect(facts.get_by_role("heading", level=4)).to_have_text("attn")
    tree.press("ArrowRight")
    expect(tree.get_by_role("treeitem", name="attn:").first).to_have_attribute("aria-expanded", "true")
    tree.press("ArrowDown")
    becomes(page, "graph.selected is not None and graph.selected.name == 'L1 fwd attn'")
    expect(facts).to_contain_text("num_ops")
    for _ in range(4):
        tree.press("ArrowLeft")
    expect(tree.get_by_role("treeitem", name="L1 fwd:")).to_have_attribute("aria-expanded", "false")
    # A node far below is found by its name and brought into sight.
    search = page.get_by_role("combobox", name="Search")
    search.fill("L28 mlp sum")
    expect(page.get_by_role("listbox", name="Found").get_by_role("option").first).to_have_text(
        "L28 fwd mlp sum (116)"
    )
    search.press("Enter")
    becomes(page, "graph.selected is not None and graph.selected.id == 116")
    found = tree.locator(".anb-module-active")
    expect(found).to_be_visible()
    expect(facts).to_contain_text("COMM_COLL")
    facts.get_by_role("button", name="L28 fwd mlp (115)").click()
    becomes(page, "graph.selected.id == 115")
    assert evaluate(page, "graph.find('115')[0].name") == "L28 fwd mlp"
    for theme in THEMES:
        set_theme(page, theme)
        page.wait_for_timeout(200)
        screenshot(page, f"trace-graph-{theme}")
        expect(found).to_be_in_viewport()


def test_the_page_of_a_graph_needs_no_network(browser: Browser, tmp_path: Path) -> None:
    step = TraceBuilder()
    done = step.compute("<b>begin</b> " + "word" * 200, num_ops=1)
    for number in range(3000):
        done = step.compute(f"block.{number // 500}.{number % 7}/op", num_ops=10, duration_us=1, after=done)
    write_graph(step.build(), tmp_path / "graph.html")
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True, color_scheme="light")
    record, page = Record(), context.new_page()
    record.watch(page)
    try:
        page.goto((tmp_path / "graph.html").as_uri())
        tree = page.get_by_role("tree", name="Graph by module")
        tree.get_by_role("treeitem", name="block:").click()
        tree.get_by_role("treeitem", name="block 5:").click()
        search = page.get_by_role("combobox", name="Search")
        search.fill("2345")
        expect(page.get_by_role("listbox", name="Found").get_by_role("option").first).to_have_text(
            "block.4.6/op (2345)"
        )
        search.press("Enter")
        facts = page.get_by_role("complementary", name="What is selected")
        expect(facts).to_contain_text("num_ops")
        expect(facts.get_by_role("button", name="block.4.5/op (2344)")).to_be_visible()
        expect(facts.get_by_role("button", name="block.4.0/op (2346)")).to_be_visible()
        expect(tree.locator(".anb-module-active")).to_be_visible()
        screenshot(page, "trace-graph-page")
        assert record.errors == record.external == []
    finally:
        context.close()
