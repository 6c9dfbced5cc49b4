"""Watches of a workload: what they read, and the exact series."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.engine.messages.inspection import in_flight
from astranb.engine.messages.readers import READERS
from astranb.sim import Simulation
from astranb.workload.astrasim2 import COLLECTIVE, Operations, System
from tests.engine.operations.support import SYSTEM, TWO_DIMS, by_messages, mixed

PATHS = {
    "rank": "rank[3]",
    "op": "rank[3].op[1]",
    "queue": "rank[2].dim[0]",
    "dim": "dim[0]",
    "link": "link[1]",
}


@pytest.mark.parametrize("kind", PATHS)
def test_every_field_is_read_and_shown(kind):
    sim = mixed(congestion=True)
    watches = [sim.watch(f"{PATHS[kind]}.{name}") for name in READERS[kind]]
    sim.step(300)
    assert sim.watchable(PATHS[kind]) == list(READERS[kind])
    assert [watch.text for watch in watches] == [f"{PATHS[kind]}.{name}" for name in READERS[kind]]
    assert all(watch.times_ps[-1] == sim.now_ps for watch in watches)
    assert all(watch.shown(watch.value) for watch in watches)


def test_they_say_what_the_tables_say():
    sim = mixed(congestion=True)
    at_rank, link, sent = (
        sim.watch(f"{what}") for what in ("rank[3].in_flight", "link[2].bytes", "rank[3].dim[0].bytes")
    )
    sim.run()
    links = {row["link"]: row for row in sim.result.table("links")}
    assert link.value == links["link[2]"]["bytes"] > 0
    assert at_rank.value == 0
    assert sent.value == sim.engine.machine.traffic[3].bytes
    assert link.shown(link.value).endswith(" B")
    sim.goto("12 us")
    flying = dict(sim.inspect("rank[3]"))
    assert at_rank.value == flying["in_flight_count"]


@settings(max_examples=10, deadline=None)
@given(events=st.integers(2, 700), points=st.integers(1, 20), share=st.floats(0, 0.9))
def test_a_series_is_what_stepping_finds(events, points, share):
    sim = mixed()
    sim.step(events // 2)
    sim.set("dim[0].latency", "3 us")
    sim.step(events - events // 2)
    watch = sim.watch("dim[0].messages")
    sim.watch(lambda s: s.counts["message"])
    before = sim.state_hash()
    times, values = watch.series(int(share * sim.now_ps), None, points)
    assert sim.state_hash() == before
    assert (len(times), times[-1]) == (points, sim.now_ps)
    other = sim.fork()
    for when, value in reversed(list(zip(times.tolist(), values.tolist(), strict=True))):
        if when < sim.now_ps:
            other.goto(when)
        assert other.engine.dimension(0)["messages"] == value


def test_what_is_recorded_follows_time_forward_and_back_and_is_saved(tmp_path):
    sim = mixed()
    watch = sim.watch("rank[0].dim[0].running")
    for _ in range(6):
        sim.step(80)
    assert watch.times_ps == sorted(set(watch.times_ps))
    sim.back(200)
    assert watch.times_ps[-1] == sim.now_ps
    assert (np.diff(watch.times_ps) > 0).all()
    sim.watch(lambda s: s.events)
    sim.save(tmp_path / "run")
    assert [w.text for w in Simulation.load(tmp_path / "run").watches] == ["rank[0].dim[0].running"]
    sim.unwatch(watch)
    assert len(sim.watches) == 1
    sim.unwatch()
    assert sim.watches == []


@pytest.mark.parametrize(
    "what, message",
    [
        ("rank[0]", "is an object; name a field|no field|not <path>"),
        ("rank[0].waitin", "did you mean 'waiting'"),
        ("rank[9].waiting", "0 to 5"),
        ("link[0].busy_ns", "this run has no links"),
        (lambda _: "x", "gives no number"),
    ],
)
def test_what_cannot_be_followed_is_refused(what, message):
    sim = mixed()
    with pytest.raises(InputError, match=message):
        sim.watch(what)
    assert sim.watches == []


def test_what_is_not_recorded_is_not_there():
    sim = mixed(record=False)
    assert sim.watchable("dim[0]") == []
    assert sim.watchable("rank[1].dim[0]") == ["running", "waiting"]
    with pytest.raises(InputError, match="record=True"):
        sim.watch("dim[0].bytes")


@pytest.mark.parametrize("scheduling", [{}, {"model-shared-bus": 1, "L": 1, "o": 1, "g": 1, "G": 0.001}])
def test_in_flight_are_the_messages_that_are_sent_and_not_delivered(scheduling):
    ranks = [Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": 65536}] * 2)] * 6
    sim = by_messages(ranks, TWO_DIMS, System.from_document(SYSTEM | scheduling))
    while sim.engine.next_ps >= 0:
        sim.step(7)
        m = sim.engine.machine
        assert len(in_flight(m)) == m.clock[0].messages - m.clock[0].delivered
