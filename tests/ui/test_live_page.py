"""Pages that simulate, opened as files with no network at all: what they show is what Python computes."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import astranb as anb
from tests.ui.test_export import alone, open_page, shows
from tests.ui.test_workbench import button, shown

__all__ = ["alone"]

UNITS = ("Event", "Cycle", "Instruction", "Hop", "Line", "Message", "Phase")


def ring(size: str = "64 KiB") -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce(size, "ring"))


@pytest.fixture
def sim() -> anb.Simulation:
    """Give a run in its middle."""
    sim = ring()
    sim.step(20_000)
    return sim


@pytest.fixture
def bench(alone: Page, sim: anb.Simulation, tmp_path: Path) -> Locator:
    bench = open_page(alone, sim.to_html(tmp_path / "ring.html", live=True))
    shown(bench, sim.events)
    return bench


def same(bench: Locator, sim: anb.Simulation) -> None:
    """Wait until the page is where Python is, and compare everything simulated."""
    shown(bench, sim.events)
    shows(bench, sim.now_ps)
    bench.page.get_by_role("button", name="Hash").click()
    expect(bench.locator(".anb-status")).to_have_text(f"hash {sim.state_hash()}")


def test_every_step_goes_where_python_goes(bench: Locator, sim: anb.Simulation) -> None:
    same(bench, sim)
    for unit in UNITS:
        button(bench, unit).click()
        sim.step(1, unit.lower())
        same(bench, sim)
    for unit in reversed(UNITS):
        bench.get_by_label("Back by").select_option(f"by {unit.lower()}")
        button(bench, "Back").click()
        sim.back(1, unit.lower())
        same(bench, sim)
    button(bench, "End").click()
    sim.run()
    same(bench, sim)
    button(bench, "Reset").click()
    sim.reset()
    same(bench, sim)
