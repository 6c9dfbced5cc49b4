"""Laws of the times of kernels, on every GPU and precision."""

from __future__ import annotations

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
SIZES = st.integers(1, 1 << 15)


@settings(max_examples=200)
@given(st.sampled_from(ALL), SIZES, SIZES, SIZES, st.integers(1, 64))
def test_no_product_beats_the_roofline(times, m, n, k, copies):
    one = Product(m, n, k, copies)
    each = 1 if times.precision == "fp8" else 2
    moved = copies * (each * (m * k + k * n) + 2 * m * n)
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


def test_waves_of_tiles():
    """One more tile than multiprocessors takes another wave, unless smaller tiles or a split are better."""
    times = KernelTimes(GPUS["h100-sxm"])
    full = times.kernel_ns(Product(12 * 256, 11 * 128, 8192))
    more = times.kernel_ns(Product(12 * 256 + 1, 11 * 128, 8192))
    assert 1.02 * full < more < 2 * full
    assert times.kernel_ns(Product(1, 8192, 8192)) < 0.1 * times.kernel_ns(Product(8192, 8192, 8192))


def test_what_an_efficiency_and_a_launch_do():
    gpu = GPUS["h100-sxm"]
    kernels = (Product(64, 64, 64), Stream(1000))
    ideal = KernelTimes(gpu, efficiency=1.0)
    assert ideal.computation_ns(989 * 10**9, 0, kernels) == 10**6
    assert KernelTimes(gpu, efficiency=0.8).computation_ns(989 * 10**9, 0, kernels) == 1_250_000
    took = [KernelTimes(gpu, launch=name).computation_ns(0, 0, kernels) for name in LAUNCHES]
    assert took == sorted(took)
    assert took[-1] == 2 * gpu.stream_ns


def test_spellings():
    assert [read_efficiency(one) for one in (None, "kernels", "ideal", "0.5")] == [None, None, 1.0, 0.5]
    for bad in ("0", "2", "nan", "fast"):
        with pytest.raises(InputError, match="no efficiency"):
            read_efficiency(bad)
    assert gpu_named("h100") is gpu_named("h100-sxm")
    with pytest.raises(InputError, match="no GPU 'tpu'"):
        gpu_named("tpu")
    with pytest.raises(InputError, match="no fp8 on a100-sxm"):
        KernelTimes(GPUS["a100-sxm"], "fp8")
    with pytest.raises(InputError, match="no launch 'eager'"):
        KernelTimes(GPUS["a100-sxm"], launch="eager")


def test_gpus_of_presets_have_the_presets_numbers():
    for name in set(GPUS) & set(PRESETS):
        assert GPUS[name].sms == PRESETS[name].sms
        assert GPUS[name].source
