"""Synthesised algorithms: right in every network, and near the bound."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import read_algorithm, verify
from astranb.core.errors import InputError
from astranb.explore import Condition, synthesize
from astranb.explore.synthesis.condition import SYNTHESIZED, condition_of
from astranb.explore.synthesis.network import rank_network

from .support import faults_of, networks

SIX = {
    "ring": "ring:gpus=8",
    "mesh": "mesh2d:rows=4,columns=4",
    "torus": "torus2d:rows=4,columns=4",
    "fully connected": "fully-connected:gpus=8",
    "DGX": "dgx-h100",
    "two-box rail": "rails:servers=2",
}


@settings(max_examples=12)
@given(networks(), st.sampled_from(SYNTHESIZED), st.integers(1, 3), st.integers(0, 5))
def test_every_network_gets_a_right_algorithm_not_better_than_the_bound(drawn, collective, slices, seed):
    infra, down = drawn
    try:
        found = synthesize(infra, collective, "64 KiB", slices=slices, trials=1, seed=seed, down=down)
    except InputError as error:
        assert "do not reach each other both ways" in str(error)  # noqa: PT017 - or there is no error
        assert len(rank_network(infra, down).parts()) > 1
        return
    assert faults_of(found.schedule) == []
    assert found.verify() == []
    assert found.time_ps >= found.bound_ps


@settings(max_examples=12)
@given(networks(), st.booleans(), st.data())
def test_every_condition_is_met(drawn, reduces, data):
    infra, _ = drawn
    ranks = rank_network(infra).ranks
    chunks = data.draw(st.integers(1, 4))
    holders = {c: data.draw(st.sets(st.integers(0, ranks - 1), min_size=1)) for c in range(chunks)}
    takers = {c: data.draw(st.sets(st.integers(0, ranks - 1), min_size=1)) for c in range(chunks)}
    before, after = (
        {rank: [c for c in range(chunks) if rank in side[c]] for rank in range(ranks)}
        for side in (holders, takers)
    )
    found = synthesize(infra, Condition(before, after, reduces=reduces), "8 KiB", slices=2, trials=1)
    assert faults_of(found.schedule) == []
    assert found.verify() == []
    assert found.time_ps >= found.bound_ps


def test_a_wrong_schedule_of_a_condition_is_found():
    condition = Condition({0: [0], 1: [1]}, {1: [0, 1], 0: [0, 1]})
    found = synthesize("ring:gpus=2", condition, "8 KiB", slices=1, trials=1)
    program = found.program
    layout = program.layout
    assert layout is not None
    program.layout = dataclasses.replace(layout, held=layout.held[::-1].copy())
    assert verify(program, "custom")[0].kind == "result"


_SLICES = {"all_gather": 4, "reduce_scatter": 8, "all_reduce": 8, "broadcast": 32, "all_to_all": 8}


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("collective", _SLICES)
def test_named_topologies_are_within_ten_per_cent_of_the_bound(name, collective):
    found = synthesize(SIX[name], collective, "1 GiB", slices=_SLICES[collective], trials=3)
    assert 1 <= found.slower < 1.1
    assert faults_of(found.schedule) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("collective", [c for c in SYNTHESIZED if c != "send_recv"])
def test_what_is_found_by_default_is_near_the_bound_and_right(name, collective):
    found = synthesize(SIX[name], collective, "1 GiB")
    assert 1 <= found.slower < 1.1
    assert faults_of(found.schedule) == []
    assert synthesize(SIX[name], collective, "1 GiB", slices=2, trials=1).verify() == []


@pytest.mark.slow
@pytest.mark.parametrize("infra", ["torus2d:rows=8,columns=8", "mesh2d:rows=6,columns=8", "ring:gpus=32"])
@pytest.mark.parametrize(
    "collective", ["all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all"]
)
def test_larger_topologies_are_near_the_bound(infra, collective):
    found = synthesize(infra, collective, "4 GiB", trials=2)
    assert 1 <= found.slower < 1.1


def test_chunks_on_their_way_use_what_others_leave():
    # A rank has seven links to the others, of which its neighbour's is one: 1/4 of a chunk goes that way.
    found = synthesize("fully-connected:gpus=8", "send_recv", "64 MiB", slices=64, trials=1)
    assert found.limit.bandwidth_ps - 500_000 == pytest.approx(2**26 / 50e9 * 1e12 / 4, rel=2e-3)
    assert found.slower < 1.1
    assert faults_of(found.schedule) == []


def test_a_torus_of_128_ranks_is_near_the_bound():
    found = synthesize("torus2d:rows=8,columns=16", "all_gather", trials=1)
    assert found.slower < 1.05
    assert len(found.schedule.edge) == 128 * 127


def test_a_seed_gives_the_same_algorithm():
    one, same, other = (synthesize("torus2d", "all_gather", slices=2, trials=1, seed=s) for s in (3, 3, 4))
    assert np.array_equal(one.schedule.chunk, same.schedule.chunk)
    assert not np.array_equal(one.schedule.chunk, other.schedule.chunk)


@pytest.mark.parametrize("collective", ["all_gather", "all_reduce", "all_to_all"])
@pytest.mark.parametrize("ending", ["json", "xml"])
def test_a_file_is_read_back(tmp_path, collective, ending):
    found = synthesize("mesh2d:rows=2,columns=3", collective, "192 KiB", slices=2, trials=2)
    file = tmp_path / f"algorithm.{ending}"
    found.write(file)
    plan = read_algorithm(file)
    assert plan.collective == collective
    again = anb.collectives.Collective.of(collective, "192 KiB", plan)
    assert verify(again.program(6), collective) == []


@pytest.mark.parametrize("infra", ["ring:gpus=4", "rails:servers=2"])
def test_it_is_simulated_by_cache_lines(infra):
    found = synthesize(infra, "all_reduce", "256 KiB", slices=2, trials=1, protocol="Simple")
    sim = anb.Simulation(infra, found.collective)
    sim.run()  # the result is checked
    assert sim.finished
    assert sim.now_ps > found.bound_ps


@pytest.mark.parametrize("protocol", ["LL", "LL128"])
@pytest.mark.parametrize("infra", ["torus2d:rows=3,columns=3", "dgx-h100"])
def test_small_sizes_are_faster_by_packets(infra, protocol):
    times = {}
    for how in ("Simple", protocol):  # chunks of unequal slices, in the torus
        found = synthesize(infra, "all_reduce", "36 KiB", slices=2, trials=1, protocol=how)
        assert found.verify() == []
        sim = anb.Simulation(infra, found.collective)
        sim.run()  # the result is checked
        times[how] = sim.now_ps
    assert times[protocol] < 0.7 * times["Simple"]


def test_the_protocol_follows_from_the_size():
    small, large = (synthesize("dgx-h100", "all_gather", size, trials=1) for size in ("4 KiB", "64 MiB"))
    assert (small.protocol, large.protocol) == ("LL", "Simple")


@pytest.mark.parametrize("reduces", [False, True])
def test_a_condition_is_simulated_and_its_result_checked(reduces):
    before = {0: [0, 1], 1: [1]} if reduces else {0: [0], 1: [1]}
    found = synthesize(
        "ring:gpus=4", Condition(before, {3: [0, 1], 2: [1]}, reduces=reduces), "32 KiB", trials=1
    )
    sim = anb.Simulation("ring:gpus=4", found.collective)
    sim.run()
    assert sim.finished


def test_a_failed_link_is_left_alone():
    found = synthesize("ring:gpus=4", "all_gather", "1 MiB", down=["gpu[0]->gpu[1]"], protocol="Simple")
    sends = set(zip(found.schedule.source.tolist(), found.schedule.target.tolist(), strict=True))
    assert not {(0, 1), (1, 0)} & sends
    assert found.verify() == []
    ring = anb.infragraph.blueprint("ring:gpus=4").without("gpu[0]->gpu[1]")
    sim = anb.Simulation(ring, found.collective)
    sim.run()
    assert sim.finished
    assert sim.now_ps < 2 * found.expected_ps


def test_conditions_of_collectives_are_what_the_library_promises():
    for name in SYNTHESIZED:
        condition = condition_of(name, 4, root=0)
        kind = anb.collectives.COLLECTIVES[name]
        whole = [len(tuple(condition.after.get(rank, ()))) for rank in range(4)]
        assert max(whole) == kind.output_chunks(4)
        assert max(len(tuple(chunks)) for chunks in condition.before.values()) == kind.input_chunks(4)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: synthesize("ring:gpus=4", "barrier"), "no algorithm can be synthesised for 'barrier'"),
        (lambda: synthesize("ring:gpus=4", "all_gathr"), "did you mean 'all_gather'"),
        (lambda: synthesize("ring:gpus=4", "broadcast", root=4), "root 4 is not a rank"),
        (lambda: synthesize("ring:gpus=4", "all_gather", trials=0), "trials must be a whole number from 1"),
        (lambda: synthesize("ring:gpus=4", "all_gather", protocol="LL64"), "unknown protocol 'LL64'"),
        (lambda: synthesize("ring:gpus=4", "all_gather", "0 B"), "size must be at least 1 B"),
        (lambda: synthesize("switch:gpus=1", "all_gather"), "one rank has nobody to send to"),
        (lambda: synthesize("ring:gpus=4", "all_gather", down=["a->b"]), "unknown object 'a'"),
        (lambda: Condition({0: [0]}, {}), "no rank needs a chunk"),
        (lambda: Condition({0: [0]}, {1: [1]}), "rank 1 needs chunk 1, which no rank has"),
        (lambda: Condition({0: [-1]}, {1: [1]}), "-1 in before is no number from 0"),
        (lambda: synthesize("ring:gpus=4", Condition({0: [0]}, {7: [0]})), "rank 7 does not exist"),
        (lambda: synthesize("rails:servers=2", "all_gather", exact=True), "too many for an exact solution"),
    ],
)
def test_what_cannot_be_is_one_clear_line(call, error):
    with pytest.raises(InputError, match=error) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_an_infrastructure_that_is_not_connected_names_its_parts():
    down = [f"gpu[{a}]->gpu[{b}]" for a, b in ((1, 2), (2, 1), (3, 0), (0, 3))]
    with pytest.raises(
        InputError, match="2 parts that do not reach each other both ways: ranks 0 to 1, ranks 2 to 3"
    ):
        synthesize("ring:gpus=4", "all_gather", down=down)
    inside = Condition({0: [0]}, {1: [0]})
    assert synthesize("ring:gpus=4", inside, "4 KiB", down=down).verify() == []


def test_an_algorithm_runs_only_what_it_is_for():
    found = synthesize("ring:gpus=4", "broadcast", "64 KiB", root=1, trials=1)
    with pytest.raises(InputError, match="it is for root 1, not 0"):
        anb.collectives.broadcast("64 KiB", found.algorithm).program(4)
    with pytest.raises(InputError, match="it is for broadcast, not all_reduce"):
        anb.collectives.all_reduce("64 KiB", found.algorithm).program(4)
    with pytest.raises(InputError, match="it is for ranks: 4, not 5"):
        anb.collectives.broadcast("64 KiB", found.algorithm, root=1).program(5)
