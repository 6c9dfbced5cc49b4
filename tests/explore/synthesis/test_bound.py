"""Bounds and exact solutions, against figures computed by hand and against each other."""

from __future__ import annotations

import pytest

from astranb.explore import synthesize
from astranb.explore.synthesis import bound, flows
from astranb.explore.synthesis.bound import speed_limit
from astranb.explore.synthesis.condition import condition_of
from astranb.explore.synthesis.flows import flows_of
from astranb.explore.synthesis.network import rank_network

from .support import faults_of

US = 10**6


@pytest.mark.parametrize(
    "infra, collective, chunks, links_GBps, latency_ns",
    [
        # Chunks of 1 MB that cross the worst cut, and what its links carry.
        ("ring:gpus=8", "all_gather", 7, 100, 500),
        ("ring:gpus=8", "reduce_scatter", 7, 100, 500),
        ("ring:gpus=8", "broadcast", 8, 100, 500),
        ("mesh2d:rows=4,columns=4", "all_gather", 15, 100, 500),  # a corner
        ("torus2d:rows=4,columns=4", "all_gather", 15, 200, 500),
        ("fully-connected:gpus=8", "all_to_all", 7, 350, 500),
        ("dgx-h100", "all_gather", 7, 450, 100),
        ("dgx-h100", "scatter", 7, 450, 100),
        # 8 chunks of a broadcast over 8 NICs of 400 Gbps, from box to box.
        ("rails:servers=2", "broadcast", 8, 400, 0),
    ],
)
def test_bounds_by_hand(infra, collective, chunks, links_GBps, latency_ns):  # noqa: N803 - unit
    network = rank_network(infra)
    limit = speed_limit(network, condition_of(collective, network.ranks), 10**6)
    least = int(network.fabric.links["latency_ps"].min())
    assert limit.bandwidth_ps - least == pytest.approx(chunks * 1000 * US / links_GBps, abs=2)
    assert latency_ns * 1000 == least


@pytest.mark.parametrize(
    "infra, hops",
    [
        # Chunks of 1 MB that an average link of 50 GB/s carries: hops of all pairs over links.
        ("ring:gpus=8", 8 * (1 + 1 + 2 + 2 + 3 + 3 + 4) / 16),
        ("torus2d:rows=4,columns=4", 16 * 32 / 64),
        # Half of the ranks send to the other half over 4, or 8, links: more than links carry on average.
        ("mesh2d:rows=4,columns=4", 8 * 8 / 4),
        ("mesh2d:rows=4,columns=8", 16 * 16 / 4),
        # 64 chunks leave a box by 8 NICs.
        ("rails:servers=2", 64 / 8),
    ],
)
def test_all_to_all_shares_links_on_its_way(infra, hops):
    network = rank_network(infra)
    limit = speed_limit(network, condition_of("all_to_all", network.ranks), 10**6)
    least = int(network.fabric.links["latency_ps"].min())
    assert (limit.bandwidth_ps - least) / (20 * US) == pytest.approx(hops, rel=2e-3)
    assert limit.bandwidth_ps - least <= 20 * US * hops


@pytest.mark.parametrize("infra", ["ring:gpus=6", "torus2d:rows=3,columns=3", "rails:servers=2"])
@pytest.mark.parametrize("collective", ["all_to_all", "gather", "send_recv"])
def test_multiplicative_weights_are_a_bound_below_the_linear_program(monkeypatch, infra, collective):
    network = rank_network(infra)
    condition = condition_of(collective, network.ranks)
    exact = flows_of(network, condition)
    monkeypatch.setattr(flows, "_MOST_VARIABLES", 0)
    approximate = flows_of(network, condition)
    assert exact is not None
    assert approximate is not None
    assert 0.3 * exact.least < approximate.least <= exact.least * 1.002
    assert approximate.ways.keys() == exact.ways.keys()


def test_of_many_ranks_a_few_are_sampled(monkeypatch):
    # Two rings of five that two links join: five chunks cross each link, not those of one rank.
    network = rank_network("mesh2d:rows=2,columns=9", down=["gpu[4]->gpu[5]"])
    condition = condition_of("all_gather", network.ranks)
    exact = speed_limit(network, condition, 10**6)
    monkeypatch.setattr(bound, "_MOST_RANKS", 4)
    monkeypatch.setattr(bound, "_SAMPLED", 4)
    sampled = speed_limit(network, condition, 10**6)
    assert (exact.cuts, sampled.cuts) == ("all", "sampled")
    assert sampled.bandwidth_ps == exact.bandwidth_ps == 10 * 20 * US + 500_000
    assert len(exact.cut) not in (1, 17)


def test_the_end_of_a_line_is_a_bottleneck():
    # A ring without one of its links is a line, at whose ends are ranks 3 and 4.
    network = rank_network("ring:gpus=8", down=["gpu[3]->gpu[4]"])
    limit = speed_limit(network, condition_of("all_gather", 8), 10**6)
    assert limit.bandwidth_ps == 7 * 20 * US + 500_000  # an end gets all over one link
    assert limit.cut in ((0, 1, 2, 3, 5, 6, 7), (0, 1, 2, 4, 5, 6, 7))


def test_an_all_reduce_takes_both_halves():
    network = rank_network("ring:gpus=4")
    parts = [speed_limit(network, condition_of(c, 4), 10**6) for c in ("reduce_scatter", "all_gather")]
    both = speed_limit(network, condition_of("all_reduce", 4), 10**6)
    assert both.bandwidth_ps == sum(part.bandwidth_ps for part in parts)
    assert both.latency_ps == sum(part.latency_ps for part in parts) == 2 * 2 * 500_000


def test_latency_bounds_small_sizes():
    found = synthesize("ring:gpus=8", "all_gather", "64 B", trials=1)
    assert found.bound_ps == 4 * 500_000
    assert found.limit.bandwidth_ps < found.limit.latency_ps


@pytest.mark.parametrize(
    "infra, collective, steps",
    [
        ("ring:gpus=4", "all_gather", 2),  # three chunks over two links
        ("ring:gpus=5", "all_gather", 2),
        ("ring:gpus=6", "all_gather", 3),
        ("mesh2d:rows=2,columns=3", "all_gather", 3),  # five chunks over the two links of a corner
        ("fully-connected:gpus=4", "all_to_all", 1),
        ("ring:gpus=4", "reduce_scatter", 2),
        ("switch:gpus=4", "all_gather", 3),
        ("ring:gpus=4", "all_to_all", 2),  # 16 hops over 8 links
    ],
)
def test_the_fewest_steps_of_small_cases(infra, collective, steps):
    exact = synthesize(infra, collective, "6 MiB", slices=1, exact=True)
    schedule = exact.schedule
    wire_ps = -(-schedule.slice_bytes * 10**12 // int(schedule.network.rate_Bps[0]))
    assert len({*schedule.start_ps.tolist()}) >= steps
    assert steps * wire_ps < exact.time_ps < steps * (wire_ps + 10**6) + 1
    assert faults_of(schedule) == []
    assert exact.verify() == []
    drawn = synthesize(infra, collective, "6 MiB", slices=1)
    assert drawn.time_ps >= exact.time_ps - steps * 10**6
    if collective != "all_to_all":  # whose chunks only pass by: they take a step more
        assert drawn.time_ps < exact.time_ps + wire_ps
