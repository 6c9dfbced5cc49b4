"""The verbs of a workload: exact however they are divided, there and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.archive import write_archive
from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages import UNITS
from astranb.sim import Simulation, Stop
from astranb.workload.astrasim2 import RECV, SEND, DimensionNetwork, Operations, System
from tests.engine.operations.support import by_messages, cycles_are_timesteps, mixed

LAST = mixed()
LAST.run()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(UNITS)), st.integers(0, 60)), max_size=8), st.booleans())
def test_steps_of_any_kind_add_up_to_the_same_run(steps, congestion):
    whole, parts = mixed(congestion=congestion), mixed(congestion=congestion, record=False)
    for unit, n in steps:
        before = parts.counts[unit]
        stop = parts.step(n, unit)
        if stop.why != "end" and unit == "event":
            assert parts.counts[unit] == before + n
        elif stop.why != "end" and unit != "cycle":
            assert parts.counts[unit] >= before + n
    while whole.events < parts.events:
        whole.step(parts.events - whole.events)
    assert whole.state_hash() == parts.state_hash()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 700), st.sampled_from(list(UNITS)), st.integers(0, 200), st.booleans())
def test_back_undoes_step(first, unit, n, congestion):
    sim = mixed(congestion=congestion)
    sim.step(first)
    before, count = sim.state_hash(), sim.counts[unit]
    events = sim.events
    sim.step(n, unit)
    sim.back(sim.events - events)
    assert sim.state_hash() == before
    sim.step(n, unit)
    sim.back(sim.counts[unit] - count, unit)
    if unit == "event":
        assert sim.state_hash() == before
    else:  # the first of the events that share the count
        assert sim.counts[unit] == count
        assert unit == "cycle" or sim.events <= events


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 600), st.sampled_from(["rank[2].speed", "dim[0].bandwidth", "dim[1].latency"]))
def test_what_is_changed_is_replayed_and_undone(at, path):
    sim, other = mixed(), mixed()
    sim.step(at)
    unchanged = sim.state_hash()
    values = {"speed": "0.25", "bandwidth": "1 GB/s", "latency": "30 us"}
    sim.set(path, values[path.partition(".")[2]])
    sim.run()
    end, whole = sim.now_ps, sim.state_hash()
    assert end >= LAST.now_ps
    sim.back(10)
    sim.step(10)
    assert sim.state_hash() == whole
    sim.back(sim.events - at)
    sim.step(1)
    sim.back(1)
    assert len(sim.edits) == 1
    sim.goto(0)
    assert sim.edits == [] or at <= 6  # the first events are all at the start
    sim.reset()
    sim.step(at)
    other.step(at)
    assert sim.state_hash() == unchanged == other.state_hash()


def test_cycles_are_timesteps_and_time_is_reached():
    sim = mixed()
    cycles_are_timesteps(sim, 5_000_000)
    here = sim.state_hash()
    assert sim.back(1, "cycle").now_ps < sim.goto("5 us").now_ps
    assert sim.state_hash() == here


def test_forks_and_files_go_on_to_the_same_end(tmp_path):
    sim = mixed()
    sim.step(400)
    sim.set("rank[1].speed", "0.5")
    sim.step(100)
    sim.break_on("collective_end", "rank[5]")
    sim.break_when(lambda _: False)
    fork = sim.fork()
    sim.save(tmp_path / "run.npz")
    loaded = Simulation.load(tmp_path / "run.npz")
    assert [p.text for p in loaded.breakpoints] == ["collective end of rank[5]"]
    loaded.clear()
    sim.clear()
    for one in (sim, fork, loaded):
        one.run()
    assert sim.state_hash() == fork.state_hash() == loaded.state_hash()
    assert loaded.result.per_rank() == sim.result.per_rank()
    loaded.reset()
    sim.reset()
    assert loaded.state_hash() == sim.state_hash() == mixed().state_hash()
    assert loaded.inspect("rank[0].op[4]") == sim.inspect("rank[0].op[4]")


def test_a_file_that_is_something_else_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    with pytest.raises(InputError, match=r"[Nn]o such file"):
        Simulation.load(path)
    path.write_bytes(b"PK nothing")
    with pytest.raises(InputError, match="not a saved simulation"):
        Simulation.load(path)
    path.write_bytes(write_archive({"recipe.json": b'{"format": "astranb recipe 0"}'}))
    with pytest.raises(InputError, match="another form"):
        Simulation.load(path)


def test_breakpoints_stop_where_they_say():
    sim = mixed()
    point = sim.break_on("collective_end", "rank[5]")
    stop = sim.run()
    assert (stop.why, stop.breakpoint, stop.where) == ("breakpoint", point, "rank[5]")
    assert "rank 5 ends all_reduce, 64 KiB" in stop.text
    op = sim.engine.machine.operations[sim.engine.about.start[5] + 1]
    assert op.end_ns * 1000 == sim.now_ps
    sim.clear(point)
    sim.reset()
    sim.break_when("rank[0].op[3].chunks_done >= 2")
    assert sim.run().because == "streams_done is 2"
    sim.clear()
    sim.break_at("200 ns")
    sim.reset()
    assert sim.run().why == "breakpoint"
    assert sim.now_ps <= 200_000 < (sim.next_ps or 0)
    sim.clear()
    sim.break_when(lambda s: s.counts["message"] == 5)
    assert sim.run().breakpoint is not None
    assert sim.counts["message"] == 5
    sim.clear()
    sim.break_on("message", "rank[4]")
    assert "rank 4 is sent a message by rank" in sim.run().because
    sim.clear()
    sim.break_on("phase_begin", "rank[2].dim[1]")
    sim.run()
    assert "2 is" not in sim.narrate()
    assert "rank 2 begins a phase of all_reduce" in sim.narrate()
    sim.clear()
    assert sim.run().why == "end"


@pytest.mark.parametrize(
    "do, message",
    [
        (lambda s: s.step(-1), "must be a whole number and not negative"),
        (lambda s: s.step(1, "operaton"), "this run counts event, cycle"),
        (lambda s: s.break_on("colective_end"), "did you mean 'collective_end'"),
        (lambda s: s.break_on(), "needs an event kind or an object"),
        (lambda s: s.break_on("message", "rank[0].op[0]"), "name a rank"),
        (lambda s: s.break_on("message", "dim[0]"), "take phase_begin or phase_end"),
        (lambda s: s.break_when("rank[0].waitin > 0"), "did you mean 'waiting'"),
        (lambda s: s.break_when("rank[9].waiting > 0"), "0 to 5"),
        (lambda s: s.break_when("nonsense"), "cannot read the condition"),
        (lambda s: s.inspect("gpu[9]"), "0 to 5"),
        (lambda s: s.inspect("sm[0]"), "did you mean 'dim.0.' or 'rank.0.' or"),
        (lambda s: s.inspect("link[0]"), "--fidelity congestion"),
        (lambda s: s.inspect("rank[0].op[alreduce]"), "has no operation 'alreduce'"),
        (lambda s: s.set("rank[0].speed", 0), "must be a number above 0"),
        (lambda s: s.set("rank[0].sped", 1), "did you mean 'speed'"),
        (lambda s: s.set("dim[0].bandwidth", "0 GB/s"), "must be positive"),
        (lambda s: s.result.to_dataframe("rank"), "did you mean 'ranks'"),
    ],
)
def test_what_cannot_be_is_refused_with_a_line(do, message):
    sim = mixed()
    before = sim.state_hash()
    with pytest.raises(InputError, match=message):
        do(sim)
    assert sim.state_hash() == before
    assert sim.breakpoints == []


def test_a_deadlock_is_raised_and_can_be_taken_back():
    one = Operations.of([{"kind": SEND, "peer": 1, "bytes": 8, "tag": 3}])
    other = Operations.of([{"kind": RECV, "peer": 0, "bytes": 8, "tag": 4}])
    sim = by_messages([one, other], DimensionNetwork(["Ring"], [2], [50], [500]), System.from_document({}))
    with pytest.raises(Deadlock, match="rank 1 waits in a receive from rank 0"):
        sim.run()
    assert sim.finished
    assert sim.inspect("rank[1].op[0]")["state"][1] == ("state", "running")
    assert sim.back(1).events == 2


def test_listeners_hear_of_every_verb():
    sim = mixed()
    heard: list[Stop] = []
    end = sim.subscribe(heard.append)
    sim.step(3)
    sim.back(1)
    sim.set("rank[0].speed", 2)
    sim.run()
    assert [stop.why for stop in heard] == ["steps", "back", "edit", "end"]
    end()
    sim.reset(keep=True)
    assert len(heard) == 4
    assert sim.edits == [(0, "rank[0].speed", "2")]
