"""Laws of the times of kernels, on every GPU and precision."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.gpu import PRESETS
from astranb.workload.kernels import (
    GPUS,
    LAUNCHES,
    Attention,
    KernelTimes,
    Product,
    Stream,
    gpu_named,
    read_efficiency,
)

ALL = [KernelTimes(gpu, precision) for gpu in GPUS.values() for precision in gpu.peaks]
WITH_FP8 = [gpu for gpu in GPUS.values() if "fp8" in gpu.peaks]
SIZES = st.integers(1, 1 << 15)
KERNELS = st.one_of(
    st.builds(Product, SIZES, SIZES, SIZES, st.integers(1, 64), plain=st.booleans(), cast=st.booleans()),
    st.builds(
        lambda sequences, keys, heads, one: Attention(
            sequences, 1 if one else keys, keys, heads, heads, 128, 128
        ),
        st.integers(1, 64), SIZES, st.integers(1, 64), st.booleans(),
    ),
    st.builds(Stream, st.integers(1, 1 << 34), st.integers(1, 4)),
)  # fmt: skip


@settings(max_examples=200)
@given(st.sampled_from(ALL), SIZES, SIZES, SIZES, st.integers(1, 64))
def test_no_product_beats_the_roofline(times, m, n, k, copies):
    one = Product(m, n, k, copies)
    each = {"fp8": 1, "fp4": 9 / 16}.get(times.precision, 2)
    moved = copies * (int(each * (m * k + k * n)) + 2 * m * n)
    assert times.kernel_ns(one) >= times.roofline_ns(one.flops, moved) - 1


@settings(max_examples=300)
@given(st.sampled_from(ALL), SIZES, SIZES, SIZES, st.integers(1, 64), st.integers(1, 3000))
def test_a_larger_product_takes_no_less(times, m, n, k, copies, more):
    """In every dimension, tiles and waves included: a larger product has all waves of the smaller one."""
    took = times.kernel_ns(Product(m, n, k, copies))
    assert times.kernel_ns(Product(m + more, n, k, copies)) >= took
    assert times.kernel_ns(Product(m, n + more, k, copies)) >= took
    assert times.kernel_ns(Product(m, n, k + more, copies)) >= took
    assert times.kernel_ns(Product(m, n, k, copies + more)) >= took


@settings(max_examples=100)
@given(st.sampled_from(ALL), st.integers(1, 64), st.integers(1, 1 << 15), st.sampled_from([1, 4, 8]))
def test_attention_takes_at_least_its_operations_and_its_bytes(times, sequences, keys, share):
    for queries in (1, keys):
        one = Attention(sequences, queries, keys, 32, 32 // share, 128, 128)
        for each in (one, *one.backward()):
            assert isinstance(each, Attention)
            least = max(
                each.flops * 1e9 / times.gpu.peaks["bf16"], 2 * each.numbers * 1e9 / times.gpu.memory_Bps
            )
            assert times.kernel_ns(each) >= least - 1


@settings(max_examples=100)
@given(st.integers(2, 3000), SIZES, SIZES)
def test_fp8_on_mi300x_does_not_split_k(m, n, k):
    times = KernelTimes(GPUS["mi300x"], "fp8")
    found, longer = (times.kernel_ns(Product(m, n, each, cast=False)) for each in (k, 2 * k))
    # A wave of the fastest tile has to pass over all of k, at no more than a multiprocessor's peak.
    assert found >= 2 * 16 * 64 * k * 1e9 * 304 / times.peak_flops
    assert longer <= 2 * found
    alone = times.kernel_ns(Product(1, n, k, cast=False))
    assert alone <= times.kernel_ns(Product(2, n, k, cast=False))


def test_waves_of_tiles():
    """One more tile than multiprocessors takes another wave, unless smaller tiles or a split are better."""
    times = KernelTimes(GPUS["h100-sxm"])
    full = times.kernel_ns(Product(12 * 256, 11 * 128, 8192))
    more = times.kernel_ns(Product(12 * 256 + 1, 11 * 128, 8192))
    assert 1.02 * full < more < 2 * full
    assert times.kernel_ns(Product(1, 8192, 8192)) < 0.1 * times.kernel_ns(Product(8192, 8192, 8192))


def test_what_an_efficiency_does():
    gpu, one = GPUS["h100-sxm"], Product(8192, 8192, 8192)
    ideal = KernelTimes(gpu, efficiency=1.0).computation_ns(one.flops, 0, [one])
    assert ideal == -(-one.flops // 989_000)
    assert KernelTimes(gpu, efficiency=0.8).computation_ns(one.flops, 0, [one]) == round(ideal / 0.8)
    assert KernelTimes(gpu, efficiency=1.0).computation_ns(0, 3350, []) == 1
    # What a mask spares is no operation: half of those that a report counts.
    masked = Attention(1, 8192, 8192, 32, 8, 128, 128)
    assert KernelTimes(gpu, efficiency=1.0).computation_ns(2 * masked.flops, 0, [masked]) == pytest.approx(
        masked.flops / 989_000, abs=1
    )


@settings(max_examples=200)
@given(st.sampled_from(ALL), st.lists(KERNELS, max_size=6), st.integers(0, 1 << 50), st.integers(0, 1 << 40))
def test_the_ideal_is_a_lower_bound_and_an_efficiency_divides_it(times, kernels, flops, touched):
    ideal = KernelTimes(times.gpu, times.precision, efficiency=1.0)
    least = ideal.computation_ns(flops, touched, kernels)
    if kernels:
        assert times.computation_ns(flops, touched, kernels) >= least - len(kernels)
        shorter = KernelTimes(times.gpu, times.precision, sustained=1.0)
        assert shorter.computation_ns(flops, touched, kernels) >= least - len(kernels)
    for part in (0.8, 0.35):
        scaled = KernelTimes(times.gpu, times.precision, efficiency=part)
        assert scaled.computation_ns(flops, touched, kernels) == round(least / part)


@settings(max_examples=200)
@given(SIZES, SIZES, SIZES, st.integers(1, 64), st.sampled_from(WITH_FP8))
def test_fp8_is_slower_than_bf16_by_no_more_than_the_cast(m, n, k, copies, gpu):
    """The cast reads its input twice, for the scale too, and writes it twice, once transposed."""
    one = Product(m, n, k, copies)
    eight, sixteen = KernelTimes(gpu, "fp8"), KernelTimes(gpu)
    # Small products have more waves where k is not split in fp8.
    assert eight.kernel_ns(replace(one, cast=False)) <= sixteen.kernel_ns(one) or gpu.fp8_tiles
    cast = eight.kernel_ns(one) - eight.kernel_ns(replace(one, cast=False))
    assert cast == pytest.approx(eight.kernel_ns(Stream(6 * m * k * copies)), abs=2)
    assert eight.kernel_ns(replace(one, plain=True)) == sixteen.kernel_ns(one)


def test_fp4_has_its_rate_its_bytes_and_its_cast():
    """NVFP4: nine bytes for sixteen numbers (OCP's e2m1 with a scale of a byte), read twice to be cast."""
    gpu = GPUS["gb300"]
    eight, four = KernelTimes(gpu, "fp8"), KernelTimes(gpu, "fp4")
    large = Product(8192, 8192, 8192, cast=False)
    assert four.moved(large) == 2 * 8192**2 * 9 // 16 + 2 * 8192**2
    rates = [gpu.peaks[one] * gpu.matrices[one] for one in ("fp8", "fp4")]
    assert eight.tile(large).product_ns / four.tile(large).product_ns == pytest.approx(rates[1] / rates[0])
    assert four.cast_size(large) == 8192**2 * 2 * 2 + 8192**2 * 9 // 8
    assert four.casts(replace(large, cast=True))
    assert not four.casts(replace(large, cast=True, plain=True))
    assert four.kernel_ns(replace(large, plain=True)) == KernelTimes(gpu).kernel_ns(large)
    with pytest.raises(InputError, match="h100-sxm does not compute in fp4"):
        KernelTimes(GPUS["h100-sxm"], "fp4")


@pytest.mark.parametrize("name", ["h100-sxm", "b200-sxm", "gb300", "mi300x"])
def test_attention_in_fp8_is_faster_by_what_the_gpu_file_says(name):
    times, one = KernelTimes(GPUS[name]), Attention(1, 8192, 8192, 32, 8, 128, 128)
    for each in (one, *one.backward()):
        assert isinstance(each, Attention)
        eight = times.attended_ns(replace(each, version=8))
        assert times.attended_ns(each) / eight == pytest.approx(GPUS[name].attention_8)
    assert GPUS["gb300"].attention_8 > 1 == GPUS["mi300x"].attention_8


def test_a_gradient_is_cast_once_and_frozen_parameters_have_none():
    inward, own, added = Product(64, 128, 256).backward()
    assert isinstance(inward, Product)
    assert isinstance(own, Product)
    assert (inward.cast, own.cast, own.sums) == (True, False, True)
    assert isinstance(added, Stream)
    assert Product(64, 128, 256, frozen=True).backward() == (replace(inward, frozen=True),)


@settings(max_examples=100)
@given(st.sampled_from(list(GPUS.values())), st.lists(KERNELS, min_size=1, max_size=6))
def test_launches_only_add_time_and_less_in_a_graph(gpu, kernels):
    none, graph, stream = (KernelTimes(gpu, launch=name) for name in LAUNCHES)
    took = [times.computation_ns(0, 0, kernels) for times in (none, graph, stream)]
    assert took == sorted(took)
    count = sum(one.launches if isinstance(one, Stream) else 1 for one in kernels)
    assert took[2] == max(took[0], count * gpu.stream_ns)
    assert none.waiting_ns(kernels) == 0


def test_spellings():
    assert [read_efficiency(one) for one in (None, "kernels", "ideal", "0.5")] == [None, None, 1.0, 0.5]
    for bad in ("0", "2", "nan", "fast"):
        with pytest.raises(InputError, match="unknown efficiency"):
            read_efficiency(bad)
    assert gpu_named("h100") is gpu_named("h100-sxm")
    with pytest.raises(InputError, match="no GPU 'tpu'"):
        gpu_named("tpu")
    with pytest.raises(InputError, match="a100-sxm does not compute in fp8"):
        KernelTimes(GPUS["a100-sxm"], "fp8")
    with pytest.raises(InputError, match="unknown launch 'eager'"):
        KernelTimes(GPUS["a100-sxm"], launch="eager")


def test_gpus_of_presets_have_the_presets_numbers():
    for name in set(GPUS) & set(PRESETS):
        assert GPUS[name].sms == PRESETS[name].sms


def test_stream_k_never_takes_longer_and_ends_the_last_wave_early():
    """If nine tenths of the last wave are empty, a product takes little more than whole waves."""
    for gpu in ("a100-sxm", "h100-sxm", "mi300x"):
        plain = KernelTimes(GPUS[gpu], sustained=1.0)
        shared = KernelTimes(GPUS[gpu], sustained=1.0, stream_k=True)
        for rows in range(1, 60, 7):
            one = Product(rows * 128, 4096, 8192)
            assert shared.kernel_ns(one) <= plain.kernel_ns(one)
            best = shared.tile(one)
            tiles = -(-one.m // best.rows) * -(-one.n // best.columns)
            if best.even:
                assert tiles > GPUS[gpu].sms
                assert best.product_ns >= one.flops / (best.flops_per_ns * GPUS[gpu].sms)
    waves = 4 * GPUS["h100-sxm"].sms
    full, more = Product(128 * waves, 128, 16384), Product(128 * (waves + 13), 128, 16384)
    assert KernelTimes(GPUS["h100-sxm"]).tile(full).even is False
    times = KernelTimes(GPUS["h100-sxm"], stream_k=True)
    assert times.tile(more).product_ns < 1.1 * times.tile(full).product_ns
