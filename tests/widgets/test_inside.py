"""Inside of each GPU in the topology: its activity, from the first event on, and its contents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import Collective
from astranb.widgets.feed import LineFeed, unpack
from astranb.widgets.session import session_of
from astranb.widgets.views.device import SM_STATES, device
from astranb.widgets.views.inside import held, inside


def feed(collective: str = "all_reduce", size: str = "64 KiB", **options: Any) -> LineFeed:
    work = Collective.of(collective, size, "ring")
    return LineFeed(session_of(anb.Simulation("dgx-h100", work, **options)))


def sms(found: LineFeed, at_ps: float | None = None) -> np.ndarray:
    """Return the number of SMs of each GPU in each state."""
    columns = unpack("inside", inside(found, {"at_ps": at_ps})[1])
    return columns["sms"].reshape(-1, len(SM_STATES))


def test_sms_are_busy_from_the_first_event_on() -> None:
    found = feed()
    busy = SM_STATES.index("busy")
    assert not sms(found)[:, busy].any()
    assert inside(found, {})[0]["known"]
    found.sim.step()
    assert sms(found)[:, busy].sum() == 1
    engaged = sms(found).sum(axis=1)
    found.sim.run("1 us")
    assert (sms(found).sum(axis=1) == engaged).all()
    assert (sms(found)[:, 2:].sum(axis=1) > 0).all()  # they wait, or move data


def test_states_are_those_of_the_view_of_one_gpu() -> None:
    found = feed()
    found.sim.run("2 us")
    for rank in range(8):
        _, (state, blocks, *_) = device(found.sim, rank)
        counts = np.bincount(state, minlength=len(SM_STATES))
        here = sms(found)[rank]
        assert (counts[1:] == here[1:]).all()
        assert blocks[state == SM_STATES.index("busy")].all()


def test_a_moment_of_the_past_is_answered_as_it_was() -> None:
    found = feed()
    found.sim.run("1 us")
    before, now = sms(found), found.sim.now_ps
    found.sim.run()
    assert (sms(found)[:, SM_STATES.index("done")] > 0).all()
    assert (sms(found, now) == before).all()


def test_memories_and_links_are_as_busy_as_the_recording_has_it() -> None:
    found = feed()
    found.sim.run("1 us")
    meta, buffers = inside(found, {})
    columns = unpack("inside", buffers)
    recorded = found.sim.engine.recorder.activity()
    bin_ps = recorded["bin_ps"]
    first = recorded["bins"] - 8
    assert meta["over_ps"] == found.sim.now_ps - first * bin_ps
    for name in ("l2", "hbm"):
        expected = recorded[f"{name}_busy"][:, first:].sum(axis=1) * bin_ps / meta["over_ps"]
        assert columns[name] / 255 == pytest.approx(np.minimum(expected, 1), abs=1 / 200)
    out = [recorded["link_busy"][links, first:].sum(axis=1).mean() for links in found.out_of]
    assert columns["out"] / 255 == pytest.approx(np.array(out) * bin_ps / meta["over_ps"], abs=1 / 200)
    assert columns["l2"].any()


def test_without_a_recording_memories_are_unknown_and_sms_are_not() -> None:
    found = feed(record=False)
    found.sim.run("1 us")
    meta, _ = inside(found, {})
    assert not meta["known"]
    assert sms(found)[:, 2:].any()


def test_at_the_end_of_a_phase_everything_is_where_it_came_to() -> None:
    found = feed()
    sim = found.sim
    meta, buffers = held(found, {})
    assert (meta["phase"], meta["chunks"]) == ("", 8)
    start = unpack("held", buffers)
    assert set(start["share"]) == {round(255 / 8)}  # each rank's own contribution
    assert not start["final"].any()
    while sim.counts["phase"] < 7:
        sim.step(unit="phase")
    meta, buffers = held(found, {})
    assert meta["phase"] == "reduce-scatter 7/7"
    columns = unpack("held", buffers)
    share, rank = columns["share"].reshape(8, 8), columns["rank"].reshape(8, 8)
    assert (rank == np.arange(8)[:, None]).all()
    assert (share.max(axis=1) == round(255 * 7 / 8)).all()  # the last rank adds its own as it sends it on
    assert len(columns["bundles"]) == len(found.layout.bundles)
    assert columns["bundles"].all()
    sim.run()
    columns = unpack("held", held(found, {})[1])
    assert (columns["share"] == 255).all()
    assert columns["final"].all()


def test_of_an_all_gather_the_chunks_that_have_arrived() -> None:
    found = feed("all_gather")
    found.sim.step(unit="phase")
    columns = unpack("held", held(found, {})[1])
    assert (columns["final"].reshape(8, 8).sum(axis=1) >= 2).all()
    assert not columns["final"].all()


def test_what_was_not_recorded_is_not_taken_for_idle() -> None:
    found = feed()
    found.sim.record(on=False)
    found.sim.run("2 us")
    found.sim.record(on=True)
    found.sim.run("6 us")
    assert not inside(found, {"at_ps": 1_500_000})[0]["known"]
    assert inside(found, {})[0]["known"]
    assert held(found, {"at_ps": 3_000_000})[0]["phase"] == ""
