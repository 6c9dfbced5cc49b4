"""The lessons run in JupyterLite: to their end, without a network, with the results of native Python."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from packaging.utils import canonicalize_name
from playwright.sync_api import expect

from scripts.lite.site import NOTEBOOKS
from tests.lite.browser import run_to_its_end, said
from tests.ui.harness import REPOSITORY

if TYPE_CHECKING:
    from playwright.sync_api import Page

QUICK = ("tutorials/00_tour.ipynb", "tutorials/06_your_own_collective.ipynb")
"""Those that `make test` runs: the first, and one with algorithms of one's own and errors on purpose."""


@pytest.mark.parametrize(
    "notebook", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in NOTEBOOKS]
)
def test_a_notebook_runs_to_its_end_with_the_results_of_native_python(
    notebook: str, page: Page, site: str
) -> None:
    done = run_to_its_end(page, site, notebook)
    print(
        f"{notebook}: first cell after {done.first_s:.1f} s, all after {done.all_s:.1f} s, "
        f"{done.memory_bytes / 1e6:.0f} MB"
    )
    committed = json.loads((REPOSITORY / notebook).read_text("utf-8"))["cells"]
    assert len(done.cells) == len(committed)
    checked = 0
    for here, there in zip(done.cells, committed, strict=True):
        tags = there["metadata"].get("tags", ())
        if there["cell_type"] == "code":
            assert here["execution_count"], "it was not run"
        if "raises-exception" in tags:
            assert any(output["output_type"] == "error" for output in here["outputs"])
        if "nbval-check-output" in tags:
            assert said(here) == said(there)
            checked += 1
    assert checked


def test_a_workbench_steps_and_answers_about_the_past(page: Page, site: str) -> None:
    run_to_its_end(page, site, QUICK[0])
    bench = page.locator(".anb-workbench").first
    bench.scroll_into_view_if_needed()
    expect(bench).to_have_attribute("data-events", re.compile(r"[1-9]"))  # the lesson has stepped it
    bench.get_by_role("button", name="Reset", exact=True).click()
    expect(bench).to_have_attribute("data-events", "0")
    bench.get_by_role("button", name="Event", exact=True).click()
    expect(bench).to_have_attribute("data-events", "1")
    bench.get_by_role("tab", name="Inspect", exact=True).click()
    bench.get_by_label("Object to inspect").fill("box.0.gpu.3")
    bench.get_by_label("Object to inspect").press("Enter")
    expect(bench.locator(".anb-inspector")).to_contain_text("h100-sxm")


def test_the_site_has_the_licence_of_every_package(site: str) -> None:
    def read(name: str) -> str:
        with urlopen(f"{site}/static/pyodide/{name}") as answer:
            return str(answer.read(), "utf-8")

    notices = dict(re.findall(r"^([\w.-]+) \d[\w.+]*: (.+)$", read("licences.txt"), re.MULTILINE))
    known = {str(canonicalize_name(name)): licence for name, licence in notices.items()}
    packages = set(json.loads(read("pyodide-lock.json"))["packages"])
    assert packages - set(known) == {"jedi", "pictures", "sqlite3", "ssl"}  # ours, and empty
    assert {known[name] for name in ("astranb", "numpy")} == {"MIT", "BSD License"}
    assert [name for name, licence in known.items() if "not said" in licence] == [
        "ipykernel"
    ]  # JupyterLite's
