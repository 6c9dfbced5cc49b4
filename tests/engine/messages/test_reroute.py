"""Routes of whole messages that change: what was sent arrives once, and a run can be replayed and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages import tables as t
from astranb.net import compile_fabric
from astranb.net.message_routing import message_routes
from astranb.workload.astrasim2 import DimensionNetwork

NVSW = "dgx_h100.0.nvsw.0"
UPLINK = "host.0.cx7.0->leafsw.0.port.0"


def make(infra: Any = "ring:gpus=4", fidelity: str = "congestion", **more: Any) -> anb.Simulation:
    what = anb.collectives.all_reduce(str(more.pop("size", "1 MiB")), str(more.pop("algorithm", "ring")))
    return anb.Simulation(infra, what, fidelity=fidelity, **more)


@pytest.fixture(scope="module")
def whole() -> anb.Simulation:
    sim = make()
    sim.run()
    return sim


@settings(max_examples=20, deadline=None)
@given(
    a=st.integers(0, 3),
    back=st.booleans(),
    both=st.booleans(),
    event=st.integers(0, 110),
    wait_ps=st.integers(0, 60_000_000),
    fidelity=st.sampled_from(["congestion", "congestion", "analytical"]),
)
def test_messages_arrive_once_and_the_run_can_be_replayed(whole, a, back, both, event, wait_ps, fidelity):
    sim = make(fidelity=fidelity)
    sim.step(event)
    sim.take_down(f"gpu[{a}]->gpu[{(a + (-1 if back else 1)) % 4}]", both=both)
    moment, before = sim.events, sim.state_hash()
    sim.reroute(at=sim.now_ps + wait_ps)
    after, rerouted = sim.events, sim.state_hash()
    sim.run()
    end = sim.state_hash()
    clock, other = sim.engine.machine.clock[0], whole.engine.machine.clock[0]
    assert (clock.messages, clock.bytes, clock.delivered) == (other.messages, other.bytes, other.delivered)
    assert len(t.in_use(sim.engine.machine, "messages")) == 0
    if fidelity == "congestion":
        assert sim.now_ps >= whole.now_ps
    fork = sim.fork()
    fork.back(fork.events - after)
    if sim.edits[-1][1] == "reroute":
        assert fork.state_hash() == rerouted
        fork.run()
        assert fork.state_hash() == end
    if after > moment:
        fork.back(fork.events - moment)
        assert fork.state_hash() == before


@pytest.mark.parametrize("fidelity", ["congestion", "analytical"])
@pytest.mark.parametrize("infra,link", [("dgx-h100", f"gpu[0]->{NVSW}"), ("clos:servers=2", UPLINK)])
def test_from_the_start_it_is_the_infrastructure_without_the_link(infra, link, fidelity):
    # Of one ring: with more, one for each NIC, the infrastructure without the link has a ring less.
    less = make(anb.infragraph.resolve(infra).without(link), fidelity, record=False, size="128 KiB")
    sim = make(infra, fidelity, record=False, size="128 KiB")
    sim.take_down(link, both=True)
    sim.reroute()
    assert sim.run().now_ps == less.run().now_ps


@pytest.mark.parametrize("fidelity", ["congestion", "analytical"])
def test_a_plane_less_is_so_much_slower_and_not_one_plane_alone(fidelity):
    """An NVLink switch that one GPU lacks is used by none: 13 of 18 lanes are left."""
    size = 2**28
    whole, less = make("dgx-h100", fidelity, size=size), make("dgx-h100", fidelity, size=size)
    less.take_down(f"gpu[0]->{NVSW}", both=True)
    less.reroute()
    assert less.run().now_ps / whole.run().now_ps == pytest.approx(18 / 13, rel=0.01)


def test_a_link_that_no_message_takes_changes_nothing():
    sim, other = make("dgx-h100"), make("dgx-h100")
    other.take_down("dgx_h100.0.cx7.3->dgx_h100.0.pciesl.3", both=True)
    other.step(100)
    other.reroute()
    assert sim.run().now_ps == other.run().now_ps
    assert sim.events == other.events
    with pytest.raises(InputError, match="no message takes this link"):
        sim.inspect("dgx_h100.0.cx7.3->dgx_h100.0.pciesl.3")


def test_what_waits_is_sent_again_by_another_nic(tmp_path: Path):
    sim = make("clos:servers=2", size="32 MiB")
    sim.run(until="40 us")
    sim.take_down(UPLINK, both=True)
    down = [k for k, name in enumerate(sim.engine.about.links) if name == UPLINK]
    hung = sim.fork()
    with pytest.raises(Deadlock, match=rf"^{UPLINK} is down since 39.91 µs, and 16 messages"):
        hung.run()
    sim.reroute(at="200 us")
    assert sim.now_ps < 200_000_000  # nothing else happened until then
    carried = sim.engine.machine.used.bytes[down].tolist()
    assert sim.run().now_ps > 200_000_000
    assert sim.engine.machine.used.bytes[down].tolist() == carried
    names = [row["source"] for row in sim.result.table("links")]
    assert any(name.startswith("host.0.cx7") for name in names)
    assert len(sim.engine.about.links) == len(sim.engine.machine.links)
    sim.save(tmp_path / "run.npz")
    other = anb.Simulation.load(tmp_path / "run.npz")
    assert other.state_hash() == sim.state_hash()
    sim.back(20)
    other.back(20)
    assert other.state_hash() == sim.state_hash()
    assert list(other.engine.about.links) == list(sim.engine.about.links)


def test_a_loaded_run_can_change_its_routes(tmp_path: Path):
    sim = make(record=False)
    sim.step(20)
    sim.save(tmp_path / "run.npz")
    other = anb.Simulation.load(tmp_path / "run.npz")
    for one in (sim, other):
        one.take_down("gpu[1]->gpu[2]", both=True)
        one.reroute()
        one.run()
    assert other.state_hash() == sim.state_hash()


def test_one_of_two_lanes_comes_back():
    sim = make("dgx-h100")
    sim.step(50)
    for lane in (0, 1):
        sim.take_down(f"gpu[0]->{NVSW}#{lane}", both=True)
    wide = [k for k, name in enumerate(sim.engine.about.links) if name.startswith("gpu[0]->")]
    sim.repair(f"gpu[0]->{NVSW}#0", both=True)
    assert (sim.engine.machine.links.busy[wide] & 2).all()
    sim.repair(f"gpu[0]->{NVSW}#1", both=True)
    assert not (sim.engine.machine.links.busy[wide] & 2).any()
    assert sim.run().why == "end"


def test_ranks_that_nothing_reaches_wait():
    sim = make("switch:gpus=4")
    sim.step(10)
    sim.take_down("gpu[1]->box.0.sw.0", both=True)
    sim.reroute()
    with pytest.raises(Deadlock, match="is down since"):
        sim.run()
    sim.repair("gpu[1]->box.0.sw.0", both=True)
    assert sim.run().why == "end"


def test_links_and_ports_keep_their_numbers():
    fabric = compile_fabric(anb.infragraph.blueprint("clos:servers=2").expand())
    pairs = [(a, b) for a in range(16) for b in range(16) if a != b]
    first = message_routes(fabric, pairs, 16)
    again = message_routes(fabric, pairs, 16, first)
    assert again.lanes == first.lanes
    assert (again.sends, again.receives) == (first.sends, first.receives)
    less = message_routes(fabric.without(fabric.find(UPLINK)), pairs, 16, first)
    assert less.lanes[: len(first.lanes)] == first.lanes
    assert np.array_equal(less.hops[: len(first.hops)], first.hops)
    assert all(first.sends[rank].items() <= less.sends[rank].items() for rank in first.sends)


@pytest.mark.parametrize(
    "change,error",
    [
        (
            lambda _: make("dgx-h100").set("gpu[0]->nvsw.0.bandwidth", "1 GB/s"),
            "a link of several lanes may stand for it",
        ),
        (lambda sim: sim.take_down("gpu[0]->gpu[2]"), "unknown link"),
        (lambda sim: sim.reroute(at="soon"), "soon"),
    ],
)
def test_bad_input(change, error):
    with pytest.raises(InputError, match=error):
        change(make())


def test_a_network_of_dimensions_has_no_other_routes():
    sim = make(DimensionNetwork(["Ring"], [4], [50], [500]))
    with pytest.raises(InputError, match="no other routes; take an infrastructure"):
        sim.reroute()
