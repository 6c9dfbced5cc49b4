"""Links that several collectives or ranks use: messages over them go in quanta, and share them alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.engine.messages import Run
from astranb.engine.messages import tables as t
from astranb.infragraph import blueprint
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND, InfraNetwork, Operations, System, Workload

SPINE = "clos:servers=2,spines=1,spine_bandwidth=100"
SPINES = "clos:servers=2,spines=2,spine_bandwidth=100"
UPLINK = "leafsw.0.port.8->spinesw.0.port.0"
HALVES = [[box * 8 + half * 4 + k for box in range(2) for k in range(4)] for half in range(2)]


def two_jobs(
    infra: str, what: Any, *, repeat: int = 1, starts: Any = (0, 0), **options: Any
) -> anb.Simulation:
    jobs = [
        anb.Job(what, ranks=ranks, name=name, repeat=repeat, start=start)
        for name, ranks, start in zip("ab", HALVES, starts, strict=True)
    ]
    return anb.Simulation(infra, jobs=jobs, fidelity="congestion", **options)


@pytest.mark.parametrize("cost", ["library", "wire"])
@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize("size", ["1 MiB", "64 MiB"])
@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "all_to_all"])
def test_equal_jobs_take_equally_long(name, size, repeat, cost):
    sim = two_jobs(SPINE, getattr(anb, name)(size), repeat=repeat, cost=cost)
    sim.run()
    lasting = sim.result.jobs(alone=True)
    assert lasting.duration_ps.max() <= 1.05 * lasting.duration_ps.min()
    assert lasting.slowdown.between(1, 2.05).all()


def test_two_pairs_share_a_spine_alike():
    """A message at a time, the first pair took 1.5 times as long as alone, the other 2.0 times."""
    jobs = [anb.Job(anb.all_reduce("64 MiB"), ranks=ranks) for ranks in ([0, 8], [4, 12])]
    sim = anb.Simulation(SPINE, jobs=jobs, fidelity="congestion")
    sim.run()
    assert sim.result.jobs(alone=True).slowdown.tolist() == pytest.approx([2, 2], rel=0.03)


@pytest.mark.parametrize("size", ["1 MiB", "16 MiB", "256 MiB"])
def test_quanta_alone_take_what_a_whole_message_takes(size):
    what = anb.collectives.all_gather(size, "ring")
    sim = two_jobs(SPINE, what, starts=(0, "1 s"), cost="wire")
    sim.run()
    assert np.allclose(sim.result.jobs(alone=True).slowdown, 1, rtol=2e-3)
    assert sim.engine.machine.routes.shared.any()
    alone = anb.Simulation(
        SPINE, jobs=[anb.Job(what, ranks=HALVES[0])], fidelity="congestion", cost="wire", record=False
    )
    alone.run()
    assert not alone.engine.machine.routes.shared.any()
    assert alone.now_ps == pytest.approx(int(sim.result.jobs().duration_ps[0]), rel=2e-3)


@pytest.mark.parametrize("infra", ["clos:servers=2", "rails:servers=2", "clos:servers=4"])
def test_an_exchange_takes_what_its_nics_need(infra):
    size = 2**26
    sim = anb.Simulation(infra, anb.all_to_all(size), fidelity="congestion", cost="wire", record=False)
    sim.run()
    ranks = 8 * int(infra[-1])
    bound_us = size * (ranks - 8) / ranks / 50e9 * 1e6  # NICs of 400 Gb/s
    assert bound_us < sim.now_us < 1.02 * bound_us


def test_a_short_message_passes_long_ones():
    """Two GPUs keep a third one's link busy; a short message comes between their quanta."""
    network, long, short = InfraNetwork(blueprint("clos:servers=4")), 2**26, 2**16
    late = {"kind": COMPUTE, "duration_ns": 100_000}
    ranks = [Operations.of([late])] * 32
    ranks[8] = Operations.of([{"kind": SEND, "peer": 0, "bytes": long}])
    ranks[16] = Operations.of([{"kind": SEND, "peer": 0, "bytes": long}])
    ranks[24] = Operations.of([late, {"kind": SEND, "peer": 0, "bytes": short}], deps=[[], [0]])
    ranks[0] = Operations.of(
        [{"kind": RECV, "peer": peer, "bytes": size} for peer, size in ((8, long), (16, long), (24, short))]
    )
    run = Run(Workload(ranks, network, System.from_document({})), congestion=True)
    run.finish()
    end_ns = run.result().end_ns
    alone_ns = long / 50  # by a NIC of 400 Gb/s
    for rank in (8, 16):
        assert end_ns[rank] == pytest.approx(2 * alone_ns, rel=0.05)
    assert 100_000 < end_ns[24] < 100_000 + 0.2 * alone_ns


@settings(max_examples=15, deadline=None)
@given(
    first=st.integers(0, 6000),
    wait=st.integers(0, 3000),
    name=st.sampled_from(["all_to_all", "all_gather"]),
    again=st.booleans(),
)
def test_quanta_arrive_once_by_other_routes_too(first, wait, name, again):
    sim = two_jobs(SPINES, getattr(anb, name)("2 MiB"), cost="wire")
    whole = sim.fork()
    whole.run()
    sim.step(first)
    sim.take_down(UPLINK)
    sim.reroute()
    sim.step(wait)
    if again:
        sim.set(f"{UPLINK}.up", value=True)
        sim.reroute()
    state, events = sim.state_hash(), sim.events
    sim.run()
    end = sim.state_hash()
    mine, other = (one.engine.machine for one in (sim, whole))
    for field in ("messages", "bytes", "delivered"):
        assert mine.clock[0][field] == other.clock[0][field]
    assert len(t.in_use(mine, "messages")) == 0
    sim.back(sim.events - events)
    assert sim.state_hash() == state
    sim.run()
    assert sim.state_hash() == end


@pytest.mark.parametrize("name", ["all_to_all", "all_reduce"])
def test_no_link_carries_more_than_it_can(name):
    sim = two_jobs(SPINE, getattr(anb, name)("4 MiB"), cost="wire")
    sim.run()
    machine = sim.engine.machine
    needed_ns = machine.used.bytes / machine.wires.rate_Bpns
    assert (needed_ns <= sim.now_ps / 1000).all()
    uplink = needed_ns.max()
    assert uplink > 0.9 * sim.now_ps / 1000  # and the one that all share is hardly ever idle
    assert (machine.used.messages[machine.used.bytes > 0] <= machine.clock[0].messages).all()


WIDE = "clos:servers=2,spines=1,spine_bandwidth=3200"
DOWNLINK = "spinesw.0.port.0->leafsw.0.port.8"


def test_links_are_shared_once_they_are_made_slow():
    """A spine as wide as all NICs is shared by nobody; made slower during a run, it is, and alike."""
    sim = two_jobs(WIDE, anb.collectives.all_gather("64 MiB", "ring"), cost="wire")
    sim.step(40)
    before = sim.state_hash()

    def make(bandwidth: str) -> None:
        for link in (UPLINK, DOWNLINK):
            sim.set(f"{link}.bandwidth", bandwidth)

    assert not sim.engine.machine.routes.shared.any()
    make("100 Gb/s")
    assert sim.engine.machine.routes.shared.any()
    slow = sim.state_hash()
    sim.step(10)
    sim.back(10)
    assert sim.state_hash() == slow
    sim.run()
    lasting = sim.result.jobs()
    assert lasting.duration_ps.max() <= 1.05 * lasting.duration_ps.min()
    sim.reset()
    sim.step(40)
    make("100 Gb/s")
    make("3200 Gb/s")
    assert not sim.engine.machine.routes.shared.any()
    assert sim.state_hash() == before
