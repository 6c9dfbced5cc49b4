"""A recording that is switched off and on: what passes is the same, and what was noted stays exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError


def ring(*, record: bool = True) -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"), record=record)


@pytest.fixture(scope="module")
def whole() -> anb.Simulation:
    sim = ring()
    sim.run()
    return sim


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 4000), min_size=1, max_size=5), st.integers(0, 3000))
def test_switching_changes_nothing_but_what_is_noted(
    whole: anb.Simulation, steps: list[int], back: int
) -> None:
    sim = ring()
    events = whole.engine.recorder.since(0)[1]
    kept = np.ones(len(events), bool)
    on, from_event = True, 0
    for n in steps:
        sim.record(on=not on)
        on = not on
        from_event = sim.events
        sim.step(n)
        if not on:  # events are numbered from one as they are handled
            kept &= ~((events["event"] > from_event) & (events["event"] <= sim.events))
    sim.record(on=True)
    sim.run()
    assert sim.state_hash() == whole.state_hash()
    noted = sim.engine.recorder.since(0)[1]
    assert (noted == events[kept]).all()
    before = noted.copy()
    sim.back(back)
    sim.run()
    assert (sim.engine.recorder.since(0)[1] == before).all()  # the switches are replayed, too


def test_gaps_are_shown_and_going_back_undoes_a_switch() -> None:
    sim = ring()
    sim.run("1 us")
    sim.record(on=False)
    sim.record(on=False)  # once is enough
    off_ps = sim.now_ps
    sim.run("2 us")
    assert sim.unrecorded == [(off_ps, sim.now_ps)]
    sim.record()
    on_ps = sim.now_ps
    sim.run("3 us")
    assert sim.unrecorded == [(off_ps, on_ps)]
    sim.goto("500 ns")
    assert sim.unrecorded == []
    assert len(sim.edits) == 0


def test_a_loaded_simulation_has_recorded_what_the_saved_one_has(tmp_path: Path) -> None:
    sim = ring()
    sim.run("1 us")
    sim.record(on=False)
    sim.run("2 us")
    sim.record()
    sim.run("3 us")
    sim.save(tmp_path / "sim.anb")
    loaded = anb.Simulation.load(tmp_path / "sim.anb")
    assert loaded.unrecorded == sim.unrecorded != []
    assert len(sim.engine.recorder.since(0)[1]) > 0
    assert (loaded.engine.recorder.since(0)[1] == sim.engine.recorder.since(0)[1]).all()


def test_without_room_there_is_nothing_to_switch() -> None:
    sim = ring(record=False)
    with pytest.raises(InputError, match="record=True"):
        sim.record()
    assert sim.unrecorded == []
    sim.run("1 us")
    assert sim.unrecorded == [(0, sim.now_ps)]
    fork = ring()
    fork.record(on=False)
    fork.record()
    fork.step(10)
    assert fork.fork(record=False).step(100).events == 110
