"""A saved session, and one that cannot be saved."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import astranb as anb
from astranb.core.errors import InputError


def small() -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))


def test_all_that_was_looked_at_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "session.anb"
    sim = small()
    workbench = anb.Workbench(sim)
    workbench.event(3000)
    workbench.select("gpu[3]")
    workbench.scrub(sim.now_ps // 2)
    workbench.set_speed("3 us")
    workbench.set_redraw(10)
    sim.break_at("3 us")
    sim.break_when("gpu[3].sm.0.outstanding > 3")
    sim.break_on("hop", "gpu[2]").enabled = False
    sim.break_when(lambda s: s.events < 0)
    sim.watch("gpu[3].sm.0.outstanding")
    sim.watch(lambda s: s.events)
    workbench.save(path)
    again = anb.Workbench.load(path)
    assert again.sim.state_hash() == sim.state_hash()
    assert again.cursor_ps == workbench.cursor_ps
    assert again.selected == workbench.selected
    assert again.session.speed == 3e6
    assert again._redraw_hz == 10
    assert [(p.text, p.enabled) for p in again.sim.breakpoints] == [
        (p.text, p.enabled) for p in sim.breakpoints if p.call is None
    ]
    assert [w.text for w in again.sim.watches] == [w.text for w in sim.watches if w.field]
    assert again.sim.rebuilt(algorithm="ring").run().why == "end"
    stops = [s.run() for s in (sim, again.sim)]
    assert (stops[0].why, stops[0].events) == (stops[1].why, stops[1].events) == ("breakpoint", sim.events)


def test_kept_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "session.anb"
    made = []

    def make() -> anb.Simulation:
        made.append(1)
        return small()

    first = anb.Workbench.kept(path, make)
    first.event(1234)
    second = anb.Workbench.kept(path, make)
    assert (len(made), second.sim.events) == (1, 1234)
    second.set("gpu[0].hbm", "400 ns")  # an edit at rest is kept, too
    assert len(anb.Simulation.load(path).edits) == 1
    second.undo()
    second.keep(None)
    second.event(1)
    assert anb.Workbench.load(path).sim.events == 1234


def test_it_is_written_once_after_many_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astranb.widgets.bench._PAUSE_S", 0.05)
    path = tmp_path / "session.anb"
    written = []

    async def steps() -> None:
        workbench = anb.Workbench(small())
        workbench.keep(path)
        monkeypatch.setattr(workbench, "save", lambda to: written.append((to, workbench.sim.events)))
        for _ in range(20):
            workbench.event(10)
        await asyncio.sleep(0.3)

    asyncio.run(steps())
    assert written == [(path, 200)]


def test_a_file_that_cannot_be_written_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    workbench = anb.Workbench(small())
    with pytest.raises(InputError, match="cannot be written"):
        workbench.keep(tmp_path / "nowhere" / "session.anb")
    workbench.keep(tmp_path / "session.anb")
    workbench._file = tmp_path / "nowhere" / "session.anb"
    workbench.event(10)
    assert "autosave stopped" in workbench.session.status
    workbench.event(10)
    assert workbench.sim.events == 20


def test_something_else_is_no_session(tmp_path: Path) -> None:
    path = tmp_path / "other.anb"
    path.write_text("hello")
    with pytest.raises(InputError, match="not a saved simulation"):
        anb.Workbench.load(path)
