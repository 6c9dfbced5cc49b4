"""Memory in two tiers: what lies where, and what kernels take for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.workload.kernels import (
    GPUS,
    Attention,
    Gpu,
    HybridMemory,
    KernelTimes,
    MemoryTier,
    Product,
    Stream,
)
from astranb.workload.models import Parallelism, workload

GB = 10**9
A100 = GPUS["a100-sxm"]
KERNELS = (
    Product(2048, 12288, 4096), Product(16, 4096, 4096), Attention(4, 1, 4096, 32, 32, 128, 128),
    Stream(10**9), Stream(10**8, sort="optimizer"), *Product(512, 4096, 1024).backward(),
)  # fmt: skip
_tiers = st.builds(
    MemoryTier, st.just(480 * GB), st.integers(10, 4000).map(lambda n: n * GB), st.integers(0, 5 * 10**6)
)
_held = st.fixed_dictionaries(
    {
        name: st.integers(0, 90 * GB)
        for name in ("weights", "gradients", "optimizer", "activations", "buffers")
    }
)
_BUFFERS = dict.fromkeys(("weights", "gradients", "optimizer", "activations", "buffers"), 0)
_placements = st.sampled_from(["evenly", "coldest"])
_efficiencies = st.sampled_from([None, 1.0, 0.5])


def _took(memory: HybridMemory, held: dict[str, int], efficiency: float | None, gpu: Gpu = A100) -> list[int]:
    """Return the times of kernels, and of computations."""
    times = KernelTimes(gpu, efficiency=efficiency, expanded=memory).holding(held)
    each = [times.kernel_ns(one) for one in KERNELS]
    return [*each, times.computation_ns(10**12, 10**10, KERNELS), times.computation_ns(10**9, 10**10, ())]


@settings(max_examples=30)
@given(_tiers, _held, _placements, _efficiencies, st.integers(1, 4000))
# Of an expansion faster than the GPU's own 2,039 GB/s: what lies there, 0.2 MB or half, is read sooner.
@example(MemoryTier(480 * GB, 3645 * GB), _BUFFERS | {"buffers": 85_899_550_038}, "evenly", None, 1)
@example(MemoryTier(480 * GB, 3645 * GB), _BUFFERS | {"buffers": 160 * GB}, "evenly", None, 1)
@example(MemoryTier(480 * GB, 2039 * GB), _BUFFERS | {"buffers": 160 * GB}, "evenly", None, 1)
def test_more_bandwidth_and_both_at_once_are_never_slower(tier, held, placement, efficiency, more):
    memory = HybridMemory(tier, placement=placement)
    faster = replace(memory, expanded=replace(tier, bandwidth_Bps=tier.bandwidth_Bps + more * GB))
    serial = _took(memory, held, efficiency)
    concurrent = _took(replace(memory, streaming="concurrent"), held, efficiency)
    for one, less in zip(serial, _took(faster, held, efficiency), strict=True):
        assert less <= one
    for one, less in zip(serial, concurrent, strict=True):
        assert less <= one
    # All of it in memory as fast as the faster of both is a bound.
    quicker = replace(A100, memory_Bps=max(A100.memory_Bps, tier.bandwidth_Bps))
    alone = _took(HybridMemory(tier, local_bytes=1 << 50), held, efficiency, quicker)
    for one, less in zip(serial, alone, strict=True):
        assert less <= one


@settings(max_examples=30)
@given(_held, _placements, st.integers(1, 4))
def test_what_is_held_is_in_one_of_both(held, placement, gpus):
    memory = HybridMemory(MemoryTier(4 * 480 * GB, 500 * GB), placement=placement, shared_by=gpus)
    split = memory.split(held, 80 * GB)
    total = sum(held.values())
    if total <= 80 * GB:
        assert split is None
        return
    assert split is not None
    assert split.expanded_bytes == total - 80 * GB
    out = sum(held[name] * part for name, part in split.fractions.items())
    assert out == pytest.approx(split.expanded_bytes, rel=1e-9)
    assert all(0 <= part <= 1 for part in split.fractions.values())


def test_the_times_are_those_of_the_formulas():
    """A quarter of 100 GB in memory of 500 GB/s, of 100 MB: 75 MB and 25 MB."""
    held = {"weights": 100 * GB}
    for streaming, seconds in (
        ("serial", 75e6 / 2039e9 + 25e6 / 500e9 + 2e-6),
        ("concurrent", max(75e6 / 2039e9, 25e6 / 500e9 + 2e-6)),
    ):
        memory = HybridMemory(MemoryTier(100 * GB, 500 * GB, 2 * 10**6), 75 * GB, streaming)
        times = KernelTimes(A100, efficiency=1.0, expanded=memory).holding(held)
        assert times.computation_ns(0, 10**8, ()) == np.ceil(seconds * 1e9)
        assert times.computation_ns(0, 10**8, (Stream(10**8),)) == np.ceil(seconds * 1e9)


def test_the_coldest_go_first():
    held = {"weights": 10, "gradients": 10, "optimizer": 60, "activations": 10, "cache": 0, "buffers": 1}
    memory = HybridMemory(MemoryTier(1000, 1000), placement="coldest")
    some, more = memory.split(held, 61), memory.split(held, 26)
    assert some is not None
    assert more is not None
    assert some.fractions == dict.fromkeys(held, 0.0) | {"optimizer": 0.5}
    assert more.fractions == dict.fromkeys(held, 0.0) | {"optimizer": 1.0, "activations": 0.5}
    times = KernelTimes(A100, expanded=memory)
    # Parameters are all in the GPU's memory: a product of them alone is as fast as without an expansion.
    assert sum(times.moved_parts(Product(1, 10**6, 10**4)).values()) == times.moved(Product(1, 10**6, 10**4))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_parts_of_what_is_moved_are_all_of_it(kernel):
    times = KernelTimes(A100)
    assert sum(times.moved_parts(kernel).values()) == times.moved(kernel)


def test_an_expansion_that_is_not_needed_changes_nothing():
    step = workload("gpt3-125m", Parallelism(data=2, tensor=2), gpu="a100-sxm")
    plain, expanded = anb.Simulation(step), anb.Simulation(step.expanded("480 GB, 500 GB/s"))
    plain.run()
    expanded.run()
    assert plain.now_ps == expanded.now_ps
    assert plain.state_hash() == expanded.state_hash()


def test_each_stage_has_its_own_part_of_the_expansion():
    memory = HybridMemory(MemoryTier.of("480 GB, 500 GB/s"), local_bytes=12 * GB)
    step = workload(
        "gpt3-1.3b", Parallelism(pipeline=2), batch=8, microbatches=4, gpu="a100-sxm", expanded_memory=memory
    )
    splits = [times.split for times in map(step.times_of, range(2)) if times is not None]
    held = [one.total for one in step.memory()]
    assert [one.expanded_bytes for one in splits if one is not None] == [one - 12 * GB for one in held]
    assert held[0] > held[1]
    durations = [one.sum() for one in step.durations_ns()]
    alone = [one.sum() for one in step.expanded(None).durations_ns()]
    assert all(both > own for both, own in zip(durations, alone, strict=True))


@pytest.mark.parametrize(
    "text, said",
    [
        ("480 GB", "is not a capacity, a bandwidth and a latency"),
        ("480 GB, 1, 2, 3", "is not a capacity"),
        ("0 GB, 500 GB/s", "without capacity or bandwidth"),
        ("480 GB, 500 GX/s", "GX/s"),
    ],
)
def test_a_tier_that_is_none_is_refused(text, said):
    with pytest.raises(InputError, match=said):
        MemoryTier.of(text)


@pytest.mark.parametrize(
    "more, said",
    [
        ({"streaming": "both"}, "unknown streaming 'both'"),
        ({"placement": "even"}, "unknown placement 'even'"),
        ({"shared_by": 0}, "0 GPUs"),
    ],
)
def test_values_out_of_range_are_refused(more, said):
    with pytest.raises(InputError, match=said):
        HybridMemory(MemoryTier(1, 1), **more)


def test_what_fits_in_neither_is_refused_with_what_is_missing():
    memory = HybridMemory(MemoryTier(10 * GB, 500 * GB), 80 * GB)
    with pytest.raises(
        InputError, match=r"needs 100.0 GB: 80.0 of the GPU and 10.0 expanded are 10.0 too few"
    ):
        memory.split({"weights": 100 * GB}, 1)


def test_cache_lines_have_no_expansion():
    step = workload("gpt3-125m", gpu="a100-sxm", expanded_memory="480 GB, 500 GB/s")
    with pytest.raises(InputError, match="a run by cache lines has no expanded memory"):
        step.operations(by_lines=True)
