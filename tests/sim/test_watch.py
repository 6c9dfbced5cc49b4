"""Watches: what they read, what is noted, and the exact series."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError


@pytest.fixture
def sim():
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"), record=False)


WAITING = "gpu[3].sm.0.waiting"


def test_it_reads_what_the_machine_says(sim):
    waiting, sent = sim.watch(WAITING), sim.watch("gpu[0]->dgx_h100.0.nvsw.0.messages")
    sim.step(2000)
    assert waiting.value == sim.engine.machine.sms[int(sim.engine.machine.gpus[3].first_sm)].waiting
    lanes = sim.engine.fabric.find("dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0")
    assert sent.value == sim.engine.machine.links["messages"][lanes].sum() > 0
    assert waiting.text == "dgx_h100.0.xpu.3.sm.0.waiting"
    assert sim.watches == [waiting, sent]


@settings(max_examples=10, deadline=None)
@given(events=st.integers(1, 9000), points=st.integers(1, 25), share=st.floats(0, 0.9))
def test_a_series_is_what_stepping_finds(events, points, share):
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"), record=False)
    sim.step(events // 2)
    sim.set("gpu[2].l2", "900 ns")
    sim.step(events - events // 2)
    watches = [sim.watch(WAITING), sim.watch("gpu[2].sm.0.issued"), sim.watch(lambda s: s.events)]
    before = sim.state_hash()
    start = int(share * sim.now_ps)
    times, values = watches[1].series(start, None, points)
    assert sim.state_hash() == before
    other = sim.rebuilt(keep=False)
    for when, value in zip(times.tolist(), values.tolist(), strict=True):
        at_edit = next(e for e, _, _ in sim.edits)
        if not other.edits and sim.fork().back(events - at_edit).now_ps <= when:
            other.step(at_edit - other.events)
            other.set("gpu[2].l2", "900 ns")
        if when >= sim.now_ps:
            other.step(sim.events - other.events)
        else:
            other.goto(when)
        assert other.engine.machine.sms[int(other.engine.machine.gpus[2].first_sm)].issued == value
    assert (len(times), times[-1]) == (points, sim.now_ps)


def test_what_is_noted_follows_time_both_ways(sim):
    watch = sim.watch("gpu[0].sm.0.issued")
    for _ in range(5):
        sim.step(300)
    assert watch.times_ps == sorted(set(watch.times_ps))
    assert watch.values[-1] == watch.value
    late = watch.times_ps[-1]
    sim.back(700)
    assert watch.times_ps[-1] == sim.now_ps < late
    assert list(watch.to_dataframe().columns) == ["time_ps", "value"]
    _, values = watch.series(points=7)
    assert (np.diff(values) >= 0).all()
    assert values[0] <= 1  # at most what happens at time 0


def test_many_samples_are_thinned(sim):
    watch = sim.watch("gpu[0].sm.0.issued")
    for when in range(10_000):
        watch.sample(when)
    assert len(watch.times_ps) <= 4096
    assert watch.times_ps[-1] == 9999


def test_a_function(sim):
    watch = sim.watch(lambda s: s.engine.machine.clock[0].queued)
    sim.step(10)
    assert watch.value == sim.engine.machine.clock[0].queued
    assert watch.series(points=2)[1][-1] == watch.value
    sim.unwatch(watch)
    assert sim.watches == []


def test_watching_does_not_change_what_happens(sim):
    other = sim.rebuilt()
    sim.watch(WAITING)
    sim.run()
    other.run()
    assert sim.state_hash() == other.state_hash()
    assert sim.fork().watches == []


def test_what_can_be_watched(sim):
    assert "waiting" in sim.watchable("gpu[3].sm.0")
    assert "bandwidth_Bps" in sim.watchable("gpu[0]->dgx_h100.0.nvsw.0")
    assert sim.watchable("dgx_h100.0.nvsw.0") == []


@pytest.mark.parametrize(
    "what,says",
    [
        ("gpu[3].sm.0.wating", "did you mean 'waiting'"),
        ("waiting", "not <path>.<field>"),
        ("gpu[9].sm.0.waiting", "ranks are 0 to 7"),
        ("dgx_h100.0.nvsw.0.lines", "can be watched"),
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda _: "text", "gives no number"),
    ],
)
def test_a_bad_watch_is_one_line(sim, what, says):
    with pytest.raises(InputError, match=says) as caught:
        sim.watch(what)
    assert "\n" not in str(caught.value)
    assert sim.watches == []


def test_a_bad_window(sim):
    watch = sim.watch(WAITING)
    sim.step(100)
    with pytest.raises(InputError, match="after its end"):
        watch.series("1 s", "2 us")
    with pytest.raises(InputError, match="points"):
        watch.series(points=0)
