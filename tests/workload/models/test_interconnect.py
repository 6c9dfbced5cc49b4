"""Interconnects: all-reduces inside a node, of small and of large messages."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.workload.kernels import GPUS

MEASURED_US = {
    ("h100-sxm", 2): {2: 9.6, 4: 17.1, 8: 37.8, 16: 83.1, 32: 145.6, 128: 467.8},
    ("h100-sxm", 4): {1: 13.2, 2: 22.1, 4: 35.7, 8: 62.9, 16: 101.1, 32: 174.9, 128: 615.4},
    ("h100-sxm", 8): {1: 19.6, 2: 28.3, 4: 46.4, 8: 79.4, 16: 122.8, 32: 198.5, 128: 576.8},
    ("a100-sxm", 4): {1: 23.1, 4: 69.9, 8: 112.5, 16: 185.5, 32: 291.4, 128: 1004.0},
    ("a100-sxm", 8): {4: 75.9, 8: 128.8, 16: 216.8, 32: 374.5, 128: 1173.7},
    ("b200-sxm", 4): {1: 9.8, 2: 14.5, 4: 23.8, 8: 49.5, 16: 78.3, 32: 122.6, 128: 355.6},
}
"""By GPU and ranks, MiB: TensorRT-LLM's all-reduces in bfloat16 (github.com/ai-dynamo/aiconfigurator 095f58a,
custom_allreduce_perf of TensorRT-LLM 1.0.0 on A100, 1.2.0rc5 on H100 and B200)."""


def took_ns(gpu, ranks, size):
    bandwidth, step_ns = GPUS[gpu].interconnect.all_reduce(size, ranks)
    return 2 * math.log2(ranks) * step_ns + 2 * (ranks - 1) / ranks * size * 1e9 / bandwidth


@pytest.mark.parametrize("gpu, ranks", MEASURED_US)
def test_all_reduces_take_what_was_measured(gpu, ranks):
    errors = [
        took_ns(gpu, ranks, size << 20) / 1e3 / measured - 1
        for size, measured in MEASURED_US[gpu, ranks].items()
    ]
    # Two ranks read each other in one step, which is faster for a few MB.
    assert sum(map(abs, errors)) / len(errors) < (0.25 if ranks == 2 else 0.2)
    assert max(map(abs, errors)) < (0.45 if ranks == 2 else 0.4)


SMALL_US = {24: 6.3, 48: 6.7, 96: 7.6, 192: 10.0, 384: 13.1, 768: 16.0, 1536: 24.2}
"""KiB: vLLM's all-reduce on eight MI355X (github.com/vllm-project/vllm, pull request 39080)."""


def test_small_all_reduces_are_those_of_a_servers_kernel():
    for size, measured in SMALL_US.items():
        assert took_ns("mi355x", 8, size << 10) / 1e3 == pytest.approx(measured, rel=0.2), size
    links = GPUS["mi300x"].interconnect
    assert links.all_reduce(0, 8) == (links.small_Bps, links.small_ns // 6)
    # From some MB on the algorithms of few steps, and of many, are faster.
    assert links.all_reduce(4 << 20, 8) == (links.few_steps_Bps, links.inside_ns)
    assert links.all_reduce(1 << 30, 8) == (links.inside_Bps, links.large_ns)


@given(st.sampled_from(list(GPUS)), st.sampled_from([2, 4, 8]), st.integers(1, 1 << 32), st.data())
def test_a_larger_message_takes_no_less(gpu, ranks, size, data):
    more = data.draw(st.integers(1, 1 << 32))
    assert took_ns(gpu, ranks, size) <= took_ns(gpu, ranks, size + more)
    links = GPUS[gpu].interconnect
    assert took_ns(gpu, ranks, size) >= 2 * (ranks - 1) / ranks * size * 1e9 / links.inside_peak_Bps


def test_one_rank_sends_nothing():
    assert took_ns("h100-sxm", 1, 1 << 20) == 0
