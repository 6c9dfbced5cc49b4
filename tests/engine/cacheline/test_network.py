"""Options of the fabric: they change times, never results."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import Collective
from astranb.core.errors import InputError, WrongResult
from astranb.gpu import preset
from tests.engine.cacheline.support import check_save

OPTIONS = st.builds(
    anb.Network,
    arbitration=st.sampled_from(["fifo", "round_robin", "fair"]),
    buffers=st.sampled_from([0, 1, 3, 16]),
    cut_through=st.booleans(),
    multipath=st.sampled_from(["interleave", "static", "flow_hash", "spray"]),
)


def make(network=None, *, infra="switch:gpus=4", size="6 KiB", algorithm="ring", gpu=None, **rest):
    return anb.Simulation(
        infra, anb.collectives.all_reduce(size, algorithm, **rest), gpu=gpu, network=network
    )


@settings(max_examples=25, deadline=None)
@given(
    network=OPTIONS,
    algorithm=st.sampled_from(["ring", "allpairs", "tree", "switch", "allpairs_get"]),
    gpu=st.sampled_from(["h100-sxm", "generic"]),
    step=st.integers(1, 3000),
)
def test_any_choice_gives_the_right_result_and_exact_replay(network, algorithm, gpu, step):
    sim = make(network, algorithm=algorithm, gpu=gpu)
    sim.step(step)
    before, events = sim.state_hash(), sim.events
    sim.step(500)
    sim.back(sim.events - events)
    assert sim.state_hash() == before
    sim.run()  # raises where a contribution is missing
    assert (sim.engine.machine.requests["live"] == 0).all()
    assert (sim.engine.machine.sms["outstanding"] == 0).all()
    straight = make(network, algorithm=algorithm, gpu=gpu)
    straight.run()
    assert straight.state_hash() == sim.state_hash()


def test_small_buffers_push_back():
    free, tight = (
        make(size="64 KiB", algorithm="allpairs"),
        make(anb.Network(buffers=1), size="64 KiB", algorithm="allpairs"),
    )
    free.run()
    tight.run()
    assert tight.result.time_ps > free.result.time_ps
    # Never more messages behind a link than there are buffers.
    sim = make(anb.Network(buffers=2), size="8 KiB", algorithm="allpairs")
    while not sim.finished:
        sim.step(100)
        held = sim.engine.machine.details["held"][(sim.engine.machine.requests["live"] == 1)]
        assert np.bincount(held[held >= 0], minlength=1).max() <= 2


def test_cutting_through_saves_the_header_of_time_at_each_node():
    slow, fast = make(size="1 KiB"), make(anb.Network(cut_through=True), size="1 KiB")
    slow.run()
    fast.run()
    assert fast.result.time_ps < slow.result.time_ps


def test_fair_arbitration_lets_control_pass_data():
    """A signal behind a full queue of data: first come waits for all of it, fair for one line."""

    def program(p):
        gate, data, word = p.semaphore(1), p.block(0), p.block(0)
        data.put(p.input(0)[0], p.output(1)[0])
        word.compute(150)
        word.signal(gate)
        p.block(1).wait(gate)

    ended = {}
    for how in ("fifo", "fair"):
        sim = anb.Simulation(
            "ring:gpus=2",
            Collective.of("send_recv", "256 KiB", program, channels=1),
            network=anb.Network(arbitration=how),
            gpu=preset("h100-sxm").but(unroll=64, max_outstanding=2048),
        )
        with suppress(WrongResult):  # only the word counts here
            sim.run()
        ended[how] = int(sim.engine.machine.blocks["ended_ps"][-1])
    assert ended["fair"] < ended["fifo"]


def test_routes_are_chosen_as_asked():
    used = {}
    for how in ("interleave", "static", "flow_hash", "spray"):
        sim = make(anb.Network(multipath=how), infra="dgx-h100", size="64 KiB", channels=1)
        sim.run()
        out = sim.engine.machine.links[sim.engine.machine.links["src"] == sim.engine.fabric.gpus[0]]
        used[how] = int((out["messages"] > 0).sum())
    assert used["static"] < used["interleave"]
    assert used["spray"] == used["interleave"]
    assert used["flow_hash"] <= used["interleave"]


def test_a_link_that_is_down_delays_and_loses_nothing():
    usual = make(algorithm="ring")
    usual.run()
    link = usual.engine.fabric.name(0).partition("#")[0]
    fault = anb.Fault(link, at="1 us", until="40 us", down=True)
    hit = make(anb.Network(faults=(fault,)), algorithm="ring")
    hit.run()
    assert hit.result.time_ps > 40_000_000 > usual.result.time_ps
    assert hit.engine.machine.links["messages"].sum() > 0
    assert hit.engine.machine.links["bytes"].sum() >= usual.engine.machine.links["bytes"].sum() * 0.9


def test_a_slowed_and_a_flapping_link():
    usual = make(size="64 KiB")
    usual.run()
    link = usual.engine.fabric.name(0).partition("#")[0]
    slowed = make(anb.Network(faults=(anb.Fault(link, bandwidth="1 GB/s"),)), size="64 KiB")
    slowed.run()
    flapping = anb.Fault(link, at="1 us", until="2 us", every="3 us", times=50, down=True)
    flaps = make(anb.Network(faults=(flapping,)), size="64 KiB")
    flaps.run()
    assert slowed.result.time_ps > usual.result.time_ps
    assert flaps.result.time_ps > usual.result.time_ps
    assert flaps.break_on("fault") is not None
    # A fault that ends leaves the link as it was.
    back = make(anb.Network(faults=(anb.Fault(link, until="1 us", latency="9 us"),)))
    back.run()
    assert (back.engine.machine.links["latency_ps"] == usual.engine.machine.links["latency_ps"]).all()


@pytest.mark.parametrize(
    "build,says",
    [
        (lambda: anb.Network(arbitration="fiar"), "did you mean 'fair'"),
        (lambda: anb.Network(multipath="ecmp"), "unknown multipath"),
        (lambda: anb.Network(buffers=-1), "0 means no limit"),
        (lambda: anb.Fault("a->b", down=True), "has no end"),
        (lambda: anb.Fault("a->b"), "the fault changes nothing"),
        (lambda: anb.Fault("a->b", at="2 us", until="1 us", down=True), "ends before it begins"),
        (lambda: anb.Fault("a->b", until="2 us", every="1 us", down=True), "shorter than the fault"),
        (lambda: make(anb.Network(faults=(anb.Fault("a->b", bandwidth="1 GB/s"),))), "unknown link"),
        (lambda: anb.Fault("a->b", bandwidth="1 GX/s"), "GX/s"),
    ],
)
def test_bad_choices_are_one_clear_line(build, says):
    with pytest.raises(InputError, match=says):
        build()


def test_options_and_faults_survive_a_save(tmp_path):
    fault = anb.Fault("gpu[0]->switch.0.switch.0", at="2 us", until="9 us", latency="3 us")
    network = anb.Network(arbitration="fair", buffers=4, faults=(fault,))
    try:
        sim = make(network)
    except InputError:
        name = make().engine.fabric.name(0).partition("#")[0]
        network = anb.Network("fair", 4, faults=(anb.Fault(name, "2 us", "9 us", latency="3 us"),))
        sim = make(network)
    sim.step(700)
    check_save(sim, network, tmp_path / "s")


@pytest.mark.parametrize("lines", [2, 3, 8, 64])
@pytest.mark.parametrize("algorithm", ["ring", "allpairs", "switch", "hierarchical"])
def test_coalesced_lines_carry_the_same_bytes_to_the_same_result(algorithm, lines):
    """Fewer events, the same payload on the wires, and the result is checked as ever."""
    exact, fast = (
        make(network, size="100 KiB", algorithm=algorithm, gpu="h100-sxm")
        for network in (None, anb.Network(coalesce=lines))
    )
    exact.run()
    fast.run()
    assert fast.events < exact.events
    assert any(f"{lines} lines travel as one request" in text for text in fast.engine.assumed)
    assert not any("not exact" in text for text in exact.engine.assumed)
    moved = []
    for sim in (exact, fast):
        moves = sim.engine.machine.ops[sim.engine.machine.ops["lines"] > 0]
        moved.append(int(((moves["lines"] - 1) * moves["payload"] + moves["last_bytes"]).sum()))
    assert moved[0] == moved[1]


@pytest.mark.parametrize("algorithm, size", [("ring", "4 MiB"), ("switch", "4 MiB")])
def test_four_lines_at_a_time_are_near_the_exact_time(algorithm, size):
    times = []
    for lines in (1, 4):
        sim = make(anb.Network(coalesce=lines), infra="dgx-h100", size=size, algorithm=algorithm)
        sim.run()
        times.append(sim.result.time_ps)
    assert abs(times[1] / times[0] - 1) < 0.02


def test_packets_are_never_coalesced():
    plain, asked = (
        make(network, algorithm="ring", protocol="LL") for network in (None, anb.Network(coalesce=8))
    )
    plain.run()
    asked.run()
    assert plain.state_hash() == asked.state_hash()


@pytest.mark.parametrize("lines", [0, -1, 65, 1.5, True, "4"])
def test_what_cannot_be_coalesced(lines):
    with pytest.raises(InputError, match=r"coalesce: .* lines; take 1 to 64"):
        anb.Network(coalesce=lines)


def test_requests_of_several_lines_need_several_a_warp():
    """With one request per warp in flight, nothing overlapped with it: two shots took longer."""

    def error(unroll):
        taken = []
        for lines in (1, 4):
            wanted = Collective.of("all_reduce", "4 MiB", "allpairs_get", channels=36)
            network, gpu = anb.Network(coalesce=lines), preset("h100-sxm").but(unroll=unroll)
            sim = anb.Simulation("dgx-h100", wanted, gpu=gpu, record=False, network=network)
            sim.run()
            taken.append(sim.result.time_ps)
        return taken[1] / taken[0] - 1

    now, before = error(32), error(4)
    assert abs(now) < 0.07
    assert before > 0.1
