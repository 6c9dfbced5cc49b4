"""The tables of what happened when: each against what it is made of."""

from __future__ import annotations

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.gpu import tables as t


@pytest.fixture(scope="module", params=[4000, None])
def sim(request):
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "ring", channels=1))
    sim.run() if request.param is None else sim.step(request.param)
    return sim


def test_spans(sim):
    frame, spans = sim.result.to_dataframe("spans"), sim.spans()
    for column, field in (("rank", "gpu"), ("sm", "sm"), ("block", "block"), ("start_ps", "start_ps")):
        assert (frame[column].to_numpy() == spans[field]).all()
    assert set(frame["state"]) <= {"issue or data", "signal", "semaphore", "fence"}
    assert set(frame["phase"]) <= set(sim.engine.program.phase_names)


def test_flights(sim):
    frame = sim.result.to_dataframe("flights")
    assert len(frame) == sim.engine.recorder.mark() > 0
    assert (frame["queued_ps"] + frame["waited_ps"] == frame["start_ps"]).all()
    assert (frame["start_ps"] < frame["end_ps"]).all()
    crossed = frame.groupby("link").size()
    links = sim.result.to_dataframe("links").set_index("link")["messages"]
    assert crossed.to_dict() == links[links > 0].to_dict()


def test_activity_adds_up_to_busy_time(sim):
    frame = sim.result.to_dataframe("activity")
    assert set(frame["what"]) == {"link", "issue", "l2", "hbm"}
    of_links = frame[frame["what"] == "link"]
    busy = (of_links["busy_fraction"] * of_links["bin_ps"]).groupby(of_links["object"]).sum()
    links = sim.result.to_dataframe("links").set_index("link")["busy_ps"]
    assert (np.abs(busy - links[busy.index]) < 2).all()


def test_a_signal_comes_before_the_wait_that_it_ends(sim):
    frame, ops = sim.result.to_dataframe("signals"), sim.engine.machine.ops
    passed = (ops["kind"] == t.WAIT) & (ops["issued_ps"] >= 0)
    assert sorted(frame["wait_op"]) == np.flatnonzero(passed).tolist()
    assert (frame["issued_ps"] <= frame["passed_ps"]).all()
    assert (ops["semaphore"][frame["signal_op"]] == frame["semaphore"]).all()
    # In a ring the signals to one semaphore are counted one by one: messages go to the right, slots back.
    assert not frame.duplicated(["semaphore", "signal_op"]).any()
    assert {1} <= set((frame["to_rank"] - frame["from_rank"]) % 8) <= {1, 7}


def test_events_are_in_order_and_whole(sim):
    frame, machine = sim.result.to_dataframe("events"), sim.engine.machine
    assert frame["time_ps"].is_monotonic_increasing
    assert frame["time_ps"].max() <= sim.now_ps
    count = frame["what"].value_counts()
    assert count["a thread block begins"] == (machine.blocks["state"] != t.PENDING).sum()
    assert count.get("a thread block ends", 0) == (machine.blocks["state"] == t.DONE).sum()
    assert count["wait begins"] == ((machine.ops["kind"] == t.WAIT) & (machine.ops["started_ps"] >= 0)).sum()
    assert count.get("a phase ends", 0) == (machine.phases["left"] == 0).sum()


def test_a_start_and_a_run_without_a_recording_give_empty_tables():
    sim = anb.Simulation("switch:gpus=2", anb.collectives.all_gather("1 KiB"), record=False)
    for what in ("spans", "flights", "activity", "signals", "events"):
        assert sim.result.to_dataframe(what).empty
    sim.run()
    assert sim.result.to_dataframe("flights").empty
    assert not sim.result.to_dataframe("spans").empty
    with pytest.raises(InputError, match="did you mean 'spans'"):
        sim.result.to_dataframe("span")
