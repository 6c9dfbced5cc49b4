import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.gpu.tables import EVENT_KINDS


@pytest.fixture
def sim():
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "ring"))


def test_at_a_time(sim):
    sim.break_at("1 us")
    stop = sim.run()
    assert (stop.why, stop.breakpoint.text) == ("breakpoint", "at 1 µs")
    assert stop.now_ps <= 1_000_000 < int(sim.engine.machine.event_queue.near[0].time_ps)
    assert sim.run().why == "end"
    sim.reset()
    assert sim.run().why == "breakpoint"


@pytest.mark.parametrize("kind", EVENT_KINDS[:6])
def test_on_an_event_kind(sim, kind):
    sim.break_on(kind)
    assert sim.run().why == "breakpoint"
    assert EVENT_KINDS[int(sim.engine.machine.clock[0].last_kind)] == kind


def test_on_an_object(sim):
    sim.break_on("hop", _some_link(sim, 2))
    stop = sim.run()
    assert stop.where in sim.narrate()
    sim.clear()
    sim.break_on(object="gpu[5].sm.0")
    sim.run()
    assert "xpu.5" in sim.narrate() or "GPU5" in sim.narrate()


def _some_link(sim, rank):
    row = int((sim.engine.machine.links["src"] == sim.engine.fabric.gpus[rank]).argmax())
    return sim.engine.fabric.name(row).partition("#")[0]


def test_when_a_condition_begins_to_hold(sim):
    sim.break_when("gpu[3].sm.0.waiting > 0")
    stop = sim.run()
    assert stop.why == "breakpoint"
    sm = sim.engine.machine.sms[int(sim.engine.machine.gpus[3].first_sm)]
    assert sm.waiting == 1
    # It holds now, and stops again only when it has ceased and begins anew.
    at = stop.events
    assert sim.run().events > at
    sim.reset()
    assert sim.run().events == at


def test_it_stops_at_the_first_event_at_which_the_condition_holds(sim):
    path = f"{_some_link(sim, 0)}#0.messages"
    sim.break_when(f"{path} >= 3")
    at = sim.run().events
    sim.clear()
    sim.goto(0)
    sim.reset()
    link = sim.engine.fabric.find(path.removesuffix(".messages"))[0]
    while sim.engine.machine.links[link].messages < 3:
        sim.step()
    assert sim.events == at


def test_a_python_callable(sim):
    sim.break_when(lambda s: s.events == 321)
    assert sim.run().events == 321


def test_two_breakpoints_and_clearing(sim):
    late = sim.break_at("2 us")
    early = sim.break_at("1 us")
    assert sim.run().breakpoint is early
    sim.clear(late)
    assert sim.breakpoints == [early]
    early.enabled = False
    assert sim.run().why == "end"


def test_breakpoints_do_not_change_what_happens(sim):
    other = anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "ring"))
    other.run()
    sim.break_when("gpu[1].blocks_left == 0")
    sim.break_on("hbm", "gpu[4]")
    for _ in range(20):
        sim.run()
    sim.clear()
    sim.run()
    assert sim.state_hash() == other.state_hash()


@pytest.mark.parametrize(
    "text,says",
    [
        ("gpu[3].sm.0.waiting", "cannot read the condition"),
        ("gpu[3].sm.0.wating > 0", "did you mean 'waiting'"),
        ("gpu[99].noc_ps > 0", "ranks are 0 to 7"),
        ("gpu[3].sm.999.waiting > 0", "count from 0 to 131"),
        ("gpu[3].waiting > 0", "xpu.3: no field 'waiting'"),
        ("nowhere.waiting > 0", "unknown object"),
        ("gpu[3].ended_ps > soon", "time"),
        ("__import__('os').system('x') > 0", "has no field"),
    ],
)
def test_a_bad_condition_is_one_line(sim, text, says):
    with pytest.raises(InputError, match=says) as caught:
        sim.break_when(text)
    assert "\n" not in str(caught.value)
    assert sim.breakpoints == []


def test_bad_events(sim):
    with pytest.raises(InputError, match="did you mean 'hop'"):
        sim.break_on("hopp")
    with pytest.raises(InputError, match="an event kind or an object"):
        sim.break_on()
    for _ in range(len(sim.engine.machine.breaks)):
        sim.break_on("hop")
    with pytest.raises(InputError, match="fit"):
        sim.break_on("hop")
