"""Several runs to switch between: each keeps what it has."""

from __future__ import annotations

import pytest

import astranb as anb
from astranb.core.errors import InputError


@pytest.fixture
def runs():
    ring = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    made = anb.Runs({"ring": ring, "allpairs": ring.rebuilt(algorithm="allpairs")})
    yield made
    made.close()


def test_each_run_keeps_its_place_and_breakpoints(runs):
    assert (runs.names, runs.shown) == (["ring", "allpairs"], runs["ring"])
    runs.shown.event(500)
    runs.shown.break_at("5 us")
    runs.show("allpairs")
    runs.shown.select("gpu[3]")
    assert (runs.shown.sim.events, runs.shown.sim.breakpoints) == (0, [])
    runs.show("ring")
    assert runs.shown.sim.events == 500
    assert len(runs.shown.sim.breakpoints) == 1
    assert runs["allpairs"].selected["title"].endswith("(GPU3)")


def test_the_list_says_how_far_each_run_is(runs):
    assert [row[:2] for row in runs._rows] == [["ring", "at 0 ps"], ["allpairs", "at 0 ps"]]
    runs["allpairs"].sim.run()
    ended = anb.core.units.format_time(runs["allpairs"].sim.now_ps)
    assert [row[1] for row in runs._rows] == ["at 0 ps", f"ended at {ended}"]
    assert all(row[2].startswith("anywidget:") for row in runs._rows)


def test_more_runs_are_added_under_names_of_their_own(runs):
    fork = runs["ring"].sim.fork_with({"channels": 2})
    runs.add(fork, "ring")
    runs.add(fork.fork())
    assert runs.names == ["ring", "allpairs", "ring (2)", fork.title]
    assert runs.shown is runs["ring"]


def test_runs_without_names_have_their_titles():
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    runs = anb.Runs([sim, sim.fork()])
    assert runs.names == [sim.title, f"{sim.title} (2)"]
    runs.close()
    sim.step(10)
    assert runs._rows[0][1] == "at 0 ps"  # it no longer listens


def test_what_cannot_be_shown_is_refused(runs):
    with pytest.raises(InputError, match="no run to show"):
        anb.Runs([])
    with pytest.raises(InputError, match="not a simulation"):
        anb.Runs({"a": 3})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="did you mean 'ring'"):
        runs.show("rin")
    assert runs.shown is runs["ring"]
