"""Plans that are dropped on a page, with no network: they run there as in Python, and errors are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

import astranb as anb
from astranb.collectives import Collective, read_algorithm, write_algorithm
from tests.collectives.formats.test_mscclpp import all_pairs
from tests.drawing.support import MARKUP
from tests.ui.harness import screenshot
from tests.ui.hosts import open_live, said
from tests.ui.test_live_page import control
from tests.ui.test_workbench import button, shown

DROP = """([name, text]) => {
  const files = new DataTransfer();
  files.items.add(new File([text], name));
  document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, cancelable: true }));
}"""


def opened(page: Page, tmp_path: Path, infra: str = "dgx-h100") -> Locator:
    sim = anb.Simulation(infra, anb.collectives.all_reduce("16 KiB", "ring"))
    return open_live(page, anb.export.page(sim, tmp_path / "ring.html", live=True))


def exported(tmp_path: Path) -> Path:
    file = tmp_path / "allpairs.json"
    write_algorithm(Collective.of("all_reduce", "64 KiB", "allpairs").program(8), file)
    return file


def simulated(file: Path, size: str, infra: str = "dgx-h100") -> anb.Simulation:
    return anb.Simulation(infra, Collective.of("all_reduce", size, read_algorithm(file)))


def same(bench: Locator, sim: anb.Simulation) -> None:
    """Wait until the page is where Python is, and compare everything simulated."""
    shown(bench, sim.events)
    control(bench.page, "Hash").click()
    expect(said(bench.page)).to_have_text(f"hash {sim.state_hash()}")


def run_plan(page: Page, size: str) -> None:
    page.get_by_label("Size of the plan's buffer").fill(size)
    page.get_by_role("button", name="Run the plan").click()


def test_a_plan_runs_on_the_machine_of_the_page(alone: Page, tmp_path: Path) -> None:
    bench, file = opened(alone, tmp_path), exported(tmp_path)
    (tmp_path / "notes.json").write_text("[]")
    alone.get_by_label("Plan to run").set_input_files(tmp_path / "notes.json")
    form = alone.get_by_role("form", name="Plan")
    expect(form.get_by_role("alert")).to_contain_text("notes.json")
    expect(form.get_by_role("button")).to_have_text(["Close"])  # there is nothing to run
    alone.get_by_label("Plan to run").set_input_files(file)
    expect(form).to_contain_text("all_reduce, Simple, for 8 GPUs")
    expect(alone.get_by_label("Size of the plan's buffer")).to_have_value("16 KiB")
    run_plan(alone, "64 KiB")
    sim = simulated(file, "64 KiB")
    expect(said(alone)).to_contain_text("at its start")
    same(bench, sim)
    button(bench, "Instruction").click()
    sim.step(1, "instruction")
    same(bench, sim)
    button(bench, "End").click()
    sim.run()
    same(bench, sim)
    screenshot(alone, "live_plan")
    control(alone, "Own run").click()
    same(bench, anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "ring")))
    expect(control(alone, "Own run")).to_have_count(0)


def copied(bench: Locator) -> str:
    control(bench.page, "Copy link").click()
    expect(said(bench.page)).to_contain_text("link")
    return bench.page.url


def test_a_link_opens_the_plan_where_it_was(alone: Page, tmp_path: Path) -> None:
    bench, file = opened(alone, tmp_path), exported(tmp_path)
    own = copied(bench)
    alone.get_by_label("Plan to run").set_input_files(file)
    run_plan(alone, "64 KiB")
    expect(said(alone)).to_contain_text("at its start")
    sim = simulated(file, "64 KiB")
    for one in ("Line", "Message"):
        button(bench, one).click()
        sim.step(1, one.lower())
    same(bench, sim)
    link = copied(bench)
    assert len(link.partition("#state=")[2]) < 8000
    alone.goto(own)  # only what is behind the # changes: the page stays, its run does not
    same(bench, anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "ring")))
    alone.goto("about:blank")
    open_live(alone, link)
    same(bench, sim)
    expect(control(alone, "Own run")).to_be_visible()
    alone.goto(link[:-50])
    expect(said(alone)).to_contain_text("this link is damaged")
    shown(bench, sim.events)


@pytest.mark.slow
def test_a_plan_with_other_numbers_of_gpus_goes_on_in_jupyterlab(alone: Page, tmp_path: Path) -> None:
    """Packets travel one by one, the page's lines together; and back, to a page without the plan."""
    network = anb.Network(coalesce=4)
    ring = anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "ring"), network=network)
    page = anb.export.page(ring, tmp_path / "ring.html", live=True)
    bench, file = open_live(alone, page), tmp_path / "packets.json"
    write_algorithm(Collective.of("all_reduce", "64 KiB", "allpairs", protocol="LL").program(8), file)
    alone.get_by_label("Plan to run").set_input_files(file)
    run_plan(alone, "32 KiB")
    work = Collective.of("all_reduce", "32 KiB", read_algorithm(file))
    sim = anb.Simulation("dgx-h100", work, network=network)
    expect(said(alone)).to_contain_text("at its start")
    button(bench, "Line").click()
    sim.step(1, "line")
    same(bench, sim)
    with alone.expect_download() as download:
        control(alone, "Save").click()
    download.value.save_as(tmp_path / "saved.anb")
    again = anb.Workbench.load(tmp_path / "saved.anb")
    assert again.sim.state_hash() == sim.state_hash()
    again.sim.step(3000)
    again.save(tmp_path / "further.anb")
    open_live(alone, page)
    shown(bench, 0)
    alone.get_by_label("File to open").set_input_files(tmp_path / "further.anb")
    same(bench, again.sim)


def dropped(page: Page, document: Any, name: str = "plan.json") -> None:
    text = document if isinstance(document, str) else json.dumps(document)
    page.evaluate(DROP, [name, text])


def test_what_is_dropped_and_cannot_run_is_said(alone: Page, tmp_path: Path) -> None:
    opened(alone, tmp_path, "switch:gpus=2")
    alert = alone.get_by_role("form", name="Plan").get_by_role("alert")
    dropped(alone, '{"name": ')
    expect(alert).to_have_text("plan.json:1: not JSON: Expecting value; correct the text there")
    broken = all_pairs(2)
    broken["gpus"][0]["threadblocks"][0]["ops"][0]["name"] = "putt"
    dropped(alone, broken)
    expect(alert).to_contain_text("unknown operation 'putt'; did you mean 'put'")
    dropped(alone, "<algo/>", "a.xml")
    expect(alert).to_contain_text("a.xml")
    dropped(alone, all_pairs(4))
    run_plan(alone, "4 KiB")
    expect(alert).to_contain_text("it is for 4 ranks, not 2")


def test_names_are_text(alone: Page, tmp_path: Path) -> None:
    bench = opened(alone, tmp_path, "switch:gpus=2")
    dropped(alone, all_pairs(2) | {"name": MARKUP})
    expect(alone.get_by_role("form", name="Plan")).to_contain_text(MARKUP)
    run_plan(alone, "4 KiB")
    expect(said(alone)).to_contain_text("at its start")
    button(bench, "End").click()
    assert alone.locator("main img, main script").count() == 0
