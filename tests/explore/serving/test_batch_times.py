"""The time of an iteration: that of the same step, simulated."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.explore.algorithms.collective_times import CollectiveTimes
from astranb.explore.serving.batch_times import BatchTimes
from astranb.workload.kernels import GPUS, KernelTimes
from astranb.workload.models import Job, Parallelism, machine, workload
from astranb.workload.models.library import TRANSFORMERS
from astranb.workload.serving import Batch
from tests.workload.models.support import tiny


def batch_times(model, tensor, times, cache_bytes=2):
    step = workload(model, Parallelism(tensor=tensor), mode="decode", gpu=times, sequence=16)
    few, large = (
        machine(step, all_reduce=step.all_reduce, message_bytes=size) for size in (1 << 10, 1 << 30)
    )
    job = Job(
        Parallelism(tensor=tensor), 1, 1, mode="decode", precision=times.precision, cache_bytes=cache_bytes
    )
    larger = CollectiveTimes(large.network, large.system)
    return BatchTimes(model, job, times, CollectiveTimes(few.network, few.system, larger))


def simulated_ns(model, tensor, times, **more):
    step = workload(model, Parallelism(tensor=tensor), gpu=times, **more)
    sim = anb.Simulation(step)
    sim.run()
    return sim.result.time_ps / 1000


CASES = [
    ("llama3-8b", 1, "bf16", 2, None),
    ("llama3-8b", 4, "fp8", 1, None),
    ("llama3-70b", 8, "bf16", 2, None),
    ("gpt3-6.7b", 2, "bf16", 2, 1.0),
    ("mixtral-8x7b", 2, "bf16", 2, None),
    ("deepseek-v3", 8, "fp8", 1, None),
]


@pytest.mark.parametrize("name, tensor, precision, cache_bytes, efficiency", CASES)
def test_an_iteration_is_a_step_of_prefill_or_decode(name, tensor, precision, cache_bytes, efficiency):
    model = TRANSFORMERS[name]
    times = KernelTimes(GPUS["h200-sxm"], precision, efficiency=efficiency)
    found = batch_times(model, tensor, times, cache_bytes)
    options = {"precision": precision, "cache_bytes": cache_bytes}
    # Only sizes of collectives between those that are simulated are interpolated.
    prefill = simulated_ns(model, tensor, times, mode="prefill", sequence=512, **options)
    assert found.time(Batch(0, 0, ((512, 512),), 1)).total == pytest.approx(prefill, rel=0.01)
    decode = simulated_ns(model, tensor, times, mode="decode", batch=6, sequence=700, **options)
    assert found.time(Batch(6, 6 * 701)).total == pytest.approx(decode, rel=0.01)


def test_without_collectives_it_is_equal():
    model = TRANSFORMERS["llama3-8b"]
    times = KernelTimes(GPUS["a100-sxm"])
    found = batch_times(model, 1, times)
    assert found.time(Batch(0, 0, ((777, 777),), 1)).total == simulated_ns(
        model, 1, times, mode="prefill", sequence=777
    )
    assert found.time(Batch(3, 3 * 100)).total == simulated_ns(
        model, 1, times, mode="decode", batch=3, sequence=99
    )


@settings(max_examples=40, deadline=None)
@given(
    decodes=st.integers(0, 64),
    mean=st.integers(1, 4000),
    chunks=st.lists(st.tuples(st.integers(1, 512), st.integers(0, 2000)), max_size=4),
)
def test_more_of_anything_takes_no_less(decodes, mean, chunks):
    parts = tuple((count, before + count) for count, before in chunks)
    if not decodes and not parts:
        return
    found = batch_times(tiny(), 2, KernelTimes(GPUS["h100-sxm"]))
    one = found.time(Batch(decodes, decodes * mean, parts, len(parts)))
    assert one.total == sum(one) > 0
    assert min(one) >= 0
    more = found.time(Batch(decodes, decodes * (mean + 500), parts, len(parts)))
    assert more.total >= one.total
    longer = tuple((count, seen + 500) for count, seen in parts)
    assert found.time(Batch(decodes, decodes * mean, longer, len(parts))).total >= one.total
    # Outputs that are not needed are not computed.
    assert found.time(Batch(decodes, decodes * mean, parts, 0)).total <= one.total


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 3000), min_size=2, max_size=64))
def test_the_mean_length_stands_for_all(lengths):
    """Decoding attention at the mean of the lengths against a kernel of each sequence's keys: the bytes are
    equal up to rounding, and the rest differs by what adding parts of long contexts takes."""
    model, times = TRANSFORMERS["llama3-8b"], KernelTimes(GPUS["h100-sxm"])
    found = batch_times(model, 1, times)
    together = found.time(Batch(len(lengths), sum(lengths))).total
    low = found.time(Batch(len(lengths), len(lengths) * min(lengths))).total
    high = found.time(Batch(len(lengths), len(lengths) * max(lengths))).total
    assert low <= together <= high


def test_a_cache_in_fp8_is_read_in_half_of_the_time():
    model, times = TRANSFORMERS["llama3-8b"], KernelTimes(GPUS["h100-sxm"])
    batch = Batch(256, 256 * 4096)
    wide, narrow = (batch_times(model, 1, times, size).time(batch).attention for size in (2, 1))
    assert 1.8 < wide / narrow < 2


def test_few_tokens_read_few_experts():
    model, times = TRANSFORMERS["mixtral-8x7b"], KernelTimes(GPUS["h100-sxm"])
    found = batch_times(model, 2, times)
    one, many = (found.time(Batch(count, 100 * count)).matrices for count in (1, 64))
    assert many > 2 * one  # two experts of eight, and all
