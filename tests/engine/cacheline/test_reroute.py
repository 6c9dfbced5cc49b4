"""Routes that change: nothing is lost or written twice, and a run can be replayed, copied and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import Deadlock, InputError
from astranb.net import Dcqcn, Ecn, Network, Pfc, Roce, compile_fabric
from astranb.net.port import CLASSES
from tests.engine.cacheline.support import check_ethernet

NVSW = "dgx_h100.0.nvsw.0"
ROCE = Roce(
    Pfc("2 KiB", "1 KiB"),
    Ecn("1 kB", "4 kB", 0.5),
    Dcqcn(interval="2 us", alpha_timer="3 us", increase_timer="3 us", byte_counter="4 kB"),
)
"""Small thresholds: senders are paused, notified and limited."""
NETWORKS = {
    "plain": None,
    "buffers": Network(arbitration="fair", buffers=16),
    "roce": Network(roce=ROCE),
    "roce and buffers": Network(arbitration="fair", buffers=16, roce=ROCE, cut_through=True),
}


def ring(size: str = "8 KiB", **more: Any) -> anb.Simulation:
    return anb.Simulation("ring:gpus=4", anb.collectives.all_reduce(size, "ring"), record=False, **more)


def data_lines(sim: anb.Simulation) -> int:
    """Lines that have arrived in another GPU's memory, or come back from it."""
    return int(sim.engine.machine.clock[0].lines)


@pytest.fixture(scope="module")
def whole() -> tuple[int, int]:
    sim = ring()
    sim.run()
    return sim.now_ps, data_lines(sim)


@settings(max_examples=15, deadline=None)
@given(
    a=st.integers(0, 3),
    back=st.booleans(),
    both=st.booleans(),
    event=st.integers(0, 5000),
    wait_ps=st.integers(0, 4_000_000),
    network=st.sampled_from(["plain", "buffers", "roce"]),
)
def test_nothing_is_lost_and_nothing_happens_twice(whole, a, back, both, event, wait_ps, network):
    """The run ends with right contents (which it checks), and as many lines have arrived as without."""
    sim = ring(network=NETWORKS[network])
    sim.step(event)
    b = (a + (-1 if back else 1)) % 4
    sim.take_down(f"gpu[{a}]->gpu[{b}]", both=both)
    moment, before = sim.events, sim.state_hash()
    sim.reroute(at=sim.now_ps + wait_ps)
    after, rerouted = sim.events, sim.state_hash()
    down = sim.engine.fabric.find(f"gpu[{a}]->gpu[{b}]")
    carried = sim.engine.machine.links["bytes"][down].tolist()
    assert sim.run().why == "end"
    assert data_lines(sim) == whole[1]
    check_ethernet(sim)
    end = sim.state_hash()
    if sim.edits[-1][1] != "reroute":  # it had ended before
        return
    assert sim.engine.machine.links["bytes"][down].tolist() == carried
    fork = sim.fork()
    fork.back(fork.events - after)
    assert fork.state_hash() == rerouted
    assert fork.run().why == "end"
    assert fork.state_hash() == end
    if after > moment:
        fork.back(fork.events - moment)
        assert fork.state_hash() == before
        assert len(fork.edits) == 1 + both


def test_a_failure_is_never_faster_where_routes_are_unique(whole):
    for event in (0, 700, 2100):
        sim = ring()
        sim.step(event)
        sim.take_down("gpu[2]->gpu[3]", both=True)
        sim.reroute()
        sim.run()
        assert sim.now_ps >= whole[0]


def test_from_the_start_it_is_the_infrastructure_without_the_link():
    infra = anb.infragraph.blueprint("dgx-h100")
    what = anb.collectives.all_reduce("16 KiB", "allpairs")
    less = anb.Simulation(infra.without(f"gpu[0]->{NVSW}", f"gpu[3]->{NVSW}"), what, record=False)
    sim = anb.Simulation(infra, what, record=False)
    for rank in (0, 3):
        sim.take_down(f"gpu[{rank}]->{NVSW}", both=True)
    sim.reroute()
    assert sim.run().now_ps == less.run().now_ps
    assert data_lines(sim) == data_lines(less)


def test_a_link_that_no_route_uses_changes_nothing():
    what = anb.collectives.all_reduce("8 KiB", "ring")
    sim, other = (anb.Simulation("dgx-h100", what, record=False) for _ in range(2))
    other.take_down("dgx_h100.0.cx7.3->dgx_h100.0.pciesl.3", both=True)
    routes = len(other.engine.machine.routes)
    other.step(500)
    other.reroute()
    assert sim.run().now_ps == other.run().now_ps
    row = "free_at_ps"
    one, two = (np.delete(s.engine.machine.links[row], np.flatnonzero(
        other.engine.machine.links[row] >= 2**61)) for s in (sim, other))  # fmt: skip
    assert np.array_equal(one, two)
    assert len(other.engine.machine.routes) >= routes


def test_up_again_the_old_routes_are_used_again():
    sim = ring("32 KiB")
    sim.step(500)
    sim.take_down("gpu[0]->gpu[1]", both=True)
    sim.reroute()
    sim.step(4000)
    detour = sim.fork()
    sim.repair("gpu[0]->gpu[1]", both=True)
    sim.reroute()
    link = sim.engine.fabric.find("box.0.gpu.0->box.0.gpu.1")[0]
    carried = int(sim.engine.machine.links[link].bytes)
    assert sim.run().now_ps < detour.run().now_ps
    assert int(sim.engine.machine.links[link].bytes) > carried
    assert int(detour.engine.machine.links[link].bytes) == carried


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("position", ["leaves the NIC", "comes to the NIC", "in the leaf"])
def test_a_queue_pair_sends_again_over_another_nic(position, network):
    """A NIC's port, or what is behind it, fails: signals still follow the data that they announce."""
    infra = anb.infragraph.blueprint("clos:servers=2")
    fabric = compile_fabric(infra.expand())
    route = fabric.routes([(7, 8)])[0][7, 8][0]  # here the ring leaves a server
    names = [fabric.name(link).partition("#")[0] for link in route]
    failed = {"leaves the NIC": names[2], "comes to the NIC": names[-3], "in the leaf": names[3]}[position]
    what = anb.collectives.all_gather("128 KiB", "ring", channels=1)
    sim = anb.Simulation(infra, what, network=NETWORKS[network], record=False)
    base = sim.fork()
    base.run()
    sim.run(until="6 us")
    sim.take_down(failed, both=True)
    sim.reroute(at="8 us")
    sim.run()
    assert data_lines(sim) == data_lines(base)
    assert sim.now_ps > base.now_ps
    check_ethernet(sim)
    assert not sim.engine.machine.queues["waiting"].any()
    if network == "roce and buffers":
        assert (sim.engine.machine.queues["credits"] == 16).all()
    if network == "roce" and position == "leaves the NIC":
        new = sim.engine.machine.flows[len(base.engine.machine.flows) :]
        assert new["messages"].any()


def test_what_waits_on_the_way_to_the_failure_leaves_its_queue():
    """It is sent again by its source, and not from that queue as well."""
    what, network = anb.collectives.all_to_all("64 KiB"), Network(buffers=8)
    sim = anb.Simulation("clos:servers=2", what, network=network, record=False)
    base = sim.fork()
    base.run()
    sim.step(99_360)
    sim.take_down("host.0.cx7.0->leafsw.0.port.0", both=True)
    sim.reroute()
    assert sim.run().why == "end"
    assert data_lines(sim) == data_lines(base)
    assert (sim.engine.machine.queues["credits"] == 8).all()


def test_flows_keep_their_rates_and_none_enters_by_a_link_that_is_down():
    """Senders share ports and are notified; then one loses its NIC's cable."""
    infra = anb.infragraph.blueprint("clos:servers=2")
    what = anb.collectives.all_to_all("128 KiB")
    sim = anb.Simulation(infra, what, network=NETWORKS["roce"], record=False)
    sim.run(until="12 us")
    before = sim.engine.machine.flows.copy()
    assert before["limited"].any()
    port = "host.0.cx7.0->leafsw.0.port.0"
    sim.take_down(port, both=True)
    sim.reroute()
    flows, down = sim.engine.machine.flows, sim.engine.fabric.find(port)
    assert (flows[: len(before)]["rate_Bps"] == before["rate_Bps"]).all()
    assert not flows["waiting"][np.isin(flows["link"], down)].any()
    sent = flows["bytes"][np.isin(flows["link"], down)].tolist()
    sim.run()
    flows = sim.engine.machine.flows
    assert flows["bytes"][np.isin(flows["link"], down)].tolist() == sent
    check_ethernet(sim)


def test_ranks_that_nothing_reaches_wait_and_are_named():
    sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("8 KiB", "ring"), record=False)
    sim.step(300)
    sim.take_down("gpu[1]->box.0.sw.0", both=True)
    sim.reroute()
    with pytest.raises(Deadlock, match=r"box.0.gpu.1->box.0.sw.0 is down since .* lines wait for it"):
        sim.run()
    sim.repair("gpu[1]->box.0.sw.0", both=True)
    assert sim.run().why == "end"


def test_saved_and_loaded(tmp_path: Path):
    sim = ring("16 KiB")
    sim.step(900)
    sim.take_down("gpu[0]->gpu[1]", both=True)
    sim.reroute(at=sim.now_ps + 1_000_000)
    sim.step(800)
    sim.save(tmp_path / "run.npz")
    other = anb.Simulation.load(tmp_path / "run.npz")
    assert other.state_hash() == sim.state_hash()
    assert other.edits == sim.edits
    sim.run()
    other.run()
    assert other.state_hash() == sim.state_hash()
    sim.back(sim.events - 1000)
    other.back(other.events - 1000)
    assert other.state_hash() == sim.state_hash()


def test_buffers_are_given_back():
    network = Network(arbitration="fair", buffers=8)
    sim = anb.Simulation(
        "dgx-h100", anb.collectives.all_reduce("128 KiB", "allpairs"), network=network, record=False
    )
    sim.run(until="2 us")
    sim.take_down(f"gpu[0]->{NVSW}", both=True)
    sim.reroute(at="3 us")
    machine = sim.engine.machine
    live = machine.requests["live"] == 1
    held = machine.details["held"][live]
    taken = np.bincount(held[held >= 0], minlength=len(machine.queues))
    assert (machine.queues["credits"] + taken == 8).all()
    down = np.flatnonzero(machine.links["free_at_ps"] >= 2**61)
    assert machine.queues["waiting"].reshape(-1, CLASSES)[down].sum() == 0
    assert sim.run().why == "end"
    assert (sim.engine.machine.queues["credits"] == 8).all()


def test_bad_times():
    with pytest.raises(InputError):
        ring().reroute(at="soon")
