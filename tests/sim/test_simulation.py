"""The verbs: stopping anywhere, going back exactly, and never depending on how a run is cut."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError

UNITS = ("event", "cycle", "instruction", "phase")


def make(size="4 KiB", algorithm="ring", infra="switch:gpus=4", **options):
    return anb.Simulation(infra, anb.collectives.all_reduce(size, algorithm), **options)


@pytest.fixture(scope="module")
def whole():
    sim = make()
    sim.run()
    return sim


def test_the_same_inputs_give_the_same_hash(whole):
    again = make()
    again.run()
    assert again.state_hash() == whole.state_hash()
    assert (again.events, again.now_ps) == (whole.events, whole.now_ps)


@settings(max_examples=25)
@given(cuts=st.lists(st.tuples(st.integers(0, 400), st.sampled_from(UNITS[:3])), max_size=12))
def test_how_a_run_is_cut_never_changes_what_happens(whole, cuts):
    sim = make()
    for n, unit in cuts:
        sim.step(n, unit)
    sim.run()
    assert sim.state_hash() == whole.state_hash()


@settings(max_examples=25)
@given(start=st.integers(0, 3000), n=st.integers(0, 2000), unit=st.sampled_from(UNITS))
def test_back_undoes_step(start, n, unit):
    """From a moment that the unit itself reaches, ``back`` is the exact inverse of ``step``."""
    sim = make()
    sim.step(start)
    n = n if unit == "event" else n % 7
    sim.step(1, unit)
    before, at = sim.state_hash(), sim.events
    if sim.finished:
        return
    reached = sim.step(n, unit)
    if reached.why == "end":
        return
    sim.back(n, unit)
    assert (sim.events, sim.state_hash()) == (at, before)


def test_step_back_step_over_several_checkpoints():
    sim = make("256 KiB", infra="switch:gpus=8")
    sim.step(1000)
    sim.step(400_000)
    there = sim.state_hash()
    sim.back(300_000)
    sim.step(300_000)
    assert sim.state_hash() == there
    sim.step(1000)
    sim.back(400)
    middle = sim.state_hash()
    sim.step(400)
    sim.back(400)
    assert sim.state_hash() == middle


def test_step_handles_exactly_n_events():
    sim = make()
    assert sim.step(1000).events == 1000
    assert sim.step(0).events == 1000
    assert sim.back(400).events == 600
    assert sim.step(400).events == 1000
    assert sim.back(10**9).events == 0


def test_a_cycle_is_all_events_of_the_next_instant():
    sim = make()
    times: list[int] = []
    while not sim.finished and len(times) < 200:
        sim.step(unit="cycle")
        if not sim.finished:
            assert int(sim.engine.machine.event_queue.near[0].time_ps) > sim.now_ps
        times.append(sim.now_ps)
    assert times == sorted(set(times))


def test_a_cycle_begun_is_finished_first():
    sim = make()
    sim.step(1)  # one of the launches at time 0
    assert sim.step(unit="cycle").now_ps == 0


def test_phases_end_in_order(whole):
    sim = make()
    ends = []
    for name in sim.engine.program.phase_names:
        stop = sim.step(unit="phase")
        assert stop.why in ("phase", "end"), name
        ends.append(stop.now_ps)
    assert ends == sorted(ends)
    assert len(ends) == 6
    assert (whole.engine.machine.phases["left"] == 0).all()


def test_time_never_goes_back_and_every_field_is_sane(whole):
    sim = make()
    last = -1
    while not sim.finished:
        sim.step(37)
        assert sim.now_ps >= last
        last = sim.now_ps
        gpu = sim.engine.machine.gpus[0]
        assert (sim.engine.machine.sms["outstanding"] >= 0).all()
        assert (sim.engine.machine.sms["outstanding"] <= gpu.max_outstanding).all()
        live = int((sim.engine.machine.requests["live"] == 1).sum())
        assert live == int(sim.engine.machine.sms["outstanding"].sum())
        assert int(sim.engine.machine.blocks["unacked"].sum()) <= live
    blocks = whole.engine.machine.blocks
    spent = blocks["moving_ps"] + blocks["waiting_ps"] + blocks["draining_ps"] + blocks["signalling_ps"]
    assert (spent == blocks["ended_ps"] - blocks["started_ps"]).all()


def test_requests_are_conserved(whole):
    """Every slot is free at the end and is in the free list exactly once."""
    requests, seen, slot = (
        whole.engine.machine.requests,
        set(),
        int(whole.engine.machine.clock[0].free_request),
    )
    while slot < len(requests):
        assert slot not in seen
        seen.add(slot)
        slot = int(requests[slot].next_free)
    assert len(seen) == len(requests)


def test_run_until_a_time():
    sim = make()
    stop = sim.run(until="1 us")
    assert (stop.why, stop.now_ps <= 1_000_000) == ("time", True)
    assert int(sim.engine.machine.event_queue.near[0].time_ps) > 1_000_000
    at = sim.state_hash()
    sim.run(until="3 us")
    sim.goto("1 us")
    assert sim.state_hash() == at
    sim.goto("2 us")
    sim.goto(1_000_000)
    assert sim.state_hash() == at


def test_recording_is_no_part_of_the_state(whole):
    sim = make(record=False)
    sim.run()
    assert sim.state_hash() == whole.state_hash()
    assert len(sim.engine.recorder.flights(0, 10**12)[0]) == 0


def test_a_fork_shares_the_past_and_then_goes_its_own_way(whole):
    sim = make()
    sim.step(2000)
    other = sim.fork()
    link = sim.engine.fabric.name(
        int(sim.engine.machine.links["src"].tolist().index(int(sim.engine.fabric.gpus[0])))
    ).partition("#")[0]
    other.set(f"{link}.bandwidth", "1 GB/s")
    other.run()
    sim.run()
    assert sim.state_hash() == whole.state_hash()
    assert other.now_ps > sim.now_ps
    other.goto(sim.now_ps // 4)
    assert other.events < 2000
    assert other.edits == []
    other.run()
    assert other.state_hash() == whole.state_hash()


def test_an_edit_is_replayed_and_undone():
    sim = make()
    sim.step(1500)
    clean = sim.state_hash()
    link = sim.engine.fabric.name(0).partition("#")[0]
    sim.set(f"{link}.latency", "5 us")
    edited = sim.state_hash()
    assert edited != clean
    sim.step(1000)
    later = sim.state_hash()
    sim.back(700)
    sim.step(700)
    assert sim.state_hash() == later
    assert len(sim.edits) == 1
    sim.back(1000)
    assert sim.state_hash() == edited
    sim.back(1)
    assert sim.edits == []
    sim.step(1)
    assert sim.state_hash() == clean


@pytest.mark.parametrize(
    "path,value,says",
    [
        ("gpu[0].colour", "1 ns", "cannot be changed"),
        ("gpu[9].l2", "1 ns", "unknown gpu"),
        ("gpu[0].l2", "1 GB/s", "unit"),
        ("a->b.bandwidth", "1 GB/s", "unknown link"),
        ("gpu[0].issue", "0 ns", "greater than zero"),
    ],
)
def test_a_bad_edit_changes_nothing(path, value, says):
    sim = make()
    before = sim.state_hash()
    with pytest.raises(InputError, match=says):
        sim.set(path, value)
    assert sim.state_hash() == before
    assert sim.edits == []


@pytest.mark.parametrize("at", [0, 1234, 10**9])
def test_save_and_load_are_the_identity(tmp_path, whole, at):
    sim = make()
    sim.step(at)
    path = tmp_path / "half way"
    sim.save(path)
    assert [f.name for f in tmp_path.iterdir()] == ["half way"]
    loaded = anb.Simulation.load(path)
    assert loaded.state_hash() == sim.state_hash()
    loaded.run()
    assert loaded.state_hash() == whole.state_hash()
    loaded.back(500)
    loaded.step(500)
    assert loaded.state_hash() == whole.state_hash()
    loaded.reset()
    assert loaded.state_hash() == make().state_hash()


def test_edits_are_saved(tmp_path):
    sim = make()
    sim.step(1000)
    sim.set("gpu[1].l2", "900 ns")
    sim.step(500)
    sim.save(tmp_path / "s")
    loaded = anb.Simulation.load(tmp_path / "s")
    assert loaded.edits == sim.edits
    loaded.back(1000)
    sim.back(1000)
    assert loaded.state_hash() == sim.state_hash()
    assert loaded.edits == []


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"\x80\x04pickle"])
def test_a_file_that_is_no_simulation(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match="not a saved simulation"):
        anb.Simulation.load(tmp_path / "x")
    with pytest.raises(InputError, match="No such file"):
        anb.Simulation.load(tmp_path / "y")
    with pytest.raises(InputError, match="cannot be written"):
        make().save(tmp_path / "no" / "folder")


@pytest.mark.parametrize(
    "what",
    [
        "'ring'",
        "'allpairs', protocol='LL'",
        "'switch'), gpu='h100-sxm', network=anb.Network(buffers=2, cut_through=True",
        "'ring'), gpu='generic', network=anb.Network(arbitration='fair', buffers=3, multipath='spray'",
        "'tree'), launch='graph', gpu=anb.gpu.preset('h100-sxm').but(l2_bytes=4096, bulk_lines=2",
    ],
)
def test_plain_python_gives_the_same_hash(what):
    """ASTRANB_JIT=0 runs the same functions without a compiler."""
    text = (
        "import astranb as anb\n"
        f"sim = anb.Simulation('switch:gpus=3', anb.collectives.all_reduce('1000 B', {what}))\n"
        "print(sim.step(777).events, sim.state_hash(), sim.run().events, sim.state_hash())\n"
    )

    def run(jit):
        environment = {**os.environ, "ASTRANB_JIT": jit}
        done = subprocess.run(
            [sys.executable, "-c", text],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return done.stdout

    assert run("0") == run("1")


def test_an_interrupt_leaves_a_state_that_can_be_stepped_on():
    sim = make("16 MiB", infra="switch:gpus=8", record=False, checkpoint_bytes=0)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sim.run()
    timer.join()
    at = sim.events
    assert not sim.finished
    assert sim.step(10).events == at + 10
    live = int((sim.engine.machine.requests["live"] == 1).sum())
    assert live == int(sim.engine.machine.sms["outstanding"].sum())


def test_a_run_that_would_not_fit_is_refused_before_it_starts():
    with pytest.raises(InputError, match=r"a buffer of 1 TiB, the memory of a h100-sxm is .*reduce the size"):
        make("1 TiB")
    with pytest.raises(InputError, match=r"rank 0 take .* the memory of a h100-sxm is .*reduce the size"):
        make("48 GiB", "allpairs")
    with pytest.raises(InputError, match="can be used"):
        make("1 MiB", memory_bytes=1000)


def test_the_estimate_is_near_the_truth():
    from astranb.engine.cacheline.build import MachinePlan, _estimate

    sim = make("1 MiB", infra="switch:gpus=8")
    guess = _estimate(
        MachinePlan(sim.engine.fabric, sim.engine.presets, sim.engine.program, sim.engine.network)
    )
    assert 0.8 * sim.engine.machine.nbytes < guess < 1.5 * sim.engine.machine.nbytes


@pytest.mark.parametrize(
    "options,says",
    [({"n": -1}, "not negative"), ({"n": 1.5}, "whole"), ({"unit": "evnt"}, "counts event, cycle")],
)
def test_bad_steps(options, says):
    with pytest.raises(InputError, match=says):
        make().step(**options)


def test_bad_inputs():
    collective = anb.collectives.all_reduce("1 KiB")
    with pytest.raises(InputError, match="fidelity"):
        anb.Simulation("switch:gpus=4", collective, fidelity="guess")
    with pytest.raises(InputError, match="h100-sxm"):
        anb.Simulation("switch:gpus=4", collective, gpu="h100-smx")
    with pytest.raises(InputError, match="neither a collective nor a workload"):
        anb.Simulation("switch:gpus=4", "all_reduce")


def test_checkpoints_stay_within_their_budget():
    sim = make("256 KiB", infra="switch:gpus=8", checkpoint_bytes=20 * 2**20)
    sim.run()
    points = sim.driver.history.checkpoints
    assert points[0].events == 0
    assert sum(p.new_bytes for p in points[1:]) <= 20 * 2**20
    end = sim.state_hash()
    sim.back(200_000)
    sim.run()
    assert sim.state_hash() == end


def test_who_goes_back_far_has_a_checkpoint_close_by_for_the_next_time():
    sim = make("256 KiB", infra="switch:gpus=8")
    sim.driver._interval = 200_000
    sim.step(150_000)
    there = sim.state_hash()
    sim.back(1)
    last = sim.driver.history.checkpoints[-1].events
    assert 140_000 < last < 149_999
    sim.back(1)
    assert [c.events for c in sim.driver.history.checkpoints] == [0, last]  # and needs no other one
    sim.step(2)
    assert sim.state_hash() == there


def test_going_back_is_exact_without_a_second_copy_of_a_large_state(monkeypatch):
    hashes = []
    for large in (2**28, 0):
        monkeypatch.setattr("astranb.sim.history._LARGE", large)
        sim = make("64 KiB", infra="switch:gpus=8")
        history = sim.driver.history
        for events in (5_000, 9_000, 4_000):
            sim.step(events)
            history.take(sim.engine, 0)
        assert (history._latest is None) == (large == 0)
        sim.back(6_000)
        sim.step(1_000)
        history.take(sim.engine, 0)
        sim.back(11_000)
        hashes.append((sim.events, sim.state_hash(), [c.new_bytes for c in history.checkpoints]))
        first = history.checkpoints[0].pages["activity"]
        assert all(page is first[0] for page in first[:-1])  # all zeros: one object
    assert hashes[0] == hashes[1]


def test_a_shared_page_is_one_object():
    sim = make()
    for _ in range(2):  # the checkpoint of the start may have no pages
        sim.step(1)
        sim.driver.history.take(sim.engine, 0)
    first, second = sim.driver.history.checkpoints[-2:]
    shared = [
        a is b for name in first.pages for a, b in zip(first.pages[name], second.pages[name], strict=True)
    ]
    assert np.mean(shared) > 0.9
