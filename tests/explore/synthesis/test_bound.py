"""Bounds and exact solutions, against figures computed by hand and against each other."""

from __future__ import annotations

import pytest

from astranb.explore import synthesize
from astranb.explore.synthesis.bound import speed_limit
from astranb.explore.synthesis.condition import condition_of
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
