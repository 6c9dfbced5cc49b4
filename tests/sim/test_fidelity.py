"""Orderings that measurements show, whatever the figures (docs/fidelity.md)."""

import json
from pathlib import Path

import pytest

import astranb as anb
from astranb.collectives import Collective
from benchmarks.fidelity import simulate

DATA = Path(__file__).parents[1] / "data"
PUBLISHED = json.loads((DATA / "published.json").read_text())


def time_us(infra, kind, size, algorithm, protocol="Simple", **rest):
    wanted = Collective.of(kind, size, algorithm, protocol=protocol, **rest)
    sim = anb.Simulation(infra, wanted, record=False, checkpoint_bytes=0)
    sim.run()
    return sim.result.time_ps / 1e6


def test_packets_win_when_small():
    """A hop of Simple takes 3.4 µs on H100 (NCCL @5067397c, src/graph/tuning.cc).

    One of LL 0.74: 16.9 µs of 1 KiB (h100-ar-dgxc) less the base latency of 6.6, over 14 hops.
    """
    ll, simple = (time_us("dgx-h100", "all_reduce", "1 KiB", "ring", p) / 14 for p in ("LL", "Simple"))
    assert ll == pytest.approx(0.74, rel=0.1)
    assert 2 < simple < 3.5


def test_one_shot_wins_only_when_small():
    """vLLM's one- and two-stage kernels cross between 0.5 and 1 MiB on 6 GPUs (vllm#24111)."""
    small = [time_us("dgx-h100", "all_reduce", "1 KiB", a, "LL") for a in ("allpairs_oneshot", "allpairs")]
    large = [time_us("dgx-h100", "all_reduce", "1 MiB", a) for a in ("allpairs_oneshot", "allpairs")]
    assert small[0] < small[1]
    assert large[0] > large[1]


def test_a_switch_gains_with_more_gpus_and_a_ring_does_not():
    """Bus bandwidth by NVLS rises with more than four GPUs, a ring's stays (NCCL#1455)."""

    def busbw(algorithm, gpus):
        took = time_us(f"generic:gpus={gpus}", "all_reduce", "1 MiB", algorithm, channels=32)
        return 2 * (gpus - 1) / gpus / took

    assert busbw("switch", 8) > busbw("switch", 4) > busbw("switch", 2)
    assert busbw("switch", 8) / busbw("switch", 4) > busbw("ring", 8) / busbw("ring", 4)


SMALL = [group for group in PUBLISHED["groups"] if not group["points"][0][0].endswith("GiB")]


@pytest.mark.parametrize("group", SMALL, ids=lambda g: f"{g['name']}, {g['collective']}")
def test_every_group_of_published_points_can_be_run(group):
    """The table itself is made by the benchmarks; here its smallest point, without what is fitted."""
    size, published_us, _ = group["points"][0]
    assert published_us / 10 < simulate(group, size) < 1.25 * published_us


@pytest.mark.parametrize(
    "size, faster", [("8 KiB", True), ("64 KiB", True), ("512 KiB", False), ("1 MiB", False)]
)
def test_one_shot_is_faster_below_about_a_quarter_of_a_mebibyte(size, faster):
    """vLLM (custom_all_reduce.cuh) takes one shot on 8 GPUs below 256 KiB, and two from there on."""
    one, two = (
        time_us("dgx-h100", "all_reduce", size, algorithm, "Simple")
        for algorithm in ("allpairs_oneshot", "allpairs_get")
    )
    assert (one < two) == faster
